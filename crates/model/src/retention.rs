//! How long ended tasks are kept.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task::DEFAULT_RETENTION_DAYS;
use crate::task_state::TaskState;
use crate::valid::{Report, Rules, Valid};

/// A validated retention policy.
pub type RetentionPolicy = Valid<RetentionPolicyFields>;

/// Days by default, by tag and by state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "RetentionPolicy")]
pub struct RetentionPolicyFields {
    /// Days if nothing else applies.
    #[schemars(range(min = 1))]
    pub default_days: u32,
    /// Days by task tag.
    #[serde(alias = "by_tag")]
    pub by_task: BTreeMap<String, u32>,
    /// Days by final state.
    pub by_status: BTreeMap<TaskState, u32>,
}

impl Default for RetentionPolicyFields {
    fn default() -> Self {
        Self {
            default_days: DEFAULT_RETENTION_DAYS,
            by_task: BTreeMap::new(),
            by_status: BTreeMap::new(),
        }
    }
}

impl RetentionPolicyFields {
    /// Days to keep a task: its own number, else that of its tags (the largest), else that of its state,
    /// else the default.
    pub fn days_for(&self, own: Option<u32>, tags: &[String], state: TaskState) -> u32 {
        own.or_else(|| {
            tags.iter()
                .filter_map(|tag| self.by_task.get(tag))
                .max()
                .copied()
        })
        .or_else(|| self.by_status.get(&state).copied())
        .unwrap_or(self.default_days)
    }
}

impl Default for Valid<RetentionPolicyFields> {
    fn default() -> Self {
        // A unit test checks that the defaults are valid.
        Self::unchecked(RetentionPolicyFields::default())
    }
}

impl Rules for RetentionPolicyFields {
    fn rules(&self, report: &mut Report) {
        let zero = "a task is kept for at least 1 day";
        report.require(
            self.default_days > 0,
            "default_days",
            "retention.days_zero",
            zero,
        );
        report.within("by_task", |report| {
            for (tag, days) in &self.by_task {
                report.require(*days > 0, tag, "retention.days_zero", zero);
            }
        });
        report.within("by_status", |report| {
            for (state, days) in &self.by_status {
                report.require(*days > 0, state, "retention.days_zero", zero);
                report.require(
                    state.is_final(),
                    state,
                    "retention.status_live",
                    format_args!("{state} is not a final state; only ended tasks expire"),
                );
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let policy: RetentionPolicy = serde_json::from_value(serde_json::json!({})).unwrap();
        assert_eq!(policy, RetentionPolicy::default());
        assert_eq!(policy.days_for(None, &[], TaskState::Completed), 7);
    }

    #[test]
    fn the_tasks_own_number_wins_then_tag_then_status_then_default() {
        let policy: RetentionPolicy = serde_json::from_value(serde_json::json!({
            "default_days": 7,
            "by_task": { "critical": 30, "debug": 3 },
            "by_status": { "completed": 8, "failed": 14 },
        }))
        .unwrap();
        let tags = |tags: &[&str]| tags.iter().map(ToString::to_string).collect::<Vec<_>>();
        let failed = TaskState::Failed;
        assert_eq!(policy.days_for(Some(1), &tags(&["critical"]), failed), 1);
        assert_eq!(
            policy.days_for(None, &tags(&["debug", "critical"]), failed),
            30
        );
        assert_eq!(policy.days_for(None, &tags(&["debug"]), failed), 3);
        assert_eq!(policy.days_for(None, &tags(&["other"]), failed), 14);
        assert_eq!(policy.days_for(None, &[], TaskState::Canceled), 7);
    }
}
