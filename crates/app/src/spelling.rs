//! Suggestions for misspelt words.

/// Minimum similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.7;

/// The most similar candidate, if one is similar enough.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = normal(word);
    candidates
        .into_iter()
        .map(|candidate| {
            let other = normal(candidate);
            let edits = strsim::normalized_damerau_levenshtein(&word, &other);
            // `prompt` for `system_prompt` is an omission, not a typing error.
            let part = word.len() > 3 && other.split('_').any(|part| part == word);
            (
                candidate,
                if part {
                    edits.max(MIN_SIMILARITY)
                } else {
                    edits
                },
            )
        })
        .filter(|(_, alike)| *alike >= MIN_SIMILARITY)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, _)| candidate)
}

/// Help for an unknown word: the most similar candidate, else all of them.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    if let Some(nearest) = nearest(word, candidates.clone()) {
        return Some(format!("did you mean `{nearest}`?"));
    }
    let all: Vec<&str> = candidates.into_iter().collect();
    (!all.is_empty()).then(|| format!("use {}", one_of(&all)))
}

/// Words in backquotes, joined with "or".
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Converts a text to a valid name; `None` if it has no letter.
pub(crate) fn as_name(text: &str) -> Option<String> {
    let mut name = String::new();
    for character in text.trim().chars() {
        if character.is_ascii_alphanumeric() {
            if character.is_ascii_uppercase()
                && name.ends_with(|last: char| last.is_ascii_lowercase())
            {
                name.push('_');
            }
            name.push(character.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name
        .trim_matches(|c: char| c == '_')
        .trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let name: String = name.chars().take(convoke_model::MAX_NAME_LENGTH).collect();
    (!name.is_empty()).then_some(name)
}

fn normal(word: &str) -> String {
    word.to_lowercase().replace(['-', ' '], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_spelling_is_offered_and_a_far_one_is_not() {
        let keys = ["tools", "role", "system_prompt", "max_iterations"];
        assert_eq!(nearest("tols", keys), Some("tools"));
        assert_eq!(nearest("maxIterations", keys), Some("max_iterations"));
        assert_eq!(nearest("prompt", keys), Some("system_prompt"));
        assert_eq!(nearest("colour", keys), None);
    }

    #[test]
    fn a_name_is_made_from_any_text_with_letters() {
        for (text, name) in [
            ("My Todo App", Some("my_todo_app")),
            ("LightAgent", Some("light_agent")),
            ("2nd try", Some("nd_try")),
            ("a.b/c", Some("a_b_c")),
            ("42", None),
        ] {
            assert_eq!(as_name(text).as_deref(), name);
        }
    }
}
