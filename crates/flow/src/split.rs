//! Splits a message with several requests: "turn on the kitchen lights and play jazz" becomes two parts.
//!
//! A message is split at conjunctions and punctuation, and only if every part matches a sentence of a skill or is a
//! question for a data domain. Words that a part omits are taken from the part next to it: "turn on the kitchen lights
//! and the hallway ones".

use std::collections::BTreeMap;

use convoke_decide::FoundBy;
use convoke_model::{Name, Target};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::calls::is_default;
use crate::catalogue::Catalogue;
use crate::memory::{Memory, PossibleTarget, RequestTarget};
use crate::pointing::{of_agent, points_back};
use crate::referring::of_kind;

/// Limit of requests in one message.
pub(crate) const MAX_PARTS: usize = convoke_model::MAX_TARGETS;

/// Limit of words that a part takes from the part next to it.
const MAX_CARRIED_WORDS: usize = 4;

/// Separators between requests. A longer one comes before those that it contains.
const BETWEEN: [&str; 13] = [
    ", and then ",
    " and then ",
    ", and also ",
    " and also ",
    " as well as ",
    ", then ",
    " then ",
    ", and ",
    " and ",
    " plus ",
    "; ",
    ". ",
    COMMA,
];

const COMMA: &str = ", ";

/// One of several requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The complete request, as if sent alone.
    #[serde(rename = "said")]
    pub(crate) request: String,
    pub(crate) target: RequestTarget,
    pub(crate) confidence: f64,
    /// Whether it refers to the part before it, as "dim them" does. It then runs after that part.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) follows: bool,
    /// Slot values. They distinguish two parts with the same target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) slots: BTreeMap<String, String>,
}

impl Part {
    /// The part as a target of a decision. Its request stands there unless it is the whole message.
    pub(crate) fn decided(&self, message: &str) -> Target {
        let words = |(slot, text): (&String, &String)| (slot.clone(), Value::from(text.as_str()));
        Target {
            request: (self.request != message).then(|| self.request.clone()),
            parameters: self.slots.iter().map(words).collect(),
            ..self.target.target(self.confidence)
        }
    }
}

/// Splits a message into requests. `None` unless it has at least two and each has a known target. The memory of the
/// conversation resolves ambiguous references. Without `may_carry`, parts take no words from each other, and each part after the
/// first has at least two words: "play day and night" is one request.
pub(crate) fn split(
    skills: &Catalogue,
    text: &str,
    memory: &Memory,
    may_carry: bool,
) -> Option<Vec<Part>> {
    let pieces = pieces(text);
    if pieces.len() < 2 || pieces.len() > MAX_PARTS {
        return None;
    }
    let splitter = Splitter {
        skills,
        memory,
        may_carry,
    };
    let mut parts = splitter.segment(&pieces, None)?;
    for part in parts.iter_mut().skip(1) {
        part.follows = points_back(&part.request);
    }
    for value in parts.iter_mut().flat_map(|part| part.slots.values_mut()) {
        if let Some(written) = as_written(text, value) {
            written.clone_into(value);
        }
    }
    Some(parts)
}

/// The words of a value as they stand in the message, with the spaces between them. Pieces that were put together have
/// single ones.
fn as_written<'a>(text: &'a str, value: &str) -> Option<&'a str> {
    let mut words = value.split_whitespace();
    let first = words.next()?;
    let starts = text.match_indices(first).map(|(start, _)| start);
    let mut found = starts.filter_map(|start| {
        let mut end = start + first.len();
        for word in words.clone() {
            let rest = &text[end..];
            let spaces = rest.len() - rest.trim_start().len();
            if spaces == 0 || !rest[spaces..].starts_with(word) {
                return None;
            }
            end += spaces + word.len();
        }
        Some(&text[start..end])
    });
    found.next()
}

/// The texts between separators.
pub(crate) fn texts_between(text: &str) -> Vec<String> {
    let pieces = pieces(text);
    pieces.iter().map(|piece| piece.text.to_owned()).collect()
}

/// The known targets of single pieces of a message.
pub(crate) fn known_pieces(skills: &Catalogue, text: &str) -> Vec<PossibleTarget> {
    let pieces = pieces(text);
    if pieces.len() < 2 {
        return Vec::new();
    }
    let known = pieces
        .iter()
        .filter_map(|piece| part_for(skills, piece.text, None, &Memory::default()));
    let mut targets: Vec<PossibleTarget> = Vec::new();
    for part in known {
        if targets.iter().all(|known| known.target != part.target) {
            targets.push(PossibleTarget {
                target: part.target,
                confidence: part.confidence,
            });
        }
    }
    targets
}

/// Whether a piece after the first is a request by itself: it matches a sentence of a skill, or begins as requests do.
pub(crate) fn holds_a_request(skills: &Catalogue, text: &str) -> bool {
    let pieces = pieces(text);
    pieces.windows(2).any(|pair| {
        let [before, piece] = pair else { return false };
        let decision = skills.decide(piece.text);
        let mut found = decision.candidates.iter();
        found.any(|candidate| candidate.by == FoundBy::Pattern)
            // Commas also occur in names and titles.
            || (before.between != COMMA && skills.begins_a_request(piece.text))
    })
}

/// Finds a split in which every part is known.
struct Splitter<'a> {
    skills: &'a Catalogue,
    /// What the conversation has shown, and its topic.
    memory: &'a Memory,
    /// Whether a part may take words from the part next to it.
    may_carry: bool,
}

impl Splitter<'_> {
    /// Joins pieces into parts so that every part is known. Tries the shortest first part first, which yields the most
    /// parts.
    fn segment(&self, pieces: &[Piece<'_>], before: Option<&Part>) -> Option<Vec<Part>> {
        if pieces.is_empty() {
            return Some(Vec::new());
        }
        for length in 1..=pieces.len() {
            let (first, rest) = pieces.split_at(length);
            let is_whole = before.is_none() && rest.is_empty();
            let text = together(first);
            let next = rest.first().map(|piece| piece.text);
            let Some(part) = self.known(&text, before, next).filter(|_| !is_whole) else {
                continue;
            };
            if let Some(mut parts) = self.segment(rest, Some(&part)) {
                parts.insert(0, part);
                return Some(parts);
            }
        }
        None
    }

    /// The part for a text, unchanged or with words from the part next to it.
    fn known(&self, text: &str, before: Option<&Part>, next: Option<&str>) -> Option<Part> {
        let topic_agent = match before {
            Some(part) => part.target.agent(),
            None => self.memory.topic.as_ref().map(|topic| &topic.agent),
        };
        if self.may_carry {
            let as_it_stands = part_for(self.skills, text, topic_agent, self.memory);
            return as_it_stands.or_else(|| completed(self.skills, text, before, next));
        }
        let is_a_word = before.is_some() && text.split_whitespace().nth(1).is_none();
        let known = (!is_a_word).then(|| part_for(self.skills, text, topic_agent, self.memory));
        known.flatten()
    }
}

/// The part for a text that matches with the first words of the part before it, or the last words of the one after.
fn completed(
    skills: &Catalogue,
    text: &str,
    before: Option<&Part>,
    next: Option<&str>,
) -> Option<Part> {
    if let Some(before) = before {
        let words: Vec<&str> = before.request.split_whitespace().collect();
        let carried = (1..=MAX_CARRIED_WORDS.min(words.len()))
            .filter_map(|number| completed_by(skills, &words[..number].join(" "), text))
            // "Thanks" with the words before it would repeat the same request.
            .find(|part| part.target == before.target && part.slots != before.slots);
        if carried.is_some() {
            return carried;
        }
    }
    let words: Vec<&str> = next?.split_whitespace().collect();
    (1..=MAX_CARRIED_WORDS.min(words.len()))
        .find_map(|number| completed_by(skills, text, &words[words.len() - number..].join(" ")))
}

/// The part for two pieces of a message. Its slots are in one of them: a value over the seam is nothing that the user said.
fn completed_by(skills: &Catalogue, first: &str, last: &str) -> Option<Part> {
    let part = part_for(skills, &format!("{first} {last}"), None, &Memory::default())?;
    let is_said = |value: &String| first.contains(value) || last.contains(value);
    part.slots.values().all(is_said).then_some(part)
}

fn part_for(
    skills: &Catalogue,
    text: &str,
    topic_agent: Option<&Name>,
    memory: &Memory,
) -> Option<Part> {
    let decision = of_kind(skills, skills.decide(text), memory);
    let decision = of_agent(skills, text, decision, topic_agent);
    let chosen = decision.chosen()?;
    let target = skills.target(&chosen.entry)?;
    // Querying a domain changes nothing, so a classifier match is enough.
    if chosen.by != FoundBy::Pattern && !matches!(target, RequestTarget::Domain { .. }) {
        return None;
    }
    Some(Part {
        request: text.to_owned(),
        target: target.clone(),
        confidence: chosen.confidence,
        follows: false,
        slots: chosen.slots.clone(),
    })
}

/// A piece of a message, and the separator after it.
struct Piece<'a> {
    text: &'a str,
    between: &'a str,
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while let Some((at, between)) = first_between(rest) {
        let (text, after) = (&rest[..at], &rest[at + between.len()..]);
        if !text.trim().is_empty() {
            found.push(Piece {
                text: text.trim(),
                between: &rest[at..at + between.len()],
            });
        }
        rest = after;
    }
    if !rest.trim().is_empty() {
        found.push(Piece {
            text: rest.trim(),
            between: "",
        });
    }
    found
}

/// Position and text of the first separator.
fn first_between(text: &str) -> Option<(usize, &'static str)> {
    let lower = text.to_ascii_lowercase();
    let found = BETWEEN.iter().filter_map(|between| {
        let at = lower.find(between)?;
        Some((at, *between))
    });
    // Of several at the same position, takes the longest.
    found.min_by_key(|(at, between)| (*at, std::cmp::Reverse(between.len())))
}

/// Joins pieces with their original separators.
fn together(pieces: &[Piece<'_>]) -> String {
    let mut text = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        text.push_str(piece.text);
        if index + 1 < pieces.len() {
            text.push_str(piece.between);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_split_at_separators() {
        let texts = |text| -> Vec<String> {
            pieces(text)
                .iter()
                .map(|piece| piece.text.to_owned())
                .collect()
        };
        assert_eq!(
            texts("Lights on, and then play jazz; lock up and arm the alarm."),
            ["Lights on", "play jazz", "lock up", "arm the alarm."]
        );
        assert_eq!(texts("play jazz"), ["play jazz"]);
        assert_eq!(texts(" and "), ["and"]);
        assert_eq!(
            together(&pieces("salt and pepper, please")),
            "salt and pepper, please"
        );
        assert!(pieces("ÄND and ünd").len() == 2);
    }
}
