//! Any text can be decided: no panics, bounded work, and slots contain the user's own words.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::LazyLock;

use convoke_decide::{Entry, FoundBy, LocalDecider, MAX_ALTERNATIVES, Options};
use proptest::prelude::*;

static DECIDER: LazyLock<LocalDecider> = LazyLock::new(|| {
    let entry = |name: &str, examples: &[&str], sentences: &[&str]| Entry {
        name: name.to_owned(),
        examples: examples.iter().map(|&text| text.to_owned()).collect(),
        sentences: sentences.iter().map(|&text| text.to_owned()).collect(),
        ..Entry::default()
    };
    let entries = [
        entry(
            "create",
            &["add milk to my list", "remind me to call mum"],
            &[
                "add {title} [to [my] {list} list]",
                "remind (me|us) to {title}",
                "{title}を追加して",
            ],
        ),
        entry(
            "rename",
            &["rename milk to tea"],
            &["rename {old} to {new} [now]"],
        ),
        entry(
            "done",
            &["milk is done"],
            &["{title} (is|are) done", "[all] done"],
        ),
    ];
    LocalDecider::build(&entries, Options::default()).unwrap()
});

fn holds(text: &str) {
    let decision = DECIDER.decide(text);
    for candidate in &decision.candidates {
        assert!((0.0..=1.0).contains(&candidate.confidence), "{candidate:?}");
        assert!(candidate.alternatives.len() <= MAX_ALTERNATIVES);
        let readings = candidate.alternatives.iter().chain([&candidate.slots]);
        for value in readings.flat_map(|slots| slots.values()) {
            assert!(
                text.contains(value.as_str()),
                "{value:?} is not in {text:?}"
            );
            assert!(!value.trim().is_empty(), "a slot of {text:?} is empty");
        }
    }
}

proptest! {
    #[test]
    fn any_string_is_decided(text in any::<String>()) {
        holds(&text);
    }

    #[test]
    fn words_of_the_patterns_in_any_order_are_decided(
        words in prop::collection::vec(
            prop_oneof![
                Just("add"), Just("to"), Just("my"), Just("list"), Just("remind"), Just("me"),
                Just("rename"), Just("is"), Just("done"), Just("please"), Just("now"), Just("\""),
                Just("🍕"), Just("❤️"), Just("👨‍👩‍👧"), Just("'"), Just("."), Just("を追加して"), Just("a\u{301}"),
                Just("\u{200d}"), Just("שלום"), Just("x"),
            ],
            0..30,
        ),
        joint in prop_oneof![Just(" "), Just(""), Just(", "), Just("\u{202e}")],
    ) {
        holds(&words.join(joint));
    }

    #[test]
    fn any_title_is_returned_unchanged(title in "[A-Za-zéßж][A-Za-z0-9éßж]{0,8}( [A-Za-z0-9&/éßж]{1,8}){0,4}") {
        let lower = title.to_lowercase();
        let has_own_meaning = ["to", "list", "please", "pls", "thanks", "thank", "cheers", "danke", "bitte"];
        prop_assume!(!lower.split([' ', '/', '&']).any(|word| has_own_meaning.contains(&word)));
        prop_assume!(title.ends_with(char::is_alphanumeric));
        let decision = DECIDER.decide(&format!("add {title} to my shopping list"));
        let chosen = decision.chosen().unwrap();
        prop_assert_eq!(chosen.by, FoundBy::Pattern);
        prop_assert_eq!(&chosen.slots["title"], &title);
        prop_assert_eq!(&chosen.slots["list"], "shopping");
    }
    #[test]
    fn symbols_stay_in_a_title_wherever_they_stand(
        words in prop::collection::vec(
            prop_oneof![
                Just("cake"), Just("Größe"), Just("C++"), Just("№5"), Just("7"), Just("🎂"), Just("❤️"),
                Just("👨‍👩‍👧"), Just("✅"), Just("€5"), Just("→"), Just("牛乳"),
            ],
            1..6,
        ),
    ) {
        let title = words.join(" ");
        for (text, slot) in [
            (format!("add {title}"), "title"),
            (format!("please add {title}, thanks!"), "title"),
            (format!("add {title} to my shopping list"), "title"),
            (format!("rename {title} to tea"), "old"),
            (format!("rename tea to {title}"), "new"),
            (format!("{title} is done"), "title"),
        ] {
            let decision = DECIDER.decide(&text);
            let chosen = decision.chosen().unwrap();
            prop_assert_eq!(chosen.by, FoundBy::Pattern);
            prop_assert_eq!(&chosen.slots[slot], &title, "{}", text);
        }
    }
}

#[test]
fn hostile_texts_are_decided() {
    let hundred_kilobytes = 100 * 1024;
    for text in [
        "a".repeat(hundred_kilobytes),
        "add ".repeat(hundred_kilobytes / 4),
        "to my list ".repeat(hundred_kilobytes / 11),
        "please ".repeat(hundred_kilobytes / 7),
        "を".repeat(hundred_kilobytes / 3),
        "👨‍👩‍👧".repeat(hundred_kilobytes / 18),
        format!("a{}", "\u{301}".repeat(hundred_kilobytes / 2)),
        "\u{202e}مرحبا ".repeat(hundred_kilobytes / 14),
        "\"".repeat(hundred_kilobytes),
        " ".repeat(hundred_kilobytes),
        "\0\u{1}\u{fffd}\u{feff}".repeat(1_000),
        format!("add {} to my list", "to my list ".repeat(160)),
    ] {
        holds(&text);
    }
}
