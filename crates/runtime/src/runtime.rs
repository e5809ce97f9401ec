//! A running app: an engine that accepts tasks, and a worker that carries them out.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use convoke_app::App;
use convoke_engine::{Closer, Engine, EngineError, Permits, QuestionAnswer, TaskOutcome};
use convoke_flow::{
    Assistant, IncomingRequest, check_answer, receive, words_of_end, words_of_refusal,
};
use convoke_model::{Answer, Answerer, Clock, Ids, TaskState, UserId, UserRole};
use convoke_store::{Store, TaskRecord, Viewer};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::builder::RuntimeBuilder;
use crate::editions::{AppEditions, AppReloader};
use crate::error::RuntimeError;
use crate::loader::AppLoader;
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
    parts: Arc<SharedParts>,
    /// What new tasks start with. A reload replaces it.
    current: RwLock<CurrentEdition>,
    editions: AppEditions,
    reloader: AppReloader,
    closer: Closer<Assistant>,
    stop: CancellationToken,
    broken: Arc<OnceLock<String>>,
    worker: Mutex<JoinSet<()>>,
}

/// An app, and the engine that starts tasks with it.
#[derive(Clone)]
struct CurrentEdition {
    app: Arc<App>,
    engine: Engine<Assistant>,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.closer.close("the runtime was dropped");
    }
}

/// The error for pending waits after a shutdown.
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
    pub(crate) fn start(
        app: Arc<App>,
        parts: Arc<SharedParts>,
        permits: Permits,
    ) -> Result<Self, RuntimeError> {
        let editions = AppEditions::new(Arc::clone(&app), Arc::clone(&parts));
        let (engine, worker) = editions.assemble(permits)?;
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
            parts,
            current: RwLock::new(CurrentEdition { app, engine }),
            editions,
            reloader,
            closer,
            stop,
            broken,
            worker: Mutex::new(running),
        })
    }

    /// Starts new tasks with the app as it is now. Tasks that have started keep what they started with. If it cannot be
    /// assembled, nothing changes.
    pub(crate) fn reload(&self, app: Arc<App>) -> Result<(), RuntimeError> {
        self.check_accepting()?;
        let before = self.engine();
        let engine = self.editions.reload(&app, &before, &self.reloader)?;
        let current = self.current.write();
        *current.unwrap_or_else(PoisonError::into_inner) = CurrentEdition { app, engine };
        Ok(())
    }

    fn current(&self) -> CurrentEdition {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to start the app's tool servers, which otherwise start once a task uses them. So what is wrong with one is
    /// known before: see [`RuntimeBuilder::on_failed_start`].
    pub fn start_tool_servers(&self) {
        self.editions.start_tool_servers();
    }

    pub(crate) fn editions(&self) -> &AppEditions {
        &self.editions
    }

    /// Says something to the app, as the user of this machine and outside any conversation, and waits for the answer.
    /// [`ask`](Self::ask) continues a conversation.
    pub async fn run(&self, text: impl Into<String>) -> Result<Answer, RuntimeError> {
        let ended = self.ask(IncomingRequest::new(local_user(), text)).await?;
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
    pub async fn ask(&self, incoming: IncomingRequest) -> Result<TaskOutcome, RuntimeError> {
        self.check_accepting()?;
        if incoming.interrupts().is_some() {
            let user = incoming.user();
            let task = self.submit(incoming).await?;
            return self.wait(user, task).await;
        }
        let CurrentEdition { app, engine } = self.current();
        let request = receive(incoming, &app.config.limits, self.clock().now())?;
        Ok(engine.run(request).await?)
    }

    /// Hands in a request. Once this returns, the task is in the store and will be carried out.
    pub async fn submit(&self, incoming: IncomingRequest) -> Result<Uuid, RuntimeError> {
        self.check_accepting()?;
        let CurrentEdition { app, engine } = self.current();
        let interrupted = incoming.interrupts();
        let request = receive(incoming, &app.config.limits, self.clock().now())?;
        let owner = request.owner;
        let task = engine.submit(request).await?.id();
        if let Some(conversation) = interrupted {
            self.cancel_before(owner.into(), conversation, task).await?;
        }
        Ok(task)
    }

    /// What the app says to a user whose request was refused with this code, the [`code`](RuntimeError::code) of the
    /// error: `messages.empty`, `too_long` or `busy`. `None` for any other code.
    pub fn words_of_refusal(&self, code: &str) -> Option<String> {
        words_of_refusal(&self.current().app.config, code)
    }

    /// What the app says to a user whose task ended in this state without an answer: `messages.canceled` or `failure`.
    pub fn words_of_end(&self, state: TaskState) -> String {
        words_of_end(&self.current().app.config, state)
    }

    /// Waits until a user's task has ended or waits for a person.
    pub async fn wait(&self, user: UserId, task: Uuid) -> Result<TaskOutcome, RuntimeError> {
        Ok(self.engine().wait(&self.viewer(user), task).await?)
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
        let role = UserRole::User;
        self.answer_as(Answerer { user, role }, task, question, answer)
            .await
    }

    /// Answers a question like [`answer`](Self::answer), in a role. Operators and administrators answer about every task of
    /// the app. Who may answer is said by the app (`approvers`); anybody else is refused (`answer.not_allowed`).
    pub async fn answer_as(
        &self,
        answerer: Answerer,
        task: Uuid,
        question: Option<Uuid>,
        answer: QuestionAnswer,
    ) -> Result<TaskOutcome, RuntimeError> {
        let given = self.give_answer(answerer, task, question, answer).await?;
        self.wait_beyond(given).await
    }

    /// Gives an answer like [`answer_as`](Self::answer_as), and returns once it is on disk. An answer that changes something
    /// is checked first: fields of a workflow's state must be known and have their declared types (`answer.field_unknown`,
    /// `answer.field_type`), and arguments must fit the schema of the tool (`answer.argument_unknown`,
    /// `answer.argument_type`). A refused answer changes nothing.
    pub async fn give_answer(
        &self,
        answerer: Answerer,
        task: Uuid,
        question: Option<Uuid>,
        answer: QuestionAnswer,
    ) -> Result<GivenAnswer, RuntimeError> {
        let viewer = match answerer.role {
            UserRole::User => self.viewer(answerer.user),
            UserRole::Operator | UserRole::Admin => Viewer::operator(self.engine().app()),
        };
        let record = self.store().task(&viewer, task).await?;
        let record = record.ok_or(EngineError::UnknownTask(task))?;
        check_answer(&answer)?;
        // A task goes on with the edition that it started with.
        let engine = self
            .editions()
            .answering_engine(&self.engine(), &record.definition)
            .await?;
        engine
            .answer_as(&viewer, answerer, task, question, answer)
            .await?;
        Ok(GivenAnswer {
            viewer,
            task,
            seq: record.seq,
        })
    }

    /// Waits until the task of a given answer has ended or waits for a person again.
    pub async fn wait_beyond(&self, given: GivenAnswer) -> Result<TaskOutcome, RuntimeError> {
        let GivenAnswer { viewer, task, seq } = given;
        Ok(self.engine().wait_beyond(&viewer, task, seq).await?)
    }

    /// A user of this app, who sees their own tasks and conversations in it and nothing else.
    pub fn viewer(&self, user: UserId) -> Viewer {
        Viewer::user(user.uuid(), self.engine().app())
    }

    /// An operator of this app, who sees the tasks of all its users.
    pub fn operator_viewer(&self) -> Viewer {
        Viewer::operator(self.engine().app())
    }

    /// A task of a user's. A task that is not theirs does not exist.
    pub(crate) async fn owned(&self, user: UserId, task: Uuid) -> Result<TaskRecord, RuntimeError> {
        let found = self.store().task(&self.viewer(user), task).await?;
        Ok(found.ok_or(EngineError::UnknownTask(task))?)
    }

    /// Fails if no worker of this process would run the task.
    pub(crate) fn check_accepting(&self) -> Result<(), RuntimeError> {
        if self.stop.is_cancelled() {
            let reason = self.broken.get().cloned();
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
            error = self.closer.closed() => Err(error.into()),
        }
    }

    /// Waits until nobody works on tasks any more: without an error once the runtime was shut down, and with
    /// one where its worker broke down.
    pub async fn until_stopped(&self) -> Result<(), RuntimeError> {
        let error = self.closer.closed().await;
        if self.stop.is_cancelled() && self.broken.get().is_none() {
            return Ok(());
        }
        Err(error.into())
    }

    /// The app that new tasks start with: after a reload, the app as it was read then.
    pub fn app(&self) -> Arc<App> {
        self.current().app
    }

    /// The engine that starts tasks with it, for everything without a method here. It checks no users: its holder may do
    /// everything. A reload leaves it as it is.
    pub fn engine(&self) -> Engine<Assistant> {
        self.current().engine
    }

    /// The store, for everything that has no method here. It knows no users either.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.parts.store
    }

    pub(crate) fn loader(&self) -> &AppLoader {
        &self.parts.loader
    }

    /// The clock that the app goes by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.parts.clock
    }

    /// The source of the app's ids.
    pub fn ids(&self) -> &Arc<dyn Ids> {
        &self.parts.ids
    }

    /// Stops softly: takes in nothing more, finishes calls under way, leaves the rest to the next runtime, ends tool
    /// servers. The store remains readable. A second call waits for the same end.
    pub async fn shutdown(&self) -> Result<(), RuntimeError> {
        self.stop.cancel();
        let mut worker = self.worker.lock().await;
        while let Some(ended) = worker.join_next().await {
            if ended.is_err() {
                let _ = self.broken.set("it panicked".into());
            }
        }
        drop(worker);
        self.closer.close(SHUT_DOWN);
        self.editions.shutdown().await;
        match self.broken.get() {
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
            .field("app", &self.app())
            .finish_non_exhaustive()
    }
}

/// An answer that was taken.
#[derive(Debug, Clone)]
#[must_use = "the task has not gone on yet"]
pub struct GivenAnswer {
    viewer: Viewer,
    task: Uuid,
    /// The step before the answer.
    seq: u64,
}

/// The user of this machine, without a sign-in. The same on every run.
pub fn local_user() -> UserId {
    UserId::from(Uuid::new_v5(&Uuid::NAMESPACE_OID, b"convoke local user"))
}
