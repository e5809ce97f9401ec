//! What the user means: a new request, or the answer to what was asked last.

use std::collections::BTreeMap;

use convoke_app::Several;
use convoke_decide::{Candidate, FoundBy, LocalDecision, Verdict};
use convoke_model::{DecidedBy, Decision, DecisionFields, Name, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calls::is_default;
use crate::catalogue::Catalogue;
use crate::inquiry::{DomainSelector, Inquiry, Question, decision, inquiry};
use crate::memory::{Item, Memory, PendingQuestion, RequestTarget, SkillRef, Topic};
use crate::pointing::{fill_in, of_agent};
use crate::reference::{self, ReferenceMatch};
use crate::split::{Part, holds_a_request, known_pieces, split};

/// What a message is taken to mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "meaning", rename_all = "snake_case")]
pub(crate) enum Meaning {
    /// The user wants this done.
    Act(Box<RequestedAction>),
    /// The user wants several things done.
    Several { parts: Vec<Part> },
    /// The user asks something that data domains know.
    Inquire(Box<Inquiry>),
    /// Several things may be meant.
    Unclear { candidates: Vec<RequestTarget> },
    /// Nothing that the app can do.
    Unknown,
    /// The user does not want to go on.
    Dismissed,
}

/// Something that the user wants done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestedAction {
    pub(crate) target: SkillRef,
    /// What the message says that is needed for it.
    pub(crate) slots: Map<String, Value>,
    /// Other ways to read the same message, where it can be split in several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) alternatives: Vec<Map<String, Value>>,
    /// What pointing words may point at, where an earlier question narrowed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<Item>,
    /// Whether the user has confirmed the action.
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

/// How messages are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageReader {
    pub(crate) several: Several,
    pub(crate) choosing: DomainSelector,
}

/// Reads a message in the light of what was said before it.
pub(crate) fn interpret(
    skills: &Catalogue,
    text: &str,
    memory: &Memory,
    reading: MessageReader,
) -> Meaning {
    let agent = memory.topic.as_ref().map(|topic| &topic.agent);
    let decided = of_agent(skills, text, skills.decide(text), agent);
    if let Some(asks) = &memory.asks {
        if is_dismissal(text) {
            return Meaning::Dismissed;
        }
        let is_new = fits_a_sentence(&decided)
            || (reading.several != Several::Never && split(skills, text, agent, false).is_some());
        if let Some(meaning) = answer(skills, text, asks, is_new) {
            return meaning;
        }
    }
    let fits = fits_a_sentence(&decided);
    let may_be_several = match reading.several {
        Several::Never => false,
        Several::Careful => !fits,
        Several::Eager => true,
    };
    // "Play salt and pepper" is no two requests: what fits as a whole is cut only into what fits as it stands.
    let parts = may_be_several
        .then(|| split(skills, text, agent, !fits))
        .flatten();
    let is_skill = |part: &Part| matches!(part.target, RequestTarget::Skill(_));
    if let Some(parts) = parts.filter(|parts| parts.iter().any(is_skill)) {
        return Meaning::Several { parts };
    }
    if !fits && let Some(inquiry) = inquiry(skills, text, &decided, memory, reading.choosing) {
        return Meaning::Inquire(Box::new(inquiry));
    }
    match request(skills, text, &decided, memory.topic.as_ref()) {
        Meaning::Act(tool_call) if may_be_several && !fits => {
            unless_partly(skills, text, tool_call)
        }
        Meaning::Act(tool_call)
            if may_be_several && swallows(skills, &decided, &tool_call.target) =>
        {
            unclear_parts(skills, text, tool_call.target)
        }
        meaning => meaning,
    }
}

/// A message that is known to be for something: what it says that is needed for that.
pub(crate) fn for_goal(
    skills: &Catalogue,
    text: &str,
    goal: &RequestTarget,
    topic: Option<&Topic>,
) -> Meaning {
    match goal {
        RequestTarget::Skill(target) => {
            let slots = slots_for(skills, target, text);
            let mut tool_call = SkillMatch {
                slots,
                ..SkillMatch::of(target)
            };
            tool_call.fill_in(skills, topic, text);
            act(tool_call, text, 1.0, "was asked for as a part of a message")
        }
        RequestTarget::Domain { domain } => {
            let questions = vec![Question {
                domain: domain.clone(),
                said: text.to_owned(),
                confidence: 1.0,
            }];
            match decision(text, &questions, "was asked as a part of a message") {
                Some(decision) => Meaning::Inquire(Box::new(Inquiry {
                    questions,
                    decision,
                })),
                None => Meaning::Unknown,
            }
        }
        RequestTarget::Agent { agent } => by_agent(skills, text, agent, topic),
    }
}

/// A message that is known to be for an agent which works by its skills alone.
fn by_agent(skills: &Catalogue, text: &str, agent: &Name, topic: Option<&Topic>) -> Meaning {
    let mut decided = skills.decide(text);
    let chosen = decided.chosen().map(|candidate| candidate.entry.clone());
    let is_theirs = |candidate: &Candidate| {
        let goal = skills.goal(&candidate.entry);
        goal.and_then(RequestTarget::agent) == Some(agent)
    };
    decided.candidates.retain(is_theirs);
    decided.verdict = match decided.candidates.first() {
        None => Verdict::Unknown,
        Some(first) if chosen.as_ref() == Some(&first.entry) => Verdict::Chosen,
        Some(_) => Verdict::Ambiguous,
    };
    request(skills, text, &decided, topic)
}

/// Whether a message as a whole is one of the sentences of a skill.
fn fits_a_sentence(decided: &LocalDecision) -> bool {
    let chosen = decided.chosen();
    chosen.is_some_and(|best| best.by == FoundBy::Pattern)
}

/// What is merely likely is not done where a piece of the message plainly asks for something: there are several
/// requests, of which not all are understood, and nothing is done by halves.
fn unless_partly(skills: &Catalogue, text: &str, tool_call: Box<RequestedAction>) -> Meaning {
    if known_pieces(skills, text).is_empty() {
        return Meaning::Act(tool_call);
    }
    unclear_parts(skills, text, tool_call.target)
}

/// Whether a sentence's own words for something ("play {what}") hold another request: "jazz and call the neighbours".
fn swallows(skills: &Catalogue, decided: &LocalDecision, target: &SkillRef) -> bool {
    let (Some(chosen), Some(skill)) = (decided.chosen(), skills.skill(target)) else {
        return false;
    };
    let is_free = |name: &str| {
        let slot = skill.slots.iter().find(|(slot, _)| slot.matches(name));
        slot.is_none_or(|(_, slot)| slot.values.is_empty())
    };
    let mut slots = chosen.slots.iter();
    slots.any(|(name, said)| is_free(name) && holds_a_request(skills, said))
}

/// What is asked about where a message plainly has several parts, and not all of them are understood.
fn unclear_parts(skills: &Catalogue, text: &str, wished: SkillRef) -> Meaning {
    let mut candidates = known_pieces(skills, text);
    let wished = RequestTarget::Skill(wished);
    if !candidates.contains(&wished) {
        candidates.push(wished);
    }
    candidates.truncate(MAX_UNCLEAR);
    Meaning::Unclear { candidates }
}

/// The message as the answer to a question, unless it plainly is a request of its own.
fn answer(
    skills: &Catalogue,
    text: &str,
    asks: &PendingQuestion,
    new_request: bool,
) -> Option<Meaning> {
    match asks {
        PendingQuestion::Slot {
            target,
            slot,
            slots,
            candidates,
        } => {
            let nouns = skills
                .skill(target)
                .and_then(|skill| skill.slots.get(slot))
                .and_then(|slot| slot.refers_to.as_ref())
                .map(|reference| reference.nouns.clone())
                .unwrap_or_default();
            let said = match candidates.as_slice() {
                [only] if is_assent(text) => only.label.clone(),
                _ => {
                    let found = reference::find(text, candidates, candidates, &nouns);
                    if new_request && !matches!(found, ReferenceMatch::One(_)) {
                        return None;
                    }
                    text.trim().to_owned()
                }
            };
            let mut slots = slots.clone();
            slots.insert(slot.to_string(), Value::String(said));
            Some(act(
                SkillMatch {
                    slots,
                    candidates: candidates.clone(),
                    ..SkillMatch::of(target)
                },
                text,
                1.0,
                "answers the question",
            ))
        }
        PendingQuestion::Confirm { target, slots } => {
            if new_request {
                return None;
            }
            if !is_consent(text) {
                return Some(Meaning::Dismissed);
            }
            let reading = SkillMatch {
                slots: slots.clone(),
                ..SkillMatch::of(target)
            };
            match act(reading, text, 1.0, "was agreed to") {
                Meaning::Act(tool_call) => Some(Meaning::Act(Box::new(RequestedAction {
                    confirmed: true,
                    ..*tool_call
                }))),
                other => Some(other),
            }
        }
        PendingQuestion::Skill { candidates, said } => {
            let labels: Vec<Item> = candidates
                .iter()
                .map(|goal| Item {
                    id: goal.name().to_string(),
                    label: label(skills, goal),
                })
                .collect();
            let index = match reference::find(text, &labels, &labels, &[]) {
                ReferenceMatch::One(index) => index,
                _ if is_assent(text) && candidates.len() == 1 => 0,
                _ => return None,
            };
            match candidates.get(index)? {
                RequestTarget::Agent { .. } => None,
                goal => Some(for_goal(skills, said, goal, None)),
            }
        }
    }
}

/// What people read of something that may be meant.
fn label(skills: &Catalogue, goal: &RequestTarget) -> String {
    let described = match goal {
        RequestTarget::Skill(target) => skills.skill(target).map(|skill| &skill.description),
        RequestTarget::Domain { domain } => skills.domain(domain).map(|domain| &domain.description),
        RequestTarget::Agent { .. } => None,
    };
    described
        .cloned()
        .unwrap_or_else(|| goal.name().to_string())
}

/// What a message says for a skill that it is known to be for.
fn slots_for(skills: &Catalogue, target: &SkillRef, said: &str) -> Map<String, Value> {
    let decided = skills.decide(said);
    decided
        .candidates
        .iter()
        .find(|candidate| matches!(skills.goal(&candidate.entry), Some(RequestTarget::Skill(other)) if other == target))
        .map_or_else(
            || texts(&skills.closed_slots(target, said)),
            |candidate| filled(skills, target, &candidate.slots, candidate.by, said),
        )
}

fn request(
    skills: &Catalogue,
    text: &str,
    decided: &LocalDecision,
    topic: Option<&Topic>,
) -> Meaning {
    let known: Vec<(&Candidate, &RequestTarget)> = decided
        .plausible()
        .iter()
        .filter_map(|candidate| Some((candidate, skills.goal(&candidate.entry)?)))
        .collect();
    match (decided.verdict, known.as_slice()) {
        (Verdict::Chosen, [(best, RequestTarget::Skill(target)), ..]) => {
            let how = match best.by {
                FoundBy::Pattern => "fits one of the skill's sentences",
                FoundBy::Classifier => "is like the skill's examples",
            };
            let mut tool_call = SkillMatch {
                slots: filled(skills, target, &best.slots, best.by, text),
                alternatives: best.alternatives.iter().map(texts).collect(),
                ..SkillMatch::of(target)
            };
            tool_call.fill_in(skills, topic, text);
            act(tool_call, text, best.confidence, how)
        }
        (Verdict::Ambiguous | Verdict::Chosen, [_, ..]) => Meaning::Unclear {
            candidates: known
                .iter()
                .take(MAX_UNCLEAR)
                .map(|(_, goal)| (*goal).clone())
                .collect(),
        },
        _ => Meaning::Unknown,
    }
}

/// Skills named in a question at most.
const MAX_UNCLEAR: usize = 3;

/// The slots that a decision carries, completed by closed values found in the text.
fn filled(
    skills: &Catalogue,
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
struct SkillMatch<'a> {
    target: &'a SkillRef,
    slots: Map<String, Value>,
    alternatives: Vec<Map<String, Value>>,
    candidates: Vec<Item>,
}

impl<'a> SkillMatch<'a> {
    fn of(target: &'a SkillRef) -> Self {
        Self {
            target,
            slots: Map::new(),
            alternatives: Vec::new(),
            candidates: Vec::new(),
        }
    }

    /// Fills in what the message only points at.
    fn fill_in(&mut self, skills: &Catalogue, topic: Option<&Topic>, text: &str) {
        if let (Some(topic), Some(skill)) = (topic, skills.skill(self.target)) {
            fill_in(skill, &self.target.agent, &mut self.slots, topic, text);
        }
    }
}

fn act(reading: SkillMatch<'_>, text: &str, confidence: f64, reasoning: &str) -> Meaning {
    let target = Target {
        parameters: reading.slots.clone(),
        ..RequestTarget::Skill(reading.target.clone()).target(confidence)
    };
    let fields = DecisionFields::of(text, [target], reasoning, DecidedBy::Local);
    let decision = Decision::new(fields);
    match decision {
        Ok(decision) => Meaning::Act(Box::new(RequestedAction {
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
