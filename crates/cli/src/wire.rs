//! The one place that names concrete types: which store, which tools, which clock, which models.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use convoke_app::App;
use convoke_engine::{Engine, Options, Worker};
use convoke_flow::toolbox::Toolbox;
use convoke_flow::{Assistant, Performer, PerformerOptions};
use convoke_llm::ModelClient;
use convoke_mcp::ToolServers;
use convoke_model::{Clock, Ids, SystemClock, SystemIds};
use convoke_store::{MemoryStore, SqliteStore, Store};

use crate::error::RuntimeError;

/// Where tasks are kept.
#[derive(Clone)]
pub enum StoreChoice {
    /// In memory: nothing is left once the runtime is gone.
    Memory,
    /// In an SQLite file, which is made if it is not there, with its folder.
    Sqlite(PathBuf),
    /// In a store that is open already.
    Opened(Arc<dyn Store>),
}

impl StoreChoice {
    /// The store that an address names: `memory`, a path relative to `base`, or `sqlite://` and one.
    pub fn of_url(url: &str, base: &Path) -> Result<Self, RuntimeError> {
        if url == "memory" {
            return Ok(Self::Memory);
        }
        let path = url.strip_prefix("sqlite://").unwrap_or(url);
        if path.contains("://") {
            return Err(RuntimeError::UnsupportedStore {
                url: without_password(url),
            });
        }
        Ok(Self::Sqlite(base.join(path)))
    }

    /// Opens it.
    pub fn open(&self) -> Result<Arc<dyn Store>, RuntimeError> {
        let path = match self {
            Self::Memory => return Ok(Arc::new(MemoryStore::new(clock()))),
            Self::Opened(store) => return Ok(Arc::clone(store)),
            Self::Sqlite(path) => path,
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| RuntimeError::Folder {
                path: folder.to_owned(),
                source,
            })?;
        }
        let store = SqliteStore::open(path, clock()).map_err(|source| RuntimeError::Open {
            path: path.clone(),
            source,
        })?;
        Ok(Arc::new(store))
    }
}

impl std::fmt::Debug for StoreChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("Memory"),
            Self::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Self::Opened(_) => f.write_str("Opened"),
        }
    }
}

/// An address may carry a password, which stands in no error.
fn without_password(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        None => url.to_owned(),
    }
}

/// The machine's clock.
pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// The machine's source of ids.
pub(crate) fn ids() -> Arc<dyn Ids> {
    Arc::new(SystemIds)
}

/// The environment of the process.
pub(crate) fn process_environment(name: &str) -> Option<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where an app's environment is read"
    )]
    std::env::var(name).ok()
}

/// The tool servers of an app.
pub(crate) type AppServers = ToolServers;

/// The app's tool servers. Nothing is started before it is used.
///
/// What `convoke` means as a server's command is `program`; without one it is looked for like any
/// other.
pub(crate) fn tool_servers(app: &App, program: Option<PathBuf>) -> AppServers {
    let options = convoke_mcp::Options {
        self_exe: program,
        ..convoke_mcp::Options::default()
    };
    ToolServers::new(app.servers.clone(), options)
}

/// What works on an app's tasks.
pub(crate) type AppWorker = Worker<Assistant, Performer>;

/// What a runtime is put together from.
pub(crate) struct Parts {
    pub(crate) app: Arc<App>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) toolbox: Toolbox,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) concurrent_tasks: Option<u32>,
    pub(crate) model_options: convoke_llm::Options,
}

/// The engine that accepts tasks, and the worker that carries them out.
pub(crate) fn assemble(parts: Parts) -> Result<(Engine<Assistant>, AppWorker), RuntimeError> {
    let assistant = Arc::new(Assistant::new(Arc::clone(&parts.app))?);
    let limits = &parts.app.config.limits;
    let engine = Engine::new(
        Arc::clone(&assistant),
        Arc::clone(&parts.store),
        Arc::clone(&parts.clock),
        Arc::clone(&parts.ids),
        parts.app.config.name.as_str(),
        &parts.app.hash,
        Duration::from_secs(limits.task_seconds.into()),
    );
    let performer = Performer::new(
        assistant,
        Arc::new(parts.toolbox),
        ModelClient::new(parts.model_options),
        parts.store,
        parts.clock,
        PerformerOptions::default(),
    );
    let options = Options {
        concurrent_tasks: parts.concurrent_tasks.unwrap_or(limits.concurrent_tasks) as usize,
        lease: Duration::from_secs(limits.lease_seconds.into()),
        max_claims: limits.max_claims,
        question_time: Duration::from_secs(limits.question_seconds.into()),
        ..Options::for_worker(parts.ids.next().to_string())
    };
    let worker = Worker::new(engine.clone(), Arc::new(performer), options);
    Ok((engine, worker))
}
