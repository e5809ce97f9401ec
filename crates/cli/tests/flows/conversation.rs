//! A workflow that routes and dispatches keeps the conversation: lists, open questions and follow-ups.

use serde_json::{Value, json};

use crate::shop::{Shop, listing, routed, skill};

fn shop(confirm: Option<&str>, answer: Option<&str>) -> Shop {
    Shop::new(&listing(confirm), &[routed(answer)], &json!({}))
}

fn said(ended: &Value) -> &str {
    ended["answer"]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{ended}"))
}

#[test]
fn the_second_one_counts_in_the_list_that_a_part_has_shown() {
    let shop = shop(None, None);
    shop.say("list people");
    let listed = shop.go_on("list orders");
    assert_eq!(said(&listed), "1. boots. 2. a hat. 3. Ann.", "{listed}");
    assert_eq!(listed["answer"]["metadata"]["workflow"], "main", "{listed}");
    assert_eq!(
        listed["answer"]["metadata"]["routing"]["targets"][0]["name"],
        "orders"
    );
    let ended = shop.go_on("cancel the second one");
    assert_eq!(said(&ended), "Cancelled a hat.", "{ended}");
    assert_eq!(shop.changes(), [json!(["cancel", 2])]);
    assert_eq!(
        ended["answer"]["tool_calls"][1]["tool"], "cancel_order",
        "{ended}"
    );
}

#[test]
fn the_second_one_of_another_list_is_asked_about() {
    let shop = shop(None, None);
    shop.say("list orders");
    shop.go_on("list people");
    let asked = shop.go_on("cancel the second one");
    assert_eq!(said(&asked), "Which order?", "{asked}");
    assert!(shop.changes().is_empty());
    let ended = shop.go_on("a hat");
    assert_eq!(said(&ended), "Cancelled a hat.", "{ended}");
}

#[test]
fn a_list_that_the_answer_does_not_tell_is_no_list_that_the_user_saw() {
    let shop = shop(
        None,
        Some("{{ all.text if 'boots' in all.text else 'Done.' }}"),
    );
    shop.say("list orders");
    let hidden = shop.go_on("list people");
    assert_eq!(said(&hidden), "Done.", "{hidden}");
    let asked = shop.go_on("cancel the second one");
    assert_eq!(said(&asked), "Done.", "{asked}");
    assert!(shop.changes().is_empty(), "the older list is out of date");
    let shop = self::shop(None, Some("Here you are: {{ all.text }}"));
    shop.say("list people");
    shop.go_on("list orders");
    let ended = shop.go_on("cancel the second one");
    assert_eq!(said(&ended), "Here you are: Cancelled a hat.", "{ended}");
}

#[test]
fn an_answer_to_a_question_goes_to_who_asked() {
    let shop = shop(None, None);
    let asked = shop.say("cancel");
    assert_eq!(said(&asked), "Which order?", "{asked}");
    let ended = shop.go_on("boots");
    assert_eq!(said(&ended), "Cancelled boots.", "{ended}");
    assert_eq!(shop.changes(), [json!(["cancel", 1])]);
}

#[test]
fn a_confirmation_goes_to_who_asked_for_it() {
    let shop = shop(Some("Cancel {{ order.what }}?"), None);
    let asked = shop.say("cancel boots");
    assert_eq!(said(&asked), "Cancel boots?", "{asked}");
    assert!(shop.changes().is_empty());
    let ended = shop.go_on("yes");
    assert_eq!(said(&ended), "Cancelled boots.", "{ended}");
    shop.say("cancel a hat");
    let ended = shop.go_on("no");
    assert_eq!(
        ended["answer"]["metadata"]["intent"], "dismissed",
        "{ended}"
    );
    assert_ne!(said(&ended), "I cannot help with that.");
    assert_eq!(shop.changes(), [json!(["cancel", 1])]);
}

#[test]
fn an_edge_may_be_for_what_the_user_declines() {
    let mut workflow = routed(None);
    workflow["nodes"]["kept"] = json!({ "type": "compose", "prompt": "I leave it." });
    workflow["edges"][0]["to"]["dismissed"] = json!("kept");
    let shop = Shop::new(&listing(Some("Cancel it?")), &[workflow], &json!({}));
    shop.say("cancel boots");
    let ended = shop.go_on("no");
    assert_eq!(said(&ended), "I leave it.", "{ended}");
    assert!(shop.changes().is_empty());
}

#[test]
fn what_is_chosen_after_a_clarifying_question_is_done_with_the_first_words() {
    let note = |name: &str, text: &str| {
        let mut noting = skill(
            name,
            "write {what} down",
            &json!({ "what": {} }),
            &json!({ "tool": "shop.add_note", "arguments": { "text": text }, "reply": "Noted {{ result.text }}." }),
        );
        noting["description"] = json!(format!("A {name}."));
        noting
    };
    let skills = [
        note("memo", "memo {{ what }}"),
        note("label", "label {{ what }}"),
    ];
    let shop = Shop::new(&skills, &[routed(None)], &json!({}));
    let asked = shop.say("write milk down");
    assert!(said(&asked).starts_with("Which do you mean?"), "{asked}");
    assert_eq!(
        asked["answer"]["metadata"]["intent"], "clarification_needed",
        "{asked}"
    );
    let ended = shop.go_on("a label");
    assert_eq!(said(&ended), "Noted label milk.", "{ended}");
    assert_eq!(shop.changes(), [json!(["note", "label milk"])]);
}

#[test]
fn a_workflow_that_a_workflow_runs_keeps_the_conversation_too() {
    let mut inner = routed(None);
    inner["name"] = json!("inner");
    let outer = json!({
        "name": "main", "entry_point": "inside",
        "nodes": {
            "ahead": { "type": "route" },
            "inside": { "type": "workflow", "workflow": "inner" },
            "told": { "type": "compose", "prompt": "{{ (inside.all or inside.sorry or inside.ask).text }}" },
        },
        "edges": [{ "from": "inside", "to": "ahead" }, { "from": "ahead", "to": { "otherwise": "told" } }],
    });
    let shop = Shop::new(&listing(None), &[inner, outer], &json!({}));
    shop.say("list people");
    let listed = shop.go_on("list orders");
    assert_eq!(said(&listed), "1. boots. 2. a hat. 3. Ann.", "{listed}");
    let ended = shop.go_on("cancel the second one");
    assert_eq!(said(&ended), "Cancelled a hat.", "{ended}");
    assert_eq!(shop.changes(), [json!(["cancel", 2])]);
}

#[test]
fn it_is_what_was_spoken_of_last_in_whatever_words_the_workflow_answers() {
    let painting = |name: &str, sentence: &str| {
        let note = format!("{name} {{{{ room }}}}");
        skill(
            name,
            sentence,
            &json!({ "room": { "ask": "Which room?" } }),
            &json!({ "tool": "shop.add_note", "arguments": { "text": note }, "reply": "{{ result.text }}." }),
        )
    };
    let skills = [
        painting("paint", "paint the {room}"),
        painting("dim", "dim (it|the {room})"),
    ];
    for answer in [None, Some("Done.")] {
        let shop = Shop::new(&skills, &[routed(answer)], &json!({}));
        shop.say("paint the kitchen");
        shop.go_on("paint the cellar");
        shop.go_on("dim it");
        assert_eq!(
            shop.changes()[2],
            json!(["note", "dim cellar"]),
            "{answer:?}"
        );
    }
}
