//! Editions of a program: a task continues with the edition that it started with.

use std::sync::Arc;
use std::time::Duration;

use convoke_store::Definition;
use futures::future::BoxFuture;

use crate::program::Program;

/// A program with its executor.
pub struct Edition<P: Program, X> {
    /// The program.
    pub program: Arc<P>,
    /// The executor of its calls.
    pub executor: Arc<X>,
    /// Time limit of its tasks.
    pub task_time: Duration,
}

/// Opens a program from its stored definition.
pub trait Editions<P: Program, X>: Send + Sync + 'static {
    /// Opens the edition of a definition.
    fn open(
        &self,
        definition: Definition,
    ) -> BoxFuture<'static, Result<Edition<P, X>, EditionError>>;
}

/// An edition that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditionError {
    /// Something is missing in this process, such as a secret. Its tasks are left to other workers.
    #[error("{0}")]
    Unavailable(String),
    /// The definition is invalid, so no worker can run it. Its tasks are set aside.
    #[error("{0}")]
    Invalid(String),
}
