//! A running app: an engine that accepts tasks, and a worker that carries them out.

use std::sync::{Arc, OnceLock};

use convoke_app::App;
use convoke_engine::{Answered, Ended, Engine, EngineError};
use convoke_flow::{Assistant, Incoming, check_answer, receive};
use convoke_model::{Answer, Channel, Clock, Ids, TaskState, UserId};
use convoke_store::Store;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::builder::RuntimeBuilder;
use crate::error::RuntimeError;
use crate::wire::{AppEditions, AppWorker};

/// An app that runs in this process. Everything goes through its journal: what is unfinished when
/// the process ends goes on when the next runtime is built over the same store.
///
/// All methods may be called from many places at once. End it with [`shutdown`](Self::shutdown);
/// where it is merely dropped, calls under way are cut off and go on, as after a crash, with the
/// next runtime.
pub struct Runtime {
    app: Arc<App>,
    engine: Engine<Assistant>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    editions: AppEditions,
    stop: CancellationToken,
    ended: CancellationToken,
    broken: Arc<OnceLock<String>>,
    worker: JoinSet<()>,
}

impl Runtime {
    /// Begins a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    pub(crate) fn start(
        app: Arc<App>,
        engine: Engine<Assistant>,
        worker: AppWorker,
        editions: AppEditions,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        executor: &Handle,
    ) -> Self {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let broken = Arc::new(OnceLock::new());
        let mut running = JoinSet::new();
        let (stopped, over, why) = (stop.clone(), ended.clone(), Arc::clone(&broken));
        let work = async move {
            // Told also where the worker panics.
            let _over = over.drop_guard();
            if let Err(error) = worker.run(stopped).await {
                let _ = why.set(format!("{error} [{}]", error.code()));
            }
        };
        running.spawn_on(work, executor);
        Self {
            app,
            engine,
            clock,
            ids,
            editions,
            stop,
            ended,
            broken,
            worker: running,
        }
    }

    /// Says something to the app, as the user of this machine and outside any conversation, and waits
    /// for the answer. [`ask`](Self::ask) goes on with a conversation.
    pub async fn run(&self, text: impl Into<String>) -> Result<Answer, RuntimeError> {
        let ended = self
            .ask(Incoming {
                user: local_user(),
                conversation: None,
                channel: Channel::Terminal,
                text: text.into(),
                key: None,
                live: None,
                keeping: convoke_engine::Keeping::default(),
            })
            .await?;
        match ended.answer {
            Some(answer) if ended.status == TaskState::Completed => Ok(answer),
            answer => {
                let questions = ended
                    .questions
                    .iter()
                    .map(|question| question.prompt.clone());
                let reason = ended
                    .error
                    .or_else(|| questions.reduce(|all, next| format!("{all} {next}")))
                    .or_else(|| answer.map(|answer| answer.text.clone()));
                Err(RuntimeError::NoAnswer {
                    task: ended.facts.id,
                    state: ended.status,
                    reason: reason.unwrap_or_else(|| "there is no answer".into()),
                })
            }
        }
    }

    /// Says something to the app and waits until the task has ended or waits for a person.
    pub async fn ask(&self, incoming: Incoming) -> Result<Ended, RuntimeError> {
        let request = receive(incoming, &self.app.config.limits, self.clock.now())?;
        self.while_working(self.engine.run(request)).await
    }

    /// Hands in a request. Once this returns, the task is in the store and will be carried out.
    pub async fn submit(&self, incoming: Incoming) -> Result<Uuid, RuntimeError> {
        let request = receive(incoming, &self.app.config.limits, self.clock.now())?;
        Ok(self.engine.submit(request).await?.id())
    }

    /// Waits until a task has ended or waits for a person.
    pub async fn wait(&self, task: Uuid) -> Result<Ended, RuntimeError> {
        self.while_working(self.engine.wait(task)).await
    }

    /// Answers a question of a task, and waits until the task has ended or waits for a person again.
    pub async fn answer(
        &self,
        task: Uuid,
        question: Option<Uuid>,
        answer: Answered,
    ) -> Result<Ended, RuntimeError> {
        check_answer(&answer)?;
        let newest = self.store().newest(task).await.map_err(EngineError::from)?;
        let seq = newest.map_or(0, |(record, _)| record.seq);
        self.engine.answer(task, question, answer).await?;
        self.while_working(self.engine.wait_beyond(task, seq)).await
    }

    /// Waits for something of the app's, unless its worker breaks down first.
    pub async fn while_working<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, RuntimeError>
    where
        RuntimeError: From<E>,
    {
        tokio::select! {
            biased;
            done = work => Ok(done?),
            () = self.ended.cancelled() => Err(self.stopped()),
        }
    }

    /// Waits until nobody works on tasks any more, which is never unless the worker breaks down.
    pub async fn until_stopped(&self) -> Result<(), RuntimeError> {
        self.ended.cancelled().await;
        Err(self.stopped())
    }

    fn stopped(&self) -> RuntimeError {
        let reason = self.broken.get().cloned();
        RuntimeError::Stopped {
            reason: reason.unwrap_or_else(|| "it panicked".into()),
        }
    }

    /// The app.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// The engine, to pass signals on and for everything else that has no method here.
    pub fn engine(&self) -> &Engine<Assistant> {
        &self.engine
    }

    /// The store, to look at tasks and conversations.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.engine.store()
    }

    /// The clock that the app goes by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The source of the app's ids.
    pub fn ids(&self) -> &Arc<dyn Ids> {
        &self.ids
    }

    /// Stops softly: finishes calls under way, leaves the rest to the next runtime, ends tool servers.
    pub async fn shutdown(mut self) -> Result<(), RuntimeError> {
        self.stop.cancel();
        let mut panicked = false;
        while let Some(ended) = self.worker.join_next().await {
            panicked |= ended.is_err();
        }
        self.editions.shutdown().await;
        if panicked || self.broken.get().is_some() {
            return Err(self.stopped());
        }
        Ok(())
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime")
            .field("app", &self.app)
            .finish_non_exhaustive()
    }
}

/// The user of this machine, where nobody is signed in. The same on every run.
pub fn local_user() -> UserId {
    UserId::from(Uuid::new_v5(&Uuid::NAMESPACE_OID, b"convoke local user"))
}
