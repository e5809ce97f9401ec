//! Resolves references among the user's actual items: "the second one", "it", a title or a part of one.

use crate::memory::Item;

/// The items that a reference matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReferenceMatch {
    /// One item, by its index.
    One(usize),
    /// One or several uncertain matches, best first. The user must choose, even from one.
    Many(Vec<usize>),
    /// No match.
    Nothing,
}

/// What the user saw before they referred to an item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MentionedItems<'a> {
    /// The items that were mentioned last: "it".
    pub(crate) shown: &'a [Item],
    /// The last list, in its order: "the second one".
    pub(crate) listed: &'a [Item],
}

impl<'a> MentionedItems<'a> {
    /// One list.
    pub(crate) fn list(items: &'a [Item]) -> Self {
        Self {
            shown: items,
            listed: items,
        }
    }
}

/// Resolves `words` among `items`; `nouns` are general words for such items ("task").
pub(crate) fn find(
    words: &str,
    items: &[Item],
    seen: MentionedItems<'_>,
    nouns: &[String],
) -> ReferenceMatch {
    let query = tokens(words);
    if let Some(pointed) = by_position(&query, items, seen, nouns) {
        return pointed;
    }
    let nouns: Vec<String> = nouns.iter().flat_map(|noun| tokens(noun)).collect();
    let content: Vec<&String> = query
        .iter()
        .filter(|token| !FILLERS.contains(&token.as_str()) && !is_noun(token, &nouns))
        .collect();
    let found = by_label(&query, &content, items);
    let words: Vec<&String> = (content.iter().copied())
        .filter(|token| !is_symbolic(token))
        .collect();
    // A symbol that no label has decorates the reference.
    if words.is_empty() || words.len() == content.len() || matches!(found, ReferenceMatch::One(_)) {
        return found;
    }
    by_label(&query, &words, items)
}

/// Whether words are exactly the label of an item.
pub(crate) fn is_named(words: &str, items: &[Item]) -> bool {
    let query = tokens(words);
    !query.is_empty() && items.iter().any(|item| tokens(&item.label) == query)
}

/// Words that do not help to identify an item.
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

/// A position, counted from either end.
enum Position {
    FromStart(usize),
    FromEnd(usize),
}

/// Resolves words that name a position instead of a label: "it", "the second one", "number 3", "the last task".
fn by_position(
    query: &[String],
    items: &[Item],
    seen: MentionedItems<'_>,
    nouns: &[String],
) -> Option<ReferenceMatch> {
    let rest = without_nouns(query, nouns);
    if points_at_shown(query, &rest) {
        if seen.shown.is_empty() {
            return Some(among((0..items.len()).collect()));
        }
        let mut present: Vec<usize> = Vec::new();
        for index in seen.shown.iter().flat_map(|item| same_as(item, items)) {
            if !present.contains(&index) {
                present.push(index);
            }
        }
        if present.is_empty() {
            return Some(gone_or_foreign(seen.shown, items));
        }
        return Some(among(present));
    }
    let position = position(&rest)?;
    // Positions count only in a list that the user saw.
    if seen.listed.is_empty() {
        return Some(ask_for_one_of(items));
    }
    let index = match position {
        Position::FromStart(index) => Some(index),
        Position::FromEnd(index) => seen.listed.len().checked_sub(index + 1),
    };
    let Some(item) = index.and_then(|index| seen.listed.get(index)) else {
        return Some(ReferenceMatch::Nothing);
    };
    let found = same_as(item, items);
    Some(if found.is_empty() {
        gone_or_foreign(std::slice::from_ref(item), items)
    } else {
        among(found)
    })
}

/// What a reference says of the thing, if nothing is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wording {
    /// "It": what was shown last.
    Pointer,
    /// "The second one": a position in the last list.
    Position,
    /// Words of a label.
    Label,
}

/// How words refer to a thing that such nouns name, and whether they have one of the nouns.
pub(crate) fn wording(words: &str, nouns: &[String]) -> (Wording, bool) {
    let query = tokens(words);
    let rest = without_nouns(&query, nouns);
    let nouns: Vec<String> = nouns.iter().flat_map(|noun| tokens(noun)).collect();
    let has_noun = query.iter().any(|token| is_noun(token, &nouns));
    let wording = if points_at_shown(&query, &rest) {
        Wording::Pointer
    } else if position(&rest).is_some() {
        Wording::Position
    } else {
        Wording::Label
    };
    (wording, has_noun)
}

/// The words that can name a position or point.
fn without_nouns<'q>(query: &'q [String], nouns: &[String]) -> Vec<&'q str> {
    let nouns: Vec<String> = nouns.iter().flat_map(|noun| tokens(noun)).collect();
    let is_filler = |token: &str| {
        matches!(
            token,
            "the" | "my" | "please" | "number" | "no" | "nr" | "item"
        )
    };
    let words = query.iter().map(String::as_str);
    words
        .filter(|token| !is_filler(token) && !is_noun(token, &nouns))
        .collect()
}

/// "The task", "that one", "it": the items shown last.
fn points_at_shown(query: &[String], rest: &[&str]) -> bool {
    let points = rest
        .iter()
        .all(|token| POINTERS.contains(token) || *token == "one");
    points && !query.is_empty() && rest.first() != Some(&"one")
}

/// One of these, by their indexes.
fn among(indexes: Vec<usize>) -> ReferenceMatch {
    match indexes.as_slice() {
        [] => ReferenceMatch::Nothing,
        [only] => ReferenceMatch::One(*only),
        _ => ReferenceMatch::Many(indexes),
    }
}

/// Any of the items, for the user to choose, even from one.
fn ask_for_one_of(items: &[Item]) -> ReferenceMatch {
    if items.is_empty() {
        return ReferenceMatch::Nothing;
    }
    ReferenceMatch::Many((0..items.len()).collect())
}

/// For items that the user saw and that are not among the candidates: those of the same kind are gone; of things of
/// another kind, the user chooses.
fn gone_or_foreign(seen: &[Item], items: &[Item]) -> ReferenceMatch {
    let is_known = |item: &Item| items.iter().any(|other| other.kind == item.kind);
    if items.is_empty() || seen.iter().any(is_known) {
        return ReferenceMatch::Nothing;
    }
    ask_for_one_of(items)
}

/// The position that words such as "second one", "last" or "#3" name.
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

/// Matches a whole label, else a part of one, else a misspelled one.
fn by_label(query: &[String], content: &[&String], items: &[Item]) -> ReferenceMatch {
    let labels: Vec<Vec<String>> = items.iter().map(|item| tokens(&item.label)).collect();
    let whole = pick(&labels, |label| !label.is_empty() && label == query);
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

/// The labels that share at least half of the words, most first. The other words do not fit, so even a single match is
/// uncertain.
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

/// The items that are the same thing: of the same kind, the one with its id; of another, those with its label.
fn same_as(item: &Item, items: &[Item]) -> Vec<usize> {
    let label = tokens(&item.label);
    let is_same = |other: &Item| {
        if other.kind == item.kind {
            return other.id == item.id;
        }
        !label.is_empty() && tokens(&other.label) == label
    };
    let found = items.iter().enumerate();
    found
        .filter(|(_, other)| is_same(other))
        .map(|(index, _)| index)
        .collect()
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

/// Whether two words differ by at most one typing error. In a word of four letters, only two swapped letters count as
/// an error, because another letter makes another word; shorter words must be equal.
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

/// Lower-case words without punctuation around them, and symbols such as emoji.
fn tokens(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut found = Vec::new();
    let mut rest = lower.as_str();
    while let Some(first) = rest.chars().next() {
        let goes_on: fn(char) -> bool = if is_of_word(first) {
            is_of_word
        } else if is_symbol(first) {
            |next| is_symbol(next) || is_joiner(next)
        } else {
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let end = rest.find(|next| !goes_on(next)).unwrap_or(rest.len());
        let token = rest[..end].trim_matches('\'');
        let token = token.strip_suffix("'s").unwrap_or(token);
        if !token.is_empty() {
            found.push(token.to_owned());
        }
        rest = &rest[end..];
    }
    found
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '\'' | '#')
}

/// Arrows, signs and pictographs. A label may consist of nothing else.
fn is_symbol(letter: char) -> bool {
    matches!(u32::from(letter), 0x2190..=0x2BFF | 0x1_F000..=0x1_FAFF)
}

/// Characters that join the parts of one emoji.
fn is_joiner(letter: char) -> bool {
    matches!(letter, '\u{200D}' | '\u{FE0E}' | '\u{FE0F}' | '\u{20E3}')
}

/// Whether a token is a symbol, which may decorate a reference.
fn is_symbolic(token: &str) -> bool {
    token.starts_with(is_symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(labels: &[&str]) -> Vec<Item> {
        labels
            .iter()
            .enumerate()
            .map(|(index, label)| Item {
                kind: "task".into(),
                id: index.to_string(),
                label: (*label).into(),
            })
            .collect()
    }

    fn found(words: &str, labels: &[&str], shown: &[usize]) -> ReferenceMatch {
        let items = items(labels);
        let shown: Vec<_> = shown.iter().map(|index| items[*index].clone()).collect();
        let listed = if shown.len() > 1 { &*shown } else { &[] };
        let seen = MentionedItems {
            shown: &shown,
            listed,
        };
        find(words, &items, seen, &["task".into(), "to-do".into()])
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
    fn positions_count_in_the_last_shown_items() {
        let all = &[0, 1, 2, 3];
        assert_eq!(found("the second one", LIST, all), ReferenceMatch::One(1));
        assert_eq!(
            found("the second one", LIST, &[3, 2, 0]),
            ReferenceMatch::One(2)
        );
        assert_eq!(found("number 3", LIST, all), ReferenceMatch::One(2));
        assert_eq!(found("task #4", LIST, all), ReferenceMatch::One(3));
        assert_eq!(found("the last task", LIST, all), ReferenceMatch::One(3));
        assert_eq!(found("2", LIST, all), ReferenceMatch::One(1));
        assert_eq!(
            found("the second to last one", LIST, all),
            ReferenceMatch::One(2)
        );
        assert_eq!(found("the ninth", LIST, all), ReferenceMatch::Nothing);
        assert_eq!(found("number 0", LIST, all), ReferenceMatch::Nothing);
    }

    #[test]
    fn a_position_in_no_list_is_asked_about() {
        let all = ReferenceMatch::Many(vec![0, 1, 2, 3]);
        for words in ["the second one", "number 3", "the last task"] {
            assert_eq!(found(words, LIST, &[]), all, "{words}");
            assert_eq!(
                found(words, LIST, &[1]),
                all,
                "one item is no list: {words}"
            );
        }
        assert_eq!(found("the first one", &[], &[]), ReferenceMatch::Nothing);
    }

    #[test]
    fn things_of_another_kind_are_matched_by_label_and_never_by_id() {
        let other = |id: &str, label: &str| Item {
            kind: "person".into(),
            id: id.into(),
            label: label.into(),
        };
        let among = |shown: &[Item], words: &str| {
            find(
                words,
                &items(LIST),
                MentionedItems::list(shown),
                &["task".into()],
            )
        };
        let all = ReferenceMatch::Many(vec![0, 1, 2, 3]);
        let people = [other("2", "Ann"), other("1", "Bob")];
        assert_eq!(among(&people[..1], "it"), all);
        assert_eq!(among(&people, "the second one"), all);
        let named = [other("2", "Buy milk"), other("0", "Bob")];
        assert_eq!(among(&named[..1], "it"), ReferenceMatch::One(0));
        assert_eq!(among(&named, "the first one"), ReferenceMatch::One(0));
        assert_eq!(among(&named, "the second one"), all);
    }

    #[test]
    fn it_refers_to_the_last_shown_items() {
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
    fn uncertain_matches_are_asked_about() {
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
    fn symbols_tell_items_apart_and_decorate_references() {
        let list = &["🎂", "🍕", "buy milk 🥛", "buy milk 🍫", "call mum"];
        for (words, expected) in [
            ("🍕", ReferenceMatch::One(1)),
            ("🎂", ReferenceMatch::One(0)),
            ("🚗", ReferenceMatch::Nothing),
            ("?!", ReferenceMatch::Nothing),
            ("milk 🍫", ReferenceMatch::One(3)),
            ("the milk", ReferenceMatch::Many(vec![2, 3])),
            ("mum 🙏", ReferenceMatch::One(4)),
            ("call mum ❤️", ReferenceMatch::One(4)),
        ] {
            assert_eq!(found(words, list, &[]), expected, "{words}");
        }
        assert_eq!(found("🚗", &["🍕"], &[]), ReferenceMatch::Nothing);
    }

    #[test]
    fn other_scripts_are_found_as_they_are() {
        let list = &["купить молоко", "歯医者に電話", "Zähne putzen"];
        assert_eq!(found("молоко", list, &[]), ReferenceMatch::One(0));
        assert_eq!(found("歯医者に電話", list, &[]), ReferenceMatch::One(1));
        assert_eq!(found("zähne putzen", list, &[]), ReferenceMatch::One(2));
    }
}
