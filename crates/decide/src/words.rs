//! Splits a text into words with positions, so that patterns and features see normalised words while
//! slots return the original text.
//!
//! A word is a run of letters, digits and combining marks. Apostrophes inside a word are removed by
//! normalisation (`what's` becomes `whats`); all other punctuation separates. Scripts without spaces
//! (Chinese, Japanese, Thai and related ones) give one word per character, so that a pattern can match
//! inside a run. Symbols such as emoji are words of their own, because a slot may consist of nothing
//! else.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The kind of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Letters and digits between separators.
    Spaced,
    /// One character of a script without spaces.
    Unspaced,
    /// Emoji and other signs that are not punctuation.
    Symbol,
}

/// One word of a text.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    /// Byte range in the original text.
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
    /// Byte range of the normalised form in the shared buffer.
    normal: Range<usize>,
}

/// The words of a text, in order.
#[derive(Debug)]
pub(crate) struct Words<'t> {
    text: &'t str,
    list: Vec<Word>,
    normal: String,
}

impl<'t> Words<'t> {
    /// Splits the whole text.
    pub(crate) fn of(text: &'t str) -> Self {
        Self::of_at_most(text, usize::MAX)
    }

    /// Splits the text until it has `limit` words, and ignores the rest.
    pub(crate) fn of_at_most(text: &'t str, limit: usize) -> Self {
        let mut words = Self {
            text,
            list: Vec::new(),
            normal: String::new(),
        };
        let mut characters = text.char_indices().peekable();
        while words.list.len() < limit
            && let Some((start, first)) = characters.next()
        {
            let Some(kind) = kind_of(first) else { continue };
            let mut end = start + first.len_utf8();
            while let Some(&(at, next)) = characters.peek() {
                let continues = match kind {
                    Kind::Spaced => {
                        kind_of(next) == Some(Kind::Spaced)
                            || is_combining_mark(next)
                            || is_apostrophe(next) && letter_follows(&text[at + next.len_utf8()..])
                    }
                    Kind::Unspaced => is_combining_mark(next),
                    Kind::Symbol => kind_of(next) == Some(Kind::Symbol) || is_joiner(next),
                };
                if !continues {
                    break;
                }
                end = at + next.len_utf8();
                characters.next();
            }
            words.push(start..end, kind);
        }
        words
    }

    fn push(&mut self, span: Range<usize>, kind: Kind) {
        let original = &self.text[span.clone()];
        let start = self.normal.len();
        if original.is_ascii() {
            self.normal.extend(
                original
                    .bytes()
                    .filter(|&b| b != b'\'')
                    .map(|b| char::from(b.to_ascii_lowercase())),
            );
        } else {
            self.normal.extend(
                original
                    .nfkc()
                    .filter(|&character| !is_apostrophe(character))
                    .flat_map(char::to_lowercase)
                    .nfc(),
            );
        }
        let end = self.normal.len();
        self.list.push(Word {
            span,
            kind,
            normal: start..end,
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The word at an index below [`Words::len`].
    pub(crate) fn word(&self, index: usize) -> &Word {
        &self.list[index]
    }

    /// The normalised form of the word at an index below [`Words::len`].
    pub(crate) fn normal(&self, index: usize) -> &str {
        &self.normal[self.list[index].normal.clone()]
    }

    /// All normalised forms, in order.
    pub(crate) fn normals(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.normal(index))
    }

    /// The original text.
    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// Maximal runs of words without a separator: one word of a spaced script, or a whole stretch of an
    /// unspaced one.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &str> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = next;
            let mut last = self.list.get(first)?;
            next += 1;
            while let Some(word) = self.list.get(next) {
                let together = last.kind == Kind::Unspaced
                    && word.kind == Kind::Unspaced
                    && last.span.end == word.span.start;
                if !together {
                    break;
                }
                last = word;
                next += 1;
            }
            Some(&self.normal[self.list[first].normal.start..last.normal.end])
        })
    }
}

/// The longest prefix of a text with at most `limit` characters.
pub(crate) fn prefix(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    text.char_indices()
        .nth(limit)
        .map_or(text, |(end, _)| &text[..end])
}

fn kind_of(character: char) -> Option<Kind> {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric().then_some(Kind::Spaced);
    }
    if character.is_alphanumeric() || is_combining_mark(character) {
        return Some(if is_unspaced(character) {
            Kind::Unspaced
        } else {
            Kind::Spaced
        });
    }
    is_symbol(character).then_some(Kind::Symbol)
}

fn letter_follows(rest: &str) -> bool {
    rest.chars()
        .next()
        .is_some_and(|next| kind_of(next) == Some(Kind::Spaced))
}

/// Whether this is an apostrophe, in any encoding.
pub(crate) fn is_apostrophe(character: char) -> bool {
    matches!(character, '\'' | '\u{2019}' | '\u{02BC}' | '\u{FF07}')
}

/// Characters that join the parts of one emoji: zero-width joiner, variation selectors, keycap.
fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200D}' | '\u{FE0E}' | '\u{FE0F}' | '\u{20E3}')
}

/// Scripts written without spaces between words: Thai, Lao, Myanmar, Khmer, kana, Han.
fn is_unspaced(character: char) -> bool {
    matches!(
        u32::from(character),
        0x0E00..=0x0EFF
            | 0x1000..=0x109F
            | 0x1780..=0x17FF
            | 0x3005..=0x3007
            | 0x3040..=0x30FF
            | 0x31F0..=0x31FF
            | 0x3400..=0x4DBF
            | 0x4E00..=0x9FFF
            | 0xF900..=0xFAFF
            | 0xFF66..=0xFF9F
            | 0x2_0000..=0x3_FFFF
    )
}

/// Arrows, technical signs, dingbats and pictographs, which carry meaning unlike punctuation.
fn is_symbol(character: char) -> bool {
    matches!(u32::from(character), 0x2190..=0x2BFF | 0x1_F000..=0x1_FAFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normals(text: &str) -> Vec<String> {
        Words::of(text).normals().map(str::to_owned).collect()
    }

    #[test]
    fn words_are_split_and_normalised_in_every_script() {
        let table: &[(&str, &[&str])] = &[
            ("Remind me, PLEASE!", &["remind", "me", "please"]),
            ("what's  up", &["whats", "up"]),
            ("what’s up", &["whats", "up"]),
            ("'quoted'", &["quoted"]),
            ("to-do_list 5:30", &["to", "do", "list", "5", "30"]),
            ("GRÜSSE Größe", &["grüsse", "größe"]),
            ("cafe\u{301}", &["café"]),
            ("Ｆｕｌｌ", &["full"]),
            ("牛乳を買う", &["牛", "乳", "を", "買", "う"]),
            ("أضف مهمة", &["أضف", "مهمة"]),
            ("add 👨‍👩‍👧 now", &["add", "👨\u{200d}👩\u{200d}👧", "now"]),
            ("", &[]),
            ("?!…", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(normals(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn spans_point_into_the_original_text() {
        let words = Words::of("Müller's «Straße»");
        let originals: Vec<&str> = (0..words.len())
            .map(|index| &words.text()[words.word(index).span.clone()])
            .collect();
        assert_eq!(originals, ["Müller's", "Straße"]);
    }

    #[test]
    fn a_run_joins_words_without_separators() {
        let words = Words::of("買い物 list を見せて");
        assert_eq!(
            words.runs().collect::<Vec<_>>(),
            ["買い物", "list", "を見せて"]
        );
    }

    #[test]
    fn a_prefix_never_splits_a_character() {
        assert_eq!(prefix("äöü", 2), "äö");
        assert_eq!(prefix("äöü", 9), "äöü");
    }
}
