//! Joins the events of a task's journal with its live text.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use convoke_engine::{Engine, EngineError, EventCursor, LiveReader, LiveText};
use convoke_store::{Entry, Store, Viewer};
use futures::{Stream, StreamExt, stream};
use uuid::Uuid;

use super::{EventProjection, TaskEventKind, TaskUpdate};
use crate::assistant::Assistant;

/// What wakes a follower.
enum Arrival {
    Entry(Option<Result<Entry, EngineError>>),
    Live,
}

type Entries = Pin<Box<dyn Stream<Item = Result<Entry, EngineError>> + Send>>;

/// The stream of a follower.
pub struct TaskEventStream {
    entries: Entries,
    projection: EventProjection,
    /// `None` if the task does not run in this process.
    live: Option<LiveReader>,
    after: EventCursor,
    /// Updates that are not returned yet.
    ready: VecDeque<TaskUpdate>,
    over: bool,
}

/// Follows a task from a cursor: stored and future events, and between them the live text of this process.
///
/// Live text is speculative: it is valid until its call has an outcome in the journal, or until a reset. A stream that
/// starts within a task therefore begins with a reset of every open call, and then repeats the live text that this
/// process has. An interrupted follower can continue with its last cursor in any process.
///
/// The stream ends after the task has ended. It ends with an error if the viewer cannot see the task, the cursor is
/// beyond the journal, or the engine is closed.
pub async fn follow(
    engine: &Engine<Assistant>,
    viewer: &Viewer,
    task: Uuid,
    after: EventCursor,
) -> Result<TaskEventStream, EngineError> {
    let beginning = StartPoint::of(&**engine.store(), viewer, task, after).await?;
    let entries = engine.entries(viewer, task, beginning.read_after);
    Ok(beginning.following(Box::pin(entries), Some(engine.live(task))))
}

/// Follows a task through the store alone, without live text, for a process that runs no tasks.
pub async fn follow_stored(
    store: Arc<dyn Store>,
    viewer: &Viewer,
    task: Uuid,
    after: EventCursor,
) -> Result<TaskEventStream, EngineError> {
    let beginning = StartPoint::of(&*store, viewer, task, after).await?;
    let entries = convoke_engine::entries(store, viewer, task, beginning.read_after);
    Ok(beginning.following(Box::pin(entries), None))
}

/// The start of a stream.
struct StartPoint {
    projection: EventProjection,
    after: EventCursor,
    /// Entries are read after this sequence.
    read_after: u64,
}

impl StartPoint {
    async fn of(
        store: &dyn Store,
        viewer: &Viewer,
        task: Uuid,
        after: EventCursor,
    ) -> Result<Self, EngineError> {
        let record = store.task(viewer, task).await?;
        let record = record.ok_or(EngineError::UnknownTask(task))?;
        if after.step() > record.seq {
            let (steps, step) = (record.seq, after.step());
            return Err(EngineError::Refused {
                code: "task.no_such_step",
                message: format!("the task has {steps} steps; there is no step {step}"),
            });
        }
        // An entry that the cursor points into is read again, for its later events and the state before it.
        let is_whole = after.events() == u32::MAX;
        let read_after = after.step().saturating_sub(u64::from(!is_whole));
        let before = store.entries(viewer, task, read_after..=read_after).await?;
        Ok(Self {
            projection: EventProjection::after(before.last()),
            after,
            read_after,
        })
    }

    fn following(self, entries: Entries, live: Option<LiveReader>) -> TaskEventStream {
        let resets = self.projection.open_calls().into_iter();
        let resets = resets.map(|call| TaskUpdate::Live(LiveText::Reset { call }));
        TaskEventStream {
            entries,
            ready: match self.after {
                EventCursor::START => VecDeque::new(),
                _ => resets.collect(),
            },
            projection: self.projection,
            live,
            after: self.after,
            over: false,
        }
    }
}

impl TaskEventStream {
    /// The next update. `None` after the last one and after an error. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<TaskUpdate, EngineError>> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Some(Ok(update));
            }
            if self.over {
                return None;
            }
            let arrival = tokio::select! {
                // Journaled events come before live text.
                biased;
                entry = self.entries.next() => Arrival::Entry(entry),
                () = until_said(&mut self.live) => Arrival::Live,
            };
            match arrival {
                Arrival::Live => {
                    let updates = self.live.iter_mut().flat_map(LiveReader::read);
                    self.ready.extend(updates.map(TaskUpdate::Live));
                }
                Arrival::Entry(Some(Ok(entry))) => {
                    for event in self.projection.project(&entry) {
                        if event.cursor <= self.after {
                            continue;
                        }
                        if let TaskEventKind::Reset { calls } = &event.kind {
                            // Their live text may have been read before this reset.
                            if let Some(live) = &mut self.live {
                                live.begin_again(calls);
                            }
                        }
                        self.ready.push_back(TaskUpdate::Event(event));
                    }
                }
                Arrival::Entry(Some(Err(error))) => {
                    self.over = true;
                    return Some(Err(error));
                }
                Arrival::Entry(None) => self.over = true,
            }
        }
    }

    /// Converts it to a `Stream`.
    pub fn into_stream(self) -> impl Stream<Item = Result<TaskUpdate, EngineError>> + Send {
        stream::unfold(self, async |mut following| {
            let update = following.next().await?;
            Some((update, following))
        })
    }
}

/// Waits for live text in this process.
async fn until_said(live: &mut Option<LiveReader>) {
    match live {
        Some(live) => live.changed().await,
        None => std::future::pending().await,
    }
}
