//! The HTTP service of the real binary: requests and their limits, tokens, users kept apart, and streams that lose nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use convoke_server::{Access, routes};
use program::http::{Answer, Request, SentEvent};
use program::{Program, Serving, text};
use serde_json::{Value, json};

const SECRET: &str = "a secret that nobody knows, of many bytes";

/// An app that asks a person, and then calculates.
fn asking_app(program: &Program) -> String {
    let agent = json!({ "name": "clerk", "role": "Asks.", "system_prompt": "Ask." });
    let workflow = json!({
        "name": "main", "entry_point": "ask",
        "state": { "note": { "schema": { "type": "string" } } },
        "nodes": {
            "ask": { "type": "human", "prompt": "May I?" },
            "count": { "type": "tool", "tool": "builtin.calculate", "arguments": { "expression": "6 * 7" } },
            "say": { "type": "compose", "prompt": "It is {{ count.result }}." },
        },
        "edges": [
            { "from": "ask", "to": { "approve": "count" } },
            { "from": "count", "to": "say" },
        ],
    });
    program.app_of(&[
        ("convoke.json", r#"{ "name": "asking" }"#),
        ("agents/clerk.json", &agent.to_string()),
        ("workflows/main.json", &workflow.to_string()),
    ])
}

/// A service with tokens.
fn with_tokens(program: &Program) -> String {
    let settings =
        json!({ "auth": { "jwt": { "algorithm": "HS256", "secret": SECRET, "issuer": "tests" } } });
    let file = program.folder().join("server.json");
    std::fs::write(&file, settings.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

fn token(program: &Program, settings: &str, arguments: &[&str]) -> String {
    let minted = program.run(&[&["token", "--settings", settings], arguments].concat());
    assert!(minted.status.success(), "{minted:?}");
    text(&minted.stdout).trim().to_owned()
}

fn submit(address: &str, message: &str) -> Value {
    let answer = Request::new(address, "POST", "/api/v1/tasks")
        .json(&json!({ "message": message }))
        .send();
    assert_eq!(answer.status, 201);
    answer.json()
}

fn path_of(task: &Value) -> String {
    format!("/api/v1/tasks/{}", task["id"].as_str().unwrap())
}

fn listed_ids(list: &Value) -> Vec<Value> {
    let tasks = list["tasks"].as_array().unwrap().iter();
    tasks.map(|task| task["id"].clone()).collect()
}

fn get(address: &str, path: &str) -> Answer {
    Request::new(address, "GET", path).send()
}

#[test]
fn a_request_is_answered_and_its_task_can_be_read() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&program.app()]);
    let address = serving.address();
    let task = submit(address, "remind me to buy milk");
    assert_eq!(task["state"], "completed", "{task}");
    assert_eq!(
        task["answer"]["text"],
        "I've added \"buy milk\" to your tasks."
    );
    assert_eq!(task["channel"], "http");
    let read = get(address, &path_of(&task)).json();
    assert_eq!(read, task);
    let named = get(address, &format!("/apps/todo{}", path_of(&task))).json();
    assert_eq!(named, task);
    let listed = get(address, "/api/v1/tasks?state=completed&limit=1").json();
    assert_eq!(listed["tasks"][0]["id"], task["id"]);
    assert_eq!(
        get(address, "/api/v1/tasks?state=failed").json()["tasks"],
        json!([])
    );
    // The user without a token is the user of this machine, as on the command line.
    let shown = program.run(&["run", &program.app(), "show my tasks"]);
    assert!(text(&shown.stdout).contains("buy milk"), "{shown:?}");
    let apps = get(address, "/api/v1/apps").json();
    assert_eq!(apps["apps"][0]["name"], "todo");
    assert_eq!(serving.terminate(), Some(0));
}

#[test]
fn a_key_gives_the_same_task_and_another_request_under_it_is_refused() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&program.app()]);
    let keyed = |message: &str| {
        let request = Request::new(serving.address(), "POST", "/api/v1/tasks");
        request
            .header("idempotency-key", "k1")
            .json(&json!({ "message": message }))
            .send()
    };
    let first = keyed("remind me to buy milk").json();
    assert_eq!(keyed("remind me to buy milk").json()["id"], first["id"]);
    let other = keyed("remind me to buy bread");
    assert_eq!(other.status, 422);
    assert_eq!(other.json()["code"], "store.key_reused");
    assert_eq!(program.todo_titles(), ["buy milk"]);
}

/// A request, and the status and code of the problem it gets.
type BadRequest<'a> = (Request<'a>, u16, &'static str);

fn all_refused(requests: Vec<BadRequest<'_>>) {
    for (request, status, code) in requests {
        let answer = request.send();
        let said = answer.status;
        let media_type = answer.header("content-type");
        assert_eq!(media_type, Some("application/problem+json"), "{code}");
        let options = answer.header("x-content-type-options");
        assert_eq!(options, Some("nosniff"), "{code}");
        let problem = answer.json();
        let found = (said, problem["code"].as_str().unwrap());
        assert_eq!(found, (status, code), "{problem}");
        assert_eq!(problem["status"], status);
    }
}

#[test]
fn bodies_that_do_not_fit_get_a_code_and_change_nothing() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&program.app()]);
    let post = || Request::new(serving.address(), "POST", "/api/v1/tasks");
    let typed = || post().header("content-type", "application/json");
    let message = |text: &str| post().json(&json!({ "message": text }));
    all_refused(vec![
        (typed().body(b"{"), 400, "request.body"),
        (typed().body(b"\xff\xfe"), 400, "request.body"),
        (typed(), 400, "request.body"),
        (message(""), 400, "request.message_empty"),
        (message(&"a".repeat(2_001)), 400, "request.message_long"),
        (
            post().json(&json!({ "mesage": "hello" })),
            400,
            "request.body",
        ),
        (post().body(b"message=hello"), 415, "request.media_type"),
        (message(&"a".repeat(2_000_000)), 413, "request.too_large"),
    ]);
    assert_eq!(program.tasks().len(), 0);
}

#[test]
fn paths_queries_and_names_that_do_not_fit_get_a_code() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&program.app()]);
    let get = |path: &str| Request::new(serving.address(), "GET", path);
    let list = "/api/v1/tasks";
    let unknown = "/api/v1/tasks/00000000-0000-4000-8000-000000000000";
    let events = format!("{unknown}/events");
    let evil = "https://evil.example.com";
    all_refused(vec![
        (get(unknown), 404, "task.not_found"),
        (get("/api/v1/tasks/seven"), 404, "task.not_found"),
        (get(&events), 404, "task.not_found"),
        (get("/api/v1/tasks?limit=0"), 400, "request.query"),
        (get("/api/v1/tasks?limit=1&limit=2"), 400, "request.query"),
        (get("/api/v1/tasks?state=tired"), 400, "request.query"),
        (get("/nothing"), 404, "service.no_such_path"),
        (get("/apps/other/api/v1/tasks"), 404, "registry.unknown_app"),
        (
            Request::new(serving.address(), "DELETE", list),
            405,
            "service.method",
        ),
        (
            get(list).header("host", "evil.example.com"),
            421,
            "request.host",
        ),
        (get(list).header("origin", evil), 403, "request.origin"),
    ]);
}

#[test]
fn only_verified_tokens_are_accepted() {
    let program = Program::new();
    let settings = with_tokens(&program);
    let serving = Serving::start(&program, &["--settings", &settings, &program.app()]);
    let address = serving.address();
    let good = token(&program, &settings, &["--user", "ada"]);
    let listed = Request::new(address, "GET", "/api/v1/tasks")
        .token(&good)
        .send();
    assert_eq!(listed.status, 200);
    let (head, signature) = good.rsplit_once('.').unwrap();
    let (header, claims) = head.split_once('.').unwrap();
    let mut flipped = signature.as_bytes().to_vec();
    flipped[3] = if flipped[3] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    // `{"alg":"none"}`
    let unsigned = format!("eyJhbGciOiJub25lIn0.{claims}.");
    let other_settings = program.folder().join("other.json");
    let other = |jwt: Value| {
        let settings = json!({ "auth": { "jwt": jwt } });
        std::fs::write(&other_settings, settings.to_string()).unwrap();
        token(
            &program,
            other_settings.to_str().unwrap(),
            &["--user", "ada"],
        )
    };
    let bad = [
        format!("{head}.{flipped}"),
        format!("{header}.{claims}.{}", &signature[1..]),
        unsigned,
        other(
            json!({ "algorithm": "HS256", "secret": SECRET.replace("nobody", "everyone"), "issuer": "tests" }),
        ),
        other(json!({ "algorithm": "HS256", "secret": SECRET, "issuer": "others" })),
        other(json!({ "algorithm": "HS256", "secret": SECRET })),
        "a.b.c".into(),
        "x".repeat(5_000),
    ];
    for (index, token) in bad.iter().enumerate() {
        let refused = Request::new(address, "GET", "/api/v1/tasks")
            .token(token)
            .send();
        assert_eq!(refused.status, 401, "{index}");
        assert!(
            refused
                .header("www-authenticate")
                .unwrap()
                .contains("invalid_token"),
            "{index}"
        );
        assert_eq!(refused.json()["code"], "auth.token_invalid", "{index}");
    }
    let missing = get(address, "/api/v1/tasks");
    assert_eq!(
        (missing.status, missing.header("www-authenticate")),
        (401, Some("Bearer"))
    );
    assert_eq!(get(address, "/healthz").status, 200);
}

/// Tries another user's ids in queries and bodies. Gives a task of the user who tried.
fn reaches_nothing_by_ids_outside_of_the_path(address: &str, bob: &str, task: &Value) -> Value {
    let absent = "00000000-0000-4000-8000-000000000000";
    let second = Request::new(address, "POST", "/api/v1/tasks")
        .token(bob)
        .json(&json!({ "message": "Count." }))
        .send()
        .json();
    let foreign = task["id"].as_str().unwrap();
    let diff = |id: &str| {
        let path = format!("{}/diff?with={id}", path_of(&second));
        let answer = Request::new(address, "GET", &path).token(bob).send();
        (answer.status, answer.json())
    };
    assert_eq!(diff(foreign), diff(absent));
    assert_eq!(diff(foreign).0, 404);
    let listed = |query: String| {
        let path = format!("/api/v1/tasks?{query}");
        let answer = Request::new(address, "GET", &path).token(bob).send();
        answer.json()["tasks"].clone()
    };
    let owner = task["user"].as_str().unwrap();
    for filter in [
        format!("user={owner}"),
        format!("conversation={}", task["conversation"].as_str().unwrap()),
        format!("parent={foreign}"),
    ] {
        assert_eq!(listed(filter.clone()), json!([]), "{filter}");
    }
    let canceled = Request::new(address, "POST", "/api/v1/tasks/cancel")
        .token(bob)
        .json(&json!({ "all": true }))
        .send()
        .json();
    assert_eq!(canceled, json!({ "tasks": [second["id"]], "more": false }));
    second
}

#[test]
fn a_user_sees_nothing_of_another_users_and_cannot_tell_whether_it_exists() {
    let program = Program::new();
    let settings = with_tokens(&program);
    let serving = Serving::start(&program, &["--settings", &settings, &asking_app(&program)]);
    let address = serving.address();
    let (ada, bob) = (
        token(&program, &settings, &["--user", "ada"]),
        token(&program, &settings, &["--user", "bob"]),
    );
    let conversation = "00000000-0000-4000-8000-00000000c0de";
    let task = Request::new(address, "POST", "/api/v1/tasks")
        .token(&ada)
        .json(&json!({ "message": "Count.", "conversation": conversation }))
        .send()
        .json();
    assert_eq!(task["state"], "input-required", "{task}");
    // A body that each endpoint accepts. An endpoint without one here fails the test.
    let bodies: HashMap<&str, Value> = [
        ("answer_question", json!({ "action": "approve" })),
        ("cancel_task", json!({ "reason": "not mine" })),
        ("fork_task", json!({ "at": "2" })),
    ]
    .into();
    let absent = "00000000-0000-4000-8000-000000000000";
    let mut tried = BTreeSet::new();
    for route in routes() {
        let known = ["{task}", "{conversation}"];
        let Some(kind) = known.into_iter().find(|kind| route.path.contains(kind)) else {
            // A workflow is a part of the app, which all users share.
            let shared = route.path.replace("{workflow}", "main");
            assert!(!shared.contains('{'), "{route:?} has no rule in this test");
            continue;
        };
        assert_ne!(route.access, Access::Public, "{route:?}");
        let ask = |id: &str| {
            let digits = "0".repeat(64);
            let path = route.path.replace(kind, id).replace("{blob}", &digits);
            assert!(!path.contains('{'), "{route:?} has no rule in this test");
            let mut request = Request::new(address, route.method.as_str(), &path).token(&bob);
            if route.method == "POST" {
                request = request.json(&bodies[route.name]);
            }
            let answer = request.send();
            let status = answer.status;
            (status, answer.json())
        };
        let foreign = ask(match kind {
            "{task}" => task["id"].as_str().unwrap(),
            _ => conversation,
        });
        assert_eq!(foreign, ask(absent), "{route:?}");
        assert_eq!(foreign.0, 404, "{route:?}");
        tried.insert(route.name);
    }
    assert!(tried.len() >= 12, "{tried:?}");
    let second = reaches_nothing_by_ids_outside_of_the_path(address, &bob, &task);
    let taken = Request::new(address, "POST", "/api/v1/tasks")
        .token(&bob)
        .json(&json!({ "message": "Count.", "conversation": conversation }))
        .send();
    assert_eq!(taken.status, 404);
    let own = Request::new(
        address,
        "GET",
        &format!("/api/v1/conversations/{conversation}"),
    )
    .token(&ada)
    .send();
    assert_eq!(own.json()["messages"][0]["content"], "Count.");
    let conversations = Request::new(address, "GET", "/api/v1/conversations")
        .token(&bob)
        .send();
    assert_eq!(conversations.json()["conversations"], json!([]));
    assert_eq!(
        listed_ids(
            &Request::new(address, "GET", "/api/v1/tasks")
                .token(&bob)
                .send()
                .json()
        ),
        [second["id"].clone()]
    );
    let unchanged = Request::new(address, "GET", &path_of(&task))
        .token(&ada)
        .send()
        .json();
    assert_eq!(unchanged, task);
}

#[test]
fn an_address_that_others_reach_needs_tokens_or_two_words_to_the_contrary() {
    let program = Program::new();
    let settings = program.folder().join("server.yaml");
    let serve = |written: &str, arguments: &[&str]| {
        std::fs::write(&settings, written).unwrap();
        let file = settings.to_str().unwrap();
        let app = program.app();
        let fixed = [
            "--json",
            "serve",
            &app,
            "--settings",
            file,
            "--listen",
            "0.0.0.0:0",
        ];
        program.run(&[&fixed, arguments].concat())
    };
    let refusals = [
        ("hosts: []", &[][..], "server.auth_missing"),
        ("hosts: []", &["--without-auth"], "server.auth_missing"),
        ("auth: { required: false }", &[], "server.auth_off"),
    ];
    for (written, arguments, code) in refusals {
        let refused = serve(written, arguments);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stdout).contains(code), "{refused:?}");
    }
    let broken = serve("limits:\n  body_byte: 7\n", &[]);
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    let said = text(&broken.stdout) + &text(&broken.stderr);
    assert!(
        said.contains("server.yaml") && said.contains("body_bytes"),
        "{said}"
    );
    let secret = serve("auth: { jwt: { algorithm: HS256, secret: short } }", &[]);
    let said = text(&secret.stdout) + &text(&secret.stderr);
    assert!(said.contains("server.jwt_secret"), "{said}");
}

/// The state of a reader: all events, and the text that is not taken back.
fn folded(events: &[SentEvent]) -> (Vec<SentEvent>, BTreeMap<String, String>) {
    let mut journaled = Vec::new();
    let mut live: BTreeMap<String, String> = BTreeMap::new();
    for event in events {
        if event.id.is_some() {
            if let Some(call) = event.data["call"].as_str() {
                live.remove(call);
            }
            journaled.push(event.clone());
            continue;
        }
        let call = event.data["call"].as_str().unwrap().to_owned();
        match event.data["type"].as_str().unwrap() {
            "text" => {
                let text = live.entry(call).or_default();
                let offset = usize::try_from(event.data["offset"].as_u64().unwrap()).unwrap();
                text.truncate(offset);
                text.push_str(event.data["text"].as_str().unwrap());
            }
            _ => {
                live.remove(&call);
            }
        }
    }
    (journaled, live)
}

fn events_after(address: &str, task: &str, cursor: &str) -> Answer {
    let request = Request::new(address, "GET", &format!("{task}/events"));
    request.header("last-event-id", cursor).send()
}

#[test]
fn a_stream_that_is_cut_after_any_event_goes_on_at_another_process() {
    let program = Program::new();
    let app = asking_app(&program);
    let mut first = Some(Serving::start(&program, &[&app]));
    let second = Serving::start(&program, &[&app]);
    let address = first.as_ref().unwrap().address().to_owned();
    let begun = Request::new(&address, "POST", "/api/v1/tasks")
        .json(&json!({ "message": "Count.", "mode": "background" }))
        .send();
    assert_eq!(begun.status, 202);
    let task = path_of(&begun.json());
    // The first process is killed while it streams, once the question is there.
    let mut seen: Vec<SentEvent> = Vec::new();
    for event in get(&address, &format!("{task}/events")).events() {
        let asked = event.name == "question_asked";
        seen.push(event);
        if asked {
            first.take();
        }
    }
    assert!(first.is_none(), "{seen:?}");
    let cursor = seen
        .iter()
        .rev()
        .find_map(|event| event.id.clone())
        .unwrap();
    let rest = events_after(second.address(), &task, &cursor);
    let answered = Request::new(second.address(), "POST", &format!("{task}/answer"))
        .json(&json!({ "action": "approve" }))
        .send();
    assert_eq!(answered.status, 200);
    assert_eq!(answered.json()["answer"]["text"], "It is 42.");
    seen.extend(rest.events());
    let uncut: Vec<SentEvent> = get(second.address(), &format!("{task}/events"))
        .events()
        .collect();
    assert_eq!(folded(&seen).0, folded(&uncut).0);
    assert_eq!(uncut.last().unwrap().name, "ended");
    for (index, event) in uncut.iter().enumerate() {
        let Some(id) = &event.id else { continue };
        let rest = events_after(second.address(), &task, id);
        if index + 1 == uncut.len() {
            assert_eq!(rest.status, 204);
            continue;
        }
        let joined: Vec<SentEvent> = uncut[..=index]
            .iter()
            .cloned()
            .chain(rest.events())
            .collect();
        assert_eq!(folded(&joined), folded(&uncut), "cut after {id}");
    }
}

#[test]
fn requests_with_keys_that_are_repeated_until_answered_are_neither_lost_nor_done_twice() {
    let program = Program::new();
    let app = program.app();
    let titles: Vec<String> = (0..60)
        .map(|number| format!("wash dish {number}"))
        .collect();
    let mut serving = Serving::start(&program, &[&app]);
    let mut kills = 0;
    for (index, title) in titles.iter().enumerate() {
        let body = json!({ "message": format!("remind me to {title}"), "mode": "background" });
        loop {
            let request = Request::new(serving.address(), "POST", "/api/v1/tasks");
            let sent = request
                .header("idempotency-key", title)
                .json(&body)
                .try_send();
            if index % 10 == 5 && kills < index / 10 + 1 {
                kills += 1;
                serving = Serving::start(&program, &[&app]);
            }
            if sent.and_then(Answer::try_text).is_ok() {
                break;
            }
        }
    }
    assert_eq!(kills, 6);
    drop(serving);
    let resumed = program.run(&["resume", &app]);
    assert!(resumed.status.success(), "{resumed:?}");
    let mut done = program.todo_titles();
    done.sort();
    let mut expected = titles;
    expected.sort();
    assert_eq!(done, expected);
}

#[test]
fn the_document_describes_every_endpoint_and_the_page_shows_it() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&program.app()]);
    let document = get(serving.address(), "/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    for route in routes() {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        assert_eq!(operation["operationId"], route.name, "{route:?}");
    }
    let written = document.to_string();
    for reference in written.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
    let page = get(serving.address(), "/docs");
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .contains("default-src 'none'")
    );
    assert!(page.text().contains("openapi.json"));
}

/// Checks the types of a TypeScript client, and gives the program.
fn compiled(client: &Path, into: &Path) -> PathBuf {
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-servers/node_modules");
    let checked = std::process::Command::new(installed.join(".bin/tsc"))
        .args([
            "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node",
        ])
        .arg("--typeRoots")
        .arg(installed.join("@types"))
        .arg("--outDir")
        .args([into, client])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    into.join(client.file_name().unwrap()).with_extension("mjs")
}

#[test]
fn the_example_clients_get_an_answer() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&program.app()]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/http");
    let service = format!("http://{}", serving.address());
    let typed = compiled(&folder.join("ask.mts"), &program.folder().join("typed"));
    for (interpreter, client, file) in [
        ("python3", folder.join("ask.py"), "ask.py"),
        ("bash", folder.join("ask.sh"), "ask.sh"),
        ("node", typed, "ask.mts"),
    ] {
        let message = format!("remind me to try {file}");
        let asked = std::process::Command::new(interpreter)
            .arg(client)
            .args([&service, &message])
            .output()
            .unwrap();
        assert!(asked.status.success(), "{asked:?}");
        let expected = format!("I've added \"try {file}\" to your tasks.\n");
        assert_eq!(text(&asked.stdout), expected, "{asked:?}");
    }
}

#[test]
fn a_change_with_an_unknown_or_ill_typed_field_is_refused_and_the_task_still_waits() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&asking_app(&program)]);
    let address = serving.address();
    let task = Request::new(address, "POST", "/api/v1/tasks")
        .json(&json!({ "message": "Count." }))
        .send()
        .json();
    assert_eq!(task["state"], "input-required", "{task}");
    let task = path_of(&task);
    for (field, value, code) in [
        ("note_", json!("x"), "answer.field_unknown"),
        ("note", json!(7), "answer.field_type"),
    ] {
        let value = json!({ "state_updates": { field: value } });
        let answered = Request::new(address, "POST", &format!("{task}/answer"))
            .json(&json!({ "action": "modify", "value": value }))
            .send();
        assert_eq!(answered.status, 400, "{field}");
        assert_eq!(answered.json()["code"], code, "{field}");
        assert_eq!(get(address, &task).json()["state"], "input-required");
    }
}
