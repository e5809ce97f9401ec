//! The states of a task: A2A's states, and the finer stages of a working task.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The public state of a task, as A2A spells it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// Accepted and waiting to be worked on.
    #[serde(alias = "pending")]
    Submitted,
    /// Being worked on.
    #[serde(alias = "running")]
    Working,
    /// Waiting for an answer from a person.
    InputRequired,
    /// Waiting for a person to sign in somewhere.
    AuthRequired,
    /// Done.
    Completed,
    /// Canceled by the user or the app.
    Canceled,
    /// Ended with an error.
    Failed,
    /// Not accepted.
    Rejected,
    /// Not known, for example because another system that works on it cannot be reached.
    Unknown,
}

impl TaskState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::AuthRequired,
        Self::Completed,
        Self::Canceled,
        Self::Failed,
        Self::Rejected,
        Self::Unknown,
    ];

    /// Whether `next` may follow directly. Staying in a state is not a transition.
    pub fn can_become(self, next: Self) -> bool {
        if self == next || self.is_final() {
            return false;
        }
        match self {
            Self::Submitted => matches!(
                next,
                Self::Working | Self::Canceled | Self::Failed | Self::Rejected | Self::Unknown
            ),
            Self::Working => next != Self::Submitted,
            Self::InputRequired | Self::AuthRequired => {
                matches!(
                    next,
                    Self::Working | Self::Canceled | Self::Failed | Self::Unknown
                )
            }
            // Any state may follow when the other system is reachable again.
            Self::Unknown => true,
            Self::Completed | Self::Canceled | Self::Failed | Self::Rejected => false,
        }
    }

    /// Whether no other state can follow.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Canceled | Self::Failed | Self::Rejected
        )
    }

    /// Whether the task waits for a person.
    pub fn awaits_person(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }

    /// The spelling in files and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::AuthRequired => "auth-required",
            Self::Completed => "completed",
            Self::Canceled => "canceled",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The stage of a working task.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Deciding who does what.
    Planning,
    /// Fetching data.
    Extracting,
    /// Writing the answer.
    Composing,
    /// Formatting it for the channel.
    Formatting,
    /// Checking it against the scorecard.
    Validating,
    /// Fixing what the check found.
    Refining,
    /// Delivering it.
    Sending,
}

impl Stage {
    /// Whether `next` may follow. Unused stages are skipped; only refining goes back, to format and
    /// check again.
    pub fn can_become(self, next: Self) -> bool {
        self < next
            || (self == Self::Refining
                && matches!(next, Self::Composing | Self::Formatting | Self::Validating))
    }

    /// The spelling in files and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planning => "planning",
            Self::Extracting => "extracting",
            Self::Composing => "composing",
            Self::Formatting => "formatting",
            Self::Validating => "validating",
            Self::Refining => "refining",
            Self::Sending => "sending",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spelling_is_the_one_on_the_wire() {
        for state in TaskState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn old_names_of_the_first_two_states_are_read() {
        let read = |word: &str| serde_json::from_value::<TaskState>(word.into()).unwrap();
        assert_eq!(read("pending"), TaskState::Submitted);
        assert_eq!(read("running"), TaskState::Working);
    }

    #[test]
    fn final_states_have_no_transition_and_no_state_becomes_itself() {
        for from in TaskState::ALL {
            assert!(!from.can_become(from));
            for to in TaskState::ALL {
                assert!(!(from.is_final() && from.can_become(to)), "{from} to {to}");
            }
        }
    }

    #[test]
    fn only_listed_transitions_are_legal() {
        use TaskState::{Completed, InputRequired, Rejected, Submitted, Working};
        for (from, to, legal) in [
            (Submitted, Working, true),
            (Submitted, Completed, false),
            (Submitted, InputRequired, false),
            (Working, InputRequired, true),
            (Working, Completed, true),
            (Working, Submitted, false),
            (InputRequired, Working, true),
            (InputRequired, Completed, false),
            (InputRequired, Rejected, false),
        ] {
            assert_eq!(from.can_become(to), legal, "{from} to {to}");
        }
    }

    #[test]
    fn only_refining_goes_back() {
        assert!(Stage::Planning.can_become(Stage::Composing));
        assert!(!Stage::Composing.can_become(Stage::Planning));
        assert!(Stage::Refining.can_become(Stage::Validating));
        assert!(!Stage::Refining.can_become(Stage::Extracting));
        assert!(!Stage::Sending.can_become(Stage::Sending));
    }
}
