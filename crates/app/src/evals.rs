//! Eval cases: what is said to the app, and what must come out.

use std::collections::BTreeMap;

use convoke_model::{MAX_SUGGESTIONS, Name, Reliance, Report, Rules};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The intent that stands for a question back.
pub const INTENT_CLARIFY: &str = "clarification_needed";

/// The intent that stands for a request that the app cannot help with.
pub const INTENT_UNKNOWN: &str = "unknown";

/// The intent that stands for taking back what was asked for, such as "never mind".
pub const INTENT_DISMISSED: &str = "dismissed";

/// The intent of a message that asks for several things.
pub const INTENT_SEVERAL: &str = "several";

/// The intent of a request that nobody of the app took, and that whoever is left for such answered.
pub const INTENT_FALLBACK: &str = "fallback";

/// One file of eval cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvalFile {
    /// The cases, each with a conversation of its own.
    pub cases: Vec<EvalCase>,
}

/// One thing said to the app, and what must come out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvalCase {
    /// What the case is called in reports. Without one it is called by what is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What was said earlier in the same conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// What is said.
    pub say: String,
    /// What must come out.
    pub expect: Expectation,
}

/// What must come out. What is left out is not looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Expectation {
    /// A skill's name, that of the agent, domain or workflow that answered, `clarification_needed`, `dismissed`, `fallback`, `several` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Name>,
    /// The agents, domains or skills that must be chosen, in any order: all of these and no others. An
    /// agent's name stands for each of its skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<Name>>,
    /// What each slot must hold.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<Name, String>,
    /// The tool calls that must be made, in this order and no others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<ExpectedCall>>,
    /// What the reply must be like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<ExpectedReply>,
    /// What the answer must rest on, in any order: all of these and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
    /// Whether something must be missing from the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
    /// How far the answer must be reliable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Reliance>,
    /// How many suggestions must come with the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<ExpectedNumber>,
}

/// How many there must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExpectedNumber {
    /// No fewer than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// No more than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// A tool call that must be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedCall {
    /// The tool, as `tool` or `server.tool`.
    pub tool: String,
    /// Arguments that must be among the call's, with these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
}

/// What a reply must be like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExpectedReply {
    /// The whole reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// Texts that must stand in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contains: Vec<String>,
    /// A regular expression that must be found in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// Texts that must not stand in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

impl EvalCase {
    /// What the case is called in reports.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.say)
    }
}

impl ExpectedNumber {
    /// Whether so many are as many as there must be.
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
            "the case expects nothing and so cannot fail; expect an intent, slots, calls or a reply",
        );
        if let Some(number) = &self.expect.suggestions {
            let can_be = (0..=MAX_SUGGESTIONS).any(|number_of| number.allows(number_of));
            report.within("expect", |report| {
                let message = format!(
                    "no answer has so many suggestions; there are 0 to {MAX_SUGGESTIONS}, and at_least \
                     must not be above at_most"
                );
                report.require(can_be, "suggestions", "eval.suggestions_range", message);
            });
        }
        let pattern = self
            .expect
            .reply
            .as_ref()
            .and_then(|reply| reply.matches.as_deref());
        if let Some(Err(error)) = pattern.map(Regex::new) {
            report.within("expect", |report| {
                report.within("reply", |report| {
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

/// The regex crate draws a picture of the error over several lines; the last one says it in words.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines()
        .last()
        .unwrap_or_default()
        .trim()
        .trim_start_matches("error: ")
        .to_owned()
}
