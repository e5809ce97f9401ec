//! What can go wrong with a completion, split by what the caller may do next.

use std::fmt;
use std::time::Duration;

/// Why there is no answer, and from whom there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", from(.model, .endpoint))]
pub struct LlmError {
    /// What went wrong.
    pub problem: LlmProblem,
    /// The model that was asked last, or first where that tells more.
    pub model: String,
    /// Where it was asked: scheme, host and port.
    pub endpoint: String,
    /// How many requests were made over all models of the list.
    pub attempts: u32,
}

/// What went wrong. No text in it holds a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmProblem {
    /// The server turned the request down for good.
    #[error("the model server refused the request ({status}): {message}")]
    Refused {
        /// The HTTP status, or the one named inside the answer.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// The server cannot do what the request asks for; it may be asked in words instead.
    #[error("the model server does not support {feature}: {message}")]
    Unsupported {
        /// What it cannot do.
        feature: Feature,
        /// What the server said.
        message: String,
    },
    /// The messages do not fit into the model's window.
    #[error("the conversation is too long for the model: {message}")]
    TooLong {
        /// What the server said.
        message: String,
    },
    /// No connection could be made.
    #[error("the model server could not be reached: {reason}")]
    Unreachable {
        /// What stood in the way.
        reason: String,
    },
    /// The connection or the stream ended before the answer did.
    #[error("the answer broke off: {reason}")]
    Broken {
        /// How it ended.
        reason: String,
    },
    /// The server is too busy or has failed, and stayed so over all attempts.
    #[error("the model server cannot answer now ({status}): {message}")]
    Overloaded {
        /// The HTTP status, or the one named inside the answer.
        status: u16,
        /// What the server said.
        message: String,
        /// When it may be asked again.
        retry_after: Option<Duration>,
    },
    /// The server said nothing for longer than one attempt may wait.
    #[error("the model server said nothing for {silence:?}")]
    Stalled {
        /// How long it was silent.
        silence: Duration,
    },
    /// The request's own time was up.
    #[error("no answer within {time:?}{}", before(.last.as_deref()))]
    TimedOut {
        /// How long the request had.
        time: Duration,
        /// What had gone wrong until then.
        last: Option<Box<LlmProblem>>,
    },
    /// The answer is not what the format says.
    #[error("the model server's answer cannot be read: {reason}")]
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// The answer is larger than may be read.
    #[error("the model server's answer is larger than {limit} bytes")]
    TooLarge {
        /// The most that is read.
        limit: usize,
    },
    /// The request could not even be written.
    #[error("{reason}")]
    Misconfigured {
        /// What to mend.
        reason: String,
    },
}

/// What a server may be unable to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Answers that fit a JSON Schema.
    StructuredOutput,
    /// Calls of tools.
    Tools,
}

impl LlmError {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        self.problem.code()
    }

    /// Whether the same request may succeed later without anybody changing it.
    pub fn is_transient(&self) -> bool {
        self.problem.is_transient()
    }

    /// When the server asked to be asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.problem.retry_after()
    }
}

impl LlmProblem {
    /// Stable and greppable.
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

    /// Whether the same request may succeed later without anybody changing it.
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

    /// When the server asked to be asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Overloaded { retry_after, .. } => *retry_after,
            Self::TimedOut {
                last: Some(last), ..
            } => last.retry_after(),
            _ => None,
        }
    }

    /// Whether another model may answer what this one did not. A request that is wrong in itself
    /// stays wrong, and what the caller can mend is the caller's to decide.
    pub(crate) fn is_for_the_next_model(&self) -> bool {
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
