//! What an assistant's message leaves behind for the next turn: the items that it told of and the
//! question that it asked. It travels with the message, in its metadata.

use convoke_model::{Message, Name, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The key under which it stands in a message's metadata.
const KEY: &str = "memory";

/// Items remembered from one message at most. Nobody counts further than that.
const MAX_SHOWN: usize = 50;

/// What one turn leaves behind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    /// Items that the message told of, in the order told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) shown: Vec<Item>,
    /// What the message asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asks: Option<Asks>,
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

/// A question that waits for the user's next message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub(crate) enum Asks {
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
    /// Several skills may be meant.
    Skill {
        candidates: Vec<SkillRef>,
        said: String,
    },
}

impl Memory {
    /// What the last assistant's message left behind. Items stay in mind over turns that told of
    /// none; a question is forgotten with the next message.
    pub(crate) fn of(history: &[Message]) -> Self {
        let mut memories = history
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
        let mut newest = memories.next().unwrap_or_default();
        if newest.shown.is_empty() {
            newest.shown = memories
                .map(|memory| memory.shown)
                .find(|shown| !shown.is_empty())
                .unwrap_or_default();
        }
        newest
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
