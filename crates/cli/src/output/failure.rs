//! Error messages: the code and the causes, without repetitions, and what to do.

use convoke::RuntimeError;
use convoke_engine::EngineError;
use convoke_flow::FlowError;
use convoke_model::{ErrorType, Invalid, split_cause};
use convoke_server::{AccessError, KeyError, ListenerError};
use convoke_store::StoreError;
use serde::Serialize;

use super::Text;
use crate::commands::refusal::RefusalWords;
use crate::exit::{BrokenSettings, UsageError};

/// An error to print.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FailureReport {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// What to do about it, where the message does not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) help: Option<&'static str>,
    /// What kind of error it is, of those that stop a request before it is a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error_type: Option<ErrorType>,
    /// What the app says to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

impl FailureReport {
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let code = code_of(error);
        let words = error.downcast_ref::<RefusalWords>();
        Self {
            code,
            message: message_of(error, code),
            help: help_for(code),
            error_type: ErrorType::of_request(code),
            text: words.map(|words| words.0.clone()),
        }
    }

    /// As text, with the location if known.
    pub(crate) fn in_words(&self, place: &str) -> Text {
        let Self { code, message, .. } = self;
        let help = self.help.map(|help| format!("\n = help: {help}"));
        let help = help.unwrap_or_default();
        Text::new().revealed(format!("error[{code}]: {place}{message}{help}"))
    }
}

/// Why a task failed: the cause under its own code, if it has one.
pub(crate) fn failed_task(cause: &str) -> Text {
    under_code("error", "task.failed", cause)
}

/// What is wrong with an answer that was given all the same.
pub(crate) fn warning(cause: &str) -> Text {
    under_code("warning", "task.answer", cause)
}

/// A cause under its outermost code. The codes of what caused it in turn are in the JSON and in the trace.
fn under_code(severity: &str, without: &'static str, cause: &str) -> Text {
    let (code, mut message) = split_cause(cause).unwrap_or((without, cause));
    while let Some((_, inner)) = split_cause(message) {
        message = inner;
    }
    Text::new().revealed(format!("{severity}[{code}]: {message}"))
}

/// What to do about errors whose message does not say so.
fn help_for(code: &str) -> Option<&'static str> {
    Some(match code {
        "store.broken" => {
            "nothing was changed; restore the store from a backup, or copy its file and save what can still be read with \
             `convoke tasks export DIR --store COPY`"
        }
        "store.folder" => {
            "nothing was changed; make the folder above it writable, or name another with --data or CONVOKE_DATA"
        }
        "store.full" => "nothing was changed; free space and try again",
        "store.read_only" => {
            "nothing was changed; make the store and its folder writable, or name another with --store"
        }
        "answer.not_allowed" => {
            "say who answers with --user and --role of `convoke tasks answer`; any UUID that is not the requester's stands \
             for another person"
        }
        _ => return None,
    })
}

/// The message and its causes. Many errors repeat their cause, and some the code.
fn message_of(error: &anyhow::Error, code: &str) -> String {
    let mark = format!(" [{code}]");
    let mut message = String::new();
    let to_the_user = usize::from(error.is::<RefusalWords>());
    for cause in error.chain().skip(to_the_user) {
        let words = cause.to_string().replace(&mark, "");
        // The message is the request itself to whoever typed it.
        let words = words
            .strip_prefix("/message: ")
            .unwrap_or(&words)
            .to_owned();
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
        return match runtime {
            RuntimeError::Stopped { reason } => code_of_stop(reason).unwrap_or(runtime.code()),
            runtime => runtime.code(),
        };
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
    if let Some(listener) = error.downcast_ref::<ListenerError>() {
        return listener.code();
    }
    if let Some(access) = error.downcast_ref::<AccessError>() {
        return access.code();
    }
    if let Some(keys) = error.downcast_ref::<KeyError>() {
        return keys.code();
    }
    if error.is::<BrokenSettings>() {
        return "server.settings";
    }
    "internal"
}

/// The code in the reason why a worker stopped, of those about which something can be done.
fn code_of_stop(reason: &str) -> Option<&'static str> {
    let mut codes = ["store.broken", "store.read_only"].into_iter();
    codes.find(|code| reason.ends_with(&format!("[{code}]")))
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
    fn a_failed_task_has_the_code_of_its_cause_once() {
        let told = |cause| failed_task(cause).rendered(false);
        assert_eq!(
            told("tool.not_reached: no answer"),
            "error[tool.not_reached]: no answer"
        );
        assert_eq!(told("no code"), "error[task.failed]: no code");
        assert_eq!(
            told("workflow.condition: template.undefined: `a.b` is undefined"),
            "error[workflow.condition]: `a.b` is undefined"
        );
    }

    #[test]
    fn a_broken_store_is_told_with_what_to_do() {
        let reason = "the store is damaged: page 7 [store.broken]".to_owned();
        let report = FailureReport::of(&RuntimeError::Stopped { reason }.into());
        let told = report.in_words("").rendered(false);
        assert_eq!(told.matches("store.broken").count(), 1, "{told}");
        assert!(told.contains("tasks export"), "{told}");
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
