//! What the user gets: the text, what it rests on, and how complete it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::name::Name;
use crate::tool_call::{ToolCall, ToolCallStatus};
use crate::valid::{Report, Rules, Valid};

/// The most suggestions that an answer carries.
pub const MAX_SUGGESTIONS: usize = 3;

/// An answer whose rules hold.
pub type Answer = Valid<AnswerFields>;

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct AnswerFields {
    /// What the user reads.
    #[schemars(length(min = 1))]
    pub text: String,
    /// What it rests on, such as `customer_behavior.genie`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// The tool calls made for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// What the user may want to ask next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub suggestions: Vec<String>,
    /// How far the data behind it can be relied on.
    #[serde(default)]
    pub confidence: Reliance,
    /// Whether something that should have gone into it failed or came too late.
    #[serde(default)]
    pub partial: bool,
    /// Milliseconds from the request to the answer.
    #[serde(default)]
    pub total_ms: u64,
    /// The intent, warnings, and anything else worth keeping with it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// How far an answer can be relied on.
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
    /// All that was asked for is there.
    #[default]
    High,
}

impl AnswerFields {
    /// A draft that is nothing but text.
    pub fn of(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            sources: Vec::new(),
            tool_calls: Vec::new(),
            suggestions: Vec::new(),
            confidence: Reliance::default(),
            partial: false,
            total_ms: 0,
            metadata: Map::new(),
        }
    }
}

/// Whether a source stands for a domain: it is the domain's name, or starts with it and a dot.
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
            "text is empty; an answer says something",
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
            // A call that asks no data domain does something; it is no source to cite.
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
