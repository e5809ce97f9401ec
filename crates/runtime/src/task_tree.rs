//! A task with its children, and their traces.

use convoke_flow::trace as trace_of;
use convoke_model::{Invalid, Redaction, Trace};
use convoke_store::{Filter, LoadedTask, Page, Store, StoreError, Viewer};
use futures::FutureExt;
use futures::future::BoxFuture;
use uuid::Uuid;

/// Limit of children per task.
const CHILDREN: usize = 200;

/// Limit of the depth of children.
const DEPTH: usize = 8;

/// A task with its children.
#[derive(Debug, Clone)]
pub struct TaskTree {
    /// The task.
    pub task: LoadedTask,
    /// Its children, oldest first.
    pub children: Vec<Self>,
}

impl TaskTree {
    /// Reads a task and its children: at most 200 of each task, and those of 8 generations.
    pub async fn read(
        store: &dyn Store,
        viewer: &Viewer,
        task: Uuid,
    ) -> Result<Option<Self>, StoreError> {
        family(store, viewer, task, DEPTH).await
    }

    /// The task and its children, without their children.
    pub(crate) async fn read_shallow(
        store: &dyn Store,
        viewer: &Viewer,
        task: Uuid,
    ) -> Result<Option<Self>, StoreError> {
        family(store, viewer, task, 1).await
    }

    /// The steps of the task. Those of its children are sessions in it.
    pub fn trace(&self, redaction: &Redaction) -> Result<Trace, Invalid> {
        let children: Vec<_> = self.children.iter().map(|child| &child.task).collect();
        trace_of(&self.task, &children, redaction)
    }
}

fn family<'a>(
    store: &'a dyn Store,
    viewer: &'a Viewer,
    task: Uuid,
    depth: usize,
) -> BoxFuture<'a, Result<Option<TaskTree>, StoreError>> {
    async move {
        let Some(loaded) = store.load(viewer, task, 1).await? else {
            return Ok(None);
        };
        let mut children = Vec::new();
        if depth > 0 {
            let filter = Filter {
                parent: Some(task),
                ..Filter::default()
            };
            let page = Page {
                after: None,
                limit: CHILDREN,
            };
            let found = store.query(viewer, filter, page).await?.tasks;
            for child in found.into_iter().rev() {
                children.extend(family(store, viewer, child.id, depth - 1).await?);
            }
        }
        Ok(Some(TaskTree {
            task: loaded,
            children,
        }))
    }
    .boxed()
}
