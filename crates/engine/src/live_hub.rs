//! Live text of open calls, for all followers in this process.
//!
//! The hub stores the text of each open call once. A reader stores only its position, so a slow reader gets larger
//! pieces and holds no memory. The text is speculative: it is removed when the call has an outcome in the journal.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use serde::Serialize;
use tokio::sync::watch;
use uuid::Uuid;

use crate::live::LiveUpdate;

/// Limit of live text per call, in bytes. Text beyond it appears only in the journal.
const MAX_LIVE_BYTES: usize = 256 * 1024;

/// Live text of all tasks that run or are followed in this process.
#[derive(Debug, Default)]
pub(crate) struct LiveHub(Mutex<HashMap<Uuid, Weak<TaskLive>>>);

impl LiveHub {
    /// The live text of a task, created on first use.
    pub(crate) fn of(&self, task: Uuid) -> Arc<TaskLive> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = tasks.get(&task).and_then(Weak::upgrade) {
            return live;
        }
        // Removes tasks without readers and writers, so that they do not accumulate.
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
    /// Tells of changes, with a receiver per reader. Created for the first of them.
    changes: OnceLock<watch::Sender<()>>,
}

#[derive(Debug, Default)]
struct CallText {
    attempt: u32,
    text: String,
}

impl TaskLive {
    /// Whether there is a reader.
    pub(crate) fn has_readers(&self) -> bool {
        let changes = self.changes.get();
        changes.is_some_and(|changes| changes.receiver_count() > 0)
    }

    /// Adds text of a call.
    pub(crate) fn say(&self, call: Uuid, update: LiveUpdate<'_>) {
        {
            let mut calls = self.lock();
            let call_text = calls.entry(call).or_default();
            match update {
                LiveUpdate::Again => {
                    call_text.attempt += 1;
                    call_text.text.clear();
                }
                LiveUpdate::Text(text) if call_text.text.len() + text.len() <= MAX_LIVE_BYTES => {
                    call_text.text.push_str(text);
                }
                LiveUpdate::Text(_) => return,
            }
        }
        self.changed();
    }

    /// Removes a call that has an outcome or was abandoned.
    pub(crate) fn end(&self, call: Uuid) {
        if self.lock().remove(&call).is_some() {
            self.changed();
        }
    }

    fn changed(&self) {
        if let Some(changes) = self.changes.get() {
            changes.send_replace(());
        }
    }

    pub(crate) fn read(self: Arc<Self>) -> LiveReader {
        let mut changed = self.changes.get_or_init(watch::Sender::default).subscribe();
        // Text from before counts as unread.
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

/// A piece of live text, or a reset of earlier pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveText {
    /// More text of a call.
    Text {
        /// The call.
        call: Uuid,
        /// The attempt, from 0.
        attempt: u32,
        /// Bytes of the attempt's text before this piece.
        offset: usize,
        /// The piece.
        text: String,
    },
    /// Discard the text of this call: it is repeated or starts over.
    Reset {
        /// The call.
        call: Uuid,
    },
}

/// Reads the live text of one task.
#[derive(Debug)]
pub struct LiveReader {
    live: Arc<TaskLive>,
    changed: watch::Receiver<()>,
    /// Attempt and position of each call.
    positions: BTreeMap<Uuid, (u32, usize)>,
}

impl LiveReader {
    /// The text since the last call of this.
    pub fn read(&mut self) -> Vec<LiveText> {
        self.changed.mark_unchanged();
        let calls = self.live.lock();
        self.positions.retain(|call, _| calls.contains_key(call));
        let mut pieces = Vec::new();
        for (call, call_text) in calls.iter() {
            let (attempt, offset) = self.positions.get(call).copied().unwrap_or_default();
            let offset = if attempt == call_text.attempt {
                offset
            } else {
                0
            };
            if offset == 0 && self.positions.get(call).is_some_and(|(_, read)| *read > 0) {
                pieces.push(LiveText::Reset { call: *call });
            }
            if offset < call_text.text.len() {
                pieces.push(LiveText::Text {
                    call: *call,
                    attempt: call_text.attempt,
                    offset,
                    text: call_text.text.get(offset..).unwrap_or_default().to_owned(),
                });
            }
            self.positions
                .insert(*call, (call_text.attempt, call_text.text.len()));
        }
        pieces
    }

    /// Marks all text as unread.
    pub fn begin_again(&mut self, calls: &[Uuid]) {
        self.positions.retain(|call, _| !calls.contains(call));
        self.changed.mark_changed();
    }

    /// Waits for new text.
    pub async fn changed(&mut self) {
        // The reader holds the sender too, so the wait only ends with a change.
        let _ = self.changed.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const CALL: Uuid = Uuid::from_u128(1);

    fn text(pieces: &[LiveText]) -> String {
        let mut call_text = String::new();
        for piece in pieces {
            match piece {
                LiveText::Text { offset, text, .. } => {
                    assert_eq!(*offset, call_text.len());
                    call_text.push_str(text);
                }
                LiveText::Reset { .. } => call_text.clear(),
            }
        }
        call_text
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
    fn a_repeated_attempt_resets_the_live_text() {
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
        let heard = text(&heard).len();
        assert!(heard <= MAX_LIVE_BYTES && heard + piece.len() > MAX_LIVE_BYTES);
    }

    #[test]
    fn tasks_that_nobody_holds_do_not_add_up() {
        let hub = LiveHub::default();
        let held = hub.of(Uuid::from_u128(0));
        for task in 0..10_000 {
            hub.of(Uuid::from_u128(task));
        }
        assert!(Arc::ptr_eq(&held, &hub.of(Uuid::from_u128(0))));
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
    fn a_reader_is_woken_by_text_and_by_the_end_of_a_call() {
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
    fn an_attempt_without_text_needs_no_reset() {
        let live = LiveHub::default().of(Uuid::nil());
        let mut reader = Arc::clone(&live).read();
        live.say(CALL, LiveUpdate::Again);
        assert!(reader.read().is_empty());
        live.say(CALL, LiveUpdate::Again);
        assert!(reader.read().is_empty());
    }
}
