//! Errors: a refused call, or a failure of the server.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::answers::MAX_KEY_LENGTH;

/// Problems that any call may have, whatever its tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallProblem {
    /// The arguments do not match the tool's.
    #[error("The arguments do not fit: {0}.")]
    Arguments(String),
    /// The idempotency key is not a text, is empty or too long.
    #[error("The idempotency key must be a text of 1 to {MAX_KEY_LENGTH} characters.")]
    Key,
    /// The idempotency key belongs to another call.
    #[error("This idempotency key was used for another call.")]
    KeyReused,
}

/// The refusals of a server, none of which changes anything. The message (`Display`) is for people, the
/// code for programs.
pub trait Refuse: std::error::Error + From<CallProblem> + Send + Sync + 'static {
    /// Prefix of the server's codes.
    const SERVER: &'static str;

    /// Stable code, such as `todo.title`.
    fn code(&self) -> &'static str;

    /// Whether an argument is malformed. The answer then says so as its `error_type`.
    fn is_malformed(&self) -> bool {
        false
    }

    /// The tool's answer.
    fn to_value(&self) -> Value {
        let mut value = json!({"code": self.code(), "message": self.to_string()});
        if self.is_malformed() {
            value["error_type"] = json!("ValidationError");
        }
        value
    }
}

/// Why a server or a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure<R: Refuse> {
    /// The call was refused and changed nothing.
    #[error(transparent)]
    Refused(R),
    /// The database could not be read or written.
    #[error("the database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// The database was written by a newer version of the server.
    #[error(
        "the database has schema version {found}, and this server knows up to {known}; update it"
    )]
    NewerSchema {
        /// Schema version of the file.
        found: i64,
        /// Newest version that this server supports.
        known: i64,
    },
    /// A stored value is invalid.
    #[error("the database holds a value that cannot be read: {0}")]
    Corrupt(String),
    /// A file or folder next to the database could not be created.
    #[error("{path} could not be made: {source}")]
    Folder {
        /// The path.
        path: PathBuf,
        source: std::io::Error,
    },
    /// The address could not be bound or served.
    #[error("HTTP could not be served: {0}")]
    Http(#[from] std::io::Error),
    /// The connection with the client failed.
    #[error("the client could not be served: {0}")]
    Serve(String),
}

impl<R: Refuse> Failure<R> {
    /// Stable code: the server's name and the kind of failure, such as `todo.database`.
    pub fn code(&self) -> Cow<'static, str> {
        let what = match self {
            Self::Refused(refusal) => return refusal.code().into(),
            Self::Database(_) => "database",
            Self::NewerSchema { .. } => "newer_schema",
            Self::Corrupt(_) => "corrupt",
            Self::Folder { .. } => "folder",
            Self::Http(_) => "http",
            Self::Serve(_) => "serve",
        };
        format!("{}.{what}", R::SERVER).into()
    }
}

impl<R: Refuse> From<R> for Failure<R> {
    fn from(refusal: R) -> Self {
        Self::Refused(refusal)
    }
}

impl<R: Refuse> From<CallProblem> for Failure<R> {
    fn from(problem: CallProblem) -> Self {
        Self::Refused(problem.into())
    }
}

/// Refusals for the tests of this crate.
#[cfg(test)]
pub(crate) mod example {
    use super::{CallProblem, Refuse};

    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    pub(crate) enum Refusal {
        #[error(transparent)]
        Call(#[from] CallProblem),
        #[error("The drawer is full.")]
        Full,
    }

    impl Refuse for Refusal {
        const SERVER: &'static str = "drawer";

        fn code(&self) -> &'static str {
            match self {
                Self::Call(CallProblem::Arguments(_)) => "drawer.arguments",
                Self::Call(CallProblem::Key) => "drawer.idempotency_key",
                Self::Call(CallProblem::KeyReused) => "drawer.idempotency_key_reused",
                Self::Full => "drawer.full",
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::example::Refusal;
    use super::*;

    #[test]
    fn every_code_starts_with_the_servers_name() {
        let refused: Failure<Refusal> = Refusal::Full.into();
        assert_eq!(refused.code(), "drawer.full");
        assert_eq!(refused.to_string(), "The drawer is full.");
        let wrong: Failure<Refusal> = CallProblem::Key.into();
        assert_eq!(wrong.code(), "drawer.idempotency_key");
        let broken: Failure<Refusal> = Failure::Corrupt("a date".to_owned());
        assert_eq!(broken.code(), "drawer.corrupt");
    }
}
