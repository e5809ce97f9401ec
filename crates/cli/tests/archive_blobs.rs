//! Blobs on their way from one store to another: the real binary writes them as files and reads them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use convoke_model::SystemClock;
use convoke_store::{BLOB_BYTES, Blob, SqliteStore, Store, Viewer};
use program::{Program, text};
use uuid::Uuid;

/// A task that names a blob, exported. Gives the file of the blob and the task's id.
fn export_with_a_blob(program: &Program, content: &[u8]) -> (PathBuf, Uuid) {
    let output = program.run(&["--json", "run", &program.app(), "remind me to buy milk"]);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let task: Uuid = serde_json::from_value(told["task"].clone()).unwrap();
    let blob = Blob::new(content.into(), BLOB_BYTES).unwrap();
    let hash = blob.hash().to_string();
    let put = |store: SqliteStore| store.put_blob(&Viewer::System, task, blob);
    assert!(wait(put(open(program, ".convoke"))).unwrap());
    let exported = program.run(&["tasks", "export", "out"]);
    assert!(exported.status.success(), "{exported:?}");
    (program.folder().join("out/blobs").join(hash), task)
}

fn open(program: &Program, data: &str) -> SqliteStore {
    let file = program.folder().join(data).join("store.db");
    SqliteStore::open(&file, Arc::new(SystemClock)).unwrap()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

fn refused(program: &Program, arguments: &[&str], code: &str) {
    let import = ["tasks", "import", "out", "--data", "other"];
    let arguments: Vec<_> = import.iter().chain(arguments).copied().collect();
    let output = program.run(&arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains(&format!("error[{code}]")), "{output:?}");
    assert!(!program.folder().join("other/store.db").exists());
}

#[test]
fn blobs_are_exported_as_files_and_imported_with_their_task() {
    let program = Program::new();
    let content: Vec<u8> = (0..=255).cycle().take(600_000).collect();
    let (file, task) = export_with_a_blob(&program, &content);
    assert!(fs::read(&file).unwrap() == content);
    for arguments in [
        &["tasks", "import", "out", "--data", "other"][..],
        &["tasks", "export", "again", "--data", "other"],
        &["tasks", "export", "again", "--data", "other"],
    ] {
        let output = program.run(arguments);
        assert!(output.status.success(), "{output:?}");
    }
    let again = program
        .folder()
        .join("again")
        .join(file.strip_prefix(program.folder().join("out")).unwrap());
    assert!(fs::read(again).unwrap() == content);
    let task_file = format!("tasks/{task}/task.json");
    let [first, second] = ["out", "again"].map(|dir| program.folder().join(dir).join(&task_file));
    assert_eq!(fs::read(first).unwrap(), fs::read(second).unwrap());
    let infos = wait(open(&program, "other").blobs(&Viewer::System, task)).unwrap();
    assert_eq!(infos[0].bytes, 600_000);
}

#[test]
fn a_blob_that_is_not_what_its_name_says_or_is_missing_or_too_large_is_refused() {
    let program = Program::new();
    let (file, _) = export_with_a_blob(&program, b"milk,2");
    refused(&program, &["--max-blob-bytes", "5"], "archive.too_large");
    fs::write(&file, b"milk,3").unwrap();
    refused(&program, &[], "archive.invalid");
    fs::remove_file(&file).unwrap();
    refused(&program, &[], "archive.incomplete");
    std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
    refused(&program, &[], "archive.invalid");
}
