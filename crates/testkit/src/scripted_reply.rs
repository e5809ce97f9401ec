//! Replies of the scripted model, valid and invalid.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// One reply of a [`ScriptedModel`](crate::ScriptedModel).
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    part: ScriptedPart,
    ending: Ending,
    gate: Option<Arc<Semaphore>>,
}

#[derive(Debug, Clone)]
enum ScriptedPart {
    /// An assistant's message, streamed if requested.
    Message { text: String, calls: Vec<Value> },
    /// Exactly these chunks.
    Chunks(Vec<Bytes>, &'static str),
    /// No response at all.
    Nothing,
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    Proper,
    /// The connection breaks after this many bytes of the body.
    Cut(usize),
    /// Nothing more is sent after this many bytes of the body.
    Stall(usize),
}

impl Reply {
    /// A text, streamed if requested.
    pub fn text(text: impl Into<String>) -> Self {
        Self::part(ScriptedPart::Message {
            text: text.into(),
            calls: Vec::new(),
        })
    }

    /// Tool calls with the ids `call_0`, `call_1` and so on.
    pub fn tool_calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let calls = calls
            .into_iter()
            .enumerate()
            .map(|(index, (name, arguments))| {
                json!({
                    "id": format!("call_{index}"),
                    "type": "function",
                    "function": {"name": name, "arguments": arguments.to_string()},
                })
            });
        Self::part(ScriptedPart::Message {
            text: String::new(),
            calls: calls.collect(),
        })
    }

    /// A stream of exactly these chunks, which may split lines and characters.
    pub fn sse<B: Into<Bytes>>(chunks: impl IntoIterator<Item = B>) -> Self {
        let chunks = chunks.into_iter().map(Into::into).collect();
        Self::part(ScriptedPart::Chunks(chunks, "text/event-stream"))
    }

    /// JSON with status 200.
    pub fn raw(body: &Value) -> Self {
        Self::bytes(body.to_string())
    }

    /// Bytes with status 200, declared as JSON.
    pub fn bytes(body: impl Into<Bytes>) -> Self {
        Self::part(ScriptedPart::Chunks(vec![body.into()], "application/json"))
    }

    pub fn status(status: u16) -> Self {
        Self::refusal(status, "scripted")
    }

    /// An error status with a message.
    pub fn refusal(status: u16, message: &str) -> Self {
        Self::raw(&json!({"error": {"message": message, "type": "scripted_error"}}))
            .with_status(status)
    }

    pub fn hang() -> Self {
        Self::part(ScriptedPart::Nothing)
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a `Retry-After`: seconds or a date.
    #[must_use]
    pub fn retry_after(self, value: &str) -> Self {
        self.header("retry-after", value)
    }

    /// Breaks the connection after this many bytes of the body.
    #[must_use]
    pub fn cut(self, after: usize) -> Self {
        Self {
            ending: Ending::Cut(after),
            ..self
        }
    }

    /// Sends nothing more after this many bytes of the body.
    #[must_use]
    pub fn stall(self, after: usize) -> Self {
        Self {
            ending: Ending::Stall(after),
            ..self
        }
    }

    /// Waits for a permit of the gate, and consumes it.
    #[must_use]
    pub fn gated(self, gate: &Arc<Semaphore>) -> Self {
        Self {
            gate: Some(gate.clone()),
            ..self
        }
    }

    fn part(part: ScriptedPart) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            part,
            ending: Ending::Proper,
            gate: None,
        }
    }

    /// The HTTP response to a request.
    pub(crate) async fn response(self, request: &Value) -> Response<Body> {
        if let Some(gate) = &self.gate
            && let Ok(permit) = gate.acquire().await
        {
            permit.forget();
        }
        let streams = request["stream"] == json!(true);
        let (chunks, kind) = match self.part {
            ScriptedPart::Nothing => pending::<(Vec<Bytes>, &str)>().await,
            ScriptedPart::Chunks(chunks, kind) => (chunks, kind),
            ScriptedPart::Message { text, calls } if streams => {
                (streamed(&text, calls), "text/event-stream")
            }
            ScriptedPart::Message { text, calls } => {
                (vec![whole(&text, &calls)], "application/json")
            }
        };
        let mut response = Response::new(body(chunks, self.ending));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        for (name, value) in self.headers {
            let name = HeaderName::try_from(name);
            let value = HeaderValue::try_from(value);
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

fn usage() -> Value {
    json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})
}

fn whole(text: &str, calls: &[Value]) -> Bytes {
    let mut message = json!({"role": "assistant", "content": text});
    let mut finish = "stop";
    if !calls.is_empty() {
        message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        finish = "tool_calls";
    }
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage(),
    })
    .to_string()
    .into()
}

/// One event per word, one per call, the reason to stop, the usage, and the end mark.
fn streamed(text: &str, calls: Vec<Value>) -> Vec<Bytes> {
    let finish = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let mut deltas = vec![json!({"role": "assistant", "content": null})];
    deltas.extend(
        text.split_inclusive(' ')
            .map(|word| json!({"content": word})),
    );
    for (index, mut call) in calls.into_iter().enumerate() {
        call["index"] = json!(index);
        deltas.push(json!({"tool_calls": [call]}));
    }
    let mut events: Vec<Value> = deltas
        .into_iter()
        .map(|delta| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
        .collect();
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}));
    events.push(json!({"choices": [], "usage": usage()}));
    events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .chain(["data: [DONE]\n\n".to_owned()])
        .map(Bytes::from)
        .collect()
}

enum Step {
    Send(Bytes),
    Break,
    Hang,
}

fn body(chunks: Vec<Bytes>, ending: Ending) -> Body {
    let (mut left, last) = match ending {
        Ending::Proper => (usize::MAX, None),
        Ending::Cut(after) => (after, Some(Step::Break)),
        Ending::Stall(after) => (after, Some(Step::Hang)),
    };
    let mut steps = Vec::new();
    for chunk in chunks {
        let chunk = chunk.slice(..chunk.len().min(left));
        left -= chunk.len();
        if !chunk.is_empty() {
            steps.push(Step::Send(chunk));
        }
    }
    steps.extend(last);
    let frames = stream::unfold(steps.into_iter(), |mut steps| async {
        // The server flushes whenever the body is not ready immediately.
        yield_now().await;
        match steps.next()? {
            Step::Send(chunk) => Some((Ok(Frame::data(chunk)), steps)),
            Step::Break => Some((Err(io::Error::other("cut as the script says")), steps)),
            Step::Hang => pending::<Result<_, Infallible>>().await.ok(),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}
