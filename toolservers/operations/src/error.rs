//! Errors: a refused call, or a failure of the server.

use convoke_serving::{CallProblem, Failure, Refuse};

use crate::change::MAX_REASON_LENGTH;
use crate::mention::MAX_TEXT_LENGTH;
use crate::service::{MAX_NAME_LENGTH, MAX_WINDOW_MINUTES};

/// A refused call, which changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such service.
    #[error("There is no service {0}.")]
    ServiceNotFound(String),
    /// The service already runs this version.
    #[error("{service} runs version {version} already.")]
    VersionCurrent { service: String, version: String },
    /// The service has never run this version.
    #[error("Version {version} of {service} was never deployed.")]
    VersionUnknown { service: String, version: String },
    /// A service's name or a version is empty or too long.
    #[error("Services and versions must have 1 to {MAX_NAME_LENGTH} characters.")]
    Name,
    /// The text to search for a service is too long.
    #[error("The text must have at most {MAX_TEXT_LENGTH} characters.")]
    Text,
    /// The reason is empty or too long.
    #[error("The reason must have 1 to {MAX_REASON_LENGTH} characters.")]
    Reason,
    /// The time window is empty or too long.
    #[error("The window must be of 1 to {MAX_WINDOW_MINUTES} minutes.")]
    Window,
    /// The arguments or the idempotency key are invalid.
    #[error(transparent)]
    Call(#[from] CallProblem),
}

impl Refuse for Refusal {
    const SERVER: &'static str = "operations";

    fn code(&self) -> &'static str {
        match self {
            Self::ServiceNotFound(_) => "operations.service_not_found",
            Self::VersionCurrent { .. } => "operations.version_current",
            Self::VersionUnknown { .. } => "operations.version_unknown",
            Self::Name => "operations.name",
            Self::Text => "operations.text",
            Self::Reason => "operations.reason",
            Self::Window => "operations.window",
            Self::Call(CallProblem::Arguments(_)) => "operations.arguments",
            Self::Call(CallProblem::Key) => "operations.idempotency_key",
            Self::Call(CallProblem::KeyReused) => "operations.idempotency_key_reused",
        }
    }
}

/// Why the server or a call failed.
pub type OperationsError = Failure<Refusal>;
