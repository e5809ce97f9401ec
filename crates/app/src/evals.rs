//! Eval cases: messages to the app and the expected results.

use std::collections::BTreeMap;

use convoke_model::{MAX_SUGGESTIONS, Name, Reliance, Report, Rules};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The intent of a clarifying question.
pub const INTENT_CLARIFY: &str = "clarification_needed";

/// The intent of a request that the app does not support.
pub const INTENT_UNKNOWN: &str = "unknown";

/// The intent of withdrawing a request, such as "never mind".
pub const INTENT_DISMISSED: &str = "dismissed";

/// The intent of a message with several requests.
pub const INTENT_SEVERAL: &str = "several";

/// The intent of a request that only the fallback agent could answer.
pub const INTENT_FALLBACK: &str = "fallback";

/// One file of eval cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvalFile {
    /// The cases. Each has its own conversation.
    pub cases: Vec<EvalCase>,
}

/// One message to the app and the expected result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvalCase {
    /// The name in reports; the message itself if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Earlier messages of the same conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The message.
    pub say: String,
    /// The expected result.
    pub expect: Expectation,
}

/// The expected result. Absent fields are not checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Expectation {
    /// The skill, or the agent, domain or workflow that answered, or `clarification_needed`,
    /// `dismissed`, `fallback`, `several` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Name>,
    /// The chosen agents, domains or skills, in any order and no others. An agent's name matches each of
    /// its skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<Name>>,
    /// Expected slot values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<Name, String>,
    /// The tool calls, in this order and no others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<ExpectedCall>>,
    /// Expectations of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<ExpectedReply>,
    /// Expectations of the question to a person, such as an approval, that the task waits with in place of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<ExpectedReply>,
    /// The sources of the answer, in any order and no others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    /// Whether the answer is incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
    /// The expected confidence of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Reliance>,
    /// The number of suggestions with the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<ExpectedNumber>,
}

/// An expected number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExpectedNumber {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// An expected tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedCall {
    /// The tool, as `tool` or `server.tool`.
    pub tool: String,
    /// Arguments that the call must contain, with these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
}

/// Expectations of a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExpectedReply {
    /// The whole reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// Texts that it must contain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
    /// A regular expression that must match a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// Texts that it must not contain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

impl EvalCase {
    /// The name in reports.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.say)
    }
}

impl ExpectedNumber {
    /// Whether the number is within the bounds.
    pub fn allows(&self, number: usize) -> bool {
        self.at_least.is_none_or(|least| number >= least)
            && self.at_most.is_none_or(|most| number <= most)
    }
}

impl Rules for EvalCase {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.say.trim().is_empty(),
            "say",
            "eval.say_empty",
            "say is empty; write what a person says",
        );
        report.require(
            self.expect != Expectation::default(),
            "expect",
            "eval.expects_nothing",
            "the case expects nothing and cannot fail; expect an intent, slots, calls or a reply",
        );
        if let Some(number) = &self.expect.suggestions {
            let can_be = (0..=MAX_SUGGESTIONS).any(|number_of| number.allows(number_of));
            report.within("expect", |report| {
                let message = format!(
                    "an answer has 0 to {MAX_SUGGESTIONS} suggestions, and at_least \
                     must not be above at_most"
                );
                report.require(can_be, "suggestions", "eval.suggestions_range", message);
            });
        }
        let expect = &self.expect;
        for (key, text) in [("reply", &expect.reply), ("question", &expect.question)] {
            let pattern = text.as_ref().and_then(|text| text.matches.as_deref());
            if let Some(Err(error)) = pattern.map(Regex::new) {
                report.within("expect", |report| {
                    report.within(key, |report| {
                        report.field(
                            "matches",
                            "eval.bad_regex",
                            format!("this is not a regular expression: {}", last_line(&error)),
                        );
                    });
                });
            }
        }
    }
}

/// The regex crate formats errors over several lines; the last one is the message.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines()
        .last()
        .unwrap_or_default()
        .trim()
        .trim_start_matches("error: ")
        .to_owned()
}
