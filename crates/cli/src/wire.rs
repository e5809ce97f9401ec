//! The one place that names concrete types: which store, which tools, which clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use convoke_app::{App, Diagnostics, Loaded};
use convoke_engine::{Engine, EngineError, Options, Worker};
use convoke_flow::{Assistant, Performer, PerformerOptions};
use convoke_mcp::ToolServers;
use convoke_model::{Clock, Ids, SystemClock, SystemIds};
use convoke_store::{MemoryStore, SqliteStore, Store};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::StoreArgs;
use crate::exit::{BrokenApp, UsageError};
use crate::output;

/// A running app: an engine that accepts tasks, and a worker that carries them out.
pub(crate) struct Running {
    pub(crate) app: Arc<App>,
    pub(crate) engine: Engine<Assistant>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    tools: ToolServers,
    stop: CancellationToken,
    worker: JoinSet<Result<(), EngineError>>,
}

impl Running {
    /// Starts a loaded app over a store.
    pub(crate) fn start(app: Arc<App>, store: Arc<dyn Store>) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn Ids> = Arc::new(SystemIds);
        let assistant = Arc::new(Assistant::new(Arc::clone(&app))?);
        let tools = ToolServers::new(app.servers.clone(), convoke_mcp::Options::default());
        let limits = &app.config.limits;
        let engine = Engine::new(
            Arc::clone(&assistant),
            Arc::clone(&store),
            Arc::clone(&clock),
            Arc::clone(&ids),
            app.config.name.as_str(),
            &app.hash,
            Duration::from_secs(limits.task_seconds.into()),
        );
        let performer = Performer::new(
            assistant,
            Arc::new(tools.clone()),
            store,
            Arc::clone(&clock),
            PerformerOptions::default(),
        );
        let options = Options {
            concurrent_tasks: limits.concurrent_tasks as usize,
            lease: Duration::from_secs(limits.lease_seconds.into()),
            max_claims: limits.max_claims,
            question_time: Duration::from_secs(limits.question_seconds.into()),
            ..Options::for_worker(ids.next().to_string())
        };
        let stop = CancellationToken::new();
        let mut worker = JoinSet::new();
        worker.spawn(Worker::new(engine.clone(), Arc::new(performer), options).run(stop.clone()));
        Ok(Self {
            app,
            engine,
            clock,
            ids,
            tools,
            stop,
            worker,
        })
    }

    /// Waits for something of the app's, unless its worker breaks down first.
    pub(crate) async fn while_working<T>(
        &mut self,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            done = work => Ok(done?),
            Some(ended) = self.worker.join_next() => {
                ended.context("the worker broke down")??;
                anyhow::bail!("the worker stopped before its work was done")
            }
        }
    }

    /// Stops softly: finishes calls under way, leaves the rest to the next run, ends tool servers.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.cancel();
        while let Some(ended) = self.worker.join_next().await {
            ended.context("the worker broke down")??;
        }
        self.tools.shutdown().await;
        Ok(())
    }
}

/// Loads an app to run it, or shows everything that is wrong with it.
pub(crate) fn load_app(folder: &Path, data: &Path, json: bool) -> anyhow::Result<Arc<App>> {
    loaded(folder, App::load_to_run(folder, &environment(data)), json)
}

/// Loads an app with its evals, or shows everything that is wrong with it.
pub(crate) fn load_app_to_eval(folder: &Path, data: &Path, json: bool) -> anyhow::Result<Arc<App>> {
    loaded(folder, App::load(folder, &environment(data)), json)
}

fn loaded(
    folder: &Path,
    outcome: Result<Loaded, Diagnostics>,
    json: bool,
) -> anyhow::Result<Arc<App>> {
    match outcome {
        Ok(loaded) => Ok(Arc::new(loaded.app)),
        Err(diagnostics) => {
            crate::commands::check::show(folder, &diagnostics, json);
            Err(BrokenApp.into())
        }
    }
}

/// The environment as an app sees it: the process's own, and where its data goes.
pub(crate) fn environment(data: &Path) -> impl Fn(&str) -> Option<String> {
    let data = absolute(data).to_string_lossy().into_owned();
    move |name| {
        if name == "CONVOKE_DATA" {
            return Some(data.clone());
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "this is where an app's environment is read"
        )]
        std::env::var(name).ok()
    }
}

/// Opens the store that the command line, else the app, else the data folder names.
pub(crate) fn open_store(args: &StoreArgs, app: Option<&App>) -> anyhow::Result<Arc<dyn Store>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let configured = app
        .and_then(|app| app.config.store.as_ref())
        .map(|store| store.url.clone());
    let url = args.store.clone().or(configured);
    let path = match url.as_deref() {
        Some("memory") => return Ok(Arc::new(MemoryStore::new(clock))),
        Some(url) => sqlite_path(url)?,
        None => absolute(&args.data).join("store.db"),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
    }
    let store = SqliteStore::open(&path, clock)
        .with_context(|| format!("the store {} cannot be opened", path.display()))?;
    Ok(Arc::new(store))
}

/// Opens a store that must be there already, for looking at it.
pub(crate) fn open_existing_store(args: &StoreArgs) -> anyhow::Result<Arc<dyn Store>> {
    let path = match args.store.as_deref() {
        Some("memory") => {
            return Err(UsageError::new(
                "store.memory",
                "a store in memory holds nothing once its process is gone; name a file",
            )
            .into());
        }
        Some(url) => sqlite_path(url)?,
        None => absolute(&args.data).join("store.db"),
    };
    if !path.exists() {
        return Err(UsageError::new(
            "store.not_found",
            format!(
                "there is no store at {}; run an app first, or name one with --store or --data",
                path.display()
            ),
        )
        .into());
    }
    open_store(args, None)
}

fn sqlite_path(url: &str) -> anyhow::Result<PathBuf> {
    let path = url.strip_prefix("sqlite://").unwrap_or(url);
    if path.contains("://") {
        return Err(UsageError::new(
            "store.unsupported",
            format!(
                "`{url}` is no store that this version knows; name an SQLite file, or `memory`"
            ),
        )
        .into());
    }
    Ok(absolute(Path::new(path)))
}

/// Tool servers run in folders of their own, so every path handed to them is absolute.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|error| {
        output::note(format!("{} stays relative: {error}", path.display()));
        path.to_owned()
    })
}
