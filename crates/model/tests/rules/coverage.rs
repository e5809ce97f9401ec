//! Every rule has a test: each code in the sources is expected by some test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// String literals that look like codes: two lower-case words joined by a dot.
fn codes(source: &str) -> BTreeSet<String> {
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .chars()
                .all(|next| next.is_ascii_lowercase() || next == '_')
    };
    source
        .split('"')
        .filter(|text| {
            text.split_once('.')
                .is_some_and(|(noun, rule)| is_word(noun) && is_word(rule))
        })
        .map(str::to_owned)
        .collect()
}

fn sources(folder: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        // Its codes are of calls, not of rules.
        .filter(|path| !path.ends_with("failure.rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

#[test]
fn every_code_is_expected_by_a_test() {
    let mut declared = BTreeSet::new();
    let mut expected = BTreeSet::new();
    for source in sources("src") {
        let (rules, tests) = source.split_once("#[cfg(test)]").unwrap_or((&source, ""));
        declared.extend(codes(rules));
        expected.extend(codes(tests));
    }
    for source in sources("tests/rules") {
        expected.extend(codes(&source));
    }
    let untested: Vec<_> = declared.difference(&expected).collect();
    assert!(untested.is_empty(), "no test expects {untested:?}");
    assert!(
        declared.len() > 140,
        "only {} codes were found",
        declared.len()
    );
}

#[test]
fn codes_are_distinguished_from_other_strings() {
    let found = codes(r#"("message.content_empty", "see a.b.c", "v1.0", "content", "todo.ADD")"#);
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["message.content_empty"]
    );
}
