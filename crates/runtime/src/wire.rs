//! The one place that chooses concrete types: which store, which tool servers, which clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_app::App;
use convoke_flow::toolbox::ToolLimits;
use convoke_mcp::{StartFailure, StartObserver, ToolServers};
use convoke_model::{Clock, Ids, SystemClock, SystemIds};
use convoke_store::{MemoryStore, SqliteOptions, SqliteStore, Store, StoreError};

use crate::error::RuntimeError;

/// Where tasks are stored.
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
        Ok(Self::Sqlite(absolute(base).join(path)))
    }

    /// The store of an app whose caller names none: where the app says, else in `store.db` of the data folder, else
    /// in memory.
    pub fn of_app(app: &App, data: Option<&Path>) -> Result<Self, RuntimeError> {
        match (&app.config.store, data) {
            (Some(store), _) => Self::of_url(&store.url, &app.folder),
            (None, Some(data)) => Ok(Self::in_folder(data)),
            (None, None) => Ok(Self::Memory),
        }
    }

    /// The one store of several apps whose caller names none.
    pub(crate) fn of_apps(apps: &[Arc<App>], data: Option<&Path>) -> Result<Self, RuntimeError> {
        let mut choices = Vec::new();
        for app in apps {
            choices.push((Self::of_app(app, data)?, &app.config.name));
        }
        let differs = choices
            .iter()
            .find(|(store, _)| !store.is_same(&choices[0].0));
        if let Some((_, other)) = differs {
            return Err(RuntimeError::StoresDiffer {
                one: choices[0].1.to_string(),
                other: other.to_string(),
            });
        }
        let first = choices.into_iter().next();
        first
            .map(|(store, _)| store)
            .ok_or(RuntimeError::NothingToRun)
    }

    /// Whether two choices, neither of which is open, name one place.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory, Self::Memory) => true,
            (Self::Sqlite(one), Self::Sqlite(other)) => same_file(one, other),
            _ => false,
        }
    }

    /// The SQLite file `store.db` of a data folder.
    pub fn in_folder(data: &Path) -> Self {
        Self::Sqlite(absolute(data).join("store.db"))
    }

    /// Opens it.
    pub fn open(&self) -> Result<Arc<dyn Store>, RuntimeError> {
        self.open_with(SqliteOptions::default())
    }

    /// Opens it with these settings, which have no effect on a store in memory or on one that is open already.
    pub(crate) fn open_with(&self, options: SqliteOptions) -> Result<Arc<dyn Store>, RuntimeError> {
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
        let failed = |source| RuntimeError::Open {
            path: path.clone(),
            source,
        };
        if path.is_dir() {
            let reason = "it is a folder; name a file in it".to_owned();
            return Err(failed(StoreError::Unavailable(reason)));
        }
        let store = SqliteStore::open_with(path, clock(), options).map_err(failed)?;
        Ok(Arc::new(store))
    }

    /// Opens it for looking at what is there. Where nobody may write to its file or folder, it is open all the same,
    /// and refuses to be changed.
    pub fn open_to_read(&self) -> Result<Arc<dyn Store>, RuntimeError> {
        match (self, self.open()) {
            (
                Self::Sqlite(path),
                Err(RuntimeError::Open {
                    source: StoreError::Unavailable(_) | StoreError::ReadOnly | StoreError::Full(_),
                    ..
                }),
            ) if !path.is_dir() => {
                let store = SqliteStore::open_read_only(path, clock());
                let store = store.map_err(|source| RuntimeError::Open {
                    path: path.clone(),
                    source,
                })?;
                Ok(Arc::new(store))
            }
            (_, opened) => opened,
        }
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

/// Whether two paths lead to one file. Where the file is not there yet, its folder may be.
fn same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        path.canonicalize().or_else(|_| {
            let folder = path.parent().unwrap_or(path).canonicalize()?;
            Ok::<_, std::io::Error>(folder.join(path.file_name().unwrap_or_default()))
        })
    };
    match (real(one), real(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
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

/// A path that means the same in every folder: tool servers run in folders of their own.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Is told of tool servers of an app that could not be started.
pub(crate) type FailedStartObserver = dyn Fn(&App, &StartFailure) + Send + Sync;

/// The app's tool servers. Nothing is started before it is used.
///
/// What `convoke` means as a server's command is `program`; without one it is looked for like any
/// other.
pub fn tool_servers(app: &App, program: Option<PathBuf>) -> ToolServers {
    ToolServers::new(app.servers.clone(), server_options(app, program))
}

/// The same; `observer` is told of each server that could not be started.
pub(crate) fn observed_tool_servers(
    app: &Arc<App>,
    program: Option<PathBuf>,
    observer: Option<Arc<FailedStartObserver>>,
) -> ToolServers {
    let mut options = server_options(app, program);
    options.on_failed_start = observer.map(|observer| {
        let app = Arc::clone(app);
        StartObserver::new(move |failure| observer(&app, failure))
    });
    ToolServers::new(app.servers.clone(), options)
}

fn server_options(app: &App, program: Option<PathBuf>) -> convoke_mcp::Options {
    let limits = tool_limits(app);
    convoke_mcp::Options {
        self_exe: program,
        app_folder: Some(absolute(&app.folder)),
        max_message_bytes: limits.result_bytes,
        max_message_values: limits.result_values,
        schema: limits.schema,
        ..convoke_mcp::Options::default()
    }
}

/// The app's limits of tools, for those of servers and for those written in Rust.
pub(crate) fn tool_limits(app: &App) -> ToolLimits {
    let limits = &app.config.limits;
    ToolLimits {
        result_bytes: limits.tool_message_bytes as usize,
        result_values: limits.tool_message_values as usize,
        schema: convoke_schema::Limits {
            steps: limits.schema_steps.into(),
            ..convoke_schema::Limits::default()
        },
    }
}
