//! One task as it is kept in memory.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use uuid::Uuid;

use super::StoredTask;
use crate::error::StoreError;
use crate::journal::{
    Entry, JournalEvent, LeaseAction, NewEntry, NewMessage, StatusUpdate, StoredMessage,
};
use crate::signal::Signal;
use crate::state::{StateReader, misfit};
use crate::task::later;

impl StoredTask {
    /// The owner's key for it, which no other task has.
    pub(super) fn unique_key(&self) -> Option<(String, Uuid, String)> {
        let record = &self.record;
        let key = self.key.clone()?;
        Some((record.app.clone(), record.owner, key))
    }

    /// The sequence of the oldest entry that is kept.
    fn first_seq(&self) -> u64 {
        self.record.seq + 1 - self.entries.len() as u64
    }

    pub(super) fn entries(&self, seqs: RangeInclusive<u64>) -> Result<Vec<Entry>, StoreError> {
        let (from, to) = seqs.into_inner();
        let first = self.first_seq();
        let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let skipped = skipped.min(self.entries.len());
        // What changed can be told only from the last state that was written in full.
        let needs_earlier = |entry: &NewEntry| StateReader::default().needs_earlier(&entry.state);
        let read_from = (0..=skipped)
            .rev()
            .find(|place| !self.entries.get(*place).is_some_and(needs_earlier))
            .unwrap_or(0);
        let mut states = StateReader::default();
        let entries = (first..=to).zip(&self.entries).skip(read_from);
        let read = entries.map(|(seq, entry)| {
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
        let read = |(seq, entry): (u64, &NewEntry)| {
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
        let read = |(seq, new): &(u64, NewMessage)| {
            Ok(StoredMessage {
                seq: *seq,
                spoken: new.spoken,
                message: serde_json::from_str(&new.message)?,
            })
        };
        self.messages.iter().map(read).collect()
    }

    /// Signals that were not taken in yet.
    pub(super) fn waiting(&self) -> Vec<Signal> {
        let waiting = self.inbox.iter().filter(|kept| !kept.consumed);
        waiting.map(|kept| kept.signal.clone()).collect()
    }

    pub(super) fn is_signalled(&self) -> bool {
        self.inbox.iter().any(|kept| !kept.consumed)
    }

    /// Keeps the newest entry and what was spoken.
    pub(super) fn forget_journal(&mut self) {
        let newest = self.entries(self.record.seq..=u64::MAX);
        if let Ok(mut newest) = newest
            && let (Some(newest), Some(last)) = (newest.pop(), self.entries.last_mut())
        {
            newest.state.as_str().clone_into(&mut last.state);
        }
        self.entries.drain(..self.entries.len().saturating_sub(1));
        self.entries.shrink_to_fit();
        self.messages.retain(|(_, message)| message.spoken);
        self.messages.shrink_to_fit();
    }

    pub(super) fn write(&mut self, entries: Vec<NewEntry>, messages: Vec<NewMessage>) {
        self.record.seq += entries.len() as u64;
        self.entries.extend(entries);
        let seq = self.record.seq;
        self.messages
            .extend(messages.into_iter().map(|message| (seq, message)));
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
            // A signal that came while the task was at work must not wait for the next one.
            let wake_at = wake_in.map(|delay| later(now, delay));
            record.ready_at = if waiting { Some(now) } else { wake_at };
        }
    }
}
