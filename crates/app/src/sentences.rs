//! Whether the sentence patterns of the skills can be understood, as the decider will read them.

use std::collections::BTreeMap;

use convoke_decide::{BuildProblem, Entry, LocalDecider, Options, SlotValues};
use convoke_model::{AgentFields, SkillFields};

use crate::diagnostic::{Diagnostic, Severity};
use crate::document::{Document, Parsed};

/// Checks the patterns of every skill of every agent.
pub(crate) fn check(agents: &[Parsed<AgentFields>]) -> Vec<Diagnostic> {
    let mut entries = Vec::new();
    let mut places = BTreeMap::new();
    for agent in agents {
        let skills = agent
            .fields
            .as_ref()
            .map_or(&[][..], |fields| &fields.skills);
        for (index, skill) in skills.iter().enumerate() {
            // Two skills of one name are reported elsewhere, so here each gets a number.
            let key = entries.len().to_string();
            entries.push(entry(&key, skill));
            places.insert(key, (&agent.document, index, skill));
        }
    }
    if entries.is_empty() {
        return Vec::new();
    }
    let problems = LocalDecider::build(&entries, Options::default())
        .err()
        .unwrap_or_default();
    let found = problems.into_iter().filter_map(|problem| {
        let (document, index, skill) = places.get(&problem.entry)?;
        Some(diagnostic(
            document,
            &format!("/skills/{index}"),
            skill,
            problem,
        ))
    });
    found.collect()
}

/// What the decider is to read. Examples are texts and cannot be wrong, and without them there is
/// next to nothing to learn, so the check is quick.
fn entry(key: &str, skill: &SkillFields) -> Entry {
    let slots = skill.slots.iter();
    let sentences = skill.sentences.iter();
    Entry {
        name: key.to_owned(),
        description: skill.description.clone(),
        examples: Vec::new(),
        // An empty sentence breaks a rule of the model, which has been reported.
        sentences: sentences
            .filter(|sentence| !sentence.trim().is_empty())
            .cloned()
            .collect(),
        slots: slots
            .map(|(name, slot)| (name.to_string(), SlotValues(slot.values.clone())))
            .collect(),
    }
}

fn diagnostic(
    document: &Document,
    pointer: &str,
    skill: &SkillFields,
    problem: BuildProblem,
) -> Diagnostic {
    let sentence = problem.pattern.as_ref().and_then(|pattern| {
        let index = skill
            .sentences
            .iter()
            .position(|sentence| sentence == pattern)?;
        document.written_text(&format!("{pointer}/sentences/{index}"))
    });
    match (sentence, problem.column) {
        (Some((text, place)), Some(column)) => {
            let start = text
                .char_indices()
                .nth(column - 1)
                .map_or(text.len(), |(at, _)| at);
            let place = document.source.place_within(place, text, start..start + 1);
            let source = &document.source;
            Diagnostic::at(
                Severity::Error,
                source,
                place,
                problem.code,
                problem.message,
            )
        }
        _ => document.error(pointer, problem.code, problem.message),
    }
}
