//! Suggests questions after an answer from data domains: those that the related domains offer for what was shown, then
//! their examples, those first that speak of the same things as the answer.

use std::collections::BTreeSet;

use convoke_model::{DomainFields, MAX_SUGGESTIONS, Name};
use serde_json::{Map, Value};

use crate::assistant::Assistant;
use crate::catalogue::words;

/// Limit of suggestions that a conversation remembers, so that they are not made again.
const REMEMBERED: usize = 24;

/// Letters of the shortest word that two questions are compared by.
const COMPARED_LETTERS: usize = 4;

/// What suggestions follow from.
pub(crate) struct Answered<'a> {
    /// The domains that were queried.
    pub(crate) domains: Vec<&'a Name>,
    /// The user's message.
    pub(crate) question: &'a str,
    pub(crate) answer: String,
    /// Values for the domains' templates: `question`, `shown` and `result`.
    pub(crate) context: Map<String, Value>,
    /// Suggestions that were made earlier in the conversation.
    pub(crate) earlier: &'a [String],
}

/// At most [`MAX_SUGGESTIONS`] questions to related domains that are enabled and were not queried. The domains take
/// turns. Which of a domain's questions comes first depends on the answer.
pub(crate) fn suggest(assistant: &Assistant, answered: &Answered<'_>) -> Vec<String> {
    let mut seen: BTreeSet<Vec<String>> = BTreeSet::from([words(answered.question)]);
    seen.extend(answered.earlier.iter().map(|text| words(text)));
    let mut offers: Vec<Vec<String>> = related(assistant, &answered.domains)
        .into_iter()
        .map(|domain| offers(assistant, domain, answered))
        .collect();
    let mut suggestions = Vec::new();
    while suggestions.len() < MAX_SUGGESTIONS && offers.iter().any(|offers| !offers.is_empty()) {
        for offers in &mut offers {
            let next = offers.iter().position(|text| !seen.contains(&words(text)));
            let Some(next) = next else {
                offers.clear();
                continue;
            };
            let text = offers.remove(next);
            seen.insert(words(&text));
            suggestions.push(text);
        }
    }
    suggestions.truncate(MAX_SUGGESTIONS);
    suggestions
}

/// The suggestions that a conversation remembers after these.
pub(crate) fn remembered(earlier: &[String], made: &[String]) -> Vec<String> {
    let all = earlier.iter().chain(made).cloned();
    let all: Vec<String> = all.collect();
    all[all.len().saturating_sub(REMEMBERED)..].to_vec()
}

fn related<'a>(assistant: &'a Assistant, queried: &[&Name]) -> Vec<&'a DomainFields> {
    let domain = |name: &Name| assistant.catalogue.domain(name).map(|domain| &**domain);
    let mut related: Vec<&DomainFields> = Vec::new();
    for queried_domain in queried.iter().filter_map(|name| domain(name)) {
        for name in &queried_domain.related_domains {
            let is_new = related.iter().all(|known| known.name != *name);
            if is_new && !queried.contains(&name) {
                related.extend(domain(name));
            }
        }
    }
    related
}

/// The questions that a domain offers, the best one first.
fn offers(assistant: &Assistant, domain: &DomainFields, answered: &Answered<'_>) -> Vec<String> {
    let turn = usize::try_from(hash(&answered.answer) >> 32).unwrap_or(0);
    // What is said of this answer comes before what is said of any.
    let is_plain = |template: &&String| !template.contains("{{");
    let (plain, filled): (Vec<&String>, Vec<&String>) =
        domain.suggestions.iter().partition(is_plain);
    let rendered = filled.into_iter().filter_map(|template| {
        // A template over something that this answer has not is for other answers.
        let text = assistant.templates.text(template, &answered.context).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    });
    let mut offers: Vec<String> = rendered.collect();
    if !offers.is_empty() {
        let first = turn % offers.len();
        offers.rotate_left(first);
    }
    offers.extend(plain.into_iter().cloned());
    let mut examples = domain.examples.clone();
    if !examples.is_empty() {
        let first = turn % examples.len();
        examples.rotate_left(first);
    }
    let spoken = compared(&format!("{} {}", answered.question, answered.answer));
    let common = |example: &String| compared(example).intersection(&spoken).count();
    examples.sort_by_key(|example| std::cmp::Reverse(common(example)));
    offers.extend(examples);
    offers
}

/// The words by which questions are compared.
fn compared(text: &str) -> BTreeSet<String> {
    let words = words(text).into_iter();
    words
        .filter(|word| word.chars().count() >= COMPARED_LETTERS)
        .collect()
}

/// FNV-1a. The same answer has the same suggestions in every version, as a replay needs it.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
