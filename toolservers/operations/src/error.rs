//! What can go wrong: a call that is refused, and a server that cannot run.

use convoke_serving::{CallProblem, Failure, Refuse};

use crate::change::MAX_REASON_LENGTH;
use crate::mention::MAX_TEXT_LENGTH;
use crate::service::{MAX_NAME_LENGTH, MAX_WINDOW_MINUTES};

/// A call that was turned down and changed nothing. People read the sentence, programs the code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such service.
    #[error("There is no service {0}.")]
    ServiceNotFound(String),
    /// The service runs this version already.
    #[error("{service} runs version {version} already.")]
    VersionCurrent {
        /// The service.
        service: String,
        /// The version that it runs.
        version: String,
    },
    /// The service never ran this version.
    #[error("Version {version} of {service} was never deployed.")]
    VersionUnknown {
        /// The service.
        service: String,
        /// The version that was asked for.
        version: String,
    },
    /// A service or a version is empty or too long.
    #[error("Services and versions must have 1 to {MAX_NAME_LENGTH} characters.")]
    Name,
    /// The text in which a service is looked for is too long.
    #[error("The text must have at most {MAX_TEXT_LENGTH} characters.")]
    Text,
    /// The reason is empty or too long.
    #[error("The reason must have 1 to {MAX_REASON_LENGTH} characters.")]
    Reason,
    /// The window is empty or too long.
    #[error("The window must be of 1 to {MAX_WINDOW_MINUTES} minutes.")]
    Window,
    /// The arguments or the idempotency key are wrong.
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

/// Why the server, or one call of it, broke down.
pub type OperationsError = Failure<Refusal>;
