//! Checks the sentence patterns of skills with the decider's parser, and collects the slots they use.

use std::collections::{BTreeMap, BTreeSet};

use convoke_decide::{BuildProblem, Entry, Options, SlotValues};
use convoke_model::{AgentFields, Name, SkillFields};

use crate::config::AppConfig;
use crate::diagnostic::{Diagnostic, Severity};
use crate::document::{Document, Parsed};

/// Checks the app's phrases and the patterns of every skill.
pub(crate) fn check(
    config: Option<&Parsed<AppConfig>>,
    agents: &[Parsed<AgentFields>],
) -> Vec<Diagnostic> {
    let mut entries = Vec::new();
    let mut places = BTreeMap::new();
    for agent in agents {
        let skills = agent
            .fields
            .as_ref()
            .map_or(&[][..], |fields| &fields.skills);
        for (index, skill) in skills.iter().enumerate() {
            // Skills may share a name, which is reported elsewhere; here each is identified by its index.
            let key = entries.len().to_string();
            entries.push(entry(&key, skill));
            places.insert(key, (&agent.document, index, skill));
        }
    }
    let known = config.and_then(|config| {
        let fields = config.fields.as_ref()?;
        Some((&config.document, &fields.decide.phrases))
    });
    if entries.is_empty() {
        return Vec::new();
    }
    let phrases = known.iter().flat_map(|(_, phrases)| *phrases);
    let options = Options {
        phrases: phrases
            .map(|(name, text)| (name.to_string(), text.clone()))
            .collect(),
        ..Options::default()
    };
    let mut found = Vec::new();
    for problem in convoke_decide::check(&entries, &options) {
        if let Some((document, index, skill)) = places.get(&problem.entry) {
            // Without a valid `convoke.yaml`, which is reported separately, the phrases are unknown.
            if known.is_some() || problem.code != "pattern.phrase_unknown" {
                found.push(in_skill(document, *index, skill, problem));
            }
        } else if let (Some((document, _)), Some(phrase)) = (known, &problem.phrase) {
            let pointer = pointer_to(document, phrase);
            found.push(in_text(document, &pointer, problem));
        }
    }
    if let Some((document, phrases)) = known {
        found.extend(unused_phrases(document, phrases, agents));
    }
    found
}

/// The decider's input. Examples are plain texts and cannot be invalid.
fn entry(key: &str, skill: &SkillFields) -> Entry {
    let slots = skill.slots.iter();
    let sentences = skill.sentences.iter();
    Entry {
        name: key.to_owned(),
        description: skill.description.clone(),
        examples: Vec::new(),
        // Empty sentences are reported by a rule of the model.
        sentences: sentences
            .filter(|sentence| !sentence.trim().is_empty())
            .cloned()
            .collect(),
        slots: slots
            .map(|(name, slot)| (name.to_string(), SlotValues(slot.values.clone())))
            .collect(),
    }
}

fn in_skill(
    document: &Document,
    index: usize,
    skill: &SkillFields,
    problem: BuildProblem,
) -> Diagnostic {
    let pointer = format!("/skills/{index}");
    let sentence = problem.pattern.as_ref().and_then(|pattern| {
        skill
            .sentences
            .iter()
            .position(|sentence| sentence == pattern)
    });
    match sentence {
        Some(sentence) => in_text(
            document,
            &format!("{pointer}/sentences/{sentence}"),
            problem,
        ),
        None => document.error(&pointer, problem.code, problem.message),
    }
}

/// The problem at its column within a text.
fn in_text(document: &Document, pointer: &str, problem: BuildProblem) -> Diagnostic {
    match (document.written_text(pointer), problem.column) {
        (Some((text, place)), Some(column)) => {
            let start = text
                .char_indices()
                .nth(column - 1)
                .map_or(text.len(), |(at, _)| at);
            let source = &document.source;
            let place = source.place_within(place, text, start..start + 1);
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

/// The pointer of a phrase, in either spelling.
fn pointer_to(document: &Document, phrase: &str) -> String {
    let phrases = document.written.find("/decide/phrases");
    let keys = phrases.map_or(&[][..], |phrases| phrases.entries()).iter();
    let written = keys
        .map(|entry| entry.key.as_str())
        .find(|key| key.replace('-', "_") == phrase);
    format!("/decide/phrases/{}", written.unwrap_or(phrase))
}

/// Warns about phrases that no sentence uses, directly or through other phrases.
fn unused_phrases(
    document: &Document,
    phrases: &BTreeMap<Name, String>,
    agents: &[Parsed<AgentFields>],
) -> Vec<Diagnostic> {
    let mentions = Mentions::of(phrases);
    let skills = agents
        .iter()
        .filter_map(|agent| agent.fields.as_ref())
        .flat_map(|agent| &agent.skills);
    let used: BTreeSet<String> = skills
        .flat_map(|skill| mentions.mentioned(skill).phrases)
        .collect();
    let unused = phrases.keys().filter(|name| !used.contains(name.as_str()));
    unused
        .map(|name| {
            let pointer = pointer_to(document, name.as_str());
            let message = format!("no sentence uses the phrase `<{name}>`");
            let warning = Diagnostic::at(
                Severity::Warning,
                &document.source,
                document.key_place(&pointer),
                "app.phrase_unused",
                message,
            );
            warning.help("use it in a sentence, or leave it out")
        })
        .collect()
}

/// The slots and phrases that a pattern mentions, even if it is otherwise invalid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct MentionedSlots {
    slots: BTreeSet<String>,
    phrases: BTreeSet<String>,
}

impl MentionedSlots {
    fn of(pattern: &str) -> Self {
        let mut spoken = Self::default();
        let mut characters = pattern.char_indices();
        while let Some((at, character)) = characters.next() {
            let names = match character {
                '{' => &mut spoken.slots,
                '<' => &mut spoken.phrases,
                '\\' => {
                    characters.next();
                    continue;
                }
                _ => continue,
            };
            let rest = pattern[at + 1..].trim_start();
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
            let name = &rest[..end.unwrap_or(rest.len())];
            if !name.is_empty() {
                names.insert(name.replace('-', "_"));
            }
        }
        spoken
    }
}

/// The slots in an app's phrases, for resolving what sentences use through them.
#[derive(Debug)]
pub(crate) struct Mentions {
    phrases: BTreeMap<String, MentionedSlots>,
}

impl Mentions {
    pub(crate) fn of<'p>(phrases: impl IntoIterator<Item = (&'p Name, &'p String)>) -> Self {
        let spoken = phrases
            .into_iter()
            .map(|(name, text)| (name.to_string(), MentionedSlots::of(text)));
        Self {
            phrases: spoken.collect(),
        }
    }

    /// All slots of a skill: declared ones and those in sentences.
    pub(crate) fn slots(&self, skill: &SkillFields) -> BTreeSet<String> {
        let mut slots = self.slots_of_sentences(skill);
        slots.extend(skill.slots.keys().map(|name| name.as_str().to_owned()));
        slots
    }

    /// The slots in a skill's sentences, including through phrases.
    pub(crate) fn slots_of_sentences(&self, skill: &SkillFields) -> BTreeSet<String> {
        self.mentioned(skill).slots
    }

    fn mentioned(&self, skill: &SkillFields) -> MentionedSlots {
        let mut all = MentionedSlots::default();
        let mut open: Vec<MentionedSlots> = skill
            .sentences
            .iter()
            .map(|sentence| MentionedSlots::of(sentence))
            .collect();
        while let Some(spoken) = open.pop() {
            all.slots.extend(spoken.slots);
            for phrase in spoken.phrases {
                if let Some(inner) = self.phrases.get(&phrase)
                    && !all.phrases.contains(&phrase)
                {
                    open.push(inner.clone());
                }
                all.phrases.insert(phrase);
            }
        }
        all
    }
}
