//! Errors: a refused question, or a failure of the server.

use convoke_serving::{CallProblem, Refuse};

/// Limit of a question, in characters.
pub const MAX_QUERY_LENGTH: usize = 2_000;

/// Limit of rows that a question may ask for.
pub const MAX_LIMIT: i64 = 50;

/// A refused call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The question is empty.
    #[error("The question is empty.")]
    QueryEmpty,
    /// The question is too long.
    #[error("The question must have at most {MAX_QUERY_LENGTH} characters.")]
    QueryTooLong,
    /// No certified query answers the question.
    #[error("{reason} You can ask, for example: {}", examples.join(" "))]
    NoCertifiedQuery {
        /// Why none does.
        reason: String,
        /// Up to three questions that the space answers.
        examples: Vec<&'static str>,
    },
    /// The question refers to products without naming them.
    #[error("Which products? Name them as the catalogue does, for example: {example}")]
    ProductsNeeded {
        /// An example that names them.
        example: &'static str,
    },
    /// The question names several values where the query takes one.
    #[error("Ask for one {0} at a time.")]
    OneAtATime(&'static str),
    /// The question is about a period that the data does not cover.
    #[error("The data covers {first} to {last}, and {asked} is not in it.")]
    Period {
        /// The requested period.
        asked: String,
        /// The first day of the data.
        first: String,
        /// The last day of the data.
        last: String,
    },
    /// The requested number of rows is 0 or too large.
    #[error("Ask for 1 to {MAX_LIMIT} lines.")]
    Limit,
    /// There is no such conversation.
    #[error("There is no conversation with this id; leave it out to begin one.")]
    ConversationNotFound,
    /// The conversation belongs to another space.
    #[error("This conversation belongs to the space {0}.")]
    ConversationOfOtherSpace(String),
    /// There is no such message in the conversation.
    #[error("There is no message with this id in this conversation.")]
    MessageNotFound,
    /// The query failed.
    #[error("The query could not be carried out; ask again.")]
    QueryFailed,
    /// Too many queries are running.
    #[error("Too many queries are under way; ask again in a moment.")]
    Busy,
    /// The arguments are invalid.
    #[error(transparent)]
    Call(#[from] CallProblem),
}

impl Refuse for Refusal {
    const SERVER: &'static str = "retail";

    fn code(&self) -> &'static str {
        match self {
            Self::QueryEmpty => "retail.query_empty",
            Self::QueryTooLong => "retail.query_too_long",
            Self::NoCertifiedQuery { .. } => "retail.no_certified_query",
            Self::ProductsNeeded { .. } => "retail.products_needed",
            Self::OneAtATime(_) => "retail.one_at_a_time",
            Self::Period { .. } => "retail.period",
            Self::Limit => "retail.limit",
            Self::ConversationNotFound => "retail.conversation_not_found",
            Self::ConversationOfOtherSpace(_) => "retail.conversation_of_other_space",
            Self::MessageNotFound => "retail.message_not_found",
            Self::QueryFailed => "retail.query_failed",
            Self::Busy => "retail.busy",
            Self::Call(CallProblem::Arguments(_)) => "retail.arguments",
            Self::Call(CallProblem::Key) => "retail.idempotency_key",
            Self::Call(CallProblem::KeyReused) => "retail.idempotency_key_reused",
        }
    }
}

/// Why a call failed.
pub(crate) type Failure = convoke_serving::Failure<Refusal>;

/// Why the server failed.
#[derive(Debug, thiserror::Error)]
pub enum RetailError {
    /// The database or the connection failed.
    #[error(transparent)]
    Serving(#[from] convoke_serving::Failure<Refusal>),
    /// The certified queries are inconsistent.
    #[error("the certified queries of {space} cannot be told apart: {problem}")]
    Space {
        /// The space.
        space: &'static str,
        /// The problem with its queries.
        problem: String,
    },
}
