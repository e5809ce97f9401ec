//! The state after an entry, as text: written in full or as what changed, read only where somebody looks into it.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::delta;
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

    /// What it says. Text that is no JSON is the text that it is.
    pub fn value(&self) -> Value {
        self.read()
            .unwrap_or_else(|_| Value::String(self.0.to_string()))
    }

    /// What it says, as a type.
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

/// Writes the states of one task, one after the other: in full, or as what changed since the one before where that
/// is less. Whenever the changes since the last full one come to its size there is a full one again, so that all of
/// them together take little more than what changed, and none is far from a full one.
#[derive(Debug, Default)]
pub struct StateWriter {
    last: String,
    /// The size of the last that was written in full, and of all changes since.
    full: usize,
    changes: usize,
}

impl StateWriter {
    /// A writer that goes on after a state that is written already.
    pub fn after(state: &StateText) -> Self {
        let mut writer = Self::default();
        writer.remember(state.as_str());
        writer
    }

    /// How the next state is written.
    pub fn write(&mut self, state: String) -> String {
        if state.len() >= DELTA_FROM_BYTES && !self.last.is_empty() && self.changes < self.full {
            let delta = delta::between(&self.last, &state);
            if delta.len() < state.len() / 2 {
                self.changes += delta.len();
                self.last = state;
                return delta;
            }
        }
        self.remember(&state);
        state
    }

    /// A state that was written in full.
    fn remember(&mut self, state: &str) {
        self.last.clear();
        if state.len() >= DELTA_FROM_BYTES {
            self.last.push_str(state);
        }
        self.full = state.len();
        self.changes = 0;
    }
}

/// What is wrong with an entry whose state does not follow from the one before it.
pub(crate) fn misfit(seq: u64) -> StoreError {
    StoreError::Corrupt(format!(
        "the state of entry {seq} does not fit the one before it"
    ))
}

/// Reads stored states, one after the other.
#[derive(Debug, Default)]
pub(crate) struct StateReader(Option<StateText>);

impl StateReader {
    /// Whether the next can be read only once the one before it has been.
    pub(crate) fn needs_earlier(&self, stored: &str) -> bool {
        self.0.is_none() && delta::is_delta(stored)
    }

    /// The state that a stored one stands for; nothing, where it does not fit the one before it.
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
            let stored = writer.write(state(step));
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
            assert_eq!(writer.write(state.clone()), state);
        }
    }
}
