//! What can go wrong: a question that is refused, and a server that cannot run.

use convoke_serving::{CallProblem, Refuse};

/// The longest question, in characters.
pub const MAX_QUERY_LENGTH: usize = 2_000;

/// How many lines a question may ask for.
pub const MAX_LIMIT: i64 = 50;

/// A call that was turned down. People read the sentence, programs the code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is nothing in the question.
    #[error("The question is empty.")]
    QueryEmpty,
    /// The question is too long.
    #[error("The question must have at most {MAX_QUERY_LENGTH} characters.")]
    QueryTooLong,
    /// No certified query answers the question.
    #[error("{reason} You can ask, for example: {}", examples.join(" "))]
    NoCertifiedQuery {
        /// What is missing.
        reason: String,
        /// Up to three questions that the space answers.
        examples: Vec<&'static str>,
    },
    /// The question points at products that it does not name.
    #[error("Which products? Name them as the catalogue does, for example: {example}")]
    ProductsNeeded {
        /// A question of this kind that names them.
        example: &'static str,
    },
    /// The question names several of what a query takes one of.
    #[error("Ask for one {0} at a time.")]
    OneAtATime(&'static str),
    /// The question asks for a time that the data does not cover.
    #[error("The data covers {first} to {last}, and {asked} is not in it.")]
    Period {
        /// What was asked for.
        asked: String,
        /// The first day of the data.
        first: String,
        /// The last day of the data.
        last: String,
    },
    /// The question asks for no line, or for too many.
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
    /// The query was begun and could not be carried out.
    #[error("The query could not be carried out; ask again.")]
    QueryFailed,
    /// Too many queries are under way.
    #[error("Too many queries are under way; ask again in a moment.")]
    Busy,
    /// The arguments are wrong.
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

/// Why one call came to nothing.
pub(crate) type Failure = convoke_serving::Failure<Refusal>;

/// Why the server broke down.
#[derive(Debug, thiserror::Error)]
pub enum RetailError {
    /// The database or the connection failed.
    #[error(transparent)]
    Serving(#[from] convoke_serving::Failure<Refusal>),
    /// The certified queries contradict each other.
    #[error("the certified queries of {space} cannot be told apart: {problem}")]
    Space {
        /// The space.
        space: &'static str,
        /// What is wrong with its queries.
        problem: String,
    },
}
