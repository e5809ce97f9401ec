//! What was done for a request: what the answer tells of it, and where a workflow answered, what its child tasks did.

use std::collections::BTreeSet;

use convoke::{Answer, Runtime, Store, TaskOutcome, Viewer};
use convoke_model::{TaskState, ToolCall};
use convoke_store::{Filter, Page};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use uuid::Uuid;

use super::targets::Target;

/// Limit of children per task that are looked at.
const CHILDREN: usize = 200;

/// Limit of the depth of children.
const DEPTH: usize = 8;

/// Intent of a request with several targets.
const SEVERAL: &str = "several";

/// What was done for a request.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    /// What the request was answered as: within a workflow, what the workflow passed it on as.
    pub(super) intent: String,
    /// What the answer itself says of that.
    own_intent: String,
    pub(super) targets: Vec<Target>,
    pub(super) slots: Value,
    /// All tool calls, in the order in which they were made.
    pub(super) calls: Vec<ToolCall>,
    /// Number of targets that the request was dispatched to.
    parts: usize,
    /// Whether it was done, rather than tried.
    completed: bool,
}

impl Deeds {
    /// What was done for a task that ended with this answer.
    pub(super) async fn of(
        runtime: &Runtime,
        ended: &TaskOutcome,
        answer: &Answer,
    ) -> anyhow::Result<Self> {
        of_task(&**runtime.store(), ended, answer, DEPTH).await
    }

    /// Whether the request was answered as this: by what it was passed on as, or by the workflow that did so.
    pub(super) fn is_answered_as(&self, wanted: &str) -> bool {
        self.intent == wanted || self.own_intent == wanted
    }

    /// What the answer tells.
    fn told(answer: &Answer, completed: bool) -> Self {
        let metadata = |key: &str| answer.metadata.get(key);
        let intent = metadata("intent").and_then(Value::as_str);
        let intent = intent.unwrap_or_default().to_owned();
        Self {
            own_intent: intent.clone(),
            intent,
            targets: Target::all(answer),
            slots: metadata("slots").cloned().unwrap_or_default(),
            calls: answer.tool_calls.clone(),
            parts: metadata("agent_results")
                .and_then(Value::as_array)
                .map_or(0, Vec::len),
            completed,
        }
    }

    /// Adds what the child tasks of a workflow did.
    fn add(&mut self, workflow: &str, children: Vec<Self>) {
        let mut known: BTreeSet<Uuid> = self.calls.iter().map(|call| call.id).collect();
        for call in children.iter().flat_map(|child| &child.calls) {
            if known.insert(call.id) {
                let later = |known: &ToolCall| known.started_at > call.started_at;
                let place = self.calls.iter().position(later);
                let place = place.unwrap_or(self.calls.len());
                self.calls.insert(place, call.clone());
            }
        }
        if self.intent != workflow {
            return;
        }
        if self.parts > 1 {
            SEVERAL.clone_into(&mut self.intent);
            return;
        }
        // Attempts that failed before one succeeded are none of several requests.
        let is_done = children.iter().any(|child| child.completed);
        let mut passed_on = children
            .into_iter()
            .filter(|child| child.completed == is_done);
        if let (Some(only), None) = (passed_on.next(), passed_on.next()) {
            self.intent = only.intent;
            if self.targets.is_empty() {
                self.targets = only.targets;
            }
            if self.slots.is_null() {
                self.slots = only.slots;
            }
        }
    }
}

fn of_task<'a>(
    store: &'a dyn Store,
    ended: &'a TaskOutcome,
    answer: &'a Answer,
    depth: usize,
) -> BoxFuture<'a, anyhow::Result<Deeds>> {
    async move {
        let mut deeds = Deeds::told(answer, ended.status == TaskState::Completed);
        let workflow = answer.metadata.get("workflow").and_then(Value::as_str);
        let Some(workflow) = workflow.filter(|_| depth > 0) else {
            return Ok(deeds);
        };
        let filter = Filter {
            parent: Some(ended.facts.id),
            ..Filter::default()
        };
        let page = Page {
            after: None,
            limit: CHILDREN,
        };
        let found = store.query(&Viewer::System, filter, page).await?;
        let mut children = Vec::new();
        for child in found.tasks.into_iter().rev() {
            let Some((record, newest)) = store.newest(&Viewer::System, child.id).await? else {
                continue;
            };
            let child = TaskOutcome::read(record, &newest)?;
            if let Some(answer) = &child.answer {
                children.push(of_task(store, &child, answer, depth - 1).await?);
            }
        }
        deeds.add(workflow, children);
        Ok(deeds)
    }
    .boxed()
}
