//! Interprets a message: as a new request, or as the answer to the pending question.

use std::collections::BTreeMap;

use convoke_app::Several;
use convoke_decide::{Candidate, FoundBy, LocalDecision, Verdict};
use convoke_model::{DecidedBy, Decision, DecisionFields, Name, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calls::is_default;
use crate::catalogue::Catalogue;
use crate::inquiry::{DomainSelector, Inquiry, Question, decision, inquiry};
use crate::memory::{
    Item, Memory, PendingQuestion, PossibleTarget, RequestTarget, SkillRef, Topic,
};
use crate::pointing::{fill_in, of_agent};
use crate::reference::{self, MentionedItems, ReferenceMatch};
use crate::referring::of_kind;
use crate::split::{Part, holds_a_request, known_pieces, split};

/// The interpretation of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "meaning", rename_all = "snake_case")]
pub(crate) enum Meaning {
    /// A request for one skill.
    Act(Box<RequestedAction>),
    /// Several requests.
    Several { parts: Vec<Part> },
    /// A question for data domains.
    Inquire(Box<Inquiry>),
    /// Several targets fit equally well.
    Unclear { candidates: Vec<PossibleTarget> },
    /// No target fits.
    Unknown,
    /// The user declined the pending question.
    Dismissed,
}

/// A skill to run, with its slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestedAction {
    pub(crate) target: SkillRef,
    /// Slot values from the message.
    pub(crate) slots: Map<String, Value>,
    /// Alternative slot values for the same message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) alternatives: Vec<Map<String, Value>>,
    /// Items that an earlier question narrowed a reference to; any item if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<Item>,
    /// Whether the user has confirmed the action.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) confirmed: bool,
    pub(crate) decision: Decision,
}

/// Phrases that decline the pending question.
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
    "n",
    "nope",
    "nah",
    "no thanks",
    "no thank you",
    "don't",
    "do not",
    "no don't",
    "stop",
    "leave it",
    "skip it",
    "reject",
    "rejected",
];

/// Phrases that confirm a single candidate.
const ASSENTS: &[&str] = &[
    "y",
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

/// Further phrases that confirm an action.
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
    "approve",
    "approved",
];

/// Settings for interpreting messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageReader {
    pub(crate) several: Several,
    pub(crate) selector: DomainSelector,
}

/// Interprets a message, given the memory of the conversation.
pub(crate) fn interpret(
    skills: &Catalogue,
    text: &str,
    memory: &Memory,
    reader: MessageReader,
) -> Meaning {
    let agent = memory.topic.as_ref().map(|topic| &topic.agent);
    let local = of_kind(skills, skills.decide(text), memory);
    let local = of_agent(skills, text, local, agent);
    if let Some(question) = &memory.question {
        if is_dismissal(text) {
            return Meaning::Dismissed;
        }
        let is_new = fits_a_sentence(&local)
            || turns_away(skills, text, question, &local)
            || (reader.several != Several::Never && split(skills, text, memory, false).is_some());
        if let Some(meaning) = answer(skills, text, question, is_new) {
            return meaning;
        }
    }
    let fits = fits_a_sentence(&local);
    let may_be_several = match reader.several {
        Several::Never => false,
        Several::Careful => !fits,
        Several::Eager => true,
    };
    // "Play salt and pepper" is one request: a message that fits as a whole is split only if every part fits unchanged.
    let parts = may_be_several
        .then(|| split(skills, text, memory, !fits))
        .flatten();
    let is_skill = |part: &Part| matches!(part.target, RequestTarget::Skill(_));
    if let Some(parts) = parts.filter(|parts| parts.iter().any(is_skill)) {
        return Meaning::Several { parts };
    }
    if !fits && let Some(inquiry) = inquiry(skills, text, &local, memory, reader.selector) {
        return Meaning::Inquire(Box::new(inquiry));
    }
    match request(skills, text, &local, memory.topic.as_ref()) {
        Meaning::Act(tool_call) if may_be_several && !fits => {
            unless_partly(skills, text, tool_call)
        }
        Meaning::Act(tool_call)
            if may_be_several && swallows(skills, &local, &tool_call.target) =>
        {
            unclear_parts(skills, text, *tool_call)
        }
        meaning => meaning,
    }
}

/// Interprets a message whose target is known.
pub(crate) fn for_target(
    skills: &Catalogue,
    text: &str,
    target: &RequestTarget,
    topic: Option<&Topic>,
) -> Meaning {
    match target {
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
                text: text.to_owned(),
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

/// Interprets a message for an agent without a model: only its skills are candidates.
fn by_agent(skills: &Catalogue, text: &str, agent: &Name, topic: Option<&Topic>) -> Meaning {
    let mut local = skills.decide(text);
    let chosen = local.chosen().map(|candidate| candidate.entry.clone());
    let is_theirs = |candidate: &Candidate| {
        let target = skills.target(&candidate.entry);
        target.and_then(RequestTarget::agent) == Some(agent)
    };
    local.candidates.retain(is_theirs);
    local.verdict = match local.candidates.first() {
        None => Verdict::Unknown,
        Some(first) if chosen.as_ref() == Some(&first.entry) => Verdict::Chosen,
        Some(_) => Verdict::Ambiguous,
    };
    request(skills, text, &local, topic)
}

/// Whether the whole message matches a sentence pattern.
fn fits_a_sentence(local: &LocalDecision) -> bool {
    let chosen = local.chosen();
    chosen.is_some_and(|best| best.by == FoundBy::Pattern)
}

/// Asks back instead of acting on a classifier match if a piece of the message matches a target by itself: the message
/// then has several requests, not all of them understood.
fn unless_partly(skills: &Catalogue, text: &str, tool_call: Box<RequestedAction>) -> Meaning {
    if known_pieces(skills, text).is_empty() {
        return Meaning::Act(tool_call);
    }
    unclear_parts(skills, text, *tool_call)
}

/// Whether a free slot of the matched sentence contains another request, as in "play {what}" with "jazz and call the
/// neighbours".
fn swallows(skills: &Catalogue, local: &LocalDecision, target: &SkillRef) -> bool {
    let (Some(chosen), Some(skill)) = (local.chosen(), skills.skill(target)) else {
        return false;
    };
    let is_free = |name: &str| {
        let slot = skill.slots.iter().find(|(slot, _)| slot.matches(name));
        slot.is_none_or(|(_, slot)| slot.values.is_empty())
    };
    let mut slots = chosen.slots.iter();
    slots.any(|(name, value)| is_free(name) && holds_a_request(skills, value))
}

/// The candidates for a message with several parts that are not all understood.
fn unclear_parts(skills: &Catalogue, text: &str, whole: RequestedAction) -> Meaning {
    let mut candidates = known_pieces(skills, text);
    let confidence = whole.decision.confidence().value();
    let target = RequestTarget::Skill(whole.target);
    if candidates.iter().all(|known| known.target != target) {
        candidates.push(PossibleTarget { target, confidence });
    }
    candidates.truncate(MAX_UNCLEAR);
    Meaning::Unclear { candidates }
}

/// Interprets the message as the answer to the pending question. `None` if it is a new request.
fn answer(
    skills: &Catalogue,
    text: &str,
    question: &PendingQuestion,
    new_request: bool,
) -> Option<Meaning> {
    match question {
        PendingQuestion::Slot {
            target,
            slot,
            slots,
            candidates,
        } => {
            let reference = skills
                .skill(target)
                .and_then(|skill| skill.slots.get(slot))
                .and_then(|slot| slot.refers_to.as_ref());
            let Some(reference) = reference else {
                return (!new_request)
                    .then(|| answer_without_reference(skills, text, target, slot, slots));
            };
            let nouns = reference.nouns.clone();
            let value = match candidates.as_slice() {
                [only] if is_assent(text) => only.label.clone(),
                _ => {
                    let found =
                        reference::find(text, candidates, MentionedItems::list(candidates), &nouns);
                    if new_request && !matches!(found, ReferenceMatch::One(_)) {
                        return None;
                    }
                    text.trim().to_owned()
                }
            };
            let mut slots = slots.clone();
            slots.insert(slot.to_string(), Value::String(value));
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
            let skill_match = SkillMatch {
                slots: slots.clone(),
                ..SkillMatch::of(target)
            };
            match act(skill_match, text, 1.0, "was agreed to") {
                Meaning::Act(tool_call) => Some(Meaning::Act(Box::new(RequestedAction {
                    confirmed: true,
                    ..*tool_call
                }))),
                other => Some(other),
            }
        }
        PendingQuestion::Skill {
            candidates,
            request,
        } => {
            let labels: Vec<Item> = candidates
                .iter()
                .map(|target| Item {
                    kind: String::new(),
                    id: target.name().to_string(),
                    label: label(skills, target),
                })
                .collect();
            let index = match reference::find(text, &labels, MentionedItems::list(&labels), &[]) {
                ReferenceMatch::One(index) => index,
                _ if is_assent(text) && candidates.len() == 1 => 0,
                _ => return None,
            };
            match candidates.get(index)? {
                RequestTarget::Agent { .. } => None,
                target => Some(for_target(skills, request, target, None)),
            }
        }
    }
}

/// Whether a message that names a value of the slot that was asked for is another request all the same: it begins like one,
/// and the classifier chooses another skill.
fn turns_away(
    skills: &Catalogue,
    text: &str,
    question: &PendingQuestion,
    local: &LocalDecision,
) -> bool {
    let PendingQuestion::Slot { target, slot, .. } = question else {
        return false;
    };
    let asked = skills.skill(target).and_then(|skill| skill.slots.get(slot));
    let chosen = local.chosen().and_then(|best| skills.target(&best.entry));
    let is_closed = asked.is_some_and(|slot| !slot.values.is_empty());
    let is_another = chosen.is_some_and(|chosen| *chosen != RequestTarget::Skill(target.clone()));
    is_closed && is_another && skills.begins_a_request(text)
}

/// Interprets an answer to a question for a slot that takes a text or one of a closed set of values.
fn answer_without_reference(
    skills: &Catalogue,
    text: &str,
    target: &SkillRef,
    slot: &Name,
    slots: &Map<String, Value>,
) -> Meaning {
    let mut filled = slots.clone();
    filled.extend(texts(&skills.answered_slots(target, slot, slots, text)));
    // What is none of the values is asked about again.
    let said = || Value::String(text.trim().to_owned());
    filled.entry(slot.to_string()).or_insert_with(said);
    let skill_match = SkillMatch {
        slots: filled,
        ..SkillMatch::of(target)
    };
    act(skill_match, text, 1.0, "answers the question")
}

/// The text that describes a candidate to the user.
fn label(skills: &Catalogue, target: &RequestTarget) -> String {
    let described = match target {
        RequestTarget::Skill(target) => skills.skill(target).map(|skill| &skill.description),
        RequestTarget::Domain { domain } => skills.domain(domain).map(|domain| &domain.description),
        RequestTarget::Agent { .. } => None,
    };
    described
        .cloned()
        .unwrap_or_else(|| target.name().to_string())
}

/// The texts that a message has for the slots of a known skill.
pub(crate) fn slot_texts(
    skills: &Catalogue,
    target: &SkillRef,
    text: &str,
) -> BTreeMap<String, String> {
    let slots = slots_for(skills, target, text).into_iter();
    let text = |(slot, value): (String, Value)| Some((slot, value.as_str()?.to_owned()));
    slots.filter_map(text).collect()
}

/// Slot values for a known skill.
fn slots_for(skills: &Catalogue, target: &SkillRef, text: &str) -> Map<String, Value> {
    let local = skills.decide(text);
    local
        .candidates
        .iter()
        .find(|candidate| matches!(skills.target(&candidate.entry), Some(RequestTarget::Skill(other)) if other == target))
        .map_or_else(
            || texts(&skills.closed_slots(target, text)),
            |candidate| filled(skills, target, &candidate.slots, candidate.by, text),
        )
}

fn request(
    skills: &Catalogue,
    text: &str,
    local: &LocalDecision,
    topic: Option<&Topic>,
) -> Meaning {
    let known: Vec<(&Candidate, &RequestTarget)> = local
        .plausible()
        .iter()
        .filter_map(|candidate| Some((candidate, skills.target(&candidate.entry)?)))
        .collect();
    match (local.verdict, known.as_slice()) {
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
                .map(|(candidate, target)| PossibleTarget {
                    target: (*target).clone(),
                    confidence: candidate.confidence,
                })
                .collect(),
        },
        _ => Meaning::Unknown,
    }
}

/// Limit of candidates in a clarifying question.
const MAX_UNCLEAR: usize = 3;

/// The slots of a decision. For a classifier match, closed slot values are searched in the text.
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

/// A skill with slot values from a message.
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

    /// Fills slots that the message only refers to, from the topic.
    fn fill_in(&mut self, skills: &Catalogue, topic: Option<&Topic>, text: &str) {
        if let (Some(topic), Some(skill)) = (topic, skills.skill(self.target)) {
            fill_in(skill, &self.target.agent, &mut self.slots, topic, text);
        }
    }
}

fn act(skill_match: SkillMatch<'_>, text: &str, confidence: f64, reasoning: &str) -> Meaning {
    let target = Target {
        parameters: skill_match.slots.clone(),
        ..RequestTarget::Skill(skill_match.target.clone()).target(confidence)
    };
    let fields = DecisionFields::of(text, [target], reasoning, DecidedBy::Local);
    let decision = Decision::new(fields);
    match decision {
        Ok(decision) => Meaning::Act(Box::new(RequestedAction {
            target: skill_match.target.clone(),
            slots: skill_match.slots,
            alternatives: skill_match.alternatives,
            candidates: skill_match.candidates,
            confirmed: false,
            decision,
        })),
        Err(_) => Meaning::Unknown,
    }
}

fn is_dismissal(text: &str) -> bool {
    DISMISSALS.contains(&bare(text).replace(',', "").as_str())
}

/// What a message says to a question that wants a yes or a no. `None` if it says anything else.
pub fn plain_answer(text: &str) -> Option<bool> {
    if is_consent(text) {
        return Some(true);
    }
    is_dismissal(text).then_some(false)
}

/// Whether a message confirms a single candidate.
fn is_assent(text: &str) -> bool {
    ASSENTS.contains(&bare(text).as_str())
}

/// Whether a message confirms the pending action, and says nothing else.
fn is_consent(text: &str) -> bool {
    let words = bare(text).replace(',', "");
    ASSENTS.contains(&words.as_str()) || CONSENTS.contains(&words.as_str())
}

fn bare(text: &str) -> String {
    let words = text.trim().trim_end_matches(['.', '!']).to_lowercase();
    words.replace('’', "'")
}
