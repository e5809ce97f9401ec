//! Memory for the next turn: the items that an assistant's message listed, the question that it asked, and its topic.
//! Stored in the message's metadata.

use std::collections::BTreeMap;

use convoke_model::{Confidence, Message, Name, Role, Target, TargetKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calls::is_default;

/// Metadata key of the memory.
const KEY: &str = "memory";

/// Limit of items remembered from one message.
const MAX_SHOWN: usize = 50;

/// Limit of things that are remembered of a conversation, to tell of what kind a thing is.
const MAX_MENTIONED: usize = 200;

/// Number of turns for which a topic is remembered.
const TOPIC_TURNS: usize = 5;

/// The memory of one message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    /// Items that the message listed, in that order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) shown: Vec<Item>,
    /// Whether the message listed them, so that "the second one" counts over them, even if it is one item.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) list: bool,
    /// Whether the message listed items that could not be read. What was shown before is then out of date.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) unread: bool,
    /// The list that the user saw last, of this message or an earlier one.
    #[serde(skip)]
    pub(crate) listed: Vec<Item>,
    /// What the conversation has shown, the latest first, each thing once.
    #[serde(skip)]
    pub(crate) mentioned: Vec<Item>,
    /// The question that the message asked.
    #[serde(rename = "asks", skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<PendingQuestion>,
    /// The agent and slots that the message was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<Topic>,
    /// The domains that were queried.
    #[serde(rename = "asked", skip_serializing_if = "Vec::is_empty")]
    pub(crate) domains: Vec<Name>,
    /// The conversation id at each domain.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) conversations: BTreeMap<Name, String>,
    /// The questions that were suggested last in the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggested: Vec<String>,
}

/// The subject of a turn. It resolves references such as "dim it a bit".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Topic {
    pub(crate) agent: Name,
    /// Slot values that are texts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) slots: BTreeMap<String, String>,
}

impl Topic {
    /// The topic of a skill that ran with these slots.
    pub(crate) fn of(agent: Name, slots: &Map<String, Value>) -> Self {
        let words =
            |(slot, value): (&String, &Value)| Some((slot.clone(), value.as_str()?.to_owned()));
        Self {
            agent,
            slots: slots.iter().filter_map(words).collect(),
        }
    }
}

/// An item that the user can refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item {
    /// What kind of thing it is. Ids count only within a kind. Empty for items that have only a label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) label: String,
}

/// A skill of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SkillRef {
    pub(crate) agent: Name,
    pub(crate) skill: Name,
}

/// The target of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum RequestTarget {
    /// A skill of an agent.
    Skill(SkillRef),
    /// A data domain.
    Domain { domain: Name },
    /// An agent.
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

    /// The agent, unless it is a domain.
    pub(crate) fn agent(&self) -> Option<&Name> {
        match self {
            Self::Skill(SkillRef { agent, .. }) | Self::Agent { agent } => Some(agent),
            Self::Domain { .. } => None,
        }
    }

    /// The target in a decision record.
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

/// A target that a request may be for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PossibleTarget {
    #[serde(flatten)]
    pub(crate) target: RequestTarget,
    /// How certain it is, as whoever decided gave it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) confidence: f64,
}

impl PossibleTarget {
    /// The targets without their confidence.
    pub(crate) fn targets(possible: &[Self]) -> Vec<RequestTarget> {
        let targets = possible.iter().map(|possible| possible.target.clone());
        targets.collect()
    }
}

/// A question that the user's next message may answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub(crate) enum PendingQuestion {
    /// A slot has no value, or refers to several items.
    Slot {
        target: SkillRef,
        slot: Name,
        /// Slot values that are known.
        slots: Map<String, Value>,
        /// Items that it may refer to.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        candidates: Vec<Item>,
    },
    /// Whether to run the action.
    Confirm {
        target: SkillRef,
        /// The slot values.
        slots: Map<String, Value>,
    },
    /// Several things may be meant.
    Skill {
        candidates: Vec<RequestTarget>,
        #[serde(rename = "said")]
        request: String,
    },
}

impl Memory {
    /// A memory with these items only.
    pub(crate) fn showing(shown: Vec<Item>) -> Self {
        Self {
            shown,
            ..Self::default()
        }
    }

    /// Combines the memories in a history. Items are kept until a later message lists others, a topic for
    /// [`TOPIC_TURNS`] turns, conversations with domains forever. A question is only taken from the last message.
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
        let mut mentioned: Vec<Item> = Vec::new();
        // Whether a message listed something, even nothing: "the second one" counts in no list before it.
        let mut is_listed = false;
        for (turn, earlier) in memories.enumerate() {
            for item in &earlier.shown {
                let is_known = |known: &Item| known.kind == item.kind && known.id == item.id;
                if mentioned.len() < MAX_MENTIONED && !mentioned.iter().any(is_known) {
                    mentioned.push(item.clone());
                }
            }
            let (is_list, unread) = (earlier.is_list(), earlier.unread);
            let listed = if is_list {
                earlier.shown.clone()
            } else {
                Vec::new()
            };
            let Some(newer) = &mut known else {
                is_listed = is_list || unread;
                known = Some(Self { listed, ..earlier });
                continue;
            };
            if newer.shown.is_empty() && !is_listed {
                newer.shown = earlier.shown;
            }
            if !is_listed {
                newer.listed = listed;
            }
            is_listed |= is_list || unread;
            newer.unread |= unread;
            if turn < TOPIC_TURNS && newer.topic.is_none() && newer.domains.is_empty() {
                newer.topic = earlier.topic;
                newer.domains = earlier.domains;
            }
            if newer.suggested.is_empty() {
                newer.suggested = earlier.suggested;
            }
            for (domain, conversation) in earlier.conversations {
                newer.conversations.entry(domain).or_insert(conversation);
            }
        }
        Self {
            mentioned,
            ..known.unwrap_or_default()
        }
    }

    /// Adds the memory of a later part of the same message. The last open question is the one that the next message
    /// answers, and the last topic is the one that it refers to.
    pub(crate) fn add(&mut self, later: Self) {
        self.question = later.question.or(self.question.take());
        self.topic = later.topic.or(self.topic.take());
        if later.list || !later.shown.is_empty() {
            self.shown = later.shown;
            self.list = later.list;
        }
        self.unread |= later.unread;
        self.suggested.extend(later.suggested);
        self.domains.extend(later.domains);
        self.conversations.extend(later.conversations);
    }

    /// A memory of the candidates of a question. A question without candidates lists nothing.
    pub(crate) fn listing(shown: Vec<Item>) -> Self {
        Self {
            list: !shown.is_empty(),
            ..Self::showing(shown)
        }
    }

    /// What remains of it if the user did not read the message: the topic. Items that were shown before are out of date if
    /// it was about items.
    pub(crate) fn unsaid(&self) -> Self {
        Self {
            unread: self.list || self.unread || !self.shown.is_empty(),
            topic: self.topic.clone(),
            domains: self.domains.clone(),
            conversations: self.conversations.clone(),
            ..Self::default()
        }
    }

    /// Whether the message listed its items. Several items are a list.
    fn is_list(&self) -> bool {
        self.list || self.shown.len() > 1
    }

    /// Writes the memory to a message's metadata.
    pub(crate) fn write_to(mut self, metadata: &mut Map<String, Value>) {
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
    /// Reads an item out of a tool's result, or returns the reason.
    pub(crate) fn read(
        value: &Value,
        kind: String,
        (id, label): (&str, &str),
    ) -> Result<Self, String> {
        let text = |field: &str| match value.get(field) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            _ => Err(format!("an item has no text or number `{field}`")),
        };
        Ok(Self {
            kind,
            id: text(id)?,
            label: text(label)?,
        })
    }

    /// The list in a field of a tool's result, or the reason why there is none.
    pub(crate) fn list_in<'v>(content: &'v Value, field: &str) -> Result<&'v [Value], String> {
        let list = content.get(field).and_then(Value::as_array);
        let list = list.ok_or_else(|| format!("the result has no list `{field}`"))?;
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn item(id: &str) -> Item {
        Item {
            kind: "order".to_owned(),
            id: id.to_owned(),
            label: format!("order {id}"),
        }
    }

    fn list(ids: &[&str]) -> Memory {
        Memory {
            list: true,
            ..Memory::showing(ids.iter().map(|id| item(id)).collect())
        }
    }

    /// The memory after messages that have these, oldest first.
    fn after(memories: Vec<Memory>) -> Memory {
        let messages = memories.into_iter().map(|memory| {
            let mut fields =
                convoke_model::MessageFields::draft(Role::Assistant, "said", Timestamp::UNIX_EPOCH);
            memory.write_to(&mut fields.metadata);
            Message::new(fields).unwrap()
        });
        Memory::of(&messages.collect::<Vec<_>>())
    }

    #[test]
    fn the_last_list_counts_even_if_it_is_empty() {
        let one = Memory::showing(vec![item("9")]);
        let unread = Memory {
            unread: true,
            ..Memory::default()
        };
        for (memories, shown, listed) in [
            (vec![list(&["1", "2"])], vec!["1", "2"], vec!["1", "2"]),
            (
                vec![list(&["1", "2"]), Memory::default()],
                vec!["1", "2"],
                vec!["1", "2"],
            ),
            (
                vec![list(&["1", "2"]), one.clone()],
                vec!["9"],
                vec!["1", "2"],
            ),
            (vec![list(&["1", "2"]), list(&["3"])], vec!["3"], vec!["3"]),
            (vec![list(&["1", "2"]), list(&[])], vec![], vec![]),
            (
                vec![list(&["1", "2"]), list(&[]), Memory::default()],
                vec![],
                vec![],
            ),
            (vec![list(&["1", "2"]), list(&[]), one], vec!["9"], vec![]),
            (vec![list(&["1", "2"]), unread], vec![], vec![]),
            (
                vec![list(&["1", "2"]), Memory::listing(Vec::new())],
                vec!["1", "2"],
                vec!["1", "2"],
            ),
        ] {
            let told = format!("{memories:?}");
            let memory = after(memories);
            let ids = |items: &[Item]| items.iter().map(|item| item.id.clone()).collect::<Vec<_>>();
            assert_eq!(ids(&memory.shown), shown, "{told}");
            assert_eq!(ids(&memory.listed), listed, "{told}");
        }
    }
}
