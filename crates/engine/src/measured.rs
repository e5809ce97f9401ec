//! Metrics of tasks.

use std::time::Duration;

use convoke_model::{Stage, TaskState};
use convoke_telemetry::metrics;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::program::Facts;

/// Records the first start of a task.
pub(crate) fn task_started(app: &str, facts: &Facts, now: Timestamp) {
    metrics::TASK_WAIT.observe_time(since(facts.created_at, now), [app]);
}

/// Records the durable end of a task.
pub(crate) fn ended(app: &str, state: TaskState, created_at: Timestamp, now: Timestamp) {
    metrics::TASKS_ENDED.increment([app, state.as_str()]);
    metrics::TASK_DURATION.observe_time(since(created_at, now), [app, state.as_str()]);
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// The start of the task's current stage in this worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StageTimer(Instant);

impl StageTimer {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Records the duration of the stage.
    pub(crate) fn left(&mut self, app: &str, stage: Stage) {
        if !convoke_telemetry::is_collected() {
            return;
        }
        let now = Instant::now();
        metrics::STAGE_DURATION.observe_time(now.duration_since(self.0), [app, stage.as_str()]);
        self.0 = now;
    }
}
