//! The skills of an app as something to decide over, and where each of them is found again.

use std::collections::BTreeMap;

use convoke_app::App;
use convoke_decide::{
    Entry, LocalDecider, LocalDecision, Options, Politeness, SlotValues, Verdict,
};
use convoke_model::{Name, SkillFields};

use crate::error::FlowError;
use crate::memory::SkillRef;

/// Every skill of every agent, and the decider over them.
pub(crate) struct Skills {
    entries: Vec<(SkillRef, SkillFields)>,
    /// None for an app without skills, whose requests all go to a model.
    decider: Option<LocalDecider>,
}

impl Skills {
    pub(crate) fn of(app: &App) -> Result<Self, FlowError> {
        let entries: Vec<_> = app
            .agents
            .iter()
            .flat_map(|agent| {
                agent.skills.iter().map(|skill| {
                    let target = SkillRef {
                        agent: agent.name.clone(),
                        skill: skill.name.clone(),
                    };
                    (target, skill.clone())
                })
            })
            .collect();
        let catalogue: Vec<Entry> = entries
            .iter()
            .map(|(target, skill)| entry(target, skill))
            .collect();
        if catalogue.is_empty() {
            return Ok(Self {
                entries,
                decider: None,
            });
        }
        let decider = LocalDecider::build(&catalogue, options(app)).map_err(|problems| {
            let all: Vec<_> = problems.iter().map(ToString::to_string).collect();
            FlowError::App(all.join("; "))
        })?;
        Ok(Self {
            entries,
            decider: Some(decider),
        })
    }

    /// Whether there is nothing to decide over.
    pub(crate) fn is_empty(&self) -> bool {
        self.decider.is_none()
    }

    pub(crate) fn decide(&self, text: &str) -> LocalDecision {
        match &self.decider {
            Some(decider) => decider.decide(text),
            None => LocalDecision {
                candidates: Vec::new(),
                verdict: Verdict::Unknown,
            },
        }
    }

    /// Closed slot values found anywhere in a text.
    pub(crate) fn closed_slots(&self, target: &SkillRef, text: &str) -> BTreeMap<String, String> {
        self.decider
            .as_ref()
            .map(|decider| decider.closed_slots(&key(target), text))
            .unwrap_or_default()
    }

    pub(crate) fn get(&self, target: &SkillRef) -> Option<&SkillFields> {
        self.entries
            .iter()
            .find(|(other, _)| other == target)
            .map(|(_, skill)| skill)
    }

    /// The skill that a decider's entry stands for.
    pub(crate) fn target(&self, entry: &str) -> Option<&SkillRef> {
        self.entries
            .iter()
            .map(|(target, _)| target)
            .find(|target| key(target) == entry)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &SkillFields> {
        self.entries.iter().map(|(_, skill)| skill)
    }
}

/// How the app wants decisions to be made. Its polite phrases add to the known ones.
fn options(app: &App) -> Options {
    let decide = &app.config.decide;
    let mut politeness = Politeness::known();
    politeness.push(Politeness {
        language: app.config.name.to_string(),
        before: decide.politeness.before.clone(),
        after: decide.politeness.after.clone(),
        articles: Vec::new(),
    });
    let phrases = decide.phrases.iter();
    Options {
        threshold: decide.threshold,
        out_of_scope: decide.out_of_scope.clone(),
        politeness,
        phrases: phrases
            .map(|(name, text)| (name.to_string(), text.clone()))
            .collect(),
        ..Options::default()
    }
}

fn key(target: &SkillRef) -> String {
    format!("{}.{}", target.agent, target.skill)
}

fn entry(target: &SkillRef, skill: &SkillFields) -> Entry {
    let values = |slot: &Name| {
        skill
            .slots
            .get(slot)
            .map(|slot| slot.values.clone())
            .unwrap_or_default()
    };
    Entry {
        name: key(target),
        description: skill.description.clone(),
        examples: skill.examples.clone(),
        sentences: skill.sentences.clone(),
        slots: skill
            .slots
            .keys()
            .map(|slot| (slot.to_string(), SlotValues(values(slot))))
            .collect(),
    }
}
