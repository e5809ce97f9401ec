//! Finds the service that a request mentions.

use crate::error::Refusal;

/// Limit of the text, in characters.
pub const MAX_TEXT_LENGTH: usize = 10_000;

/// The service that the text mentions as a whole word, ignoring case. `None` if it mentions none or
/// several; then the caller has to ask.
pub(crate) fn mentioned<'a>(text: &str, names: &'a [String]) -> Result<Option<&'a str>, Refusal> {
    if text.chars().count() > MAX_TEXT_LENGTH {
        return Err(Refusal::Text);
    }
    let text = text.to_lowercase();
    let mut found = names.iter().filter(|name| {
        let name = name.to_lowercase();
        text.split(|character: char| !character.is_alphanumeric())
            .any(|word| word == name)
    });
    let first = found.next();
    Ok(match found.next() {
        None => first.map(String::as_str),
        Some(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["checkout", "inventory", "payments", "search"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn a_service_is_found_as_a_whole_word_in_whichever_case() {
        let names = names();
        for (text, service) in [
            ("Why is Checkout so slow?", Some("checkout")),
            ("the checkout-service; CHECKOUT again", Some("checkout")),
            ("search", Some("search")),
            ("I did some research", None),
            ("", None),
            ("Everything is down!", None),
        ] {
            assert_eq!(mentioned(text, &names).unwrap(), service, "{text}");
        }
    }

    #[test]
    fn a_text_that_names_two_services_names_none() {
        let names = names();
        let both = "Is it search or inventory?";
        assert_eq!(mentioned(both, &names).unwrap(), None);
    }

    #[test]
    fn a_text_that_is_too_long_is_refused() {
        let text = "a".repeat(MAX_TEXT_LENGTH + 1);
        assert_eq!(mentioned(&text, &names()), Err(Refusal::Text));
    }
}
