//! One request and what its sender gets for it: the intent, the calls, the error, also where it fails; and a request that
//! brings its own history.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use convoke_testkit::{Reply, ScriptedModel};
use program::{Program, text};
use serde_json::{Value, json};

const BEN: &str = "00000000-0000-4000-8000-00000000000b";

fn skill(name: &str, sentence: &str, slots: &Value, action: &Value) -> Value {
    json!({ "name": name, "description": format!("Does {name}."), "sentences": [sentence], "slots": slots,
        "action": action })
}

/// A shop whose people and orders are numbered from 1 each, and that also uses these servers, each by the sentence
/// `use NAME`.
fn shop(program: &Program, others: &[(&str, Value)], limits: &Value) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requests/shop.py");
    let log = program.folder().join("changes");
    let arguments = [script.to_str().unwrap(), log.to_str().unwrap()];
    let mut servers = vec![json!({ "name": "shop", "transport": { "stdio": {
        "command": "python3", "args": arguments } } })];
    let orders = json!({ "ask": "Which order?", "refers_to": { "tool": "shop.list_orders", "items": "orders", "id": "id",
        "label": "what", "nouns": ["order"], "none": "There is no order {{ words }}.", "many": "Which order?" } });
    let listing = |items: &str, label: &str| {
        let reply = format!(
            "{{% for one in result.{items} %}}{{{{ loop.index }}}}. {{{{ one.{label} }}}}. {{% endfor %}}"
        );
        json!({ "tool": format!("shop.list_{items}"), "reply": reply,
            "shows": { "items": items, "id": "id", "label": label } })
    };
    let mut skills = vec![
        skill(
            "find",
            "find {who}",
            &json!({ "who": {} }),
            &json!({ "tool": "shop.find_person",
            "arguments": { "name": "{{ who }}" }, "reply": "{{ result.name }} is here.",
            "shows": { "id": "id", "label": "name" } }),
        ),
        skill(
            "orders",
            "list orders",
            &json!({}),
            &listing("orders", "what"),
        ),
        skill(
            "people",
            "list people",
            &json!({}),
            &listing("people", "name"),
        ),
        skill(
            "cancel",
            "cancel {order}",
            &json!({ "order": orders }),
            &json!({ "tool": "shop.cancel_order",
            "arguments": { "id": "{{ order.id }}" }, "reply": "Cancelled {{ result.what }}." }),
        ),
        skill(
            "note",
            "note {what}",
            &json!({ "what": { "max_length": 20 } }),
            &json!({ "tool": "shop.add_note",
            "arguments": { "text": "{{ what }}" }, "reply": "Noted {{ result.text }}." }),
        ),
        skill(
            "refuse",
            "refuse {code}",
            &json!({ "code": {} }),
            &json!({ "tool": "shop.refuse",
            "arguments": { "code": "{{ code }}" }, "reply": "Done." }),
        ),
    ];
    let tools = [
        "find_person",
        "list_people",
        "list_orders",
        "cancel_order",
        "add_note",
        "refuse",
    ];
    let mut tools: Vec<String> = tools.map(|tool| format!("shop.{tool}")).into();
    for (name, transport) in others {
        servers.push(json!({ "name": name, "transport": transport }));
        tools.push(format!("{name}.act"));
        let action = json!({ "tool": format!("{name}.act"), "arguments": { "what": "it" }, "reply": "Done." });
        skills.push(skill(
            &format!("use_{name}"),
            &format!("use {name}"),
            &json!({}),
            &action,
        ));
    }
    let agent = json!({ "name": "clerk", "role": "Sells.", "system_prompt": "Sell.", "tools": tools, "skills": skills });
    program.app_of(&[
        (
            "convoke.json",
            &json!({ "name": "shop", "limits": limits }).to_string(),
        ),
        (
            "config/mcp_servers.json",
            &json!({ "servers": servers }).to_string(),
        ),
        ("agents/clerk.json", &agent.to_string()),
    ])
}

/// What was changed in the shop.
fn changes(program: &Program) -> Vec<Value> {
    let log = std::fs::read_to_string(program.folder().join("changes")).unwrap_or_default();
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn run(program: &Program, arguments: &[&str]) -> Value {
    json_of(&program.run(&[&["--json", "run"], arguments].concat()))
}

/// A transport to an address where nobody listens.
fn refusing() -> Value {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    json!({ "http": { "url": format!("http://127.0.0.1:{port}/mcp") } })
}

#[test]
fn a_request_that_fails_keeps_its_intent_and_its_answer_has_the_call_that_failed() {
    let program = Program::new();
    let servers = [
        ("gone", json!({ "stdio": { "command": "/nowhere/server" } })),
        ("exits", json!({ "stdio": { "command": "false" } })),
        ("refuses", refusing()),
    ];
    let app = shop(&program, &servers, &json!({ "tool_reach_seconds": 1 }));
    for (name, _) in &servers {
        let ended = run(&program, &[&app, &format!("use {name}")]);
        assert_eq!(ended["state"], "failed", "{ended}");
        let metadata = &ended["answer"]["metadata"];
        assert_eq!(metadata["intent"], format!("use_{name}"), "{ended}");
        assert_eq!(metadata["error_type"], "ToolInvocationError", "{ended}");
        let calls = ended["answer"]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{ended}");
        assert_eq!(
            (&calls[0]["server"], &calls[0]["tool"]),
            (&json!(name), &json!("act"))
        );
        assert_eq!(calls[0]["status"], "failed");
        assert_eq!(calls[0]["arguments"], json!({ "what": "it" }));
        assert!(
            calls[0]["error"].as_str().unwrap().contains(name),
            "{ended}"
        );
        assert!(
            calls[0]["duration_ms"].is_u64() && calls[0].get("result").is_none(),
            "{ended}"
        );
    }
}

#[test]
fn what_a_tool_refuses_has_the_type_of_its_code() {
    let program = Program::new();
    let app = shop(&program, &[], &json!({}));
    for (code, error_type) in [
        ("shop.sold out", "ToolInvocationError"),
        ("validation_error", "ValidationError"),
        ("shop.invalid_size", "ValidationError"),
        ("unauthorized", "UnauthorizedError"),
        ("permission_denied", "UnauthorizedError"),
    ] {
        let ended = run(&program, &[&app, &format!("refuse {code}")]);
        let answer = &ended["answer"];
        assert_eq!(answer["metadata"]["intent"], "refuse", "{ended}");
        assert_eq!(answer["metadata"]["error_type"], error_type, "{ended}");
        let error = answer["tool_calls"][0]["error"].as_str().unwrap();
        assert!(error.contains("It cannot be done."), "{ended}");
    }
    let fine = run(&program, &[&app, "find Bob"]);
    assert!(
        fine["answer"]["metadata"].get("error_type").is_none(),
        "{fine}"
    );
    let long = run(&program, &[&app, "note something that is longer than that"]);
    assert_eq!(
        long["answer"]["metadata"]["error_type"], "ValidationError",
        "{long}"
    );
    assert_eq!(long["answer"]["metadata"]["intent"], "note", "{long}");
    assert!(changes(&program).is_empty());
}

#[test]
fn a_request_that_nobody_could_read_says_so() {
    let program = Program::new();
    let endpoint = refusing()["http"]["url"]
        .as_str()
        .unwrap()
        .replace("/mcp", "/v1");
    let app = program.agent_app(&json!({
        "llm_config": { "endpoint": endpoint, "model": "m" }, "limits": { "max_retries": 0 },
    }));
    let ended = run(&program, &[&app, "What time is it?"]);
    assert_eq!(ended["state"], "failed", "{ended}");
    assert_eq!(
        ended["answer"]["metadata"]["error_type"], "IntentClassificationError",
        "{ended}"
    );
}

#[test]
fn a_refused_request_has_its_type() {
    let program = Program::new();
    let app = program.app();
    let mine = run(&program, &[&app, "what's on my list?"]);
    let conversation = mine["conversation"].as_str().unwrap();
    let foreign = ["hello", "--user", BEN, "--conversation", conversation];
    for (arguments, error_type) in [
        (&[" "][..], "ValidationError"),
        (&["hello", "--user", "42"], "ValidationError"),
        (&foreign, "UnauthorizedError"),
    ] {
        let refused = run(&program, &[&[app.as_str()], arguments].concat());
        assert_eq!(refused["error"]["error_type"], error_type, "{refused}");
    }
}

#[test]
fn a_longer_limit_tries_a_server_more_often() {
    let tried = |seconds: u32| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                drop(connection);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let program = Program::new();
        let servers = [("shy", json!({ "http": { "url": url } }))];
        let app = shop(
            &program,
            &servers,
            &json!({ "tool_reach_seconds": seconds }),
        );
        let ended = run(&program, &[&app, "use shy"]);
        assert!(
            ended["error"]
                .as_str()
                .unwrap()
                .starts_with("tool.not_reached"),
            "{ended}"
        );
        connections.load(Ordering::SeqCst)
    };
    let (short, long) = (tried(1), tried(6));
    assert!(short < long, "{short} and {long}");
}

#[test]
fn the_result_of_a_look_up_is_the_one_that_the_tool_gave() {
    let program = Program::new();
    let app = shop(&program, &[], &json!({}));
    let ended = run(&program, &[&app, "cancel the hat"]);
    let calls = ended["answer"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["tool"], "list_orders");
    assert_eq!(
        calls[0]["result"]["orders"][1],
        json!({ "id": 2, "what": "a hat" }),
        "{ended}"
    );
    assert_eq!(
        calls[1]["result"],
        json!({ "id": 2, "what": "a hat" }),
        "{ended}"
    );
}

#[test]
fn a_title_is_stored_as_it_was_written() {
    let program = Program::new();
    let app = program.app();
    let titles = [
        "buy 🎂",
        "🎂",
        "👨‍👩‍👧 dinner ❤️",
        "call Zoë & «Max» at 5 p.m.",
        "learn C++ / C#",
        "fix cafe\u{301} sign",
        "true",
        "007",
        "pay €5 → Ann",
    ];
    for title in titles {
        let output = program.run(&["run", &app, &format!("remind me to {title}")]);
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(program.todo_titles(), titles);
    let deleted = program.run(&["run", &app, "delete 🎂"]);
    assert!(
        text(&deleted.stdout).contains("I've deleted \"🎂\""),
        "{deleted:?}"
    );
    assert_eq!(program.todo_titles().len(), titles.len() - 1);
}

/// Runs with this history from standard input.
fn after(program: &Program, app: &str, history: &Value, message: &str) -> Value {
    let mut command = program.command(&["--json", "run", app, message, "--history", "-"]);
    let mut child = (command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped()))
    .spawn()
    .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(history.to_string().as_bytes()).unwrap();
    drop(input);
    json_of(&child.wait_with_output().unwrap())
}

fn said(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content })
}

/// The answer as a message of a history that the sender keeps.
fn kept(ended: &Value) -> Value {
    let answer = &ended["answer"];
    json!({ "role": "assistant", "content": answer["text"], "metadata": { "memory": answer["metadata"]["memory"] } })
}

#[test]
fn a_request_with_a_history_goes_on_from_it_and_leaves_no_conversation() {
    let program = Program::new();
    let app = shop(&program, &[], &json!({}));
    let listed = after(&program, &app, &json!([]), "list orders");
    assert_eq!(listed["conversation"], Value::Null, "{listed}");
    let history = json!([said("user", "list orders"), kept(&listed)]);
    let ended = after(&program, &app, &history, "cancel the second one");
    assert_eq!(ended["answer"]["text"], "Cancelled a hat.", "{ended}");
    assert_eq!(ended["conversation"], Value::Null, "{ended}");
    // Without what was shown, nobody guesses.
    let history = json!([
        said("user", "list orders"),
        said("assistant", "1. boots. 2. a hat.")
    ]);
    let asked = after(&program, &app, &history, "cancel the second one");
    assert_eq!(asked["answer"]["text"], "Which order?", "{asked}");
    let history = json!([said("user", "cancel the second one"), kept(&asked)]);
    let ended = after(&program, &app, &history, "boots");
    assert_eq!(ended["answer"]["text"], "Cancelled boots.", "{ended}");
    assert_eq!(
        changes(&program),
        [json!(["cancel", 2]), json!(["cancel", 1])]
    );
    let stored = program.open_store();
    let conversations: i64 = stored
        .query_row("SELECT count(*) FROM conversations", [], |row| row.get(0))
        .unwrap();
    assert_eq!(conversations, 0);
    let continued = program.run(&["run", &app, "cancel it", "--continue"]);
    assert!(
        text(&continued.stderr).contains("conversation.none"),
        "{continued:?}"
    );
}

#[test]
fn a_stored_conversation_is_not_read_by_a_request_with_a_history() {
    let program = Program::new();
    let app = shop(&program, &[], &json!({}));
    run(&program, &[&app, "list orders"]);
    let asked = after(&program, &app, &json!([]), "cancel the second one");
    assert_eq!(asked["answer"]["text"], "Which order?", "{asked}");
    assert!(changes(&program).is_empty());
    // And the conversation does not know of it.
    let ended = run(&program, &[&app, "cancel the third one", "--continue"]);
    assert_eq!(ended["answer"]["text"], "Cancelled Ann.", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_reads_the_newest_messages_of_the_history_and_the_cut_is_told() {
    let model = ScriptedModel::start(Reply::text("Hello again."))
        .await
        .unwrap();
    let program = Program::new();
    let app = program.agent_app(&json!({
        "llm_config": { "endpoint": model.endpoint(), "model": "m" },
    }));
    let history: Vec<Value> = (0..53)
        .map(|turn| said("user", &format!("turn {turn}")))
        .collect();
    let ended = after(&program, &app, &json!(history), "hello");
    assert_eq!(ended["answer"]["metadata"]["history_cut"], 3, "{ended}");
    let prompt = model.requests()[0].body["messages"].to_string();
    assert!(
        prompt.contains("turn 3\"") && prompt.contains("turn 52\""),
        "{prompt}"
    );
    assert!(!prompt.contains("turn 2\""), "{prompt}");
}

#[test]
fn a_history_that_cannot_be_read_is_refused() {
    let program = Program::new();
    let app = program.app();
    let file = |content: &Value| {
        let path = program.folder().join("history.json");
        std::fs::write(&path, content.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let tool = json!({ "role": "tool", "content": "x", "tool_call_id": "1" });
    let large = "x".repeat(600 * 1024);
    for (content, code) in [
        (json!({ "messages": [] }), "history.malformed"),
        (json!([said("pigeon", "coo")]), "history.malformed"),
        (json!([said("user", " ")]), "history.malformed"),
        (json!([tool]), "request.history_role"),
        (
            json!([said("user", &large), said("user", &large)]),
            "request.history_too_large",
        ),
    ] {
        let path = file(&content);
        let refused = run(&program, &[&app, "hello", "--history", &path]);
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert_eq!(
            refused["error"]["error_type"], "ValidationError",
            "{refused}"
        );
    }
    let gone = run(&program, &[&app, "hello", "--history", "nowhere.json"]);
    assert_eq!(gone["error"]["code"], "history.file_unreadable", "{gone}");
    assert!(program.tasks().is_empty());
    for other in [&["--continue"][..], &["--conversation", BEN]] {
        let arguments = [&["run", &app, "hello", "--history", "-"], other].concat();
        assert_eq!(program.run(&arguments).status.code(), Some(2));
    }
}

#[test]
fn the_same_key_with_another_history_is_another_request() {
    let program = Program::new();
    let app = program.app();
    let path = program.folder().join("history.json");
    let path = path.to_str().unwrap();
    let ask = |history: &Value| {
        std::fs::write(path, history.to_string()).unwrap();
        run(
            &program,
            &[&app, "what's on my list?", "--key", "k", "--history", path],
        )
    };
    let first = ask(&json!([said("user", "hello")]));
    assert_eq!(first["state"], "completed", "{first}");
    assert_eq!(ask(&json!([said("user", "hello")]))["task"], first["task"]);
    let other = ask(&json!([said("user", "good bye")]));
    assert_eq!(other["error"]["code"], "store.key_reused", "{other}");
}
