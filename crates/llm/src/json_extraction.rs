//! Finds JSON in what a model wrote around it.

use std::ops::Range;

use serde_json::Value;

/// How many openings of an object or a list are tried that turn out to be none. Beyond that, a text
/// is not looked at any more: it would only cost time.
const MAX_FALSE_OPENINGS: usize = 1_000;

/// The JSON that a text holds: the whole of it, the first fenced block, or the first object or list
/// in running text. A list without an object in it, such as a footnote's `[1]`, counts only if there
/// is nothing better. What a model thought aloud before is passed over.
pub fn extract_json(text: &str) -> Option<Value> {
    let text = spoken(text).trim();
    if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
        return Some(value);
    }
    if let Some(value) = fenced(text).find_map(|block| serde_json::from_str(block).ok()) {
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

/// What comes after a model's thoughts, which small models write into the text.
pub(crate) fn spoken(text: &str) -> &str {
    match text.rfind("</think>") {
        Some(at) => &text[at + "</think>".len()..],
        None => text,
    }
}

/// The insides of the blocks between fences of three backticks, without the word after the opening fence.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").skip(1).step_by(2).map(|block| {
        let word = block
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(block.len());
        block[word..].trim()
    })
}

/// Every object and list of a text that is not inside another, with its place.
pub(crate) fn values(text: &str) -> impl Iterator<Item = (Range<usize>, Value)> {
    let (mut from, mut false_openings) = (0, 0);
    std::iter::from_fn(move || {
        while false_openings < MAX_FALSE_OPENINGS {
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
    fn text_that_is_json_is_taken_as_it_is() {
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
    fn thoughts_are_passed_over() {
        let text = "<think>maybe {\"a\": 1}?</think>{\"a\": 2}";
        assert_eq!(extract_json(text), Some(json!({"a": 2})));
    }

    #[test]
    fn text_without_json_holds_none() {
        for text in ["", "hello", "{", "[[[[", "{\"a\": ", "{a: 1}", "42"] {
            assert_eq!(extract_json(text), None, "{text}");
        }
    }

    #[test]
    fn many_openings_that_never_close_are_read_in_good_time() {
        // Read from every opening to the end, this would take minutes.
        let text = "{\"a\":[1,".repeat(20_000);
        assert_eq!(extract_json(&text), None);
    }
}
