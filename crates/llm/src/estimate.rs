//! How many tokens a text has, roughly, where nobody counted them.

/// A guess at the tokens of a text: four bytes of Latin script or code to a token, one character of
/// any other script to a token. Meant to be a little too high, so that a limit is kept.
pub fn estimate_tokens(text: &str) -> u64 {
    let bytes = text.len();
    let (mut plain, mut other) = (0_u64, 0_u64);
    if text.is_ascii() {
        plain = bytes as u64;
    } else {
        for character in text.chars() {
            // Accented Latin letters split words a little more often than plain ones do.
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
    fn no_text_costs_nothing_and_any_text_costs_something() {
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
