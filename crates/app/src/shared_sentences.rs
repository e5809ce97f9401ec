//! Sentences that stand in several skills. Who says one is asked which skill is meant.

use std::collections::BTreeMap;

use crate::app::App;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Document;
use crate::environment::{Secrets, Variables};
use crate::origin::Origin;

/// One place of a sentence.
struct Place {
    document: usize,
    pointer: String,
    skill: String,
}

impl App {
    /// A note on each sentence that stands in several skills, at its second place. That is right where the sentence is
    /// unclear, and a mistake where it was copied.
    pub fn shared_sentences(&self) -> Vec<Diagnostic> {
        let agents = self.files.keys().filter(|file| file.starts_with("agents/"));
        let documents: Vec<Document> = agents.filter_map(|file| self.written(file)).collect();
        let mut places: BTreeMap<String, Vec<Place>> = BTreeMap::new();
        for (index, document) in documents.iter().enumerate() {
            let value = document.normal_value();
            let skills = value["skills"].as_array().into_iter().flatten();
            for (number, skill) in skills.enumerate() {
                let name = skill["name"].as_str().unwrap_or_default();
                let sentences = skill["sentences"].as_array().into_iter().flatten();
                for (position, sentence) in sentences.enumerate() {
                    let words: Vec<&str> = sentence
                        .as_str()
                        .unwrap_or_default()
                        .split_whitespace()
                        .collect();
                    let skill = format!("`{name}` ({})", document.source.file());
                    let of_sentence = places.entry(words.join(" ").to_lowercase()).or_default();
                    if of_sentence.iter().all(|place| place.skill != skill) {
                        of_sentence.push(Place {
                            document: index,
                            pointer: format!("/skills/{number}/sentences/{position}"),
                            skill,
                        });
                    }
                }
            }
        }
        let note = |(sentence, places): (String, Vec<Place>)| {
            let [_, second, ..] = &places[..] else {
                return None;
            };
            let skills: Vec<&str> = places.iter().map(|place| place.skill.as_str()).collect();
            let skills = skills.join(", ");
            let message = format!(
                "`{sentence}` stands in several skills: {skills}; who says it is asked which is meant"
            );
            let document = &documents[second.document];
            let mut note = document.warning(&second.pointer, "app.sentence_shared", message);
            note.severity = Severity::Note;
            Some(note.help("keep it in one of them, unless it is meant to be unclear"))
        };
        places.into_iter().filter_map(note).collect()
    }

    /// A file as it is written.
    fn written(&self, file: &str) -> Option<Document> {
        // Problems of the files were reported when the app was loaded.
        Document::read(
            Origin::Stored(&self.files),
            file,
            &Variables::EMPTY,
            &mut Secrets::default(),
            &mut Diagnostics::default(),
        )
    }
}
