//! A running app: an engine that accepts tasks, and a worker that carries them out.

use std::sync::{Arc, OnceLock};

use convoke_app::App;
use convoke_engine::{Closer, Engine, EngineError, QuestionAnswer, TaskOutcome};
use convoke_flow::{Assistant, Incoming, check_answer, receive};
use convoke_model::{Answer, Clock, Ids, TaskState, UserId};
use convoke_store::{Store, TaskRecord, Viewer};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::builder::RuntimeBuilder;
use crate::editions::{AppEditions, AppReloader};
use crate::error::RuntimeError;
use crate::shared_parts::SharedParts;

/// An app that runs in this process. Everything goes through its journal: what is unfinished when
/// the process ends goes on when the next runtime is built over the same store.
///
/// All methods may be called from many places at once. End it with [`shutdown`](Self::shutdown);
/// where it is merely dropped, calls under way are cut off and go on, as after a crash, with the
/// next runtime. Either way whoever waits for a task, or follows one, is told
/// [`RuntimeError::Stopped`].
///
/// What is done to a task is done for a user: a task of somebody else's, or of another app's in the same
/// store, is one that is not there (`task.not_found`).
pub struct Runtime {
    app: Arc<App>,
    pub(crate) engine: Engine<Assistant>,
    running: Arc<RunningApp>,
}

/// What runs an app's tasks, whatever becomes of its folder meanwhile.
struct RunningApp {
    parts: Arc<SharedParts>,
    editions: AppEditions,
    reloader: AppReloader,
    closer: Closer<Assistant>,
    stop: CancellationToken,
    broken: Arc<OnceLock<String>>,
    worker: Mutex<JoinSet<()>>,
}

impl Drop for RunningApp {
    fn drop(&mut self) {
        self.closer.close("the runtime was dropped");
    }
}

/// What is told to whoever waits for a runtime that was shut down.
const SHUT_DOWN: &str = "the runtime was shut down";

/// Closes an engine where its worker does not get to say how it ended.
struct CloseOnDrop(Closer<Assistant>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(if std::thread::panicking() {
            "it panicked"
        } else {
            "it was cut off"
        });
    }
}

impl Runtime {
    /// Begins a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Runs an app, beside others with the same parts.
    pub(crate) fn start(app: Arc<App>, parts: Arc<SharedParts>) -> Result<Self, RuntimeError> {
        let editions = AppEditions::new(Arc::clone(&app), Arc::clone(&parts));
        let (engine, worker) = editions.assemble()?;
        let reloader = worker.reloader();
        let stop = CancellationToken::new();
        let broken = Arc::new(OnceLock::new());
        let mut running = JoinSet::new();
        let (stopped, why) = (stop.clone(), Arc::clone(&broken));
        let closer = engine.closer();
        let closing = CloseOnDrop(closer.clone());
        let work = async move {
            match worker.run(stopped).await {
                Ok(()) => closing.0.close(SHUT_DOWN),
                Err(error) => {
                    let reason = format!("{error} [{}]", error.code());
                    let _ = why.set(reason.clone());
                    closing.0.close(reason);
                }
            }
        };
        running.spawn_on(work, &parts.executor);
        Ok(Self {
            app,
            engine,
            running: Arc::new(RunningApp {
                parts,
                editions,
                reloader,
                closer,
                stop,
                broken,
                worker: Mutex::new(running),
            }),
        })
    }

    /// The same app as it is now. New tasks start with it; those of this runtime keep what they started with.
    pub(crate) fn reloaded(&self, app: Arc<App>) -> Result<Self, RuntimeError> {
        self.check_accepting()?;
        let running = Arc::clone(&self.running);
        let engine = running
            .editions
            .reload(&app, &self.engine, &running.reloader)?;
        Ok(Self {
            app,
            engine,
            running,
        })
    }

    pub(crate) fn editions(&self) -> &AppEditions {
        &self.running.editions
    }

    /// Says something to the app, as the user of this machine and outside any conversation, and waits
    /// for the answer. [`ask`](Self::ask) goes on with a conversation.
    pub async fn run(&self, text: impl Into<String>) -> Result<Answer, RuntimeError> {
        let ended = self.ask(Incoming::new(local_user(), text)).await?;
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
    pub async fn ask(&self, incoming: Incoming) -> Result<TaskOutcome, RuntimeError> {
        self.check_accepting()?;
        let request = receive(incoming, &self.app.config.limits, self.clock().now())?;
        Ok(self.engine.run(request).await?)
    }

    /// Hands in a request. Once this returns, the task is in the store and will be carried out.
    pub async fn submit(&self, incoming: Incoming) -> Result<Uuid, RuntimeError> {
        self.check_accepting()?;
        let request = receive(incoming, &self.app.config.limits, self.clock().now())?;
        Ok(self.engine.submit(request).await?.id())
    }

    /// Waits until a user's task has ended or waits for a person.
    pub async fn wait(&self, user: UserId, task: Uuid) -> Result<TaskOutcome, RuntimeError> {
        Ok(self.engine.wait(&self.viewer(user), task).await?)
    }

    /// Answers a question of a user's task, and waits until the task has ended or waits for a person again.
    /// Without a question's id it must be the only one. Of several answers to one question exactly one is
    /// taken; the others are refused (`question.answered`).
    pub async fn answer(
        &self,
        user: UserId,
        task: Uuid,
        question: Option<Uuid>,
        answer: QuestionAnswer,
    ) -> Result<TaskOutcome, RuntimeError> {
        let viewer = self.viewer(user);
        let record = self.owned(user, task).await?;
        check_answer(&answer)?;
        let engine = &self.engine;
        engine.answer(&viewer, task, question, answer).await?;
        Ok(engine.wait_beyond(&viewer, task, record.seq).await?)
    }

    /// A user of this app, who sees their own tasks and conversations in it and nothing else.
    pub fn viewer(&self, user: UserId) -> Viewer {
        Viewer::user(user.uuid(), self.engine.app())
    }

    /// A task of a user's. A task that is not theirs does not exist.
    pub(crate) async fn owned(&self, user: UserId, task: Uuid) -> Result<TaskRecord, RuntimeError> {
        let found = self.store().task(&self.viewer(user), task).await?;
        Ok(found.ok_or(EngineError::UnknownTask(task))?)
    }

    /// Nothing new is taken in once nobody here would carry it out.
    pub(crate) fn check_accepting(&self) -> Result<(), RuntimeError> {
        if self.running.stop.is_cancelled() {
            let reason = self.running.broken.get().cloned();
            return Err(RuntimeError::Stopped {
                reason: reason.unwrap_or_else(|| SHUT_DOWN.into()),
            });
        }
        Ok(())
    }

    /// Waits for something of the app's, unless its worker ends first.
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
            error = self.engine.closed() => Err(error.into()),
        }
    }

    /// Waits until nobody works on tasks any more: without an error once the runtime was shut down, and with
    /// one where its worker broke down.
    pub async fn until_stopped(&self) -> Result<(), RuntimeError> {
        let error = self.engine.closed().await;
        if self.running.stop.is_cancelled() && self.running.broken.get().is_none() {
            return Ok(());
        }
        Err(error.into())
    }

    /// The app.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// The engine, for everything that has no method here. It knows no users: whoever has it may do everything.
    pub fn engine(&self) -> &Engine<Assistant> {
        &self.engine
    }

    /// The store, for everything that has no method here. It knows no users either.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.engine.store()
    }

    /// The clock that the app goes by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.running.parts.clock
    }

    /// The source of the app's ids.
    pub fn ids(&self) -> &Arc<dyn Ids> {
        &self.running.parts.ids
    }

    /// Stops softly: takes in nothing more, finishes calls under way, leaves the rest to the next runtime,
    /// ends tool servers. What is kept can still be looked at. Whoever calls it again waits for the same end.
    pub async fn shutdown(&self) -> Result<(), RuntimeError> {
        let running = &self.running;
        running.stop.cancel();
        let mut worker = running.worker.lock().await;
        while let Some(ended) = worker.join_next().await {
            if ended.is_err() {
                let _ = running.broken.set("it panicked".into());
            }
        }
        drop(worker);
        running.closer.close(SHUT_DOWN);
        running.editions.shutdown().await;
        match running.broken.get() {
            Some(reason) => Err(RuntimeError::Stopped {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
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
