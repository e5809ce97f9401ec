//! What calls say while they are under way, for everybody in this process who follows the task.
//!
//! The hub keeps the text of each call under way once, whoever reads it. A reader keeps only how far it has read: a slow one
//! gets larger pieces, and holds no memory. The text is speculative: it is gone once the call has an outcome, which the
//! journal then has.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::Serialize;
use tokio::sync::watch;
use uuid::Uuid;

use crate::live::LiveUpdate;

/// Bytes of text that are kept for one call. What is said beyond it is not live; the journal has it in the end.
const MAX_LIVE_BYTES: usize = 256 * 1024;

/// Live text of all tasks that are worked on or followed in this process.
#[derive(Debug, Default)]
pub(crate) struct LiveHub(Mutex<HashMap<Uuid, Weak<TaskLive>>>);

impl LiveHub {
    /// The live text of a task, for as long as anybody holds it.
    pub(crate) fn of(&self, task: Uuid) -> Arc<TaskLive> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = tasks.get(&task).and_then(Weak::upgrade) {
            return live;
        }
        // Tasks that nobody holds any more go in passing, so that they do not add up.
        if tasks.len() >= tasks.capacity() {
            tasks.retain(|_, live| live.strong_count() > 0);
        }
        let live = Arc::new(TaskLive::default());
        tasks.insert(task, Arc::downgrade(&live));
        live
    }
}

/// Live text of one task.
#[derive(Debug, Default)]
pub(crate) struct TaskLive {
    calls: Mutex<BTreeMap<Uuid, CallText>>,
    /// Counts changes. It has a receiver for each reader.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct CallText {
    attempt: u32,
    text: String,
}

impl TaskLive {
    /// Whether anybody reads.
    pub(crate) fn has_readers(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// A call says something.
    pub(crate) fn say(&self, call: Uuid, update: LiveUpdate<'_>) {
        {
            let mut calls = self.lock();
            let said = calls.entry(call).or_default();
            match update {
                LiveUpdate::Again => {
                    said.attempt += 1;
                    said.text.clear();
                }
                LiveUpdate::Text(text) if said.text.len() + text.len() <= MAX_LIVE_BYTES => {
                    said.text.push_str(text);
                }
                LiveUpdate::Text(_) => return,
            }
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// A call has an outcome, or is given up.
    pub(crate) fn end(&self, call: Uuid) {
        if self.lock().remove(&call).is_some() {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    pub(crate) fn read(self: Arc<Self>) -> LiveReader {
        let mut changed = self.changes.subscribe();
        // What was said before counts as said since the last look.
        changed.mark_changed();
        LiveReader {
            changed,
            positions: BTreeMap::new(),
            live: self,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, CallText>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece of live text, or what takes earlier pieces back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveText {
    /// More of what a call says.
    Text {
        /// The call.
        call: Uuid,
        /// Which attempt at it.
        attempt: u32,
        /// Bytes of this attempt's text before this piece.
        offset: usize,
        /// The piece.
        text: String,
    },
    /// What a call said so far counts no more: it is made again, or says something else.
    Reset {
        /// The call.
        call: Uuid,
    },
}

/// Reads the live text of one task.
#[derive(Debug)]
pub struct LiveReader {
    live: Arc<TaskLive>,
    changed: watch::Receiver<u64>,
    /// The attempt that was read of each call, and how far.
    positions: BTreeMap<Uuid, (u32, usize)>,
}

impl LiveReader {
    /// What was said since the last look.
    pub fn read(&mut self) -> Vec<LiveText> {
        self.changed.mark_unchanged();
        let calls = self.live.lock();
        self.positions.retain(|call, _| calls.contains_key(call));
        let mut pieces = Vec::new();
        for (call, said) in calls.iter() {
            let (attempt, offset) = self.positions.get(call).copied().unwrap_or_default();
            let offset = if attempt == said.attempt { offset } else { 0 };
            if offset == 0 && self.positions.get(call).is_some_and(|(_, read)| *read > 0) {
                pieces.push(LiveText::Reset { call: *call });
            }
            if offset < said.text.len() {
                pieces.push(LiveText::Text {
                    call: *call,
                    attempt: said.attempt,
                    offset,
                    text: said.text.get(offset..).unwrap_or_default().to_owned(),
                });
            }
            self.positions
                .insert(*call, (said.attempt, said.text.len()));
        }
        pieces
    }

    /// Counts what calls have said as not read yet.
    pub fn begin_again(&mut self, calls: &[Uuid]) {
        self.positions.retain(|call, _| !calls.contains(call));
        self.changed.mark_changed();
    }

    /// Waits until something was said since the last look.
    pub async fn changed(&mut self) {
        // The sender is part of what this reader holds, so that the wait ends with a change only.
        let _ = self.changed.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const CALL: Uuid = Uuid::from_u128(1);

    fn text(pieces: &[LiveText]) -> String {
        let mut said = String::new();
        for piece in pieces {
            match piece {
                LiveText::Text { offset, text, .. } => {
                    assert_eq!(*offset, said.len());
                    said.push_str(text);
                }
                LiveText::Reset { .. } => said.clear(),
            }
        }
        said
    }

    #[test]
    fn readers_that_come_at_different_times_read_the_same() {
        let hub = LiveHub::default();
        let live = hub.of(Uuid::nil());
        let mut early = hub.of(Uuid::nil()).read();
        let mut heard = Vec::new();
        for piece in ["It ", "is ", "four."] {
            live.say(CALL, LiveUpdate::Text(piece));
            heard.extend(early.read());
        }
        let mut late = hub.of(Uuid::nil()).read();
        assert_eq!(text(&heard), "It is four.");
        assert_eq!(text(&late.read()), "It is four.");
        assert!(late.read().is_empty() && early.read().is_empty());
    }

    #[test]
    fn an_attempt_that_is_made_again_takes_back_what_was_said() {
        let live = LiveHub::default().of(Uuid::nil());
        let mut reader = Arc::clone(&live).read();
        live.say(CALL, LiveUpdate::Again);
        live.say(CALL, LiveUpdate::Text("It"));
        let mut heard = reader.read();
        live.say(CALL, LiveUpdate::Again);
        live.say(CALL, LiveUpdate::Text("Four."));
        heard.extend(reader.read());
        assert_eq!(text(&heard), "Four.");
        let resets = heard
            .iter()
            .filter(|piece| matches!(piece, LiveText::Reset { .. }));
        assert_eq!(resets.count(), 1);
        live.end(CALL);
        assert!(reader.read().is_empty());
    }

    #[test]
    fn a_slow_reader_holds_nothing_and_a_call_is_bounded() {
        let live = LiveHub::default().of(Uuid::nil());
        let mut slow = Arc::clone(&live).read();
        let piece = "x".repeat(1_000);
        for _ in 0..1_000 {
            live.say(CALL, LiveUpdate::Text(&piece));
        }
        let heard = slow.read();
        assert_eq!(heard.len(), 1, "one piece, however much was said");
        assert!(text(&heard).len() <= MAX_LIVE_BYTES);
    }

    #[test]
    fn tasks_that_nobody_holds_do_not_add_up() {
        let hub = LiveHub::default();
        for task in 0..10_000 {
            hub.of(Uuid::from_u128(task));
        }
        assert!(hub.0.lock().unwrap().len() < 100);
    }

    #[test]
    fn a_task_knows_whether_anybody_reads() {
        let live = LiveHub::default().of(Uuid::nil());
        assert!(!live.has_readers());
        let reader = Arc::clone(&live).read();
        assert!(live.has_readers());
        drop(reader);
        assert!(!live.has_readers());
    }

    #[test]
    fn a_reader_is_woken_by_what_is_said_and_by_a_call_that_ends() {
        let is_woken = |reader: &mut LiveReader| reader.changed().now_or_never().is_some();
        let live = LiveHub::default().of(Uuid::nil());
        let mut reader = Arc::clone(&live).read();
        assert!(is_woken(&mut reader), "something may have been said before");
        assert!(!is_woken(&mut reader));
        live.say(CALL, LiveUpdate::Text("It"));
        assert!(is_woken(&mut reader));
        live.end(CALL);
        assert!(is_woken(&mut reader));
        live.end(CALL);
        assert!(!is_woken(&mut reader), "it has ended already");
        assert!(reader.read().is_empty(), "the journal has its outcome now");
    }

    #[test]
    fn a_reader_that_begins_again_reads_the_text_of_the_calls_it_names_from_the_start() {
        let other = Uuid::from_u128(2);
        let live = LiveHub::default().of(Uuid::nil());
        let mut reader = Arc::clone(&live).read();
        live.say(CALL, LiveUpdate::Text("one"));
        live.say(other, LiveUpdate::Text("two"));
        assert_eq!(reader.read().len(), 2);
        reader.begin_again(&[CALL]);
        assert!(reader.changed().now_or_never().is_some());
        let again = LiveText::Text {
            call: CALL,
            attempt: 0,
            offset: 0,
            text: "one".into(),
        };
        assert_eq!(reader.read(), [again]);
    }

    #[test]
    fn nothing_is_taken_back_of_an_attempt_that_had_said_nothing() {
        let live = LiveHub::default().of(Uuid::nil());
        let mut reader = Arc::clone(&live).read();
        live.say(CALL, LiveUpdate::Again);
        assert!(reader.read().is_empty());
        live.say(CALL, LiveUpdate::Again);
        assert!(reader.read().is_empty());
    }
}
