//! Forwards a thought to a listener while it is generated.

use std::sync::atomic::{AtomicU8, Ordering};

use convoke_engine::{Live, LiveUpdate};
use convoke_llm::Delta;

/// The live text of one thought.
pub(super) struct ThoughtStream<'a> {
    live: &'a Live,
    /// Whether text that looks like JSON may be a tool call, which is not forwarded.
    may_be_call: bool,
    /// The kind of text so far: `NOTHING`, `WORDS` or `CALL`.
    so_far: AtomicU8,
}

/// No text yet.
const NOTHING: u8 = 0;
/// Text for the user.
const WORDS: u8 = 1;
/// Looks like a tool call.
const CALL: u8 = 2;

impl<'a> ThoughtStream<'a> {
    /// Resets the live text of earlier thoughts, which were not the answer.
    pub(super) fn new(live: &'a Live, may_be_call: bool) -> Self {
        live.say(LiveUpdate::Again);
        Self {
            live,
            may_be_call,
            so_far: AtomicU8::new(NOTHING),
        }
    }

    /// Forwards a piece of text.
    pub(super) fn take(&self, delta: Delta<'_>) {
        let Delta::Text(text) = delta else {
            self.so_far.store(NOTHING, Ordering::Relaxed);
            self.live.say(LiveUpdate::Again);
            return;
        };
        let mut so_far = self.so_far.load(Ordering::Relaxed);
        if so_far == NOTHING {
            let Some(first) = text.chars().find(|letter| !letter.is_whitespace()) else {
                return;
            };
            so_far = if self.may_be_call && matches!(first, '{' | '[' | '`' | '<') {
                CALL
            } else {
                WORDS
            };
            self.so_far.store(so_far, Ordering::Relaxed);
        }
        if so_far == WORDS {
            self.live.say(LiveUpdate::Text(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn heard(may_be_call: bool, deltas: &[Delta<'_>]) -> String {
        let heard = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&heard);
        let live = Live::new(move |piece| {
            into.lock().unwrap().push_str(match piece {
                LiveUpdate::Text(text) => text,
                LiveUpdate::Again => "|",
            });
        });
        let thought_stream = ThoughtStream::new(&live, may_be_call);
        for delta in deltas {
            thought_stream.take(*delta);
        }
        heard.lock().unwrap().clone()
    }

    #[test]
    fn text_is_forwarded_immediately() {
        let deltas = [Delta::Text("It "), Delta::Text("is {4}.")];
        assert_eq!(heard(true, &deltas), "|It is {4}.");
    }

    #[test]
    fn text_that_looks_like_a_call_is_not_forwarded() {
        let deltas = [
            Delta::Text("\n"),
            Delta::Text("{\"name\""),
            Delta::Text(": 1}"),
        ];
        assert_eq!(heard(true, &deltas), "|");
        assert_eq!(heard(false, &deltas), "|{\"name\": 1}");
    }

    #[test]
    fn a_stream_that_broke_starts_over() {
        let deltas = [Delta::Text("It"), Delta::Reset, Delta::Text("It is.")];
        assert_eq!(heard(false, &deltas), "|It|It is.");
    }
}
