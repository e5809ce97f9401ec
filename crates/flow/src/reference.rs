//! Finding what words point at: "the second one", "it", a title or a part of one, among the items
//! that the user really has.

use crate::memory::Item;

/// What words point at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReferenceMatch {
    /// One item, by its index.
    One(usize),
    /// One or several that may be meant, best first. None of them may be taken without asking.
    Many(Vec<usize>),
    /// Nothing.
    Nothing,
}

/// Looks for what `words` point at among `items`. `shown` is what the user was last told of, in the
/// order told; `nouns` are words for such items in general ("task").
pub(crate) fn find(
    words: &str,
    items: &[Item],
    shown: &[Item],
    nouns: &[String],
) -> ReferenceMatch {
    let said = tokens(words);
    if let Some(pointed) = by_position(&said, items, shown, nouns) {
        return pointed;
    }
    let nouns: Vec<String> = nouns.iter().flat_map(|noun| tokens(noun)).collect();
    let content: Vec<&String> = said
        .iter()
        .filter(|token| !FILLERS.contains(&token.as_str()) && !is_noun(token, &nouns))
        .collect();
    by_label(&said, &content, items)
}

/// Whether words are the very label of an item.
pub(crate) fn is_named(words: &str, items: &[Item]) -> bool {
    let said = tokens(words);
    !said.is_empty() && items.iter().any(|item| tokens(&item.label) == said)
}

/// Words that say nothing about which item is meant.
const FILLERS: &[&str] = &[
    "the", "a", "an", "my", "our", "that", "this", "those", "these", "one", "ones", "about", "to",
    "for", "of", "with", "called", "named", "titled", "please", "i", "me", "on", "in", "from",
    "says",
];

const POINTERS: &[&str] = &["it", "that", "this", "them"];

const ORDINALS: &[&[&str]] = &[
    &["first", "1st", "one", "1"],
    &["second", "2nd", "two", "2"],
    &["third", "3rd", "three", "3"],
    &["fourth", "4th", "four", "4"],
    &["fifth", "5th", "five", "5"],
    &["sixth", "6th", "six", "6"],
    &["seventh", "7th", "seven", "7"],
    &["eighth", "8th", "eight", "8"],
    &["ninth", "9th", "nine", "9"],
    &["tenth", "10th", "ten", "10"],
];

/// What a position among the items counts from.
enum Position {
    FromStart(usize),
    FromEnd(usize),
}

/// "it", "the second one", "number 3", "the last task": words that name a place, not a label.
fn by_position(
    said: &[String],
    items: &[Item],
    shown: &[Item],
    nouns: &[String],
) -> Option<ReferenceMatch> {
    let nouns: Vec<String> = nouns.iter().flat_map(|noun| tokens(noun)).collect();
    let rest: Vec<&str> = said
        .iter()
        .map(String::as_str)
        .filter(|token| {
            !matches!(
                *token,
                "the" | "my" | "please" | "number" | "no" | "nr" | "item"
            )
        })
        .filter(|token| !is_noun(token, &nouns))
        .collect();
    // "the task", "that one", "it": whatever was spoken of last.
    let points = rest
        .iter()
        .all(|token| POINTERS.contains(token) || *token == "one");
    if points && (!said.is_empty()) && rest.first() != Some(&"one") {
        let present: Vec<usize> = shown
            .iter()
            .filter_map(|item| index_of(items, item))
            .collect();
        let pool = if shown.is_empty() {
            (0..items.len()).collect()
        } else {
            present
        };
        return Some(match pool.as_slice() {
            [] => ReferenceMatch::Nothing,
            [only] => ReferenceMatch::One(*only),
            _ => ReferenceMatch::Many(pool),
        });
    }
    let position = position(&rest)?;
    // Counting follows what the user last saw; whoever saw nothing counts their own list.
    let order: Vec<usize> = if shown.len() > 1 {
        shown
            .iter()
            .map(|item| index_of(items, item).unwrap_or(usize::MAX))
            .collect()
    } else {
        (0..items.len()).collect()
    };
    let index = match position {
        Position::FromStart(index) => order.get(index),
        Position::FromEnd(index) => order
            .len()
            .checked_sub(index + 1)
            .and_then(|index| order.get(index)),
    };
    Some(match index {
        Some(&index) if index < items.len() => ReferenceMatch::One(index),
        _ => ReferenceMatch::Nothing,
    })
}

/// The place that words such as "second one", "last" or "#3" name.
fn position(rest: &[&str]) -> Option<Position> {
    // "the second one", but "one" alone is the first.
    let words = match rest {
        [words @ .., "one"] if !words.is_empty() => words,
        words => words,
    };
    match words {
        ["second", "to", "last"] | ["second", "last"] => Some(Position::FromEnd(1)),
        ["last" | "latest" | "newest" | "final"] => Some(Position::FromEnd(0)),
        ["top"] => Some(Position::FromStart(0)),
        [word] => {
            let word = word.trim_start_matches('#');
            if let Some(index) = ORDINALS
                .iter()
                .position(|spellings| spellings.contains(&word))
            {
                return Some(Position::FromStart(index));
            }
            let number: usize = word.parse().ok()?;
            number.checked_sub(1).map(Position::FromStart)
        }
        _ => None,
    }
}

/// A whole label, else a part of one, else one that is spelled almost so.
fn by_label(said: &[String], content: &[&String], items: &[Item]) -> ReferenceMatch {
    let labels: Vec<Vec<String>> = items.iter().map(|item| tokens(&item.label)).collect();
    let whole = pick(&labels, |label| label == said);
    if whole != ReferenceMatch::Nothing {
        return whole;
    }
    if content.is_empty() {
        return ReferenceMatch::Nothing;
    }
    let all = |label: &[String], same: fn(&str, &str) -> bool| {
        content
            .iter()
            .all(|word| label.iter().any(|token| same(token, word)))
    };
    let same_words = pick(&labels, |label| {
        content.len() == meaningful(label) && all(label, |a, b| a == b)
    });
    if same_words != ReferenceMatch::Nothing {
        return same_words;
    }
    for same in [exactly as fn(&str, &str) -> bool, by_stem, almost] {
        let found = pick(&labels, |label| all(label, same));
        if found != ReferenceMatch::Nothing {
            return found;
        }
    }
    most_in_common(content, &labels)
}

/// The labels that share at least half of the words, the most first. Some words point elsewhere, so
/// even a single one is asked about.
fn most_in_common(content: &[&String], labels: &[Vec<String>]) -> ReferenceMatch {
    let mut scored: Vec<(usize, usize)> = labels
        .iter()
        .enumerate()
        .map(|(index, label)| {
            let shared = content
                .iter()
                .filter(|word| label.iter().any(|token| almost(token, word)))
                .count();
            (shared, index)
        })
        .filter(|(shared, _)| *shared > 0 && shared * 2 >= content.len())
        .collect();
    scored.sort_by_key(|(shared, index)| (std::cmp::Reverse(*shared), *index));
    if scored.is_empty() {
        return ReferenceMatch::Nothing;
    }
    ReferenceMatch::Many(scored.into_iter().map(|(_, index)| index).collect())
}

fn pick(labels: &[Vec<String>], fits: impl Fn(&[String]) -> bool) -> ReferenceMatch {
    let found: Vec<usize> = labels
        .iter()
        .enumerate()
        .filter(|(_, label)| fits(label))
        .map(|(index, _)| index)
        .collect();
    match found.as_slice() {
        [] => ReferenceMatch::Nothing,
        [only] => ReferenceMatch::One(*only),
        _ => ReferenceMatch::Many(found),
    }
}

fn meaningful(label: &[String]) -> usize {
    label
        .iter()
        .filter(|token| !FILLERS.contains(&token.as_str()))
        .count()
}

fn index_of(items: &[Item], item: &Item) -> Option<usize> {
    items.iter().position(|other| other.id == item.id)
}

fn is_noun(token: &str, nouns: &[String]) -> bool {
    nouns
        .iter()
        .any(|noun| exactly(noun, token) || stem(noun) == stem(token))
}

fn exactly(a: &str, b: &str) -> bool {
    a == b
}

/// "groceries" and "grocery", "calling" and "call".
fn by_stem(a: &str, b: &str) -> bool {
    stem(a) == stem(b)
}

/// One slip of the finger in a word that is long enough to bear it. In a short word only two letters
/// that changed places are a slip: another letter makes it another word.
fn almost(a: &str, b: &str) -> bool {
    if by_stem(a, b) {
        return true;
    }
    let shorter = a.chars().count().min(b.chars().count());
    let one_slip = || strsim::osa_distance(a, b) <= 1;
    match shorter {
        0..=3 => false,
        4 => same_letters(a, b) && one_slip(),
        _ => one_slip(),
    }
}

fn same_letters(a: &str, b: &str) -> bool {
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    sorted(a) == sorted(b)
}

fn stem(word: &str) -> &str {
    for ending in ["ies", "ing", "es", "ed", "y", "s"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.chars().count() > 2
        {
            return stem;
        }
    }
    word
}

/// Lower-case words without punctuation around them.
fn tokens(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|character: char| {
            !(character.is_alphanumeric() || character == '\'' || character == '#')
        })
        .map(|token| token.trim_matches('\''))
        .map(|token| token.strip_suffix("'s").unwrap_or(token).to_owned())
        .filter(|token| !token.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(labels: &[&str]) -> Vec<Item> {
        labels
            .iter()
            .enumerate()
            .map(|(index, label)| Item {
                id: index.to_string(),
                label: (*label).into(),
            })
            .collect()
    }

    fn found(words: &str, labels: &[&str], shown: &[usize]) -> ReferenceMatch {
        let items = items(labels);
        let shown: Vec<_> = shown.iter().map(|index| items[*index].clone()).collect();
        find(words, &items, &shown, &["task".into(), "to-do".into()])
    }

    const LIST: &[&str] = &[
        "buy milk",
        "call the dentist",
        "buy oat milk",
        "pay the rent",
    ];

    #[test]
    fn words_find_the_item_they_name() {
        for (words, index) in [
            ("buy milk", 0),
            ("Buy Milk", 0),
            ("the buy milk task", 0),
            ("the dentist", 1),
            ("calling the dentist", 1),
            ("the dentist one", 1),
            ("oat milk", 2),
            ("the task about rent", 3),
            ("my rent task", 3),
            ("the dentst", 1),
            ("\"pay the rent\"", 3),
        ] {
            assert_eq!(
                found(words, LIST, &[]),
                ReferenceMatch::One(index),
                "{words}"
            );
        }
    }

    #[test]
    fn a_place_is_counted_in_what_was_last_shown() {
        assert_eq!(found("the second one", LIST, &[]), ReferenceMatch::One(1));
        assert_eq!(
            found("the second one", LIST, &[3, 2, 0]),
            ReferenceMatch::One(2)
        );
        assert_eq!(found("number 3", LIST, &[]), ReferenceMatch::One(2));
        assert_eq!(found("task #4", LIST, &[]), ReferenceMatch::One(3));
        assert_eq!(found("the last task", LIST, &[]), ReferenceMatch::One(3));
        assert_eq!(found("2", LIST, &[]), ReferenceMatch::One(1));
        assert_eq!(
            found("the second to last one", LIST, &[]),
            ReferenceMatch::One(2)
        );
        assert_eq!(found("the ninth", LIST, &[]), ReferenceMatch::Nothing);
        assert_eq!(found("number 0", LIST, &[]), ReferenceMatch::Nothing);
    }

    #[test]
    fn it_is_what_was_last_spoken_of() {
        assert_eq!(found("it", LIST, &[2]), ReferenceMatch::One(2));
        assert_eq!(found("that task", LIST, &[1]), ReferenceMatch::One(1));
        assert_eq!(found("it", LIST, &[0, 1]), ReferenceMatch::Many(vec![0, 1]));
        assert_eq!(found("it", &["buy milk"], &[]), ReferenceMatch::One(0));
        assert_eq!(
            found("it", LIST, &[]),
            ReferenceMatch::Many(vec![0, 1, 2, 3])
        );
    }

    #[test]
    fn words_that_only_half_fit_are_asked_about() {
        assert_eq!(
            found("the laundry photos", &["do the laundry"], &[]),
            ReferenceMatch::Many(vec![0])
        );
        assert_eq!(
            found("back", &["call the bank"], &[]),
            ReferenceMatch::Nothing
        );
        assert_eq!(
            found("buy mlik", LIST, &[]),
            ReferenceMatch::Many(vec![0, 2])
        );
        assert_eq!(
            found("buy mlik", &["buy milk"], &[]),
            ReferenceMatch::One(0)
        );
        assert_eq!(found("that's", LIST, &[1]), ReferenceMatch::One(1));
    }

    #[test]
    fn several_are_never_one() {
        assert_eq!(found("milk", LIST, &[]), ReferenceMatch::Many(vec![0, 2]));
        assert_eq!(found("buy", LIST, &[]), ReferenceMatch::Many(vec![0, 2]));
        assert_eq!(found("the laundry", LIST, &[]), ReferenceMatch::Nothing);
        assert_eq!(found("", LIST, &[]), ReferenceMatch::Nothing);
        assert_eq!(found("milk", &[], &[]), ReferenceMatch::Nothing);
    }

    #[test]
    fn other_scripts_are_found_as_they_are() {
        let list = &["купить молоко", "歯医者に電話", "Zähne putzen"];
        assert_eq!(found("молоко", list, &[]), ReferenceMatch::One(0));
        assert_eq!(found("歯医者に電話", list, &[]), ReferenceMatch::One(1));
        assert_eq!(found("zähne putzen", list, &[]), ReferenceMatch::One(2));
    }
}
