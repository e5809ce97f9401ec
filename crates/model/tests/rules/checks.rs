//! Rules that need more than one value: the app's names, transitions and whole lists.

use convoke_model::{Invalid, ToolCall};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::runtime::pending_call;
use super::{EARLY, LATE, read};

fn has(result: Result<impl std::fmt::Debug, Invalid>, code: &str) {
    let invalid = result.unwrap_err();
    assert!(invalid.has(code), "{invalid}");
}

#[test]
fn a_tool_call_moves_forward_only() {
    let at: Timestamp = EARLY.parse().unwrap();
    let later: Timestamp = LATE.parse().unwrap();
    let pending = || read::<ToolCall>(&pending_call());
    let started = || pending().start(at).unwrap();
    has(pending().complete(json!(1), later), "tool_call.move");
    has(pending().fail("no", later), "tool_call.move");
    has(pending().time_out("late", later), "tool_call.move");
    has(started().start(at), "tool_call.move");
    let done = started().complete(Value::Null, later).unwrap();
    assert_eq!(done.duration_ms, Some(7_000));
    assert_eq!(
        done.result,
        Some(json!({})),
        "a tool that gives nothing gives an empty object"
    );
    has(done.clone().start(at), "tool_call.move");
    has(done.fail("no", later), "tool_call.move");
    has(
        started().complete(json!(1), at - jiff::SignedDuration::from_secs(1)),
        "tool_call.times",
    );
    has(started().fail(" ", later), "tool_call.error_missing");
}
