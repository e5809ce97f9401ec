//! Named parts of sentences: what they match, and how invalid ones are reported.

use std::collections::BTreeMap;

use convoke_decide::{
    BuildProblem, Candidate, Entry, FoundBy, LocalDecider, Options, SlotValues, check,
};

fn options(phrases: &[(&str, &str)]) -> Options {
    let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
    Options {
        phrases: phrases.iter().map(owned).collect(),
        ..Options::default()
    }
}

fn entry(sentences: &[&str]) -> Entry {
    let values = BTreeMap::from([("high".to_owned(), vec!["urgent".to_owned()])]);
    Entry {
        name: "only".to_owned(),
        sentences: sentences.iter().map(|&text| text.to_owned()).collect(),
        slots: BTreeMap::from([("priority".to_owned(), SlotValues(values))]),
        ..Entry::default()
    }
}

fn problems(phrases: &[(&str, &str)], sentences: &[&str]) -> Vec<BuildProblem> {
    check(&[entry(sentences)], &options(phrases))
}

#[test]
fn phrases_are_expanded_in_sentences_and_phrases() {
    let phrases = options(&[
        ("list", "(my|the) [to-do|task] (list|tasks)"),
        ("to-list", "(to|on) <list>"),
        ("add", "(add|put)"),
        ("level", "with {priority} priority"),
        ("on-day", "on {day}"),
    ]);
    let sentences = [
        "<add> {title} [<to_list>] [<level>] [<on_day>]",
        "clear <list>",
        r"press \<enter\>",
    ];
    let decider = LocalDecider::build(&[entry(&sentences)], phrases).unwrap();
    for (text, expected) in [
        ("put milk on my to-do list", Some("title=milk")),
        ("add milk to the tasks", Some("title=milk")),
        ("add milk to my", Some("title=milk to my")),
        (
            "add milk to my list with urgent priority on Monday",
            Some("day=Monday priority=high title=milk"),
        ),
        ("clear the task list", Some("")),
        ("press enter", Some("")),
        ("clear list", None),
    ] {
        let decision = decider.decide(text);
        let by_pattern = |candidate: &&Candidate| candidate.by == FoundBy::Pattern;
        let found = decision.chosen().filter(by_pattern).map(|candidate| {
            let slots = candidate.slots.iter();
            let slots = slots.map(|(name, value)| format!("{name}={value}"));
            slots.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }
}

#[test]
fn bad_phrases_are_reported_once_with_name_position_and_code() {
    type Case<'c> = (&'c [(&'c str, &'c str)], &'c str, Option<&'c str>, usize);
    let table: &[Case<'_>] = &[
        (&[("list", "my list")], "pattern.phrase_unknown", None, 7),
        (
            &[("lisst", "(my list")],
            "pattern.unclosed",
            Some("lisst"),
            1,
        ),
        (&[("lisst", "")], "pattern.empty", Some("lisst"), 1),
        (
            &[("lisst", "x <y>"), ("y", "y <lisst>")],
            "pattern.phrase_cycle",
            Some("y"),
            3,
        ),
        (
            &[("lisst", "of <lisst>")],
            "pattern.phrase_cycle",
            Some("lisst"),
            4,
        ),
        (
            &[("lisst", "all [of <them>]")],
            "pattern.phrase_unknown",
            Some("lisst"),
            9,
        ),
        (
            &[("lisst", "x"), ("Bad", "y")],
            "pattern.phrase_name",
            Some("Bad"),
            1,
        ),
        (
            &[("lisst", "list>")],
            "pattern.unexpected",
            Some("lisst"),
            5,
        ),
    ];
    for (phrases, code, phrase, column) in table {
        let mut sentences = vec!["clear <lisst>"];
        if phrase.is_some() {
            // An invalid phrase is reported once, however many sentences use it.
            sentences.push("empty <lisst>");
        }
        let found = problems(phrases, &sentences);
        assert_eq!(found.len(), 1, "{phrases:?}: {found:?}");
        let problem = &found[0];
        assert_eq!(
            (problem.code, problem.phrase.as_deref(), problem.column),
            (*code, *phrase, Some(*column)),
            "{phrases:?}"
        );
    }
    let near = &problems(&[("list", "my list")], &["clear <lisst>"])[0];
    assert_eq!(
        near.to_string(),
        "only: `clear <lisst>` column 7: there is no phrase `<lisst>`; did you mean `<list>`? \
         [pattern.phrase_unknown]"
    );
    let cycle = &problems(&[("a", "x <b>"), ("b", "<c>"), ("c", "[<a>]")], &["<a>"])[0];
    assert!(
        cycle.message.ends_with("<a> → <b> → <c> → <a>"),
        "{}",
        cycle.message
    );
    assert_eq!(problems(&[], &["add <x"])[0].code, "pattern.unclosed");
    assert_eq!(problems(&[], &["add <x y>"])[0].code, "pattern.phrase_name");
    assert_eq!(problems(&[], &["add x<y>"])[0].code, "pattern.inside_word");
}

#[test]
fn a_fault_caused_by_a_phrase_is_reported_where_it_is_used() {
    let found = problems(&[("what", "{title}")], &["add {title} to <what>", "<what>"]);
    let places: Vec<_> = found.iter().map(|one| (one.code, one.column)).collect();
    assert_eq!(
        places,
        [
            ("pattern.slot_twice", Some(16)),
            ("pattern.no_literal", Some(1))
        ]
    );
}

#[test]
fn phrases_that_double_each_other_are_rejected_before_they_exhaust_memory() {
    let phrases: Vec<(String, String)> = (0..60)
        .map(|number| {
            let next = format!("<p{:02}> word <p{:02}>", number + 1, number + 1);
            let text = if number == 59 {
                "word".to_owned()
            } else {
                next
            };
            (format!("p{number:02}"), text)
        })
        .collect();
    let borrowed: Vec<(&str, &str)> = phrases
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let found = problems(&borrowed, &["add <p40>"]);
    assert!(
        found
            .iter()
            .all(|one| ["pattern.too_large", "pattern.too_deep"].contains(&one.code)),
        "{found:?}"
    );
    assert!(!found.is_empty());
}
