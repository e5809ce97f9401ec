//! Polite phrases around a request.
//!
//! A pattern contains only what matters: `add {title}` also matches "Hey, could you please add milk,
//! thanks!". The phrases may be repeated and mixed. A pattern that contains such words still matches
//! them, and wins because it matches more words. Words after an article are meant literally: "send
//! grandma a thank you" does not end with a politeness, unless a comma separates it.

use std::collections::BTreeSet;

use crate::words::{Kind, Words};

/// The polite phrases of one language.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Politeness {
    /// The language's tag, such as `en`.
    pub language: String,
    /// Phrases before a request.
    pub before: Vec<String>,
    /// Phrases after a request.
    pub after: Vec<String>,
    /// Words that require a noun, so that the next words are not a politeness. Words that can stand
    /// alone, such as `this`, must not be listed.
    pub articles: Vec<String>,
}

type Texts = &'static [&'static str];

/// Language, phrases before, phrases after, articles.
const KNOWN: [(&str, Texts, Texts, Texts); 8] = [
    (
        "en",
        &[
            "hey",
            "hey there",
            "hi",
            "hi there",
            "hello",
            "yo",
            "ok",
            "okay",
            "please",
            "pls",
            "kindly",
            "thanks",
            "um",
            "uh",
            "oh",
            "oops",
            "wait",
            "actually",
            "so",
            "and",
            "also",
            "now",
            "then",
            "can you",
            "can u",
            "can we",
            "can you please",
            "could you",
            "would you",
            "would you mind",
            "will you",
            "you can",
            "let's",
            "go ahead and",
            "i want you to",
            "i would like you to",
            "i'd like you to",
            "i need you to",
        ],
        &[
            "please",
            "pls",
            "thanks",
            "thank you",
            "thanks a lot",
            "thank you very much",
            "cheers",
            "for me",
            "too",
            "as well",
            "right now",
            "if you can",
            "when you can",
        ],
        &[
            "a", "an", "the", "my", "your", "our", "their", "its", "every",
        ],
    ),
    (
        "de",
        &[
            "hallo",
            "hi",
            "hey",
            "ok",
            "okay",
            "bitte",
            "kannst du",
            "könntest du",
            "können sie",
            "könnten sie",
            "würdest du",
            "würden sie",
        ],
        &["bitte", "danke", "danke schön", "dankeschön", "vielen dank"],
        &[
            "ein", "eine", "einen", "einem", "einer", "mein", "meine", "meinen", "meinem", "meiner",
        ],
    ),
    (
        "fr",
        &[
            "bonjour",
            "salut",
            "s'il te plaît",
            "s'il vous plaît",
            "peux tu",
            "pouvez vous",
            "pourrais tu",
            "pourriez vous",
            "est ce que tu peux",
        ],
        &[
            "s'il te plaît",
            "s'il vous plaît",
            "stp",
            "svp",
            "merci",
            "merci beaucoup",
        ],
        &[
            "un", "une", "du", "des", "mon", "ma", "mes", "notre", "votre",
        ],
    ),
    (
        "es",
        &["hola", "por favor", "puedes", "podrías", "puede", "podría"],
        &["por favor", "gracias", "muchas gracias"],
        &["un", "una", "unos", "unas", "el", "los", "las", "mi", "mis"],
    ),
    (
        "it",
        &[
            "ciao",
            "per favore",
            "per piacere",
            "puoi",
            "potresti",
            "può",
            "potrebbe",
        ],
        &["per favore", "per piacere", "grazie", "grazie mille"],
        &["un", "una", "uno", "il", "gli", "mio", "mia"],
    ),
    (
        "el",
        &[
            "γεια",
            "γεια σου",
            "γεια σας",
            "παρακαλώ",
            "σε παρακαλώ",
            "μπορείς να",
            "μπορείτε να",
            "θα μπορούσες να",
        ],
        &["παρακαλώ", "σε παρακαλώ", "ευχαριστώ", "ευχαριστώ πολύ"],
        &["ένα", "έναν", "μια", "μία"],
    ),
    (
        "ja",
        &["すみません", "ねえ", "どうか"],
        &["お願いします", "お願い", "ください", "ありがとう"],
        &[],
    ),
    (
        "ar",
        &["مرحبا", "من فضلك", "لو سمحت", "هل يمكنك"],
        &["من فضلك", "لو سمحت", "شكرا", "شكرًا"],
        &[],
    ),
];

impl Politeness {
    /// The built-in phrases of all supported languages. An app for other languages, or in which a phrase
    /// has a meaning, provides its own list.
    pub fn known() -> Vec<Self> {
        let owned = |phrases: &[&str]| phrases.iter().map(|&phrase| phrase.to_owned()).collect();
        KNOWN
            .iter()
            .map(|(language, before, after, articles)| Self {
                language: (*language).to_owned(),
                before: owned(before),
                after: owned(after),
                articles: owned(articles),
            })
            .collect()
    }
}

/// Where a request can start and end within a text.
#[derive(Debug)]
pub(crate) struct Edges {
    /// Whether the request can start at each position.
    pub(crate) starts: Vec<bool>,
    /// For each position, how many symbols are left out if the request ends before it; `None` where it cannot end.
    pub(crate) ends: Vec<Option<usize>>,
}

/// All phrases as lists of normalised words.
#[derive(Debug, Default)]
pub(crate) struct Phrases {
    before: Vec<Vec<String>>,
    after: Vec<Vec<String>>,
    articles: BTreeSet<String>,
}

impl Phrases {
    pub(crate) fn of(politeness: &[Politeness]) -> Self {
        let cut = |phrases: &[String]| {
            let cut = phrases.iter().map(|phrase| {
                Words::of(phrase)
                    .normals()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            });
            cut.filter(|words| !words.is_empty()).collect::<Vec<_>>()
        };
        Self {
            before: politeness
                .iter()
                .flat_map(|language| cut(&language.before))
                .collect(),
            after: politeness
                .iter()
                .flat_map(|language| cut(&language.after))
                .collect(),
            articles: politeness
                .iter()
                .flat_map(|language| cut(&language.articles))
                .flatten()
                .collect(),
        }
    }

    pub(crate) fn edges(&self, words: &Words<'_>) -> Edges {
        let count = words.len();
        let mut starts = vec![false; count + 1];
        let mut ends = vec![None; count + 1];
        starts[0] = true;
        ends[count] = Some(0);
        for at in 0..count {
            if !starts[at] {
                continue;
            }
            if words.word(at).kind == Kind::Symbol {
                starts[at + 1] = true;
            }
            for phrase in &self.before {
                if matches_phrase(words, at, phrase) {
                    starts[at + phrase.len()] = true;
                }
            }
        }
        for at in (1..=count).rev() {
            let Some(left_out) = ends[at] else {
                continue;
            };
            if words.word(at - 1).kind == Kind::Symbol {
                end_at(&mut ends[at - 1], left_out + 1);
            }
            for phrase in &self.after {
                if let Some(from) = at.checked_sub(phrase.len())
                    && matches_phrase(words, from, phrase)
                    && !self.belongs_to_article(words, from)
                {
                    end_at(&mut ends[from], left_out);
                }
            }
        }
        Edges { starts, ends }
    }

    /// The position of the first word that is not a politeness, if there is one.
    pub(crate) fn first_word(&self, words: &Words<'_>) -> Option<usize> {
        let starts = self.edges(words).starts;
        let first = starts.iter().rposition(|start| *start)?;
        (first < words.len()).then_some(first)
    }

    pub(crate) fn is_article(&self, word: &str) -> bool {
        self.articles.contains(word)
    }

    /// Whether the words at a position belong to an article before them.
    fn belongs_to_article(&self, words: &Words<'_>, from: usize) -> bool {
        let Some(before) = from.checked_sub(1) else {
            return false;
        };
        let between = words.word(before).span.end..words.word(from).span.start;
        self.is_article(words.normal(before))
            && words.text()[between].chars().all(char::is_whitespace)
    }
}

/// Lets the request end at a position, with as few symbols left out as possible.
fn end_at(end: &mut Option<usize>, left_out: usize) {
    *end = Some(end.map_or(left_out, |known| known.min(left_out)));
}

fn matches_phrase(words: &Words<'_>, from: usize, phrase: &[String]) -> bool {
    from + phrase.len() <= words.len()
        && phrase
            .iter()
            .enumerate()
            .all(|(offset, word)| words.normal(from + offset) == word)
}
