//! Named parts of sentences, and their expansion in patterns.

use std::collections::BTreeMap;

use super::syntax::{Fault, Part, is_name, normal_name, parse};
use crate::problem::BuildProblem;

/// Limit of phrases nested in phrases.
const MAX_DEPTH: usize = 16;

/// Limit of words, slots and brackets in a pattern after expansion.
const MAX_PARTS: usize = 1_000;

/// Minimum similarity of a suggested name, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;

/// All phrases of a catalogue, fully expanded.
#[derive(Debug, Default)]
pub(crate) struct Phrasebook {
    /// `None` if the phrase is invalid, which has been reported.
    phrases: BTreeMap<String, Option<Vec<Part>>>,
}

/// Why a pattern could not be expanded.
#[derive(Debug)]
pub(crate) enum PhraseError {
    /// The pattern itself is invalid.
    Pattern(Fault),
    /// It uses an invalid phrase, which has been reported.
    Phrase,
}

impl From<Fault> for PhraseError {
    fn from(fault: Fault) -> Self {
        Self::Pattern(fault)
    }
}

/// Phrases during expansion.
struct Expansion {
    parsed: BTreeMap<String, Option<Vec<Part>>>,
    /// The phrases being expanded, outermost first.
    open: Vec<String>,
    done: Phrasebook,
    /// The faults with the names of their phrases.
    faults: Vec<(String, Fault)>,
}

impl Phrasebook {
    /// Parses and expands all phrases, and reports all problems.
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
                    format!(
                        "`{name}` is not a valid phrase name; use lower-case letters, digits and `_`"
                    ),
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

    /// The parts of a pattern with phrases expanded.
    pub(crate) fn expand(&self, parts: Vec<Part>) -> Result<Vec<Part>, PhraseError> {
        let mut parts_left = MAX_PARTS;
        self.expand_parts(parts, &mut parts_left)
    }

    fn expand_parts(
        &self,
        parts: Vec<Part>,
        parts_left: &mut usize,
    ) -> Result<Vec<Part>, PhraseError> {
        let mut expanded = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Word(_) | Part::Slot { .. } => {
                    *parts_left = parts_left.saturating_sub(1);
                    expanded.push(part);
                }
                Part::Choice(branches) => {
                    *parts_left = parts_left.saturating_sub(1);
                    expanded.push(Part::Choice(self.expand_branches(branches, parts_left)?));
                }
                Part::Optional(branches) => {
                    *parts_left = parts_left.saturating_sub(1);
                    expanded.push(Part::Optional(self.expand_branches(branches, parts_left)?));
                }
                Part::Phrase { name, column } => match self.phrases.get(&name) {
                    Some(Some(phrase)) => {
                        let size = size_of(phrase);
                        if size > *parts_left {
                            return Err(too_large(column).into());
                        }
                        *parts_left -= size;
                        expanded.extend(phrase.iter().map(|part| at_column(part, column)));
                    }
                    Some(None) => return Err(PhraseError::Phrase),
                    None => return Err(self.unknown(&name, column).into()),
                },
            }
        }
        Ok(expanded)
    }

    fn expand_branches(
        &self,
        branches: Vec<Vec<Part>>,
        parts_left: &mut usize,
    ) -> Result<Vec<Vec<Part>>, PhraseError> {
        branches
            .into_iter()
            .map(|branch| self.expand_parts(branch, parts_left))
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
        let usable = self.expand_used(name, &parts);
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

    /// Expands the phrases that `parts` use. Returns whether the phrase itself can be expanded.
    fn expand_used(&mut self, phrase: &str, parts: &[Part]) -> bool {
        let mut mentions = Vec::new();
        collect_mentions(parts, &mut mentions);
        for (name, column) in mentions {
            let fault = if let Some(from) = self.open.iter().position(|open| *open == name) {
                let mut path: Vec<String> = self.open[from..]
                    .iter()
                    .map(|one| format!("<{one}>"))
                    .collect();
                path.push(format!("<{name}>"));
                Fault::new(
                    "pattern.phrase_cycle",
                    column,
                    format!("the phrase contains itself: {}", path.join(" → ")),
                )
            } else if !self.parsed.contains_key(&name) {
                unknown(&name, column, self.parsed.keys())
            } else if self.open.len() >= MAX_DEPTH {
                Fault::new(
                    "pattern.too_deep",
                    column,
                    format!("phrases are nested more than {MAX_DEPTH} deep"),
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
        .filter(|(alike, _)| *alike >= MIN_SIMILARITY)
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
        "with its phrases expanded, the pattern has more than {MAX_PARTS} words, slots and brackets; \
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

/// A phrase's part at the column where the phrase is used, so that faults point there.
fn at_column(part: &Part, column: usize) -> Part {
    let all = |branches: &[Vec<Part>]| {
        let one = |branch: &Vec<Part>| -> Vec<Part> {
            branch.iter().map(|part| at_column(part, column)).collect()
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
