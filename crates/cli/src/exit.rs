//! What the process tells its caller, as `--help` lists it.

use convoke::RuntimeError;
use convoke_engine::EngineError;
use convoke_model::Invalid;
use convoke_store::StoreError;

/// How a command ended.
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

/// What is wrong with what the user wrote, found after the command line was read.
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

/// An app that could not be loaded. Its problems have been shown already.
#[derive(Debug, thiserror::Error)]
#[error("the app has errors; nothing was run")]
pub(crate) struct BrokenApp;

impl Exit {
    /// The worse of two: of several requests, the exit of all is that of the worst.
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

    /// The exit that an error leads to.
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
        if error.is::<UsageError>()
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
                Some(StoreError::ForeignConversation { .. } | StoreError::KeyReused { .. })
            )
        {
            Self::Usage
        } else if error.is::<BrokenApp>() {
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
    fn a_full_backlog_is_told_with_when_to_try_again() {
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
