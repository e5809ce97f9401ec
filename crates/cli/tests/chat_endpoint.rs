//! `POST /v1/chat` of the real binary, held against the request, response and error examples of the document that describes
//! it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::path::Path;

use program::http::{Answer, Request};
use program::{Program, Serving, text};
use serde_json::{Value, json};

const SECRET: &str = "a secret that nobody knows, of many bytes";

/// An example of the document, by the folder and the name of its file.
fn example(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fields/examples");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The JSON type of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

/// Fails unless an answer has the shape of an example: the same keys, each of the same type. `metadata` may have more.
fn assert_shaped(answer: &Value, example: &Value) {
    assert_eq!(keys(answer), keys(example), "{answer}");
    assert!(!answer["response_text"].as_str().unwrap().is_empty());
    for (key, value) in example["metadata"].as_object().unwrap() {
        assert_eq!(
            kind(&answer["metadata"][key]),
            kind(value),
            "{key}: {answer}"
        );
    }
    let calls = |value: &Value| value["tool_invocations"].as_array().unwrap().clone();
    for call in calls(answer) {
        let like = &calls(example)[0];
        assert_eq!(keys(&call), keys(like), "{call}");
        for (key, value) in like.as_object().unwrap() {
            assert_eq!(kind(&call[key]), kind(value), "{key}: {call}");
        }
    }
}

fn settings(program: &Program) -> String {
    let settings = json!({ "auth": { "jwt": { "algorithm": "HS256", "secret": SECRET } } });
    let file = program.folder().join("server.json");
    std::fs::write(&file, settings.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn token(program: &Program, settings: &str, user: &str) -> String {
    let minted = program.run(&["token", "--settings", settings, "--user", user]);
    assert!(minted.status.success(), "{minted:?}");
    text(&minted.stdout).trim().to_owned()
}

fn chat(address: &str, token: &str, body: &Value) -> Answer {
    let request = Request::new(address, "POST", "/v1/chat");
    request.token(token).json(body).send()
}

#[test]
fn the_request_of_the_document_gets_an_answer_like_the_response_of_the_document() {
    let program = Program::new();
    let settings = settings(&program);
    let serving = Serving::start(&program, &["--settings", &settings, &program.app()]);
    let request = example("read/S4 AgentRequest.json");
    let user = request["user_id"].as_str().unwrap();
    let token = token(&program, &settings, user);
    let answer = chat(serving.address(), &token, &request);
    assert_eq!(answer.status, 200);
    let answer = answer.json();
    let expected = example("emitted/S4 AgentResponse.json");
    assert_shaped(&answer, &expected);
    let (call, like) = (
        &answer["tool_invocations"][0],
        &expected["tool_invocations"][0],
    );
    assert_eq!(call["tool_name"], like["tool_name"]);
    assert_eq!(call["parameters"], like["parameters"]);
    for key in keys(&like["result"]) {
        assert_eq!(
            kind(&call["result"][key]),
            kind(&like["result"][key]),
            "{call}"
        );
    }
    assert_eq!(answer["metadata"]["intent"], "create_task");
    // It is a task like any other, and belongs to no conversation.
    let path = format!(
        "/api/v1/tasks/{}",
        answer["metadata"]["task"].as_str().unwrap()
    );
    let task = Request::new(serving.address(), "GET", &path)
        .token(&token)
        .send()
        .json();
    assert_eq!(
        (&task["state"], &task["conversation"]),
        (&json!("completed"), &Value::Null)
    );
    assert_eq!(task["answer"]["text"], answer["response_text"]);
    assert_eq!(program.todo_titles(), ["buy milk"]);
}

#[test]
fn a_message_is_understood_after_the_history_that_it_brings() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&program.app()]);
    let said = |role: &str, content: &str| json!({ "role": role, "content": content });
    let many: Vec<Value> = (0..60)
        .map(|turn| said("user", &format!("turn {turn}")))
        .collect();
    let timed =
        json!({ "role": "assistant", "content": "Fine.", "timestamp": "2026-02-07T10:00:00" });
    for history in [
        json!([]),
        json!(many),
        json!([said("system", "Be kind."), timed]),
    ] {
        let body = json!({ "message": "show my tasks", "conversation_history": history });
        let answer = Request::new(serving.address(), "POST", "/v1/chat")
            .json(&body)
            .send();
        assert_eq!(answer.status, 200, "{history}");
        let answer = answer.json();
        assert_eq!(answer["metadata"]["intent"], "list_tasks", "{answer}");
        let cut = history.as_array().unwrap().len().saturating_sub(50);
        let told = answer["metadata"]["history_cut"]
            .as_u64()
            .unwrap_or_default();
        assert_eq!(told, cut as u64, "{answer}");
    }
}

/// Fails unless an answer is an error in the form of the document.
fn assert_refused(answer: Answer, status: u16, error_type: &str, code: &str) -> String {
    assert_eq!(answer.status, status, "{code}");
    assert_eq!(
        answer.header("content-type"),
        Some("application/json"),
        "{code}"
    );
    let answer = answer.json();
    let like = example("emitted/S4 AgentResponse failed.json");
    assert_eq!(keys(&answer), keys(&like), "{answer}");
    assert_eq!(answer["tool_invocations"], json!([]));
    let metadata = &answer["metadata"];
    assert_eq!(metadata["error_type"], error_type, "{answer}");
    assert_eq!(metadata["code"], code, "{answer}");
    answer["response_text"].as_str().unwrap().to_owned()
}

#[test]
fn a_request_that_does_not_fit_or_may_not_be_made_gets_an_error_in_the_form_of_an_answer() {
    let program = Program::new();
    let settings = settings(&program);
    let serving = Serving::start(&program, &["--settings", &settings, &program.app()]);
    let address = serving.address();
    let token = token(&program, &settings, "ada");
    let invalid = "ValidationError";
    let history = |message: Value| json!({ "message": "hello", "conversation_history": [message] });
    let of = |role: &str, content: &str| history(json!({ "role": role, "content": content }));
    let long = "a".repeat(2_001);
    for (body, code) in [
        (json!({ "message": "" }), "request.message_empty"),
        (json!({ "message": "  " }), "request.message_empty"),
        (json!({ "message": long }), "request.message_long"),
        (json!({}), "request.body"),
        (json!({ "message": 7 }), "request.body"),
        (
            json!({ "message": "hello", "user_id": "42" }),
            "request.body",
        ),
        (of("tool", "hello"), "request.body"),
        (of("user", ""), "request.history_message"),
        (
            history(json!({ "role": "user", "content": "hello", "timestamp": "yesterday" })),
            "request.history_timestamp",
        ),
    ] {
        let said = assert_refused(chat(address, &token, &body), 400, invalid, code);
        assert!(!said.is_empty(), "{body}");
    }
    let untyped = Request::new(address, "POST", "/v1/chat")
        .token(&token)
        .body(b"hello")
        .send();
    assert_refused(untyped, 415, invalid, "request.media_type");
    let refused = "UnauthorizedError";
    let hello = json!({ "message": "hello" });
    let missing = Request::new(address, "POST", "/v1/chat")
        .json(&hello)
        .send();
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    assert_refused(missing, 401, refused, "auth.token_missing");
    assert_refused(
        chat(address, "a.b.c", &hello),
        401,
        refused,
        "auth.token_invalid",
    );
    let other = json!({ "message": "hello", "user_id": "123e4567-e89b-12d3-a456-426614174000" });
    assert_refused(
        chat(address, &token, &other),
        403,
        refused,
        "auth.user_mismatch",
    );
    assert_eq!(program.tasks().len(), 0);
}

/// An app whose only tool refuses with the code that is said.
fn refusing_app(program: &Program) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requests/shop.py");
    let log = program.folder().join("changes");
    let arguments = [script.to_str().unwrap(), log.to_str().unwrap()];
    let stdio = json!({ "command": "python3", "args": arguments });
    let servers = json!({ "servers": [
        { "name": "shop", "transport": { "stdio": stdio } },
        { "name": "gone", "transport": { "stdio": { "command": "/nowhere/server" } } },
    ] });
    let skill = |name: &str, sentence: &str, slots: Value, tool: &str, arguments: Value| {
        json!({ "name": name, "description": "Tries.", "sentences": [sentence], "slots": slots,
            "action": { "tool": tool, "arguments": arguments, "reply": "Done." } })
    };
    let agent = json!({
        "name": "clerk", "role": "Sells.", "system_prompt": "Sell.", "tools": ["shop.refuse", "gone.act"],
        "skills": [
            skill("refuse", "refuse {code}", json!({ "code": {} }), "shop.refuse", json!({ "code": "{{ code }}" })),
            skill("reach", "reach nobody", json!({}), "gone.act", json!({})),
        ],
    });
    let config = json!({ "name": "shop", "limits": { "tool_reach_seconds": 1 } });
    program.app_of(&[
        ("convoke.json", &config.to_string()),
        ("config/mcp_servers.json", &servers.to_string()),
        ("agents/clerk.json", &agent.to_string()),
    ])
}

#[test]
fn a_tool_that_fails_is_told_like_the_error_of_the_document() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&refusing_app(&program)]);
    let like = example("emitted/S4 AgentResponse failed.json");
    for (message, intent, error_type) in [
        ("refuse validation_error", "refuse", "ValidationError"),
        ("refuse permission_denied", "refuse", "UnauthorizedError"),
        ("refuse sold_out", "refuse", "ToolInvocationError"),
        ("reach nobody", "reach", "ToolInvocationError"),
    ] {
        let request = Request::new(serving.address(), "POST", "/v1/chat");
        let answer = request.json(&json!({ "message": message })).send();
        assert_eq!(answer.status, 200, "{message}");
        let answer = answer.json();
        assert_shaped(&answer, &like);
        assert_eq!(answer["metadata"]["error_type"], error_type, "{answer}");
        assert_eq!(answer["metadata"]["intent"], intent, "{answer}");
        let call = &answer["tool_invocations"][0];
        assert!(
            call["result"].is_null() && call["error"].is_string(),
            "{call}"
        );
    }
}

#[test]
fn a_request_that_nobody_can_read_has_the_type_of_the_document() {
    let program = Program::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/v1", port.local_addr().unwrap());
    drop(port);
    let app = program.agent_app(&json!({
        "llm_config": { "endpoint": endpoint, "model": "m" }, "limits": { "max_retries": 0 },
    }));
    let serving = Serving::start(&program, &[&app]);
    let request = Request::new(serving.address(), "POST", "/v1/chat");
    let answer = request
        .json(&json!({ "message": "What time is it?" }))
        .send()
        .json();
    assert_eq!(
        answer["metadata"]["error_type"], "IntentClassificationError",
        "{answer}"
    );
}
