//! How many changes may wait to be written to the store's file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use convoke::{IncomingRequest, Runtime, RuntimeError, StoreChoice, Value, json, local_user};
use rusqlite::Connection;

const SUBMITTED: usize = 4;

async fn runtime(folder: &Path, limits: &Value) -> Runtime {
    let agent = json!({ "name": "clerk", "role": "Greets.", "system_prompt": "Greet." });
    let workflow = json!({
        "name": "main", "entry_point": "greet",
        "nodes": { "greet": { "type": "compose", "prompt": "Hello." } },
    });
    for (file, content) in [
        ("convoke.json", &json!({ "name": "desk", "limits": limits })),
        ("agents/clerk.json", &agent),
        ("workflows/main.json", &workflow),
    ] {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    }
    let store = StoreChoice::Sqlite(folder.join("store.db"));
    let builder = Runtime::builder().app(folder).store(store);
    builder.build().await.unwrap()
}

/// Hands in requests while nothing can be written. Gives those that were refused at once; the others are accepted once the
/// file can be written.
async fn refused(limits: Value) -> Vec<RuntimeError> {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path(), &limits).await;
    let other = Connection::open(folder.path().join("store.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut refused = Vec::new();
    let mut accepted = Vec::new();
    for _ in 0..SUBMITTED {
        let request = IncomingRequest::new(local_user(), "Hello.");
        let mut submitted = Box::pin(runtime.submit(request));
        match futures::poll!(&mut submitted) {
            std::task::Poll::Ready(submitted) => refused.push(submitted.unwrap_err()),
            std::task::Poll::Pending => accepted.push(submitted),
        }
    }
    other.execute_batch("COMMIT").unwrap();
    for submitted in accepted {
        submitted.await.unwrap();
    }
    assert_eq!(runtime.run("Hello.").await.unwrap().text, "Hello.");
    runtime.shutdown().await.unwrap();
    refused
}

#[tokio::test]
async fn an_app_says_how_many_changes_may_wait_to_be_written() {
    let refused_requests = refused(json!({ "queued_writes": 1 })).await;
    // The writer holds one change, and one waits.
    assert!(refused_requests.len() >= SUBMITTED - 2);
    for error in refused_requests {
        assert_eq!(error.code(), "store.unavailable", "{error}");
    }
    assert!(refused(json!({})).await.is_empty());
}
