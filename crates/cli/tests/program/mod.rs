//! The real binary with a data folder of its own.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

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
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        root.join("apps/todo")
            .canonicalize()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
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

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
