//! Estimates token counts.

/// Estimates the tokens of a text: one per four bytes of Latin script or code, one per character of
/// other scripts. Slightly too high on purpose, so that limits hold.
pub fn estimate_tokens(text: &str) -> u64 {
    let bytes = text.len();
    let (mut plain, mut other) = (0_u64, 0_u64);
    if text.is_ascii() {
        plain = bytes as u64;
    } else {
        for character in text.chars() {
            // Accented Latin letters split words slightly more often than plain ones.
            match character {
                '\0'..='\u{7f}' => plain += 1,
                '\u{80}'..='\u{24f}' => plain += 2,
                _ => other += 1,
            }
        }
    }
    plain.div_ceil(4) + other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_text_has_no_tokens() {
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("a"), 1);
        assert_eq!(estimate_tokens("12345"), 2);
    }

    #[test]
    fn a_script_without_spaces_costs_a_token_a_character() {
        assert_eq!(estimate_tokens("日本語"), 3);
        assert!(estimate_tokens("été") >= 1);
        assert!(estimate_tokens("日本語 text") > estimate_tokens("日本語"));
    }
}
