//! What every chat endpoint demands of the messages that it is sent.

use std::collections::HashSet;

use serde_json::Value;

/// Fails unless an endpoint would take the messages: the instruction first, then the user; every
/// call answered once, in the order of the calls and under their ids; no answer without its call.
pub(crate) fn assert_valid(messages: &[Value]) {
    let told = || serde_json::to_string_pretty(messages).unwrap();
    let role = |index: usize| {
        messages
            .get(index)
            .and_then(|message| message["role"].as_str())
    };
    assert_eq!(role(0), Some("system"), "{}", told());
    assert_eq!(role(1), Some("user"), "{}", told());
    let mut open: Vec<&str> = Vec::new();
    for message in &messages[1..] {
        if message["role"] == "tool" {
            assert!(!open.is_empty(), "a result without its call: {}", told());
            assert_eq!(message["tool_call_id"], open.remove(0), "{}", told());
            assert!(is_text(&message["content"]), "an empty result: {}", told());
            continue;
        }
        assert!(open.is_empty(), "calls without their results: {}", told());
        assert_ne!(message["role"], "system", "{}", told());
        let calls = message["tool_calls"].as_array();
        if let Some(calls) = calls {
            assert_eq!(message["role"], "assistant", "{}", told());
            assert!(!calls.is_empty(), "{}", told());
            let mut ids = HashSet::new();
            for call in calls {
                let id = call["id"].as_str().unwrap_or_default();
                assert!(!id.is_empty() && ids.insert(id), "an id twice: {}", told());
                assert_eq!(call["type"], "function", "{}", told());
                assert!(is_function(&call["function"]), "no function: {}", told());
                open.push(id);
            }
        } else {
            assert!(is_text(&message["content"]), "an empty message: {}", told());
        }
    }
    assert!(open.is_empty(), "calls without their results: {}", told());
    assert_ne!(messages.last().unwrap()["role"], "system");
}

fn is_text(content: &Value) -> bool {
    content.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// A name as the format allows it, and arguments that are a string with a JSON object in it.
fn is_function(function: &Value) -> bool {
    let name = function["name"].as_str().unwrap_or_default();
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let arguments = function["arguments"].as_str().unwrap_or_default();
    (1..=64).contains(&name.len())
        && name.chars().all(allowed)
        && serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object())
}
