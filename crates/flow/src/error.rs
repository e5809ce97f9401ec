//! Why an app cannot be run, or a request cannot be taken.

use convoke_model::Invalid;

/// What went wrong before a task existed.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The app says something that cannot be carried out. `convoke check` tells where.
    #[error("the app cannot be run: {0}")]
    App(String),
    /// The request breaks a rule, and nothing was changed.
    #[error(transparent)]
    Request(#[from] Invalid),
}

impl FlowError {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::App(_) => "app.unusable",
            Self::Request(invalid) => invalid
                .problems
                .first()
                .map_or("request.invalid", |problem| problem.code),
        }
    }
}
