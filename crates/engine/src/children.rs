//! Child tasks: an agent hands a part of its work to another, which has a journal and messages of its
//! own and gives back an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convoke_model::{Message, TaskState};
use convoke_store::{Filter, NewSignal, Page};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::desk::Places;
use crate::engine::{Ended, Engine, Keeping, NewRequest};
use crate::error::EngineError;
use crate::program::{Facts, Program};

/// Children that are called off at once when their parent ends.
const CANCELED_AT_ONCE: usize = 1_000;

/// A part of a task that becomes a task of its own.
#[derive(Debug, Clone)]
pub struct NewChild {
    /// The call that asks for it: asked again, it is the same child.
    pub key: String,
    /// What is to be done.
    pub message: Message,
    /// What the program works on besides.
    pub input: Value,
}

/// Runs children for one parent. The parent's place among the worker's tasks is free while it waits,
/// so that parents can never keep their own children from running.
pub trait Children: Send + Sync {
    /// Submits a child, unless it was before, and waits until it has ended, which is no later than the
    /// deadline.
    fn run(
        &self,
        child: NewChild,
        deadline: Timestamp,
    ) -> BoxFuture<'static, Result<Ended, EngineError>>;
}

pub(crate) struct ChildRunner<P: Program> {
    engine: Engine<P>,
    parent: Arc<Facts>,
    places: Places,
    any: AtomicBool,
}

impl<P: Program> ChildRunner<P> {
    pub(crate) fn new(engine: Engine<P>, parent: Arc<Facts>, places: Places) -> Self {
        Self {
            engine,
            parent,
            places,
            any: AtomicBool::new(false),
        }
    }

    /// Calls off whatever children a parent that has ended left running.
    pub(crate) async fn cancel_all(&self) -> Result<(), EngineError> {
        if self.any.load(Ordering::Relaxed) {
            cancel_all(&self.engine, &self.parent).await?;
        }
        Ok(())
    }
}

impl<P: Program> Children for ChildRunner<P> {
    fn run(
        &self,
        child: NewChild,
        deadline: Timestamp,
    ) -> BoxFuture<'static, Result<Ended, EngineError>> {
        let engine = self.engine.clone();
        let parent = Arc::clone(&self.parent);
        let places = self.places.clone();
        self.any.store(true, Ordering::Relaxed);
        async move {
            let request = NewRequest {
                owner: parent.owner,
                conversation: None,
                channel: parent.channel,
                key: Some(child.key),
                message: child.message,
                input: child.input,
                live: None,
                keeping: Keeping::default(),
            };
            let _away = places.give_up();
            let mut ended = engine.run_until(request, Some(parent.id), deadline).await?;
            while !ended.status.is_final() {
                engine.until_changed(ended.facts.id).await;
                ended = engine.wait(ended.facts.id).await?;
            }
            Ok(ended)
        }
        .boxed()
    }
}

async fn cancel_all<P: Program>(engine: &Engine<P>, parent: &Facts) -> Result<(), EngineError> {
    let filter = Filter {
        states: vec![
            TaskState::Submitted,
            TaskState::Working,
            TaskState::InputRequired,
        ],
        parent: Some(parent.id),
        ..Filter::default()
    };
    let page = Page {
        before: None,
        limit: CANCELED_AT_ONCE,
    };
    for child in engine.store().query(filter, page).await?.tasks {
        let signal = NewSignal {
            task: child.id,
            kind: "cancel".into(),
            payload: json!({ "reason": "the task that asked for it has ended" }),
            key: "parent-ended".into(),
        };
        engine.signal(signal).await?;
    }
    Ok(())
}
