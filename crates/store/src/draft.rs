//! A state on its way into the journal: its text, and the segments of its growing parts, which are not serialised again.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;

use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};

use crate::journal;

/// A piece of a growing part's text. While two states share it, it does not change: they are the same where their
/// segments are.
pub(crate) type Segment = Arc<String>;

/// A state's text, in which segments stand at some places.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// What was serialised.
    pub(crate) text: String,
    /// The segments, by the place in the text where they stand.
    pub(crate) parts: Vec<(usize, Vec<Segment>)>,
}

/// What a growing part is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartForm {
    List,
    Map,
    /// More entries of the map that is being written, in the place of an entry whose key is [`REST`].
    Rest,
}

/// The key that is written before more entries of a map, and is removed again.
const REST: &str = "";

/// The key as JSON, with the colon.
const REST_KEY: &str = "\"\":";

/// What the thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DraftMode {
    No,
    /// It writes a state that is not expected to have growing parts, and has found none so far.
    Plain,
    /// It has found one.
    Found,
    /// It writes a state with growing parts.
    Parts,
    /// The next write stands for a growing part.
    Part(PartForm),
}

thread_local! {
    static MODE: Cell<DraftMode> = const { Cell::new(DraftMode::No) };
    /// The segments of the parts so far.
    static SEGMENTS: RefCell<Vec<Vec<Segment>>> = const { RefCell::new(Vec::new()) };
}

impl From<String> for Draft {
    fn from(text: String) -> Self {
        Self {
            text,
            parts: Vec::new(),
        }
    }
}

impl Draft {
    /// Serialises a state, except for its growing parts. Where it is expected to have none, that costs the least.
    pub(crate) fn of(state: &impl Serialize, has_parts: bool) -> Self {
        let plain = if has_parts { None } else { plain(state) };
        let written = plain.map_or_else(|| with_parts(state), |written| written.map(Self::from));
        MODE.set(DraftMode::No);
        written.unwrap_or_else(|error| journal::unwritable(&error).into())
    }

    /// Bytes of the whole text.
    pub(crate) fn length(&self) -> usize {
        let segments = self.parts.iter().flat_map(|(_, segments)| segments);
        self.text.len() + segments.map(|segment| segment.len()).sum::<usize>()
    }

    /// The whole text.
    pub(crate) fn into_whole(self) -> String {
        if self.parts.is_empty() {
            return self.text;
        }
        self.whole()
    }

    /// The whole text.
    pub(crate) fn whole(&self) -> String {
        let mut whole = String::with_capacity(self.length());
        let mut copied = 0;
        for (place, segments) in &self.parts {
            whole.push_str(&self.text[copied..*place]);
            copied = *place;
            for segment in segments {
                whole.push_str(segment);
            }
        }
        whole.push_str(&self.text[copied..]);
        whole
    }
}

/// The text of a state without growing parts. `None`: it has some.
fn plain(state: &impl Serialize) -> Option<serde_json::Result<String>> {
    MODE.set(DraftMode::Plain);
    let written = journal::write_text(state);
    (MODE.get() == DraftMode::Plain).then_some(written)
}

fn with_parts(state: &impl Serialize) -> serde_json::Result<Draft> {
    let (mut text, mut places) = (Vec::new(), Vec::new());
    MODE.set(DraftMode::Parts);
    let writer = DraftWriter {
        text: &mut text,
        places: &mut places,
    };
    let written = serde_json::to_writer(writer, state);
    let segments = SEGMENTS.take();
    written.map(|()| Draft {
        text: String::from_utf8(text).unwrap_or_default(),
        parts: places.into_iter().zip(segments).collect(),
    })
}

/// Whether a growing part is to be written by [`write_part`].
pub(crate) fn is_drafting() -> bool {
    MODE.get() != DraftMode::No
}

/// Writes a growing part into the draft of this thread. The serializer must be the one that writes the draft.
pub(crate) fn write_part<S: Serializer>(
    serializer: S,
    form: PartForm,
    segments: impl Iterator<Item = Segment>,
) -> Result<S::Ok, S::Error> {
    if MODE.get() != DraftMode::Parts {
        MODE.set(DraftMode::Found);
        return serializer.serialize_unit();
    }
    SEGMENTS.with_borrow_mut(|parts| parts.push(segments.collect()));
    MODE.set(DraftMode::Part(form));
    let written = serializer.serialize_unit()?;
    if MODE.get() != DraftMode::Parts {
        return Err(S::Error::custom(
            "a growing part is written into its state only",
        ));
    }
    Ok(written)
}

/// Writes more entries into a map that is being written into the draft. There is at least one.
pub(crate) fn write_rest<M: SerializeMap>(
    map: &mut M,
    segments: Vec<Segment>,
) -> Result<(), M::Error> {
    struct Rest(Vec<Segment>);

    impl Serialize for Rest {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            write_part(serializer, PartForm::Rest, self.0.iter().cloned())
        }
    }

    map.serialize_entry(REST, &Rest(segments))
}

/// Writes a state, and notes where its growing parts stand.
struct DraftWriter<'a> {
    text: &'a mut Vec<u8>,
    places: &'a mut Vec<usize>,
}

impl io::Write for DraftWriter<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let DraftMode::Part(form) = MODE.get() else {
            self.text.extend_from_slice(bytes);
            return Ok(());
        };
        MODE.set(DraftMode::Parts);
        let brackets = match form {
            PartForm::List => "[]",
            PartForm::Map => "{}",
            PartForm::Rest => {
                let key = self.text.len().saturating_sub(REST_KEY.len());
                self.text.truncate(key);
                ""
            }
        };
        let (open, close) = brackets.split_at(brackets.len() / 2);
        self.text.extend_from_slice(open.as_bytes());
        self.places.push(self.text.len());
        self.text.extend_from_slice(close.as_bytes());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
