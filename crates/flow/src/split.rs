//! Several requests in one message: "turn on the kitchen lights and play jazz" becomes a part for each.
//!
//! A message is cut where people put requests together, and only if every part fits a sentence of some skill, or is a
//! question for a data domain. What a part leaves out because the one beside it says it ("turn on the kitchen lights and
//! the hallway ones") is taken from there.

use std::collections::BTreeMap;

use convoke_decide::FoundBy;
use convoke_model::Name;
use serde::{Deserialize, Serialize};

use crate::calls::is_default;
use crate::catalogue::Catalogue;
use crate::memory::RequestTarget;
use crate::pointing::{of_agent, points_back};

/// Requests in one message, at most.
pub(crate) const MAX_PARTS: usize = convoke_model::MAX_TARGETS;

/// Words that a part may take from the one beside it.
const CARRIED: usize = 4;

/// What stands between two requests, the longer before what it contains.
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
    /// The request in full, as if it had been said alone.
    pub(crate) said: String,
    pub(crate) target: RequestTarget,
    pub(crate) confidence: f64,
    /// Whether it points at the part before it, as "dim them" does, and so has to come after it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) follows: bool,
    /// What it says, by which two parts that ask for the same are told.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) slots: BTreeMap<String, String>,
}

/// The requests of a message, if it is several and each of them is known, in the light of which agent was spoken of
/// before. Where parts may not take words from each other, each has to be a request as it stands, and more than a word:
/// "play day and night" says no good night.
pub(crate) fn split(
    skills: &Catalogue,
    text: &str,
    spoken_of: Option<&Name>,
    may_carry: bool,
) -> Option<Vec<Part>> {
    let pieces = pieces(text);
    if pieces.len() < 2 || pieces.len() > MAX_PARTS {
        return None;
    }
    let cutting = Splitter {
        skills,
        spoken_of,
        may_carry,
    };
    let mut parts = cutting.segment(&pieces, None)?;
    for part in parts.iter_mut().skip(1) {
        part.follows = points_back(&part.said);
    }
    Some(parts)
}

/// The texts of a message between what people put requests together with.
pub(crate) fn texts_between(text: &str) -> Vec<String> {
    let pieces = pieces(text);
    pieces.iter().map(|piece| piece.text.to_owned()).collect()
}

/// What single pieces of a message are for, though not all of it is known.
pub(crate) fn known_pieces(skills: &Catalogue, text: &str) -> Vec<RequestTarget> {
    let pieces = pieces(text);
    if pieces.len() < 2 {
        return Vec::new();
    }
    let known = pieces
        .iter()
        .filter_map(|piece| decided(skills, piece.text, None));
    let mut targets: Vec<RequestTarget> = Vec::new();
    for part in known {
        if !targets.contains(&part.target) {
            targets.push(part.target);
        }
    }
    targets
}

/// Whether behind the first of what is put together there is something that plainly is a request of its own: a sentence
/// of some skill, or what begins as people's requests do.
pub(crate) fn holds_a_request(skills: &Catalogue, said: &str) -> bool {
    let pieces = pieces(said);
    pieces.windows(2).any(|pair| {
        let [before, piece] = pair else { return false };
        let decision = skills.decide(piece.text);
        let mut found = decision.candidates.iter();
        found.any(|candidate| candidate.by == FoundBy::Pattern)
            // Names and titles have commas too.
            || (before.between != COMMA && skills.begins_a_request(piece.text))
    })
}

/// How a message is cut.
struct Splitter<'a> {
    skills: &'a Catalogue,
    /// The agent that was spoken of before the message.
    spoken_of: Option<&'a Name>,
    /// Whether a part may take words from the one beside it.
    may_carry: bool,
}

impl Splitter<'_> {
    /// Takes pieces off the beginning, one or several together, such that every part is known; the shortest first, so
    /// that there are as many parts as can be.
    fn segment(&self, pieces: &[Piece<'_>], before: Option<&Part>) -> Option<Vec<Part>> {
        if pieces.is_empty() {
            return Some(Vec::new());
        }
        for length in 1..=pieces.len() {
            let (first, rest) = pieces.split_at(length);
            let is_whole = before.is_none() && rest.is_empty();
            let said = together(first);
            let next = rest.first().map(|piece| piece.text);
            let Some(part) = self.known(&said, before, next).filter(|_| !is_whole) else {
                continue;
            };
            if let Some(mut parts) = self.segment(rest, Some(&part)) {
                parts.insert(0, part);
                return Some(parts);
            }
        }
        None
    }

    /// A part as it stands, or with words from the one beside it.
    fn known(&self, said: &str, before: Option<&Part>, next: Option<&str>) -> Option<Part> {
        let spoken_of = match before {
            Some(part) => part.target.agent(),
            None => self.spoken_of,
        };
        if self.may_carry {
            let as_it_stands = decided(self.skills, said, spoken_of);
            return as_it_stands.or_else(|| completed(self.skills, said, before, next));
        }
        let is_a_word = before.is_some() && said.split_whitespace().nth(1).is_none();
        let known = (!is_a_word).then(|| decided(self.skills, said, spoken_of));
        known.flatten()
    }
}

/// A part that fits a sentence with the beginning of the one before it, or the end of the one after.
fn completed(
    skills: &Catalogue,
    said: &str,
    before: Option<&Part>,
    next: Option<&str>,
) -> Option<Part> {
    if let Some(before) = before {
        let words: Vec<&str> = before.said.split_whitespace().collect();
        let carried = (1..=CARRIED.min(words.len()))
            .map(|number| format!("{} {said}", words[..number].join(" ")))
            .filter_map(|longer| decided(skills, &longer, None))
            // "Thanks" with the words before it is what was asked for already.
            .find(|part| part.target == before.target && part.slots != before.slots);
        if carried.is_some() {
            return carried;
        }
    }
    let words: Vec<&str> = next?.split_whitespace().collect();
    (1..=CARRIED.min(words.len()))
        .map(|number| format!("{said} {}", words[words.len() - number..].join(" ")))
        .find_map(|longer| decided(skills, &longer, None))
}

fn decided(skills: &Catalogue, said: &str, spoken_of: Option<&Name>) -> Option<Part> {
    let decision = of_agent(skills, said, skills.decide(said), spoken_of);
    let chosen = decision.chosen()?;
    let target = skills.goal(&chosen.entry)?;
    // To ask a domain changes nothing, so that it is enough for it to be likely.
    if chosen.by != FoundBy::Pattern && !matches!(target, RequestTarget::Domain { .. }) {
        return None;
    }
    Some(Part {
        said: said.to_owned(),
        target: target.clone(),
        confidence: chosen.confidence,
        follows: false,
        slots: chosen.slots.clone(),
    })
}

/// A piece of a message, and what stands between it and the next.
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

/// Where the first of the words between requests stands, and which it is.
fn first_between(text: &str) -> Option<(usize, &'static str)> {
    let lower = text.to_ascii_lowercase();
    let found = BETWEEN.iter().filter_map(|between| {
        let at = lower.find(between)?;
        Some((at, *between))
    });
    // Of those that begin at the same place the longest stands first.
    found.min_by_key(|(at, between)| (*at, std::cmp::Reverse(between.len())))
}

/// Pieces as they stood in the message.
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
    fn a_message_is_cut_where_people_put_requests_together() {
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
