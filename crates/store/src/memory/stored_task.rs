//! A task in memory.

use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use super::StoredTask;
use crate::error::StoreError;
use crate::journal::{
    Batch, Entry, JournalEvent, LeaseAction, NewEntry, NewMessage, StatusUpdate, StoredMessage,
};
use crate::signal::Signal;
use crate::state::{StateReader, misfit};
use crate::task::later;

/// An entry or a message of a stored batch, which it shares.
#[derive(Debug)]
pub(super) struct BatchPart {
    batch: Arc<Batch>,
    index: usize,
}

impl BatchPart {
    pub(super) fn entry(&self) -> &NewEntry {
        &self.batch.entries[self.index]
    }

    pub(super) fn message(&self) -> &NewMessage {
        &self.batch.messages[self.index]
    }
}

impl StoredTask {
    /// Its idempotency key with app and owner, unique in the store.
    pub(super) fn unique_key(&self) -> Option<(String, Uuid, String)> {
        let record = &self.record;
        let key = self.key.clone()?;
        Some((record.app.clone(), record.owner, key))
    }

    /// The sequence of the oldest stored entry.
    fn first_seq(&self) -> u64 {
        self.record.seq + 1 - self.entries.len() as u64
    }

    pub(super) fn entries(&self, seqs: RangeInclusive<u64>) -> Result<Vec<Entry>, StoreError> {
        let (from, to) = seqs.into_inner();
        let first = self.first_seq();
        let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let skipped = skipped.min(self.entries.len());
        // Deltas can only be decoded from the last full state on.
        let read_from = (0..=skipped)
            .rev()
            .find(|place| !self.entries.get(*place).is_some_and(needs_earlier))
            .unwrap_or(0);
        let mut states = StateReader::default();
        let entries = (first..=to).zip(&self.entries).skip(read_from);
        let read = entries.map(|(seq, part)| {
            let entry = part.entry();
            Ok(Entry {
                seq,
                at: entry.at,
                kind: entry.kind.to_string(),
                event: serde_json::from_str(&entry.event)?,
                state: states.read(&entry.state).ok_or_else(|| misfit(seq))?,
            })
        });
        read.skip(skipped - read_from).collect()
    }

    pub(super) fn events(
        &self,
        seqs: &RangeInclusive<u64>,
    ) -> Result<Vec<JournalEvent>, StoreError> {
        let entries = (self.first_seq()..).zip(&self.entries);
        let read = |(seq, part): (u64, &BatchPart)| {
            let entry = part.entry();
            Ok(JournalEvent {
                seq,
                at: entry.at,
                kind: entry.kind.to_string(),
                event: serde_json::from_str(&entry.event)?,
            })
        };
        entries
            .filter(|(seq, _)| seqs.contains(seq))
            .map(read)
            .collect()
    }

    pub(super) fn messages(&self) -> Result<Vec<StoredMessage>, StoreError> {
        let read = |(seq, part): &(u64, BatchPart)| {
            let new = part.message();
            Ok(StoredMessage {
                seq: *seq,
                in_conversation: new.in_conversation,
                message: serde_json::from_str(&new.message)?,
            })
        };
        self.messages.iter().map(read).collect()
    }

    /// Pending signals.
    pub(super) fn waiting(&self) -> Vec<Signal> {
        let waiting = self.inbox.iter().filter(|stored| !stored.consumed);
        waiting.map(|stored| stored.signal.clone()).collect()
    }

    pub(super) fn is_signalled(&self) -> bool {
        self.inbox.iter().any(|stored| !stored.consumed)
    }

    /// Removes all but the newest entry and the conversation's messages.
    pub(super) fn forget_journal(&mut self) {
        let seq = self.record.seq;
        if self.entries.last().is_some_and(needs_earlier)
            && let Ok(mut newest) = self.entries(seq..=u64::MAX)
            && let (Some(newest), Some(last)) = (newest.pop(), self.entries.pop())
        {
            let entry = NewEntry {
                state: newest.state.as_str().to_owned(),
                ..last.entry().clone()
            };
            self.entries.push(BatchPart {
                batch: Arc::new(Batch::of(vec![entry], Vec::new())),
                index: 0,
            });
        }
        self.entries.drain(..self.entries.len().saturating_sub(1));
        self.entries.shrink_to_fit();
        self.messages
            .retain(|(_, part)| part.message().in_conversation);
        self.messages.shrink_to_fit();
    }

    /// Adds the entries and messages of a batch.
    pub(super) fn write(&mut self, batch: &Arc<Batch>) {
        self.record.seq += batch.entries.len() as u64;
        let seq = self.record.seq;
        let part = |index| BatchPart {
            batch: Arc::clone(batch),
            index,
        };
        self.entries.extend((0..batch.entries.len()).map(part));
        let messages = (0..batch.messages.len()).map(part);
        self.messages.extend(messages.map(|message| (seq, message)));
    }

    pub(super) fn stand(&mut self, standing: &StatusUpdate, now: Timestamp) {
        let waiting = self.is_signalled();
        let record = &mut self.record;
        record.status = standing.status;
        record.stage = standing.stage;
        record.result = standing.result.clone().or(record.result.take());
        record.error = standing.error.clone().or(record.error.take());
        if standing.progress {
            record.claims = 0;
        }
        if standing.status.is_final() {
            record.worker = None;
            record.ready_at = None;
            record.completed_at = Some(now);
        } else if let LeaseAction::Release { wake_in } = standing.hold {
            record.worker = None;
            // A signal that arrived while the task ran must not wait for the next one.
            let wake_at = wake_in.map(|delay| later(now, delay));
            record.ready_at = if waiting { Some(now) } else { wake_at };
        }
    }
}

/// Whether an entry's state is a delta, which needs the state before it.
fn needs_earlier(part: &BatchPart) -> bool {
    StateReader::default().needs_earlier(&part.entry().state)
}
