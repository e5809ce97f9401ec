//! Whether the right agents, domains or skills were chosen, as the answer's metadata tells it.

use convoke::{Answer, App};
use convoke_model::Name;
use serde_json::Value;

use super::verdict::ExpectedActual;

/// Something that a request was given to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The agent's, domain's or skill's own name.
    pub(crate) name: String,
    /// Whose skill it is.
    agent: Option<String>,
}

impl Target {
    /// All that a request was given to. Where nothing is told of it, there is none.
    pub(crate) fn all(answer: &Answer) -> Vec<Self> {
        Self::told(answer).unwrap_or_default()
    }

    /// What the answer tells of its targets, if it does.
    pub(crate) fn told(answer: &Answer) -> Option<Vec<Self>> {
        let targets = answer.metadata.get("routing")?.get("targets")?.as_array()?;
        let read = |target: &Value| {
            let text = |key: &str| Some(target.get(key)?.as_str()?.replace('-', "_"));
            Some(Self {
                name: text("name")?,
                agent: text("agent"),
            })
        };
        Some(targets.iter().filter_map(read).collect())
    }

    fn fits(&self, wanted: &Name) -> bool {
        wanted.matches(&self.name)
            || self
                .agent
                .as_deref()
                .is_some_and(|agent| wanted.matches(agent))
    }
}

/// Each name that is wanted with what was found in its place, and then what was found besides. A pair is
/// right where both are the same.
///
/// Which of several wrong ones was taken for which of several missing ones nobody can tell, so they are
/// put side by side in the order of their names.
pub(super) fn pairs(wanted: &[Name], found: &[Target], app: &App) -> Vec<ExpectedActual> {
    // A case that speaks of agents is told of agents, and one that speaks of skills of skills.
    let by_skill = wanted.iter().any(|name| has_skill(app, name));
    let shown = |target: &Target| match &target.agent {
        Some(agent) if !by_skill => agent.clone(),
        _ => target.name.clone(),
    };
    let (right, missing): (Vec<&Name>, Vec<&Name>) = wanted
        .iter()
        .partition(|name| found.iter().any(|target| target.fits(name)));
    let mut missing: Vec<String> = missing.into_iter().map(Name::to_string).collect();
    let mut besides: Vec<String> = found
        .iter()
        .filter(|target| !wanted.iter().any(|name| target.fits(name)))
        .map(shown)
        .collect();
    for names in [&mut missing, &mut besides] {
        names.sort();
        names.dedup();
    }
    let wrong = missing.len().max(besides.len());
    let wrong = (0..wrong).map(|place| (missing.get(place).cloned(), besides.get(place).cloned()));
    right
        .into_iter()
        .map(|name| (Some(name.to_string()), Some(name.to_string())))
        .chain(wrong)
        .collect()
}

/// Whether all pairs are right.
pub(super) fn all_right(pairs: &[ExpectedActual]) -> bool {
    pairs.iter().all(|(wanted, found)| wanted == found)
}

fn has_skill(app: &App, name: &Name) -> bool {
    let mut skills = app.agents.iter().flat_map(|agent| &agent.skills);
    skills.any(|skill| skill.name == *name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use convoke_model::AnswerFields;
    use serde_json::json;

    use super::*;

    fn house() -> App {
        let agent = |name: &str, skill: &str| {
            format!(
                "name: {name}\nrole: R.\nsystem_prompt: P.\ntools: [builtin.current_time]\nskills:\n  - \
                 name: {skill}\n    description: D\n    examples: [do {skill}]\n    action: {{tool: \
                 builtin.current_time, reply: Done.}}\n"
            )
        };
        let files = [
            ("convoke.yaml".to_owned(), "name: house\n".to_owned()),
            ("agents/light.yaml".to_owned(), agent("light", "turn_on")),
            ("agents/music.yaml".to_owned(), agent("music", "play")),
        ]
        .into();
        let (environment, none) = (|_: &str| None, BTreeSet::new());
        let hash = convoke_app::StoredApp::read(&files).unwrap().hash;
        App::load_stored(&files, &hash, "".as_ref(), &environment, &none).unwrap()
    }

    fn compared(wanted: &[&str], routing: &Value) -> Vec<ExpectedActual> {
        let wanted: Vec<Name> = wanted.iter().map(|name| Name::new(name).unwrap()).collect();
        let mut fields = AnswerFields::of("Done.");
        fields.metadata.insert("routing".into(), routing.clone());
        let answer = Answer::new(fields).unwrap();
        pairs(&wanted, &Target::all(&answer), &house())
    }

    fn pair(wanted: &str, found: &str) -> ExpectedActual {
        let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        (name(wanted), name(found))
    }

    #[test]
    fn a_skill_is_found_by_its_own_name_and_by_its_agents_in_either_spelling_and_any_order() {
        let routing = json!({ "targets": [
            { "name": "customer-behavior", "kind": "domain", "confidence": 0.9 },
            { "name": "turn_on", "kind": "skill", "agent": "light", "confidence": 0.9 },
            { "name": "turn_off", "kind": "skill", "agent": "light", "confidence": 0.9 },
        ] });
        assert!(all_right(&compared(
            &["light", "customer_behavior"],
            &routing
        )));
        assert!(all_right(&compared(
            &["turn-off", "customer-behavior", "turn-on"],
            &routing
        )));
        assert_eq!(
            compared(&["turn_on", "customer_behavior"], &routing),
            [
                pair("turn_on", "turn_on"),
                pair("customer_behavior", "customer_behavior"),
                pair("", "turn_off"),
            ]
        );
    }

    #[test]
    fn what_was_missed_stands_beside_what_was_taken_for_it() {
        let routing = json!({ "targets": [
            { "name": "turn_on", "kind": "skill", "agent": "light" },
        ] });
        assert_eq!(compared(&["music"], &routing), [pair("music", "light")]);
        assert_eq!(compared(&["play"], &routing), [pair("play", "turn_on")]);
        let nothing = json!({ "targets": [] });
        assert_eq!(compared(&["music"], &nothing), [pair("music", "")]);
        assert!(all_right(&compared(&[], &nothing)));
        assert!(!all_right(&compared(&[], &routing)));
    }

    #[test]
    fn an_answer_that_tells_nothing_of_its_targets_has_none() {
        let answer = Answer::new(AnswerFields::of("Done.")).unwrap();
        assert_eq!(Target::told(&answer), None);
        assert!(Target::all(&answer).is_empty());
        for odd in [json!(null), json!({}), json!({ "targets": [{}, 5] })] {
            assert_eq!(compared(&["light"], &odd), [pair("light", "")], "{odd}");
        }
    }
}
