//! Extracts JSON from a model's text.

use std::ops::Range;

use serde_json::Value;

/// Limit of opening brackets that are tried and turn out not to be JSON. Bounds the time for a text.
const MAX_FAILED_OPENINGS: usize = 1_000;

/// The JSON in a text: all of it, the first fenced block, or the first object or list in prose. A list
/// without an object, such as a footnote `[1]`, counts only if there is nothing else. Reasoning in
/// `<think>` is skipped.
pub fn extract_json(text: &str) -> Option<Value> {
    let text = after_reasoning(text).trim();
    if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
        return Some(value);
    }
    if let Some(value) = fenced_blocks(text).find_map(|block| serde_json::from_str(block).ok()) {
        return Some(value);
    }
    let mut spare = None;
    for (_, value) in values(text) {
        let holds_object = match &value {
            Value::Array(items) => items.iter().any(Value::is_object),
            _ => true,
        };
        if holds_object {
            return Some(value);
        }
        spare.get_or_insert(value);
    }
    spare
}

/// The text after a model's reasoning, which small models write into the text.
pub(crate) fn after_reasoning(text: &str) -> &str {
    match text.rfind("</think>") {
        Some(at) => &text[at + "</think>".len()..],
        None => text,
    }
}

/// The contents of blocks fenced by three backticks, without the word after the opening fence.
fn fenced_blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").skip(1).step_by(2).map(|block| {
        let word = block
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(block.len());
        block[word..].trim()
    })
}

/// Every outermost object and list of a text, with its range.
pub(crate) fn values(text: &str) -> impl Iterator<Item = (Range<usize>, Value)> {
    let (mut from, mut false_openings) = (0, 0);
    std::iter::from_fn(move || {
        while false_openings < MAX_FAILED_OPENINGS {
            let start = from + text.get(from..)?.find(['{', '['])?;
            let mut reader = serde_json::Deserializer::from_str(&text[start..]).into_iter();
            if let Some(Ok(value)) = reader.next() {
                from = start + reader.byte_offset();
                return Some((start..from, value));
            }
            from = start + 1;
            false_openings += 1;
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_that_is_json_is_parsed() {
        assert_eq!(extract_json(" {\"a\": 1}\n"), Some(json!({"a": 1})));
        assert_eq!(extract_json("[1, 2]"), Some(json!([1, 2])));
    }

    #[test]
    fn a_fenced_block_is_found_with_and_without_its_language() {
        let text = "Here you are:\n```json\n{\"a\": \"```\"}\n```\nAnything else?";
        assert_eq!(extract_json(text), Some(json!({"a": "```"})));
        assert_eq!(extract_json("```\n{\"a\": 2}\n```"), Some(json!({"a": 2})));
        assert_eq!(extract_json("```json {\"a\": 3}"), Some(json!({"a": 3})));
    }

    #[test]
    fn the_first_balanced_object_in_prose_is_found() {
        let text = "As [1] says, {this} is it: {\"a\": {\"b\": \"}\"}} and not {\"c\": 1}.";
        assert_eq!(extract_json(text), Some(json!({"a": {"b": "}"}})));
        assert_eq!(
            extract_json("Take [{\"a\": 1}] please"),
            Some(json!([{"a": 1}]))
        );
        assert_eq!(extract_json("only [1] here"), Some(json!([1])));
    }

    #[test]
    fn reasoning_is_skipped() {
        let text = "<think>maybe {\"a\": 1}?</think>{\"a\": 2}";
        assert_eq!(extract_json(text), Some(json!({"a": 2})));
    }

    #[test]
    fn text_without_json_gives_none() {
        for text in ["", "hello", "{", "[[[[", "{\"a\": ", "{a: 1}", "42"] {
            assert_eq!(extract_json(text), None, "{text}");
        }
    }

    #[test]
    fn many_unclosed_brackets_are_scanned_quickly() {
        // Read from every opening to the end, this would take minutes.
        let text = "{\"a\":[1,".repeat(20_000);
        assert_eq!(extract_json(&text), None);
    }
}
