//! Every known deviation of servers from the format is accepted.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod asking;

use std::time::Duration;

use asking::{DONE, add, answer, ask, ask_with, event, hello, model, options, scripted, stop};
use convoke_llm::{ChatReply, ChatRequest, Finish, ModelCall, ModelClient, Options, Usage};
use convoke_testkit::Reply;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn call(id: Option<&str>, name: &str, arguments: &Value) -> ModelCall {
    ModelCall {
        id: id.map(str::to_owned),
        name: name.to_owned(),
        arguments: Ok(object(arguments)),
    }
}

async fn raw(body: &Value) -> ChatReply {
    let server = scripted(Reply::raw(body)).await;
    ask(&server).await.unwrap()
}

async fn message(message: &Value) -> ChatReply {
    raw(&answer(message)).await
}

async fn calls(calls: &Value) -> Vec<ModelCall> {
    message(&json!({"content": null, "tool_calls": calls}))
        .await
        .tool_calls
}

async fn streamed(chunks: Vec<String>) -> ChatReply {
    let server = scripted(Reply::sse(chunks)).await;
    ask_with(options(), &server, true).await.unwrap()
}

async fn streamed_calls(deltas: &[Value]) -> Vec<ModelCall> {
    let mut chunks: Vec<String> = deltas
        .iter()
        .map(|piece| event(&json!({"tool_calls": [piece]})))
        .collect();
    chunks.push(stop("tool_calls"));
    chunks.push(DONE.to_owned());
    streamed(chunks).await.tool_calls
}

#[tokio::test]
async fn a_plain_answer_is_read() {
    let server = scripted(Reply::text("Hi there")).await;
    let reply = ask(&server).await.unwrap();
    assert_eq!(reply.text, "Hi there");
    assert_eq!(reply.finish, Finish::Stop);
    assert_eq!((reply.attempts, reply.model.as_str()), (1, "m"));
    assert!(server.endpoint().starts_with(&reply.endpoint));
    let counted = Usage {
        input_tokens: 11,
        output_tokens: 7,
        estimated: false,
    };
    assert_eq!(reply.usage, counted);
}

#[tokio::test]
async fn several_tool_calls_are_read_in_order() {
    let script = Reply::tool_calls([("add", json!({"a": 1})), ("list", json!({}))]);
    for stream in [false, true] {
        let server = scripted(script.clone()).await;
        let reply = ask_with(options(), &server, stream).await.unwrap();
        let expected = [
            call(Some("call_0"), "add", &json!({"a": 1})),
            call(Some("call_1"), "list", &json!({})),
        ];
        assert_eq!(reply.tool_calls, expected);
        assert_eq!(reply.finish, Finish::ToolCalls);
        assert_eq!(reply.text, "");
    }
}

#[tokio::test]
async fn missing_usage_is_estimated_and_says_so() {
    for usage in [
        Value::Null,
        json!({}),
        json!({"prompt_tokens": 0, "completion_tokens": 0}),
        json!({"prompt_tokens": null}),
    ] {
        let mut body = answer(&json!({"content": "four and more"}));
        body["usage"] = usage;
        let reply = raw(&body).await;
        assert!(reply.usage.estimated);
        assert!(reply.usage.input_tokens > 0 && reply.usage.output_tokens > 0);
    }
}

#[tokio::test]
async fn usage_in_other_number_formats_is_read() {
    let mut body = answer(&json!({"content": "x"}));
    body["usage"] = json!({"prompt_tokens": 12.0, "completion_tokens": "4", "details": [1]});
    let usage = raw(&body).await.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (12, 4));
    assert!(!usage.estimated);
}

#[tokio::test]
async fn arguments_may_be_an_object_instead_of_a_string() {
    let found =
        calls(&json!([{"id": "c", "function": {"name": "add", "arguments": {"a": 1}}}])).await;
    assert_eq!(found, [call(Some("c"), "add", &json!({"a": 1}))]);
}

#[tokio::test]
async fn empty_null_and_missing_arguments_are_empty() {
    for function in [
        json!({"name": "list", "arguments": ""}),
        json!({"name": "list", "arguments": " \n"}),
        json!({"name": "list", "arguments": "null"}),
        json!({"name": "list", "arguments": null}),
        json!({"name": "list"}),
    ] {
        let found = calls(&json!([{"id": "c", "function": function}])).await;
        assert_eq!(found, [call(Some("c"), "list", &json!({}))]);
    }
}

#[tokio::test]
async fn arguments_encoded_twice_are_read() {
    let twice = json!(json!({"a": 1}).to_string()).to_string();
    let found = calls(&json!([{"id": "c", "function": {"name": "add", "arguments": twice}}])).await;
    assert_eq!(found, [call(Some("c"), "add", &json!({"a": 1}))]);
}

#[tokio::test]
async fn arguments_that_are_not_an_object_are_returned_as_text() {
    for (arguments, text) in [
        (json!("{\"a\": 1"), "{\"a\": 1"),
        (json!("[1]"), "[1]"),
        (json!([1]), "[1]"),
        (json!(5), "5"),
    ] {
        let function = json!({"name": "add", "arguments": arguments});
        let found = calls(&json!([{"id": "c", "function": function}])).await;
        assert_eq!(found[0].arguments, Err(text.to_owned()));
    }
}

#[tokio::test]
async fn an_id_that_is_missing_or_taken_is_none() {
    let function = json!({"name": "list", "arguments": "{}"});
    let found = calls(&json!([
        {"id": "same", "function": function},
        {"id": "same", "function": function},
        {"id": "", "function": function},
        {"function": function},
        {"id": 7, "function": function},
    ]))
    .await;
    let ids: Vec<Option<String>> = found.into_iter().map(|call| call.id).collect();
    let expected = [Some("same"), None, None, None, Some("7")];
    assert_eq!(ids, expected.map(|id| id.map(str::to_owned)));
}

#[tokio::test]
async fn content_may_be_null_missing_or_a_list_of_parts() {
    assert_eq!(message(&json!({"content": null})).await.text, "");
    assert_eq!(message(&json!({"role": "assistant"})).await.text, "");
    let parts = json!([
        {"type": "reasoning", "text": "hmm"},
        {"type": "text", "text": "One "},
        {"type": "text", "text": {"value": "two "}},
        "three",
        {"type": "image_url", "image_url": {}},
    ]);
    let text = message(&json!({"content": parts})).await.text;
    assert_eq!(text, "One two three");
    assert_eq!(message(&json!({"content": {"text": "x"}})).await.text, "x");
}

#[tokio::test]
async fn a_refusal_replaces_missing_content() {
    let reply = message(&json!({"content": null, "refusal": "I cannot say."})).await;
    assert_eq!(reply.text, "I cannot say.");
}

#[tokio::test]
async fn reasoning_and_unknown_fields_are_ignored() {
    let reply = message(&json!({
        "content": "Yes",
        "reasoning_content": "Let me see",
        "reasoning": {"text": "Let me see"},
        "tool_calls": null,
        "audio": null,
        "x": [{"y": 1}],
    }))
    .await;
    assert_eq!(reply.text, "Yes");
}

#[tokio::test]
async fn a_missing_or_wrong_reason_to_stop_is_inferred() {
    let asks = json!({"tool_calls": [{"id": "c", "function": {"name": "add"}}]});
    let says = json!({"content": "x"});
    for (message, reason, expected) in [
        (&asks, json!("stop"), Finish::ToolCalls),
        (&asks, Value::Null, Finish::ToolCalls),
        (&says, json!("tool_calls"), Finish::Stop),
        (&says, Value::Null, Finish::Stop),
        (&says, json!("eos"), Finish::Stop),
        (&says, json!("length"), Finish::Length),
        (&asks, json!("length"), Finish::Length),
        (&says, json!("content_filter"), Finish::ContentFilter),
    ] {
        let mut body = answer(message);
        body["choices"][0]["finish_reason"] = reason;
        assert_eq!(raw(&body).await.finish, expected, "{body}");
        body["choices"][0]
            .as_object_mut()
            .unwrap()
            .remove("finish_reason");
        raw(&body).await;
    }
}

#[tokio::test]
async fn a_stream_is_assembled() {
    let server = scripted(Reply::text("One two three")).await;
    let reply = ask_with(options(), &server, true).await.unwrap();
    assert_eq!(reply.text, "One two three");
    assert_eq!(reply.usage.input_tokens, 11);
    assert!(!reply.usage.estimated);
    let body = &server.requests()[0].body;
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
}

#[tokio::test]
async fn comments_line_endings_and_spaces_of_a_stream_are_ignored() {
    let message = |word: &str| json!({"choices": [{"delta": {"content": word}}]});
    let last = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let reply = streamed(vec![
        "\u{feff}: OPENROUTER PROCESSING\n\n".to_owned(),
        format!(
            "event: message\r\nid: 1\r\ndata:{}\r\n\r\n",
            message("One ")
        ),
        format!(": keep-alive\rdata: {}\r\r", message("two ")),
        format!("data: {}\ndata: {}\n", message("three"), last),
    ])
    .await;
    assert_eq!(reply.text, "One two three");
}

#[tokio::test]
async fn an_event_over_several_lines_is_one() {
    let reply = streamed(vec![
        "data: {\"choices\":\ndata: [{\"delta\":\ndata: {\"content\": \"x\"}}]}\n\n".to_owned(),
        DONE.to_owned(),
    ])
    .await;
    assert_eq!(reply.text, "x");
}

#[tokio::test]
async fn a_stream_may_lack_its_end_mark_or_its_reason_to_stop() {
    let text = event(&json!({"content": "x"}));
    let without_mark = streamed(vec![text.clone(), stop("length")]).await;
    assert_eq!(without_mark.finish, Finish::Length);
    assert!(without_mark.usage.estimated);
    let without_reason = streamed(vec![text, DONE.to_owned()]).await;
    assert_eq!(without_reason.finish, Finish::Stop);
}

#[tokio::test]
async fn a_call_split_over_chunks_is_assembled_by_its_number() {
    let found = streamed_calls(&[
        json!({"index": 0, "id": "x", "function": {"name": "add", "arguments": ""}}),
        json!({"index": 1, "id": "y", "function": {"name": "add", "arguments": "{\"a\""}}),
        json!({"index": 0, "function": {"arguments": "{\"a\": "}}),
        json!({"index": 1, "function": {"arguments": ": 2}"}}),
        json!({"index": 0, "function": {"arguments": "1}"}}),
    ])
    .await;
    let expected = [
        call(Some("x"), "add", &json!({"a": 1})),
        call(Some("y"), "add", &json!({"a": 2})),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_call_without_number_is_assembled_by_its_id_or_name() {
    let expected = [
        call(Some("x"), "add", &json!({"a": 1})),
        call(Some("y"), "add", &json!({"a": 2})),
    ];
    let by_id = streamed_calls(&[
        json!({"id": "x", "function": {"name": "add", "arguments": "{\"a\""}}),
        json!({"function": {"arguments": ":1}"}}),
        json!({"id": "y", "function": {"name": "add", "arguments": "{\"a\""}}),
        json!({"id": "y", "function": {"name": "add", "arguments": ":2}"}}),
    ])
    .await;
    assert_eq!(by_id, expected);
    let by_name = streamed_calls(&[
        json!({"function": {"name": "add", "arguments": "{\"a\""}}),
        json!({"function": {"arguments": ":1}"}}),
        json!({"function": {"name": "add", "arguments": {"a": 2}}}),
    ])
    .await;
    let expected = expected.map(|call| ModelCall { id: None, ..call });
    assert_eq!(by_name, expected);
}

#[tokio::test]
async fn calls_that_are_all_numbered_zero_stay_apart() {
    let with_ids = streamed_calls(&[
        json!({"index": 0, "id": "x", "function": {"name": "add", "arguments": "{\"a\":1}"}}),
        json!({"index": 0, "id": "y", "function": {"name": "list", "arguments": ""}}),
        json!({"index": 0, "id": "z", "function": {"name": "list", "arguments": ""}}),
    ])
    .await;
    let ids: Vec<Option<&str>> = with_ids.iter().map(|call| call.id.as_deref()).collect();
    assert_eq!(ids, [Some("x"), Some("y"), Some("z")]);
    let without = streamed_calls(&[
        json!({"index": 0, "function": {"name": "add", "arguments": "{\"a\":1}"}}),
        json!({"index": 0, "function": {"name": "add", "arguments": "{\"a\":2}"}}),
    ])
    .await;
    assert_eq!(without[1], call(None, "add", &json!({"a": 2})));
}

#[tokio::test]
async fn a_server_may_ignore_a_request_to_stream() {
    let server = scripted(Reply::raw(&answer(&json!({"content": "whole"})))).await;
    let reply = ask_with(options(), &server, true).await.unwrap();
    assert_eq!(reply.text, "whole");
}

#[tokio::test]
async fn a_server_may_stream_without_being_asked_or_saying_so() {
    let chunks = [event(&json!({"content": "x"})), DONE.to_owned()];
    let unasked = scripted(Reply::sse(chunks.clone())).await;
    assert_eq!(ask(&unasked).await.unwrap().text, "x");
    let unsaid = scripted(Reply::bytes(chunks.concat())).await;
    assert_eq!(ask(&unsaid).await.unwrap().text, "x");
}

#[tokio::test]
async fn tools_are_offered_as_described() {
    let server = scripted(Reply::text("ok")).await;
    ask(&server).await.unwrap();
    let body = &server.requests()[0].body;
    let function = json!({
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": **add().parameters(),
    });
    assert_eq!(
        body["tools"],
        json!([{"type": "function", "function": function}])
    );
}

#[tokio::test]
async fn a_stream_that_stays_open_after_its_end_is_abandoned() {
    let words = [event(&json!({"content": "x"})), stop("stop")].concat();
    let patient = Duration::from_hours(1);
    let options = Options {
        stream_idle_timeout: patient,
        ..options()
    };
    for chunks in [words.clone(), words + DONE] {
        let size = chunks.len();
        let server = scripted(Reply::sse([chunks]).stall(size)).await;
        let (models, messages) = ([model(&server, "m")], hello());
        let request = ChatRequest {
            stream: true,
            time_left: patient,
            ..ChatRequest::new(&models, &messages)
        };
        let client = ModelClient::new(options.clone());
        // Turns a wait of an hour into a failure.
        let reply = timeout(patient / 60, client.complete(&request, None)).await;
        assert_eq!(reply.unwrap().unwrap().text, "x");
    }
}
