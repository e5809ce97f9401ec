//! An app whose tool server leaves a mark when it is started, and an export of a task that waits to use it.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::Program;

/// An app that asks a person before it uses its tool server.
pub(crate) struct AskingApp {
    pub(crate) folder: String,
}

impl AskingApp {
    /// Writes the app, or writes it again as it was.
    pub(crate) fn new(program: &Program, name: &str) -> Self {
        let app = Self {
            folder: program.folder().join(name).to_str().unwrap().to_owned(),
        };
        let mark = program.folder().join("started");
        let servers = format!(
            "servers:\n  - name: todo\n    inject: {{user_id: user_id}}\n    transport:\n      stdio:\n        \
             command: sh\n        args: [-c, \"touch '{}'; exec '{}' tools todo --db \
             '${{CONVOKE_DATA}}/todo.db'\"]\n        env: {{SECRET: '${{MY_SECRET:-none}}'}}\n",
            mark.display(),
            env!("CARGO_BIN_EXE_convoke"),
        );
        app.write("convoke.yaml", &format!("name: {name}\n"));
        app.write(
            "agents/clerk.yaml",
            "name: clerk\nrole: Answers.\nsystem_prompt: Answer.\n",
        );
        app.write("config/mcp_servers.yaml", &servers);
        app.write(
            "workflows/main.yaml",
            "name: main\nentry_point: agree\nnodes:\n  agree: {type: human, prompt: 'Look it up?'}\n  \
             look: {type: tool, tool: todo.list_tasks}\n  tell: {type: compose, prompt: 'It is \
             there.'}\nedges:\n  - {from: agree, to: look}\n  - {from: look, to: tell}\n",
        );
        app
    }

    /// Writes one of its files.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = Path::new(&self.folder).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes it another app of the same name.
    pub(crate) fn change(&self, with: &str, by: &str) {
        let path = Path::new(&self.folder).join("workflows/main.yaml");
        let before = fs::read_to_string(&path).unwrap();
        let after = before.replace(with, by);
        assert_ne!(before, after);
        fs::write(path, after).unwrap();
    }

    /// Whether its tool server was ever started.
    #[expect(
        clippy::unused_self,
        reason = "reads as a property of the app under test"
    )]
    pub(crate) fn was_started(&self, program: &Program) -> bool {
        program.folder().join("started").exists()
    }

    /// A task that waits for a person.
    pub(crate) fn waiting_task(&self, program: &Program) -> String {
        let output = program.run(&["--json", "run", &self.folder, "list", "--key", "k1"]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(!self.was_started(program));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        told["task"].as_str().unwrap().to_owned()
    }
}

/// An export with one task, in the folder `out`.
pub(crate) struct Export {
    pub(crate) folder: PathBuf,
    pub(crate) task: String,
    pub(crate) hash: String,
}

impl Export {
    pub(crate) fn of_waiting_task(program: &Program, app: &AskingApp) -> Self {
        let task = app.waiting_task(program);
        let output = program.run(&["tasks", "export", "out"]);
        assert!(output.status.success(), "{output:?}");
        let folder = program.folder().join("out");
        let hash = fs::read_dir(folder.join("definitions")).unwrap();
        let hash = hash.last().unwrap().unwrap().file_name();
        Self {
            task,
            hash: hash.to_str().unwrap().to_owned(),
            folder,
        }
    }

    /// The folder of what the task was begun with.
    pub(crate) fn definition(&self) -> PathBuf {
        self.folder.join("definitions").join(&self.hash)
    }

    /// The folder of the task.
    pub(crate) fn task(&self) -> PathBuf {
        self.folder.join("tasks").join(&self.task)
    }
}
