//! Placeholders of another template language, such as `{0}` and `{successMessage}`, in templates that used to be written
//! with them. They are read as the variables that they stand for.

use std::ops::Range;

use serde::{Deserialize, Deserializer};

/// Placeholders of `user_prompt_template`, with the variables that they stand for.
pub const PROMPT_PLACEHOLDERS: [(&str, &str); 2] = [("0", "request"), ("1", "catalogue")];

/// Placeholders of `partial_failure_template`, with the variables that they stand for.
pub const PARTIAL_PLACEHOLDERS: [(&str, &str); 2] = [
    ("successMessage", "success_message"),
    ("failureMessage", "failure_message"),
];

/// The placeholders in a template: a number or a name in single braces. A format, as in `{0,8}`, is part of the
/// placeholder, so no list of known ones has it.
pub fn placeholders(template: &str) -> Vec<&str> {
    let places = places(template).into_iter();
    places.map(|place| &template[place]).collect()
}

/// The places of what is in single braces and could be a placeholder, without the braces.
fn places(template: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(opening) = template[start..].find('{') {
        let inner = start + opening + 1;
        let rest = &template[inner..];
        let closing = match rest.chars().next() {
            Some('{') => "}}",
            Some('%') => "%}",
            Some('#') => "#}",
            _ => {
                if let Some(end) = rest.find(['{', '}'])
                    && rest[end..].starts_with('}')
                    && is_placeholder(&rest[..end])
                {
                    found.push(inner..inner + end);
                }
                start = inner;
                continue;
            }
        };
        let Some(end) = rest.find(closing) else {
            break;
        };
        start = inner + end + closing.len();
    }
    found
}

fn is_placeholder(text: &str) -> bool {
    let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let number = text.find([',', ':']).map_or(text, |format| &text[..format]);
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    is_number || (!text.is_empty() && is_word(text))
}

/// The template with the variables in place of the placeholders that stand for them.
fn with_variables(template: String, known: &[(&str, &str)]) -> String {
    let mut places = places(&template);
    places.reverse();
    let mut written = template;
    for place in places {
        let variable = known
            .iter()
            .find(|(name, _)| *name == &written[place.clone()]);
        if let Some((_, variable)) = variable {
            let whole = place.start - 1..place.end + 1;
            written.replace_range(whole, &format!("{{{{ {variable} }}}}"));
        }
    }
    written
}

/// Reads `user_prompt_template`.
pub(crate) fn read_prompt<'de, D: Deserializer<'de>>(
    reader: D,
) -> Result<Option<String>, D::Error> {
    let template = Option::<String>::deserialize(reader)?;
    Ok(template.map(|template| with_variables(template, &PROMPT_PLACEHOLDERS)))
}

/// Reads `partial_failure_template`.
pub(crate) fn read_partial<'de, D: Deserializer<'de>>(reader: D) -> Result<String, D::Error> {
    let template = String::deserialize(reader)?;
    Ok(with_variables(template, &PARTIAL_PLACEHOLDERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_or_a_name_in_single_braces_is_a_placeholder() {
        for (template, expected) in [
            ("{0} and {1}", &["0", "1"][..]),
            (
                "{successMessage} However, {x_2}",
                &["successMessage", "x_2"],
            ),
            ("{0,8} {1:F2}", &["0,8", "1:F2"]),
            (
                "{{ request }} {{0}} {% if a %}{0}{% endif %} {# {1} #}",
                &["0"],
            ),
            ("{\"agent\": \"a\"} {} { 0 } {a b} {é} {", &[]),
            ("{{ never closed {0}", &[]),
            ("{{{0}}}", &[]),
            ("{a{1}", &["1"]),
        ] {
            assert_eq!(placeholders(template), expected, "{template}");
        }
    }

    #[test]
    fn a_known_placeholder_becomes_its_variable_and_an_unknown_one_stays() {
        let template = "Request: {0}\n{1} {2} {{ request }}".to_owned();
        assert_eq!(
            with_variables(template, &PROMPT_PLACEHOLDERS),
            "Request: {{ request }}\n{{ catalogue }} {2} {{ request }}"
        );
    }
}
