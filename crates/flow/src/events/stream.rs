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

/// What a follower waits for.
enum Arrival {
    Entry(Option<Result<Entry, EngineError>>),
    Live,
}

type Entries = Pin<Box<dyn Stream<Item = Result<Entry, EngineError>> + Send>>;

/// A task that is followed.
pub struct Following {
    entries: Entries,
    projection: EventProjection,
    /// Nobody in this process says anything where there is none.
    live: Option<LiveReader>,
    after: EventCursor,
    /// Updates that were not given yet.
    ready: VecDeque<TaskUpdate>,
    over: bool,
}

/// Follows a task from a cursor on: the events after it, those that come, and between them what is said in this process.
///
/// Live text is speculative: it counts until its call has an outcome in the journal, or a reset takes it back. A stream that
/// begins within a task therefore begins with a reset for every call that may have said something, and then gives all that
/// this process knows of it again. So a follower that was cut off may go on anywhere with its last cursor.
///
/// The stream ends after the task has. It ends with an error where the viewer sees no such task, the cursor lies beyond the
/// journal, or the engine is closed.
pub async fn follow(
    engine: &Engine<Assistant>,
    viewer: &Viewer,
    task: Uuid,
    after: EventCursor,
) -> Result<Following, EngineError> {
    let beginning = Beginning::of(&**engine.store(), viewer, task, after).await?;
    let entries = engine.entries(viewer, task, beginning.read_after);
    Ok(beginning.following(Box::pin(entries), Some(engine.live(task))))
}

/// The same over a store alone: for a process that works on no tasks, and so hears nothing live.
pub async fn follow_stored(
    store: Arc<dyn Store>,
    viewer: &Viewer,
    task: Uuid,
    after: EventCursor,
) -> Result<Following, EngineError> {
    let beginning = Beginning::of(&*store, viewer, task, after).await?;
    let entries = convoke_engine::entries(store, viewer, task, beginning.read_after);
    Ok(beginning.following(Box::pin(entries), None))
}

/// Where a stream begins.
struct Beginning {
    projection: EventProjection,
    after: EventCursor,
    /// Entries are read after this step.
    read_after: u64,
}

impl Beginning {
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
        // A step that the cursor lies in is read again: its later events, and the state that they come from.
        let is_whole = after.events() == u32::MAX;
        let read_after = after.step().saturating_sub(u64::from(!is_whole));
        let before = store.entries(viewer, task, read_after..=read_after).await?;
        Ok(Self {
            projection: EventProjection::after(before.last()),
            after,
            read_after,
        })
    }

    fn following(self, entries: Entries, live: Option<LiveReader>) -> Following {
        let resets = self.projection.open_calls().into_iter();
        let resets = resets.map(|call| TaskUpdate::Live(LiveText::Reset { call }));
        Following {
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

impl Following {
    /// The next update; nothing once the task has ended and all was given, or after an error. A call that is dropped loses
    /// nothing.
    pub async fn next(&mut self) -> Option<Result<TaskUpdate, EngineError>> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Some(Ok(update));
            }
            if self.over {
                return None;
            }
            let arrival = tokio::select! {
                // What the journal has comes before what is said.
                biased;
                entry = self.entries.next() => Arrival::Entry(entry),
                () = until_said(&mut self.live) => Arrival::Live,
            };
            match arrival {
                Arrival::Live => {
                    let said = self.live.iter_mut().flat_map(LiveReader::read);
                    self.ready.extend(said.map(TaskUpdate::Live));
                }
                Arrival::Entry(Some(Ok(entry))) => {
                    for event in self.projection.project(&entry) {
                        if event.cursor <= self.after {
                            continue;
                        }
                        if let TaskEventKind::Reset { calls } = &event.kind {
                            // What they say now may have been read before it was known that they were begun again.
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

    /// The same as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<TaskUpdate, EngineError>> + Send {
        stream::unfold(self, async |mut following| {
            let update = following.next().await?;
            Some((update, following))
        })
    }
}

/// Waits until something is said in this process.
async fn until_said(live: &mut Option<LiveReader>) {
    match live {
        Some(live) => live.changed().await,
        None => std::future::pending().await,
    }
}
