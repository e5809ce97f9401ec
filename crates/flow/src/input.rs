//! What a task works on besides its first message: nothing more, if a user asked for it; what its parent hands it, if
//! it is a child.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use convoke_model::Message;

use crate::calls::{DecisionContext, is_default};
use crate::nodes::agent::Allowance;
use crate::nodes::agent::sub_agents::{Addressee, PatternOverride};

/// The input of a task. It is journaled with the submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum TaskInput {
    /// A user asks for something.
    User,
    /// Another task hands over a part of its work.
    Child(Box<ChildInput>),
}

/// What a child is given besides its message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChildInput {
    /// Who works on it.
    #[serde(flatten)]
    pub(crate) addressee: Addressee,
    /// What a workflow begins with.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) state: Map<String, Value>,
    /// How it thinks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) manner: PatternOverride,
    /// What it may spend.
    #[serde(default)]
    pub(crate) allowance: Option<Allowance>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) deciding: DecisionContext,
    /// What it may read of its parent's conversation. Nothing, if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// A part of a conversation: the messages before a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConversationExcerpt {
    pub(crate) conversation: Uuid,
    pub(crate) before: Uuid,
    /// Limit of messages; the newest are kept.
    pub(crate) messages: usize,
}

impl TaskInput {
    /// Reads a journaled input. One without a kind is of an older version, where a child's was told by its addressee
    /// and a user's was anything else.
    pub(crate) fn read(input: &Value) -> Result<Self, serde_json::Error> {
        if input.get("kind").is_some() {
            return Self::deserialize(input);
        }
        let child = ChildInput::deserialize(input);
        Ok(child.map_or(Self::User, |child| Self::Child(Box::new(child))))
    }
}

impl ConversationExcerpt {
    /// What a child of an older version may read, which its first message says.
    pub(crate) fn of_older_child(message: &Message) -> Option<Self> {
        Self::deserialize(message.metadata.get("earlier")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use convoke_model::{MessageFields, Name, Role};
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn excerpt() -> ConversationExcerpt {
        ConversationExcerpt {
            conversation: Uuid::from_u128(1),
            before: Uuid::from_u128(2),
            messages: 6,
        }
    }

    #[test]
    fn an_input_says_of_what_kind_it_is_and_is_read_as_it_was_written() {
        assert_eq!(json!(TaskInput::User), json!({ "kind": "user" }));
        let child = TaskInput::Child(Box::new(ChildInput {
            addressee: Addressee::Workflow(Name::new("review").unwrap()),
            state: Map::from_iter([("agent".to_owned(), json!("of the state"))]),
            manner: PatternOverride::default(),
            allowance: None,
            deciding: DecisionContext::default(),
            earlier: Some(excerpt()),
        }));
        let written = json!(child);
        assert_eq!(
            (&written["kind"], &written["workflow"]),
            (&json!("child"), &json!("review"))
        );
        for input in [TaskInput::User, child] {
            assert_eq!(TaskInput::read(&json!(input)).unwrap(), input);
        }
    }

    #[test]
    fn inputs_of_older_versions_are_read() {
        assert_eq!(TaskInput::read(&json!({})).unwrap(), TaskInput::User);
        assert_eq!(TaskInput::read(&Value::Null).unwrap(), TaskInput::User);
        // As version 0.1.0 journaled a part of a message.
        let stored = json!({
            "request": "lights", "allowance": null,
            "deciding": { "goal": { "agent": "lights", "skill": "switch_on" } },
        });
        let TaskInput::Child(child) = TaskInput::read(&stored).unwrap() else {
            panic!("it is a child's");
        };
        assert_eq!(
            child.addressee,
            Addressee::Request(Name::new("lights").unwrap())
        );
        assert!(child.deciding.goal.is_some() && child.earlier.is_none());
    }

    #[test]
    fn an_input_of_an_unknown_kind_is_no_users_request() {
        for broken in [json!({ "kind": "guest" }), json!({ "kind": "child" })] {
            assert!(TaskInput::read(&broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn what_a_child_of_an_older_version_may_read_stands_in_its_message() {
        let mut fields = MessageFields::draft(Role::User, "Dim them.", Timestamp::UNIX_EPOCH);
        let message = Message::new(fields.clone()).unwrap();
        assert_eq!(ConversationExcerpt::of_older_child(&message), None);
        fields.metadata.insert("earlier".into(), json!(excerpt()));
        let message = Message::new(fields).unwrap();
        let read = ConversationExcerpt::of_older_child(&message);
        assert_eq!(read, Some(excerpt()));
    }
}
