//! What a request is taken to mean: which agents, domains or skills it goes to, and how sure that is.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::catalogue::Catalogue;
use crate::confidence::Confidence;
use crate::name::Name;
use crate::valid::{Invalid, Report, Rules, Valid};

/// The most targets that one request is handed to.
pub const MAX_TARGETS: usize = 5;

/// A decision whose rules hold.
pub type Decision = Valid<DecisionFields>;

/// One decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Decision")]
pub struct DecisionFields {
    /// What was asked, in the user's words.
    #[schemars(length(min = 1))]
    pub asked: String,
    /// Where it goes. The first is the primary one.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// Why.
    #[serde(default)]
    pub reasoning: String,
    /// Whether the request could as well mean something else.
    #[serde(default)]
    pub ambiguous: bool,
    /// What to ask back before anything is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarifying_question: Option<String>,
    /// Who decided.
    pub decided_by: DecidedBy,
    /// What was named besides and not chosen: a model wrote what is not in the catalogue, or the same twice; or it was more
    /// than one request may go to.
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
    /// The agent whose skill it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The part of the request that is for it, where it is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// How sure it is that the request is meant for it.
    pub confidence: Confidence,
    /// What the request says that it needs to know.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
}

/// What a request can go to.
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
    /// A skill of an agent: an intent.
    #[default]
    Skill,
    /// An agent, which thinks about it.
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
    /// Nobody could, so the fallback stands.
    Fallback,
}

impl DecisionFields {
    /// A draft that is clear and left nothing out.
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

    /// Where the request goes first.
    pub fn primary(&self) -> Option<&Target> {
        self.targets.first()
    }

    /// How sure the decision is: as sure as its primary target.
    pub fn confidence(&self) -> Confidence {
        self.primary()
            .map_or(Confidence::NONE, |target| target.confidence)
    }

    /// Whether the user is asked back first.
    pub fn clarifies(&self) -> bool {
        self.clarifying_question.is_some()
    }
}

impl Valid<DecisionFields> {
    /// Whether every target exists.
    pub fn check_against(&self, catalogue: &Catalogue) -> Result<(), Invalid> {
        let mut report = Report::default();
        report.within("targets", |report| {
            for (index, target) in self.targets.iter().enumerate() {
                report.require(
                    catalogue.has_target(&target.name),
                    index,
                    "decision.target_unknown",
                    format_args!("there is no agent, domain or skill `{}`", target.name),
                );
            }
        });
        report.finish()
    }
}

impl Rules for DecisionFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.asked.trim().is_empty(),
            "asked",
            "decision.asked_empty",
            "asked is empty; a decision is about something that was asked",
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
