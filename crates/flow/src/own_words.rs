//! What a free slot holds is a part of the user's message, also where one message has several requests.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use convoke_app::{App, Several};
use convoke_decide::Classifiers;
use proptest::prelude::*;

use crate::catalogue::Catalogue;
use crate::inquiry::DomainSelector;
use crate::interpret::{Meaning, MessageReader, interpret};
use crate::memory::{Memory, RequestTarget, SkillRef};

static CATALOGUES: LazyLock<Vec<Catalogue>> = LazyLock::new(|| {
    let catalogue = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
        let app = App::load(&folder.join(name), &|_| Some("set".to_owned())).unwrap();
        Catalogue::of(&Arc::new(app.app), &Classifiers::default()).unwrap()
    };
    vec![catalogue("todo"), catalogue("home")]
});

/// The texts in the free slots of a skill.
fn free<'a>(
    skills: &Catalogue,
    target: &SkillRef,
    slots: impl Iterator<Item = (&'a String, &'a str)>,
) -> Vec<String> {
    let Some(skill) = skills.skill(target) else {
        return Vec::new();
    };
    let is_free = |name: &str| {
        let slot = skill.slots.iter().find(|(slot, _)| slot.matches(name));
        slot.is_none_or(|(_, slot)| slot.values.is_empty())
    };
    let free = slots.filter(|(name, _)| is_free(name));
    free.map(|(_, text)| text.to_owned()).collect()
}

/// The texts that the free slots of a message's requests hold.
fn captured(skills: &Catalogue, text: &str, several: Several) -> Vec<String> {
    let reader = MessageReader {
        several,
        selector: DomainSelector {
            threshold: 0.7,
            max_domains: 5,
        },
    };
    match interpret(skills, text, &Memory::default(), reader) {
        Meaning::Act(act) => {
            let all = [&act.slots].into_iter().chain(&act.alternatives);
            let texts = all.flat_map(|slots| {
                let slots = slots.iter();
                let texts = slots.filter_map(|(slot, value)| Some((slot, value.as_str()?)));
                free(skills, &act.target, texts)
            });
            texts.collect()
        }
        Meaning::Several { parts } => {
            let texts = parts.iter().flat_map(|part| match &part.target {
                RequestTarget::Skill(target) => {
                    let slots = part.slots.iter().map(|(slot, text)| (slot, text.as_str()));
                    free(skills, target, slots)
                }
                _ => Vec::new(),
            });
            texts.collect()
        }
        _ => Vec::new(),
    }
}

fn holds(text: &str) {
    for skills in &*CATALOGUES {
        for several in [Several::Careful, Several::Eager] {
            for value in captured(skills, text, several) {
                assert!(
                    text.contains(&value),
                    "{value:?} is not in {text:?} ({several:?})"
                );
            }
        }
    }
}

#[test]
fn parts_hold_the_words_of_the_message() {
    for text in [
        "add milk 🥛 and eggs 🥚",
        "remind me to buy milk and call mum",
        "add milk and bread and delete tea",
        "turn on the kitchen lights and play “Salt & Pepper”",
        "play jazz 🎷 and turn off the lights in the hallway",
        "delete the dentist and the bank",
    ] {
        holds(text);
    }
}

proptest! {
    #[test]
    fn requests_of_any_words_hold_the_words_of_the_message(
        words in prop::collection::vec(
            prop_oneof![
                Just("add"), Just("remind me to"), Just("delete"), Just("rename"), Just("to"), Just("buy"),
                Just("milk"), Just("the"), Just("second one"), Just("turn on"), Just("play"), Just("jazz"),
                Just("lights"), Just("kitchen"), Just("and"), Just("and then"), Just("please"), Just("tomorrow"),
                Just("as done"), Just("mark"), Just("🎂"), Just("❤️"), Just("Zoë’s"), Just("C++"), Just("5 %"),
                Just("“tea"), Just("time”"), Just("cafe\u{301}"), Just("WHAT?!"), Just("–"), Just("牛乳"),
            ],
            1..14,
        ),
        joint in prop_oneof![Just(" "), Just(", "), Just("  ")],
    ) {
        holds(words.join(joint).trim());
    }
}
