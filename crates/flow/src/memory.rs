//! What an assistant's message leaves behind for the next turn: the items that it told of, the question that it asked,
//! and what it was about. It travels with the message, in its metadata.

use std::collections::BTreeMap;

use convoke_model::{Confidence, Message, Name, Role, Target, TargetKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The key under which it stands in a message's metadata.
const KEY: &str = "memory";

/// Items remembered from one message at most. Nobody counts further than that.
const MAX_SHOWN: usize = 50;

/// Turns for which it is known what "it" is. Nobody points further back.
const TOPIC_TURNS: usize = 5;

/// What one turn leaves behind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    /// Items that the message told of, in the order told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) shown: Vec<Item>,
    /// What the message asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asks: Option<PendingQuestion>,
    /// The reply of the performer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<Topic>,
    /// The domains that were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) asked: Vec<Name>,
    /// The conversation that each of them goes on with.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) conversations: BTreeMap<Name, String>,
}

/// What a turn was about, for "dim it a bit" after the lights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Topic {
    pub(crate) agent: Name,
    /// What was known of it, in words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) slots: BTreeMap<String, String>,
}

impl Topic {
    /// What a skill was done with.
    pub(crate) fn of(agent: Name, slots: &Map<String, Value>) -> Self {
        let words =
            |(slot, value): (&String, &Value)| Some((slot.clone(), value.as_str()?.to_owned()));
        Self {
            agent,
            slots: slots.iter().filter_map(words).collect(),
        }
    }
}

/// Something of the user's that can be pointed at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) label: String,
}

/// A skill of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SkillRef {
    pub(crate) agent: Name,
    pub(crate) skill: Name,
}

/// Where a request may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum RequestTarget {
    /// A skill of an agent.
    Skill(SkillRef),
    /// A data domain.
    Domain { domain: Name },
    /// An agent, which thinks about it.
    Agent { agent: Name },
}

impl RequestTarget {
    /// Its own name.
    pub(crate) fn name(&self) -> &Name {
        match self {
            Self::Skill(target) => &target.skill,
            Self::Domain { domain } => domain,
            Self::Agent { agent } => agent,
        }
    }

    /// The agent that does it, if one does.
    pub(crate) fn agent(&self) -> Option<&Name> {
        match self {
            Self::Skill(SkillRef { agent, .. }) | Self::Agent { agent } => Some(agent),
            Self::Domain { .. } => None,
        }
    }

    /// It as a decision tells of it.
    pub(crate) fn target(&self, confidence: f64) -> Target {
        let (kind, agent) = match self {
            Self::Skill(target) => (TargetKind::Skill, Some(target.agent.clone())),
            Self::Domain { .. } => (TargetKind::Domain, None),
            Self::Agent { .. } => (TargetKind::Agent, None),
        };
        Target {
            name: self.name().clone(),
            kind,
            agent,
            request: None,
            confidence: Confidence::saturating(confidence),
            parameters: Map::new(),
        }
    }
}

/// A question that waits for the user's next message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub(crate) enum PendingQuestion {
    /// A slot has no value, or points at several things.
    Slot {
        target: SkillRef,
        slot: Name,
        /// What is known already.
        slots: Map<String, Value>,
        /// What it may point at.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        candidates: Vec<Item>,
    },
    /// Whether to do what was asked for.
    Confirm {
        target: SkillRef,
        /// What is known.
        slots: Map<String, Value>,
    },
    /// Several things may be meant.
    Skill {
        candidates: Vec<RequestTarget>,
        said: String,
    },
}

impl Memory {
    /// Of items that were told of, and nothing else.
    pub(crate) fn showing(shown: Vec<Item>) -> Self {
        Self {
            shown,
            ..Self::default()
        }
    }

    /// What the last assistant's message left behind. Items stay in mind over turns that told of none, and so does what
    /// was done, for a few; a domain's conversation goes on whenever it is asked again; a question is forgotten with the
    /// next message.
    pub(crate) fn of(history: &[Message]) -> Self {
        let memories = history
            .iter()
            .rev()
            .filter(|message| message.role == Role::Assistant)
            .map(|message| {
                message
                    .metadata
                    .get(KEY)
                    .and_then(|memory| Self::deserialize(memory).ok())
                    .unwrap_or_default()
            });
        let mut known: Option<Self> = None;
        for (turn, earlier) in memories.enumerate() {
            let Some(newer) = &mut known else {
                known = Some(earlier);
                continue;
            };
            if newer.shown.is_empty() {
                newer.shown = earlier.shown;
            }
            if turn < TOPIC_TURNS && newer.topic.is_none() && newer.asked.is_empty() {
                newer.topic = earlier.topic;
                newer.asked = earlier.asked;
            }
            for (domain, conversation) in earlier.conversations {
                newer.conversations.entry(domain).or_insert(conversation);
            }
        }
        known.unwrap_or_default()
    }

    /// Puts it into a message's metadata.
    pub(crate) fn leave(mut self, metadata: &mut Map<String, Value>) {
        if self == Self::default() {
            return;
        }
        self.shown.truncate(MAX_SHOWN);
        if let Ok(memory) = serde_json::to_value(self) {
            metadata.insert(KEY.into(), memory);
        }
    }
}

impl Item {
    /// Reads an item out of a tool's result.
    pub(crate) fn read(value: &Value, id: &str, label: &str) -> Option<Self> {
        let text = |field: &str| match value.get(field)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Some(Self {
            id: text(id)?,
            label: text(label)?,
        })
    }
}
