//! The resources of the HTTP service: what a journal says, blobs, bulk cancellation, what an app consists of, and what
//! operators see.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use program::http::{Answer, Request};
use program::{Program, Serving, text};
use serde_json::{Value, json};

const SECRET: &str = "a secret that nobody knows, of many bytes";

/// An app that asks a person, and then calculates.
fn asking_app(program: &Program) -> String {
    let agent = json!({ "name": "clerk", "role": "Asks.", "system_prompt": "Ask.", "tools": ["builtin.calculate"] });
    let workflow = json!({
        "name": "main", "entry_point": "ask",
        "nodes": {
            "ask": { "type": "human", "prompt": "May I?" },
            "count": { "type": "tool", "tool": "builtin.calculate", "arguments": { "expression": "6 * 7" } },
            "say": { "type": "compose", "prompt": "It is {{ count.result }}." },
        },
        "edges": [
            { "from": "ask", "to": { "approve": "count" } },
            { "from": "count", "to": "say", "condition": "count.result > 40" },
        ],
    });
    program.app_of(&[
        ("convoke.json", r#"{ "name": "asking" }"#),
        ("agents/clerk.json", &agent.to_string()),
        ("workflows/main.json", &workflow.to_string()),
    ])
}

/// Serves apps to a test that asks again and again, until something is so.
fn serve(program: &Program, apps: &[&str]) -> Serving {
    let limits = json!({ "requests_per_minute": 1_000_000, "request_burst": 1_000_000 });
    let file = program.folder().join("limits.json");
    std::fs::write(&file, json!({ "limits": limits }).to_string()).unwrap();
    let settings = ["--settings", file.to_str().unwrap()];
    Serving::start(program, &[&settings, apps].concat())
}

fn get(address: &str, path: &str) -> Answer {
    Request::new(address, "GET", path).send()
}

fn post(address: &str, path: &str, body: &Value) -> Answer {
    Request::new(address, "POST", path).json(body).send()
}

fn path_of(task: &Value) -> String {
    format!("/api/v1/tasks/{}", task["id"].as_str().unwrap())
}

/// A task that is asked and answered.
fn counted(address: &str) -> String {
    let task = post(address, "/api/v1/tasks", &json!({ "message": "Count." })).json();
    let path = path_of(&task);
    let answered = post(
        address,
        &format!("{path}/answer"),
        &json!({ "action": "approve" }),
    );
    assert_eq!(answered.json()["answer"]["text"], "It is 42.");
    path
}

fn seqs(history: &Value) -> Vec<u64> {
    let entries = history["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| entry["seq"].as_u64().unwrap())
        .collect()
}

#[test]
fn a_journal_is_read_in_pages_and_at_every_point() {
    let program = Program::new();
    let serving = serve(&program, &[&asking_app(&program)]);
    let address = serving.address();
    let path = counted(address);
    let all = get(address, &format!("{path}/history")).json();
    let last = seqs(&all).len() as u64;
    assert_eq!(seqs(&all), (1..=last).collect::<Vec<_>>());
    assert_eq!(all["next"], Value::Null);
    let entries = all["entries"].as_array().unwrap();
    assert_eq!(entries.last().unwrap()["status"], "completed");
    // An edge's condition stands at the entry that evaluated it.
    let judged: Vec<_> = entries
        .iter()
        .filter(|entry| entry["conditions"] != json!([]))
        .collect();
    assert_eq!(judged[0]["conditions"][0]["value"], json!(true), "{all}");
    let mut paged = Vec::new();
    let mut after = 0;
    loop {
        let page = get(address, &format!("{path}/history?limit=2&after={after}")).json();
        paged.extend(page["entries"].as_array().unwrap().clone());
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(&paged, entries);
    // The command line says the same.
    let id = path.rsplit('/').next().unwrap();
    let told = program.run(&["--json", "tasks", "history", id]);
    let told: Vec<Value> = text(&told.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (told, entry) in told.iter().zip(entries) {
        assert_eq!(
            (&told["kind"], &told["status"], &told["open"]),
            (&entry["kind"], &entry["status"], &entry["open"])
        );
    }
    assert_eq!(told.len(), entries.len());
    let first = get(address, &format!("{path}/state?at=1")).json();
    assert_eq!(
        (&first["seq"], &first["kind"]),
        (&json!(1), &entries[0]["kind"])
    );
    let newest = get(address, &format!("{path}/state")).json();
    assert_eq!(
        (&newest["seq"], &newest["state"]["status"]),
        (&json!(last), &json!("completed"))
    );
    let beyond = get(address, &format!("{path}/state?at={}", last + 1));
    assert_eq!(
        (beyond.status, beyond.json()["code"].clone()),
        (400, json!("task.no_such_step"))
    );
    let trace = get(address, &format!("{path}/trace")).json();
    assert_eq!(trace["task_id"], id);
    let told = program.run(&["--json", "tasks", "trace", id]);
    assert_eq!(
        serde_json::from_slice::<Value>(&told.stdout).unwrap(),
        trace
    );
}

#[test]
fn tasks_and_points_of_one_task_are_compared() {
    let program = Program::new();
    let serving = serve(&program, &[&asking_app(&program)]);
    let address = serving.address();
    let (one, other) = (counted(address), counted(address));
    let id = other.rsplit('/').next().unwrap();
    let same = get(address, &format!("{one}/diff?with={id}")).json();
    assert_eq!(same, json!({ "parted": null, "differences": [] }));
    let rejected = post(address, "/api/v1/tasks", &json!({ "message": "Count." })).json();
    let rejecting = path_of(&rejected);
    post(
        address,
        &format!("{rejecting}/answer"),
        &json!({ "action": "reject" }),
    );
    let parted = get(
        address,
        &format!("{one}/diff?with={}", rejected["id"].as_str().unwrap()),
    )
    .json();
    assert_eq!(parted["parted"]["one"]["kind"], "answered", "{parted}");
    assert_ne!(parted["differences"], json!([]));
    let points = get(address, &format!("{one}/diff?at=1")).json();
    assert_eq!(points["parted"]["one"], Value::Null, "{points}");
    let id = one.rsplit('/').next().unwrap();
    let told = program.run(&["--json", "tasks", "diff", &format!("{id}@1"), id]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["differences"], points["differences"]);
}

#[test]
fn tasks_are_cancelled_together_by_a_filter_that_must_name_something() {
    let program = Program::new();
    let serving = serve(&program, &[&asking_app(&program)]);
    let address = serving.address();
    let submit = |tag: &str| {
        let body = json!({ "message": "Count.", "tags": [tag] });
        post(address, "/api/v1/tasks", &body).json()
    };
    let (red, blue, other) = (submit("red"), submit("blue"), submit("red"));
    let cancel = |body: Value| post(address, "/api/v1/tasks/cancel", &body);
    for body in [json!({}), json!({ "all": true, "tag": "red" })] {
        let refused = cancel(body);
        assert_eq!(
            (refused.status, refused.json()["code"].clone()),
            (400, json!("cancel.unfiltered"))
        );
    }
    let canceled = cancel(json!({ "tag": "red", "reason": "no more" })).json();
    assert_eq!(
        canceled,
        json!({ "tasks": [other["id"], red["id"]], "more": false })
    );
    let again = cancel(json!({ "tag": "red", "state": ["completed"] })).json();
    assert_eq!(again["tasks"], json!([]));
    for (task, state) in [
        (&red, "canceled"),
        (&blue, "input-required"),
        (&other, "canceled"),
    ] {
        // A worker has to take the cancellation in.
        let state_of = || get(address, &path_of(task)).json()["state"].clone();
        while state_of() != state {
            std::thread::yield_now();
        }
    }
    let rest = cancel(json!({ "all": true })).json();
    assert_eq!(rest["tasks"], json!([blue["id"]]));
}

#[test]
fn a_task_that_begins_at_a_time_waits_for_it() {
    let program = Program::new();
    let serving = serve(&program, &[&program.app()]);
    let address = serving.address();
    let submit = |keys: Value| {
        let mut body = json!({ "message": "remind me to buy milk", "mode": "background" });
        body.as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        post(address, "/api/v1/tasks", &body)
    };
    let later = submit(json!({ "not_before": "2100-01-01T00:00:00Z" })).json();
    let now = submit(json!({ "not_before": "2000-01-01T00:00:00Z" })).json();
    while get(address, &path_of(&now)).json()["state"] != "completed" {
        std::thread::yield_now();
    }
    assert_eq!(get(address, &path_of(&later)).json()["state"], "submitted");
    let both = submit(json!({ "not_before": "2100-01-01T00:00:00Z", "delay_ms": 7 }));
    assert_eq!(
        (both.status, both.json()["code"].clone()),
        (400, json!("request.delay"))
    );
}

#[test]
fn files_of_a_task_are_listed_and_downloaded_and_never_shown() {
    let program = Program::new();
    let app = program.app();
    let page = "<script>alert(1)</script>".repeat(20_000);
    let file = program.folder().join("page ü.html");
    std::fs::write(&file, &page).unwrap();
    let asked = program.run(&[
        "--json",
        "run",
        &app,
        "show my tasks",
        "--attach",
        file.to_str().unwrap(),
    ]);
    let asked: Value =
        serde_json::from_slice(&asked.stdout).unwrap_or_else(|_| panic!("{asked:?}"));
    let serving = serve(&program, &[&app]);
    let address = serving.address();
    let path = format!("/api/v1/tasks/{}/blobs", asked["task"].as_str().unwrap());
    let listed = get(address, &path).json();
    let blob = &listed["blobs"][0];
    assert_eq!(
        (&blob["name"], &blob["bytes"]),
        (&json!("page ü.html"), &json!(page.len())),
        "{listed}"
    );
    let content = get(
        address,
        &format!("{path}/{}", blob["hash"].as_str().unwrap()),
    );
    assert_eq!(content.status, 200);
    for (name, value) in [
        ("content-type", blob["media_type"].as_str().unwrap()),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
        (
            "content-disposition",
            "attachment; filename=\"page__.html\"; filename*=UTF-8''page%20%C3%BC.html",
        ),
    ] {
        assert_eq!(content.header(name), Some(value), "{name}");
    }
    assert_eq!(content.text(), page);
    for wrong in ["0".repeat(64), "seven".into()] {
        let missing = get(address, &format!("{path}/{wrong}"));
        assert_eq!(
            (missing.status, missing.json()["code"].clone()),
            (404, json!("blob.not_found"))
        );
    }
}

#[test]
fn an_app_says_what_it_consists_of() {
    let program = Program::new();
    let serving = serve(&program, &[&asking_app(&program), &program.app()]);
    let address = serving.address();
    let of = |app: &str, what: &str| get(address, &format!("/apps/{app}/api/v1/{what}")).json();
    assert_eq!(of("todo", "agents")["agents"][0]["name"], "todo");
    let skills = of("todo", "skills");
    let adding = skills["skills"]
        .as_array()
        .unwrap()
        .iter()
        .find(|skill| skill["name"] == "create_task");
    assert_eq!(adding.unwrap()["agent"], "todo", "{skills}");
    let tools = of("asking", "tools");
    let used = json!({ "name": "builtin.calculate", "agents": ["clerk"], "skills": [], "domains": [], "workflows": ["main"] });
    assert_eq!(tools["tools"], json!([used]));
    assert_eq!(of("todo", "domains"), json!({ "domains": [] }));
    let bounds = of("asking", "workflows")["workflows"][0]["bounds"].clone();
    let checked = program.run(&["--json", "check", &asking_app(&program)]);
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(bounds, checked["workflows"]["main"]);
    let graph = of("asking", "workflows/main");
    assert_eq!(
        (&graph["entry_point"], &graph["bounds"]),
        (&json!("ask"), &bounds)
    );
    let edges = json!([
        { "from": "ask", "to": "count", "key": "approve", "condition": null },
        { "from": "count", "to": "say", "key": null, "condition": "count.result > 40" },
    ]);
    assert_eq!(graph["edges"], edges);
    let missing = get(address, "/apps/asking/api/v1/workflows/other");
    assert_eq!(
        (missing.status, missing.json()["code"].clone()),
        (404, json!("workflow.not_found"))
    );
    // Nothing says what models are told.
    for what in ["app", "agents", "skills", "tools", "workflows/main"] {
        assert!(
            !of("asking", what).to_string().contains("system_prompt"),
            "{what}"
        );
    }
}

#[test]
fn operators_see_the_tasks_of_an_app_administrators_those_of_all_apps_and_users_their_own() {
    let program = Program::new();
    let settings = program.folder().join("server.json");
    let jwt = json!({ "auth": { "jwt": { "algorithm": "HS256", "secret": SECRET } } });
    std::fs::write(&settings, jwt.to_string()).unwrap();
    let settings = settings.to_str().unwrap();
    let (asking, todo) = (asking_app(&program), program.app());
    let serving = Serving::start(&program, &["--settings", settings, &asking, &todo]);
    let address = serving.address();
    let token = |user: &str, role: &str| {
        let minted = program.run(&[
            "token",
            "--settings",
            settings,
            "--user",
            user,
            "--role",
            role,
        ]);
        text(&minted.stdout).trim().to_owned()
    };
    let (ada, bob) = (token("ada", "user"), token("bob", "user"));
    let (operator, admin) = (token("olga", "operator"), token("anna", "admin"));
    let ask = |method: &str, path: &str, token: &str, body: Option<Value>| {
        let request = Request::new(address, method, path).token(token);
        match body {
            Some(body) => request.json(&body).send(),
            None => request.send(),
        }
    };
    let submit = |app: &str, token: &str, message: &str| {
        let path = format!("/apps/{app}/api/v1/tasks");
        ask("POST", &path, token, Some(json!({ "message": message }))).json()
    };
    let of_ada = submit("asking", &ada, "Count.");
    let of_bob = submit("asking", &bob, "Count.");
    let elsewhere = submit("todo", &ada, "show my tasks");
    let ids = |answer: Answer| {
        assert_eq!(answer.status, 200);
        let list = answer.json();
        let tasks = list["tasks"].as_array().unwrap().iter();
        tasks.map(|task| task["id"].clone()).collect::<Vec<_>>()
    };
    let list = "/apps/asking/api/v1/tasks";
    let all = vec![of_bob["id"].clone(), of_ada["id"].clone()];
    assert_eq!(ids(ask("GET", list, &ada, None)), [of_ada["id"].clone()]);
    assert_eq!(ids(ask("GET", list, &operator, None)), all);
    let one = format!("{list}?user={}", of_ada["user"].as_str().unwrap());
    assert_eq!(
        ids(ask("GET", &one, &operator, None)),
        [of_ada["id"].clone()]
    );
    let everything = "/api/v1/all/tasks";
    for token in [&ada, &operator] {
        assert_eq!(ask("GET", everything, token, None).status, 403);
    }
    let everywhere = [vec![elsewhere["id"].clone()], all].concat();
    assert_eq!(ids(ask("GET", everything, &admin, None)), everywhere);
    let task = format!("{list}/{}", of_ada["id"].as_str().unwrap());
    for part in ["", "/history", "/state", "/trace", "/diff", "/blobs"] {
        assert_eq!(
            ask("GET", &format!("{task}{part}"), &operator, None).status,
            200,
            "{part}"
        );
        assert_eq!(
            ask("GET", &format!("{task}{part}"), &bob, None).status,
            404,
            "{part}"
        );
    }
    // A fork would run for the user, so it is the user's alone.
    let fork = ask(
        "POST",
        &format!("{task}/fork"),
        &operator,
        Some(json!({ "at": "2" })),
    );
    assert_eq!(fork.status, 404);
    let canceled = ask(
        "POST",
        &format!("{task}/cancel"),
        &operator,
        Some(json!({})),
    );
    assert_eq!(canceled.status, 200);
    let wrong_app = task.replace("/asking/", "/todo/");
    assert_eq!(ask("GET", &wrong_app, &operator, None).status, 404);
}

#[test]
fn conversations_are_listed_in_pages_searched_read_and_deleted() {
    let program = Program::new();
    let serving = serve(&program, &[&program.app()]);
    let address = serving.address();
    let list = "/api/v1/conversations";
    let said = [
        (1, "remind me to buy MILK"),
        (2, "what's on my list?"),
        (1, "mark milk as done"),
        (3, "remind me to call Ädäm"),
    ];
    let id = |number: u8| format!("00000000-0000-4000-8000-00000000000{number}");
    for (number, message) in said {
        let body = json!({ "message": message, "conversation": id(number) });
        assert_eq!(post(address, "/api/v1/tasks", &body).status, 201);
    }
    let ids = |list: &Value| -> Vec<String> {
        let conversations = list["conversations"].as_array().unwrap().iter();
        conversations
            .map(|it| it["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let all = get(address, list).json();
    assert_eq!(
        (ids(&all), &all["next"]),
        (vec![id(3), id(1), id(2)], &Value::Null)
    );
    let first = get(address, &format!("{list}?limit=2")).json();
    assert_eq!(ids(&first), [id(3), id(1)]);
    let rest = get(
        address,
        &format!("{list}?limit=2&cursor={}", first["next"].as_str().unwrap()),
    )
    .json();
    assert_eq!((ids(&rest), &rest["next"]), (vec![id(2)], &Value::Null));
    for (text, expected) in [
        ("Milk", vec![id(1)]),
        ("%C3%A4d%C3%A4M", vec![id(3)]),
        ("%25", vec![]),
        ("user", vec![]),
    ] {
        let found = get(address, &format!("{list}?text={text}")).json();
        let listed = ids(&found);
        assert!(
            expected.iter().all(|id| listed.contains(id)),
            "{text}: {found}"
        );
        assert!(!expected.is_empty() || listed.is_empty(), "{text}: {found}");
    }
    let one = format!("{list}/{}", id(1));
    let read = get(address, &one).json();
    assert_eq!(read["messages"].as_array().unwrap().len(), 4);
    // While a task of it waits, it stays.
    let later = json!({ "message": "show my tasks", "conversation": id(1), "not_before": "2100-01-01T00:00:00Z", "mode": "background" });
    let waiting = post(address, "/api/v1/tasks", &later).json();
    let delete = || Request::new(address, "DELETE", &one).send();
    let refused = delete();
    assert_eq!(
        (refused.status, refused.json()["code"].clone()),
        (409, json!("conversation.unfinished"))
    );
    let cancel = format!("{}/cancel", path_of(&waiting));
    post(address, &cancel, &json!({}));
    while get(address, &path_of(&waiting)).json()["state"] != "canceled" {
        std::thread::yield_now();
    }
    assert_eq!(delete().status, 204);
    assert_eq!(delete().status, 404);
    assert_eq!(get(address, &one).status, 404);
    assert_eq!(get(address, &path_of(&waiting)).status, 404);
    assert_eq!(ids(&get(address, list).json()), [id(3), id(2)]);
}

#[test]
fn a_message_while_another_is_worked_on_waits_is_refused_or_interrupts() {
    let program = Program::new();
    // Its model never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/v1", silent.local_addr().unwrap());
    let app = program.agent_app(&json!({ "llm_config": { "endpoint": endpoint, "model": "m" } }));
    let serving = serve(&program, &[&app]);
    let address = serving.address();
    let conversation = "00000000-0000-4000-8000-00000000c0de";
    let submit = |while_busy: &str, key: &str| {
        let body = json!({ "message": "Think.", "conversation": conversation, "mode": "background", "while_busy": while_busy });
        let request = Request::new(address, "POST", "/api/v1/tasks").header("idempotency-key", key);
        request.json(&body).send()
    };
    let state = |task: &Value| get(address, &path_of(task)).json()["state"].clone();
    let until = |task: &Value, expected: &str| {
        while state(task) != expected {
            std::thread::yield_now();
        }
    };
    let first = submit("reject", "one").json();
    until(&first, "working");
    let refused = submit("reject", "two");
    assert_eq!(
        (refused.status, refused.json()["code"].clone()),
        (409, json!("store.conversation_busy"))
    );
    let queued = submit("enqueue", "three").json();
    assert_eq!(state(&queued), "submitted");
    // The same key gives the first task, busy or not.
    assert_eq!(submit("reject", "one").json()["id"], first["id"]);
    let other = json!({ "message": "Think.", "mode": "background", "while_busy": "interrupt" });
    let elsewhere = post(address, "/api/v1/tasks", &other).json();
    let newest = submit("interrupt", "four").json();
    until(&first, "canceled");
    until(&queued, "canceled");
    until(&newest, "working");
    // Sent again, it does not interrupt itself.
    assert_eq!(submit("interrupt", "four").json()["id"], newest["id"]);
    until(&elsewhere, "working");
    assert_eq!(state(&newest), "working");
    let unknown = submit("explode", "five");
    assert_eq!(
        (unknown.status, unknown.json()["code"].clone()),
        (400, json!("request.body"))
    );
}
