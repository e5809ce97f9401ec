//! What a caller sees when the store fails under a running app.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convoke::{AgentFields, Runtime, RuntimeError, StoreChoice};
use convoke_model::SystemClock;
use convoke_store::{Claim, Claimed, MemoryStore, Store, StoreError, StoreFuture};
use convoke_testkit::{Reply, ScriptedModel};
use serde_json::json;

/// A store from which nobody can claim a task once its disk is gone.
struct Failing {
    inner: MemoryStore,
    gone: AtomicBool,
}

impl Store for Failing {
    fn claim(&self, claim: Claim) -> StoreFuture<Claimed> {
        if self.gone.load(Ordering::SeqCst) {
            let error = StoreError::Broken("the disk is gone".into());
            return Box::pin(std::future::ready(Err(error)));
        }
        self.inner.claim(claim)
    }

    convoke_testkit::delegate!(inner: now submit append renew signal task load newest conversation rest);
}

#[tokio::test]
async fn a_caller_gets_an_error_when_the_engine_is_closed() {
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
    // What is handed over needs no claim, so that it takes until the worker looks for more.
    let error = loop {
        if let Err(error) = runtime.run("Hello again.").await {
            break error;
        }
    };
    assert!(matches!(error, RuntimeError::Stopped { .. }), "{error}");
    assert_eq!(error.code(), "runtime.worker_stopped");
    assert!(error.to_string().contains("the disk is gone"), "{error}");
    let error = runtime.shutdown().await.unwrap_err();
    assert_eq!(error.code(), "runtime.worker_stopped");
}
