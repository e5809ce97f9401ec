//! Definitions: an app's files as they were when a task started. Stored while a task needs them, so that changes of the
//! app do not affect running tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The files of an app. They contain the names of environment variables, not their values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The content hash, which tasks refer to.
    pub hash: String,
    /// The text of each file, by its path in the app folder.
    pub files: BTreeMap<String, String>,
    /// Whether it may run in this store: a task was started with it here, or its user trusted it. One that was imported
    /// with a task from another store is untrusted.
    pub trusted: bool,
}
