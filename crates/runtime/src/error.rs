//! Why a runtime could not be built, or did not do what it was asked.

use std::path::PathBuf;

use convoke_app::Diagnostics;
use convoke_engine::{EditionError, EngineError};
use convoke_flow::FlowError;
use convoke_model::{Invalid, TaskState};
use convoke_store::StoreError;
use uuid::Uuid;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The builder was given neither an app nor an agent.
    #[error("there is nothing to run; name an app folder, or give an agent")]
    NothingToRun,
    /// The builder was given both.
    #[error("an app folder has its agents already; give either the folder or agents")]
    AppAndAgents,
    /// One runtime was to run several apps.
    #[error("a runtime runs one app; build a registry to run several")]
    SeveralApps,
    /// Two of several apps have one name.
    #[error("two of the apps are called `{name}`; the store tells apps apart by their names")]
    SameName {
        /// The name.
        name: String,
    },
    /// Several apps of one process name several stores.
    #[error(
        "the apps `{one}` and `{other}` name different stores; apps that run in one process share one, so name it for all"
    )]
    StoresDiffer {
        /// An app.
        one: String,
        /// Another, or the same as it was before.
        other: String,
    },
    /// There is no such app in the registry.
    #[error("no app is called `{name}` here; there are {known}")]
    UnknownApp {
        /// What was asked for.
        name: String,
        /// The apps that there are.
        known: String,
    },
    /// A reload would change what an app keeps for as long as it runs.
    #[error("`{app}` cannot be reloaded with another {what}; stop and start the process for that")]
    NotReloadable {
        /// The app.
        app: String,
        /// What has changed.
        what: &'static str,
    },
    /// Nothing can be run outside Tokio.
    #[error("build the runtime within a Tokio runtime")]
    NoExecutor,
    /// Everything that is wrong with an app folder.
    #[error("the app has errors:\n{}", .0.pretty())]
    App(Diagnostics),
    /// An agent lists an unknown tool.
    #[error("agent `{agent}` lists the tool `{tool}`, which nobody has; there are {known}")]
    UnknownTool {
        /// The agent.
        agent: String,
        /// The tool, as the agent lists it.
        tool: String,
        /// The tools that there are.
        known: String,
    },
    /// A store that this version does not know.
    #[error("`{url}` is no store that this version knows; name an SQLite file, or `memory`")]
    UnsupportedStore {
        /// What was written.
        url: String,
    },
    /// The folder of the store cannot be made.
    #[error("the folder {} cannot be made: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("the store {} cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: StoreError,
    },
    /// A request, an agent or a tool breaks a rule, and nothing was changed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The app cannot be carried out.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// The engine or the store refused or failed.
    #[error(transparent)]
    Engine(EngineError),
    /// The edition that a task started with cannot be read.
    #[error("the app as it was when the task was begun cannot be read: {0}")]
    Edition(#[from] EditionError),
    /// The runtime runs no more tasks.
    #[error("the worker stopped before its work was done: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// The task ended without an answer, or waits for a person.
    #[error("task {task} is {state}: {reason}")]
    NoAnswer {
        /// The task.
        task: Uuid,
        /// Where it stands.
        state: TaskState,
        /// What stopped it, or what a person is asked.
        reason: String,
    },
}

impl RuntimeError {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NothingToRun => "runtime.nothing_to_run",
            Self::AppAndAgents => "runtime.app_and_agents",
            Self::SeveralApps => "runtime.several_apps",
            Self::SameName { .. } => "registry.same_name",
            Self::StoresDiffer { .. } => "registry.stores_differ",
            Self::UnknownApp { .. } => "registry.unknown_app",
            Self::NotReloadable { .. } => "registry.not_reloadable",
            Self::NoExecutor => "runtime.no_executor",
            Self::App(_) => "app.errors",
            Self::UnknownTool { .. } => "runtime.unknown_tool",
            Self::UnsupportedStore { .. } => "store.unsupported",
            Self::Folder { .. } => "store.folder",
            Self::Open { source, .. } => source.code(),
            Self::Invalid(invalid) => invalid
                .problems
                .first()
                .map_or("invalid", |problem| problem.code),
            Self::Flow(flow) => flow.code(),
            Self::Engine(engine) => engine.code(),
            Self::Edition(_) => "task.definition",
            Self::Stopped { .. } => "runtime.worker_stopped",
            Self::NoAnswer { state, .. } if state.awaits_person() => "task.waiting",
            Self::NoAnswer { .. } => "task.not_completed",
        }
    }
}

impl From<EngineError> for RuntimeError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Closed { reason } => Self::Stopped { reason },
            error => Self::Engine(error),
        }
    }
}

impl From<StoreError> for RuntimeError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}
