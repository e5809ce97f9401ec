//! What sentence patterns match and extract, and how invalid ones are reported.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use convoke_decide::{
    BuildProblem, Entry, FoundBy, LocalDecider, LocalDecision, MAX_ALTERNATIVES, Options,
    SlotValues, Verdict, check,
};

fn entry(name: &str, sentences: &[&str]) -> Entry {
    Entry {
        name: name.to_owned(),
        description: format!("does {name}"),
        sentences: sentences
            .iter()
            .map(|&sentence| sentence.to_owned())
            .collect(),
        ..Entry::default()
    }
}

fn closed(slot: &str, values: &[(&str, &[&str])]) -> BTreeMap<String, SlotValues> {
    let values = values.iter().map(|(value, words)| {
        (
            (*value).to_owned(),
            words.iter().map(|&word| word.to_owned()).collect(),
        )
    });
    BTreeMap::from([(slot.to_owned(), SlotValues(values.collect()))])
}

fn build(entries: &[Entry]) -> LocalDecider {
    LocalDecider::build(entries, Options::default()).unwrap()
}

fn problems(entries: &[Entry]) -> Vec<BuildProblem> {
    LocalDecider::build(entries, Options::default()).unwrap_err()
}

/// The slots that a single pattern extracts, as `name=value`, or `None` if it does not match.
fn extracted(pattern: &str, text: &str) -> Option<String> {
    let decision = build(&[entry("only", &[pattern])]).decide(text);
    slots_by_pattern(&decision)
}

fn slots_by_pattern(decision: &LocalDecision) -> Option<String> {
    let candidate = decision
        .chosen()
        .filter(|candidate| candidate.by == FoundBy::Pattern)?;
    let slots = candidate
        .slots
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    Some(slots.collect::<Vec<_>>().join(" "))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a single table")]
fn patterns_match_and_extract() {
    let table = [
        // Literals: case, punctuation and white space do not matter.
        ("show my tasks", "Show my tasks!", Some("")),
        ("show my tasks", "  SHOW   my,\ttasks ??", Some("")),
        ("show my tasks", "show my old tasks", None),
        ("show my tasks", "show my", None),
        ("what's up", "whats up", Some("")),
        ("whats up", "What’s up?", Some("")),
        ("größe zeigen", "GRÖSSE zeigen", None),
        ("grüße zeigen", "GRÜßE zeigen", Some("")),
        ("café", "CAFE\u{301}", Some("")),
        // Optional words and alternatives, nested.
        ("show [all] [of] my tasks", "show all of my tasks", Some("")),
        ("show [all] [of] my tasks", "show my tasks", Some("")),
        ("(show|list) (my|the) tasks", "list the tasks", Some("")),
        ("(show|list) (my|the) tasks", "hide the tasks", None),
        (
            "show [(all|some [few]) of] my tasks",
            "show some few of my tasks",
            Some(""),
        ),
        ("show [all|most] tasks", "show most tasks", Some("")),
        (r"add \(x\) \{now\}", "add x now", Some("")),
        // Free slots return the user's own words.
        (
            "add {title}",
            "add Buy MILK, eggs & tea.",
            Some("title=Buy MILK, eggs & tea"),
        ),
        ("add {title}", "add \"Buy milk!\"", Some("title=Buy milk!")),
        ("add {title}", "add: buy milk", Some("title=buy milk")),
        ("add {title}", "add C++", Some("title=C++")),
        ("add {title}", "add 🍕", Some("title=🍕")),
        ("add {title}", "add", None),
        ("add {title}", "add ...", None),
        (
            "{title} is done",
            "Call mum is done.",
            Some("title=Call mum"),
        ),
        // The shortest slot with which the most literal text matches.
        (
            "add {title} [to my list]",
            "add buy milk to my list",
            Some("title=buy milk"),
        ),
        (
            "add {title} [to my list]",
            "add buy milk",
            Some("title=buy milk"),
        ),
        (
            "remind me to {title} [to my list]",
            "remind me to add sugar to my shopping",
            Some("title=add sugar to my shopping"),
        ),
        (
            "add {title} [to [my] {list} list]",
            "add go to town to my shopping list",
            Some("list=shopping title=go to town"),
        ),
        ("move {a} to {b}", "move x to y to z", Some("a=x b=y to z")),
        (
            "rename {a} (to|as) {b}",
            "rename Old Thing as New",
            Some("a=Old Thing b=New"),
        ),
        // Politeness at both ends, in several languages and any number.
        (
            "add {title}",
            "Hey, could you please add milk, thanks!",
            Some("title=milk"),
        ),
        (
            "add {title}",
            "please please add milk please",
            Some("title=milk"),
        ),
        // A symbol beside a slot is the user's text; elsewhere it is left out.
        ("add {title}", "add milk 🙏", Some("title=milk 🙏")),
        (
            "add {title}",
            "🎉 add 🎂 cake 🎂!",
            Some("title=🎂 cake 🎂"),
        ),
        ("add {title}", "add milk please 🙏", Some("title=milk")),
        (
            "add {title}",
            "add milk 🥛 please 🙏",
            Some("title=milk 🥛"),
        ),
        (
            "add {title} [to my list]",
            "add milk 🥛 to 📝 my list 🙏",
            Some("title=milk 🥛"),
        ),
        (
            "rename {a} to {b}",
            "rename tea ☕ to 🍵 tea ❤️",
            Some("a=tea ☕ b=🍵 tea ❤️"),
        ),
        (
            "{title} is done",
            "🎂 cake ✅ is done 🎉",
            Some("title=🎂 cake ✅"),
        ),
        ("turn on the light", "turn 💡 on the light 💡", Some("")),
        ("add {title}", "add thanks", Some("title=thanks")),
        (
            "{title} is done",
            "hi! milk is done, thank you",
            Some("title=milk"),
        ),
        (
            "füge {title} hinzu",
            "Könntest du bitte Füge Milch hinzu, danke",
            Some("title=Milch"),
        ),
        ("could you hear me", "could you hear me", Some("")),
        (
            "add {title}",
            "um so can u go ahead and kindly add milk for me too",
            Some("title=milk"),
        ),
        (
            "add {title}",
            "Hey there, let's add milk as well right now if you can",
            Some("title=milk"),
        ),
        // Words after an article are meant literally, unless a comma separates them.
        (
            "remind me to {title}",
            "remind me to send grandma a thank you",
            Some("title=send grandma a thank you"),
        ),
        (
            "remind me to {title}",
            "remind me to send grandma a thank you, thank you",
            Some("title=send grandma a thank you"),
        ),
        ("find {title}", "find the, please", Some("title=the")),
        ("delete {task}", "delete that please", Some("task=that")),
        // A quotation is kept whole.
        (
            "rename {task} to {title}",
            "rename \"reply to the bank\" to \"reply to the broker\"",
            Some("task=reply to the bank title=reply to the broker"),
        ),
        (
            "rename {task} to {title}",
            "rename “go to town” to 'go to the sea'.",
            Some("task=go to town title=go to the sea"),
        ),
        (
            "delete [the] {task} [task]",
            "delete \"the first task\"",
            Some("task=the first task"),
        ),
        (
            "add {title}",
            "add \"say thank you\"",
            Some("title=say thank you"),
        ),
        (
            "show [my] {when} tasks",
            "show \"my\" old tasks",
            Some("when=old"),
        ),
        (
            "move {a} to {b}",
            "move mum's cake to dad's car to go",
            Some("a=mum's cake b=dad's car to go"),
        ),
        // Scripts without spaces.
        (
            "{title}を追加して",
            "牛乳を買うを追加してください",
            Some("title=牛乳を買う"),
        ),
        ("เพิ่ม{title}", "เพิ่มนม", Some("title=นม")),
        (
            "أضف {title} إلى قائمتي",
            "من فضلك أضف شراء الحليب إلى قائمتي",
            Some("title=شراء الحليب"),
        ),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(
            extracted(pattern, text).as_deref(),
            expected,
            "{pattern:?} on {text:?}"
        );
    }
}

#[test]
fn a_closed_slot_matches_its_words_and_returns_the_value() {
    let mut list = entry("list", &["show [my] {status} tasks", "what is {status}"]);
    list.slots = closed(
        "status",
        &[("open", &["pending", "not done"]), ("done", &["finished"])],
    );
    let decider = build(&[list]);
    for (text, status) in [
        ("show my pending tasks", "open"),
        ("show Not  Done tasks", "open"),
        ("what is open?", "open"),
        ("show finished tasks", "done"),
    ] {
        let expected = format!("status={status}");
        assert_eq!(
            slots_by_pattern(&decider.decide(text)),
            Some(expected),
            "{text}"
        );
    }
    assert_eq!(slots_by_pattern(&decider.decide("show purple tasks")), None);
}

#[test]
fn closed_values_are_found_anywhere_when_no_pattern_matches() {
    let mut light = entry("light", &["turn on the {room} light"]);
    light.examples = vec![
        "make it bright in the kitchen".into(),
        "lights on in the hall".into(),
    ];
    light.slots = closed(
        "room",
        &[
            ("kitchen", &[]),
            ("living_room", &["living room", "lounge"]),
        ],
    );
    let decider = build(&[light]);
    let text = "it is far too dark in the Living Room, not in the kitchen";
    let found = decider.closed_slots("light", text);
    assert_eq!(
        found,
        BTreeMap::from([("room".to_owned(), "living_room".to_owned())])
    );
    assert!(decider.closed_slots("light", "nothing here").is_empty());
    assert!(decider.closed_slots("nobody", text).is_empty());
    let decision = decider.decide("make it bright in the lounge");
    assert_eq!(decision.candidates[0].by, FoundBy::Classifier);
    assert_eq!(decision.candidates[0].slots["room"], "living_room");
}

#[test]
fn the_most_specific_pattern_wins() {
    let decider = build(&[
        entry("create", &["add {title}"]),
        entry("share", &["add {person} to my list"]),
    ]);
    let decision = decider.decide("add Ann to my list");
    assert_eq!(decision.chosen().unwrap().entry, "share");
    assert!(decision.candidates[0].confidence > 0.95);
    assert_eq!(decision.candidates[1].entry, "create");
}

#[test]
fn the_start_of_a_request_decides() {
    let decider = build(&[
        entry("create", &["add {title}"]),
        entry(
            "complete",
            &["{task} (is|are) done", "[the] {task} was finished"],
        ),
    ]);
    let decision = decider.decide("please add check that the alarm is done");
    assert_eq!(decision.chosen().unwrap().entry, "create");
    assert_eq!(
        decision.chosen().unwrap().slots["title"],
        "check that the alarm is done"
    );
    assert_eq!(decision.candidates[1].entry, "complete");
    assert_eq!(
        decider.decide("the adding is done").chosen().unwrap().entry,
        "complete"
    );
}

#[test]
fn alternative_splits_are_ordered_by_likelihood() {
    let decider = build(&[entry(
        "rename",
        &["(rename|change) [the] {task} (to|into) {title} [now]"],
    )]);
    let alternatives = |text: &str| {
        let decision = decider.decide(text);
        let all = decision.candidates[0].alternatives.iter();
        all.map(|slots| format!("{} > {}", slots["task"], slots["title"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(alternatives("rename milk to tea"), [""; 0]);
    assert_eq!(
        alternatives("rename go to the gym to go to the pool"),
        [
            "go to the gym > go to the pool",
            "go to the gym to go > the pool"
        ]
    );
    // An equal split first, then those that assign literal words of the pattern to a slot.
    assert_eq!(
        alternatives("rename the walk to school to walk now"),
        [
            "walk to school > walk",
            "the walk > school to walk",
            "walk > school to walk now",
            "the walk to school > walk",
            "walk to school > walk now",
            "the walk > school to walk now",
            "the walk to school > walk now",
        ]
    );
    let many = format!("rename a{}", " to b".repeat(40));
    assert_eq!(alternatives(&many).len(), MAX_ALTERNATIVES);
    assert_eq!(alternatives(&many), alternatives(&many));
}

#[test]
fn check_and_build_report_the_same_problems() {
    let broken = [entry("one", &["add {title"]), entry("one", &["fine"])];
    assert_eq!(check(&broken, &Options::default()), problems(&broken));
    assert_eq!(check(&[entry("one", &["fine"])], &Options::default()), []);
}

#[test]
fn equally_good_patterns_are_ambiguous_and_both_named() {
    let decider = build(&[
        entry("task", &["add {title}"]),
        entry("note", &["add {text}"]),
    ]);
    let decision = decider.decide("add milk");
    assert_eq!(decision.verdict, Verdict::Ambiguous);
    let named: Vec<&str> = decision
        .plausible()
        .iter()
        .map(|one| one.entry.as_str())
        .collect();
    assert_eq!(named, ["task", "note"]);
    assert!(decision.chosen().is_none());
}

#[test]
fn politeness_can_be_replaced() {
    let options = Options {
        politeness: Vec::new(),
        ..Options::default()
    };
    let decider = LocalDecider::build(&[entry("add", &["add {title}"])], options).unwrap();
    assert_eq!(slots_by_pattern(&decider.decide("please add milk")), None);
    let decision = decider.decide("add milk please");
    assert_eq!(
        slots_by_pattern(&decision).as_deref(),
        Some("title=milk please")
    );
}

#[test]
fn bad_patterns_are_reported_with_position_and_code() {
    let table = [
        ("", "pattern.empty", 1),
        ("?!", "pattern.empty", 1),
        ("add [the {title}", "pattern.unclosed", 5),
        ("add (a|b", "pattern.unclosed", 5),
        ("add {title", "pattern.unclosed", 5),
        ("add milk]", "pattern.unexpected", 9),
        ("add (milk]", "pattern.unexpected", 10),
        ("add | create", "pattern.unexpected", 5),
        ("add (milk|)", "pattern.alternative_empty", 5),
        ("add []", "pattern.alternative_empty", 5),
        ("add {Title}", "pattern.slot_name", 5),
        ("add {}", "pattern.slot_name", 5),
        ("add task[s]", "pattern.inside_word", 9),
        ("add {title}s", "pattern.inside_word", 11),
        ("add {a} {b}", "pattern.slots_adjacent", 9),
        ("add {a} [to] {b}", "pattern.slots_adjacent", 14),
        ("add {a} and {a}", "pattern.slot_twice", 13),
        ("{title}", "pattern.no_literal", 1),
        ("[add] {title}", "pattern.no_literal", 1),
        ("add\\", "pattern.escape", 4),
    ];
    for (pattern, code, column) in table {
        let found = problems(&[entry("broken", &["fine one", pattern])]);
        assert_eq!(found.len(), 1, "{pattern:?}: {found:?}");
        assert_eq!(
            (found[0].code, found[0].column),
            (code, Some(column)),
            "{pattern:?}"
        );
        assert_eq!(found[0].entry, "broken");
        assert_eq!(found[0].pattern.as_deref(), Some(pattern));
    }
    let deep = format!("add {}x{}", "[".repeat(40), "]".repeat(40));
    assert_eq!(
        problems(&[entry("broken", &[&deep])])[0].code,
        "pattern.too_deep"
    );
    let long = "word ".repeat(400);
    assert_eq!(
        problems(&[entry("broken", &[&long])])[0].code,
        "pattern.too_long"
    );
}

#[test]
fn all_problems_of_a_catalogue_are_reported_at_once() {
    let mut twice = entry("twice", &["add {title"]);
    twice.slots = closed("colour", &[("red", &["rosy", "!"]), ("pink", &["rosy"])]);
    let found = problems(&[
        twice,
        entry("twice", &["x]"]),
        Entry {
            name: "empty".into(),
            ..Entry::default()
        },
    ]);
    let codes: Vec<&str> = found.iter().map(|problem| problem.code).collect();
    for code in [
        "entry.name_twice",
        "entry.nothing_to_learn",
        "slot.word_twice",
        "slot.word_empty",
        "pattern.unclosed",
        "pattern.unexpected",
    ] {
        assert!(codes.contains(&code), "{code} is missing in {codes:?}");
    }
    assert_eq!(problems(&[])[0].code, "catalogue.empty");
    let text = found
        .iter()
        .find(|problem| problem.code == "pattern.unclosed")
        .unwrap()
        .to_string();
    assert_eq!(
        text,
        "twice: `add {title` column 5: this slot is never closed; add `}` [pattern.unclosed]"
    );
    let options = Options {
        threshold: 1.5,
        ..Options::default()
    };
    let refused = LocalDecider::build(&[entry("a", &["b"])], options).unwrap_err();
    assert_eq!(refused[0].code, "options.range");
}

#[test]
fn a_thousand_patterns_are_distinguished() {
    let entries: Vec<Entry> = (0..1_000)
        .map(|number| {
            entry(
                &format!("entry_{number}"),
                &[&format!(
                    "[please] (add|create) {{title}} [now] to list number {number}"
                )],
            )
        })
        .collect();
    let decider = build(&entries);
    let decision = decider.decide("create fresh milk to list number 734");
    assert_eq!(decision.chosen().unwrap().entry, "entry_734");
    assert_eq!(decision.chosen().unwrap().slots["title"], "fresh milk");
}
