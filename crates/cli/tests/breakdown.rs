//! What a caller sees when the store fails under a running app.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use convoke::{AgentFields, Runtime, RuntimeError, StoreChoice};
use convoke_model::{RetentionPolicy, SystemClock};
use convoke_store::{
    Batch, Claim, Claimed, ConversationRecord, Entry, Fence, Filter, Hint, Loaded, MemoryStore,
    NewSignal, NewTask, Page, Renewed, Scope, Signalled, Store, StoreError, StoreFuture, Submitted,
    Swept, TaskPage, TaskRecord,
};
use convoke_testkit::{Reply, ScriptedModel};
use serde_json::json;
use uuid::Uuid;

/// A store from which nobody can claim a task once its disk is gone.
struct Failing {
    inner: MemoryStore,
    gone: AtomicBool,
}

impl Store for Failing {
    fn claim(&self, claim: Claim) -> StoreFuture<Vec<Claimed>> {
        if self.gone.load(Ordering::SeqCst) {
            let error = StoreError::Broken("the disk is gone".into());
            return Box::pin(std::future::ready(Err(error)));
        }
        self.inner.claim(claim)
    }

    fn submit(&self, task: NewTask) -> StoreFuture<Submitted> {
        self.inner.submit(task)
    }

    fn append(&self, fence: Fence, batch: Batch) -> StoreFuture<u64> {
        self.inner.append(fence, batch)
    }

    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<Renewed>> {
        self.inner.renew(fences, lease)
    }

    fn signal(&self, signal: NewSignal) -> StoreFuture<Signalled> {
        self.inner.signal(signal)
    }

    fn load(&self, task: Uuid, from: u64) -> StoreFuture<Option<Loaded>> {
        self.inner.load(task, from)
    }

    fn newest(&self, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>> {
        self.inner.newest(task)
    }

    fn query(&self, filter: Filter, page: Page) -> StoreFuture<TaskPage> {
        self.inner.query(filter, page)
    }

    fn conversation(
        &self,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>> {
        self.inner.conversation(id, before, limit)
    }

    fn conversations(&self, owner: Uuid, limit: usize) -> StoreFuture<Vec<ConversationRecord>> {
        self.inner.conversations(owner, limit)
    }

    fn watch(&self, scope: Scope) -> Hint {
        self.inner.watch(scope)
    }

    fn sweep(&self, policy: RetentionPolicy, dry_run: bool) -> StoreFuture<Swept> {
        self.inner.sweep(policy, dry_run)
    }
}

#[tokio::test]
async fn a_caller_is_told_that_nobody_works_any_more() {
    let model = ScriptedModel::start(Reply::text("Hello.")).await.unwrap();
    let agent: AgentFields = serde_json::from_value(json!({
        "name": "clerk",
        "role": "Answers.",
        "system_prompt": "You are a clerk.",
        "llm_config": { "endpoint": model.endpoint(), "model": "scripted" },
    }))
    .unwrap();
    let store = Arc::new(Failing {
        inner: MemoryStore::new(Arc::new(SystemClock)),
        gone: AtomicBool::new(false),
    });
    let opened = StoreChoice::Opened(store.clone());
    let runtime = Runtime::builder()
        .agent(agent)
        .store(opened)
        .build()
        .await
        .unwrap();
    assert_eq!(runtime.run("Hello.").await.unwrap().text, "Hello.");
    store.gone.store(true, Ordering::SeqCst);
    let error = runtime.run("Hello again.").await.unwrap_err();
    assert!(matches!(error, RuntimeError::Stopped { .. }), "{error}");
    assert_eq!(error.code(), "runtime.worker_stopped");
    assert!(error.to_string().contains("the disk is gone"), "{error}");
    let error = runtime.shutdown().await.unwrap_err();
    assert_eq!(error.code(), "runtime.worker_stopped");
}
