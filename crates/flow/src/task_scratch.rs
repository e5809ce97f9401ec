//! What the performer knows of a task for as long as a worker holds it: the conversation before it, and the tools of the
//! calls under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoke_engine::{CallContext, Effect, Failure};
use convoke_model::Message;
use convoke_tools::{FailureCode, ToolDescription};
use tokio::sync::OnceCell;
use uuid::Uuid;

/// The messages of a conversation before a task.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The newest messages, oldest first.
    pub(crate) messages: Vec<Message>,
    /// How many are older still and were left out.
    pub(crate) older: usize,
}

/// A tool as it was described for one call, and what the call may do.
#[derive(Debug, Clone)]
pub(crate) struct ClassifiedTool {
    pub(crate) description: Arc<ToolDescription>,
    pub(crate) effect: Effect,
}

/// What is known of a task while it is held.
#[derive(Debug, Default)]
pub(crate) struct TaskScratch {
    /// Does not change while the task runs, and so is read once.
    pub(crate) history: OnceCell<Arc<History>>,
    /// By the call. An entry lives until the call's outcome is known.
    tools: Mutex<HashMap<Uuid, ClassifiedTool>>,
}

impl TaskScratch {
    /// The scratch of the task that a call belongs to.
    pub(crate) async fn of(call_context: &CallContext) -> Result<Arc<Self>, Failure> {
        let new = || async { Arc::new(Self::default()) as Arc<dyn std::any::Any + Send + Sync> };
        let kept = Arc::clone(call_context.scratch.get_or_init(new).await);
        kept.downcast().map_err(|_| {
            let message = "the task's scratch holds another type";
            Failure::no_effect(FailureCode::HistoryUnreadable, message)
        })
    }

    /// The tool of a call, if it was described.
    pub(crate) fn tool(&self, call: Uuid) -> Option<ClassifiedTool> {
        self.tools().get(&call).cloned()
    }

    pub(crate) fn keep_tool(&self, call: Uuid, tool: ClassifiedTool) {
        self.tools().insert(call, tool);
    }

    pub(crate) fn forget_tool(&self, call: Uuid) {
        self.tools().remove(&call);
    }

    fn tools(&self) -> MutexGuard<'_, HashMap<Uuid, ClassifiedTool>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
