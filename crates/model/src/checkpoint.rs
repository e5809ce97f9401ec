//! A saved point of a task, at which a person can decide how it continues.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::name::Name;
use crate::state::{State, StateUpdate};
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated checkpoint.
pub type Checkpoint = Valid<CheckpointFields>;

/// One saved point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Checkpoint")]
pub struct CheckpointFields {
    /// Identifies the checkpoint.
    pub checkpoint_id: Uuid,
    /// The task.
    pub task_id: Uuid,
    /// The task's state at this point.
    pub state: State,
    /// The workflow node the task was at.
    pub position: Name,
    /// Sequence number, increasing within a task.
    pub sequence: u64,
    /// When it was saved.
    pub created_at: Timestamp,
    /// Whether the task waits for a person here.
    #[serde(default)]
    pub awaiting_human: bool,
    /// The person's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<HumanFeedback>,
    /// When the task continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
}

/// The phase of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointPhase {
    /// Saved, without a question to a person.
    Created,
    /// The task waits for a person.
    AwaitingHuman,
    /// The person has answered.
    Resumed,
}

/// Validated feedback of a person.
pub type HumanFeedback = Valid<HumanFeedbackFields>;

/// A person's answer at a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HumanFeedback")]
pub struct HumanFeedbackFields {
    /// What to do next.
    pub action: FeedbackAction,
    /// A reason or further instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Changes to the state.
    #[serde(default, skip_serializing_if = "StateUpdate::is_empty")]
    pub state_updates: StateUpdate,
    /// Changed arguments, if a tool call is waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
}

/// What a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackAction {
    /// Continue as proposed.
    Approve,
    /// Do not do this.
    Reject,
    /// Continue with changes.
    Modify,
}

impl fmt::Display for FeedbackAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Modify => "modify",
        })
    }
}

impl CheckpointFields {
    /// The phase it is in.
    pub fn phase(&self) -> CheckpointPhase {
        if self.feedback.is_some() {
            CheckpointPhase::Resumed
        } else if self.awaiting_human {
            CheckpointPhase::AwaitingHuman
        } else {
            CheckpointPhase::Created
        }
    }
}

impl Valid<CheckpointFields> {
    /// Records the person's answer; a second one is an error. Applies the state updates unless the
    /// answer is `reject`.
    pub fn answer(self, feedback: HumanFeedback, at: Timestamp) -> Result<Self, Invalid> {
        match self.phase() {
            CheckpointPhase::AwaitingHuman => self.with(|checkpoint| {
                checkpoint.state.update(feedback.state_updates.clone());
                checkpoint.awaiting_human = false;
                checkpoint.feedback = Some(feedback);
                checkpoint.resumed_at = Some(at);
            }),
            CheckpointPhase::Created => Err(Invalid::one(
                "checkpoint.not_awaiting",
                "this checkpoint does not wait for an answer",
            )),
            CheckpointPhase::Resumed => Err(Invalid::one(
                "checkpoint.answered",
                "this checkpoint has been answered; an answer cannot be changed",
            )),
        }
    }

    /// Checks that the checkpoints belong to one task and that their numbers increase.
    pub fn check_sequence(checkpoints: &[Self]) -> Result<(), Invalid> {
        let mut report = Report::default();
        for (index, pair) in checkpoints.windows(2).enumerate() {
            let [earlier, later] = pair else { continue };
            report.require(
                earlier.task_id == later.task_id,
                index + 1,
                "checkpoint.task_other",
                "the checkpoints belong to different tasks",
            );
            report.require(
                earlier.sequence < later.sequence,
                index + 1,
                "checkpoint.sequence",
                format_args!(
                    "{} does not follow {}; sequence numbers must increase",
                    later.sequence, earlier.sequence
                ),
            );
        }
        report.finish()
    }
}

impl Rules for CheckpointFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.feedback.is_none() || !self.awaiting_human,
            "awaiting_human",
            "checkpoint.awaiting_answered",
            "a checkpoint that has been answered does not await a person",
        );
        report.require(
            self.feedback.is_some() == self.resumed_at.is_some(),
            "resumed_at",
            "checkpoint.resumed_at",
            "a checkpoint has resumed_at exactly when it has been answered",
        );
        report.require(
            self.resumed_at
                .is_none_or(|resumed| self.created_at <= resumed),
            "resumed_at",
            "checkpoint.times",
            "resumed_at cannot be before created_at",
        );
    }
}

impl Rules for HumanFeedbackFields {
    fn rules(&self, report: &mut Report) {
        let changes = !self.state_updates.is_empty() || self.arguments.is_some();
        report.require(
            self.action != FeedbackAction::Modify || changes,
            "state_updates",
            "feedback.nothing_modified",
            "modify needs state_updates or arguments; use approve to change nothing",
        );
        report.require(
            self.action == FeedbackAction::Modify || !changes,
            "state_updates",
            "feedback.changes_unasked",
            format_args!(
                "{} takes no changes; use modify to change something",
                self.action
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(sequence: u64, awaiting_human: bool) -> Checkpoint {
        Checkpoint::new(CheckpointFields {
            checkpoint_id: Uuid::nil(),
            task_id: Uuid::nil(),
            state: State::default(),
            position: Name::new("review").unwrap(),
            sequence,
            created_at: Timestamp::UNIX_EPOCH,
            awaiting_human,
            feedback: None,
            resumed_at: None,
        })
        .unwrap()
    }

    fn feedback(action: &str, updates: &serde_json::Value) -> Result<HumanFeedback, String> {
        serde_json::from_value(serde_json::json!({ "action": action, "state_updates": updates }))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_checkpoint_is_answered_once() {
        let at = Timestamp::UNIX_EPOCH;
        let modify = feedback("modify", &serde_json::json!({ "next_action": "send" })).unwrap();
        let answered = checkpoint(1, true).answer(modify.clone(), at).unwrap();
        assert_eq!(answered.phase(), CheckpointPhase::Resumed);
        assert_eq!(answered.state.next_action.as_deref(), Some("send"));
        assert!(
            answered
                .answer(modify.clone(), at)
                .unwrap_err()
                .has("checkpoint.answered")
        );
        let unasked = checkpoint(1, false).answer(modify, at).unwrap_err();
        assert!(unasked.has("checkpoint.not_awaiting"));
    }

    #[test]
    fn sequence_numbers_only_increase() {
        let numbered = |numbers: &[u64]| {
            let list: Vec<_> = numbers
                .iter()
                .map(|number| checkpoint(*number, false))
                .collect();
            Checkpoint::check_sequence(&list)
        };
        assert_eq!(numbered(&[0, 1, 5]), Ok(()));
        assert!(numbered(&[0, 2, 2]).unwrap_err().has("checkpoint.sequence"));
        assert!(numbered(&[3, 1]).unwrap_err().has("checkpoint.sequence"));
    }
}
