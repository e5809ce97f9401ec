//! The body of the fuzz target `model_reply`.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::bare_call::bare_calls;
use crate::found_json::extract_json;
use crate::reply::{Delta, ModelCall};
use crate::request::ToolSpec;
use crate::wire::answer::{self, Content};
use crate::wire::complaint::Complaint;
use crate::wire::lenient;
use crate::wire::stream::Stream;

/// The longest complaint of a server that is passed on, in characters, with the mark that it was cut.
const MAX_COMPLAINT: usize = 501;

/// Reads the same bytes in every way in which a model's answer is read.
pub fn model_reply(input: &[u8]) {
    if let Ok(content) = answer::read(input) {
        assert_is_sound(&content);
    }
    let whole = streamed(std::iter::once(input));
    for size in [1, 7] {
        assert_eq!(
            streamed(input.chunks(size)),
            whole,
            "in pieces of {size} bytes"
        );
    }
    let complaint = Complaint::read(input);
    assert!(complaint.message.chars().count() <= MAX_COMPLAINT);
    assert!((400..600).contains(&complaint.inner_status()));
    let text = String::from_utf8_lossy(input);
    let _ = lenient::arguments(&text);
    let _ = extract_json(&text);
    let tools = ["add", "list"].map(|name| ToolSpec::new(name, "", json!({"type": "object"})));
    for call in bare_calls(&text, &tools) {
        assert!(["add", "list"].contains(&call.name.as_str()), "{call:?}");
        assert!(call.arguments.is_ok() && call.id.is_none(), "{call:?}");
    }
}

/// What a stream says that comes in these pieces: the answer, and what was heard of it on the way.
fn streamed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Option<(Content, String)> {
    let heard = Mutex::new(String::new());
    let listen = |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_str(text);
        }
    };
    let mut stream = Stream::default();
    for piece in pieces {
        stream.feed(piece, Some(&listen)).ok()?;
    }
    let content = stream.end(Some(&listen)).ok()??;
    assert_is_sound(&content);
    let heard = heard.into_inner().unwrap_or_else(PoisonError::into_inner);
    // A refusal takes the place of a text, and is not heard on the way.
    assert!(
        heard == content.text || heard.is_empty(),
        "heard {heard:?} of {content:?}"
    );
    Some((content, heard))
}

/// No two calls have the same id, and none has an empty one.
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
    fn every_kept_reply_and_changes_of_it_say_the_same_in_any_pieces() {
        convoke_testkit::replay("model_reply", super::model_reply);
    }
}
