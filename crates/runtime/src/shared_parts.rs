//! What all apps of a process share.

use std::path::PathBuf;
use std::sync::Arc;

use convoke_flow::toolbox::RustTool;
use convoke_llm::ModelClient;
use convoke_model::{Clock, Ids};
use convoke_store::Store;
use tokio::runtime::Handle;

use crate::loader::AppLoader;
use crate::wire::FailedStartObserver;

/// What all apps of a process share.
pub(crate) struct SharedParts {
    /// What reads the apps as they are and as they were.
    pub(crate) loader: AppLoader,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    /// Its limits hold per endpoint, whichever app calls.
    pub(crate) models: ModelClient,
    /// Tools of the program that runs the apps.
    pub(crate) tools: Vec<RustTool>,
    /// What `convoke` means as a tool server's command; without one it is looked for like any other.
    pub(crate) program: Option<PathBuf>,
    /// Is told of tool servers that could not be started.
    pub(crate) on_failed_start: Option<Arc<FailedStartObserver>>,
    /// How many tasks of all apps run at once.
    pub(crate) concurrent_tasks: usize,
    /// Whether classifiers are trained before a request needs them.
    pub(crate) train_at_start: bool,
    /// Where workers run, and tool servers end.
    pub(crate) executor: Handle,
}
