//! Finds markdown that a plain channel would show literally.
//!
//! Only unmistakable marks count: a single `*` or a line that starts with `# of hours` is ordinary text,
//! and rejecting it would hold back a good answer.

use std::collections::BTreeSet;

use crate::channel_spec::MarkdownFeature;

/// The markdown that a text certainly uses.
pub(crate) fn markdown_in(text: &str) -> BTreeSet<MarkdownFeature> {
    let mut found = BTreeSet::new();
    if text.contains("```") || pair(text, "`") {
        found.insert(MarkdownFeature::Code);
    }
    if pair(text, "**") {
        found.insert(MarkdownFeature::Bold);
    }
    if text.split('[').skip(1).any(|rest| {
        rest.split_once("](").is_some_and(|(label, address)| {
            !label.contains([']', '\n'])
                && address
                    .split_once(')')
                    .is_some_and(|(address, _)| !address.contains(' '))
        })
    }) {
        found.insert(MarkdownFeature::Links);
    }
    for line in text.lines() {
        let hashes = line
            .chars()
            .take_while(|character| *character == '#')
            .count();
        if (2..=6).contains(&hashes) && line[hashes..].starts_with(' ') {
            found.insert(MarkdownFeature::Headers);
        }
        let cells = line.trim();
        if cells.contains("---")
            && cells.contains('|')
            && cells
                .chars()
                .all(|character| matches!(character, '|' | '-' | ':' | ' '))
        {
            found.insert(MarkdownFeature::Tables);
        }
    }
    found
}

/// Whether a mark encloses text on one line, without spaces inside its ends.
fn pair(text: &str, mark: &str) -> bool {
    text.lines().any(|line| {
        let pieces: Vec<_> = line.split(mark).collect();
        // Only pieces between two marks are enclosed: not the first, not the last.
        pieces.len() > 2
            && pieces[1..pieces.len() - 1]
                .iter()
                .any(|inner| !inner.is_empty() && inner.trim() == *inner)
    })
}

/// Whether a text has a character that is drawn as an emoji.
pub(crate) fn has_emoji(text: &str) -> bool {
    text.chars().any(|character| {
        matches!(character,
            '\u{1F000}'..='\u{1FAFF}' | '\u{2600}'..='\u{27BF}' | '\u{2B00}'..='\u{2BFF}'
            | '\u{FE0F}' | '\u{20E3}' | '\u{231A}' | '\u{231B}' | '\u{23E9}'..='\u{23FA}')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_and_ordinary_text_is_left_alone() {
        use MarkdownFeature::{Bold, Code, Headers, Links, Tables};
        for (text, expected) in [
            ("a **bold** word", Some(Bold)),
            ("run `ls` now", Some(Code)),
            ("```\nx\n```", Some(Code)),
            ("see [this](https://example.org)", Some(Links)),
            ("## Hours", Some(Headers)),
            ("a | b\n---|---\n1 | 2", Some(Tables)),
            ("2 * 3 * 4 ** 2", None),
            ("# of hours: 5", None),
            ("[1] and (2)", None),
            ("it's 5 o`clock", None),
            ("You've logged 32/40 hours - great!", None),
        ] {
            assert_eq!(markdown_in(text), expected.into_iter().collect(), "{text}");
        }
    }

    #[test]
    fn emojis_are_distinguished_from_letters() {
        for text in ["✅", "⚠️", "well done 🎉", "ℹ️"] {
            assert!(has_emoji(text), "{text}");
        }
        for text in ["naïve", "日本", "5 → 6", "“quoted” – 10 €"] {
            assert!(!has_emoji(text), "{text}");
        }
    }
}
