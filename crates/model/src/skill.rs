//! What an agent can do: how users ask for it, its slots, and the tool call and reply that need no
//! model.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::Name;
use crate::valid::{Report, Rules, Valid};

/// A validated skill.
pub type Skill = Valid<SkillFields>;

/// One skill of an agent (A2A's word); also called an intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Skill")]
pub struct SkillFields {
    /// Its name in decisions.
    pub name: Name,
    /// What it does, in a sentence.
    #[schemars(length(min = 1))]
    pub description: String,
    /// Words for grouping and finding skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Example requests. The classifier learns from these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Patterns such as `[please] remind me to {title}`, which match a request and extract slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sentences: Vec<String>,
    /// The slots of the patterns. Missing ones are asked for in this order.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub slots: IndexMap<Name, Slot>,
    /// What to do, without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
}

/// A piece of information in a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Slot {
    /// A closed set: each value with the words that mean it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Vec<String>>,
    /// The value if the request has none. Without `default` and `ask`, the slot may stay empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The question if the request has no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    /// Limit of a text, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
    /// Whether a follow-up ("dim it") takes the value from an earlier action. By default, only slots
    /// with `ask` do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried: Option<bool>,
    /// Where the item that the words refer to is looked up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refers_to: Option<Reference>,
}

/// How phrases such as "the second one", "it" or a part of a title find one of the user's items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The read-only tool that lists the candidates.
    pub tool: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// The result field that contains the list.
    pub items: String,
    /// The field that identifies an item.
    pub id: String,
    /// The field with the item's display name.
    pub label: String,
    /// What kind of thing the items are. Ids are compared only between items of the same kind. By default, every list of
    /// every tool is a kind of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Name>,
    /// Generic nouns for such an item: `task`, `to-do`. They refer to no particular one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nouns: Vec<String>,
    /// Template of the reply if nothing matches; `words` is what the user said.
    pub none: String,
    /// Template of the question if several match; `candidates` is the list.
    pub many: String,
}

/// What executes a skill: a tool call with its reply, or a workflow, which composes the answer itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The tool, as `tool` or `server.tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The workflow that runs in place of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Name>,
    /// The arguments of the tool, or the inputs of the workflow; strings are templates over the slots.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// Template of the confirmation question, over the slots. Only a plain yes continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    /// When a person must approve before it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalCondition>,
    /// Template of the reply, over the slots and the tool's `result`. A tool needs one; a workflow has its own answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    /// The items the reply lists, so that "the second one" or "it" can refer to them later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows: Option<ShownItems>,
    /// Template of the reply if the tool rejects, over the slots and `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// When a person must approve what a skill does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalCondition {
    /// Expression over the slots and the arguments, without braces. Everything but `false` asks, also an expression that
    /// cannot be evaluated.
    pub when: String,
}

/// What an action starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionTarget<'a> {
    /// A tool, as `tool` or `server.tool`.
    Tool(&'a str),
    /// A workflow.
    Workflow(&'a Name),
}

impl Action {
    /// What it starts. `None` if it names neither a tool nor a workflow, or both, which the rules refuse.
    pub fn target(&self) -> Option<ActionTarget<'_>> {
        match (&self.tool, &self.workflow) {
            (Some(tool), None) => Some(ActionTarget::Tool(tool)),
            (None, Some(workflow)) => Some(ActionTarget::Workflow(workflow)),
            _ => None,
        }
    }

    /// The kind of the items that it shows, where the app names none: those of one list of its tool or workflow.
    pub fn kind_of(&self, shows: &ShownItems) -> String {
        match self.target() {
            Some(ActionTarget::Tool(tool)) => shows.kind(tool),
            Some(ActionTarget::Workflow(workflow)) => shows.kind(workflow.as_str()),
            None => shows.kind(""),
        }
    }
}

/// The items that a reply lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownItems {
    /// The result field that contains the list; without it, the result itself is the item. Of a workflow, the result is its
    /// state, and the field is a path in it, such as `found.orders`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    /// The field that identifies an item.
    pub id: String,
    /// The field with the item's display name.
    pub label: String,
    /// What kind of thing the items are, as in `refers_to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Name>,
}

/// The kind of items of which the app says none: those of one list of one tool.
fn own_kind(tool: &str, items: &str) -> String {
    format!("{tool}/{items}")
}

impl Reference {
    /// The kind of its items.
    pub fn kind(&self) -> String {
        let kind = self.kind.as_ref().map(Name::to_string);
        kind.unwrap_or_else(|| own_kind(&self.tool, &self.items))
    }
}

impl ShownItems {
    /// The kind of the items, where this tool lists them.
    pub fn kind(&self, tool: &str) -> String {
        let kind = self.kind.as_ref().map(Name::to_string);
        kind.unwrap_or_else(|| own_kind(tool, self.items.as_deref().unwrap_or_default()))
    }
}

impl Rules for SkillFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.description.trim().is_empty(),
            "description",
            "skill.description_empty",
            "description is empty; say in a sentence what the skill does",
        );
        for (list, texts) in [("examples", &self.examples), ("sentences", &self.sentences)] {
            report.within(list, |report| {
                for (index, text) in texts.iter().enumerate() {
                    report.require(
                        !text.trim().is_empty(),
                        index,
                        "skill.text_empty",
                        "the text is empty; write what a user would say",
                    );
                }
            });
        }
        report.within("slots", |report| {
            for (name, slot) in &self.slots {
                report.within(name, |report| slot.rules(report));
            }
        });
        if let Some(action) = &self.action {
            report.within("action", |report| action.rules(report));
        }
    }
}

impl Rules for Action {
    fn rules(&self, report: &mut Report) {
        match self.target() {
            Some(ActionTarget::Tool(_)) => report.require(
                self.reply.is_some(),
                "tool",
                "action.reply_missing",
                "the action has no `reply`; write what the user reads once the tool has answered",
            ),
            Some(ActionTarget::Workflow(_)) => {
                for (key, given) in [("reply", &self.reply), ("failure", &self.failure)] {
                    report.require(
                        given.is_none(),
                        key,
                        "action.workflow_answers",
                        format_args!(
                            "a workflow composes its own answer; leave out `{key}`, and write it in the workflow"
                        ),
                    );
                }
            }
            None => report.field(
                if self.workflow.is_some() {
                    "workflow"
                } else {
                    "tool"
                },
                "action.target",
                "an action has either a `tool` or a `workflow`",
            ),
        }
        if let Some(approval) = &self.approval {
            report.within("approval", |report| {
                report.require(
                    !approval.when.trim().is_empty(),
                    "when",
                    "action.approval_empty",
                    "`when` is empty; write a condition, such as `amount > 100`",
                );
            });
        }
    }
}

impl Rules for Slot {
    fn rules(&self, report: &mut Report) {
        if let Some(default) = &self.default
            && !self.values.is_empty()
        {
            report.require(
                self.values.contains_key(default),
                "default",
                "slot.default_unknown",
                format_args!(
                    "`{default}` is not one of the slot's values; use one of {}",
                    self.values
                        .keys()
                        .map(|value| format!("`{value}`"))
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
            );
        }
        report.require(
            self.max_length != Some(0),
            "max_length",
            "slot.max_length_zero",
            "max_length must be at least 1",
        );
        report.require(
            self.values.is_empty() || self.refers_to.is_none(),
            "refers_to",
            "slot.values_and_reference",
            "a slot has either values or refers_to, not both",
        );
    }
}
