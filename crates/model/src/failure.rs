//! Why a call gave nothing: a code, a sentence, and what it means for the world outside.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable and greppable: a [`FailureCode`], or a code of the client that failed.
    pub code: String,
    /// What happened, in a sentence.
    pub message: String,
    /// What it means for the world outside.
    pub kind: FailureKind,
    /// Whether the same call may succeed later without anybody changing it.
    #[serde(default)]
    pub transient: bool,
    /// The pause after which the call should be made again, if whoever made it leaves the wait to its caller. Only a
    /// failure without effect has one. It is not stored: the due time is.
    #[serde(skip)]
    pub retry_in: Option<Duration>,
}

/// What a failure means for the world outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It was never made, or refused: certainly nothing happened.
    NoEffect,
    /// It was made and answered with an error.
    Answered,
    /// It was made and no answer came: nobody knows.
    Unknown,
}

impl Failure {
    /// A failure that the same call would meet again.
    pub fn new(kind: FailureKind, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            kind,
            transient: false,
            retry_in: None,
        }
    }

    /// The call was never made, or refused.
    pub fn no_effect(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FailureKind::NoEffect, code, message)
    }

    /// The call was made and answered with an error.
    pub fn answered(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FailureKind::Answered, code, message)
    }

    /// The call was made and may have had an effect.
    pub fn unknown(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(FailureKind::Unknown, code, message)
    }

    /// The same failure, where a later call may succeed without anybody changing it.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    /// The same failure, where the call should be made again after a pause.
    #[must_use]
    pub fn retry_in(mut self, pause: Duration) -> Self {
        self.retry_in = Some(pause);
        self
    }

    /// Whether it has this code.
    pub fn is(&self, code: FailureCode) -> bool {
        self.code == code.as_str()
    }

    /// Whether the time for an answer was over.
    pub fn is_timeout(&self) -> bool {
        ["timeout", "timed_out"]
            .iter()
            .any(|end| self.code.ends_with(end))
    }

    /// Code and message in a line, as operators read it.
    pub fn cause(&self) -> String {
        format!("{}: {}", self.code, self.message)
    }
}

/// Splits a cause, as [`Failure::cause`] writes it, into its code and its message. `None` if it has no code.
pub fn split_cause(cause: &str) -> Option<(&str, &str)> {
    let (code, message) = cause.split_once(": ")?;
    let is_word = |word: &str| {
        let mut letters = word.chars();
        !word.is_empty()
            && letters
                .all(|letter| letter.is_ascii_lowercase() || matches!(letter, '_' | '0'..='9'))
    };
    let mut words = code.split('.');
    (code.contains('.') && words.all(is_word)).then_some((code, message))
}

/// What kind of error stopped a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ErrorType {
    /// The request, or an argument of a tool, is malformed.
    ValidationError,
    /// It could not be found out what the request asks for.
    IntentClassificationError,
    /// What the request asks for could not be carried out.
    ToolInvocationError,
    /// The user may not do it: the tool or a person refused.
    UnauthorizedError,
}

/// Parts of the codes of malformed requests and arguments.
const OF_VALIDATION: [&str; 6] = [
    "argument",
    "empty",
    "invalid",
    "malformed",
    "_long",
    "validation",
];

/// Parts of the codes of refusals.
const OF_AUTHORIZATION: [&str; 6] = [
    "denied",
    "forbidden",
    "permission",
    "rejected",
    "unauthenticated",
    "unauthorized",
];

impl ErrorType {
    /// The type of an error with this code, of Convoke or of a tool: by what the code says, else by whether the request was
    /// understood. `is_understood` says whether it was known what the
    /// request asks for.
    pub fn of(code: &str, is_understood: bool) -> Self {
        let code = code.to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| code.contains(part));
        if has(&OF_AUTHORIZATION) {
            Self::UnauthorizedError
        } else if has(&OF_VALIDATION) {
            Self::ValidationError
        } else if is_understood {
            Self::ToolInvocationError
        } else {
            Self::IntentClassificationError
        }
    }

    /// The type of an error that stops a request before it is a task. `None` for one that the request is not to blame for,
    /// such as an outage.
    pub fn of_request(code: &str) -> Option<Self> {
        const OF_REQUESTS: [&str; 5] = ["request.", "user.", "id.", "history.", "attachment."];
        const REFUSED: [&str; 3] = [
            "store.conversation_not_found",
            "answer.not_allowed",
            "request.origin",
        ];
        if code == "auth.keys_unavailable" {
            return None;
        }
        if REFUSED.contains(&code) || code.starts_with("auth.") {
            return Some(Self::UnauthorizedError);
        }
        let is_of_request = OF_REQUESTS.iter().any(|part| code.starts_with(part));
        (is_of_request && code != "request.rate").then_some(Self::ValidationError)
    }
}

macro_rules! failure_codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The codes of failures that the engine, its nodes and the port of tools report. Clients (`mcp.*`, `llm.*`)
        /// and stores have lists of their own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FailureCode {
            $($(#[$doc])* $name,)*
        }

        impl FailureCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The code as it is written in journals and outputs. Never changes.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

failure_codes! {
    /// An agent of the journal is not in the app.
    AgentGone = "agent.gone",
    /// An agent's answer does not fit its schema.
    AgentOutputSchema = "agent.output_schema",
    /// An agent's model answered with nothing.
    AgentSaidNothing = "agent.said_nothing",
    /// An agent's time was over.
    AgentTimeout = "agent.timeout",
    /// The input of a child task cannot be written as JSON.
    AgentUnwritable = "agent.unwritable",
    /// A workflow's node stands in another.
    CallNested = "call.nested",
    /// A person decided against the call.
    CallRejected = "call.rejected",
    /// A person was asked about the call and did not answer in time.
    CallUnanswered = "call.unanswered",
    /// The call gave something else than it was made for.
    CallUnexpected = "call.unexpected",
    /// Reading the request broke down.
    DecideFailed = "decide.failed",
    /// None of several parts of a request could be done.
    DispatchAllFailed = "dispatch.all_failed",
    /// A template of a data domain gave nothing.
    DomainTemplate = "domain.template",
    /// The conversation before the task cannot be read.
    HistoryUnreadable = "history.unreadable",
    /// The input of a task is of no kind that this version knows.
    InputUnreadable = "input.unreadable",
    /// The list that a reference is looked up in cannot be read from the tool's result.
    ReferenceItems = "reference.items",
    /// The template of a reply gave no text.
    ReplyEmpty = "reply.empty",
    /// The items that a reply shows cannot be read from the tool's result.
    ReplyShows = "reply.shows",
    /// The template of a reply failed.
    ReplyTemplate = "reply.template",
    /// A router of the journal is not in the app.
    RouteGone = "route.gone",
    /// The router's model could not be asked.
    RouteUnasked = "route.unasked",
    /// Several servers have a tool of this name.
    ToolAmbiguous = "tool.ambiguous_tool",
    /// The arguments do not fit the tool's schema.
    ToolArguments = "tool.arguments",
    /// The arguments cannot be checked against the tool's schema within the limits. The call was not made.
    ToolArgumentsTooComplex = "tool.arguments_too_complex",
    /// The tool says that it failed.
    ToolFailed = "tool.failed",
    /// The task's time was over.
    TaskDeadline = "task.deadline",
    /// The tool's server could not be reached, so a later attempt may succeed.
    ToolNotReached = "tool.not_reached",
    /// A tool written in Rust panicked.
    ToolPanicked = "tool.panicked",
    /// The tool's result is larger than allowed. The call was made, and its result is lost.
    ToolResultTooLarge = "tool.result_too_large",
    /// The tool's schema exceeds the limits. The call was not made.
    ToolSchemaTooComplex = "tool.schema_too_complex",
    /// The tool did not answer in time.
    ToolTimeout = "tool.timeout",
    /// There is no such tool.
    ToolUnknown = "tool.unknown_tool",
    /// A tool's result cannot be written as JSON.
    ToolUnwritable = "tool.unwritable",
    /// A criterion of a check node cannot be evaluated.
    WorkflowCheck = "workflow.check",
    /// The condition of an edge cannot be evaluated.
    WorkflowCondition = "workflow.condition",
    /// A dispatch node has a target that the app has not.
    WorkflowDispatch = "workflow.dispatch",
    /// A workflow was started without one of its inputs.
    WorkflowInput = "workflow.input",
    /// The list of a `map` is none, or too long.
    WorkflowMap = "workflow.map",
    /// A workflow would make more calls than it may.
    WorkflowMaxIterations = "workflow.max_iterations",
    /// A workflow ended with nothing to say.
    WorkflowNoAnswer = "workflow.no_answer",
    /// A node of this type makes no call.
    WorkflowNode = "workflow.node",
    /// A workflow ended before any of its deliver nodes.
    WorkflowNotDelivered = "workflow.not_delivered",
    /// A template of a workflow gave nothing.
    WorkflowTemplate = "workflow.template",
}

impl FailureCode {
    /// The code and why, in a line, as operators read it.
    pub fn because(self, why: impl std::fmt::Display) -> String {
        format!("{self}: {why}")
    }
}

impl std::fmt::Display for FailureCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<FailureCode> for String {
    fn from(code: FailureCode) -> Self {
        code.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_code_is_written_once_and_names_its_part_first() {
        let codes: BTreeSet<_> = FailureCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), FailureCode::ALL.len());
        for code in codes {
            let (part, problem) = code.split_once('.').unwrap();
            let is_word = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(is_word(part) && is_word(problem), "{code}");
        }
    }

    #[test]
    fn a_cause_is_split_into_code_and_message() {
        let failure = Failure::no_effect(FailureCode::ToolNotReached, "no answer: none");
        let cause = failure.cause();
        assert_eq!(
            split_cause(&cause),
            Some(("tool.not_reached", "no answer: none"))
        );
        for without in [
            "the skill has no action",
            "Title: empty",
            "a.: b",
            "A.b: c",
            "tool: x",
        ] {
            assert_eq!(split_cause(without), None, "{without}");
        }
    }

    #[test]
    fn the_type_of_an_error_follows_from_its_code_and_from_how_far_the_request_came() {
        use ErrorType::{
            IntentClassificationError, ToolInvocationError, UnauthorizedError, ValidationError,
        };
        for (code, of_understood, of_other) in [
            (
                "tool.not_reached",
                ToolInvocationError,
                IntentClassificationError,
            ),
            (
                "llm.unavailable",
                ToolInvocationError,
                IntentClassificationError,
            ),
            ("not_found", ToolInvocationError, IntentClassificationError),
            ("tool.arguments", ValidationError, ValidationError),
            ("mcp.bad_arguments", ValidationError, ValidationError),
            ("request.message_empty", ValidationError, ValidationError),
            ("title_too_long", ValidationError, ValidationError),
            ("InvalidArgument", ValidationError, ValidationError),
            ("title_empty", ValidationError, ValidationError),
            ("PERMISSION-DENIED", UnauthorizedError, UnauthorizedError),
            ("call.rejected", UnauthorizedError, UnauthorizedError),
            ("", ToolInvocationError, IntentClassificationError),
        ] {
            assert_eq!(ErrorType::of(code, true), of_understood, "{code}");
            assert_eq!(ErrorType::of(code, false), of_other, "{code}");
        }
    }

    #[test]
    fn an_error_that_stops_a_request_has_a_type_if_the_request_is_to_blame() {
        use ErrorType::{UnauthorizedError, ValidationError};
        for (code, expected) in [
            ("request.message_empty", Some(ValidationError)),
            ("user.id_malformed", Some(ValidationError)),
            ("auth.token_missing", Some(UnauthorizedError)),
            ("request.origin", Some(UnauthorizedError)),
            ("answer.not_allowed", Some(UnauthorizedError)),
            ("auth.keys_unavailable", None),
            ("request.rate", None),
            ("engine.busy", None),
            ("store.unavailable", None),
        ] {
            assert_eq!(ErrorType::of_request(code), expected, "{code}");
        }
    }

    #[test]
    fn a_failure_is_written_as_it_always_was() {
        let failure = Failure::unknown(FailureCode::ToolTimeout, "no answer within 5s").transient();
        let written = json!({
            "code": "tool.timeout", "message": "no answer within 5s", "kind": "unknown", "transient": true,
        });
        assert_eq!(json!(failure), written);
        let older = json!({ "code": "x.y", "message": "m", "kind": "no_effect" });
        let read: Failure = serde_json::from_value(older).unwrap();
        assert_eq!(read, Failure::no_effect("x.y", "m"));
    }
}
