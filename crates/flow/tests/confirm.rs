//! Skills that ask before they act: the user by `confirm`, a person by the tool's `approval`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use convoke_engine::TaskOutcome;
use convoke_model::TaskState;
use convoke_store::Viewer;
use convoke_testkit::Reply;
use office::{Office, Setting};
use serde_json::{Value, json};

fn skill(name: &str, sentence: &str, tool: &str, confirm: &Value) -> Value {
    let mut action = json!({
        "tool": format!("desk.{tool}"), "arguments": { "door": "{{ door }}" }, "reply": "{{ door }} is done.",
    });
    if !confirm.is_null() {
        action["confirm"] = confirm.clone();
    }
    json!({
        "name": name, "description": format!("does {name}"), "sentences": [sentence],
        "slots": { "door": {} }, "action": action,
    })
}

async fn office() -> Office {
    let confirm = json!("Really open the {{ door }}?");
    let setting = Setting {
        agent: json!({ "tools": ["desk.open", "desk.ring", "desk.sign"], "skills": [
            skill("unlock", "open the {door}", "open", &confirm),
            skill("ring", "ring the {door}", "ring", &Value::Null),
            skill("sign", "sign the {door}", "sign", &Value::Null),
            skill("sign_sure", "really sign the {door}", "sign", &json!("Sure?")),
        ] }),
        decide: json!({ "several": "eager" }),
        ..Setting::default()
    };
    Office::set_up(setting, Reply::text("The model was asked.")).await
}

async fn say(office: &Office, conversation: u128, text: &str) -> TaskOutcome {
    let task = office
        .submit_for(7, Some(conversation), text)
        .await
        .unwrap();
    office.engine.wait(&Viewer::System, task).await.unwrap()
}

fn text(ended: &TaskOutcome) -> &str {
    &ended.answer.as_ref().unwrap().text
}

#[tokio::test]
async fn only_a_plain_yes_does_what_was_asked_about() {
    let office = office().await;
    for (number, yes) in ["yes", "Yes, please do.", "go ahead", "OK!"]
        .into_iter()
        .enumerate()
    {
        let conversation = 100 + number as u128;
        let asked = say(&office, conversation, "open the gate").await;
        assert_eq!(text(&asked), "Really open the gate?");
        assert_eq!(office.calls().len(), number);
        assert_eq!(
            text(&say(&office, conversation, yes).await),
            "gate is done.",
            "{yes}"
        );
    }
    let made = office.calls().len();
    for (number, other) in ["no", "sure, wait, no", "hmm", "yesterday", "never mind"]
        .into_iter()
        .enumerate()
    {
        let conversation = 200 + number as u128;
        say(&office, conversation, "open the gate").await;
        let ended = say(&office, conversation, other).await;
        assert_eq!(
            ended.answer.unwrap().metadata["intent"],
            "dismissed",
            "{other}"
        );
    }
    assert_eq!(office.calls().len(), made, "nothing else opened anything");
}

#[tokio::test]
async fn another_request_is_no_answer_and_a_yes_to_nothing_is_none() {
    let office = office().await;
    say(&office, 1, "open the gate").await;
    let other = say(&office, 1, "open the barn").await;
    assert_eq!(text(&other), "Really open the barn?");
    assert_eq!(text(&say(&office, 1, "yes").await), "barn is done.");
    assert_eq!(
        office.calls(),
        [("open".to_owned(), json!({ "door": "barn" }))]
    );
    let again = say(&office, 1, "yes").await;
    assert_eq!(office.calls().len(), 1, "{}", text(&again));
    // Whoever else says yes elsewhere has been asked nothing.
    say(&office, 2, "open the gate").await;
    let stranger = office.submit_for(8, Some(3), "yes").await.unwrap();
    office.engine.wait(&Viewer::System, stranger).await.unwrap();
    assert_eq!(office.calls().len(), 1);
}

#[tokio::test]
async fn a_skills_tool_waits_for_its_approval() {
    let office = office().await;
    let waiting = office.ask("sign the lease").await;
    assert_eq!(waiting.status, TaskState::InputRequired);
    assert_eq!(
        waiting.questions[0].prompt,
        "May I call desk.sign with door “lease”?"
    );
    assert!(office.calls().is_empty());
    let ended = office
        .answer(&waiting, json!({ "action": "approve" }))
        .await;
    assert_eq!(text(&ended), "lease is done.");
    // A yes to the skill's own question is that leave.
    say(&office, 5, "really sign the deed").await;
    assert_eq!(text(&say(&office, 5, "yes").await), "deed is done.");
}

#[tokio::test]
async fn a_part_of_a_message_asks_and_is_answered_like_a_whole_one() {
    let office = office().await;
    let asked = say(&office, 1, "ring the bell and open the gate").await;
    assert_eq!(text(&asked), "bell is done. Really open the gate?");
    assert_eq!(office.calls().len(), 1);
    assert_eq!(text(&say(&office, 1, "yes").await), "gate is done.");
    say(&office, 2, "open the gate and ring the bell").await;
    let left = say(&office, 2, "no").await;
    assert_eq!(left.answer.unwrap().metadata["intent"], "dismissed");
    assert_eq!(office.calls().len(), 3, "two bells and one gate");
}
