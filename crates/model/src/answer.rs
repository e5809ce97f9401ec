//! What the user gets: the text, its sources and how complete it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::name::Name;
use crate::tool_call::{ToolCall, ToolCallStatus};
use crate::valid::{Report, Rules, Valid};

/// Limit of suggestions in one answer.
pub const MAX_SUGGESTIONS: usize = 3;

/// A validated answer.
pub type Answer = Valid<AnswerFields>;

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct AnswerFields {
    /// What the user reads.
    #[schemars(length(min = 1))]
    pub text: String,
    /// Sources of the data, such as `customer_behavior.genie`.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Tool calls made for it.
    #[serde(default)]
    pub tool_calls: Vec<ToolCall>,
    /// Follow-up questions offered to the user, at most 3.
    #[serde(default)]
    #[schemars(length(max = 3))]
    pub suggestions: Vec<String>,
    /// What the answer does not take into account, a sentence each: parts of the question that were not used, and
    /// contributions that are missing.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// How reliable the data behind it is.
    #[serde(default)]
    pub confidence: Reliance,
    /// Whether a contribution failed or came too late.
    #[serde(default, alias = "partial")]
    pub partial_results: bool,
    /// Milliseconds from the request to the answer.
    #[serde(default, alias = "total_ms")]
    pub total_execution_time_ms: u64,
    /// The intent, the routing decision, the agents' results and other data.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// How reliable an answer is.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Reliance {
    /// Much is missing or guessed.
    Low,
    /// Something is missing.
    Medium,
    /// Nothing is missing.
    #[default]
    High,
}

impl AnswerFields {
    /// A draft that contains only text.
    pub fn of(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            sources: Vec::new(),
            tool_calls: Vec::new(),
            suggestions: Vec::new(),
            confidence: Reliance::default(),
            warnings: Vec::new(),
            partial_results: false,
            total_execution_time_ms: 0,
            metadata: Map::new(),
        }
    }
}

/// Whether a source belongs to a domain: it equals the domain's name or starts with it and a dot.
fn stands_for(source: &str, domain: &Name) -> bool {
    source
        .split('.')
        .next()
        .is_some_and(|first| first == domain.as_str())
}

impl Rules for AnswerFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.text.trim().is_empty(),
            "text",
            "answer.text_empty",
            "text is empty; write the answer",
        );
        report.require(
            self.suggestions.len() <= MAX_SUGGESTIONS,
            "suggestions",
            "answer.suggestions_many",
            format_args!(
                "an answer has at most {MAX_SUGGESTIONS} suggestions, not {}",
                self.suggestions.len()
            ),
        );
        for call in &self.tool_calls {
            // Only a call to a data domain is a source to cite; other calls are actions.
            if let (ToolCallStatus::Completed, Some(domain)) = (call.status, &call.domain) {
                report.require(
                    self.sources.iter().any(|source| stands_for(source, domain)),
                    "sources",
                    "answer.source_missing",
                    format_args!(
                        "`{domain}` gave data for the answer; cite it as `{}`",
                        call.source()
                    ),
                );
            }
        }
    }
}
