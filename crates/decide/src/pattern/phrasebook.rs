//! Named parts of sentences: what each stands for, and their place in the patterns that use them.

use std::collections::BTreeMap;

use super::syntax::{Fault, Part, is_name, normal_name, parse};
use crate::problem::BuildProblem;

/// How deep phrases may stand within phrases.
const MAX_DEPTH: usize = 16;

/// The most words, slots and brackets that a pattern may have once its phrases are put in.
const MAX_PARTS: usize = 1_000;

/// How alike two names must be for one to be offered for the other, from 0 to 1.
const ALIKE: f64 = 0.6;

/// All phrases of a catalogue, each fully expanded.
#[derive(Debug, Default)]
pub(crate) struct Phrasebook {
    /// Nothing where the phrase is wrong, which has been reported.
    phrases: BTreeMap<String, Option<Vec<Part>>>,
}

/// Why a pattern could not be expanded.
#[derive(Debug)]
pub(crate) enum PhraseError {
    /// The pattern itself is wrong.
    Pattern(Fault),
    /// A phrase that it uses is wrong, which has been reported.
    Phrase,
}

impl From<Fault> for PhraseError {
    fn from(fault: Fault) -> Self {
        Self::Pattern(fault)
    }
}

/// Phrases as they were written, while they are being expanded.
struct Expansion {
    parsed: BTreeMap<String, Option<Vec<Part>>>,
    /// The phrases that are being expanded, from the outermost inwards.
    open: Vec<String>,
    done: Phrasebook,
    /// What is wrong with which phrase.
    faults: Vec<(String, Fault)>,
}

impl Phrasebook {
    /// Reads and expands all phrases, and reports everything that is wrong with them.
    pub(crate) fn read(
        phrases: &BTreeMap<String, String>,
        problems: &mut Vec<BuildProblem>,
    ) -> Self {
        let mut texts = BTreeMap::new();
        let mut faults = Vec::new();
        let mut parsed = BTreeMap::new();
        for (written, text) in phrases {
            let name = normal_name(written);
            let read = if is_name(&name) {
                parse(text)
            } else {
                Err(Fault::new(
                    "pattern.phrase_name",
                    1,
                    format!("`{name}` is no phrase name; use lower-case letters, digits and `_`"),
                ))
            };
            match read {
                Ok(parts) => {
                    parsed.insert(name.clone(), Some(parts));
                }
                Err(fault) => {
                    parsed.insert(name.clone(), None);
                    faults.push((name.clone(), fault));
                }
            }
            texts.insert(name, (written, text));
        }
        let names: Vec<String> = parsed.keys().cloned().collect();
        let mut expansion = Expansion {
            parsed,
            open: Vec::new(),
            done: Self::default(),
            faults,
        };
        for name in &names {
            expansion.phrase(name);
        }
        for (name, fault) in expansion.faults {
            if let Some((written, text)) = texts.get(&name) {
                problems.push(BuildProblem {
                    code: fault.code,
                    entry: String::new(),
                    phrase: Some((*written).clone()),
                    pattern: Some((*text).clone()),
                    column: Some(fault.column),
                    message: fault.message,
                });
            }
        }
        expansion.done
    }

    /// The parts of a pattern with its phrases put in.
    pub(crate) fn expand(&self, parts: Vec<Part>) -> Result<Vec<Part>, PhraseError> {
        let mut room = MAX_PARTS;
        self.put_in(parts, &mut room)
    }

    fn put_in(&self, parts: Vec<Part>, room: &mut usize) -> Result<Vec<Part>, PhraseError> {
        let mut expanded = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Word(_) | Part::Slot { .. } => {
                    *room = room.saturating_sub(1);
                    expanded.push(part);
                }
                Part::Choice(branches) => {
                    *room = room.saturating_sub(1);
                    expanded.push(Part::Choice(self.put_in_all(branches, room)?));
                }
                Part::Optional(branches) => {
                    *room = room.saturating_sub(1);
                    expanded.push(Part::Optional(self.put_in_all(branches, room)?));
                }
                Part::Phrase { name, column } => match self.phrases.get(&name) {
                    Some(Some(phrase)) => {
                        let size = size_of(phrase);
                        if size > *room {
                            return Err(too_large(column).into());
                        }
                        *room -= size;
                        expanded.extend(phrase.iter().map(|part| standing_at(part, column)));
                    }
                    Some(None) => return Err(PhraseError::Phrase),
                    None => return Err(self.unknown(&name, column).into()),
                },
            }
        }
        Ok(expanded)
    }

    fn put_in_all(
        &self,
        branches: Vec<Vec<Part>>,
        room: &mut usize,
    ) -> Result<Vec<Vec<Part>>, PhraseError> {
        branches
            .into_iter()
            .map(|branch| self.put_in(branch, room))
            .collect()
    }

    fn unknown(&self, name: &str, column: usize) -> Fault {
        unknown(name, column, self.phrases.keys())
    }
}

impl Expansion {
    /// Expands a phrase after all phrases that it uses.
    fn phrase(&mut self, name: &str) {
        if self.done.phrases.contains_key(name) {
            return;
        }
        let Some(Some(parts)) = self.parsed.get(name).cloned() else {
            self.done.phrases.insert(name.to_owned(), None);
            return;
        };
        self.open.push(name.to_owned());
        let usable = self.uses(name, &parts);
        self.open.pop();
        let expanded = usable.then(|| match self.done.expand(parts) {
            Ok(expanded) => Some(expanded),
            Err(PhraseError::Phrase) => None,
            Err(PhraseError::Pattern(fault)) => {
                self.faults.push((name.to_owned(), fault));
                None
            }
        });
        self.done
            .phrases
            .insert(name.to_owned(), expanded.flatten());
    }

    /// Expands what the parts of a phrase use. Says whether the phrase can be expanded itself.
    fn uses(&mut self, phrase: &str, parts: &[Part]) -> bool {
        let mut mentions = Vec::new();
        collect_mentions(parts, &mut mentions);
        for (name, column) in mentions {
            let fault = if let Some(from) = self.open.iter().position(|open| *open == name) {
                let mut way: Vec<String> = self.open[from..]
                    .iter()
                    .map(|one| format!("<{one}>"))
                    .collect();
                way.push(format!("<{name}>"));
                Fault::new(
                    "pattern.phrase_cycle",
                    column,
                    format!("the phrase stands within itself: {}", way.join(" → ")),
                )
            } else if !self.parsed.contains_key(&name) {
                unknown(&name, column, self.parsed.keys())
            } else if self.open.len() >= MAX_DEPTH {
                Fault::new(
                    "pattern.too_deep",
                    column,
                    format!("phrases stand within phrases more than {MAX_DEPTH} deep"),
                )
            } else {
                self.phrase(&name);
                continue;
            };
            self.faults.push((phrase.to_owned(), fault));
            return false;
        }
        true
    }
}

fn unknown<'n>(
    name: &str,
    column: usize,
    known: impl Iterator<Item = &'n String> + Clone,
) -> Fault {
    let nearest = known
        .clone()
        .map(|other| (strsim::normalized_damerau_levenshtein(name, other), other))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let help = match nearest {
        Some((_, nearest)) => format!("did you mean `<{nearest}>`?"),
        None if known.clone().next().is_none() => {
            "no phrases are defined; write `\\<` for the character".to_owned()
        }
        None => {
            let all: Vec<String> = known.take(8).map(|name| format!("`<{name}>`")).collect();
            format!("there are {}", all.join(", "))
        }
    };
    let message = format!("there is no phrase `<{name}>`; {help}");
    Fault::new("pattern.phrase_unknown", column, message)
}

fn too_large(column: usize) -> Fault {
    let message = format!(
        "with its phrases put in, the pattern has more than {MAX_PARTS} words, slots and brackets; \
         split it into several"
    );
    Fault::new("pattern.too_large", column, message)
}

fn collect_mentions(parts: &[Part], mentions: &mut Vec<(String, usize)>) {
    for part in parts {
        match part {
            Part::Word(_) | Part::Slot { .. } => {}
            Part::Phrase { name, column } => mentions.push((name.clone(), *column)),
            Part::Choice(branches) | Part::Optional(branches) => {
                for branch in branches {
                    collect_mentions(branch, mentions);
                }
            }
        }
    }
}

fn size_of(parts: &[Part]) -> usize {
    let size = |part: &Part| match part {
        Part::Word(_) | Part::Slot { .. } | Part::Phrase { .. } => 1,
        Part::Choice(branches) | Part::Optional(branches) => {
            1 + branches.iter().map(|branch| size_of(branch)).sum::<usize>()
        }
    };
    parts.iter().map(size).sum()
}

/// A phrase's part as if it stood where the phrase is used, since that is what a fault points at.
fn standing_at(part: &Part, column: usize) -> Part {
    let all = |branches: &[Vec<Part>]| {
        let one = |branch: &Vec<Part>| -> Vec<Part> {
            branch
                .iter()
                .map(|part| standing_at(part, column))
                .collect()
        };
        branches.iter().map(one).collect()
    };
    match part {
        Part::Word(_) => part.clone(),
        Part::Slot { name, .. } => Part::Slot {
            name: name.clone(),
            column,
        },
        Part::Phrase { name, .. } => Part::Phrase {
            name: name.clone(),
            column,
        },
        Part::Choice(branches) => Part::Choice(all(branches)),
        Part::Optional(branches) => Part::Optional(all(branches)),
    }
}
