//! Checks the parts of a skill against each other: sentences, slots and templates.

use convoke_model::{AgentFields, SkillFields};

use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::sentences::Mentions;
use crate::spelling::nearest;
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

/// Reports slots that no sentence fills and no question asks for: without a model they stay empty. Also one that is asked
/// for, where a sentence has a slot of almost the same name that is not described.
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
    let is_described = |name: &&String| skill.slots.keys().any(|slot| slot.matches(name));
    let not_described: Vec<&str> = used
        .iter()
        .filter(|name| !is_described(name))
        .map(String::as_str)
        .collect();
    let unused = skill
        .slots
        .iter()
        .filter(|(name, _)| !used.contains(name.as_str()));
    unused
        .filter_map(|(name, slot)| {
            let meant = nearest(name.as_str(), not_described.iter().copied());
            let help = match (meant, &slot.ask) {
                (Some(meant), _) => format!("did you mean `{meant}`, which a sentence has?"),
                (None, Some(_)) => return None,
                (None, None) => format!(
                    "put `{{{name}}}` into a sentence, give the slot a question to `ask`, or leave it out"
                ),
            };
            let warning = document.warning(
                &format!("{pointer}/slots/{name}"),
                "app.slot_unused",
                format!("no sentence of `{}` has the slot `{name}`", skill.name),
            );
            Some(warning.help(help))
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
