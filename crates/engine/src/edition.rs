//! Earlier editions of a program: a task goes on with what it was begun with, whatever the app has
//! become since.

use std::sync::Arc;
use std::time::Duration;

use convoke_store::Definition;
use futures::future::BoxFuture;

use crate::program::Program;

/// A program with what carries out its calls.
pub struct Edition<P: Program, X> {
    /// Says what comes next.
    pub program: Arc<P>,
    /// Carries it out.
    pub executor: Arc<X>,
    /// How long its tasks may take.
    pub task_time: Duration,
}

/// Makes a program again from what was kept of it.
pub trait Editions<P: Program, X>: Send + Sync + 'static {
    /// The edition of a definition, or why there can be none here.
    fn open(
        &self,
        definition: Definition,
    ) -> BoxFuture<'static, Result<Edition<P, X>, EditionError>>;
}

/// Why an edition cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditionError {
    /// Something is missing here that may be there elsewhere or later, such as a secret. Its tasks are left
    /// to other workers.
    #[error("{0}")]
    Unavailable(String),
    /// What was kept is wrong in itself, so that no worker can run it. Its tasks are set aside.
    #[error("{0}")]
    Invalid(String),
}
