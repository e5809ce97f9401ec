//! Finds what a question says and its query does not use: "in Germany", where no query has a country.
//!
//! A word is used if it is a parameter, if the query's own example questions, sentences or description have it, or if it
//! qualifies nothing. The rest is named in the answer, because the answer is about something wider than the question.

use std::collections::BTreeSet;

use crate::reading::{self, Reading};
use crate::space::{CertifiedQuery, Space};
use crate::words::{spelled, words};

/// Words that qualify nothing: they ask, join, address or are polite. A negation is none of them.
const PLAIN: &str = "a an the this that these those it its it's they them their there here i i'm me my we us our ours you your \
    of in on at over across among by for from to with within into onto through via during about as and or but if then than so too also both \
    what which who whom whose where when why how what's who's where's how's whats is are was were be been being am isn't \
    do does did done have has had having can could will would shall should may might must let let's \
    please thanks thank hello hi hey ok okay well just only even still already yet again actually really exactly \
    show give tell list see find get got know want need like look looking compare compared display check say name \
    now right currently current today moment momentarily present presently lately recently \
    any some all every each one ones other others such same \
    much many more less lot lots few several enough number amount figure figures data info information details \
    overview summary total overall altogether general generally usually normally average \
    come comes came go goes going gone went make makes made making take takes took bring brings brought happen happened stay stays stayed become becomes get gets \
    per time times often frequently commonly typically tend tends between differ differs vary varies split break down soon \
    shop company business things thing stuff something anything everything";

/// Nouns and verbs of every question about a shop.
const OF_A_SHOP: &str = "product products item items article articles good goods customer customers shopper shoppers people \
    person everybody anybody buyer buyers client clients unit units piece pieces pair pairs situation status state level levels";

/// Forms of a verb that have another stem.
const FORMS: [(&str, &str); 16] = [
    ("rose", "rise"),
    ("risen", "rise"),
    ("fell", "fall"),
    ("fallen", "fall"),
    ("sold", "sell"),
    ("bought", "buy"),
    ("lost", "lose"),
    ("left", "leave"),
    ("spent", "spend"),
    ("ran", "run"),
    ("grew", "grow"),
    ("grown", "grow"),
    ("won", "win"),
    ("paid", "pay"),
    ("kept", "keep"),
    ("held", "hold"),
];

/// Words for the upper end of an order.
const HIGH: [&str; 11] = [
    "top",
    "highest",
    "most",
    "largest",
    "biggest",
    "strongest",
    "greatest",
    "maximum",
    "leading",
    "deepest",
    "longest",
];

/// Words for the lower end of an order.
const LOW: [&str; 11] = [
    "bottom", "lowest", "least", "smallest", "fewest", "weakest", "poorest", "minimum", "thinnest",
    "slimmest", "shortest",
];

/// The parts of a question that the query does not use, as they are spelled there.
pub(crate) fn unused(
    question: &str,
    reading: &Reading,
    space: &Space,
    query: &CertifiedQuery,
) -> Vec<String> {
    let vocabulary = Vocabulary::of(space, query);
    let spelled = spelled(question);
    let mut unused: Vec<(usize, String)> = Vec::new();
    for (place, word) in reading.rest() {
        if vocabulary.uses(word) || reading.may_only_change() {
            continue;
        }
        let word = spelled.get(place).unwrap_or(word);
        match unused.last_mut() {
            // Neighbours are one part: "wholesale partners".
            Some((last, part)) if *last + 1 == place => {
                *last = place;
                part.push(' ');
                part.push_str(word);
            }
            _ => unused.push((place, word.clone())),
        }
    }
    let mut parts: Vec<String> = Vec::new();
    for (_, part) in unused {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}

/// Which end of an order a word asks for. "Best" and "worst" depend on what is sorted: most abandoned is worst.
fn end_of(word: &str, query: &CertifiedQuery) -> Option<End> {
    match word {
        "best" | "worst" => Some(if (word == "best") == query.more_is_worse {
            End::Low
        } else {
            End::High
        }),
        _ if HIGH.contains(&word) => Some(End::High),
        _ if LOW.contains(&word) => Some(End::Low),
        _ => None,
    }
}

/// An end of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    High,
    Low,
}

/// Whether a question wants the other end of the query's order: the highest of what the query sorts from the lowest.
pub(crate) fn is_reversed(reading: &Reading, space: &Space, query: &CertifiedQuery) -> bool {
    let vocabulary = Vocabulary::of(space, query);
    // "Most" is also a mere intensifier.
    let strong = reading.rest().filter(|(_, word)| *word != "most");
    let asked: BTreeSet<End> = strong.filter_map(|(_, word)| end_of(word, query)).collect();
    asked.len() == 1 && vocabulary.ends.len() == 1 && asked != vocabulary.ends
}

/// The words that a query uses.
struct Vocabulary<'a> {
    query: &'a CertifiedQuery,
    stems: BTreeSet<String>,
    /// The ends of an order that its examples ask for.
    ends: BTreeSet<End>,
}

impl<'a> Vocabulary<'a> {
    fn of(space: &Space, query: &'a CertifiedQuery) -> Self {
        let examples = query.examples.iter();
        let examples = examples.flat_map(|text| reading::read(text, space).into_rest());
        let texts = query.sentences.iter().copied().chain([query.description]);
        let own: Vec<String> = examples.chain(texts.flat_map(words)).collect();
        let plain = PLAIN.split_whitespace().chain(OF_A_SHOP.split_whitespace());
        Self {
            query,
            ends: own.iter().filter_map(|word| end_of(word, query)).collect(),
            stems: own
                .iter()
                .map(String::as_str)
                .chain(plain)
                .map(stem)
                .collect(),
        }
    }

    fn uses(&self, word: &str) -> bool {
        match end_of(word, self.query) {
            Some(end) => word == "most" || self.ends.contains(&end),
            None => self.stems.contains(&stem(word)),
        }
    }
}

/// Endings that do not change what a word is about, longest first.
const ENDINGS: [&str; 11] = [
    "ments", "ment", "ings", "ing", "ies", "ed", "es", "'s", "ly", "s", "e",
];

/// Shortest part of a word that an ending is taken off.
const SHORTEST_STEM: usize = 3;

/// The same for `ly`, which also ends words such as "supply".
const SHORTEST_BEFORE_LY: usize = 5;

/// The word without its ending: `abandoned` and `abandonment` have one stem.
fn stem(word: &str) -> String {
    let form = FORMS.iter().find(|(form, _)| *form == word);
    let mut stem = form.map_or(word, |(_, verb)| verb);
    for ending in ENDINGS {
        let shortest = if ending == "ly" {
            SHORTEST_BEFORE_LY
        } else {
            SHORTEST_STEM
        };
        if let Some(rest) = stem.strip_suffix(ending)
            && rest.chars().count() >= shortest
        {
            stem = rest;
        }
    }
    // "Running" and "run", "supply" and "supplies".
    let mut letters: Vec<char> = stem.chars().collect();
    if let [.., before, last] = letters[..]
        && before == last
        && letters.len() > SHORTEST_STEM
    {
        letters.pop();
    }
    if letters.len() > SHORTEST_STEM && letters.last() == Some(&'y') {
        letters.pop();
    }
    letters.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::read;
    use crate::spaces;

    fn unused_in(space: &str, query: &str, question: &str) -> Vec<String> {
        let space = spaces::by_id(space).unwrap();
        let query = space.query(query).unwrap();
        unused(question, &read(question, space), space, query)
    }

    #[test]
    fn what_a_query_has_no_word_for_is_not_used() {
        for (space, query, question, expected) in [
            (
                "sales",
                "best_selling_products",
                "Best sellers in Germany this week",
                &["Germany"][..],
            ),
            (
                "sales",
                "best_selling_products",
                "top 5 products in the north",
                &[],
            ),
            (
                "sales",
                "best_selling_products",
                "best sellers by region",
                &["region"],
            ),
            (
                "sales",
                "total_revenue",
                "revenue from Wholesale Partners in July",
                &["Wholesale Partners"],
            ),
            (
                "sales",
                "best_selling_products",
                "best sellers without discounts",
                &["without discounts"],
            ),
            (
                "inventory",
                "low_stock_products",
                "which vegan products are low in stock?",
                &["vegan"],
            ),
            (
                "customer_behavior",
                "cart_abandonment_rate",
                "how many carts were abandoned on weekends",
                &["weekends"],
            ),
        ] {
            assert_eq!(unused_in(space, query, question), expected, "{question}");
        }
    }

    #[test]
    fn every_word_of_an_example_is_used() {
        for space in spaces::ALL {
            for query in space.queries {
                for example in query.examples {
                    let found = unused_in(space.id, query.id, example);
                    assert!(found.is_empty(), "{}: {example}: {found:?}", query.id);
                }
            }
        }
    }

    #[test]
    fn the_other_end_of_an_order_is_another_question() {
        let pricing = spaces::by_id("pricing").unwrap();
        let lowest = pricing.query("lowest_margins").unwrap();
        for (question, reversed) in [
            ("top 3 products by margin", true),
            ("products with the smallest margin", false),
            ("margin of Merino Socks", false),
            ("which of our best products have the lowest margin", false),
        ] {
            let reading = read(question, pricing);
            assert_eq!(
                is_reversed(&reading, pricing, lowest),
                reversed,
                "{question}"
            );
        }
    }

    #[test]
    fn endings_do_not_distinguish_words() {
        for (one, other) in [
            ("abandoned", "abandonment"),
            ("prices", "price"),
            ("running", "runs"),
            ("supplies", "supply"),
            ("selling", "sells"),
            ("risen", "rising"),
            ("sold", "selling"),
        ] {
            assert_eq!(stem(one), stem(other), "{one}, {other}");
        }
        assert_ne!(stem("week"), stem("weekend"));
    }
}
