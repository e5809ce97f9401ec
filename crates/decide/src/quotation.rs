//! Finds quotations, which are kept together.

use crate::words::Words;

/// Opening marks, each with a closing mark.
pub(crate) const PAIRS: [(char, char); 13] = [
    ('"', '"'),
    ('\'', '\''),
    ('`', '`'),
    ('“', '”'),
    ('„', '“'),
    ('„', '”'),
    ('”', '”'),
    ('‘', '’'),
    ('‚', '‘'),
    ('«', '»'),
    ('»', '«'),
    ('「', '」'),
    ('『', '』'),
];

/// For each position between two words, and for both ends, whether it is inside a quotation. Quotation
/// marks around the whole text are ignored.
pub(crate) fn inside(words: &Words<'_>) -> Vec<bool> {
    let count = words.len();
    let mut inside = vec![false; count + 1];
    let is_mark = |character: char| PAIRS.iter().any(|&(open, _)| open == character);
    if !words.text().contains(is_mark) {
        return inside;
    }
    let characters: Vec<(usize, char)> = words.text().char_indices().collect();
    let (mut index, mut word) = (0, 0);
    // A mark without a closing mark is not searched for again, which bounds the work.
    let mut unclosed: Vec<char> = Vec::new();
    while let Some(&(from, open)) = characters.get(index) {
        let begins = is_mark(open) && !unclosed.contains(&open) && opens(&characters, index);
        let end = begins.then(|| {
            let closes = |&at: &usize| is_pair(open, characters[at].1) && closes(&characters, at);
            (index + 2..characters.len()).find(closes)
        });
        match end {
            Some(Some(end)) => {
                let to = characters[end].0;
                while word < count && words.word(word).span.start < from {
                    word += 1;
                }
                let first = word;
                while word < count && words.word(word).span.end <= to {
                    word += 1;
                }
                if (first, word) != (0, count) && first < word {
                    inside[first + 1..word].fill(true);
                }
                index = end + 1;
            }
            Some(None) => {
                unclosed.push(open);
                index += 1;
            }
            None => index += 1,
        }
    }
    inside
}

fn is_pair(open: char, close: char) -> bool {
    PAIRS.contains(&(open, close))
}

/// An opening mark is before a word, not inside one, in contrast to apostrophes and inch signs. Corner
/// brackets are always quotation marks.
fn opens(characters: &[(usize, char)], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| characters[before].1);
    let after = characters.get(at + 1).map(|&(_, after)| after);
    is_corner(characters[at].1)
        || before.is_none_or(|before| !before.is_alphanumeric())
            && after.is_some_and(|after| !after.is_whitespace())
}

fn closes(characters: &[(usize, char)], at: usize) -> bool {
    let after = characters.get(at + 1).map(|&(_, after)| after);
    is_corner(characters[at].1)
        || !characters[at - 1].1.is_whitespace()
            && after.is_none_or(|after| !after.is_alphanumeric())
}

fn is_corner(mark: char) -> bool {
    matches!(mark, '「' | '」' | '『' | '』')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a text, joined by `_` within quotations.
    fn joined(text: &str) -> String {
        let words = Words::of(text);
        let inside = inside(&words);
        let mut joined = String::new();
        for (position, word) in words.normals().enumerate() {
            if position > 0 {
                joined.push(if inside[position] { '_' } else { ' ' });
            }
            joined.push_str(word);
        }
        joined
    }

    #[test]
    fn quotations_are_kept_whole_and_apostrophes_are_not_quotations() {
        for (text, expected) in [
            ("rename \"a b\" to \"c d\"", "rename a_b to c_d"),
            ("rename “a b” to „c d“.", "rename a_b to c_d"),
            ("rename 'a b' to 'c d'", "rename a_b to c_d"),
            ("rename ‘a b’ to «c d»", "rename a_b to c_d"),
            ("rename 'mum's cake' to 'tea'", "rename mums_cake to tea"),
            (
                "feed the dogs' and the cats' bowls",
                "feed the dogs and the cats bowls",
            ),
            ("it's mum's and dad's", "its mums and dads"),
            ("buy 5\" pipe and 3\" pipe", "buy 5 pipe and 3 pipe"),
            ("add \"buy milk and tea", "add buy milk and tea"),
            ("\"add milk to my list\"", "add milk to my list"),
            ("「ab cd」を追加", "ab_cd を 追 加"),
            ("\"\" \"", ""),
        ] {
            assert_eq!(joined(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_million_marks_are_processed_quickly() {
        let text = format!("add {} milk and \"more tea\" now", "“„«".repeat(300_000));
        assert_eq!(joined(&text), "add milk and more_tea now");
    }
}
