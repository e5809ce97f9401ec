//! Reads a question: takes out what names a product, a period, a number of lines or a value, and
//! leaves what the question is about. What is left is what a certified query is looked for with, so
//! that no query has to be learnt once for every month and region.

use std::collections::BTreeMap;

use crate::data::catalogue;
use crate::period::{self, Period};
use crate::space::{Products, Space};
use crate::vocabulary::{self, Closed};
use crate::words::{number, words};

/// What stands for the products that were named.
const THESE_PRODUCTS: [&str; 2] = ["these", "products"];

/// Words that lead to a value and mean nothing without it.
const LEADING: [&str; 19] = [
    "in", "for", "during", "over", "within", "on", "via", "through", "by", "at", "the", "our",
    "from", "of", "across", "among", "with", "to", "as",
];

/// What may stand between the names of products.
const JOINING: [&str; 8] = ["and", "or", "plus", "the", "also", "as", "a", "an"];

/// What a follow-up may say around what it changes.
const CONNECTING: [&str; 44] = [
    "what", "what's", "about", "how", "and", "or", "for", "in", "on", "of", "at", "the", "a",
    "only", "just", "please", "same", "again", "but", "now", "instead", "with", "then", "also",
    "during", "over", "from", "by", "via", "through", "to", "thing", "question", "top", "first",
    "okay", "ok", "as", "well", "across", "within", "so", "that", "ones",
];

/// What a follow-up may name beside, which by itself could be a question.
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

/// What stands for something that was named before.
const POINTING: [&str; 8] = [
    "them", "they", "these", "those", "it", "its", "their", "such",
];

/// What can be counted out: "5 products", "the 3 best".
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

/// What stands before a number of lines.
const COUNTING: [&str; 8] = [
    "top", "first", "best", "worst", "bottom", "limit", "only", "leading",
];

/// What a question says of a query's parameters, unchecked.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Given {
    pub(crate) period: Option<Period>,
    /// Each value that was named, by parameter; several of one are a problem of their own.
    pub(crate) closed: BTreeMap<Closed, Vec<&'static str>>,
    pub(crate) limit: Option<i64>,
    pub(crate) products: Vec<&'static str>,
}

impl Given {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A question that was read.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) given: Given,
    /// The question without its parameters; named products are `these products`.
    pub(crate) about: String,
    /// The words that name no parameter.
    rest: Vec<String>,
}

/// What a word was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Product,
    Category,
    /// Left out of what the question is about.
    Out,
    /// A value's word that the question is about as well: "loyal customers".
    Kept,
}

/// Reads a question that was asked in this space.
pub(crate) fn read(question: &str, space: &Space) -> Reading {
    let words = words(question);
    let mut taken: Vec<Option<Taken>> = vec![None; words.len()];
    let mut given = Given::default();
    take_products(&words, &mut taken, &mut given);
    if let Some((range, period)) = period::find(&words, |place| taken[place].is_some()) {
        taken[range].fill(Some(Taken::Out));
        given.period = Some(period);
    }
    take_limit(&words, &mut taken, &mut given);
    take_values(&words, &mut taken, &mut given, space);
    let rest = words
        .iter()
        .zip(&taken)
        .filter(|(_, taken)| taken.is_none());
    Reading {
        about: about(&words, &taken),
        rest: rest.map(|(word, _)| word.clone()).collect(),
        given,
    }
}

impl Reading {
    /// Whether it says nothing but what is to change.
    pub(crate) fn only_changes(&self) -> bool {
        let connects = |word: &String| CONNECTING.contains(&word.as_str());
        !self.given.is_empty() && self.rest.iter().all(connects)
    }

    /// Whether it could be a follow-up, if it is no question of its own.
    pub(crate) fn may_only_change(&self) -> bool {
        let known =
            |word: &String| CONNECTING.contains(&word.as_str()) || NAMING.contains(&word.as_str());
        !self.given.is_empty() && self.rest.iter().all(known)
    }

    /// Whether it speaks of products without naming them. Where a query makes no sense without
    /// products, any pronoun stands for them; elsewhere it may stand for customers or carts.
    pub(crate) fn points_at_products(&self, products: Products) -> bool {
        let pronoun = |word: &String| POINTING.contains(&word.as_str());
        let named = |pair: &[String]| {
            matches!(pair[0].as_str(), "these" | "those" | "such")
                && matches!(
                    pair[1].as_str(),
                    "products" | "items" | "articles" | "goods"
                )
        };
        match products {
            Products::Needed => self.rest.iter().any(pronoun),
            Products::MayBeNamed => self.rest.windows(2).any(named),
        }
    }
}

/// The longest names first; singular and plural of the last word are one.
fn take_products(words: &[String], taken: &mut [Option<Taken>], given: &mut Given) {
    let mut place = 0;
    while place < words.len() {
        let found = catalogue::names()
            .filter_map(|name| Some((length_of(name, &words[place..])?, name)))
            .max_by_key(|(length, _)| *length);
        let Some((length, name)) = found else {
            place += 1;
            continue;
        };
        taken[place..place + length].fill(Some(Taken::Product));
        if !given.products.contains(&name) {
            given.products.push(name);
        }
        place += length;
    }
}

/// How many of these words are the name, if they begin with it.
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

fn take_limit(words: &[String], taken: &mut [Option<Taken>], given: &mut Given) {
    for place in 0..words.len() {
        let Some(number) = number(&words[place]).filter(|_| taken[place].is_none()) else {
            continue;
        };
        let before = place
            .checked_sub(1)
            .map_or("", |before| words[before].as_str());
        let after = words.get(place + 1).map_or("", String::as_str);
        let after_is_free = taken.get(place + 1).is_none_or(Option::is_none);
        // "Which one" counts nothing.
        let counted = COUNTED.contains(&after) && after_is_free && words[place] != "one";
        if COUNTING.contains(&before) || counted {
            taken[place] = Some(Taken::Out);
            given.limit = Some(number);
            return;
        }
    }
}

fn take_values(words: &[String], taken: &mut [Option<Taken>], given: &mut Given, space: &Space) {
    let mut place = 0;
    while place < words.len() {
        let free = (place..words.len())
            .take_while(|place| taken[*place].is_none())
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
        taken[place..place + length].fill(Some(match closed {
            Closed::Category => Taken::Category,
            Closed::Segment => Taken::Kept,
            _ => Taken::Out,
        }));
        let values = given.closed.entry(closed).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
        place += length;
    }
}

/// The question without its parameters.
fn about(words: &[String], taken: &[Option<Taken>]) -> String {
    let mut about: Vec<&str> = Vec::new();
    for (place, (word, mark)) in words.iter().zip(taken).enumerate() {
        let again = place > 0 && taken[place - 1] == *mark;
        match mark {
            None | Some(Taken::Kept) => about.push(word),
            Some(_) if again && *mark != Some(Taken::Product) => {}
            Some(Taken::Product) => {
                let known = about
                    .iter()
                    .rposition(|word| !JOINING.contains(word))
                    .filter(|last| *last > 0 && about[last - 1..=*last] == THESE_PRODUCTS);
                match known {
                    // One of several names: they are told together.
                    Some(last) => about.truncate(last + 1),
                    None => about.extend(THESE_PRODUCTS),
                }
            }
            Some(Taken::Category) => {
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
            Some(Taken::Out) => drop_leading(&mut about),
        }
    }
    about.join(" ")
}

fn drop_leading(about: &mut Vec<&str>) {
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
        reading.given.closed.get(&closed).map_or(&[], Vec::as_slice)
    }

    #[test]
    fn parameters_are_taken_out_of_the_question() {
        let read = sales(
            "What was the revenue for footwear in the northern region last month in the app?",
        );
        assert_eq!(read.about, "what was the revenue");
        assert_eq!(read.given.period.as_ref().unwrap().words, "last month");
        assert_eq!(values(&read, Closed::Category), ["footwear"]);
        assert_eq!(values(&read, Closed::Region), ["north"]);
        assert_eq!(values(&read, Closed::Channel), ["app"]);
        let read = sales("the top ten shoes");
        assert_eq!(read.about, "the top products");
        assert_eq!(read.given.limit, Some(10));
    }

    #[test]
    fn names_of_products_are_found_anywhere_and_told_together() {
        let read = sales("how many trail-running shoes, MERINO SOCKS and a Desk Lamp did we sell?");
        assert_eq!(
            read.given.products,
            ["Trail Running Shoes", "Merino Socks", "Desk Lamp"]
        );
        assert_eq!(read.about, "how many these products did we sell");
        assert_eq!(values(&read, Closed::Category), [""; 0]);
        let read = sales("units sold of Merino Socks and Linen Shirts");
        assert_eq!(read.given.products, ["Merino Socks", "Linen Shirt"]);
        assert_eq!(read.about, "units sold of these products");
    }

    #[test]
    fn a_follow_up_is_told_from_a_question() {
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
    fn a_number_that_counts_nothing_is_no_limit() {
        assert_eq!(sales("how much did 20 percent bring").given.limit, None);
        assert_eq!(sales("which one sold best").given.limit, None);
        assert_eq!(sales("the 3 best products").given.limit, Some(3));
        assert_eq!(sales("products, last 30 days").given.limit, None);
    }
}
