//! The performer's cache for a task that a worker runs: its conversation, and the tools of open calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoke_engine::{CallContext, Effect, Failure};
use convoke_model::Message;
use convoke_tools::{FailureCode, ToolDescription};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::nodes::agent::Attachments;

/// The messages of a conversation before a task.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The newest messages, oldest first.
    pub(crate) messages: Vec<Message>,
    /// Number of still older messages that were not loaded.
    pub(crate) older: usize,
}

/// The description of a call's tool, and the effect of the call.
#[derive(Debug, Clone)]
pub(crate) struct ClassifiedTool {
    pub(crate) description: Arc<ToolDescription>,
    pub(crate) effect: Effect,
}

/// Cached data of a task.
#[derive(Debug, Default)]
pub(crate) struct TaskScratch {
    /// Read once, because it does not change while the task runs.
    pub(crate) history: OnceCell<Arc<History>>,
    /// What the task's messages carry. Only the first, the user's, carries anything.
    pub(crate) attachments: OnceCell<Arc<Attachments>>,
    /// By the call. An entry lives until the call's outcome is known.
    tools: Mutex<BTreeMap<Uuid, ClassifiedTool>>,
}

impl TaskScratch {
    /// The scratch of a call's task.
    pub(crate) async fn of(call_context: &CallContext) -> Result<Arc<Self>, Failure> {
        let new = || async { Arc::new(Self::default()) as Arc<dyn std::any::Any + Send + Sync> };
        let scratch = Arc::clone(call_context.scratch.get_or_init(new).await);
        scratch.downcast().map_err(|_| {
            let message = "the task's scratch holds another type";
            Failure::no_effect(FailureCode::HistoryUnreadable, message)
        })
    }

    /// The cached tool of a call.
    pub(crate) fn tool(&self, call: Uuid) -> Option<ClassifiedTool> {
        self.tools().get(&call).cloned()
    }

    pub(crate) fn keep_tool(&self, call: Uuid, tool: ClassifiedTool) {
        self.tools().insert(call, tool);
    }

    pub(crate) fn forget_tool(&self, call: Uuid) {
        self.tools().remove(&call);
    }

    fn tools(&self) -> MutexGuard<'_, BTreeMap<Uuid, ClassifiedTool>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
