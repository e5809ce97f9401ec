//! What can go wrong: a call that is refused, and a server that cannot run.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::answers::MAX_KEY_LENGTH;

/// What can be wrong with any call, whichever tool it is for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallProblem {
    /// The arguments are not those of the tool.
    #[error("The arguments do not fit: {0}.")]
    Arguments(String),
    /// The idempotency key is no text, empty or too long.
    #[error("The idempotency key must be a text of 1 to {MAX_KEY_LENGTH} characters.")]
    Key,
    /// The idempotency key was used for another call.
    #[error("This idempotency key was used for another call.")]
    KeyReused,
}

/// The ways in which a server turns calls down, having changed nothing. People read the sentence,
/// which is what the error displays; programs read the code.
pub trait Refuse: std::error::Error + From<CallProblem> + Send + Sync + 'static {
    /// What the codes of this server begin with.
    const SERVER: &'static str;

    /// Stable and greppable, such as `todo.title`.
    fn code(&self) -> &'static str;

    /// What the tool answers.
    fn to_value(&self) -> Value {
        json!({"code": self.code(), "message": self.to_string()})
    }
}

/// Why a server, or one call of it, came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure<R: Refuse> {
    /// The call was turned down and changed nothing.
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
        /// The version of the file.
        found: i64,
        /// The newest version that this server knows.
        known: i64,
    },
    /// What is stored is not what was written.
    #[error("the database holds a value that cannot be read: {0}")]
    Corrupt(String),
    /// A file or folder beside the database could not be made.
    #[error("{path} could not be made: {source}")]
    Folder {
        /// What was to be made.
        path: PathBuf,
        /// Why it could not.
        source: std::io::Error,
    },
    /// The address could not be bound or served.
    #[error("HTTP could not be served: {0}")]
    Http(#[from] std::io::Error),
    /// The conversation with the client failed.
    #[error("the client could not be served: {0}")]
    Serve(String),
}

impl<R: Refuse> Failure<R> {
    /// Stable: the server's name and what failed, such as `todo.database`.
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

/// Ways of refusing for the tests of this crate.
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
    fn a_code_begins_with_the_servers_name_whatever_went_wrong() {
        let refused: Failure<Refusal> = Refusal::Full.into();
        assert_eq!(refused.code(), "drawer.full");
        assert_eq!(refused.to_string(), "The drawer is full.");
        let wrong: Failure<Refusal> = CallProblem::Key.into();
        assert_eq!(wrong.code(), "drawer.idempotency_key");
        let broken: Failure<Refusal> = Failure::Corrupt("a date".to_owned());
        assert_eq!(broken.code(), "drawer.corrupt");
    }
}
