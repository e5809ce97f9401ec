//! Questions of a task's parts. A part, such as one of several requests in a message, is a task of its own: whoever waits for
//! the whole is asked what the part asks.

use std::time::Duration;

use convoke_engine::TaskOutcome;
use convoke_model::UserId;
use convoke_store::{Filter, Page, StoreError, Viewer};
use uuid::Uuid;

use crate::error::RuntimeError;
use crate::runtime::Runtime;

/// Interval at which the parts of a task are looked at.
const PART_POLL: Duration = Duration::from_millis(200);

/// Limit of parts of one task that are looked at.
const MAX_PARTS: usize = 100;

impl Runtime {
    /// Waits until a user's task has ended or waits for a person, or until a part of it waits for one. The outcome is then
    /// the part's.
    pub async fn wait_for_person(
        &self,
        user: UserId,
        task: Uuid,
    ) -> Result<TaskOutcome, RuntimeError> {
        let viewer = self.viewer(user);
        let engine = self.engine();
        let rest = engine.wait(&viewer, task);
        tokio::pin!(rest);
        loop {
            tokio::select! {
                biased;
                outcome = &mut rest => return Ok(outcome?),
                () = tokio::time::sleep(PART_POLL) => {}
            }
            match self.first_asking_part(&viewer, task).await {
                Ok(Some(part)) => return Ok(part),
                Ok(None) => {}
                // Waiting for the task itself outlives an outage, too.
                Err(RuntimeError::Engine(error)) if is_outage(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn first_asking_part(
        &self,
        viewer: &Viewer,
        task: Uuid,
    ) -> Result<Option<TaskOutcome>, RuntimeError> {
        for part in asking_parts(self, viewer, task).await? {
            let newest = self.store().newest(viewer, part).await?;
            if let Some((record, entry)) = newest
                && record.status.awaits_person()
            {
                return Ok(Some(TaskOutcome::read(record, &entry)?));
            }
        }
        Ok(None)
    }
}

fn is_outage(error: &convoke_engine::EngineError) -> bool {
    matches!(error, convoke_engine::EngineError::Store(error) if error.is_outage())
}

/// The parts of a task, at any depth, that wait for a person.
pub(crate) async fn asking_parts(
    runtime: &Runtime,
    viewer: &Viewer,
    task: Uuid,
) -> Result<Vec<Uuid>, StoreError> {
    let (mut asking, mut parents) = (Vec::new(), vec![task]);
    while let Some(parent) = parents.pop() {
        let filter = Filter {
            parent: Some(parent),
            ..Filter::default()
        };
        let page = Page {
            after: None,
            limit: MAX_PARTS,
        };
        for part in runtime.store().query(viewer, filter, page).await?.tasks {
            if part.status.awaits_person() {
                asking.push(part.id);
            } else if !part.status.is_final() && asking.len() + parents.len() < MAX_PARTS {
                parents.push(part.id);
            }
        }
    }
    Ok(asking)
}
