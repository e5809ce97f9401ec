//! What is told of an error: its code, and why, each once.

use convoke::RuntimeError;
use convoke_engine::EngineError;
use convoke_flow::FlowError;
use convoke_model::Invalid;
use convoke_store::StoreError;
use serde::Serialize;

use super::Text;
use crate::exit::UsageError;

/// An error as it is told.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FailureReport {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl FailureReport {
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let code = code_of(error);
        let message = message_of(error, code);
        Self { code, message }
    }

    /// For a person, with where it happened if that is known.
    pub(crate) fn in_words(&self, place: &str) -> Text {
        let Self { code, message } = self;
        Text::new().revealed(format!("error[{code}]: {place}{message}"))
    }
}

/// What went wrong and its causes. Many errors name their cause in their own words, and some the code too.
fn message_of(error: &anyhow::Error, code: &str) -> String {
    let mark = format!(" [{code}]");
    let mut message = String::new();
    for cause in error.chain() {
        let words = cause.to_string().replace(&mark, "");
        if message.is_empty() {
            message = words;
        } else if !message.contains(&words) {
            message = format!("{message}: {words}");
        }
    }
    message
}

fn code_of(error: &anyhow::Error) -> &'static str {
    if let Some(usage) = error.downcast_ref::<UsageError>() {
        return usage.code;
    }
    if let Some(invalid) = error.downcast_ref::<Invalid>() {
        return invalid
            .problems
            .first()
            .map_or("invalid", |problem| problem.code);
    }
    if let Some(runtime) = error.downcast_ref::<RuntimeError>() {
        return runtime.code();
    }
    if let Some(flow) = error.downcast_ref::<FlowError>() {
        return flow.code();
    }
    if let Some(engine) = error.downcast_ref::<EngineError>() {
        return engine.code();
    }
    if let Some(store) = error.downcast_ref::<StoreError>() {
        return store.code();
    }
    "internal"
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use std::path::PathBuf;

    use super::*;

    fn message(error: impl Into<anyhow::Error>) -> String {
        FailureReport::of(&error.into()).message
    }

    #[test]
    fn a_cause_that_its_error_names_is_told_once() {
        let source = StoreError::Broken("disk full".into());
        let path = PathBuf::from("/a");
        let error = RuntimeError::Open { path, source };
        assert_eq!(
            message(error),
            "the store /a cannot be opened: the store is damaged: disk full"
        );
        let error = Err::<(), _>(std::io::Error::other("disk full")).context("no report");
        assert_eq!(message(error.unwrap_err()), "no report: disk full");
    }

    #[test]
    fn a_code_that_stands_before_the_message_is_not_repeated_in_it() {
        let report = FailureReport::of(&Invalid::one("a.b", "is wrong").into());
        assert_eq!((report.code, report.message.as_str()), ("a.b", "is wrong"));
        let mut several = Invalid::one("a.b", "is wrong");
        several
            .problems
            .extend(Invalid::one("a.c", "so is this").problems);
        assert_eq!(message(several), "is wrong; so is this [a.c]");
    }
}
