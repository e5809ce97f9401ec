//! Exit codes, as listed in `--help`.

use convoke::RuntimeError;
use convoke_engine::EngineError;
use convoke_model::Invalid;
use convoke_server::{AccessError, KeyError, ListenerError};
use convoke_store::StoreError;

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Not done: the task failed, the app has errors, an eval is below its bar.
    NotDone,
    /// The command line or a request is wrong; it changed nothing.
    Usage,
    /// The store, a tool server or the machine failed.
    Broken,
    /// The task waits for a person.
    Waiting,
    /// Interrupted.
    Interrupted,
}

/// An invalid input, found after the command line was parsed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct UsageError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl UsageError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// An app that could not be loaded. Its problems were printed already.
#[derive(Debug, thiserror::Error)]
#[error("the app has errors; nothing was run")]
pub(crate) struct BrokenApp;

/// Settings of the service that could not be read. Their problems were printed already.
#[derive(Debug, thiserror::Error)]
#[error("the settings have errors; nothing was started")]
pub(crate) struct BrokenSettings;

impl Exit {
    /// The worse of two codes. Several requests exit with the worst one.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        let rank = |exit| match exit {
            Self::Done => 0,
            Self::Waiting => 1,
            Self::NotDone => 2,
            Self::Usage => 3,
            Self::Broken => 4,
            Self::Interrupted => 5,
        };
        if rank(other) > rank(self) {
            other
        } else {
            self
        }
    }

    /// The exit code of an error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let runtime = error.downcast_ref::<RuntimeError>();
        let engine = error.downcast_ref::<EngineError>().or(match runtime {
            Some(RuntimeError::Engine(engine)) => Some(engine),
            _ => None,
        });
        let store = error.downcast_ref::<StoreError>().or(match engine {
            Some(EngineError::Store(store)) => Some(store),
            _ => None,
        });
        let settings = matches!(
            error.downcast_ref::<ListenerError>(),
            Some(ListenerError::Access(_) | ListenerError::UnknownRoot(_))
        );
        if settings
            || error.is::<UsageError>()
            || error.is::<AccessError>()
            || error.is::<KeyError>()
            || error.is::<Invalid>()
            || matches!(
                runtime,
                Some(
                    RuntimeError::Invalid(_)
                        | RuntimeError::Edition(_)
                        | RuntimeError::UnsupportedStore { .. }
                        | RuntimeError::StoresDiffer { .. }
                        | RuntimeError::SameName { .. }
                )
            )
            || matches!(
                engine,
                Some(EngineError::UnknownTask(_) | EngineError::Refused { .. })
            )
            || matches!(
                store,
                Some(
                    StoreError::ForeignConversation { .. }
                        | StoreError::ConversationBusy { .. }
                        | StoreError::KeyReused { .. }
                )
            )
        {
            Self::Usage
        } else if error.is::<BrokenApp>() || error.is::<BrokenSettings>() {
            Self::NotDone
        } else {
            Self::Broken
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::NotDone => 1,
            Exit::Usage => 2,
            Exit::Broken => 3,
            Exit::Waiting => 4,
            Exit::Interrupted => 130,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::output::FailureReport;

    #[test]
    fn a_full_backlog_is_reported_with_a_retry_time() {
        let busy = EngineError::Busy {
            waiting: 3,
            retry_after: Duration::from_secs(1),
        };
        let error = anyhow::Error::from(RuntimeError::from(busy));
        assert_eq!(Exit::of(&error), Exit::Broken);
        let told = FailureReport::of(&error);
        assert_eq!(told.code, "engine.busy");
        assert!(
            told.message.contains("try again in 1 s"),
            "{}",
            told.message
        );
    }
}
