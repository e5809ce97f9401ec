//! The state after an entry, as text: stored in full or as a delta, and parsed only when needed.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::delta;
use crate::draft::Draft;
use crate::error::StoreError;

/// Smaller states are always written in full.
const DELTA_FROM_BYTES: usize = 4 * 1_024;

/// A state as JSON text.
#[derive(Clone, PartialEq, Eq)]
pub struct StateText(Arc<str>);

impl StateText {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parsed value. Text that is not JSON becomes a string.
    pub fn value(&self) -> Value {
        self.read()
            .unwrap_or_else(|_| Value::String(self.0.to_string()))
    }

    /// The parsed value as a type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl From<String> for StateText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for StateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for StateText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StateText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Value::deserialize(deserializer)?.to_string().into())
    }
}

/// Writes the consecutive states of one task: in full, or as a delta to the previous one if that is smaller. When the
/// deltas since the last full state reach its size, the next is written in full. Total size thus stays proportional to
/// the changes, and reading a state needs few deltas.
#[derive(Debug, Default)]
pub struct StateWriter {
    /// The previous state, if it is large enough for a delta.
    last: Option<Draft>,
    /// The size of the last full state, and of all deltas since.
    full: usize,
    changes: usize,
    /// Whether the previous state had growing parts.
    has_parts: bool,
    effort: usize,
}

impl StateWriter {
    /// A writer that continues after a stored state.
    pub fn after(state: &StateText) -> Self {
        let mut writer = Self::default();
        let text = state.as_str();
        writer.full = text.len();
        writer.last = (text.len() >= DELTA_FROM_BYTES).then(|| text.to_owned().into());
        writer
    }

    /// Encodes the next state. Of its [`GrowingMap`](crate::GrowingMap)s and
    /// [`GrowingList`](crate::GrowingList)s it looks only at what was added or changed.
    pub fn write(&mut self, state: &impl Serialize) -> String {
        let state = Draft::of(state, self.has_parts);
        self.has_parts = !state.parts.is_empty();
        self.write_draft(state)
    }

    /// Encodes the next state, given as JSON text.
    pub fn write_text(&mut self, state: String) -> String {
        self.write_draft(state.into())
    }

    /// Work so far: bytes serialised or compared, and segments visited.
    pub fn effort(&self) -> usize {
        self.effort
    }

    fn write_draft(&mut self, state: Draft) -> String {
        let length = state.length();
        self.effort += state.text.len();
        if length >= DELTA_FROM_BYTES
            && self.changes < self.full
            && let Some(delta) = self.delta(&state, length)
        {
            self.changes += delta.len();
            self.last = Some(state);
            return delta;
        }
        self.effort += length;
        self.full = length;
        self.changes = 0;
        if length < DELTA_FROM_BYTES {
            self.last = None;
            return state.into_whole();
        }
        let whole = state.whole();
        self.last = Some(state);
        whole
    }

    /// The delta from the previous state, if it is smaller than half of this one.
    fn delta(&mut self, state: &Draft, length: usize) -> Option<String> {
        let last = self.last.as_ref()?;
        let (mut delta, effort) = delta::between(last, state);
        self.effort += effort;
        let has_parts = !(last.parts.is_empty() && state.parts.is_empty());
        if has_parts && delta.len() >= length / 4 {
            // Text that moved into or out of a growing part is found only by comparing the whole texts.
            let (of_whole, effort) = delta::between(&last.whole().into(), &state.whole().into());
            self.effort += effort;
            if of_whole.len() < delta.len() {
                delta = of_whole;
            }
        }
        (delta.len() < length / 2).then_some(delta)
    }
}

/// The error for a delta that does not fit the previous state.
pub(crate) fn misfit(seq: u64) -> StoreError {
    StoreError::Corrupt(format!(
        "the state of entry {seq} does not fit the one before it"
    ))
}

/// Reads consecutive stored states.
#[derive(Debug, Default)]
pub(crate) struct StateReader(Option<StateText>);

impl StateReader {
    /// Whether a stored state is a delta, which needs the previous state.
    pub(crate) fn needs_earlier(&self, stored: &str) -> bool {
        self.0.is_none() && delta::is_delta(stored)
    }

    /// Decodes the next stored state. `None` if a delta does not fit the previous state.
    pub(crate) fn read(&mut self, stored: &str) -> Option<StateText> {
        let text = if delta::is_delta(stored) {
            delta::apply(self.0.as_ref()?.as_str(), stored)?
        } else {
            stored.to_owned()
        };
        let state = StateText::from(text);
        self.0 = Some(state.clone());
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_back_as_they_were_and_take_no_more_than_what_changed() {
        let state = |step: usize| {
            let list: Vec<String> = (0..step).map(|done| format!("\"result {done}\"")).collect();
            format!("{{\"step\":{step},\"results\":[{}]}}", list.join(","))
        };
        let mut writer = StateWriter::default();
        let mut reader = StateReader::default();
        let (mut written, mut whole) = (0, 0);
        for step in 0..2_000 {
            let stored = writer.write_text(state(step));
            written += stored.len();
            whole += state(step).len();
            assert_eq!(reader.read(&stored).unwrap().as_str(), state(step));
        }
        assert!(written * 20 < whole, "{written} of {whole}");
    }

    #[test]
    fn small_states_are_written_in_full() {
        let mut writer = StateWriter::default();
        for step in 0..5 {
            let state = format!("{{\"step\":{step}}}");
            assert_eq!(writer.write_text(state.clone()), state);
        }
    }
}
