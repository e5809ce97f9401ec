//! Runs an app and collects all that is told: what the commands print, and what the model is sent.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use convoke_testkit::{Reply, ScriptedModel};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::program::{Program, text};
use crate::table::{Probe, Row, Table};

/// Stands for the address of the scripted model in an app.
const MODEL: &str = "MODEL";

/// Stands for the folder with the tool server of the tables.
const SERVER: &str = "SERVER";

/// Stands for the address of that server over HTTP.
const SHOP: &str = "SHOP/";

/// The tool server over HTTP, as long as it is needed.
struct RemoteShop {
    child: Child,
    address: String,
}

impl RemoteShop {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .arg(crate::folder().join("shop.py"))
            .arg("--http")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut port).unwrap();
        let address = format!("http://127.0.0.1:{}/", port.trim());
        Self { child, address }
    }
}

impl Drop for RemoteShop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the probes of a table, each once.
pub(crate) struct Observer<'a> {
    table: &'a Table,
    runtime: Runtime,
    seen: Mutex<HashMap<String, Arc<OnceLock<String>>>>,
}

impl<'a> Observer<'a> {
    pub(crate) fn new(table: &'a Table) -> Self {
        Self {
            table,
            runtime: Runtime::new().unwrap(),
            seen: Mutex::default(),
        }
    }

    /// Why a row is not true, if it is not.
    pub(crate) fn fault(&self, row: &Row) -> Option<String> {
        let [before, after] = row.runs(self.table).map(|probe| self.observe(&probe));
        let holds = |text: &Option<String>, here: &str, there: &str| {
            text.as_ref()
                .is_none_or(|text| here.contains(text) && !there.contains(text))
        };
        if holds(&row.was, &before, &after) && holds(&row.now, &after, &before) {
            return None;
        }
        Some(format!(
            "=== {} ({})\nwas: {:?}\nnow: {:?}\n--- the first run\n{before}\n--- the second run\n{after}",
            row.place, row.probe, row.was, row.now
        ))
    }

    fn observe(&self, probe: &Probe) -> String {
        let key = format!("{probe:?}");
        let known = Arc::clone(self.seen.lock().unwrap().entry(key).or_default());
        known.get_or_init(|| self.run(probe)).clone()
    }

    fn run(&self, probe: &Probe) -> String {
        let replies: Vec<Reply> = probe.model.iter().map(reply).collect();
        let model = self.runtime.block_on(ScriptedModel::start(replies));
        let model = model.unwrap();
        let program = Program::new();
        let shop = probe.app.to_string().contains(SHOP).then(RemoteShop::start);
        let address = shop.as_ref().map_or("", |shop| shop.address.as_str());
        let app = write_app(&program, &probe.app, &model.endpoint(), address);
        let mut told = String::new();
        for step in &probe.steps {
            take(&program, &app, step, &mut told);
        }
        for request in model.requests() {
            let authorization = request.headers.get("authorization");
            writeln!(told, "model {authorization:?}: {}", request.body).unwrap();
        }
        told
    }
}

/// A reply of the model: a text, calls of tools, data, or a status.
fn reply(reply: &Value) -> Reply {
    match reply {
        Value::String(text) => Reply::text(text.as_str()),
        Value::Number(status) => Reply::status(u16::try_from(status.as_u64().unwrap()).unwrap()),
        Value::Null => Reply::hang(),
        Value::Object(fields) => match fields.get("calls").and_then(Value::as_object) {
            Some(calls) => Reply::tool_calls(
                calls
                    .iter()
                    .map(|(tool, arguments)| (tool.as_str(), arguments.clone())),
            ),
            None => Reply::text(reply.to_string()),
        },
        _ => panic!("no reply: {reply}"),
    }
}

/// Writes the files of an app, and returns its folder.
pub(crate) fn write_app(program: &Program, app: &Value, endpoint: &str, shop: &str) -> String {
    let server = crate::folder().display().to_string();
    let folder = program.folder().join("app");
    for (path, content) in app.as_object().unwrap() {
        let content = content
            .to_string()
            .replace(MODEL, endpoint)
            .replace(SERVER, &server)
            .replace(SHOP, shop);
        let path = folder.join(path.replace(".yaml", ".json"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

/// Runs a command: its arguments, or a map of `args`, `input`, `env` and `files` to write before it. With `days`, lets that
/// time pass for the tasks; with `show`, shows every file of a folder;
/// with `query`, the number that the store has for it.
fn take(program: &Program, app: &str, step: &Value, told: &mut String) {
    if let Some(days) = step["days"].as_u64() {
        program.age_tasks(days);
        return;
    }
    if let Some(query) = step["query"].as_str() {
        let store = program.open_store();
        let number = store.query_row(query, [], |row| row.get::<_, i64>(0));
        writeln!(told, "{query}: {}", number.unwrap()).unwrap();
        return;
    }
    if let Some(folder) = step["show"].as_str() {
        show(&program.folder().join(folder), told);
        return;
    }
    let arguments = if step.is_array() { step } else { &step["args"] };
    let arguments: Vec<&str> = arguments
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| match argument.as_str().unwrap() {
            "APP" => app,
            other => other,
        })
        .collect();
    for (path, content) in step["files"].as_object().into_iter().flatten() {
        let content = content.as_str().map_or(content.to_string(), str::to_owned);
        std::fs::write(program.folder().join(path), content).unwrap();
    }
    let mut command = program.command(&arguments);
    for (name, value) in step["env"].as_object().into_iter().flatten() {
        command.env(name, value.as_str().unwrap());
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = step["input"].as_str().unwrap_or_default();
    // A command that fails at once reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let shown = arguments.join(" ").replace(app, "APP");
    let (code, out) = (output.status.code(), text(&output.stdout));
    writeln!(
        told,
        "$ {shown}\n{out}{}exit {code:?}",
        text(&output.stderr)
    )
    .unwrap();
}

fn show(path: &Path, told: &mut String) {
    if path.is_dir() {
        let inside = std::fs::read_dir(path).unwrap();
        inside.for_each(|entry| show(&entry.unwrap().path(), told));
    } else {
        writeln!(told, "{}", path.display()).unwrap();
        let content = std::fs::read(path).unwrap();
        told.push_str(&String::from_utf8_lossy(&content));
    }
}
