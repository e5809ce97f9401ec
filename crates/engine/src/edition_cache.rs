//! The open editions of a worker, and the handling of claimed tasks that it cannot run.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock};

use convoke_model::TaskState;
use convoke_store::{
    Batch, ClaimedTask, Definition, LeaseAction, NewEntry, StatusUpdate, StoreError, text_of,
};
use futures::FutureExt;
use serde_json::Value;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::call::Executor;
use crate::edition::{Edition, EditionError, Editions};
use crate::engine::{OUTAGE_PAUSE, read_snapshot};
use crate::error::EngineError;
use crate::event::Event;
use crate::journal_writer::{Durable, JournalWriter};
use crate::live::Live;
use crate::local_queue::HandOff;
use crate::measured;
use crate::permits::Permit;
use crate::program::Program;
use crate::snapshot::Snapshot;
use crate::task_driver::TaskDriver;
use crate::worker::Reload;
use crate::worker_context::WorkerContext;

/// The current edition, and earlier ones while tasks use them.
pub(crate) struct EditionCache<P: Program, X: Executor<P>> {
    current: RwLock<Arc<WorkerContext<P, X>>>,
    editions: Option<Arc<dyn Editions<P, X>>>,
    earlier: Mutex<HashMap<String, OpenEdition<P, X>>>,
}

struct OpenEdition<P: Program, X: Executor<P>> {
    context: Arc<WorkerContext<P, X>>,
    used_at: Instant,
}

impl<P: Program, X: Executor<P>> EditionCache<P, X> {
    pub(crate) fn new(
        current: Arc<WorkerContext<P, X>>,
        editions: Option<Arc<dyn Editions<P, X>>>,
    ) -> Self {
        Self {
            current: RwLock::new(current),
            editions,
            earlier: Mutex::default(),
        }
    }

    /// The edition that new tasks start with.
    pub(crate) fn current(&self) -> Arc<WorkerContext<P, X>> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes another edition the current one. The previous one stays open until it is idle.
    pub(crate) async fn replace(&self, next: Reload<P, X>) {
        let mut earlier = self.earlier.lock().await;
        let before = self.current();
        if before.engine.definition() == next.engine.definition() {
            return;
        }
        // Tasks of another process may have opened the new edition already.
        let executor = match earlier.remove(next.engine.definition()) {
            Some(open) => Arc::clone(&open.context.executor),
            None => next.executor,
        };
        let context = Arc::new(before.of_edition(next.engine, executor, &next.options));
        let definition = before.engine.definition().to_owned();
        let open = OpenEdition {
            context: before,
            used_at: Instant::now(),
        };
        earlier.insert(definition, open);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = context;
    }

    /// Runs a task that this process accepted, with the edition that it started with.
    pub(crate) async fn work_on_accepted(
        &self,
        hand_off: HandOff<P>,
        permit: Permit,
        signalled: &Notify,
    ) -> Result<(), EngineError> {
        let definition = Arc::clone(&hand_off.definition);
        if self.current().engine.definition() != definition.hash {
            // The definition of an earlier edition is in the store once the task is.
            hand_off.durable.clone().wait().await?;
        }
        let context = self.context_of(&definition.hash).await?;
        let context =
            context.map_err(|error| EngineError::refused("task.definition", error.to_string()))?;
        let task_driver = TaskDriver::hand_off(context, hand_off, permit);
        task_driver.run(signalled).await
    }

    /// Runs a claimed task if possible. Counts claims before opening anything of the task, so that a task that crashes
    /// its worker is set aside too.
    pub(crate) async fn work_on(
        &self,
        claimed: ClaimedTask,
        permit: Option<Permit>,
        live: Option<Live>,
        signalled: &Notify,
    ) -> Result<(), EngineError> {
        let claims = claimed.record.claims;
        if claims > self.current().options.max_claims {
            return self.set_aside(claimed, Event::Poisoned { claims }).await;
        }
        let context = match self.context_of(&claimed.record.definition).await? {
            Ok(context) => context,
            Err(EditionError::Unavailable(why)) => return self.put_back(claimed, why).await,
            Err(EditionError::Invalid(cause)) => {
                return self.set_aside(claimed, Event::SetAside { cause }).await;
            }
        };
        let snapshot = match read_snapshot(claimed.record.id, &claimed.entry.state) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let cause = error.to_string();
                return self.set_aside(claimed, Event::SetAside { cause }).await;
            }
        };
        let task_driver = TaskDriver::claimed(context, claimed, snapshot, permit, live);
        task_driver.run(signalled).await
    }

    /// Closes editions that no task has used for a while, with their resources.
    pub(crate) async fn close_idle(&self) {
        let idle = self.current().options.edition_idle;
        self.earlier.lock().await.retain(|_, edition| {
            let is_used = Arc::strong_count(&edition.context) > 1;
            if is_used {
                edition.used_at = Instant::now();
            }
            is_used || edition.used_at.elapsed() < idle
        });
    }

    /// The edition for a definition, or why this worker cannot run it.
    async fn context_of(
        &self,
        definition: &str,
    ) -> Result<Result<Arc<WorkerContext<P, X>>, EditionError>, EngineError> {
        let current = self.current();
        if current.engine.definition() == definition {
            return Ok(Ok(current));
        }
        // Locked while an edition is opened, so that it is opened once.
        let mut earlier = self.earlier.lock().await;
        if let Some(edition) = earlier.get_mut(definition) {
            edition.used_at = Instant::now();
            return Ok(Ok(Arc::clone(&edition.context)));
        }
        let Some(editions) = &self.editions else {
            let why = "only the app as it is now is run here";
            return Ok(Err(EditionError::Unavailable(why.into())));
        };
        let Some(stored) = self.stored(definition).await? else {
            let why = "the app's files that the task started with are not in the store";
            return Ok(Err(EditionError::Unavailable(why.into())));
        };
        let edition = match open(editions.as_ref(), stored.clone()).await {
            Ok(edition) => edition,
            Err(error) => return Ok(Err(error)),
        };
        let (program, stored) = (edition.program, Arc::new(stored));
        let engine = current
            .engine
            .of_edition(program, stored, edition.task_time);
        let context = current.of_edition(engine, edition.executor, &current.options);
        let context = Arc::new(context);
        let open = OpenEdition {
            context: Arc::clone(&context),
            used_at: Instant::now(),
        };
        earlier.insert(definition.to_owned(), open);
        Ok(Ok(context))
    }

    async fn stored(&self, definition: &str) -> Result<Option<Definition>, EngineError> {
        let mut backoff = Backoff::new(OUTAGE_PAUSE / 20, OUTAGE_PAUSE);
        loop {
            match self.current().engine.store().definition(definition).await {
                Err(error) if error.is_outage() => backoff.pause().await,
                stored => return Ok(stored?),
            }
        }
    }

    /// Releases a task for a worker that can run it, and claims no more tasks of its definition.
    async fn put_back(&self, claimed: ClaimedTask, why: String) -> Result<(), EngineError> {
        let record = &claimed.record;
        tracing::warn!(task = %record.id, definition = record.definition, why, "a task cannot be run here");
        let current = self.current();
        let engine = &current.engine;
        engine.cannot_run(record.definition.clone(), why.clone());
        let standing = StatusUpdate {
            status: record.status,
            stage: record.stage,
            hold: LeaseAction::Release {
                wake_in: Some(std::time::Duration::ZERO),
            },
            result: None,
            error: None,
            // It was not tried, so it does not count as a failed claim.
            progress: true,
        };
        let state = claimed.entry.state.as_str().to_owned();
        self.let_go(&claimed, Event::PutBack { why }, state, standing)
            .await
    }

    /// Ends a task that no worker can run. Needs neither its program nor a readable state.
    async fn set_aside(
        &self,
        claimed: ClaimedTask,
        event: Event<Value>,
    ) -> Result<(), EngineError> {
        let task = claimed.record.id;
        let mut snapshot: Snapshot<Value, Value> =
            read_snapshot(task, &claimed.entry.state).unwrap_or_default();
        if let Some(cause) = event.set_aside_cause() {
            tracing::error!(%task, cause, "a task is set aside");
            snapshot.stop(TaskState::Failed, cause);
        }
        let standing = StatusUpdate {
            status: snapshot.status,
            stage: snapshot.stage,
            hold: LeaseAction::Release { wake_in: None },
            result: snapshot.answer.as_ref().map(|answer| answer.text.clone()),
            error: snapshot.error.clone(),
            progress: false,
        };
        self.let_go(&claimed, event, text_of(&snapshot), standing)
            .await?;
        let current = self.current();
        let engine = &current.engine;
        measured::ended(
            engine.app(),
            snapshot.status,
            claimed.record.created_at,
            engine.now(),
        );
        Ok(())
    }

    /// Appends the entry with which this worker releases or ends a task that it does not run.
    async fn let_go(
        &self,
        claimed: &ClaimedTask,
        event: Event<Value>,
        state: String,
        standing: StatusUpdate,
    ) -> Result<(), EngineError> {
        let current = self.current();
        let engine = &current.engine;
        let store = Arc::clone(engine.store());
        let mut journal = JournalWriter::new(store, claimed.fence(), Durable::Now);
        journal.append(Batch {
            entries: vec![NewEntry {
                at: engine.now(),
                kind: event.kind().into(),
                event: text_of(&event),
                state,
            }],
            messages: Vec::new(),
            consumed: Vec::new(),
            standing: Some(standing),
            inline_bytes: current.options.inline_bytes,
        });
        match journal.durable().wait().await {
            Ok(()) | Err(StoreError::Fenced { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens an edition. A panic counts as an invalid definition.
async fn open<P: Program, X: Executor<P>>(
    editions: &dyn Editions<P, X>,
    definition: Definition,
) -> Result<Edition<P, X>, EditionError> {
    let opened = AssertUnwindSafe(editions.open(definition)).catch_unwind();
    let panicked = |_| Err(EditionError::Invalid("opening it panicked".into()));
    opened.await.unwrap_or_else(panicked)
}
