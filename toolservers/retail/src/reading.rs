//! Parses a question: extracts products, a period, a number of rows and values, and keeps the rest as
//! its topic. The query is selected by the topic, so that queries need not be learned for every month
//! and region.

use std::collections::BTreeMap;

use crate::data::{campaigns, catalogue};
use crate::period::{self, Period};
use crate::space::{Products, Space};
use crate::vocabulary::{self, Closed};
use crate::words::{number, words};

/// Replacement of product names in the topic.
const THESE_PRODUCTS: [&str; 2] = ["these", "products"];

/// Words before a value that mean nothing without it.
const LEADING: [&str; 19] = [
    "in", "for", "during", "over", "within", "on", "via", "through", "by", "at", "the", "our",
    "from", "of", "across", "among", "with", "to", "as",
];

/// Words allowed between product names.
const JOINING: [&str; 8] = ["and", "or", "plus", "the", "also", "as", "a", "an"];

/// Words of a follow-up around the changed parameters.
const CONNECTING: [&str; 44] = [
    "what", "what's", "about", "how", "and", "or", "for", "in", "on", "of", "at", "the", "a",
    "only", "just", "please", "same", "again", "but", "now", "instead", "with", "then", "also",
    "during", "over", "from", "by", "via", "through", "to", "thing", "question", "top", "first",
    "okay", "ok", "as", "well", "across", "within", "so", "that", "ones",
];

/// Nouns that a follow-up may contain, although they could start a question.
const NAMING: [&str; 28] = [
    "show",
    "me",
    "give",
    "us",
    "see",
    "let's",
    "products",
    "product",
    "items",
    "customers",
    "shoppers",
    "campaigns",
    "region",
    "category",
    "segment",
    "channel",
    "warehouse",
    "is",
    "are",
    "was",
    "were",
    "did",
    "do",
    "it",
    "them",
    "limit",
    "restrict",
    "look",
];

/// Words that refer to something named before.
const POINTING: [&str; 8] = [
    "them", "they", "these", "those", "it", "its", "their", "such",
];

/// Nouns that can be counted: "5 products", "the 3 best".
const COUNTED: [&str; 34] = [
    "products",
    "items",
    "articles",
    "goods",
    "campaigns",
    "categories",
    "customers",
    "pairs",
    "combinations",
    "ones",
    "lines",
    "rows",
    "results",
    "entries",
    "sellers",
    "bestsellers",
    "things",
    "days",
    "most",
    "best",
    "worst",
    "biggest",
    "largest",
    "highest",
    "lowest",
    "top",
    "strongest",
    "weakest",
    "least",
    "bottom",
    "steepest",
    "slowest",
    "fastest",
    "more",
];

/// Words before a number of rows.
const COUNTING: [&str; 8] = [
    "top", "first", "best", "worst", "bottom", "limit", "only", "leading",
];

/// The parameters in a question, not validated.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct GivenParameters {
    pub(crate) period: Option<Period>,
    /// Named values by parameter; several of one are rejected later.
    pub(crate) closed: BTreeMap<Closed, Vec<&'static str>>,
    pub(crate) limit: Option<i64>,
    pub(crate) products: Vec<&'static str>,
}

impl GivenParameters {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A parsed question.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) given_parameters: GivenParameters,
    /// The topic: the question without its parameters, with products replaced by `these products`.
    pub(crate) about: String,
    /// Words that are not parameters, with their places in the question.
    rest: Vec<(usize, String)>,
}

/// What a word was used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordUse {
    Product,
    Campaign,
    Category,
    /// Not part of the topic.
    Out,
    /// A value that is also part of the topic: "loyal customers".
    Kept,
}

/// Parses a question to this space.
pub(crate) fn read(question: &str, space: &Space) -> Reading {
    let words = words(question);
    let mut word_uses: Vec<Option<WordUse>> = vec![None; words.len()];
    let mut given_parameters = GivenParameters::default();
    // Names come first: a month in one is not a period.
    take_products(&words, &mut word_uses, &mut given_parameters);
    take_campaigns(&words, &mut word_uses, &mut given_parameters);
    if let Some((range, period)) = period::find(&words, |place| word_uses[place].is_some()) {
        word_uses[range].fill(Some(WordUse::Out));
        given_parameters.period = Some(period);
    }
    take_limit(&words, &mut word_uses, &mut given_parameters);
    take_values(&words, &mut word_uses, &mut given_parameters, space);
    let rest = words
        .iter()
        .enumerate()
        .filter(|(place, _)| word_uses[*place].is_none());
    Reading {
        about: about(&words, &word_uses),
        rest: rest.map(|(place, word)| (place, word.clone())).collect(),
        given_parameters,
    }
}

impl Reading {
    /// The words that are not parameters, with their places in the question.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (usize, &String)> {
        self.rest.iter().map(|(place, word)| (*place, word))
    }

    /// The same words without their places.
    pub(crate) fn into_rest(self) -> impl Iterator<Item = String> {
        self.rest.into_iter().map(|(_, word)| word)
    }

    /// Whether it contains only changes of parameters.
    pub(crate) fn only_changes(&self) -> bool {
        let connects = |(_, word): (usize, &String)| CONNECTING.contains(&word.as_str());
        !self.given_parameters.is_empty() && self.rest().all(connects)
    }

    /// Whether it may be a follow-up, if it is not a question of its own.
    pub(crate) fn may_only_change(&self) -> bool {
        let known = |(_, word): (usize, &String)| {
            CONNECTING.contains(&word.as_str()) || NAMING.contains(&word.as_str())
        };
        !self.given_parameters.is_empty() && self.rest().all(known)
    }

    /// Whether it refers to products without naming them. For a query that needs products, any pronoun
    /// does; for others, a pronoun may mean customers or carts.
    pub(crate) fn points_at_products(&self, products: Products) -> bool {
        let pronoun = |(_, word): (usize, &String)| POINTING.contains(&word.as_str());
        let named = |pair: &[(usize, String)]| {
            matches!(pair[0].1.as_str(), "these" | "those" | "such")
                && matches!(
                    pair[1].1.as_str(),
                    "products" | "items" | "articles" | "goods"
                )
        };
        match products {
            Products::Needed => self.rest().any(pronoun),
            Products::MayBeNamed => self.rest.windows(2).any(named),
        }
    }
}

/// Longest names first; the last word matches in singular and plural.
fn take_products(
    words: &[String],
    word_uses: &mut [Option<WordUse>],
    given_parameters: &mut GivenParameters,
) {
    let mut place = 0;
    while place < words.len() {
        let found = catalogue::names()
            .filter_map(|name| Some((length_of(name, &words[place..])?, name)))
            .max_by_key(|(length, _)| *length);
        let Some((length, name)) = found else {
            place += 1;
            continue;
        };
        word_uses[place..place + length].fill(Some(WordUse::Product));
        if !given_parameters.products.contains(&name) {
            given_parameters.products.push(name);
        }
        place += length;
    }
}

/// Takes the full names of campaigns.
fn take_campaigns(
    words: &[String],
    word_uses: &mut [Option<WordUse>],
    given_parameters: &mut GivenParameters,
) {
    for name in campaigns::names() {
        let parts = crate::words::words(name);
        for place in 0..words.len() {
            let range = place..place + parts.len();
            let is_free = |uses: &[Option<WordUse>]| uses.iter().all(Option::is_none);
            if words.get(range.clone()) != Some(&parts) || !is_free(&word_uses[range.clone()]) {
                continue;
            }
            word_uses[range].fill(Some(WordUse::Campaign));
            let values = given_parameters.closed.entry(Closed::Campaign);
            let values = values.or_default();
            if !values.contains(&name) {
                values.push(name);
            }
        }
    }
}

/// The number of words of the name, if the words start with it.
fn length_of(name: &str, words: &[String]) -> Option<usize> {
    let length = name.split(' ').count();
    let mut parts = name.split(' ').zip(words).enumerate();
    let fits = parts.all(|(place, (part, word))| {
        let last = place + 1 == length;
        let singular = |word: &str| word.trim_end_matches('s').len();
        part.eq_ignore_ascii_case(word)
            || last && part[..singular(part)].eq_ignore_ascii_case(&word[..singular(word)])
    });
    (fits && words.len() >= length).then_some(length)
}

fn take_limit(
    words: &[String],
    word_uses: &mut [Option<WordUse>],
    given_parameters: &mut GivenParameters,
) {
    for place in 0..words.len() {
        let Some(number) = number(&words[place]).filter(|_| word_uses[place].is_none()) else {
            continue;
        };
        let before = place
            .checked_sub(1)
            .map_or("", |before| words[before].as_str());
        let after = words.get(place + 1).map_or("", String::as_str);
        let after_is_free = word_uses.get(place + 1).is_none_or(Option::is_none);
        // "Which one" is not a number of rows.
        let counted = COUNTED.contains(&after) && after_is_free && words[place] != "one";
        if COUNTING.contains(&before) || counted {
            word_uses[place] = Some(WordUse::Out);
            given_parameters.limit = Some(number);
            return;
        }
    }
}

fn take_values(
    words: &[String],
    word_uses: &mut [Option<WordUse>],
    given_parameters: &mut GivenParameters,
    space: &Space,
) {
    let mut place = 0;
    while place < words.len() {
        let free = (place..words.len())
            .take_while(|place| word_uses[*place].is_none())
            .count();
        let found = Closed::ALL.into_iter().find_map(|closed| {
            let here = &words[place..place + free];
            let (length, value) = vocabulary::read(closed, space.values(closed), here, place == 0)?;
            Some((closed, length, value))
        });
        let Some((closed, length, value)) = found else {
            place += 1;
            continue;
        };
        word_uses[place..place + length].fill(Some(match closed {
            Closed::Category => WordUse::Category,
            Closed::Segment => WordUse::Kept,
            _ => WordUse::Out,
        }));
        let values = given_parameters.closed.entry(closed).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
        place += length;
    }
}

/// The question without its parameters.
fn about(words: &[String], word_uses: &[Option<WordUse>]) -> String {
    let mut about: Vec<&str> = Vec::new();
    for (place, (word, mark)) in words.iter().zip(word_uses).enumerate() {
        let again = place > 0 && word_uses[place - 1] == *mark;
        match mark {
            None | Some(WordUse::Kept) => about.push(usual(word)),
            Some(_) if again && *mark != Some(WordUse::Product) => {}
            Some(WordUse::Product) => {
                let known = about
                    .iter()
                    .rposition(|word| !JOINING.contains(word))
                    .filter(|last| *last > 0 && about[last - 1..=*last] == THESE_PRODUCTS);
                match known {
                    // Several names become one placeholder.
                    Some(last) => about.truncate(last + 1),
                    None => about.extend(THESE_PRODUCTS),
                }
            }
            Some(WordUse::Campaign) => {
                let noun = words.get(place + 1).map_or("", String::as_str);
                if !matches!(noun, "campaign" | "campaigns") {
                    about.push("campaign");
                }
            }
            Some(WordUse::Category) => {
                let noun = words.get(place + 1).map_or("", String::as_str);
                let named = matches!(
                    noun,
                    "products" | "product" | "items" | "goods" | "articles"
                );
                let led = about
                    .last()
                    .is_some_and(|last| matches!(*last, "in" | "for" | "within" | "the"));
                if led && !named {
                    drop_leading(&mut about);
                } else if !named {
                    about.push("products");
                }
            }
            Some(WordUse::Out) => drop_leading(&mut about),
        }
    }
    about.join(" ")
}

/// The usual word for a rare one, so that a topic need not be learned with both.
fn usual(word: &str) -> &str {
    match word {
        "thinnest" | "slimmest" | "tiniest" => "smallest",
        "greatest" | "maximum" => "largest",
        other => other,
    }
}

/// Whether a word means nothing without a value after it.
pub(crate) fn leads(word: &str) -> bool {
    LEADING.contains(&word)
}

/// Drops the words at the end that mean nothing without a value after them.
pub(crate) fn drop_leading(about: &mut Vec<&str>) {
    while about.last().is_some_and(|last| LEADING.contains(last)) {
        about.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces;

    fn sales(question: &str) -> Reading {
        read(question, spaces::by_id("sales").unwrap())
    }

    fn values(reading: &Reading, closed: Closed) -> &[&'static str] {
        reading
            .given_parameters
            .closed
            .get(&closed)
            .map_or(&[], Vec::as_slice)
    }

    #[test]
    fn parameters_are_taken_out_of_the_question() {
        let read = sales(
            "What was the revenue for footwear in the northern region last month in the app?",
        );
        assert_eq!(read.about, "what was the revenue");
        assert_eq!(
            read.given_parameters.period.as_ref().unwrap().words,
            "last month"
        );
        assert_eq!(values(&read, Closed::Category), ["footwear"]);
        assert_eq!(values(&read, Closed::Region), ["north"]);
        assert_eq!(values(&read, Closed::Channel), ["app"]);
        let read = sales("the top ten shoes");
        assert_eq!(read.about, "the top products");
        assert_eq!(read.given_parameters.limit, Some(10));
    }

    #[test]
    fn product_names_are_found_anywhere_and_grouped() {
        let read = sales("how many trail-running shoes, MERINO SOCKS and a Desk Lamp did we sell?");
        assert_eq!(
            read.given_parameters.products,
            ["Trail Running Shoes", "Merino Socks", "Desk Lamp"]
        );
        assert_eq!(read.about, "how many these products did we sell");
        assert_eq!(values(&read, Closed::Category), [""; 0]);
        let read = sales("units sold of Merino Socks and Linen Shirts");
        assert_eq!(
            read.given_parameters.products,
            ["Merino Socks", "Linen Shirt"]
        );
        assert_eq!(read.about, "units sold of these products");
    }

    #[test]
    fn a_follow_up_is_distinguished_from_a_question() {
        for text in [
            "what about last month?",
            "and in the north?",
            "only footwear",
            "top 10 please",
            "and for Merino Socks?",
            "ok, and the west",
        ] {
            assert!(sales(text).only_changes(), "{text}");
        }
        for text in ["what about it?", "revenue last month", "again please"] {
            assert!(!sales(text).only_changes(), "{text}");
        }
    }

    #[test]
    fn a_number_without_a_noun_is_not_a_limit() {
        assert_eq!(
            sales("how much did 20 percent bring")
                .given_parameters
                .limit,
            None
        );
        assert_eq!(sales("which one sold best").given_parameters.limit, None);
        assert_eq!(sales("the 3 best products").given_parameters.limit, Some(3));
        assert_eq!(sales("products, last 30 days").given_parameters.limit, None);
    }
}
