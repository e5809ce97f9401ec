//! A task that is followed, as the runtime gives it out.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use convoke_flow::{TaskEvent, TaskEventStream, TaskUpdate};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use crate::error::RuntimeError;

/// The events of a task, and live text between them: a [`Stream`] that can also be polled by [`next`](Self::next)
/// alone. It may outlive its runtime, and then ends with [`RuntimeError::Stopped`], unless the task has ended.
#[must_use = "nothing is read before the first `next`"]
pub struct TaskEvents(BoxStream<'static, Result<TaskUpdate, RuntimeError>>);

impl TaskEvents {
    pub(crate) fn new(following: TaskEventStream) -> Self {
        Self(following.into_stream().map(|update| Ok(update?)).boxed())
    }

    /// The next event, without live text.
    pub async fn next_event(&mut self) -> Option<Result<TaskEvent, RuntimeError>> {
        loop {
            match self.next().await? {
                Ok(TaskUpdate::Event(event)) => return Some(Ok(event)),
                Ok(TaskUpdate::Live(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The next update, once there is one; nothing, once the task has ended and all was given, or after an
    /// error. A call that is dropped loses nothing.
    pub async fn next(&mut self) -> Option<Result<TaskUpdate, RuntimeError>> {
        self.0.next().await
    }
}

impl Stream for TaskEvents {
    type Item = Result<TaskUpdate, RuntimeError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl fmt::Debug for TaskEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskEvents")
    }
}
