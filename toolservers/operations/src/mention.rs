//! Finds the services that a request mentions.

use crate::error::Refusal;

/// Limit of the text, in characters.
pub const MAX_TEXT_LENGTH: usize = 10_000;

/// The services that the text mentions as whole words, ignoring case, in the order in which it names them first.
pub(crate) fn mentioned<'a>(text: &str, names: &'a [String]) -> Result<Vec<&'a str>, Refusal> {
    if text.chars().count() > MAX_TEXT_LENGTH {
        return Err(Refusal::Text);
    }
    let text = text.to_lowercase();
    let words = text.split(|character: char| !character.is_alphanumeric());
    let mut found: Vec<&str> = Vec::new();
    for word in words {
        let service = names.iter().find(|name| name.to_lowercase() == word);
        if let Some(name) = service.filter(|name| !found.contains(&name.as_str())) {
            found.push(name);
        }
    }
    Ok(found)
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
            ("Why is Checkout so slow?", &["checkout"][..]),
            ("the checkout-service; CHECKOUT again", &["checkout"]),
            ("search", &["search"]),
            ("I did some research", &[]),
            ("", &[]),
            ("Everything is down!", &[]),
        ] {
            assert_eq!(mentioned(text, &names).unwrap(), service, "{text}");
        }
    }

    #[test]
    fn several_services_are_found_in_the_order_of_the_text() {
        let names = names();
        let both = "Is it search or inventory? Search, I think.";
        assert_eq!(mentioned(both, &names).unwrap(), ["search", "inventory"]);
    }

    #[test]
    fn a_text_that_is_too_long_is_refused() {
        let text = "a".repeat(MAX_TEXT_LENGTH + 1);
        assert_eq!(mentioned(&text, &names()), Err(Refusal::Text));
    }
}
