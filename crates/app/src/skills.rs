//! Checks the parts of a skill against each other: sentences, slots and templates.

use convoke_model::{AgentFields, SkillFields};

use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::sentences::Mentions;
use crate::templates::Templates;

/// Checks every skill of an agent.
pub(crate) fn check(
    document: &Document,
    agent: &AgentFields,
    templates: &Templates,
    mentions: &Mentions,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (index, skill) in agent.skills.iter().enumerate() {
        let pointer = format!("/skills/{index}");
        found.extend(unused_slots(document, &pointer, skill, mentions));
        found.extend(bad_templates(
            document, &pointer, skill, templates, mentions,
        ));
    }
    found
}

/// Reports slots that no sentence fills and no question asks for: without a model they stay empty.
fn unused_slots(
    document: &Document,
    pointer: &str,
    skill: &SkillFields,
    mentions: &Mentions,
) -> Vec<Diagnostic> {
    if skill.sentences.is_empty() {
        return Vec::new();
    }
    let used = mentions.slots_of_sentences(skill);
    skill
        .slots
        .iter()
        .filter(|(name, slot)| !used.contains(name.as_str()) && slot.ask.is_none())
        .map(|(name, _)| {
            let mut warning = document.warning(
                &format!("{pointer}/slots/{name}"),
                "app.slot_unused",
                format!("no sentence of `{}` has the slot `{name}`", skill.name),
            );
            warning = warning.help(format!(
                "put `{{{name}}}` into a sentence, give the slot a question to `ask`, or leave it out"
            ));
            warning
        })
        .collect()
}

fn bad_templates(
    document: &Document,
    pointer: &str,
    skill: &SkillFields,
    templates: &Templates,
    mentions: &Mentions,
) -> Vec<Diagnostic> {
    let slots = mentions.slots(skill);
    let slots: Vec<&str> = slots.iter().map(String::as_str).collect();
    let with = |more: &[&'static str]| [slots.as_slice(), more].concat();
    let mut found = Vec::new();
    let question = with(&["words", "candidates"]);
    for name in skill.slots.keys() {
        let slot = format!("{pointer}/slots/{name}");
        found.extend(templates.check(document, &format!("{slot}/ask"), &question));
        let reference = format!("{slot}/refers_to");
        found.extend(templates.check_all(document, &format!("{reference}/arguments"), &slots));
        found.extend(templates.check(document, &format!("{reference}/none"), &["words", "count"]));
        found.extend(templates.check(document, &format!("{reference}/many"), &question));
    }
    let action = format!("{pointer}/action");
    found.extend(templates.check_all(document, &format!("{action}/arguments"), &slots));
    found.extend(templates.check(document, &format!("{action}/confirm"), &slots));
    found.extend(templates.check(document, &format!("{action}/reply"), &with(&["result"])));
    let refusal = with(&["error", "code"]);
    found.extend(templates.check(document, &format!("{action}/failure"), &refusal));
    found
}
