//! The targets of local decisions: the skills of an app's agents, and its data domains.

use std::collections::BTreeMap;

use convoke_app::App;
use convoke_decide::{
    Classifiers, Entry, LocalDecider, LocalDecision, Options, Politeness, SlotValues,
};
use convoke_model::{Agent, Domain, Name, SkillFields, Slot};
use serde_json::{Map, Value};

use crate::error::FlowError;
use crate::memory::{RequestTarget, SkillRef};

/// All skills, all enabled domains, and the decider over them.
pub(crate) struct Catalogue {
    skills: Vec<(SkillRef, SkillFields)>,
    domains: Vec<Domain>,
    /// `None` without skills and domains; all requests then go to a model.
    decider: Option<LocalDecider>,
    /// Targets by the name of the decider's entry.
    targets: BTreeMap<String, RequestTarget>,
    /// Keywords, split into words, and the domain that each selects.
    keywords: Vec<(Vec<String>, Name)>,
}

impl Catalogue {
    pub(crate) fn of(app: &App, classifiers: &Classifiers) -> Result<Self, FlowError> {
        let skills: Vec<(SkillRef, SkillFields)> = app
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
        let enabled = app.domains.iter().filter(|domain| domain.enabled);
        let domains: Vec<Domain> = enabled.cloned().collect();
        let of_skills = skills.iter().map(|(target, skill)| {
            (
                RequestTarget::Skill(target.clone()),
                skill_entry(target, skill),
            )
        });
        let of_domains = domains.iter().map(|domain| {
            let target = RequestTarget::Domain {
                domain: domain.name.clone(),
            };
            (target, domain_entry(domain))
        });
        let (targets, entries): (Vec<RequestTarget>, Vec<Entry>) =
            of_skills.chain(of_domains).unzip();
        let decider = match entries.as_slice() {
            [] => None,
            entries => Some(
                LocalDecider::build_sharing(entries, options(app), classifiers).map_err(
                    |problems| {
                        let all: Vec<_> = problems.iter().map(ToString::to_string).collect();
                        FlowError::App(all.join("; "))
                    },
                )?,
            ),
        };
        let names = entries.into_iter().map(|entry| entry.name);
        Ok(Self {
            targets: names.zip(targets).collect(),
            keywords: keywords(&domains),
            skills,
            domains,
            decider,
        })
    }

    /// Whether there are neither skills nor domains.
    pub(crate) fn is_empty(&self) -> bool {
        self.decider.is_none()
    }

    pub(crate) fn decide(&self, text: &str) -> LocalDecision {
        match &self.decider {
            Some(decider) => decider.decide(text),
            None => LocalDecision::nothing(),
        }
    }

    /// Trains the classifier, which handles texts that match no sentence. Slow the first time.
    pub(crate) fn train(&self) {
        if let Some(decider) = &self.decider {
            decider.train();
        }
    }

    /// Whether the classifier is trained, so that no decision waits for it.
    pub(crate) fn is_trained(&self) -> bool {
        self.decider.as_ref().is_none_or(LocalDecider::is_trained)
    }

    /// Whether a text begins like a known request.
    pub(crate) fn begins_a_request(&self, text: &str) -> bool {
        let decider = self.decider.as_ref();
        decider.is_some_and(|decider| decider.begins_a_request(text))
    }

    /// Values of closed slots found in a text.
    pub(crate) fn closed_slots(&self, target: &SkillRef, text: &str) -> BTreeMap<String, String> {
        self.decider
            .as_ref()
            .map(|decider| decider.closed_slots(&key(target), text))
            .unwrap_or_default()
    }

    /// The slots that an answer to a question for a slot without `refers_to` fills. Empty if it names no value of a closed
    /// slot.
    pub(crate) fn answered_slots(
        &self,
        target: &SkillRef,
        asked: &Name,
        known: &Map<String, Value>,
        text: &str,
    ) -> BTreeMap<String, String> {
        let (Some(decider), Some(skill)) = (&self.decider, self.skill(target)) else {
            return BTreeMap::new();
        };
        let asked_slot = skill.slots.get(asked);
        if asked_slot.is_none_or(|slot| slot.values.is_empty()) {
            let said = decider.answered_text(text).to_owned();
            return BTreeMap::from([(asked.to_string(), said)]);
        }
        let is_open = |(name, slot): &(&Name, &Slot)| {
            !slot.values.is_empty() && slot.ask.is_some() && !known.contains_key(name.as_str())
        };
        let open = skill.slots.iter().filter(is_open);
        let open = open
            .map(|(name, _)| name.as_str())
            .filter(|name| *name != asked.as_str());
        let open: Vec<&str> = open.collect();
        decider.answered_slots(&key(target), asked.as_str(), &open, text)
    }

    pub(crate) fn skill(&self, target: &SkillRef) -> Option<&SkillFields> {
        self.skills
            .iter()
            .find(|(other, _)| other == target)
            .map(|(_, skill)| skill)
    }

    pub(crate) fn domain(&self, name: &Name) -> Option<&Domain> {
        self.domains.iter().find(|domain| domain.name == *name)
    }

    /// The target of a decider's entry.
    pub(crate) fn target(&self, entry: &str) -> Option<&RequestTarget> {
        self.targets.get(entry)
    }

    /// All targets: the skills, then the domains.
    pub(crate) fn all(&self) -> Vec<RequestTarget> {
        let skills = self.skills.iter();
        let skills = skills.map(|(target, _)| RequestTarget::Skill(target.clone()));
        let domains = self.domains.iter().map(|domain| RequestTarget::Domain {
            domain: domain.name.clone(),
        });
        skills.chain(domains).collect()
    }

    /// The enabled domains.
    pub(crate) fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// The domains whose keywords occur in a text, in order of occurrence. Of several keywords at the same word, only
    /// the longest counts: "cost per click" does not match "cost".
    pub(crate) fn named_domains(&self, text: &str) -> Vec<Name> {
        let words = words(text);
        let mut found: Vec<Name> = Vec::new();
        let mut rest = words.as_slice();
        while !rest.is_empty() {
            let fitting = self
                .keywords
                .iter()
                .filter(|(keyword, _)| begins(rest, keyword));
            let Some(longest) = fitting.clone().map(|(keyword, _)| keyword.len()).max() else {
                rest = &rest[1..];
                continue;
            };
            for (_, domain) in fitting.filter(|(keyword, _)| keyword.len() == longest) {
                if !found.contains(domain) {
                    found.push(domain.clone());
                }
            }
            rest = &rest[longest..];
        }
        found
    }

    /// Description and examples of a target, for a clarifying question.
    pub(crate) fn description(
        &self,
        target: &RequestTarget,
        app: &App,
    ) -> Option<(String, Vec<String>)> {
        match target {
            RequestTarget::Skill(target) => {
                let skill = self.skill(target)?;
                Some((skill.description.clone(), skill.examples.clone()))
            }
            RequestTarget::Domain { domain } => {
                let domain = self.domain(domain)?;
                Some((domain.description.clone(), domain.examples.clone()))
            }
            RequestTarget::Agent { agent } => {
                let agent = app.agent(agent.as_str())?;
                let examples = agent.skills.iter().flat_map(|skill| &skill.examples);
                Some((agent.role.clone(), examples.cloned().collect()))
            }
        }
    }
}

/// The agents that receive requests: all except sub-agents of others.
pub(crate) fn leading(app: &App) -> impl Iterator<Item = &Agent> {
    let works_for_another = |agent: &&Agent| {
        let mut others = app.agents.iter();
        others.any(|other| other.agents.contains(&agent.name))
    };
    app.agents
        .iter()
        .filter(move |agent| !works_for_another(agent))
}

/// Options of the decider. The app's polite phrases extend the built-in ones.
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

fn skill_entry(target: &SkillRef, skill: &SkillFields) -> Entry {
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

/// The prefix cannot collide with a skill's entry: an agent's name has no colon.
fn domain_entry(domain: &Domain) -> Entry {
    let described = std::iter::once(&domain.description).chain(&domain.capabilities);
    let described: Vec<&str> = described.map(String::as_str).collect();
    Entry {
        name: format!("domain:{}", domain.name),
        description: described.join(". "),
        examples: domain.examples.clone(),
        ..Entry::default()
    }
}

fn keywords(domains: &[Domain]) -> Vec<(Vec<String>, Name)> {
    let of = |domain: &Domain| {
        let name = domain.name.clone();
        let keywords = domain.keywords.iter().map(|keyword| words(keyword));
        keywords
            .filter(|keyword| !keyword.is_empty())
            .map(move |keyword| (keyword, name.clone()))
            .collect::<Vec<_>>()
    };
    domains.iter().flat_map(of).collect()
}

/// The words of a text, in lower case.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether the keyword occurs at the start of the words.
fn begins(words: &[String], keyword: &[String]) -> bool {
    words.len() >= keyword.len()
        && words
            .iter()
            .zip(keyword)
            .all(|(word, key)| is_form_of(word, key))
}

/// Whether a word is a keyword, or its plural.
fn is_form_of(word: &str, keyword: &str) -> bool {
    word == keyword
        || word
            .strip_prefix(keyword)
            .is_some_and(|rest| matches!(rest, "s" | "es"))
}
