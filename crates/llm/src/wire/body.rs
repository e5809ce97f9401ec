//! Writes a request directly from borrowed data, without an intermediate tree, because a conversation is
//! written again on every turn.

use std::io::{self, Write};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use convoke_model::{BlobHash, LlmConfig, Message, Part, Role, ToolCall};
use serde::Serialize;

use crate::request::{ChatRequest, ImageContent, Output};

/// The variant of the format that a model needs, learned from its errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// The limit is named `max_completion_tokens`, as OpenAI's reasoning models need.
    pub(crate) completion_limit: bool,
    /// The temperature is left out.
    pub(crate) no_temperature: bool,
    /// Usage is not requested in streams.
    pub(crate) no_stream_options: bool,
}

/// The body of a request to one model.
pub(crate) fn write(
    request: &ChatRequest<'_>,
    config: &LlmConfig,
    dialect: Dialect,
) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(expected_size(request));
    out.extend_from_slice(b"{\"model\":");
    json(&mut out, &config.model)?;
    out.extend_from_slice(b",\"messages\":[");
    messages(&mut out, request, config.images)?;
    out.push(b']');
    if !request.tools.is_empty() {
        for (index, tool) in request.tools.iter().enumerate() {
            let before: &[u8] = if index == 0 { b",\"tools\":[" } else { b"," };
            out.extend_from_slice(before);
            out.extend_from_slice(tool.wire().as_bytes());
        }
        out.push(b']');
    }
    if !dialect.no_temperature {
        out.extend_from_slice(b",\"temperature\":");
        json(&mut out, &request.temperature)?;
    }
    if let Some(limit) = request.max_output_tokens {
        out.extend_from_slice(if dialect.completion_limit {
            b",\"max_completion_tokens\":"
        } else {
            b",\"max_tokens\":"
        });
        json(&mut out, &limit)?;
    }
    if let Output::JsonSchema { name, schema } = request.output {
        out.extend_from_slice(
            b",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":",
        );
        json(&mut out, name)?;
        out.extend_from_slice(b",\"schema\":");
        json(&mut out, schema)?;
        out.extend_from_slice(b"}}");
    }
    if request.stream {
        out.extend_from_slice(b",\"stream\":true");
        if !dialect.no_stream_options {
            out.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
        }
    }
    out.push(b'}');
    Ok(out)
}

/// Close to the final size, so that the buffer grows at most once or twice.
fn expected_size(request: &ChatRequest<'_>) -> usize {
    let bytes: usize = request
        .messages
        .iter()
        .map(|message| message.content.len() + 64 + message.tool_calls.len() * 192)
        .sum();
    let tools: usize = request.tools.iter().map(|tool| tool.wire().len() + 1).sum();
    512 + request.system.len() + bytes + tools
}

fn messages(
    out: &mut Vec<u8>,
    request: &ChatRequest<'_>,
    shows_images: bool,
) -> serde_json::Result<()> {
    let mut first = true;
    if !request.system.is_empty() {
        first = false;
        out.extend_from_slice(b"{\"role\":\"system\",\"content\":");
        json(out, request.system)?;
        out.push(b'}');
    }
    // Calls that the following tool messages answer.
    let mut open: &[ToolCall] = &[];
    let mut answered = 0;
    for message in request.messages {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        out.extend_from_slice(match message.role {
            Role::User => b"{\"role\":\"user\",\"content\":",
            Role::Assistant => b"{\"role\":\"assistant\",\"content\":",
            Role::Tool => b"{\"role\":\"tool\",\"content\":",
            Role::System => b"{\"role\":\"system\",\"content\":",
        });
        let has_images = message.parts.iter().any(|part| image(part).is_some());
        if has_images {
            with_images(out, message, request.images, shows_images)?;
        } else if message.content.is_empty() {
            out.extend_from_slice(b"null");
        } else {
            json(out, &message.content)?;
        }
        match message.role {
            Role::Assistant => {
                open = &message.tool_calls;
                answered = 0;
                tool_calls(out, open, request)?;
            }
            Role::Tool => {
                out.extend_from_slice(b",\"tool_call_id\":");
                answered_call(out, message, open, answered)?;
                answered += 1;
            }
            Role::User | Role::System => {}
        }
        out.push(b'}');
    }
    Ok(())
}

fn image(part: &Part) -> Option<(&str, BlobHash, u64)> {
    match part {
        Part::Image {
            media_type,
            blob,
            bytes,
        } => Some((media_type, *blob, *bytes)),
        _ => None,
    }
}

/// The content of a message that carries images: a list of the text and the images. A model that understands none is
/// told of them in the text.
fn with_images(
    out: &mut Vec<u8>,
    message: &Message,
    known: &[ImageContent],
    shows_images: bool,
) -> serde_json::Result<()> {
    let mut text = message.content.clone();
    let mut shown = Vec::new();
    for (media_type, blob, bytes) in message.parts.iter().filter_map(image) {
        match known.iter().find(|image| image.blob == blob) {
            Some(image) if shows_images => shown.push((media_type, image)),
            _ => {
                let note =
                    format!("\n\nAttached image ({media_type}, {bytes} bytes), which is not shown");
                text.push_str(&note);
            }
        }
    }
    if shown.is_empty() {
        return json(out, &text);
    }
    out.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
    json(out, &text)?;
    out.push(b'}');
    for (media_type, image) in shown {
        out.extend_from_slice(b",{\"type\":\"image_url\",\"image_url\":{\"url\":");
        let content = BASE64_STANDARD.encode(&image.content);
        json(out, &format!("data:{media_type};base64,{content}"))?;
        out.extend_from_slice(b"}}");
    }
    out.push(b']');
    Ok(())
}

fn tool_calls(
    out: &mut Vec<u8>,
    calls: &[ToolCall],
    request: &ChatRequest<'_>,
) -> serde_json::Result<()> {
    for (index, call) in calls.iter().enumerate() {
        let before: &[u8] = if index == 0 {
            b",\"tool_calls\":["
        } else {
            b","
        };
        out.extend_from_slice(before);
        out.extend_from_slice(b"{\"id\":");
        call_id(out, call)?;
        out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
        json(out, &*request.tool_names.wire_name(call))?;
        // The format has the arguments as a string that contains JSON.
        out.extend_from_slice(b",\"arguments\":\"");
        serde_json::to_writer(JsonStringWriter(out), &call.arguments)?;
        out.extend_from_slice(b"\"}}");
    }
    if !calls.is_empty() {
        out.push(b']');
    }
    Ok(())
}

/// The id under which the model knows the call.
fn call_id(out: &mut Vec<u8>, call: &ToolCall) -> serde_json::Result<()> {
    match &call.model_call_id {
        Some(id) => json(out, id),
        None => json(out, &*call.id.hyphenated().encode_lower(&mut [0; 36])),
    }
}

/// A tool message may refer to its call by the model's id or by ours; without an id it answers the next
/// call.
fn answered_call(
    out: &mut Vec<u8>,
    message: &Message,
    open: &[ToolCall],
    answered: usize,
) -> serde_json::Result<()> {
    let Some(named) = &message.tool_call_id else {
        return match open.get(answered) {
            Some(call) => call_id(out, call),
            None => json(out, ""),
        };
    };
    let ours = open
        .iter()
        .find(|call| *call.id.hyphenated().encode_lower(&mut [0; 36]) == **named);
    match ours {
        Some(call) => call_id(out, call),
        None => json(out, named),
    }
}

fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> serde_json::Result<()> {
    serde_json::to_writer(out, value)
}

/// Writes JSON inside a JSON string. JSON has no raw control characters, so only quotes and backslashes
/// are escaped.
struct JsonStringWriter<'a>(&'a mut Vec<u8>);

impl Write for JsonStringWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'"' | b'\\')) {
            match piece {
                [plain @ .., quoted @ (b'"' | b'\\')] => {
                    self.0.extend_from_slice(plain);
                    self.0.extend_from_slice(&[b'\\', *quoted]);
                }
                plain => self.0.extend_from_slice(plain),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;

    use convoke_model::{LlmConfig, MessageFields, Name, ToolCallFields};
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::request::{ToolSpec, tool_names};

    const AT: Timestamp = Timestamp::UNIX_EPOCH;
    const NO_MODELS: &[LlmConfig] = &[];

    fn call(number: u128, model_call_id: Option<&str>, arguments: &Value) -> ToolCall {
        let arguments = arguments.as_object().unwrap().clone();
        let call = ToolCall::pending(
            Uuid::from_u128(number),
            Name::new("calc").unwrap(),
            "add",
            arguments,
        );
        let fields = ToolCallFields {
            model_call_id: model_call_id.map(str::to_owned),
            ..call.unwrap().into_fields()
        };
        ToolCall::new(fields).unwrap()
    }

    fn written(request: &ChatRequest<'_>, dialect: Dialect) -> Value {
        written_for(&model(false), request, dialect)
    }

    fn model(images: bool) -> LlmConfig {
        let config = json!({ "endpoint": "http://m", "model": "the \"model\"", "images": images });
        serde_json::from_value(config).unwrap()
    }

    fn written_for(model: &LlmConfig, request: &ChatRequest<'_>, dialect: Dialect) -> Value {
        serde_json::from_slice(&write(request, model, dialect).unwrap()).unwrap()
    }

    fn messages_of(messages: &[Message]) -> Value {
        let request = ChatRequest::new(NO_MODELS, messages);
        written(&request, Dialect::default())["messages"].clone()
    }

    #[test]
    fn a_model_is_shown_an_image_or_told_of_it() {
        let (blob, content): (BlobHash, Arc<[u8]>) =
            (BlobHash::of_digest([7; 32]), [1_u8, 2, 3].into());
        let message = Message::new(MessageFields {
            parts: vec![Part::Image {
                media_type: "image/png".into(),
                blob,
                bytes: 3,
            }],
            ..MessageFields::draft(Role::User, "What is this?", AT)
        });
        let messages = [message.unwrap()];
        let images = [ImageContent { blob, content }];
        let request = ChatRequest {
            images: &images,
            ..ChatRequest::new(NO_MODELS, &messages)
        };
        let content = |images| {
            let written = written_for(&model(images), &request, Dialect::default());
            written["messages"][0]["content"].clone()
        };
        assert_eq!(
            content(true),
            json!([
                { "type": "text", "text": "What is this?" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AQID" } },
            ])
        );
        let told = "What is this?\n\nAttached image (image/png, 3 bytes), which is not shown";
        assert_eq!(content(false), json!(told));
    }

    #[test]
    fn every_role_is_written_as_the_format_wants_it() {
        let awkward = "quote \" backslash \\ line\nend \u{1} é 日";
        let arguments = json!({"text": awkward, "n": [1, null]});
        let messages = [
            Message::system("Be brief.", AT).unwrap(),
            Message::user(awkward, AT).unwrap(),
            Message::calling("", vec![call(1, Some("c\"1"), &arguments)], AT).unwrap(),
            Message::tool("c\"1", "3", AT).unwrap(),
            Message::assistant("It is 3.", AT).unwrap(),
        ];
        let request = ChatRequest {
            system: "You add.",
            ..ChatRequest::new(NO_MODELS, &messages)
        };
        let body = written(&request, Dialect::default());
        let function = json!({"name": "calc__add", "arguments": arguments.to_string()});
        let expected = json!({
            "model": "the \"model\"",
            "messages": [
                {"role": "system", "content": "You add."},
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": awkward},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c\"1", "type": "function", "function": function},
                ]},
                {"role": "tool", "content": "3", "tool_call_id": "c\"1"},
                {"role": "assistant", "content": "It is 3."},
            ],
            "temperature": 0.7,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn a_result_finds_its_call_by_either_id_or_by_order() {
        let none = json!({});
        let calls = vec![
            call(1, Some("x"), &none),
            call(2, None, &none),
            call(3, Some("z"), &none),
        ];
        let unnamed = MessageFields {
            tool_call_id: None,
            ..Message::tool("z", "c", AT).unwrap().into_fields()
        };
        let ours = Uuid::from_u128(1).to_string();
        let second = Uuid::from_u128(2).to_string();
        let messages = messages_of(&[
            Message::calling("", calls, AT).unwrap(),
            Message::tool(ours, "a", AT).unwrap(),
            Message::tool(second.clone(), "b", AT).unwrap(),
            Message::new(unnamed).unwrap(),
            Message::tool("elsewhere", "d", AT).unwrap(),
        ]);
        assert_eq!(messages[0]["tool_calls"][1]["id"], json!(second));
        assert_eq!(messages[1]["tool_call_id"], "x");
        assert_eq!(messages[2]["tool_call_id"], json!(second));
        assert_eq!(messages[3]["tool_call_id"], "z");
        assert_eq!(messages[4]["tool_call_id"], "elsewhere");
    }

    #[test]
    fn calls_are_named_by_the_caller() {
        fn shouted(call: &ToolCall) -> Cow<'_, str> {
            call.tool.to_uppercase().into()
        }
        let messages = [Message::calling("", vec![call(1, None, &json!({}))], AT).unwrap()];
        let request = ChatRequest {
            tool_names: &shouted,
            ..ChatRequest::new(NO_MODELS, &messages)
        };
        let prefix = String::from("my_");
        let prefixed = tool_names(|call| format!("{prefix}{}", call.tool).into());
        let named = |request: &ChatRequest<'_>| {
            let body = written(request, Dialect::default());
            body["messages"][0]["tool_calls"][0]["function"].clone()
        };
        assert_eq!(named(&request), json!({"name": "ADD", "arguments": "{}"}));
        let request = ChatRequest {
            tool_names: &prefixed,
            ..request
        };
        assert_eq!(named(&request)["name"], "my_add");
    }

    #[test]
    fn tools_limits_schema_and_stream_are_written_when_set() {
        let schema = json!({"type": "object", "required": ["a"]});
        let tools = [
            ToolSpec::new("a", "A.", schema.clone()),
            ToolSpec::new("b", "B.", Value::Null),
        ];
        let request = ChatRequest {
            tools: &tools,
            temperature: 0.0,
            max_output_tokens: Some(500),
            output: Output::JsonSchema {
                name: "reply",
                schema: &schema,
            },
            stream: true,
            ..ChatRequest::new(NO_MODELS, &[])
        };
        let body = written(&request, Dialect::default());
        assert_eq!(body["temperature"], 0.0);
        assert_eq!(body["max_tokens"], 500);
        assert_eq!(body["tools"][0]["function"]["parameters"], schema);
        let empty = json!({"type": "object", "properties": {}});
        assert_eq!(body["tools"][1]["function"]["parameters"], empty);
        let format = json!({
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": schema},
        });
        assert_eq!(body["response_format"], format);
        assert_eq!(body["stream"], true);
        assert_eq!(body["stream_options"]["include_usage"], true);
    }

    #[test]
    fn a_dialect_changes_the_spelling_only() {
        let request = ChatRequest {
            max_output_tokens: Some(500),
            stream: true,
            ..ChatRequest::new(NO_MODELS, &[])
        };
        let dialect = Dialect {
            completion_limit: true,
            no_temperature: true,
            no_stream_options: true,
        };
        let expected = json!({
            "model": "the \"model\"",
            "messages": [],
            "max_completion_tokens": 500,
            "stream": true,
        });
        assert_eq!(written(&request, dialect), expected);
    }
}
