//! What changed from one state to the next, where writing all of it again would make a long task's journal grow
//! with the square of its steps.
//!
//! A delta is the text `~` and a JSON list: `[from, length]` copies bytes of the state before, a text stands for
//! itself. No JSON begins with `~`, so that a state in full and a delta are never taken for each other.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// What a delta begins with.
const MARK: char = '~';

/// Pieces that must be the same, one after the other, before something is taken for a part that stayed.
const SAME: usize = 2;

/// A part of a state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Part<'a> {
    /// As it stood before: where, and how many bytes.
    Kept(usize, usize),
    /// Anew.
    #[serde(borrow)]
    New(std::borrow::Cow<'a, str>),
}

/// Whether a stored state is a delta.
pub(crate) fn is_delta(stored: &str) -> bool {
    stored.starts_with(MARK)
}

/// What leads from one state to the next.
pub(crate) fn between(before: &str, after: &str) -> String {
    let (old, new) = (pieces(before), pieces(after));
    let mut parts = Parts::default();
    let mut index = None;
    // Where in the old state the next piece is expected, and which piece of the new one is next.
    let (mut expected, mut next) = (0, 0);
    while next < new.len() {
        let kept = if is_same(&old, expected, &new, next, 1) {
            Some(expected)
        } else {
            let index = index.get_or_insert_with(|| index_of(&old));
            find(index, &old, expected, &new, next)
        };
        match kept {
            Some(kept) => {
                parts.keep(old[kept].start, old[kept].text.len());
                expected = kept + 1;
            }
            None => parts.add(&after[new[next].start..][..new[next].text.len()]),
        }
        next += 1;
    }
    let text = serde_json::to_string(&parts.0).unwrap_or_default();
    format!("{MARK}{text}")
}

/// The state that a delta leads to, if it is one of the state before.
pub(crate) fn apply(before: &str, delta: &str) -> Option<String> {
    let parts: Vec<Part<'_>> = serde_json::from_str(delta.strip_prefix(MARK)?).ok()?;
    let mut after = String::with_capacity(before.len() + delta.len());
    for part in parts {
        match part {
            Part::Kept(from, length) => {
                after.push_str(before.get(from..from.checked_add(length)?)?);
            }
            Part::New(text) => after.push_str(&text),
        }
    }
    Some(after)
}

/// Parts in order, neighbours put together.
#[derive(Default)]
struct Parts<'a>(Vec<Part<'a>>);

impl<'a> Parts<'a> {
    fn keep(&mut self, from: usize, length: usize) {
        if let Some(Part::Kept(start, kept)) = self.0.last_mut()
            && *start + *kept == from
        {
            *kept += length;
        } else {
            self.0.push(Part::Kept(from, length));
        }
    }

    fn add(&mut self, text: &'a str) {
        if let Some(Part::New(new)) = self.0.last_mut() {
            new.to_mut().push_str(text);
        } else {
            self.0.push(Part::New(text.into()));
        }
    }
}

/// A piece of a state, up to and with a comma, and where it begins.
struct Piece<'a> {
    start: usize,
    text: &'a str,
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut start = 0;
    let piece = |text| {
        let piece = Piece { start, text };
        start += text.len();
        piece
    };
    text.split_inclusive(',').map(piece).collect()
}

fn is_same(old: &[Piece<'_>], at: usize, new: &[Piece<'_>], next: usize, number: usize) -> bool {
    (0..number).all(|ahead| {
        match (old.get(at + ahead), new.get(next + ahead)) {
            (Some(old), Some(new)) => old.text == new.text,
            // At the very end there is nothing more to compare.
            (None, None) => ahead > 0,
            _ => false,
        }
    })
}

/// Where each piece stands in the old state.
fn index_of<'a>(old: &[Piece<'a>]) -> HashMap<&'a str, Vec<usize>> {
    let mut index: HashMap<&str, Vec<usize>> = HashMap::with_capacity(old.len());
    for (place, piece) in old.iter().enumerate() {
        index.entry(piece.text).or_default().push(place);
    }
    index
}

/// The place in the old state, nearest after the one expected, from which on it goes on like the new.
fn find(
    index: &HashMap<&str, Vec<usize>>,
    old: &[Piece<'_>],
    expected: usize,
    new: &[Piece<'_>],
    next: usize,
) -> Option<usize> {
    /// Pieces that stand in very many places are no help in finding one of them.
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
        let delta = between(before, after);
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
