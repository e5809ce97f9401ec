//! The question to a person before a call: a sentence of the app, or one made from the tool and its arguments.

use convoke_model::Name;
use serde_json::{Map, Value, json};

use crate::assistant::Assistant;

/// Limit of one value in a question, in characters. Of a longer one, the beginning is shown with its length.
const MAX_VALUE_CHARACTERS: usize = 300;

/// The question for a call of a tool: the tool's own `approval_question`, else the app's `messages.approval`.
pub(crate) fn approval_question(
    assistant: &Assistant,
    tool: &str,
    arguments: &Map<String, Value>,
) -> String {
    let own = assistant
        .tool_settings(tool)
        .find_map(|settings| settings.approval_question.as_deref());
    question(assistant, own, tool, arguments)
}

/// The question before a workflow is started: the app's `messages.approval`, with the workflow for the tool.
pub(crate) fn start_question(
    assistant: &Assistant,
    workflow: &Name,
    inputs: &Map<String, Value>,
) -> String {
    question(assistant, None, workflow.as_str(), inputs)
}

/// The question in the app's words. A template that fails never lets a call pass: the question is then made from the tool
/// and its arguments.
fn question(
    assistant: &Assistant,
    own: Option<&str>,
    tool: &str,
    arguments: &Map<String, Value>,
) -> String {
    let details = details(arguments);
    let context = json!({ "tool": tool, "arguments": arguments, "details": details });
    let context = context.as_object().cloned().unwrap_or_default();
    let of_app = assistant.app.config.messages.approval.as_str();
    for template in own.into_iter().chain([of_app]) {
        match assistant.templates.text(template, &context) {
            Ok(question) if !question.is_empty() => return question,
            Ok(_) => tracing::warn!(tool, "the question for an approval is empty"),
            Err(cause) => tracing::warn!(tool, cause, "the question for an approval failed"),
        }
    }
    if details.is_empty() {
        return format!("May I call {tool}?");
    }
    format!("May I call {tool} with {details}?")
}

/// Arguments as words: `title “buy milk”, days 3`.
fn details(arguments: &Map<String, Value>) -> String {
    let given = arguments.iter().filter(|(_, value)| !value.is_null());
    let words = given.map(|(name, value)| format!("{} {}", name.replace('_', " "), words(value)));
    words.collect::<Vec<_>>().join(", ")
}

fn words(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("“{}”", cut(text)),
        Value::Array(items) if items.is_empty() => "nothing".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(words).collect();
            cut(&items.join(" and "))
        }
        Value::Object(fields) => format!("({})", cut(&details(fields))),
    }
}

fn cut(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_VALUE_CHARACTERS {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(MAX_VALUE_CHARACTERS).collect();
    format!("{beginning}… ({length} characters)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_put_into_words() {
        let arguments = json!({
            "order_number": 7, "note": "as agreed", "express": true, "coupon": null,
            "items": ["a", "b"], "to": { "city": "Ulm" },
        });
        assert_eq!(
            details(arguments.as_object().unwrap()),
            "order number 7, note “as agreed”, express yes, items “a” and “b”, to (city “Ulm”)"
        );
        let long = json!({ "text": "x".repeat(1_000) });
        let long = details(long.as_object().unwrap());
        assert!(long.ends_with("x… (1000 characters)”"), "{long}");
    }
}
