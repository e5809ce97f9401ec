//! What an agent can do: how people ask for it, what it needs to know, and the tool call and reply
//! that carry it out without a model.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::Name;
use crate::valid::{Report, Rules, Valid};

/// A skill whose rules hold.
pub type Skill = Valid<SkillFields>;

/// One thing that an agent can do: an intent, in the words of a to-do list; a skill, in A2A's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Skill")]
pub struct SkillFields {
    /// What decisions call it.
    pub name: Name,
    /// What it does, in a sentence.
    #[schemars(length(min = 1))]
    pub description: String,
    /// Words to group and find skills by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How people ask for it. The classifier learns from these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Patterns such as `[please] remind me to {title}`, which decide and extract at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sentences: Vec<String>,
    /// What the patterns' slots mean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<Name, Slot>,
    /// What to do about it without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
}

/// A piece of information that a request carries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Slot {
    /// For a closed set: each value with the words that mean it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Vec<String>>,
    /// The value when the request names none. A slot with neither this nor `ask` may stay empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The question to ask when the request names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
    /// The longest text accepted, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
    /// Whether a message that points back ("dim it") takes it from what was done before. Unless this says otherwise, it
    /// does where there is an `ask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried: Option<bool>,
    /// Where the thing that the words point at is looked up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refers_to: Option<Reference>,
}

/// How words such as "the second one", "it" or a part of a title find an item of the user's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The read-only tool that lists the candidates.
    pub tool: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// The field of the tool's result that holds the list.
    pub items: String,
    /// The field of an item that identifies it.
    pub id: String,
    /// The field of an item that people call it by.
    pub label: String,
    /// What people call such an item: `task`, `to-do`. These words point at none in particular.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nouns: Vec<String>,
    /// Template of the reply when nothing matches; `words` is what the user said.
    pub none: String,
    /// Template of the question when several match; `candidates` is the list.
    pub many: String,
}

/// The tool call that carries a skill out, and what to say afterwards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The tool, as `tool` or `server.tool`.
    pub tool: String,
    /// Its arguments; strings are templates over the slots.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, Value>,
    /// Template of the question that is put before it is done, over the slots. Only a plain yes does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    /// Template of the reply, over the slots and the tool's `result`.
    pub reply: String,
    /// Which items the reply tells of, so that "the second one" or "it" can point at them later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows: Option<ShownItems>,
    /// Template of the reply when the tool refuses, over the slots and `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The items that a reply tells of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownItems {
    /// The field of the tool's result that holds the list; without it the result itself is the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    /// The field of an item that identifies it.
    pub id: String,
    /// The field of an item that people call it by.
    pub label: String,
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
                        "an empty text teaches nothing; write what a person would say",
                    );
                }
            });
        }
        report.within("slots", |report| {
            for (name, slot) in &self.slots {
                report.within(name, |report| slot.rules(report));
            }
        });
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
                    "`{default}` is none of the slot's values; use one of {}",
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
            "a slot either has values or refers to something, not both",
        );
    }
}
