//! Child tasks: an agent hands a part of its work to another, which has a journal and messages of its
//! own and gives back an answer. Children of a task that ends are called off by the store, with the entry
//! that ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use convoke_model::Message;
use convoke_store::Viewer;
use convoke_telemetry::TraceContext;
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;

use crate::engine::{Engine, NewRequest, Retention, TaskOutcome};
use crate::error::EngineError;
use crate::program::{Facts, Program};

/// A part of a task that becomes a task of its own.
#[derive(Debug, Clone)]
pub struct NewChild {
    /// The call that asks for it: asked again, it is the same child.
    pub key: String,
    /// What is to be done.
    pub message: Message,
    /// What the program works on besides.
    pub input: Value,
    /// The span of that call, below which the child continues the trace.
    pub trace: TraceContext,
}

/// Runs children for one parent.
pub trait Children: Send + Sync {
    /// Submits a child, unless it was before, and waits until it has ended, which is no later than the
    /// deadline.
    fn run(
        &self,
        child: NewChild,
        deadline: Timestamp,
    ) -> BoxFuture<'static, Result<TaskOutcome, EngineError>>;
}

pub(crate) struct ChildRunner<P: Program> {
    engine: Engine<P>,
    parent: Arc<Facts>,
    waits: Arc<ChildWaits>,
}

/// How many calls of a task only wait for a child.
#[derive(Debug, Default)]
pub(crate) struct ChildWaits {
    number: AtomicUsize,
    begun: Notify,
}

impl ChildWaits {
    pub(crate) fn number(&self) -> usize {
        self.number.load(Ordering::Relaxed)
    }

    /// Returns once a call has begun to wait since the last time.
    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    fn enter(self: Arc<Self>) -> ChildWait {
        self.number.fetch_add(1, Ordering::Relaxed);
        self.begun.notify_one();
        ChildWait(self)
    }
}

/// A call that waits for a child, until it is dropped.
struct ChildWait(Arc<ChildWaits>);

impl Drop for ChildWait {
    fn drop(&mut self) {
        self.0.number.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P: Program> ChildRunner<P> {
    pub(crate) fn new(engine: Engine<P>, parent: Arc<Facts>, waits: Arc<ChildWaits>) -> Self {
        Self {
            engine,
            parent,
            waits,
        }
    }
}

impl<P: Program> Children for ChildRunner<P> {
    fn run(
        &self,
        child: NewChild,
        deadline: Timestamp,
    ) -> BoxFuture<'static, Result<TaskOutcome, EngineError>> {
        let engine = self.engine.clone();
        let parent = Arc::clone(&self.parent);
        let waits = Arc::clone(&self.waits);
        let run = async move {
            let request = NewRequest {
                owner: parent.owner,
                conversation: None,
                channel: parent.channel,
                key: Some(child.key),
                message: child.message,
                input: child.input,
                live: None,
                keeping: Retention::default(),
                not_before: None,
                trace: Some(child.trace.to_string()),
            };
            let _wait = waits.enter();
            let mut ended = engine.run_until(request, Some(parent.id), deadline).await?;
            while !ended.status.is_final() {
                engine.until_changed(ended.facts.id).await?;
                ended = engine.wait(&Viewer::System, ended.facts.id).await?;
            }
            Ok(ended)
        };
        async move {
            match run.await {
                // The worker ends with its engine. A call that returned now would be a failure in the journal;
                // one that is cut off is made again by the next worker.
                Err(EngineError::Closed { .. }) => std::future::pending().await,
                outcome => outcome,
            }
        }
        .boxed()
    }
}
