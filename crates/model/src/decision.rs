//! How a request is understood: the agents, domains or skills it goes to, and how certain that is.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::confidence::Confidence;
use crate::name::Name;
use crate::valid::{Report, Rules, Valid};

/// Limit of targets for one request.
pub const MAX_TARGETS: usize = 5;

/// A validated decision.
pub type Decision = Valid<DecisionFields>;

/// One decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Decision")]
pub struct DecisionFields {
    /// The user's message.
    #[schemars(length(min = 1))]
    pub asked: String,
    /// The targets; the first one is the primary.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// Why.
    #[serde(default)]
    pub reasoning: String,
    /// Whether the request could also mean something else.
    #[serde(default)]
    pub ambiguous: bool,
    /// A question to ask the user before anything is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarifying_question: Option<String>,
    /// Who decided.
    pub decided_by: DecidedBy,
    /// Targets that were named and not used: not in the catalogue, repeated, or beyond the limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
}

/// An agent, a domain or a skill that a request goes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Its name.
    pub name: Name,
    /// What it is.
    #[serde(default)]
    pub kind: TargetKind,
    /// The agent the skill belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The part of the request for this target, if not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// How certain this target is.
    pub confidence: Confidence,
    /// Slot values found in the request.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
}

/// The kinds of targets.
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
pub enum TargetKind {
    /// A skill of an agent, also called an intent.
    #[default]
    Skill,
    /// An agent, which reasons with its model.
    Agent,
    /// A data domain.
    Domain,
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// Patterns and the classifier.
    Local,
    /// A language model.
    Model,
    /// None could, so the fallback agent is used.
    Fallback,
}

impl DecisionFields {
    /// A draft that is unambiguous, with nothing dropped.
    pub fn of(
        asked: impl Into<String>,
        targets: impl IntoIterator<Item = Target>,
        reasoning: impl Into<String>,
        decided_by: DecidedBy,
    ) -> Self {
        Self {
            asked: asked.into(),
            targets: targets.into_iter().collect(),
            reasoning: reasoning.into(),
            ambiguous: false,
            clarifying_question: None,
            decided_by,
            dropped: Vec::new(),
        }
    }

    /// The first target.
    pub fn primary(&self) -> Option<&Target> {
        self.targets.first()
    }

    /// The confidence of the primary target; 0 without one.
    pub fn confidence(&self) -> Confidence {
        self.primary()
            .map_or(Confidence::NONE, |target| target.confidence)
    }

    /// Whether the user is asked a question first.
    pub fn clarifies(&self) -> bool {
        self.clarifying_question.is_some()
    }
}

impl Rules for DecisionFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.asked.trim().is_empty(),
            "asked",
            "decision.asked_empty",
            "asked is empty; write the user's message",
        );
        report.require(
            !self.targets.is_empty() || self.clarifies(),
            "targets",
            "decision.targets_empty",
            "a decision has at least one target, or a clarifying question",
        );
        report.require(
            self.clarifying_question
                .as_ref()
                .is_none_or(|question| !question.trim().is_empty()),
            "clarifying_question",
            "decision.question_empty",
            "clarifying_question is empty; write the question or leave it out",
        );
        report.require(
            !self.ambiguous || !self.reasoning.trim().is_empty(),
            "reasoning",
            "decision.reasoning_missing",
            "an ambiguous decision says in its reasoning what else could be meant",
        );
        let mut names = BTreeSet::new();
        report.within("targets", |report| {
            for (index, target) in self.targets.iter().enumerate() {
                report.require(
                    names.insert((target.kind, &target.agent, &target.name)),
                    index,
                    "decision.target_twice",
                    format_args!("`{}` is chosen twice; choose each target once", target.name),
                );
            }
        });
    }
}
