//! Checks the parts of a skill against each other: sentences, slots and templates.

use convoke_model::{Action, AgentFields, SkillFields};
use serde_json::{Map, Value};

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
    found.extend(approval(document, &action, skill, templates, &slots));
    let refusal = with(&["error", "code"]);
    found.extend(templates.check(document, &format!("{action}/failure"), &refusal));
    found
}

/// Checks the condition of an approval: its names are slots and arguments, and it compares no text with a number.
fn approval(
    document: &Document,
    pointer: &str,
    skill: &SkillFields,
    templates: &Templates,
    slots: &[&str],
) -> Vec<Diagnostic> {
    let Some((action, approval)) = skill
        .action
        .as_ref()
        .and_then(|action| Some((action, action.approval.as_ref()?)))
    else {
        return Vec::new();
    };
    let arguments = action.arguments.keys().map(String::as_str);
    let known: Vec<&str> = slots.iter().copied().chain(arguments).collect();
    let place = format!("{pointer}/approval/when");
    let mut found = templates.check_condition(document, &place, &known);
    if found.is_empty()
        && let Some(why) = templates.misordered(&approval.when, &samples(skill, action, slots))
    {
        let message = format!("{why}; what the user says is text");
        let error = document.error(&place, "app.expression", message);
        found.push(error.help("make it a number first: `amount | float > 100`"));
    }
    found
}

/// A value of every slot and argument whose type is known. A slot is a text, an argument is as it is written.
fn samples(skill: &SkillFields, action: &Action, slots: &[&str]) -> Map<String, Value> {
    let is_item = |slot: &str| {
        let mut declared = skill.slots.iter();
        declared.any(|(name, declared)| name.matches(slot) && declared.refers_to.is_some())
    };
    let texts = slots.iter().filter(|slot| !is_item(slot));
    let mut samples: Map<String, Value> = texts
        .map(|slot| ((*slot).to_owned(), Value::from("1")))
        .collect();
    for (name, value) in &action.arguments {
        let known = match value.as_str() {
            None => Some(value.clone()),
            Some(text) => {
                let inner = text.trim().strip_prefix("{{");
                let inner = inner.and_then(|inner| inner.strip_suffix("}}"));
                let slot = inner.and_then(|inner| samples.get(inner.trim()));
                slot.cloned().or((!text.contains('{')).then(|| text.into()))
            }
        };
        match known {
            Some(value) => samples.insert(name.clone(), value),
            None => samples.shift_remove(name),
        };
    }
    samples
}
