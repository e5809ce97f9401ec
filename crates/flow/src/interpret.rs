//! What the user means: a new request, or the answer to what was asked last.

use std::collections::BTreeMap;

use convoke_app::Several;
use convoke_decide::{Candidate, FoundBy, LocalDecision, Verdict};
use convoke_model::{Confidence, DecidedBy, Decision, DecisionFields, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calls::is_default;
use crate::catalogue::Skills;
use crate::memory::{Asks, Item, Memory, SkillRef};
use crate::reference::{self, Found};
use crate::split::{Part, known_pieces, split};

/// What a message is taken to mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "meaning", rename_all = "snake_case")]
pub(crate) enum Meaning {
    /// The user wants this done.
    Act(Box<Wish>),
    /// The user wants several things done.
    Several { parts: Vec<Part> },
    /// Several things may be meant.
    Unclear { candidates: Vec<SkillRef> },
    /// Nothing that the app can do.
    Unknown,
    /// The user does not want to go on.
    Dismissed,
}

/// Something that the user wants done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) target: SkillRef,
    /// What the message says that is needed for it.
    pub(crate) slots: Map<String, Value>,
    /// Other ways to read the same message, where it can be split in several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) alternatives: Vec<Map<String, Value>>,
    /// What pointing words may point at, where an earlier question narrowed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<Item>,
    /// Whether the user has said yes to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) confirmed: bool,
    pub(crate) decision: Decision,
}

/// Words that take back what was asked for.
const DISMISSALS: &[&str] = &[
    "never mind",
    "nevermind",
    "forget it",
    "cancel",
    "cancel that",
    "nothing",
    "none",
    "none of them",
    "neither",
    "no",
    "no thanks",
    "stop",
    "leave it",
    "skip it",
];

/// Words that say yes to the one thing that was asked about.
const ASSENTS: &[&str] = &[
    "yes",
    "yeah",
    "yep",
    "yup",
    "sure",
    "ok",
    "okay",
    "right",
    "correct",
    "exactly",
    "yes please",
    "that one",
    "this one",
    "that's it",
    "that's the one",
];

/// Words that say yes to something that is about to be done, besides those.
const CONSENTS: &[&str] = &[
    "yes do",
    "yes do it",
    "yes do that",
    "yes please do",
    "yes i am sure",
    "yes i'm sure",
    "do it",
    "do that",
    "go ahead",
    "please do",
    "of course",
    "definitely",
    "absolutely",
    "confirm",
    "confirmed",
];

/// Reads a message in the light of what was said before it.
pub(crate) fn interpret(skills: &Skills, text: &str, memory: &Memory, several: Several) -> Meaning {
    let decided = skills.decide(text);
    if let Some(asks) = &memory.asks {
        if is_dismissal(text) {
            return Meaning::Dismissed;
        }
        if let Some(meaning) = answer(skills, text, asks, &decided) {
            return meaning;
        }
    }
    let fits = fits_a_sentence(&decided);
    let may_be_several = match several {
        Several::Never => false,
        Several::Careful => !fits,
        Several::Eager => true,
    };
    // "Play salt and pepper" is no two requests: what fits as a whole is cut only into what fits as it stands.
    if let Some(parts) = may_be_several.then(|| split(skills, text, !fits)).flatten() {
        return Meaning::Several { parts };
    }
    match request(skills, text, &decided) {
        Meaning::Act(wish) if may_be_several && !fits => unless_partly(skills, text, wish),
        meaning => meaning,
    }
}

/// Whether a message as a whole is one of the sentences of a skill.
fn fits_a_sentence(decided: &LocalDecision) -> bool {
    let chosen = decided.chosen();
    chosen.is_some_and(|best| best.by == FoundBy::Pattern)
}

/// What is merely likely is not done where a piece of the message plainly asks for something: there are several
/// requests, of which not all are understood, and nothing is done by halves.
fn unless_partly(skills: &Skills, text: &str, wish: Box<Wish>) -> Meaning {
    let mut candidates = known_pieces(skills, text);
    if candidates.is_empty() {
        return Meaning::Act(wish);
    }
    if !candidates.contains(&wish.target) {
        candidates.push(wish.target);
    }
    candidates.truncate(MAX_UNCLEAR);
    Meaning::Unclear { candidates }
}

/// The message as the answer to a question, unless it plainly is a request of its own.
fn answer(skills: &Skills, text: &str, asks: &Asks, decided: &LocalDecision) -> Option<Meaning> {
    let new_request = fits_a_sentence(decided);
    match asks {
        Asks::Slot {
            target,
            slot,
            slots,
            candidates,
        } => {
            let nouns = skills
                .get(target)
                .and_then(|skill| skill.slots.get(slot))
                .and_then(|slot| slot.refers_to.as_ref())
                .map(|reference| reference.nouns.clone())
                .unwrap_or_default();
            let said = match candidates.as_slice() {
                [only] if is_assent(text) => only.label.clone(),
                _ => {
                    let found = reference::find(text, candidates, candidates, &nouns);
                    if new_request && !matches!(found, Found::One(_)) {
                        return None;
                    }
                    text.trim().to_owned()
                }
            };
            let mut slots = slots.clone();
            slots.insert(slot.to_string(), Value::String(said));
            Some(act(
                Reading {
                    slots,
                    candidates: candidates.clone(),
                    ..Reading::of(target)
                },
                text,
                1.0,
                "answers the question",
            ))
        }
        Asks::Confirm { target, slots } => {
            if new_request {
                return None;
            }
            if !is_consent(text) {
                return Some(Meaning::Dismissed);
            }
            let reading = Reading {
                slots: slots.clone(),
                ..Reading::of(target)
            };
            match act(reading, text, 1.0, "was agreed to") {
                Meaning::Act(wish) => Some(Meaning::Act(Box::new(Wish {
                    confirmed: true,
                    ..*wish
                }))),
                other => Some(other),
            }
        }
        Asks::Skill { candidates, said } => {
            let labels: Vec<Item> = candidates
                .iter()
                .filter_map(|target| {
                    let skill = skills.get(target)?;
                    Some(Item {
                        id: target.skill.to_string(),
                        label: skill.description.clone(),
                    })
                })
                .collect();
            let index = match reference::find(text, &labels, &labels, &[]) {
                Found::One(index) => index,
                _ if is_assent(text) && candidates.len() == 1 => 0,
                _ => return None,
            };
            let target = candidates.get(index)?;
            let slots = slots_for(skills, target, said);
            Some(act(
                Reading {
                    slots,
                    ..Reading::of(target)
                },
                said,
                1.0,
                "chosen when asked",
            ))
        }
    }
}

/// What an earlier message says for a skill that was only chosen afterwards.
fn slots_for(skills: &Skills, target: &SkillRef, said: &str) -> Map<String, Value> {
    let decided = skills.decide(said);
    decided
        .candidates
        .iter()
        .find(|candidate| skills.target(&candidate.entry) == Some(target))
        .map(|candidate| filled(skills, target, &candidate.slots, candidate.by, said))
        .unwrap_or_default()
}

fn request(skills: &Skills, text: &str, decided: &LocalDecision) -> Meaning {
    let known: Vec<(&Candidate, &SkillRef)> = decided
        .plausible()
        .iter()
        .filter_map(|candidate| Some((candidate, skills.target(&candidate.entry)?)))
        .collect();
    match (decided.verdict, known.as_slice()) {
        (Verdict::Chosen, [(best, target), ..]) => {
            let how = match best.by {
                FoundBy::Pattern => "fits one of the skill's sentences",
                FoundBy::Classifier => "is like the skill's examples",
            };
            let reading = Reading {
                slots: filled(skills, target, &best.slots, best.by, text),
                alternatives: best.alternatives.iter().map(texts).collect(),
                ..Reading::of(target)
            };
            act(reading, text, best.confidence, how)
        }
        (Verdict::Ambiguous, [_, ..]) => Meaning::Unclear {
            candidates: known
                .iter()
                .take(MAX_UNCLEAR)
                .map(|(_, target)| (*target).clone())
                .collect(),
        },
        _ => Meaning::Unknown,
    }
}

/// Skills named in a question at most.
const MAX_UNCLEAR: usize = 3;

/// The slots that a decision carries, completed by closed values found in the text.
fn filled(
    skills: &Skills,
    target: &SkillRef,
    slots: &BTreeMap<String, String>,
    by: FoundBy,
    text: &str,
) -> Map<String, Value> {
    let mut all: BTreeMap<String, String> = match by {
        FoundBy::Pattern => BTreeMap::new(),
        FoundBy::Classifier => skills.closed_slots(target, text),
    };
    all.extend(slots.clone());
    texts(&all)
}

fn texts(slots: &BTreeMap<String, String>) -> Map<String, Value> {
    slots
        .iter()
        .map(|(slot, text)| (slot.clone(), Value::String(text.clone())))
        .collect()
}

/// A skill and what a message says for it.
struct Reading<'a> {
    target: &'a SkillRef,
    slots: Map<String, Value>,
    alternatives: Vec<Map<String, Value>>,
    candidates: Vec<Item>,
}

impl<'a> Reading<'a> {
    fn of(target: &'a SkillRef) -> Self {
        Self {
            target,
            slots: Map::new(),
            alternatives: Vec::new(),
            candidates: Vec::new(),
        }
    }
}

fn act(reading: Reading<'_>, text: &str, confidence: f64, reasoning: &str) -> Meaning {
    let decision = Decision::new(DecisionFields {
        asked: text.to_owned(),
        targets: vec![Target {
            name: reading.target.skill.clone(),
            confidence: Confidence::saturating(confidence),
            parameters: reading.slots.clone(),
        }],
        reasoning: reasoning.to_owned(),
        ambiguous: false,
        clarifying_question: None,
        decided_by: DecidedBy::Local,
    });
    match decision {
        Ok(decision) => Meaning::Act(Box::new(Wish {
            target: reading.target.clone(),
            slots: reading.slots,
            alternatives: reading.alternatives,
            candidates: reading.candidates,
            confirmed: false,
            decision,
        })),
        Err(_) => Meaning::Unknown,
    }
}

fn is_dismissal(text: &str) -> bool {
    DISMISSALS.contains(&bare(text).as_str())
}

/// Whether a message says yes to the one thing that was asked about.
fn is_assent(text: &str) -> bool {
    ASSENTS.contains(&bare(text).as_str())
}

/// Whether a message says yes to what is about to be done, and nothing else.
fn is_consent(text: &str) -> bool {
    let said = bare(text).replace(',', "");
    ASSENTS.contains(&said.as_str()) || CONSENTS.contains(&said.as_str())
}

fn bare(text: &str) -> String {
    text.trim().trim_end_matches(['.', '!']).to_lowercase()
}
