//! Errors of apps and requests, before a task exists.

use convoke_model::Invalid;

/// An error before a task exists.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The app cannot be run. `convoke check` reports where.
    #[error("the app cannot be run: {0}")]
    App(String),
    /// The request is invalid. Nothing was changed.
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
