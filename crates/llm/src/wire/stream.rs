//! Assembles a streamed answer.

use serde::Deserialize;
use serde_json::Value;

use super::answer::{Content, EmptyReason, WireCall, WireMessage, WireUsage, push_call};
use super::lenient::{ArgumentsPart, Count, FinishReason, arguments};
use super::sse::Events;
use crate::reply::{Delta, Finish, Live, Usage};

/// A streamed answer being assembled.
#[derive(Default)]
pub(crate) struct Stream {
    events: Events,
    answer: Partial,
}

#[derive(Default)]
struct Partial {
    text: String,
    refusal: String,
    calls: Vec<PartialCall>,
    usage: Option<Usage>,
    finish: Option<Finish>,
    /// Whether the end mark was read.
    done: bool,
}

#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    text: String,
    whole: Option<serde_json::Map<String, Value>>,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<ChunkChoice>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ChunkChoice {
    #[serde(default)]
    index: Count,
    #[serde(default)]
    delta: Option<WireMessage<ArgumentsPart>>,
    #[serde(default)]
    message: Option<WireMessage<ArgumentsPart>>,
    #[serde(default)]
    finish_reason: FinishReason,
    #[serde(default)]
    error: Option<Value>,
}

impl Stream {
    /// Adds bytes and passes on new text.
    pub(crate) fn feed(&mut self, bytes: &[u8], live: Live<'_>) -> Result<(), EmptyReason> {
        let Self { events, answer } = self;
        events.feed(bytes, &mut |data: &[u8]| answer.event(data, live))
    }

    /// Whether the end mark was read.
    pub(crate) fn is_done(&self) -> bool {
        self.answer.done
    }

    /// Whether the model has stopped, so that only usage and the end mark can follow.
    pub(crate) fn is_finished(&self) -> bool {
        self.answer.finish.is_some()
    }

    /// Ends the stream. `None` if the answer is incomplete.
    pub(crate) fn end(mut self, live: Live<'_>) -> Result<Option<Content>, EmptyReason> {
        let Self { events, answer } = &mut self;
        match events.end(&mut |data: &[u8]| answer.event(data, live)) {
            // Anything cut off after the reason to stop is not needed.
            Err(EmptyReason::Malformed(_)) if answer.finish.is_some() => {}
            outcome => outcome?,
        }
        // Servers may omit the end mark or the reason to stop; without both, the stream was cut off.
        let complete = self.answer.done || self.answer.finish.is_some();
        Ok(complete.then(|| self.answer.content()))
    }
}

impl Partial {
    fn event(&mut self, data: &[u8], live: Live<'_>) -> Result<(), EmptyReason> {
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        if self.done || data.is_empty() {
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_slice(data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(EmptyReason::Error(error));
        }
        if let Some(usage) = chunk.usage.as_ref().and_then(WireUsage::counted) {
            // Some servers report cumulative usage with every chunk, so the last one counts.
            self.usage = Some(usage);
        }
        for choice in chunk.choices.into_iter().flatten() {
            if choice.index.0.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(error) = choice.error.filter(|error| !error.is_null()) {
                return Err(EmptyReason::Error(error));
            }
            if let Some(message) = choice.delta.or(choice.message) {
                self.chunk(message, live);
            }
            self.finish = choice.finish_reason.0.or(self.finish);
        }
        Ok(())
    }

    fn chunk(&mut self, message: WireMessage<ArgumentsPart>, live: Live<'_>) {
        let text = message.content.0;
        if !text.is_empty() {
            if let Some(live) = live {
                live(Delta::Text(&text));
            }
            if self.text.is_empty() {
                self.text = text;
            } else {
                self.text.push_str(&text);
            }
        }
        self.refusal.push_str(&message.refusal.0);
        for call in message.tool_calls.into_iter().flatten() {
            self.call(call);
        }
    }

    fn call(&mut self, chunk: WireCall<ArgumentsPart>) {
        let (name, arguments) = match chunk.function {
            Some(function) => (function.name.0, function.arguments),
            None => (String::new(), ArgumentsPart::Nothing),
        };
        let id = chunk.id.0;
        let continued = self.continued(chunk.index.0, &id, &name);
        let at = continued.unwrap_or_else(|| {
            self.calls.push(PartialCall {
                index: chunk.index.0,
                ..PartialCall::default()
            });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(at) else {
            return;
        };
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name != name {
            call.name.push_str(&name);
        }
        match arguments {
            ArgumentsPart::Nothing => {}
            ArgumentsPart::Text(text) => call.text.push_str(&text),
            ArgumentsPart::Whole(map) => call.whole = Some(map),
        }
    }

    /// The call that a chunk continues; `None` if it starts a new one. Servers number calls, or send an
    /// id with every chunk or only the first, or number all calls 0. Without such information, a chunk
    /// with a name starts a call and one without continues the last.
    fn continued(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let same = self.calls.iter().rposition(|call| match index {
            Some(index) => call.index == Some(index),
            None => id.is_empty() || call.id == id,
        })?;
        let call = self.calls.get(same)?;
        let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
        let same_id = !id.is_empty() && call.id == id;
        let named_anew = !name.is_empty() && !call.name.is_empty();
        let starts = other_id || (!same_id && named_anew && (index.is_none() || call.is_whole()));
        (!starts).then_some(same)
    }

    fn content(self) -> Content {
        let mut tool_calls = Vec::with_capacity(self.calls.len());
        for call in self.calls {
            let arguments = match call.whole {
                Some(map) => Ok(map),
                None => arguments(&call.text),
            };
            push_call(&mut tool_calls, call.id, call.name, arguments);
        }
        Content {
            text: if self.text.is_empty() {
                self.refusal
            } else {
                self.text
            },
            tool_calls,
            usage: self.usage,
            finish: self.finish,
        }
    }
}

impl PartialCall {
    fn is_whole(&self) -> bool {
        self.whole.is_some() || serde_json::from_str::<serde::de::IgnoredAny>(&self.text).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A stream with everything that can be split: multi-byte characters, carriage returns, comments,
    /// events over several lines, and a call in parts.
    fn whole(line_end: &str) -> Vec<u8> {
        let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
        let call = |arguments: &str| {
            json!({"tool_calls": [{"index": 0, "id": "c", "function": {
                "name": "add", "arguments": arguments}}]})
        };
        let last = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}});
        let lines = [
            ": hello".to_owned(),
            String::new(),
            format!("data: {}", chunk(json!({"content": "Grüße, 日本 "}))),
            String::new(),
            "event: message".to_owned(),
            format!("data:{}", chunk(json!({"content": "🦀\n"}))),
            String::new(),
            format!("data: {}", chunk(call("{\"a\""))),
            String::new(),
            "data: {\"choices\": [{\"delta\":".to_owned(),
            format!("data: {}}}]}}", call(": 1}")),
            String::new(),
            format!("data: {last}"),
            String::new(),
            format!("data: {usage}"),
            String::new(),
            "data: [DONE]".to_owned(),
            String::new(),
        ];
        lines.map(|line| line + line_end).concat().into_bytes()
    }

    fn read(chunks: &[&[u8]]) -> (Content, String) {
        let live_text = Mutex::new(String::new());
        let listen = |delta: Delta<'_>| {
            if let Delta::Text(text) = delta {
                live_text.lock().unwrap().push_str(text);
            }
        };
        let mut stream = Stream::default();
        for chunk in chunks {
            stream.feed(chunk, Some(&listen)).unwrap();
        }
        let content = stream.end(Some(&listen)).unwrap().unwrap();
        (content, live_text.into_inner().unwrap())
    }

    #[test]
    fn a_stream_in_one_piece_is_read() {
        let (content, live_text) = read(&[&whole("\n")]);
        assert_eq!(content.text, "Grüße, 日本 🦀\n");
        assert_eq!(live_text, content.text);
        assert_eq!(content.tool_calls.len(), 1);
        let arguments = content.tool_calls[0].arguments.as_ref().unwrap();
        assert_eq!(Value::from(arguments.clone()), json!({"a": 1}));
        assert_eq!(content.usage.map(|usage| usage.output_tokens), Some(6));
    }

    #[test]
    fn a_stream_cut_before_its_reason_to_stop_is_incomplete() {
        let bytes = whole("\n");
        let text = String::from_utf8(bytes.clone()).unwrap();
        let end = text.find("\"finish_reason\":\"stop\"").unwrap();
        for cut in 0..end {
            let mut stream = Stream::default();
            let ended = stream
                .feed(&bytes[..cut], None)
                .and_then(|()| stream.end(None));
            assert!(!matches!(ended, Ok(Some(_))), "cut at {cut}");
        }
    }

    #[test]
    fn a_stream_cut_after_its_reason_to_stop_is_complete() {
        let bytes = whole("\n");
        let text = String::from_utf8(bytes.clone()).unwrap();
        let reason = text.find("\"finish_reason\":\"stop\"").unwrap();
        let end = reason + text[reason..].find('\n').unwrap();
        for cut in end..bytes.len() {
            let (content, _) = read(&[&bytes[..cut]]);
            assert_eq!(content.text, "Grüße, 日本 🦀\n", "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn any_split_into_chunks_gives_the_same_answer(
            line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
            mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let bytes = whole(line_end);
            cuts.sort_by_key(|cut| cut.index(bytes.len()));
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                let to = cut.index(bytes.len());
                chunks.push(&bytes[from..to]);
                from = to;
            }
            chunks.push(&bytes[from..]);
            prop_assert_eq!(read(&chunks), read(&[&whole("\n")]));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut stream = Stream::default();
            let fed = stream.feed(&bytes, None);
            let ended = stream.end(None);
            prop_assert!(fed.is_err() || !matches!(ended, Ok(Some(_))));
        }
    }
}
