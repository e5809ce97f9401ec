//! The text of a free slot: the user's own words, without punctuation of the surrounding sentence.

use crate::quotation::PAIRS;

/// Trims white space, separators at both ends, one pair of quotation marks, and the punctuation that
/// ends a sentence. Text inside quotation marks is unchanged.
pub(crate) fn trimmed(raw: &str) -> &str {
    let text = without_stray_marks(raw)
        .trim_start_matches(is_separator)
        .trim_end();
    let text = without_dash(text);
    // The full stop may be before or after the closing quotation mark.
    if let Some(inner) = unquoted(text).or_else(|| unquoted(without_ending(text)))
        && inner.chars().any(char::is_alphanumeric)
    {
        return inner.trim();
    }
    let ended = without_ending(text);
    if ended.is_empty() { text } else { ended }
}

/// Removes a mark that closes a quotation before the slot or opens one after it: the end of `show "my" `
/// in `show "my" old tasks`.
fn without_stray_marks(raw: &str) -> &str {
    let is_mark = |mark: char| {
        PAIRS
            .iter()
            .any(|&(open, close)| mark == open || mark == close)
    };
    let text = match raw.strip_prefix(is_mark) {
        Some(rest) if rest.starts_with(char::is_whitespace) => rest,
        _ => raw,
    };
    match text.strip_suffix(is_mark) {
        Some(rest) if rest.ends_with(char::is_whitespace) && !rest.trim().is_empty() => rest,
        _ => text,
    }
}

fn is_separator(character: char) -> bool {
    character.is_whitespace()
        || matches!(
            character,
            ',' | ';' | ':' | '.' | '!' | '?' | '،' | '؛' | '、' | '。' | '：'
        )
}

fn is_ending(character: char) -> bool {
    is_separator(character) || matches!(character, '…' | '！' | '？' | '؟' | '．')
}

/// A dash is a separator only before white space: `add - milk`, but not `-5 degrees`.
fn without_dash(text: &str) -> &str {
    let rest = text.trim_start_matches(['-', '–', '—']);
    if rest.len() < text.len() && rest.starts_with(char::is_whitespace) {
        rest.trim_start()
    } else {
        text
    }
}

fn without_ending(text: &str) -> &str {
    let text = text.trim_end_matches([' ', '\u{a0}']);
    let last = text.rsplit(char::is_whitespace).next().unwrap_or(text);
    if is_abbreviation(last) {
        text
    } else {
        text.trim_end_matches(is_ending)
    }
}

/// Single letters with full stops, such as `p.m.`: the last full stop is part of the word.
fn is_abbreviation(word: &str) -> bool {
    let letters = word
        .strip_suffix('.')
        .map(|word| word.split('.').collect::<Vec<_>>());
    letters.is_some_and(|letters| {
        letters.len() > 1
            && letters.iter().all(|letter| {
                letter.chars().count() == 1 && letter.chars().all(char::is_alphabetic)
            })
    })
}

fn unquoted(text: &str) -> Option<&str> {
    PAIRS.iter().find_map(|&(open, close)| {
        let inner = text.strip_prefix(open)?.strip_suffix(close)?;
        (!inner.contains([open, close])).then_some(inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_punctuation_of_the_sentence_is_trimmed() {
        let table = [
            ("buy milk", "buy milk"),
            ("  Buy Milk. ", "Buy Milk"),
            (": buy milk!", "buy milk"),
            (" - buy milk", "buy milk"),
            ("-5 degrees", "-5 degrees"),
            ("\"Buy milk!\"", "Buy milk!"),
            ("“Buy milk”.", "Buy milk"),
            ("“Buy milk.”", "Buy milk."),
            ("„Milch kaufen“", "Milch kaufen"),
            ("«Milk»", "Milk"),
            ("「牛乳」。", "牛乳"),
            ("\"a\" and \"b\"", "\"a\" and \"b\""),
            ("mum's cake, with cherries", "mum's cake, with cherries"),
            ("C++", "C++"),
            ("call at 5 p.m.", "call at 5 p.m."),
            ("version 2.0.", "version 2.0"),
            ("wait…", "wait"),
            ("🍕", "🍕"),
            ("\" old ", "old"),
            (" old \"", "old"),
            (" ' ", "'"),
        ];
        for (raw, expected) in table {
            assert_eq!(trimmed(raw), expected, "{raw:?}");
        }
    }
}
