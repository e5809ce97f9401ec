//! Which data domains a question needs, and what each of them is asked.
//!
//! Unlike skills, domains do not exclude each other: asking one more changes nothing, and a question such as "why are
//! our best sellers not being bought?" needs two. So a question goes to as many as it takes to be sure.

use convoke_decide::{LocalDecision, Verdict};
use convoke_model::{DecidedBy, Decision, DecisionFields, Name};
use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::memory::{Memory, RequestTarget};
use crate::pointing::goes_on;
use crate::split::texts_between;

/// How sure it is that a domain is needed whose keyword a question has.
const BY_KEYWORD: f64 = 0.85;

/// How sure it is that a question which leans on the one before it is for the same domains.
const BY_FOLLOWING: f64 = 0.8;

/// A domain that is less likely than this is not asked, however many others are.
const LEAST: f64 = 0.2;

/// How likely a domain must be to be asked where words name another.
const BESIDE_KEYWORD: f64 = 0.5;

/// How likely it may be that a text is about something else altogether, for the domains that its words name to be asked.
const OUTSIDE: f64 = 0.92;

/// What the domains are asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inquiry {
    pub(crate) questions: Vec<Question>,
    pub(crate) decision: Decision,
}

/// What one domain is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) domain: Name,
    pub(crate) said: String,
    pub(crate) confidence: f64,
}

/// How domains are chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DomainSelector {
    /// How sure it must be that one of the chosen domains is needed.
    pub(crate) threshold: f64,
    /// Domains that one question goes to at most.
    pub(crate) most: usize,
}

/// The domains that a message needs, if it is a question for domains and it is sure enough for which.
pub(crate) fn inquiry(
    catalogue: &Catalogue,
    text: &str,
    decided: &LocalDecision,
    memory: &Memory,
    choosing: DomainSelector,
) -> Option<Inquiry> {
    let chosen = decided
        .chosen()
        .and_then(|best| catalogue.goal(&best.entry));
    // What is plainly something to do is no question, whatever it speaks of.
    if catalogue.domains().is_empty() || matches!(chosen, Some(RequestTarget::Skill(_))) {
        return None;
    }
    let (mut questions, reasoning) = by_pieces(catalogue, text, choosing)
        .map(|questions| (questions, "each part is like a domain's examples"))
        .or_else(|| {
            let needed = needed(catalogue, text, decided, choosing);
            let questions = asked(needed, text);
            (!questions.is_empty()).then_some((questions, "is like the domains' examples"))
        })
        .or_else(|| {
            let same = following(catalogue, text, memory);
            (!same.is_empty()).then_some((same, "goes on with the question before it"))
        })?;
    let left_out = questions.split_off(choosing.most.min(questions.len()));
    let left_out = left_out
        .into_iter()
        .map(|question| question.domain.to_string());
    let decision = decision(text, &questions, reasoning)?
        .with(|decision| decision.dropped.extend(left_out))
        .ok()?;
    Some(Inquiry {
        questions,
        decision,
    })
}

/// The decision that questions to domains stand for.
pub(crate) fn decision(text: &str, questions: &[Question], reasoning: &str) -> Option<Decision> {
    let targets = questions.iter().map(|question| {
        let goal = RequestTarget::Domain {
            domain: question.domain.clone(),
        };
        let mut target = goal.target(question.confidence);
        target.request = (question.said != text).then(|| question.said.clone());
        target
    });
    let fields = DecisionFields::of(text, targets, reasoning, DecidedBy::Local);
    Decision::new(fields).ok()
}

/// Where every part of a message is plainly for some domain, and not all for the same, each gets its own part.
fn by_pieces(catalogue: &Catalogue, text: &str, choosing: DomainSelector) -> Option<Vec<Question>> {
    let pieces = texts_between(text);
    if pieces.len() < 2 {
        return None;
    }
    let mut questions: Vec<Question> = Vec::new();
    for piece in pieces {
        let needed = needed(catalogue, &piece, &catalogue.decide(&piece), choosing);
        if needed.is_empty() {
            return None;
        }
        for question in asked(needed, &piece) {
            let known = questions
                .iter_mut()
                .find(|known| known.domain == question.domain);
            match known {
                Some(known) => {
                    known.said = format!("{} and {}", known.said, question.said);
                }
                None => questions.push(question),
            }
        }
    }
    (questions.len() >= 2).then_some(questions)
}

fn asked(needed: Vec<(Name, f64)>, text: &str) -> Vec<Question> {
    let question = |(domain, confidence)| Question {
        domain,
        said: text.to_owned(),
        confidence,
    };
    needed.into_iter().map(question).collect()
}

/// The domains that a text needs: those that its words name, and the likeliest ones until it is sure.
fn needed(
    catalogue: &Catalogue,
    text: &str,
    decided: &LocalDecision,
    choosing: DomainSelector,
) -> Vec<(Name, f64)> {
    let named = catalogue.named_domains(text);
    // Where words name a domain, others are needed only if they are likely in themselves; where none do, the likeliest ones
    // are, until it is sure that the right one is among them.
    let least = if named.is_empty() {
        LEAST
    } else {
        BESIDE_KEYWORD
    };
    let mut likely: Vec<(Name, f64)> = Vec::new();
    let mut sure = 0.0;
    for candidate in &decided.candidates {
        let Some(RequestTarget::Domain { domain }) = catalogue.goal(&candidate.entry) else {
            break;
        };
        if sure >= choosing.threshold || candidate.confidence < least {
            break;
        }
        sure += candidate.confidence;
        likely.push((domain.clone(), candidate.confidence));
    }
    let is_named = !named.is_empty() && decided.outside < OUTSIDE;
    // Where one domain alone is plausible there is nothing to ask back: the domain itself declines what it does not know.
    let is_alone = decided.verdict == Verdict::Ambiguous && decided.plausible().len() == 1;
    if !is_named && !is_alone && sure < choosing.threshold {
        return Vec::new();
    }
    let mut needed = likely;
    for domain in named.into_iter().filter(|_| is_named) {
        match needed.iter_mut().find(|(known, _)| *known == domain) {
            Some((_, confidence)) => *confidence = confidence.max(BY_KEYWORD),
            None => needed.push((domain, BY_KEYWORD)),
        }
    }
    needed
}

/// The domains of the question before, for one that leans on it.
fn following(catalogue: &Catalogue, text: &str, memory: &Memory) -> Vec<Question> {
    if !goes_on(text) {
        return Vec::new();
    }
    let same = memory
        .asked
        .iter()
        .filter(|domain| catalogue.domain(domain).is_some())
        .map(|domain| (domain.clone(), BY_FOLLOWING));
    asked(same.collect(), text)
}
