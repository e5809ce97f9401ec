//! Child tasks: sub-tasks with their own journal and messages, which return an answer to their parent. When a task
//! ends, the store cancels its children in the same step.

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

/// A request for a child task.
#[derive(Debug, Clone)]
pub struct NewChild {
    /// The key of the parent's call: the same key is the same child.
    pub key: String,
    /// The request.
    pub message: Message,
    /// The input for the program.
    pub input: Value,
    /// The span of the parent's call, the parent of the child's span.
    pub trace: TraceContext,
}

/// Runs children for one parent.
pub trait Children: Send + Sync {
    /// Submits a child, unless it exists, and waits until it ends. It ends at the deadline at the latest.
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

/// The calls of a task that wait for a child.
#[derive(Debug, Default)]
pub(crate) struct ChildWaits {
    number: AtomicUsize,
    /// How many of the children wait for a person themselves.
    for_people: AtomicUsize,
    changed: Notify,
}

impl ChildWaits {
    pub(crate) fn number(&self) -> usize {
        self.number.load(Ordering::Relaxed)
    }

    /// Whether every child that is waited for waits for a person.
    pub(crate) fn are_for_people(&self) -> bool {
        let number = self.number();
        number > 0 && number == self.for_people.load(Ordering::Relaxed)
    }

    /// Returns when a call has started to wait, or a child has begun or ceased to wait for a person, since the last return.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn enter(self: Arc<Self>) -> ChildWait {
        self.number.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
        ChildWait(self)
    }
}

/// Counts a waiting call until it is dropped.
struct ChildWait(Arc<ChildWaits>);

impl ChildWait {
    /// Counts the child among those that wait for a person.
    fn for_person(&self) -> PersonWait<'_> {
        self.0.for_people.fetch_add(1, Ordering::Relaxed);
        self.0.changed.notify_one();
        PersonWait(&self.0)
    }
}

impl Drop for ChildWait {
    fn drop(&mut self) {
        self.0.number.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a child that waits for a person until it is dropped.
struct PersonWait<'a>(&'a ChildWaits);

impl Drop for PersonWait<'_> {
    fn drop(&mut self) {
        self.0.for_people.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.notify_one();
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
                refused_if_busy: false,
                channel: parent.channel,
                key: Some(child.key),
                message: child.message,
                blobs: Vec::new(),
                input: child.input,
                live: None,
                retention: Retention::default(),
                not_before: None,
                trace: Some(child.trace.to_string()),
            };
            let wait = waits.enter();
            let mut ended = engine.run_until(request, Some(parent.id), deadline).await?;
            while !ended.status.is_final() {
                let _for_person = wait.for_person();
                engine.until_changed(ended.facts.id).await?;
                ended = engine.wait(&Viewer::System, ended.facts.id).await?;
            }
            Ok(ended)
        };
        async move {
            match run.await {
                // The engine is closing, and the worker with it. A return would journal a failure; a call that never
                // returns is repeated by the next worker.
                Err(EngineError::Closed { .. }) => std::future::pending().await,
                outcome => outcome,
            }
        }
        .boxed()
    }
}
