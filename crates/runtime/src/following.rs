//! A task that is followed, as the runtime gives it out.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use convoke_engine::{EngineError, TaskEvent};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use crate::error::RuntimeError;

/// What happens to a task, step by step: a [`Stream`] that can also be asked by
/// [`next`](Self::next) alone. It may outlive its runtime, and then ends with
/// [`RuntimeError::Stopped`], unless the task has ended.
#[must_use = "nothing is read before the first `next`"]
pub struct TaskEvents(BoxStream<'static, Result<TaskEvent, RuntimeError>>);

impl TaskEvents {
    pub(crate) fn new(
        events: impl Stream<Item = Result<TaskEvent, EngineError>> + Send + 'static,
    ) -> Self {
        Self(events.map(|event| Ok(event?)).boxed())
    }

    /// The next step, once there is one; nothing, once the task has ended and all was given, or after an
    /// error. A call that is dropped loses nothing.
    pub async fn next(&mut self) -> Option<Result<TaskEvent, RuntimeError>> {
        self.0.next().await
    }
}

impl Stream for TaskEvents {
    type Item = Result<TaskEvent, RuntimeError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl fmt::Debug for TaskEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskEvents")
    }
}
