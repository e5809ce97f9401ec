//! The input of a task besides its first message: none for a request of a user, the parent's settings for a child.

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
    /// A request of a user.
    User,
    /// A sub-task of another task.
    Child(Box<ChildInput>),
}

/// Settings of a child task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChildInput {
    /// Who runs it.
    #[serde(flatten)]
    pub(crate) addressee: Addressee,
    /// Initial state of a workflow.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) state: Map<String, Value>,
    /// Patterns set by the node that started it.
    #[serde(rename = "manner", default, skip_serializing_if = "is_default")]
    pub(crate) pattern_override: PatternOverride,
    /// Its budget.
    #[serde(default)]
    pub(crate) allowance: Option<Allowance>,
    /// Target and topic, if it is a part of the user's message.
    #[serde(rename = "deciding", default, skip_serializing_if = "is_default")]
    pub(crate) decision_context: DecisionContext,
    /// The part of the parent's conversation that it may read. None if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// A part of a conversation: the messages before a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConversationExcerpt {
    /// The stored conversation. `None` for the history that came with the request, which the child's message carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) conversation: Option<Uuid>,
    pub(crate) before: Uuid,
    /// Limit of messages; the newest are kept.
    pub(crate) messages: usize,
}

impl TaskInput {
    /// Reads a journaled input. Older versions wrote no kind: an input with an addressee is a child's, any other is a
    /// user's.
    pub(crate) fn read(input: &Value) -> Result<Self, serde_json::Error> {
        if input.get("kind").is_some() {
            return Self::deserialize(input);
        }
        let child = ChildInput::deserialize(input);
        Ok(child.map_or(Self::User, |child| Self::Child(Box::new(child))))
    }
}

impl ConversationExcerpt {
    /// Reads the excerpt of a child of an older version, which stored it in its first message.
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
            conversation: Some(Uuid::from_u128(1)),
            before: Uuid::from_u128(2),
            messages: 6,
        }
    }

    #[test]
    fn an_input_has_its_kind_and_is_read_back() {
        assert_eq!(json!(TaskInput::User), json!({ "kind": "user" }));
        let child = TaskInput::Child(Box::new(ChildInput {
            addressee: Addressee::Workflow(Name::new("review").unwrap()),
            state: Map::from_iter([("agent".to_owned(), json!("of the state"))]),
            pattern_override: PatternOverride::default(),
            allowance: None,
            decision_context: DecisionContext::default(),
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
        assert!(child.decision_context.target.is_some() && child.earlier.is_none());
    }

    #[test]
    fn an_input_of_an_unknown_kind_is_no_users_request() {
        for broken in [json!({ "kind": "guest" }), json!({ "kind": "child" })] {
            assert!(TaskInput::read(&broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn the_excerpt_of_an_older_child_is_in_its_message() {
        let mut fields = MessageFields::draft(Role::User, "Dim them.", Timestamp::UNIX_EPOCH);
        let message = Message::new(fields.clone()).unwrap();
        assert_eq!(ConversationExcerpt::of_older_child(&message), None);
        fields.metadata.insert("earlier".into(), json!(excerpt()));
        let message = Message::new(fields).unwrap();
        let read = ConversationExcerpt::of_older_child(&message);
        assert_eq!(read, Some(excerpt()));
    }
}
