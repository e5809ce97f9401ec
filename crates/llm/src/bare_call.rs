//! Finds tool calls that a model wrote into its text because its server did not recognise them.

use serde_json::{Map, Value};

use crate::json_extraction::{after_reasoning, values};
use crate::reply::ModelCall;
use crate::request::ToolSpec;
use crate::wire::lenient;

/// The tool calls in a text as JSON: `{"name": …, "arguments": …}`, alone, in a list, in sequence,
/// between `<tool_call>` tags or in prose; with `parameters`, `args` or `input` for the arguments, and
/// `function` or `tool` for the name; or `<function=name>{…}</function>`.
///
/// Only calls of offered tools count, so that JSON answers remain answers.
pub fn bare_calls(text: &str, tools: &[ToolSpec]) -> Vec<ModelCall> {
    let text = after_reasoning(text);
    let mut calls = Vec::new();
    for (place, value) in values(text) {
        match named_before(&text[..place.start], tools) {
            Some(name) => calls.extend(call(name, Some(&value))),
            None => collect(&value, tools, &mut calls),
        }
    }
    calls
}

/// The first of [`bare_calls`].
pub fn bare_call(text: &str, tools: &[ToolSpec]) -> Option<ModelCall> {
    bare_calls(text, tools).into_iter().next()
}

/// The tool in `<function=name>` directly before the arguments.
fn named_before<'t>(before: &str, tools: &'t [ToolSpec]) -> Option<&'t str> {
    let name = before.trim_end().strip_suffix('>')?;
    let (_, name) = name.rsplit_once("<function=")?;
    offered_tool(name.trim().trim_matches('"'), tools)
}

fn collect(value: &Value, tools: &[ToolSpec], calls: &mut Vec<ModelCall>) {
    match value {
        Value::Array(items) => {
            for item in items {
                collect(item, tools, calls);
            }
        }
        Value::Object(fields) => {
            if let Some(inner @ Value::Array(_)) = fields.get("tool_calls") {
                collect(inner, tools, calls);
            } else if let Some(inner @ Value::Object(_)) = ["function", "tool_call"]
                .iter()
                .find_map(|key| fields.get(*key))
            {
                collect(inner, tools, calls);
            } else {
                calls.extend(call_of_object(fields, tools));
            }
        }
        _ => {}
    }
}

/// An object with a name and arguments, or with only a tool's name.
fn call_of_object(fields: &Map<String, Value>, tools: &[ToolSpec]) -> Option<ModelCall> {
    let name = ["name", "function", "tool", "tool_name"]
        .iter()
        .find_map(|key| fields.get(*key)?.as_str())?;
    let name = offered_tool(name.trim(), tools)?;
    let arguments = ["arguments", "parameters", "args", "input"]
        .iter()
        .find_map(|key| fields.get(*key));
    if arguments.is_none() && fields.len() > 1 {
        return None;
    }
    call(name, arguments)
}

fn call(name: &str, arguments: Option<&Value>) -> Option<ModelCall> {
    let arguments = match arguments {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(map)) => map.clone(),
        Some(Value::String(text)) => lenient::arguments(text).ok()?,
        Some(_) => return None,
    };
    Some(ModelCall {
        id: None,
        name: name.to_owned(),
        arguments: Ok(arguments),
    })
}

fn offered_tool<'t>(name: &str, tools: &'t [ToolSpec]) -> Option<&'t str> {
    tools.iter().map(ToolSpec::name).find(|tool| *tool == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(text: &str) -> Vec<(String, Value)> {
        let schema = json!({"type": "object"});
        let tools = [
            ToolSpec::new("add", "Adds.", schema.clone()),
            ToolSpec::new("list", "Lists.", schema),
        ];
        bare_calls(text, &tools)
            .into_iter()
            .map(|call| (call.name, Value::Object(call.arguments.unwrap())))
            .collect()
    }

    #[test]
    fn every_usual_form_of_a_call_is_recognised() {
        let add = vec![("add".to_owned(), json!({"a": 1}))];
        for text in [
            r#"{"name": "add", "arguments": {"a": 1}}"#,
            r#"{"name": "add", "parameters": {"a": 1}}"#,
            r#"{"name": "add", "arguments": "{\"a\": 1}"}"#,
            r#"{"function": "add", "arguments": {"a": 1}}"#,
            r#"{"tool": "add", "input": {"a": 1}}"#,
            r#"{"function": {"name": "add", "arguments": {"a": 1}}}"#,
            r#"{"type": "function", "function": {"name": "add", "parameters": {"a": 1}}}"#,
            r#"{"tool_calls": [{"function": {"name": "add", "arguments": "{\"a\":1}"}}]}"#,
            r#"[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}}]"#,
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>",
            "I will add.\n```json\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n```",
            "<function=add>{\"a\": 1}</function>",
            "<think>{\"name\": \"list\"}</think>{\"name\": \"add\", \"arguments\": {\"a\": 1}}",
        ] {
            assert_eq!(found(text), add, "{text}");
        }
    }

    #[test]
    fn several_calls_keep_their_order() {
        let both = vec![
            ("list".to_owned(), json!({})),
            ("add".to_owned(), json!({"a": 1})),
        ];
        for text in [
            r#"[{"name": "list"}, {"name": "add", "arguments": {"a": 1}}]"#,
            "{\"name\": \"list\", \"arguments\": null}\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}",
            "<tool_call>{\"name\": \"list\", \"arguments\": {}}</tool_call>\
             <tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>",
        ] {
            assert_eq!(found(text), both, "{text}");
        }
    }

    #[test]
    fn json_without_an_offered_tool_stays_an_answer() {
        for text in [
            "add",
            r#"{"name": "remove", "arguments": {}}"#,
            r#"{"name": "add", "price": 3}"#,
            r#"{"name": "add", "arguments": [1]}"#,
            r#"{"arguments": {"a": 1}}"#,
            r#"{"a": {"name": "add", "arguments": {}}}"#,
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
