//! Splits a question into words.

/// Numbers as words.
const NUMBERS: [(&str, i64); 22] = [
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("fifteen", 15),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("ninety", 90),
    ("hundred", 100),
    ("couple", 2),
    ("dozen", 12),
];

/// Splits a text into lower-case words. An apostrophe inside a word is kept; other punctuation
/// separates.
pub(crate) fn words(text: &str) -> Vec<String> {
    let words = spelled(text).into_iter();
    words.map(|word| word.to_lowercase()).collect()
}

/// The same words as they are spelled in the text.
pub(crate) fn spelled(text: &str) -> Vec<String> {
    let text = text.replace('\u{2019}', "'");
    text.split(|character: char| !character.is_alphanumeric() && character != '\'')
        .map(|word| word.trim_matches('\''))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The number that a word means.
pub(crate) fn number(word: &str) -> Option<i64> {
    let written = NUMBERS.iter().find(|(name, _)| *name == word);
    written.map(|(_, number)| *number).or_else(|| {
        let digits = word.chars().all(|character| character.is_ascii_digit());
        // A number with too many digits is a large number too.
        digits.then(|| word.parse().unwrap_or(i64::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_everything_but_apostrophes() {
        assert_eq!(
            words("What’s the price of E-Reader, \"Mother's Day\"?"),
            [
                "what's", "the", "price", "of", "e", "reader", "mother's", "day"
            ]
        );
    }

    #[test]
    fn numbers_are_digits_or_words() {
        assert_eq!(number("10"), Some(10));
        assert_eq!(number("ten"), Some(10));
        assert_eq!(number("99999999999999999999"), Some(i64::MAX));
        assert_eq!(number("tent"), None);
    }
}
