//! Deserializes fields that servers fill differently.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::reply::Finish;

/// A text that may be missing, `null`, a number, or a list of parts.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Text, E> {
                Ok(Text(text))
            }

            fn visit_unit<E>(self) -> Result<Text, E> {
                Ok(Text::default())
            }

            fn visit_bool<E>(self, value: bool) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Text, E> {
                Ok(Text(value.to_string()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Text, A::Error> {
                let mut text = String::new();
                while let Some(part) = parts.next_element::<Value>()? {
                    text.push_str(part_text(&part));
                }
                Ok(Text(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
                let part = Value::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(Text(part_text(&part).to_owned()))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// The text of one part: `{"type": "text", "text": …}`, or a plain string. Reasoning is not part of the
/// answer.
fn part_text(part: &Value) -> &str {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
    if matches!(kind, "reasoning" | "thinking") {
        return "";
    }
    let text = part.get("text").unwrap_or(part);
    let text = text.get("value").unwrap_or(text);
    text.as_str().unwrap_or_default()
}

/// The arguments of a whole call: a string with JSON, as the format defines, or the object itself.
#[derive(Debug, PartialEq)]
pub(crate) struct Arguments(pub(crate) Result<Map<String, Value>, String>);

impl Default for Arguments {
    fn default() -> Self {
        Self(Ok(Map::new()))
    }
}

/// Parses arguments. An empty text means no arguments.
pub(crate) fn arguments(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    if let Ok(map) = serde_json::from_str(text) {
        return Ok(map);
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Null) => Ok(Map::new()),
        // Some models encode their JSON twice.
        Ok(Value::String(inner)) => serde_json::from_str(&inner).map_err(|_| text.to_owned()),
        _ => Err(text.to_owned()),
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Arguments;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the arguments of a call")
            }

            fn visit_str<E>(self, text: &str) -> Result<Arguments, E> {
                Ok(Arguments(arguments(text)))
            }

            fn visit_unit<E>(self) -> Result<Arguments, E> {
                Ok(Arguments::default())
            }

            fn visit_bool<E>(self, value: bool) -> Result<Arguments, E> {
                Ok(Arguments(Err(value.to_string())))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Arguments, E> {
                Ok(Arguments(Err(value.to_string())))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Arguments, E> {
                Ok(Arguments(Err(value.to_string())))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Arguments, E> {
                Ok(Arguments(Err(value.to_string())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Arguments, A::Error> {
                let list = Value::deserialize(serde::de::value::SeqAccessDeserializer::new(list))?;
                Ok(Arguments(Err(list.to_string())))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Arguments, A::Error> {
                Map::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                    .map(|map| Arguments(Ok(map)))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A part of streamed arguments: a part of the text, or the whole object.
#[derive(Debug, Default)]
pub(crate) enum ArgumentsPart {
    #[default]
    Nothing,
    /// A part of the text.
    Text(String),
    /// The whole object.
    Whole(Map<String, Value>),
}

impl<'de> Deserialize<'de> for ArgumentsPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Null => Self::Nothing,
            Value::String(text) => Self::Text(text),
            Value::Object(map) => Self::Whole(map),
            other => Self::Text(other.to_string()),
        })
    }
}

/// A token count or a call's index; `None` if it is not a number.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_u64<E>(self, value: u64) -> Result<Count, E> {
                Ok(Count(Some(value)))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Count, E> {
                Ok(Count(u64::try_from(value).ok()))
            }

            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be a whole number in range"
            )]
            fn visit_f64<E>(self, value: f64) -> Result<Count, E> {
                let whole = (0.0..1e15).contains(&value);
                Ok(Count(whole.then_some(value as u64)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Count, E> {
                Ok(Count(text.parse().ok()))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
                Ok(Count(None))
            }

            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Why a model stopped, if the server says so.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishReason(pub(crate) Option<Finish>);

impl<'de> Deserialize<'de> for FinishReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = FinishReason;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a reason to stop")
            }

            fn visit_str<E>(self, reason: &str) -> Result<FinishReason, E> {
                Ok(FinishReason(match reason {
                    "" => None,
                    "length" | "max_tokens" | "MAX_TOKENS" => Some(Finish::Length),
                    "tool_calls" | "function_call" | "tool_use" => Some(Finish::ToolCalls),
                    "content_filter" | "SAFETY" => Some(Finish::ContentFilter),
                    _ => Some(Finish::Stop),
                }))
            }

            fn visit_unit<E>(self) -> Result<FinishReason, E> {
                Ok(FinishReason(None))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
