//! What an app was when a task was begun: kept for as long as a task needs it, so that a changed app
//! neither changes nor breaks what is under way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An app as it was written. Values from the environment are not in it, only their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The content hash, by which tasks name it.
    pub hash: String,
    /// The text of each file, by its path in the app folder.
    pub files: BTreeMap<String, String>,
    /// Whether it may run here: its user began a task with it, or said so. One that only came along with a
    /// task from another store may not.
    pub trusted: bool,
}
