//! A task.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Refusal;

/// Limit of a title, in characters.
pub const MAX_TITLE_LENGTH: usize = 500;

/// A task as its user sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: Uuid,
    pub title: String,
    pub is_completed: bool,
    /// Creation time, RFC 3339 in UTC.
    pub created_at: String,
    /// Completion time, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
}

/// Which tasks to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Open tasks.
    #[default]
    Pending,
    /// Completed tasks.
    Completed,
    All,
}

/// Validates a title: trimmed, not empty, not too long.
pub(crate) fn title(text: &str) -> Result<String, Refusal> {
    let title = text.trim();
    let length = title.chars().count();
    if (1..=MAX_TITLE_LENGTH).contains(&length) {
        Ok(title.to_owned())
    } else {
        Err(Refusal::Title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_trimmed_and_counted_in_characters() {
        assert_eq!(title("  buy milk\n").unwrap(), "buy milk");
        assert_eq!(title(&"ü".repeat(500)).unwrap().chars().count(), 500);
        assert_eq!(title(&format!(" {} ", "a".repeat(500))).unwrap().len(), 500);
        for wrong in [String::new(), " \t\n".to_owned(), "a".repeat(501)] {
            assert_eq!(title(&wrong), Err(Refusal::Title), "{wrong:?}");
        }
    }
}
