//! A data folder that nobody may write to: what only looks works, and what writes says why it does not.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use program::{Program, text};

/// A folder with a store in it, and whether it may be written to.
struct Kept {
    program: Program,
}

impl Kept {
    fn new() -> Self {
        let program = Program::new();
        let made = program.run(&["run", &program.app(), "remind me to buy milk"]);
        assert!(made.status.success(), "{made:?}");
        Self { program }
    }

    fn folder(&self) -> PathBuf {
        self.program.folder().join(".convoke")
    }

    /// From now on nobody may write to the folder nor to what is in it.
    fn close(&self) {
        for file in std::fs::read_dir(self.folder()).unwrap() {
            let path = file.unwrap().path();
            let mode = if path.is_dir() { 0o555 } else { 0o444 };
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        self.permit(0o555);
    }

    fn permit(&self, mode: u32) {
        std::fs::set_permissions(self.folder(), Permissions::from_mode(mode)).unwrap();
    }

    /// Runs the binary as somebody whom permissions bind, which they do not for the superuser.
    fn run(&self, arguments: &[&str]) -> Output {
        let plain = self.program.command(arguments);
        if std::fs::write(self.folder().join("probe"), "").is_err() {
            return self.program.run(arguments);
        }
        std::fs::remove_file(self.folder().join("probe")).unwrap();
        let mut bound = Command::new("setpriv");
        bound
            .arg("--bounding-set=-dac_override,-dac_read_search,-fowner")
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(self.program.folder())
            .env_remove("CONVOKE_DATA");
        bound.output().unwrap()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.permit(0o755);
    }
}

#[test]
fn a_store_that_cannot_be_written_can_be_looked_at() {
    let kept = Kept::new();
    kept.close();
    let listed = kept.run(&["tasks", "list"]);
    assert!(listed.status.success(), "{listed:?}");
    assert!(
        text(&listed.stdout).contains("remind me to buy milk"),
        "{listed:?}"
    );
    let app = kept.program.app();
    let export = kept.program.folder().join("export");
    for arguments in [
        &["tasks", "show", "last"][..],
        &["tasks", "history", "last"],
        &["tasks", "trace", "last"],
        &["tasks", "record", "last"],
        &["tasks", "replay", "last"],
        &["tasks", "diff", "last", "last@1"],
        &["tasks", "prune", "--app", &app, "--dry-run"],
        &["tasks", "export", export.to_str().unwrap()],
    ] {
        let output = kept.run(arguments);
        let code = i32::from(arguments[1] == "diff");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
    }
}

#[test]
fn writing_commands_fail_in_a_read_only_folder() {
    let kept = Kept::new();
    kept.close();
    let app = kept.program.app();
    for arguments in [
        &["tasks", "cancel", "last"][..],
        &["tasks", "prune", "--app", &app],
        &["run", &app, "remind me to buy bread"],
    ] {
        let output = kept.run(arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {output:?}");
        assert!(
            text(&output.stderr).starts_with("error[store."),
            "{output:?}"
        );
    }
    assert!(Path::new(&kept.folder()).exists());
}

#[test]
fn a_log_that_cannot_be_read_without_writing_is_an_error() {
    let kept = Kept::new();
    // What a process leaves that was killed: a log whose changes are not in the file yet, and the log's index.
    let store = kept.folder().join("store.db");
    let open = rusqlite::Connection::open(&store).unwrap();
    open.execute("UPDATE tasks SET description = 'changed'", [])
        .unwrap();
    for (name, endings) in [
        ("whole.db", &["", "-wal", "-shm"][..]),
        ("left.db", &["", "-wal"]),
    ] {
        for ending in endings {
            let from = kept.folder().join(format!("store.db{ending}"));
            std::fs::copy(from, kept.folder().join(format!("{name}{ending}"))).unwrap();
        }
    }
    drop(open);
    kept.close();
    let list = |name: &str| {
        let store = kept.folder().join(name);
        kept.run(&["tasks", "list", "--store", store.to_str().unwrap()])
    };
    let whole = list("whole.db");
    assert!(text(&whole.stdout).contains("changed"), "{whole:?}");
    let left = list("left.db");
    assert_eq!(left.status.code(), Some(3), "{left:?}");
    assert!(
        text(&left.stderr).contains("left.db-wal holds changes"),
        "{left:?}"
    );
}

#[test]
fn an_app_folder_that_nobody_may_write_to_works_and_one_that_nobody_may_search_is_named() {
    let kept = Kept::new();
    let app = kept.program.copy_of("todo", &["agents", "config", "."]);
    let mode = |mode: u32| std::fs::set_permissions(&app, Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    let ran = kept.run(&["run", &app, "remind me to buy bread"]);
    assert!(ran.status.success(), "{ran:?}");
    let written = kept.run(&["schema", "--into", &app]);
    assert_eq!(written.status.code(), Some(2), "{written:?}");
    assert!(
        text(&written.stderr).starts_with("error[schema.unwritable]"),
        "{written:?}"
    );
    mode(0o000);
    let ran = kept.run(&["run", &app, "remind me to buy bread"]);
    mode(0o755);
    let told = text(&ran.stderr);
    assert!(told.starts_with("error[app.folder_unreadable]"), "{told}");
    assert_eq!(told.matches("error[").count(), 1, "{told}");
}

#[test]
fn a_data_folder_that_cannot_be_made_is_told_with_what_to_do() {
    let kept = Kept::new();
    let app = kept.program.app();
    let file = kept.program.folder().join("file");
    std::fs::write(&file, "").unwrap();
    let ran = kept.run(&["run", &app, "hello", "--data", file.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    let told = text(&ran.stderr);
    assert!(
        told.starts_with("error[store.folder]") && told.contains("--data"),
        "{told}"
    );
}
