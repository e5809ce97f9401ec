//! Errors of completions, split by what the caller can do next.

use std::fmt;
use std::time::Duration;

/// Why there is no answer, and which model was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", from(.model, .endpoint))]
pub struct LlmError {
    pub problem: LlmProblem,
    /// The last model asked, or the first one if its error is more useful.
    pub model: String,
    /// Scheme, host and port of its endpoint.
    pub endpoint: String,
    /// Number of requests to all models.
    pub attempts: u32,
    /// The pause after which the request should be made again. Only a caller that waits itself gets one.
    pub retry_in: Option<Duration>,
}

/// What went wrong. No text in it contains a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmProblem {
    /// The server rejected the request permanently.
    #[error("the model server refused the request ({status}): {message}")]
    Refused {
        /// The HTTP status, or the one in the body.
        status: u16,
        /// The server's message.
        message: String,
    },
    /// The server lacks a feature; the caller may ask in the prompt instead.
    #[error("the model server does not support {feature}: {message}")]
    Unsupported {
        /// The missing feature.
        feature: Feature,
        /// The server's message.
        message: String,
    },
    /// The messages exceed the model's context window.
    #[error("the conversation is too long for the model: {message}")]
    TooLong {
        /// The server's message.
        message: String,
    },
    /// No connection could be made.
    #[error("the model server could not be reached: {reason}")]
    Unreachable { reason: String },
    /// The connection or stream ended before the answer did.
    #[error("the answer was interrupted: {reason}")]
    Broken { reason: String },
    /// The server was too busy or failed, in all attempts.
    #[error("the model server cannot answer now ({status}): {message}")]
    Overloaded {
        /// The HTTP status, or the one in the body.
        status: u16,
        /// The server's message.
        message: String,
        /// When to retry, if the server said so.
        retry_after: Option<Duration>,
    },
    /// The server sent nothing for longer than one attempt may wait.
    #[error("the model server sent nothing for {silence:?}")]
    Stalled { silence: Duration },
    /// The request's deadline passed.
    #[error("no answer within {time:?}{}", before(.last.as_deref()))]
    TimedOut {
        /// The time that the request had.
        time: Duration,
        /// The last failure before that.
        last: Option<Box<LlmProblem>>,
    },
    /// The answer does not follow the format.
    #[error("the model server's answer cannot be read: {reason}")]
    Malformed { reason: String },
    /// The answer exceeds the size limit.
    #[error("the model server's answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The request could not be built.
    #[error("{reason}")]
    Misconfigured {
        /// What to fix.
        reason: String,
    },
}

/// Features that a server may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Answers that match a JSON Schema.
    StructuredOutput,
    /// Tool calls.
    Tools,
}

impl LlmError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        self.problem.code()
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        self.problem.is_transient()
    }

    /// When to retry, if the server said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.problem.retry_after()
    }
}

impl LlmProblem {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused {
                status: 401 | 403, ..
            } => "llm.unauthorized",
            Self::Refused { status: 404, .. } => "llm.not_found",
            Self::Refused { .. } => "llm.refused",
            Self::Unsupported {
                feature: Feature::StructuredOutput,
                ..
            } => "llm.structured_output_unsupported",
            Self::Unsupported {
                feature: Feature::Tools,
                ..
            } => "llm.tools_unsupported",
            Self::TooLong { .. } => "llm.too_long",
            Self::Unreachable { .. } => "llm.unreachable",
            Self::Broken { .. } => "llm.broken",
            Self::Overloaded { .. } => "llm.overloaded",
            Self::Stalled { .. } => "llm.stalled",
            Self::TimedOut { .. } => "llm.timed_out",
            Self::Malformed { .. } => "llm.malformed",
            Self::TooLarge { .. } => "llm.too_large",
            Self::Misconfigured { .. } => "llm.misconfigured",
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Broken { .. }
                | Self::Overloaded { .. }
                | Self::Stalled { .. }
                | Self::TimedOut { .. }
                | Self::Malformed { .. }
        )
    }

    /// When to retry, if the server said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Overloaded { retry_after, .. } => *retry_after,
            Self::TimedOut {
                last: Some(last), ..
            } => last.retry_after(),
            _ => None,
        }
    }

    /// Whether another model may succeed. Invalid requests fail everywhere, and errors that the caller
    /// can fix are the caller's decision.
    pub fn is_for_the_next_model(&self) -> bool {
        match self {
            Self::Refused { status, .. } => !matches!(status, 400 | 413 | 422),
            Self::Unsupported { .. } | Self::TooLong { .. } | Self::TimedOut { .. } => false,
            _ => true,
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StructuredOutput => "structured output",
            Self::Tools => "tools",
        })
    }
}

fn from(model: &str, endpoint: &str) -> String {
    match (model.is_empty(), endpoint.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("`{model}`: "),
        (false, false) => format!("`{model}` at {endpoint}: "),
    }
}

fn before(last: Option<&LlmProblem>) -> String {
    last.map(|last| format!("; before that, {last}"))
        .unwrap_or_default()
}
