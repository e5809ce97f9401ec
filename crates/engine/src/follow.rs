//! A task's journal as a stream of entries, and cursors in it.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use convoke_store::{Entry, Hint, Scope, Store, Viewer};
use futures::Stream;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::closing::Closing;
use crate::engine::{Engine, OUTAGE_PAUSE};
use crate::error::EngineError;
use crate::program::Program;

/// A position in the events of a task: after one event, or after all events of an entry. It depends only on the
/// journal, so it is the same in every process and never changes. Cursors are ordered like the events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventCursor {
    step: u64,
    /// Number of the entry's events before the position.
    events: u32,
}

impl EventCursor {
    /// The position before the first event.
    pub const START: Self = Self { step: 0, events: 0 };

    /// After all events of an entry. Entries are numbered from 1.
    pub const fn after(step: u64) -> Self {
        Self {
            step,
            events: u32::MAX,
        }
    }

    /// After the first `events` events of an entry.
    pub const fn within(step: u64, events: u32) -> Self {
        Self { step, events }
    }

    /// The sequence of the position's entry; 0 at the start.
    pub const fn step(self) -> u64 {
        self.step
    }

    /// Number of the entry's events before the position; the maximum if it is after all of them.
    pub const fn events(self) -> u32 {
        self.events
    }
}

/// `7.2` is after the second event of step 7, and `7` after all of its events.
impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.step, self.events) {
            (step, 0 | u32::MAX) => write!(f, "{step}"),
            (step, events) => write!(f, "{step}.{events}"),
        }
    }
}

/// A text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no cursor; write one as an event gives it, such as 7.2, or the number of a step")]
pub struct InvalidCursor(String);

impl InvalidCursor {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        "cursor.invalid"
    }
}

impl FromStr for EventCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let invalid = || InvalidCursor(text.chars().take(40).collect());
        let number = |digits: &str| {
            // `parse` would take a sign as well.
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.parse::<u64>().ok().filter(|_| is_number);
            number.ok_or_else(invalid)
        };
        match text.split_once('.') {
            None if text == "0" => Ok(Self::START),
            None => number(text).map(Self::after),
            Some((step, events)) => {
                let events = u32::try_from(number(events)?).map_err(|_| invalid())?;
                if events == 0 {
                    return Err(invalid());
                }
                Ok(Self::within(number(step)?, events))
            }
        }
    }
}

impl Serialize for EventCursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventCursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Streams a task's entries after a sequence, stored and future ones. Ends after the last entry of an ended task, or
/// with an error if the task does not exist (any more). Continues through an outage of the store. Following again from
/// the last sequence misses nothing.
pub fn entries(
    store: Arc<dyn Store>,
    viewer: &Viewer,
    task: Uuid,
    after: u64,
) -> impl Stream<Item = Result<Entry, EngineError>> + Send + use<> {
    Follower::new(store, Arc::default(), viewer, task, after).into_stream()
}

impl<P: Program> Engine<P> {
    /// Follows a task until the engine is closed. The stream then ends with an error, unless the task has ended.
    pub fn entries(
        &self,
        viewer: &Viewer,
        task: Uuid,
        after: u64,
    ) -> impl Stream<Item = Result<Entry, EngineError>> + Send + use<P> {
        let (store, closing) = (Arc::clone(self.store()), Arc::clone(&self.0.closing));
        Follower::new(store, closing, viewer, task, after).into_stream()
    }
}

/// The pause after the first failed read.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Entries per read, which bounds the memory of a slow reader.
const READ_AT_ONCE: u64 = 64;

struct Follower {
    store: Arc<dyn Store>,
    closing: Arc<Closing>,
    viewer: Viewer,
    task: Uuid,
    hint: Hint,
    /// The sequence of the next entry.
    next: u64,
    backoff: Backoff,
    /// Entries that are read and not returned yet.
    read: VecDeque<Entry>,
    over: bool,
}

/// The result of a read.
enum Lookup {
    Steps,
    /// Nothing new yet.
    Nothing,
    /// The task has ended; no more entries.
    End,
}

impl Follower {
    fn new(
        store: Arc<dyn Store>,
        closing: Arc<Closing>,
        viewer: &Viewer,
        task: Uuid,
        after: u64,
    ) -> Self {
        Self {
            hint: store.watch(Scope::Task(task)),
            store,
            closing,
            viewer: viewer.clone(),
            task,
            next: after.saturating_add(1),
            backoff: Backoff::new(FIRST_PAUSE, OUTAGE_PAUSE),
            read: VecDeque::new(),
            over: false,
        }
    }

    fn into_stream(self) -> impl Stream<Item = Result<Entry, EngineError>> + Send {
        futures::stream::unfold(self, async |mut follower| {
            let entry = follower.next().await?;
            Some((entry, follower))
        })
    }

    async fn next(&mut self) -> Option<Result<Entry, EngineError>> {
        if self.over {
            return None;
        }
        loop {
            if let Some(entry) = self.read.pop_front() {
                self.next = entry.seq + 1;
                return Some(Ok(entry));
            }
            // Checked before the read, so that entries written before it are returned.
            let closed = self.closing.is_closed();
            let error = match self.look().await {
                Ok(Lookup::Steps) => continue,
                Ok(Lookup::Nothing) if !closed => {
                    self.closing.until_hint(&mut self.hint).await;
                    continue;
                }
                Ok(Lookup::Nothing) => Some(self.closing.error()),
                Ok(Lookup::End) => None,
                Err(EngineError::Store(error)) if error.is_outage() && !closed => {
                    self.backoff.pause().await;
                    continue;
                }
                Err(error) => Some(error),
            };
            self.over = true;
            return error.map(Err);
        }
    }

    async fn look(&mut self) -> Result<Lookup, EngineError> {
        let unknown = EngineError::UnknownTask(self.task);
        let Some(record) = self.store.task(&self.viewer, self.task).await? else {
            return Err(unknown);
        };
        if record.seq < self.next {
            let ended = record.status.is_final();
            return Ok(if ended { Lookup::End } else { Lookup::Nothing });
        }
        let last = record.seq.min(self.next.saturating_add(READ_AT_ONCE - 1));
        let entries = self
            .store
            .entries(&self.viewer, self.task, self.next..=last)
            .await?;
        if entries.is_empty() {
            return Err(unknown);
        }
        self.read = entries.into();
        Ok(Lookup::Steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_as_it_is_written_and_nothing_else_is() {
        for cursor in [
            EventCursor::START,
            EventCursor::within(1, 1),
            EventCursor::within(7, 2),
            EventCursor::after(7),
        ] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
            let json = serde_json::to_string(&cursor).unwrap();
            assert_eq!(serde_json::from_str::<EventCursor>(&json).unwrap(), cursor);
        }
        for text in [
            "",
            "1.0",
            "-1",
            "+1",
            "1.",
            ".1",
            "1.2.3",
            "seven",
            "1.4294967296",
        ] {
            let error = text.parse::<EventCursor>().unwrap_err();
            assert_eq!(error.code(), "cursor.invalid", "{text}");
        }
    }

    #[test]
    fn cursors_are_ordered_as_the_events_are() {
        let places = [
            EventCursor::START,
            EventCursor::within(1, 1),
            EventCursor::within(1, 2),
            EventCursor::after(1),
            EventCursor::within(2, 1),
            EventCursor::within(10, 1),
        ];
        assert!(places.is_sorted());
    }
}
