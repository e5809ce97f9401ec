//! The body of the fuzz target `model_reply`.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::bare_call::bare_calls;
use crate::json_extraction::extract_json;
use crate::reply::{Delta, ModelCall};
use crate::request::ToolSpec;
use crate::wire::answer::{self, Content};
use crate::wire::lenient;
use crate::wire::server_error::ServerError;
use crate::wire::stream::Stream;

/// Limit of a server's message in characters, including the truncation mark.
const MAX_SERVER_MESSAGE: usize = 501;

/// Parses the same bytes as every kind of model answer. Says whether they are one, whole, as a stream or in a text.
pub fn model_reply(input: &[u8]) -> bool {
    let answer = answer::read(input);
    if let Ok(content) = &answer {
        assert_is_sound(content);
    }
    let whole = streamed(std::iter::once(input));
    for size in [1, 7] {
        assert_eq!(
            streamed(input.chunks(size)),
            whole,
            "in pieces of {size} bytes"
        );
    }
    let server_error = ServerError::read(input);
    assert!(server_error.message.chars().count() <= MAX_SERVER_MESSAGE);
    assert!((400..600).contains(&server_error.inner_status()));
    let text = String::from_utf8_lossy(input);
    let _ = lenient::arguments(&text);
    let _ = extract_json(&text);
    let tools = ["add", "list"].map(|name| ToolSpec::new(name, "", json!({"type": "object"})));
    let calls = bare_calls(&text, &tools);
    for call in &calls {
        assert!(["add", "list"].contains(&call.name.as_str()), "{call:?}");
        assert!(call.arguments.is_ok() && call.id.is_none(), "{call:?}");
    }
    answer.is_ok() || whole.is_some() || !calls.is_empty()
}

/// The result of streaming these chunks: the answer, and the text passed on live.
fn streamed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Option<(Content, String)> {
    let live_text = Mutex::new(String::new());
    let listen = |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            live_text
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_str(text);
        }
    };
    let mut stream = Stream::default();
    for chunk in pieces {
        stream.feed(chunk, Some(&listen)).ok()?;
    }
    let content = stream.end(Some(&listen)).ok()??;
    assert_is_sound(&content);
    let live_text = live_text
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    // A refusal replaces a text and is not passed on live.
    assert!(
        live_text == content.text || live_text.is_empty(),
        "heard {live_text:?} of {content:?}"
    );
    Some((content, live_text))
}

/// No two calls have the same id, and none is empty.
fn assert_is_sound(content: &Content) {
    let mut ids = HashSet::new();
    let named = |call: &ModelCall| call.id.clone();
    for id in content.tool_calls.iter().filter_map(named) {
        assert!(!id.is_empty() && ids.insert(id), "{content:?}");
    }
    let _ = content.finish();
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_corpus_reply_reads_the_same_in_any_chunks() {
        convoke_testkit::replay("model_reply", super::model_reply);
    }
}
