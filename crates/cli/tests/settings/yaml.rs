//! Reads the tables, which are YAML, as JSON values.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

enum Open {
    List(Vec<Value>, usize),
    Map(Map<String, Value>, Option<String>, usize),
}

/// The value that a text holds.
pub(crate) fn read(text: &str) -> Value {
    let mut parser = Parser::new_from_str(text);
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: HashMap<usize, Value> = HashMap::new();
    while let Some(event) = parser.next_event() {
        let (event, _) = event.unwrap();
        let (value, anchor) = match event {
            Event::SequenceStart(anchor, _) => {
                open.push(Open::List(Vec::new(), anchor));
                continue;
            }
            Event::MappingStart(anchor, _) => {
                open.push(Open::Map(Map::new(), None, anchor));
                continue;
            }
            Event::Scalar(text, style, anchor, _) => (scalar(&text, style), anchor),
            Event::Alias(anchor) => (anchors[&anchor].clone(), 0),
            Event::SequenceEnd | Event::MappingEnd => match open.pop().unwrap() {
                Open::List(items, anchor) => (Value::Array(items), anchor),
                Open::Map(fields, _, anchor) => (Value::Object(fields), anchor),
            },
            _ => continue,
        };
        if anchor > 0 {
            anchors.insert(anchor, value.clone());
        }
        match open.last_mut() {
            None => return value,
            Some(Open::List(items, _)) => items.push(value),
            Some(Open::Map(fields, key, _)) => match key.take() {
                None => *key = Some(value.as_str().map_or(value.to_string(), str::to_owned)),
                Some(key) => assert!(fields.insert(key.clone(), value).is_none(), "{key} twice"),
            },
        }
    }
    Value::Null
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "null" | "~" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match serde_json::from_str(text) {
            Ok(number @ Value::Number(_)) => number,
            _ => Value::String(text.to_owned()),
        },
    }
}
