//! Deltas between consecutive states. Full states would make a long task's journal grow with the square of its steps.
//!
//! Growing parts of a state are compared only where they do not share their segments.
//!
//! A delta is `~` and a JSON list: `[from, length]` copies bytes of the previous state, a string is inserted. No JSON
//! begins with `~`, so full states and deltas cannot be confused.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::draft::{Draft, Segment};

/// First character of a delta.
const MARK: char = '~';

/// Number of consecutive equal pieces that count as an unchanged part.
const SAME: usize = 2;

/// A part of a state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Part<'a> {
    /// Copied from the previous state: offset and length in bytes.
    Copied(usize, usize),
    /// Inserted text.
    #[serde(borrow)]
    New(std::borrow::Cow<'a, str>),
}

/// Whether a stored state is a delta.
pub(crate) fn is_delta(stored: &str) -> bool {
    stored.starts_with(MARK)
}

/// Computes the delta between two states, and how many bytes and segments were visited for it.
pub(crate) fn between(before: &Draft, after: &Draft) -> (String, usize) {
    let mut earlier = EarlierText::default();
    let mut segments = EarlierSegments::default();
    let mut start = 0;
    for (text, part) in slices(before) {
        earlier.add(start, text);
        start += text.len();
        segments.parts.push(segments.all.len());
        for segment in part {
            segments.all.push((start, segment));
            start += segment.len();
        }
    }
    let same_parts = before.parts.len() == after.parts.len();
    let mut delta = Delta::default();
    for (number, (text, part)) in slices(after).enumerate() {
        earlier.compare(&mut delta, text);
        if same_parts {
            segments.begin_part(number);
        }
        for segment in part {
            segments.compare(&mut delta, segment);
        }
    }
    let text = serde_json::to_string(&delta.parts).unwrap_or_default();
    let visited = before.text.len() + after.text.len() + delta.segments;
    (format!("{MARK}{text}"), visited)
}

/// The text of a draft up to each of its parts and after the last, with the segments that stand there.
fn slices(draft: &Draft) -> impl Iterator<Item = (&str, &[Segment])> {
    let ends = draft.parts.iter().map(|(place, part)| (*place, &part[..]));
    let end: (usize, &[Segment]) = (draft.text.len(), &[]);
    ends.chain([end]).scan(0, |copied, (place, part)| {
        let text = &draft.text[*copied..place];
        *copied = place;
        Some((text, part))
    })
}

/// Applies a delta to the previous state. `None` if it does not fit.
pub(crate) fn apply(before: &str, delta: &str) -> Option<String> {
    let parts: Vec<Part<'_>> = serde_json::from_str(delta.strip_prefix(MARK)?).ok()?;
    let mut after = String::with_capacity(before.len() + delta.len());
    for part in parts {
        match part {
            Part::Copied(from, length) => {
                after.push_str(before.get(from..from.checked_add(length)?)?);
            }
            Part::New(text) => after.push_str(&text),
        }
    }
    Some(after)
}

/// Parts in order. Adjacent parts are merged.
#[derive(Default)]
struct Delta<'a> {
    parts: Vec<Part<'a>>,
    /// Segments that were passed, and the bytes of those that were compared.
    segments: usize,
}

impl<'a> Delta<'a> {
    fn copy(&mut self, from: usize, length: usize) {
        if let Some(Part::Copied(start, copied)) = self.parts.last_mut()
            && *start + *copied == from
        {
            *copied += length;
        } else {
            self.parts.push(Part::Copied(from, length));
        }
    }

    fn add(&mut self, text: &'a str) {
        if let Some(Part::New(new)) = self.parts.last_mut() {
            new.to_mut().push_str(text);
        } else {
            self.parts.push(Part::New(text.into()));
        }
    }
}

/// A piece of a state, up to and including a comma, with its offset.
struct Piece<'a> {
    start: usize,
    text: &'a str,
}

fn pieces(mut start: usize, text: &str) -> impl Iterator<Item = Piece<'_>> {
    text.split_inclusive(',').map(move |text| {
        let piece = Piece { start, text };
        start += text.len();
        piece
    })
}

/// The text of the state before, apart from its segments.
#[derive(Default)]
struct EarlierText<'a> {
    pieces: Vec<Piece<'a>>,
    index: Option<HashMap<&'a str, Vec<usize>>>,
    /// Where the next piece is expected.
    expected: usize,
}

impl<'a> EarlierText<'a> {
    /// Adds text that stands at a place in the state before.
    fn add(&mut self, start: usize, text: &'a str) {
        self.pieces.extend(pieces(start, text));
    }

    /// Adds text of the state after to the delta.
    fn compare(&mut self, delta: &mut Delta<'a>, after: &'a str) {
        let old = &self.pieces;
        let new: Vec<_> = pieces(0, after).collect();
        for (next, piece) in new.iter().enumerate() {
            let copied = if is_same(old, self.expected, &new, next, 1) {
                Some(self.expected)
            } else {
                let index = self.index.get_or_insert_with(|| index_of(old));
                find(index, old, self.expected, &new, next)
            };
            match copied {
                Some(copied) => {
                    delta.copy(old[copied].start, old[copied].text.len());
                    self.expected = copied + 1;
                }
                None => delta.add(piece.text),
            }
        }
    }
}

/// The segments of the state before, each with where it begins.
#[derive(Default)]
struct EarlierSegments<'a> {
    all: Vec<(usize, &'a Segment)>,
    /// Where the segments of each part begin.
    parts: Vec<usize>,
    /// The next one that is expected, and the end of those that it may be.
    expected: usize,
    end: Option<usize>,
}

impl<'a> EarlierSegments<'a> {
    fn begin_part(&mut self, number: usize) {
        self.expected = self.parts.get(number).copied().unwrap_or(self.all.len());
        self.end = self.parts.get(number + 1).copied();
    }

    /// Adds a segment of the state after to the delta.
    fn compare(&mut self, delta: &mut Delta<'a>, segment: &'a Segment) {
        delta.segments += 1;
        let is_same = |(_, earlier): &(usize, &Segment)| Arc::ptr_eq(earlier, segment);
        let expected = self.all.get(self.expected).filter(|one| is_same(one));
        let copied = match expected {
            Some(_) => Some(self.expected),
            None => self.all.iter().position(is_same),
        };
        if let Some(copied) = copied {
            delta.copy(self.all[copied].0, segment.len());
            self.expected = copied + 1;
            return;
        }
        delta.segments += segment.len();
        let end = self.end.unwrap_or(self.all.len());
        match self.all.get(self.expected).filter(|_| self.expected < end) {
            Some((start, earlier)) => {
                compare_segments(delta, *start, earlier, segment);
                self.expected += 1;
            }
            None => delta.add(segment),
        }
    }
}

/// Adds a segment to the delta that was another one before.
fn compare_segments<'a>(delta: &mut Delta<'a>, start: usize, before: &'a str, after: &'a str) {
    let mut same = same_at_start(before.as_bytes(), after.as_bytes());
    if same < before.len() {
        let comma = before.as_bytes()[..same]
            .iter()
            .rposition(|byte| *byte == b',');
        same = comma.map_or(0, |comma| comma + 1);
    }
    if same > 0 {
        delta.copy(start, same);
    }
    let mut earlier = EarlierText::default();
    earlier.add(start + same, &before[same..]);
    earlier.compare(delta, &after[same..]);
}

/// How many bytes are the same at the start of two texts.
fn same_at_start(one: &[u8], other: &[u8]) -> usize {
    const AT_ONCE: usize = 64;
    let chunks = one.chunks_exact(AT_ONCE).zip(other.chunks_exact(AT_ONCE));
    let same = chunks.take_while(|(one, other)| one == other).count() * AT_ONCE;
    let rest = one[same..].iter().zip(&other[same..]);
    same + rest.take_while(|(one, other)| one == other).count()
}

fn is_same(old: &[Piece<'_>], at: usize, new: &[Piece<'_>], next: usize, number: usize) -> bool {
    (0..number).all(|ahead| {
        match (old.get(at + ahead), new.get(next + ahead)) {
            (Some(old), Some(new)) => old.text == new.text,
            // At the end there is nothing more to compare.
            (None, None) => ahead > 0,
            _ => false,
        }
    })
}

/// Indexes of each piece in the old state.
fn index_of<'a>(old: &[Piece<'a>]) -> HashMap<&'a str, Vec<usize>> {
    let mut index: HashMap<&str, Vec<usize>> = HashMap::with_capacity(old.len());
    for (place, piece) in old.iter().enumerate() {
        index.entry(piece.text).or_default().push(place);
    }
    index
}

/// The index in the old state, nearest after the expected one, from which it continues like the new.
fn find(
    index: &HashMap<&str, Vec<usize>>,
    old: &[Piece<'_>],
    expected: usize,
    new: &[Piece<'_>],
    next: usize,
) -> Option<usize> {
    /// Pieces with very many occurrences do not help to locate one.
    const LOOKED_AT: usize = 32;
    let places = index.get(new[next].text)?;
    let first = places.partition_point(|place| *place < expected);
    let after = places[first..].iter().take(LOOKED_AT);
    let before = places[..first].iter().rev().take(LOOKED_AT);
    after
        .chain(before)
        .copied()
        .find(|place| is_same(old, *place, new, next, SAME))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn check(before: &str, after: &str) -> usize {
        let draft = |text: &str| Draft::from(text.to_owned());
        let (delta, _) = between(&draft(before), &draft(after));
        assert!(is_delta(&delta));
        assert_eq!(apply(before, &delta).as_deref(), Some(after), "{delta}");
        delta.len()
    }

    fn walk(step: usize) -> String {
        let results: serde_json::Map<String, Value> = (0..step)
            .map(|done| {
                (
                    done.to_string(),
                    json!({ "result": done * 7, "unit": "ms" }),
                )
            })
            .collect();
        json!({
            "status": "working", "open": [{ "id": format!("{step:08x}"), "label": "each" }],
            "items": (0..1_000).collect::<Vec<_>>(), "results": results, "begun": step + 4,
        })
        .to_string()
    }

    #[test]
    fn what_a_step_changes_is_small_however_long_the_state() {
        for step in [1, 10, 500, 999] {
            let size = check(&walk(step), &walk(step + 1));
            assert!(size < 300, "{size} bytes at step {step}");
        }
    }

    #[test]
    fn something_else_altogether_is_written_anew() {
        check("", "");
        check("", "{}");
        check("{}", "");
        check(r#"{"a":1,"b":2}"#, r#"["x","y","ü,ö"]"#);
        assert_eq!(apply("short", "~[[0,99]]"), None);
        assert_eq!(apply("ü", "~[[1,1]]"), None);
        assert_eq!(apply("{}", "{}"), None);
        assert_eq!(apply("{}", "~nonsense"), None);
    }

    /// A state with two growing parts.
    fn in_parts(one: &[&str], other: &[&str]) -> Draft {
        let part = |texts: &[&str]| -> Vec<Segment> {
            let texts = texts.iter();
            texts.map(|text| Arc::new((*text).to_owned())).collect()
        };
        Draft {
            text: "{}".to_owned(),
            parts: vec![(1, part(one)), (1, part(other))],
        }
    }

    #[test]
    fn a_changed_segment_is_compared_with_the_one_at_its_place_in_its_part_only() {
        let before = in_parts(&[r#""k":1,"z":2,"q":9"#], &[r#","k":1,"y":3"#]);
        let changed = [r#""k":1,"z":2,"q":8"#, r#","k":1,"z":2"#];
        let after = in_parts(&changed, &[r#","k":1,"y":3,"n":4"#]);
        let (delta, visited) = between(&before, &after);
        let expected = json!([
            [0, 13],
            r#""q":8,"k":1,"z":2"#,
            [18, 12],
            r#","n":4"#,
            [30, 1]
        ]);
        assert_eq!(delta, format!("~{expected}"));
        assert_eq!(apply(&before.whole(), &delta), Some(after.whole()));
        // The texts, the three segments, and what they hold.
        assert_eq!(visited, 2 + 2 + 3 + 17 + 12 + 18);
    }

    #[test]
    fn segments_that_have_nothing_in_common_are_not_cut_within_a_character() {
        for (before, after, expected) in [
            ("one", "two", json!(["two"])),
            (",ü", ",ö", json!([[7, 1], "ö"])),
            ("ü", "ö", json!(["ö"])),
        ] {
            let mut delta = Delta::default();
            compare_segments(&mut delta, 7, before, after);
            assert_eq!(json!(delta.parts), expected, "{before} {after}");
        }
    }

    proptest! {
        #[test]
        fn a_delta_always_leads_to_the_state(
            words in prop::collection::vec("[a-dü,\"{}]{0,6}", 0..60),
            changes in prop::collection::vec((any::<prop::sample::Index>(), "[a-dü,]{0,9}"), 0..8),
        ) {
            let before = words.concat();
            let mut changed = words;
            for (place, word) in changes {
                if changed.is_empty() {
                    changed.push(word);
                } else {
                    let place = place.index(changed.len());
                    changed[place] = word;
                }
            }
            check(&before, &changed.concat());
        }
    }
}
