//! Selects the data domains for a question, and the text that each gets.
//!
//! Domains do not exclude each other as skills do: an additional query changes nothing, and a question such as "why are
//! our best sellers not being bought?" needs two. Domains are added until the sum of their confidences reaches the
//! threshold.

use convoke_decide::{LocalDecision, Verdict};
use convoke_model::{DecidedBy, Decision, DecisionFields, Name};
use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::memory::{Memory, RequestTarget};
use crate::pointing::goes_on;
use crate::split::texts_between;

/// Confidence of a domain whose keyword occurs in the question.
const BY_KEYWORD: f64 = 0.85;

/// Confidence that a follow-up question is for the same domains.
const BY_FOLLOWING: f64 = 0.8;

/// Minimum confidence of a domain.
const LEAST: f64 = 0.2;

/// Minimum confidence of a domain if keywords name another one.
const BESIDE_KEYWORD: f64 = 0.5;

/// Limit of the out-of-scope probability up to which keywords select domains.
const OUTSIDE: f64 = 0.92;

/// Questions for domains, and the decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inquiry {
    pub(crate) questions: Vec<Question>,
    pub(crate) decision: Decision,
}

/// A question for one domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) domain: Name,
    #[serde(rename = "said")]
    pub(crate) text: String,
    pub(crate) confidence: f64,
}

/// Settings for selecting domains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DomainSelector {
    /// The confidence that the selected domains must reach together.
    pub(crate) threshold: f64,
    /// Limit of domains per question.
    pub(crate) max_domains: usize,
}

/// Selects domains for a message. `None` if it is not a question for domains, or the selection is uncertain.
pub(crate) fn inquiry(
    catalogue: &Catalogue,
    text: &str,
    local: &LocalDecision,
    memory: &Memory,
    selector: DomainSelector,
) -> Option<Inquiry> {
    let chosen = local
        .chosen()
        .and_then(|best| catalogue.target(&best.entry));
    // A request for a skill is no question, whatever keywords it contains.
    if catalogue.domains().is_empty() || matches!(chosen, Some(RequestTarget::Skill(_))) {
        return None;
    }
    let (mut questions, reasoning) = by_pieces(catalogue, text, selector)
        .map(|questions| (questions, "each part is like a domain's examples"))
        .or_else(|| {
            let needed = needed(catalogue, text, local, selector);
            let questions = questions_to(needed, text);
            (!questions.is_empty()).then_some((questions, "is like the domains' examples"))
        })
        .or_else(|| {
            let same = following(catalogue, text, memory);
            (!same.is_empty()).then_some((same, "goes on with the question before it"))
        })?;
    let left_out = questions.split_off(selector.max_domains.min(questions.len()));
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

/// The decision record for these questions.
pub(crate) fn decision(text: &str, questions: &[Question], reasoning: &str) -> Option<Decision> {
    let targets = questions.iter().map(|question| {
        let target = RequestTarget::Domain {
            domain: question.domain.clone(),
        };
        let mut target = target.target(question.confidence);
        target.request = (question.text != text).then(|| question.text.clone());
        target
    });
    let fields = DecisionFields::of(text, targets, reasoning, DecidedBy::Local);
    Decision::new(fields).ok()
}

/// One question per piece of the message. `None` unless every piece selects a domain and at least two domains are
/// selected.
fn by_pieces(catalogue: &Catalogue, text: &str, selector: DomainSelector) -> Option<Vec<Question>> {
    let pieces = texts_between(text);
    if pieces.len() < 2 {
        return None;
    }
    let mut questions: Vec<Question> = Vec::new();
    for piece in pieces {
        let needed = needed(catalogue, &piece, &catalogue.decide(&piece), selector);
        if needed.is_empty() {
            return None;
        }
        for question in questions_to(needed, &piece) {
            let known = questions
                .iter_mut()
                .find(|known| known.domain == question.domain);
            match known {
                Some(known) => {
                    known.text = format!("{} and {}", known.text, question.text);
                }
                None => questions.push(question),
            }
        }
    }
    (questions.len() >= 2).then_some(questions)
}

fn questions_to(needed: Vec<(Name, f64)>, text: &str) -> Vec<Question> {
    let question = |(domain, confidence)| Question {
        domain,
        text: text.to_owned(),
        confidence,
    };
    needed.into_iter().map(question).collect()
}

/// The domains for a text: those whose keywords it contains, and the most likely ones until the threshold is reached.
fn needed(
    catalogue: &Catalogue,
    text: &str,
    local: &LocalDecision,
    selector: DomainSelector,
) -> Vec<(Name, f64)> {
    let named = catalogue.named_domains(text);
    // With keywords, other domains must be likely by themselves. Without, the most likely are added until the threshold
    // is reached.
    let least = if named.is_empty() {
        LEAST
    } else {
        BESIDE_KEYWORD
    };
    let mut likely: Vec<(Name, f64)> = Vec::new();
    let mut sure = 0.0;
    for candidate in &local.candidates {
        let Some(RequestTarget::Domain { domain }) = catalogue.target(&candidate.entry) else {
            break;
        };
        if sure >= selector.threshold || candidate.confidence < least {
            break;
        }
        sure += candidate.confidence;
        likely.push((domain.clone(), candidate.confidence));
    }
    let is_named = !named.is_empty() && local.outside < OUTSIDE;
    // A single plausible domain needs no clarification: it declines questions that it cannot answer.
    let is_alone = local.verdict == Verdict::Ambiguous && local.plausible().len() == 1;
    if !is_named && !is_alone && sure < selector.threshold {
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

/// The domains of the previous question, for a follow-up.
fn following(catalogue: &Catalogue, text: &str, memory: &Memory) -> Vec<Question> {
    if !goes_on(text) {
        return Vec::new();
    }
    let same = memory
        .domains
        .iter()
        .filter(|domain| catalogue.domain(domain).is_some())
        .map(|domain| (domain.clone(), BY_FOLLOWING));
    questions_to(same.collect(), text)
}
