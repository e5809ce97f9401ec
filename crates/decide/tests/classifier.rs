//! The classifier with few examples: several languages, refusals, and ambiguity.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use convoke_decide::{Classifiers, Entry, LocalDecider, Options, Verdict};

fn entry(name: &str, description: &str, examples: &[&str]) -> Entry {
    Entry {
        name: name.to_owned(),
        description: description.to_owned(),
        examples: examples.iter().map(|&example| example.to_owned()).collect(),
        ..Entry::default()
    }
}

/// A to-do list as a first draft, with a dozen examples per entry.
fn todo() -> Vec<Entry> {
    vec![
        entry(
            "create_task",
            "Adds a task to the user's list",
            &[
                "add a task to buy milk",
                "remind me to call mum",
                "I need to pay the rent",
                "create a new task: water the plants",
                "put walk the dog on my list",
                "new todo finish the report",
                "don't let me forget the dentist",
                "add eggs and bread to my tasks",
                "I have to renew my passport",
                "make a note to book flights",
                "schedule a task for the weekly review",
                "remember to send the invoice",
            ],
        ),
        entry(
            "list_tasks",
            "Shows the user's tasks",
            &[
                "show my tasks",
                "what's on my list",
                "list all my todos",
                "what do I have to do today",
                "which tasks are open",
                "show me everything that is pending",
                "what is left to do",
                "give me my to-do list",
                "do I have any tasks",
                "display completed tasks",
                "what are my tasks for this week",
                "let me see my list",
            ],
        ),
        entry(
            "complete_task",
            "Marks a task as done",
            &[
                "mark buy milk as done",
                "I finished the report",
                "complete the first task",
                "check off call mum",
                "the rent is paid, tick it off",
                "done with the dishes",
                "I've already watered the plants",
                "set task two to completed",
                "mark the second one as finished",
                "I did the laundry",
                "task 3 is complete",
                "tick off walk the dog",
            ],
        ),
        entry(
            "delete_task",
            "Removes a task from the list",
            &[
                "delete the task buy milk",
                "remove call mum from my list",
                "get rid of the last task",
                "erase the dentist task",
                "drop the second one",
                "delete everything about the report",
                "take eggs off my list",
                "cancel the task about flights",
                "remove it",
                "throw away that todo",
                "clear the passport task",
                "delete task number four",
            ],
        ),
        entry(
            "update_task",
            "Changes a task",
            &[
                "rename buy milk to buy oat milk",
                "change the title of the first task",
                "update the report task to say finish slides",
                "edit task two",
                "change call mum to call dad",
                "modify the dentist task",
                "make the second task say pay taxes",
                "correct the spelling in my last task",
                "update the description of the rent task",
                "rename the third one",
                "change it to tomorrow",
                "alter the flights task",
            ],
        ),
    ]
}

fn build(entries: &[Entry]) -> LocalDecider {
    LocalDecider::build(entries, Options::default()).unwrap()
}

#[test]
fn a_small_catalogue_generalises_beyond_its_examples() {
    let decider = build(&todo());
    let table = [
        ("please add a task to wash the car", "create_task"),
        ("remind me to buy new shoes", "create_task"),
        ("I need to visit grandma", "create_task"),
        ("can you show me my tasks?", "list_tasks"),
        ("what's still on my todo list?", "list_tasks"),
        ("mark wash the car as done", "complete_task"),
        ("I finished the homework", "complete_task"),
        ("delete the task about the car", "delete_task"),
        ("remove homework from my list", "delete_task"),
        ("rename the car task to wash the bike", "update_task"),
        ("change the title of task five", "update_task"),
    ];
    for (text, expected) in table {
        let decision = decider.decide(text);
        assert_eq!(
            decision.candidates[0].entry, expected,
            "{text}: {decision:?}"
        );
        assert_ne!(decision.verdict, Verdict::Unknown, "{text}: {decision:?}");
    }
    let chosen = table
        .iter()
        .filter(|(text, _)| decider.decide(text).chosen().is_some())
        .count();
    assert!(chosen >= 9, "only {chosen} of {} are sure", table.len());
}

#[test]
fn uncovered_texts_are_refused_without_out_of_scope_examples() {
    let decider = build(&todo());
    for text in [
        "asdf qwer zxcv",
        "xqzt",
        "🙂🙂🙂",
        "12345 67890",
        "who won the football game yesterday evening",
        "how tall is mount everest",
        "wie wird das wetter morgen in berlin",
        "今日の天気は",
        "",
        "   \n",
        "?!?!",
    ] {
        let decision = decider.decide(text);
        assert_eq!(decision.verdict, Verdict::Unknown, "{text:?}: {decision:?}");
    }
}

#[test]
fn out_of_scope_examples_train_refusals() {
    let weather = "what is on my screen right now";
    let options = Options {
        out_of_scope: [
            "what is on television",
            "what is on my screen",
            "what is on the radio now",
            "which film is on tonight",
            "what is on my phone right now",
        ]
        .map(str::to_owned)
        .to_vec(),
        ..Options::default()
    };
    let before = build(&todo()).decide(weather);
    let after = LocalDecider::build(&todo(), options)
        .unwrap()
        .decide(weather);
    assert!(after.candidates[0].confidence < before.candidates[0].confidence);
    assert_eq!(after.verdict, Verdict::Unknown);
}

#[test]
fn a_text_between_two_entries_is_ambiguous_and_names_both() {
    let decider = build(&[
        entry(
            "light",
            "",
            &[
                "turn on the light",
                "switch the light on",
                "light on please",
                "turn the light off",
                "dim the light",
                "make the light brighter",
            ],
        ),
        entry(
            "heating",
            "",
            &[
                "turn on the heating",
                "switch the heating on",
                "heating on please",
                "turn the heating off",
                "set the heating to 20 degrees",
                "make the heating warmer",
            ],
        ),
    ]);
    for text in ["switch on please", "turn off", "turn on"] {
        let decision = decider.decide(text);
        assert_eq!(decision.verdict, Verdict::Ambiguous, "{text}: {decision:?}");
        let plausible = decision.plausible().iter();
        let mut named: Vec<&str> = plausible.map(|one| one.entry.as_str()).collect();
        named.sort_unstable();
        assert_eq!(named, ["heating", "light"], "{text}: {decision:?}");
    }
}

#[test]
fn a_single_entry_does_not_accept_everything() {
    let decider = build(&todo()[..1]);
    assert_eq!(
        decider.decide("remind me to call dad").verdict,
        Verdict::Chosen
    );
    assert_eq!(
        decider.decide("what colour has the sky").verdict,
        Verdict::Unknown
    );
}

#[test]
fn sentences_and_descriptions_alone_train_the_classifier() {
    let mut weather = entry("weather", "Tells the weather forecast for a place", &[]);
    weather.sentences = vec!["(what is|how is) the weather [like] [in {place}]".to_owned()];
    let mut music = entry("music", "Plays songs and music", &[]);
    music.sentences = vec!["play [the] (song|album) {title}".to_owned()];
    let decider = build(&[weather, music]);
    assert_eq!(
        decider.decide("tell me how the weather is").candidates[0].entry,
        "weather"
    );
    assert_eq!(
        decider.decide("some music please, play songs").candidates[0].entry,
        "music"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a single table")]
fn every_language_is_learned_from_its_examples() {
    let languages = [
        (
            [
                [
                    "füge milch zu meiner liste hinzu",
                    "neue aufgabe wäsche waschen",
                    "erinnere mich an den zahnarzt",
                    "ich muss die miete zahlen",
                    "setz brot auf die liste",
                ],
                [
                    "zeig mir meine aufgaben",
                    "was steht auf meiner liste",
                    "welche aufgaben sind offen",
                    "liste alle aufgaben auf",
                    "was muss ich heute tun",
                ],
                [
                    "lösche die aufgabe milch",
                    "entferne den zahnarzt von der liste",
                    "weg mit der letzten aufgabe",
                    "streiche das brot",
                    "lösch alles über die miete",
                ],
            ],
            [
                "erinnere mich an den termin",
                "zeige mir alle offenen aufgaben",
                "lösche die aufgabe mit dem termin",
            ],
        ),
        (
            [
                [
                    "πρόσθεσε γάλα στη λίστα μου",
                    "νέα εργασία πλύνε τα ρούχα",
                    "θύμισέ μου τον οδοντίατρο",
                    "πρέπει να πληρώσω το νοίκι",
                    "βάλε ψωμί στη λίστα",
                ],
                [
                    "δείξε μου τις εργασίες μου",
                    "τι έχω στη λίστα μου",
                    "ποιες εργασίες είναι ανοιχτές",
                    "δείξε όλες τις εργασίες",
                    "τι έχω να κάνω σήμερα",
                ],
                [
                    "διάγραψε την εργασία γάλα",
                    "αφαίρεσε τον οδοντίατρο από τη λίστα",
                    "σβήσε την τελευταία εργασία",
                    "διάγραψε το ψωμί",
                    "σβήσε το νοίκι",
                ],
            ],
            [
                "θύμισέ μου το ραντεβού",
                "δείξε μου όλες τις ανοιχτές εργασίες",
                "διάγραψε την εργασία με το ραντεβού",
            ],
        ),
        (
            [
                [
                    "牛乳を買うを追加して",
                    "新しいタスクを作って",
                    "歯医者をリマインドして",
                    "家賃を払うことを覚えておいて",
                    "リストにパンを追加",
                ],
                [
                    "タスクを見せて",
                    "リストに何がある",
                    "未完了のタスクはどれ",
                    "全部のタスクを表示して",
                    "今日の予定を教えて",
                ],
                [
                    "牛乳のタスクを削除して",
                    "歯医者をリストから消して",
                    "最後のタスクを消去",
                    "パンを削除",
                    "家賃のタスクを消して",
                ],
            ],
            [
                "会議を追加して",
                "全部のタスクを見せて",
                "会議のタスクを削除して",
            ],
        ),
        (
            [
                [
                    "أضف الحليب إلى قائمتي",
                    "مهمة جديدة غسل الملابس",
                    "ذكرني بموعد الطبيب",
                    "يجب أن أدفع الإيجار",
                    "ضع الخبز في القائمة",
                ],
                [
                    "اعرض مهامي",
                    "ماذا يوجد في قائمتي",
                    "ما هي المهام المفتوحة",
                    "أظهر كل المهام",
                    "ماذا علي أن أفعل اليوم",
                ],
                [
                    "احذف مهمة الحليب",
                    "أزل الطبيب من القائمة",
                    "امسح آخر مهمة",
                    "احذف الخبز",
                    "امسح مهمة الإيجار",
                ],
            ],
            ["ذكرني بموعد الاجتماع", "اعرض كل المهام", "احذف مهمة الاجتماع"],
        ),
    ];
    for (examples, texts) in languages {
        let names = ["create", "list", "delete"];
        let entries: Vec<Entry> = names
            .iter()
            .zip(&examples)
            .map(|(name, list)| entry(name, "", list))
            .collect();
        let decider = build(&entries);
        for (name, text) in names.iter().zip(texts) {
            let decision = decider.decide(text);
            assert_eq!(decision.candidates[0].entry, *name, "{text}: {decision:?}");
            assert_ne!(decision.verdict, Verdict::Unknown, "{text}: {decision:?}");
        }
    }
}

#[test]
fn the_classifier_is_trained_by_the_first_text_that_no_pattern_matches() {
    let mut entries = todo();
    entries[0].sentences = vec!["add {title}".to_owned()];
    let decider = build(&entries);
    assert_eq!(decider.decide("add milk").verdict, Verdict::Chosen);
    assert_eq!(decider.decide("").verdict, Verdict::Unknown);
    assert!(decider.closed_slots("create_task", "no slots").is_empty());
    assert!(!decider.is_trained());
    decider.decide("show me what I still have to do");
    assert!(decider.is_trained());
}

#[test]
fn deciders_over_the_same_catalogue_share_training() {
    let classifiers = Classifiers::default();
    let build = |entries: &[Entry]| {
        LocalDecider::build_sharing(entries, Options::default(), &classifiers).unwrap()
    };
    let mut other = todo();
    other[0].examples.push("one more".into());
    let (first, same, other) = (build(&todo()), build(&todo()), build(&other));
    first.train();
    assert!(same.is_trained());
    assert!(!other.is_trained());
    let text = "show me what I still have to do";
    assert_eq!(same.decide(text), first.decide(text));
}

#[test]
fn concurrent_training_happens_once_and_is_deterministic() {
    let (decider, trained) = (build(&todo()), build(&todo()));
    trained.train();
    assert!(trained.is_trained());
    let text = "show me what I still have to do";
    let expected = trained.decide(text);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| decider.decide(text)))
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}

#[test]
fn the_same_catalogue_always_gives_the_same_confidences() {
    let (one, other) = (build(&todo()), build(&todo()));
    for text in [
        "add milk",
        "show everything",
        "finish it",
        "qwertz",
        "change my first task",
    ] {
        assert_eq!(one.decide(text), other.decide(text), "{text}");
    }
}

#[test]
fn confidences_are_probabilities_best_first() {
    let decider = build(&todo());
    for text in ["add milk", "task", "my list", "drop the mic"] {
        let decision = decider.decide(text);
        let all: Vec<f64> = decision
            .candidates
            .iter()
            .map(|one| one.confidence)
            .collect();
        assert!(all.is_sorted_by(|left, right| left >= right), "{all:?}");
        assert!(all.iter().sum::<f64>() <= 1.0 + 1e-9 && all.iter().all(|&one| one >= 0.0));
    }
}
