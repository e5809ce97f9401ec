//! Several apps in one process: over one store, with one model client and one limit of concurrent tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use convoke_app::App;
use convoke_engine::Permits;
use convoke_model::Clock;
use futures::FutureExt;
use futures::future::{join_all, select_all};
use tokio::sync::Mutex;

use crate::error::RuntimeError;
use crate::runtime::Runtime;
use crate::shared_parts::SharedParts;
use crate::wire::StoreChoice;

/// Apps that run in this process, by name. Each has an engine and a worker of its own; nothing of one is visible to
/// another. [`RuntimeBuilder::build_registry`](crate::RuntimeBuilder::build_registry) starts it.
pub struct Registry {
    apps: BTreeMap<String, Arc<Runtime>>,
    parts: Arc<SharedParts>,
    /// Whether the caller named the store, so that no app has a say in it.
    fixed_store: bool,
    /// Held while an app is reloaded.
    reloading: Mutex<()>,
}

/// What became of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// New tasks start with the app as it is now.
    Reloaded,
    /// The files are those that the app runs with.
    Unchanged,
}

impl Registry {
    pub(crate) fn start(
        apps: Vec<Arc<App>>,
        parts: Arc<SharedParts>,
        fixed_store: bool,
    ) -> Result<Self, RuntimeError> {
        let mut running = BTreeMap::new();
        let permits = Permits::divided(parts.concurrent_tasks, apps.len());
        for (app, permits) in apps.into_iter().zip(permits) {
            let name = app.config.name.to_string();
            let runtime = Runtime::start(app, Arc::clone(&parts), permits)?;
            running.insert(name, Arc::new(runtime));
        }
        Ok(Self {
            apps: running,
            parts,
            fixed_store,
            reloading: Mutex::default(),
        })
    }

    /// An app's runtime. After a reload it is the same one, and starts new tasks with the app as it was read then.
    pub fn app(&self, name: &str) -> Result<Arc<Runtime>, RuntimeError> {
        self.apps.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.apps.keys().map(String::as_str).collect();
            RuntimeError::UnknownApp {
                name: name.into(),
                known: known.join(", "),
            }
        })
    }

    /// All apps, in the order of their names.
    pub fn apps(&self) -> Vec<Arc<Runtime>> {
        self.apps.values().cloned().collect()
    }

    /// The clock that the apps go by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.parts.clock)
    }

    /// Reads an app's folder again. New tasks start with what is there now; a task that has started keeps its edition,
    /// and the tool servers of an edition end once no task has used it for `limits.edition_idle_seconds`. Where the folder
    /// has errors, they are returned, and the app runs on as it was. An app keeps its name and its store, and until the
    /// process ends also its `limits.lease_seconds` and the process its number of concurrent tasks.
    pub async fn reload(&self, name: &str) -> Result<ReloadOutcome, RuntimeError> {
        let _one_at_a_time = self.reloading.lock().await;
        let runtime = self.app(name)?;
        let before = runtime.app();
        let (parts, folder) = (Arc::clone(&self.parts), before.folder.clone());
        let executor = &self.parts.executor;
        let reading = executor.spawn_blocking(move || parts.loader.load(&folder));
        let app = reading.await.map_err(|_| RuntimeError::Stopped {
            reason: "the app's folder could not be read".into(),
        })??;
        if app.hash == before.hash {
            return Ok(ReloadOutcome::Unchanged);
        }
        self.check_reloadable(&before, &app)?;
        runtime.reload(Arc::new(app))?;
        Ok(ReloadOutcome::Reloaded)
    }

    fn check_reloadable(&self, before: &App, after: &App) -> Result<(), RuntimeError> {
        let refused = |what| RuntimeError::NotReloadable {
            app: before.config.name.to_string(),
            what,
        };
        if before.config.name != after.config.name {
            return Err(refused("name"));
        }
        let data = self.parts.loader.data_folder();
        let store_of = |app: &App| StoreChoice::of_app(app, data);
        if !self.fixed_store && !store_of(after)?.is_same(&store_of(before)?) {
            return Err(refused("store"));
        }
        Ok(())
    }

    /// Waits until an app's tasks are not worked on any more: without an error once the registry was shut down, and with
    /// one where a worker broke down.
    pub async fn until_stopped(&self) -> Result<(), RuntimeError> {
        let apps = self.apps();
        let stopped = apps.iter().map(|runtime| runtime.until_stopped().boxed());
        select_all(stopped).await.0
    }

    /// Stops all apps softly, at the same time, as [`Runtime::shutdown`] does with one. Returns the first error.
    pub async fn shutdown(&self) -> Result<(), RuntimeError> {
        let apps = self.apps();
        let stopped = join_all(apps.iter().map(|runtime| runtime.shutdown())).await;
        stopped.into_iter().collect()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.apps.keys()).finish()
    }
}
