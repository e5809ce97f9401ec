//! Runs the apps of this folder and of the repository with the real binary, real tool servers and a scripted model, and
//! collects everything that comes out.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use convoke_testkit::{RecordedRequest, Reply, Script, ScriptedModel};
use serde_json::{Value, json};

use super::Documents;
use crate::program::http::Request;
use crate::program::{Program, Serving, text};

/// What all runs share: the model, and a tool server over SSE.
struct Surroundings {
    variables: Vec<(&'static str, String)>,
    server: Child,
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A store of its own, with all that was done in it.
struct Store {
    program: Program,
    surroundings: Arc<Surroundings>,
    documents: Documents,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fields")
}

/// An app of this folder.
fn app(name: &str) -> String {
    folder().join(name).to_str().unwrap().to_owned()
}

/// An app of the repository.
pub(crate) fn shipped(name: &str) -> String {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    apps.join(name)
        .canonicalize()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

impl Store {
    fn new(surroundings: &Arc<Surroundings>) -> Self {
        Self {
            program: Program::new(),
            surroundings: Arc::clone(surroundings),
            documents: Documents::default(),
        }
    }

    /// Everything that a command prints, with its JSON lines.
    fn convoke(&self, arguments: &[&str]) -> Vec<Value> {
        let arguments = [&["--json"], arguments].concat();
        let mut command = self.program.command(&arguments);
        let variables = self.surroundings.variables.iter();
        command.envs(variables.map(|(name, value)| (*name, value)));
        let output = command.stdin(Stdio::null()).output().unwrap();
        let lines = text(&output.stdout);
        let lines = lines.lines().map(|line| {
            let value = serde_json::from_str(line);
            value.unwrap_or_else(|error| panic!("{error}: {arguments:?}: {output:?}"))
        });
        lines.collect()
    }

    fn note(&mut self, kind: &str, arguments: &[&str]) {
        for document in self.convoke(arguments) {
            self.documents.add(kind, document);
        }
    }

    /// Sends a message, and gives the task's id.
    fn run(&mut self, app: &str, message: &str, more: &[&str]) -> String {
        let arguments = [&["run", app, message], more].concat();
        let result = self.convoke(&arguments).pop().unwrap();
        let task = result["task"].as_str();
        let task = task
            .unwrap_or_else(|| panic!("{message}: {result}"))
            .to_owned();
        self.documents.add("run", result);
        task
    }

    /// Answers a task's question, and goes on.
    fn answer(&mut self, app: &str, task: &str, answer: &[&str]) {
        let answered = self.convoke(&[&["tasks", "answer", task], answer].concat());
        assert_eq!(answered[0]["accepted"], true, "{answer:?}: {answered:?}");
        self.convoke(&["resume", app]);
    }

    /// After how many days each task is removed.
    fn age(&mut self, app: &str, days: &[u64]) {
        let tasks = self.program.tasks();
        let mut before = 0;
        for after in days {
            self.program.age_tasks(after - before);
            before = *after;
            let swept = self.convoke(&["tasks", "prune", "--app", app]);
            for id in swept[0]["tasks"].as_array().unwrap() {
                let task = &tasks[id.as_str().unwrap()];
                let key = format!("after_{after}_days");
                let removed = json!({ key: { "status": task["status"], "tags": task["tags"] } });
                self.documents.add("prune", removed);
            }
        }
    }

    /// Everything that the store tells of its tasks.
    fn all(mut self) -> Documents {
        for (id, task) in self.program.tasks() {
            for kind in ["trace", "show", "history"] {
                self.note(kind, &["tasks", kind, &id]);
            }
            // One that is not ended would be followed until it is.
            if !task["completed_at"].is_null() {
                self.note("events", &["tasks", "follow", &id]);
            }
            self.documents.add("list", task);
        }
        for listed in self.convoke(&["conversations", "list"]) {
            let id = listed["session_id"].as_str().unwrap();
            self.note("conversation", &["conversations", "show", id]);
            self.documents.add("conversation", listed);
        }
        self.convoke(&["tasks", "export", "out"]);
        let tasks = fs::read_dir(self.program.folder().join("out/tasks")).unwrap();
        for task in tasks {
            for file in fs::read_dir(task.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
                let kind = name.split('_').next().unwrap();
                let file = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
                self.documents.add(kind, file);
            }
        }
        self.documents
    }
}

/// A workflow: tools over both transports, a condition, a person, an agent that asks another, and what goes wrong.
fn desk(mut store: Store) -> Documents {
    let app = app("desk");
    store.note("check", &["check", &app]);
    let task = store.run(
        &app,
        "the milk",
        &["--tag", "critical", "--keep-days", "50"],
    );
    store.answer(&app, &task, &["approve", "--message", "go on"]);
    store.answer(
        &app,
        &task,
        &["modify", "--message", r#"{"what": "the butter"}"#],
    );
    let task = store.run(&app, "the bread", &["--tag", "critical"]);
    store.answer(&app, &task, &["reject", "--message", "not today"]);
    let task = store.run(&app, "the tea", &[]);
    store.answer(&app, &task, &["modify", "--set", r#"note="the coffee""#]);
    let task = store.run(&app, "the cake", &[]);
    store.convoke(&["tasks", "cancel", &task, "--reason", "no more"]);
    store.convoke(&["resume", &app]);
    // These wait for a person, the second one in a task of its own.
    store.run(&app, "the jam", &[]);
    store.run(&app, "the honey", &[]);
    // A call that fails, and more calls than there may be.
    store.run(&app, "broken", &[]);
    store.run(&app, "over and over", &[]);
    store.all()
}

/// The same app, looked at after days.
fn kept(mut store: Store) -> Documents {
    let app = app("kept");
    store.run(&app, "1 + 1", &[]);
    store.run(&app, "2 + 2", &["--tag", "critical"]);
    store.run(&app, "nothing", &[]);
    store.age(&app, &[6, 21, 51]);
    store.documents
}

/// Agents behind a router that is a model.
fn team(mut store: Store) -> Documents {
    let app = app("team");
    for message in [
        "the light please",
        "both of them",
        "broken one of both",
        "late one of both",
        "garbled",
        "unsure",
        "nobody",
    ] {
        store.run(&app, message, &[]);
    }
    store.all()
}

/// Domains: one answers, one fails, one is too slow and one is not enabled.
fn data(mut store: Store) -> Documents {
    let app = app("data");
    for message in [
        "what is in stock",
        "what is in stock and which prices changed",
        "how many orders came in",
        "who works here",
        "counting boxes",
    ] {
        store.run(&app, message, &[]);
    }
    store.all()
}

/// A task that runs out of time.
fn slow(mut store: Store) -> Documents {
    store.run(&app("slow"), "hurry", &[]);
    store.all()
}

/// A tool whose result has another shape than the app says.
fn wrong(mut store: Store) -> Documents {
    store.note("check", &["check", &app("wrong"), "--connect"]);
    store.documents
}

/// The apps of the repository.
fn todo(mut store: Store) -> Documents {
    let app = shipped("todo");
    store.run(&app, "remind me to buy milk", &[]);
    for message in [
        "remind me to buy oat milk",
        "what's on my list?",
        "mark milk as done",
        "rename oat milk to cream",
        "mark cream as done",
        "show my completed tasks",
        "delete cream",
    ] {
        store.run(&app, message, &["--continue"]);
    }
    store.run(&app, "flurb the gronk", &[]);
    let history = store.program.folder().join("history.json");
    let said = |turn: usize| json!({ "role": "user", "content": format!("turn {turn}") });
    fs::write(
        &history,
        json!((0..52).map(said).collect::<Vec<_>>()).to_string(),
    )
    .unwrap();
    let history = ["--history", history.to_str().unwrap()];
    store.run(&app, "remind me to buy bread", &history);
    for channel in ["sms", "email", "whatsapp", "teams"] {
        store.run(&app, "what's on my list?", &["--channel", channel]);
    }
    let serving = Serving::start(&store.program, &[&app]);
    for message in ["remind me to buy tea", ""] {
        let chat = Request::new(serving.address(), "POST", "/v1/chat");
        let answer = chat.json(&json!({ "message": message })).send();
        store.documents.add("chat", answer.json());
    }
    drop(serving);
    store.all()
}

fn home(mut store: Store) -> Documents {
    let app = shipped("home");
    store.run(&app, "turn on the kitchen lights and play jazz", &[]);
    store.run(&app, "turn it off", &[]);
    store.all()
}

/// What the model says, by who asks and what for.
fn said(request: &RecordedRequest) -> Reply {
    let body = &request.body;
    let messages = body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let asked = last["content"].as_str().unwrap_or_default();
    let all = body["messages"].to_string();
    match body["model"].as_str().unwrap_or_default() {
        "router-model" => routed(asked),
        "music-model" if all.contains("broken") => Reply::status(503),
        "music-model" if all.contains("late") => Reply::hang(),
        "clerk-model" if body["tools"].is_array() && last["role"] != "tool" => called(&all, body),
        model => Reply::text(format!("The {model} has spoken.")),
    }
}

fn routed(asked: &str) -> Reply {
    let target = |name: &str, confidence: f64| json!({ "name": name, "confidence": confidence });
    let choice = |targets: Vec<Value>, reasoning: &str| {
        Reply::text(json!({ "targets": targets, "reasoning": reasoning }).to_string())
    };
    if asked.contains("both") {
        choice(
            vec![target("light", 0.9), target("music", 0.8)],
            "both are meant",
        )
    } else if asked.contains("unsure") {
        choice(vec![target("light", 0.3)], "the light, perhaps")
    } else if asked.contains("nobody") {
        choice(Vec::new(), "nobody is meant")
    } else if asked.contains("garbled") {
        Reply::text("I would say that it is the light.")
    } else {
        choice(vec![target("light", 0.95)], "the light is meant")
    }
}

/// The clerk looks something up, through a tool that is broken, and asks the helper; or changes something.
fn called(all: &str, body: &Value) -> Reply {
    if all.contains("honey") {
        return Reply::tool_calls([("change", json!({ "what": "the honey" }))]);
    }
    let tools = body["tools"].as_array().unwrap().iter();
    let mut names = tools.map(|tool| tool["function"]["name"].as_str().unwrap());
    let helper = names.find(|name| name.contains("helper")).unwrap();
    Reply::tool_calls([
        ("break", json!({ "query": "in spite of it" })),
        (helper, json!({ "task": "Help." })),
    ])
}

/// Runs everything, each app in a store of its own, and gives what came out.
pub(crate) async fn emitted() -> Documents {
    let model = ScriptedModel::start(Script::by(said)).await.unwrap();
    let script = folder().join("server.py");
    let mut server = Command::new("python3")
        .args([script.to_str().unwrap(), "--sse"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    output.read_line(&mut port).unwrap();
    let surroundings = Arc::new(Surroundings {
        variables: vec![
            ("MODEL_ENDPOINT", model.endpoint()),
            ("MODEL_KEY", "key-of-the-desk".to_owned()),
            ("BOX", script.to_str().unwrap().to_owned()),
            ("FAR", format!("http://127.0.0.1:{}/sse", port.trim())),
        ],
        server,
    });
    let runs: [fn(Store) -> Documents; 8] = [desk, kept, team, data, slow, wrong, todo, home];
    let runs = runs.map(|run| {
        let store = Store::new(&surroundings);
        tokio::task::spawn_blocking(move || run(store))
    });
    let mut documents = Documents::default();
    for run in runs {
        documents.extend(run.await.unwrap());
    }
    let attempts = count_attempts(&documents, &model.requests());
    documents.add("measured", attempts);
    let store = Store::new(&surroundings);
    let schema = store.convoke(&["schema", "RouterOptions"]).pop().unwrap();
    documents.add("schema", json!({ "RouterOptions": schema }));
    for request in model.requests() {
        let mut asked = request.body;
        asked["path"] = request.uri.path().into();
        let key = request.headers.get("authorization");
        asked["authorization"] = key.and_then(|key| key.to_str().ok()).into();
        documents.add("model", asked);
    }
    documents
}

/// How often the router was asked what it could not say, and the music agent what it could not do.
fn count_attempts(documents: &Documents, requests: &[RecordedRequest]) -> Value {
    let garbled = |request: &&RecordedRequest| {
        request.body["model"] == "router-model" && request.body.to_string().contains("garbled")
    };
    let broken = |trace: &&Value| {
        trace["steps"][0]["message"] == "broken one of both"
            && trace["steps"][1]["agent"] == "music"
    };
    let music = documents.of("trace").iter().find(broken);
    let thoughts = music
        .and_then(|trace| trace["steps"].as_array())
        .into_iter()
        .flatten();
    let failed = thoughts.filter(|step| step["llm_calls"][0]["success"] == false);
    json!({
        "attempts_of_the_router": requests.iter().filter(garbled).count(),
        "attempts_of_the_music": failed.count(),
    })
}
