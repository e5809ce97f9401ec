//! Errors of the service as problem details (RFC 9457), with the stable codes of the errors behind them.

use std::time::Duration;

use convoke::{EngineError, InvalidCursor, RuntimeError, StoreError};
use convoke_model::Invalid;
use http::{HeaderName, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

/// What went wrong, as it is sent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ProblemDetails {
    /// `about:blank`: the status says what kind of problem it is, and `code` which one.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: String,
    /// The status of the answer.
    #[schemars(range(min = 400, max = 599))]
    status: u16,
    /// What is wrong and what to do, in one sentence.
    detail: String,
    /// Stable and greppable.
    code: String,
    /// The parts of the request that break a rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    problems: Vec<RequestProblem>,
}

/// A part of a request that breaks a rule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RequestProblem {
    /// JSON pointer into the body; empty for all of it.
    path: String,
    /// Stable and greppable.
    code: String,
    /// What is wrong with it.
    message: String,
}

/// An error that ends a request.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    problems: Vec<RequestProblem>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Said for errors whose cause is nothing to the caller. The log has the cause.
const INTERNAL: &str = "something went wrong in the service; its log says what";

/// When to come back after an outage of the store.
const OUTAGE_RETRY: Duration = Duration::from_secs(2);

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            problems: Vec::new(),
            headers: Vec::new(),
        }
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// There is nothing here, or nothing that the caller may see.
    pub(crate) fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// There is no such app, or none that the caller may use.
    pub(crate) fn unknown_app() -> Self {
        Self::not_found("registry.unknown_app", "there is no such app")
    }

    /// Says when to come back.
    pub(crate) fn retry_after(self, pause: Duration) -> Self {
        let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
        self.header(header::RETRY_AFTER, seconds.max(1).into())
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// What is wrong and what to do.
    pub(crate) fn into_detail(self) -> String {
        self.detail
    }

    pub(crate) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.headers
    }

    pub(crate) fn details(self) -> ProblemDetails {
        ProblemDetails {
            kind: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error").into(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code.into(),
            problems: self.problems,
        }
    }

    fn internal(code: &'static str, cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(code, %cause, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code, INTERNAL)
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let code = invalid
            .problems
            .first()
            .map_or("invalid", |first| first.code);
        let problems = invalid.problems.iter().map(|problem| RequestProblem {
            path: problem.path.clone(),
            code: problem.code.into(),
            message: problem.message.clone(),
        });
        Self {
            problems: problems.collect(),
            ..Self::bad_request(
                code,
                invalid
                    .problems
                    .iter()
                    .map(|it| it.message.as_str())
                    .collect::<Vec<_>>()
                    .join("; "),
            )
        }
    }
}

impl From<InvalidCursor> for Problem {
    fn from(error: InvalidCursor) -> Self {
        Self::bad_request("events.cursor", error.to_string())
    }
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Invalid(invalid) => invalid.into(),
            RuntimeError::Engine(error) => error.into(),
            RuntimeError::UnknownApp { .. } => Self::unknown_app(),
            RuntimeError::Stopped { .. } => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "service.stopping",
                "the service is stopping; ask again",
            )
            .retry_after(OUTAGE_RETRY),
            error => Self::internal(error.code(), &error),
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let code = error.code();
        match error {
            EngineError::UnknownTask(_) => Self::not_found(code, "there is no such task"),
            EngineError::Refused { message, .. } => {
                Self::new(status_of_refusal(code), code, message)
            }
            EngineError::Busy { retry_after, .. } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                code,
                "too many tasks wait to be started; ask again later",
            )
            .retry_after(retry_after),
            EngineError::Closed { reason } => RuntimeError::Stopped { reason }.into(),
            EngineError::Store(error) => error.into(),
            error => Self::internal(code, &error),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let code = error.code();
        match error {
            StoreError::ForeignConversation { .. } => {
                Self::not_found(code, "there is no such conversation")
            }
            StoreError::ConversationBusy { .. } => Self::new(
                StatusCode::CONFLICT,
                code,
                "an earlier request of the conversation is worked on; ask again later",
            ),
            StoreError::KeyReused { .. } => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                code,
                "the idempotency key was used before, for another request",
            ),
            error if error.is_outage() => {
                tracing::warn!(code, %error, "a request met an outage of the store");
                let detail = "the store is unavailable; ask again";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after(OUTAGE_RETRY)
            }
            error => Self::internal(code, &error),
        }
    }
}

/// The status of a request that is not possible in the current state.
fn status_of_refusal(code: &str) -> StatusCode {
    match code {
        "answer.not_allowed" => StatusCode::FORBIDDEN,
        "question.not_found" | "question.none" => StatusCode::NOT_FOUND,
        "answer.unusable"
        | "answer.field_unknown"
        | "answer.field_type"
        | "answer.argument_unknown"
        | "answer.argument_type"
        | "task.no_such_step" => StatusCode::BAD_REQUEST,
        "answer.unchecked" => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::CONFLICT,
    }
}
