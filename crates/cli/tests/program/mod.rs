//! The real binary with a data folder of its own.
#![allow(dead_code, reason = "each test file uses its own part of it")]

pub(crate) mod http;

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

/// One data folder, and the binary to run over it.
pub(crate) struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A folder that nobody else uses.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The to-do app of the repository.
    #[expect(
        clippy::unused_self,
        reason = "reads as a property of the program under test"
    )]
    pub(crate) fn app(&self) -> String {
        root()
            .join("apps/todo")
            .canonicalize()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    }

    /// A copy of the app whose file server is the one that the tests installed, so that nothing is fetched.
    pub(crate) fn operations_app(&self) -> String {
        let copy = self.copy_of("operations", &["agents", "config", "workflows", "."]);
        let app = Path::new(&copy);
        let modules = root().join("target/test-servers/node_modules");
        let server = modules.join("@modelcontextprotocol/server-filesystem/dist/index.js");
        assert!(server.exists(), "run tests/install-test-servers first");
        let config = app.join("config/mcp_servers.yaml");
        let written = std::fs::read_to_string(&config).unwrap();
        let changed = written.replace("command: npx", "command: node").replace(
            "--yes, \"@modelcontextprotocol/server-filesystem@2026.8.31\"",
            &format!("\"{}\"", server.canonicalize().unwrap().display()),
        );
        assert_ne!(written, changed);
        std::fs::write(&config, changed).unwrap();
        copy
    }

    /// A copy of the files in these folders of an example app, to be changed.
    pub(crate) fn copy_of(&self, name: &str, folders: &[&str]) -> String {
        let app = self.folder().join(name);
        for folder in folders {
            std::fs::create_dir_all(app.join(folder)).unwrap();
            for entry in std::fs::read_dir(root().join("apps").join(name).join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    let to = app.join(folder).join(path.file_name().unwrap());
                    std::fs::copy(&path, to).unwrap();
                }
            }
        }
        app.to_str().unwrap().to_owned()
    }

    /// An app of one agent with these keys besides the usual ones.
    pub(crate) fn agent_app(&self, keys: &Value) -> String {
        let app = self.folder().join("agent_app");
        let mut agent = json!({ "name": "clerk", "role": "Answers.", "system_prompt": "Answer." });
        agent
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        std::fs::create_dir_all(app.join("agents")).unwrap();
        std::fs::write(
            app.join("convoke.json"),
            json!({ "name": "clerk" }).to_string(),
        )
        .unwrap();
        std::fs::write(app.join("agents/clerk.json"), agent.to_string()).unwrap();
        app.to_str().unwrap().to_owned()
    }

    /// An app of these files, by their paths in it.
    pub(crate) fn app_of(&self, files: &[(&str, &str)]) -> String {
        let app = self.folder().join("app");
        for (file, written) in files {
            let path = app.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, written).unwrap();
        }
        app.to_str().unwrap().to_owned()
    }

    /// The store's file, opened past Convoke.
    pub(crate) fn open_store(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.data().join("store.db")).unwrap()
    }

    fn data(&self) -> PathBuf {
        self.folder().join(".convoke")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
        command
            .args(arguments)
            .current_dir(self.folder())
            .env_remove("CONVOKE_DATA");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs with no more than 4 GiB of address space, threads included.
    pub(crate) fn limited(&self, arguments: &[&str]) -> Output {
        let limit = "ulimit -v 4194304 && exec \"$0\" \"$@\"";
        Command::new("sh")
            .args(["-c", limit, env!("CARGO_BIN_EXE_convoke")])
            .args(arguments)
            .current_dir(self.folder())
            .env_remove("CONVOKE_DATA")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Every task of the store, by id.
    pub(crate) fn tasks(&self) -> HashMap<String, Value> {
        let listed = self.run(&["--json", "tasks", "list", "--limit", "10000"]);
        assert!(listed.status.success(), "{listed:?}");
        text(&listed.stdout)
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|task| (task["id"].as_str().unwrap().to_owned(), task))
            .collect()
    }

    /// The titles in the to-do server's own database, read past Convoke.
    pub(crate) fn todo_titles(&self) -> Vec<String> {
        let database = rusqlite::Connection::open(self.data().join("todo.db")).unwrap();
        let mut statement = database.prepare("SELECT title FROM tasks").unwrap();
        statement
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }

    /// Makes every task so many days older.
    pub(crate) fn age_tasks(&self, days: u64) {
        let store = self.open_store();
        let milliseconds = days * 24 * 60 * 60 * 1_000;
        store
            .execute(
                "UPDATE tasks SET completed_at = completed_at - ?1, created_at = created_at - ?1",
                [milliseconds],
            )
            .unwrap();
    }

    /// Waits until the store holds a task.
    pub(crate) fn until_submitted(&self) {
        let path = self.data().join("store.db");
        loop {
            let count = rusqlite::Connection::open_with_flags(
                &path,
                rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
            )
            .and_then(|store| store.query_row("SELECT count(*) FROM tasks", [], |row| row.get(0)));
            if count.is_ok_and(|count: i64| count > 0) {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// A process that serves apps, and ends with the test.
pub(crate) struct Serving {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Serving {
    /// Serves the apps and whatever else stands on the command line, and returns once the first app is served.
    pub(crate) fn start(program: &Program, arguments: &[&str]) -> Self {
        let arguments = [&["--json", "serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut command = program.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let address = String::new();
        let mut serving = Self {
            child,
            output,
            address,
        };
        let ready = serving.next();
        assert!(ready["serving"].is_string(), "{ready}");
        let url = ready["url"].as_str().unwrap();
        let address = url.split('/').nth(2).unwrap();
        address.clone_into(&mut serving.address);
        serving
    }

    /// Where it listens, such as `127.0.0.1:8080`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The next thing that it says.
    pub(crate) fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    pub(crate) fn terminate(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(child: &Child, name: &str) {
    let (name, pid) = (format!("-{name}"), child.id().to_string());
    let sent = Command::new("kill").args([name, pid]).status().unwrap();
    assert!(sent.success());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
