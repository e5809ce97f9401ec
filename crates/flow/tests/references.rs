//! "It" and "the second one": which thing an app acts on, where its tools list several kinds of things.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use convoke_engine::TaskOutcome;
use convoke_store::Viewer;
use convoke_testkit::Reply;
use office::{Office, Setting};
use serde_json::{Value, json};

/// A shop in which people and orders are numbered from 1. `find` and `list` show people and orders; `cancel` refers to
/// orders. `shows` are the shown items of `list`.
async fn shop(person_kind: &Value, order_kind: &Value, shows: Value) -> Office {
    let person = json!({ "id": "id", "label": "name", "kind": person_kind });
    let skill = |name: &str, sentence: &str, slots: Value, action: Value| {
        json!({ "name": name, "description": format!("does {name}"), "sentences": [sentence], "slots": slots,
            "action": action })
    };
    let orders = json!({ "order": { "ask": "Which order?", "refers_to": {
        "tool": "desk.get_orders", "items": "orders", "id": "id", "label": "what", "kind": order_kind, "nouns": ["order"],
        "none": "There is no order {{ words }}.", "many": "Which order?" } } });
    let skills = [
        skill(
            "find",
            "find {who}",
            json!({ "who": {} }),
            json!({ "tool": "desk.get_person",
            "arguments": { "who": "{{ who }}" }, "reply": "{{ result.name }} is here.", "shows": person }),
        ),
        skill(
            "list",
            "list orders",
            json!({}),
            json!({ "tool": "desk.get_orders",
            "reply": "{% for order in result.orders %}{{ order.what }} {% endfor %}", "shows": shows }),
        ),
        skill(
            "cancel",
            "cancel {order}",
            orders,
            json!({ "tool": "desk.cancel",
            "arguments": { "id": "{{ order.id }}" }, "reply": "Cancelled {{ order.what }}." }),
        ),
    ];
    let setting = Setting {
        agent: json!({ "tools": ["desk.get_person", "desk.get_orders", "desk.cancel"], "skills": skills }),
        ..Setting::default()
    };
    let office = Office::set_up(setting, Reply::text("The model was asked.")).await;
    office.tool("get_person", |arguments| {
        Ok(json!({ "id": 2, "name": arguments["who"] }))
    });
    office.tool("get_orders", |_| {
        let order = |id: u32, what: &str| json!({ "id": id, "what": what });
        Ok(json!({ "orders": [order(1, "boots"), order(2, "a hat"), order(3, "Ann")] }))
    });
    office.tool("cancel", |arguments| Ok(arguments.clone()));
    office
}

fn orders() -> Value {
    json!({ "items": "orders", "id": "id", "label": "what" })
}

async fn say(office: &Office, text: &str) -> TaskOutcome {
    let task = office.submit_for(7, Some(1), text).await.unwrap();
    office.engine.wait(&Viewer::System, task).await.unwrap()
}

fn text(ended: &TaskOutcome) -> &str {
    &ended.answer.as_ref().unwrap().text
}

fn cancelled(office: &Office) -> Vec<Value> {
    let calls = office.calls().into_iter();
    let cancelled = calls.filter(|(tool, _)| tool == "cancel");
    cancelled
        .map(|(_, arguments)| arguments["id"].clone())
        .collect()
}

#[tokio::test]
async fn it_never_is_a_thing_of_another_kind_with_the_same_id() {
    for (person, order) in [
        (Value::Null, Value::Null),
        (json!("person"), json!("order")),
    ] {
        let office = shop(&person, &order, orders()).await;
        say(&office, "find Bob").await;
        assert_eq!(text(&say(&office, "cancel it").await), "Which order?");
        assert_eq!(cancelled(&office), [json!(null); 0]);
        // What has the same name may be meant.
        say(&office, "find Ann").await;
        assert_eq!(text(&say(&office, "cancel it").await), "Cancelled Ann.");
        assert_eq!(cancelled(&office), [3]);
    }
}

#[tokio::test]
async fn ids_count_within_one_kind() {
    let office = shop(&json!("thing"), &json!("thing"), orders()).await;
    say(&office, "find Bob").await;
    assert_eq!(text(&say(&office, "cancel it").await), "Cancelled a hat.");
}

#[tokio::test]
async fn a_position_counts_in_the_list_that_was_shown_until_another_is() {
    let office = shop(&Value::Null, &Value::Null, orders()).await;
    assert_eq!(
        text(&say(&office, "cancel the second one").await),
        "Which order?"
    );
    assert_eq!(
        text(&say(&office, "the first one").await),
        "Cancelled boots."
    );
    say(&office, "list orders").await;
    say(&office, "find Bob").await;
    assert_eq!(
        text(&say(&office, "cancel the second one").await),
        "Cancelled a hat."
    );
    assert_eq!(cancelled(&office), [1, 2]);
}

#[tokio::test]
async fn items_that_cannot_be_read_are_told_and_referred_to_by_nothing() {
    for (wrong, cause) in [
        (
            json!({ "items": "odrers", "id": "id", "label": "what" }),
            "the result has no list `odrers`",
        ),
        (
            json!({ "items": "orders", "id": "di", "label": "what" }),
            "an item has no text or number `di`",
        ),
    ] {
        let office = shop(&Value::Null, &Value::Null, wrong).await;
        let listed = say(&office, "list orders").await;
        assert_eq!(text(&listed), "boots a hat Ann");
        let told = &listed.answer.as_ref().unwrap().metadata["shows_failed"];
        assert_eq!(*told, format!("reply.shows: {cause}"));
        assert_eq!(
            text(&say(&office, "cancel the second one").await),
            "Which order?"
        );
        assert_eq!(cancelled(&office), [json!(null); 0]);
    }
}

/// An agent that cancels orders and visits, each numbered from 1, in the same words.
async fn desk_of_two_kinds() -> Office {
    let list = |things: &str| {
        json!({ "name": format!("list_{things}"), "description": "lists", "sentences": [format!("list {things}")],
            "action": { "tool": format!("desk.get_{things}"), "reply": "Here.",
                "shows": { "items": things, "id": "id", "label": "what", "kind": things } } })
    };
    let cancel = |thing: &str, things: &str| {
        let reference = json!({ "tool": format!("desk.get_{things}"), "items": things, "id": "id", "label": "what",
            "kind": things, "nouns": [thing], "none": "There is none.", "many": "Which of several?" });
        let slots = json!({ thing: { "ask": "Which?", "refers_to": reference } });
        json!({ "name": format!("cancel_{thing}"), "description": format!("Cancel: {thing}"), "slots": slots,
            "sentences": [format!("cancel {{{thing}}}")],
            "action": { "tool": format!("desk.cancel_{thing}"), "arguments": { "id": format!("{{{{ {thing}.id }}}}") },
                "reply": format!("Cancelled {{{{ {thing}.what }}}}.") } })
    };
    let tools = ["get_orders", "get_visits", "cancel_order", "cancel_visit"];
    let setting = Setting {
        agent: json!({ "tools": tools.map(|tool| format!("desk.{tool}")), "llm_config": null, "skills": [
            list("orders"), list("visits"), cancel("order", "orders"), cancel("visit", "visits")] }),
        decide: json!({ "several": "eager" }),
        ..Setting::default()
    };
    let office = Office::set_up(setting, Reply::text("The model was asked.")).await;
    for (tool, things, labels) in [
        ("get_orders", "orders", ["red boots", "a hat"]),
        ("get_visits", "visits", ["a check-up", "red nails"]),
    ] {
        office.tool(tool, move |_| {
            let [first, second] = labels;
            Ok(json!({ things: [{ "id": 1, "what": first }, { "id": 2, "what": second }] }))
        });
    }
    office.tool("cancel_order", |arguments| Ok(arguments.clone()));
    office.tool("cancel_visit", |arguments| Ok(arguments.clone()));
    office
}

#[tokio::test]
async fn of_skills_with_the_same_words_the_one_is_chosen_whose_things_were_shown() {
    for (shown, words, expected) in [
        (
            &["list visits", "list orders"] as &[&str],
            "cancel the second one",
            "Cancelled a hat.",
        ),
        (
            &["list orders", "list visits"],
            "cancel the second one",
            "Cancelled red nails.",
        ),
        (
            &["list visits", "list orders"],
            "cancel the check-up",
            "Cancelled a check-up.",
        ),
        (
            &["list orders", "list visits"],
            "cancel the hat",
            "Cancelled a hat.",
        ),
        (
            &["list orders", "list visits"],
            "cancel it",
            "Which of several?",
        ),
        (
            &["list visits", "list orders"],
            "cancel visit 1",
            "Which of several?",
        ),
        (
            &["list orders", "list visits"],
            "cancel visit 1",
            "Cancelled a check-up.",
        ),
        (&[], "cancel my visit", "Which of several?"),
    ] {
        let office = desk_of_two_kinds().await;
        for request in shown {
            assert_eq!(text(&say(&office, request).await), "Here.");
        }
        let said = say(&office, words).await;
        assert_eq!(text(&said), expected, "{shown:?}: {words}");
    }
}

#[tokio::test]
async fn what_fits_things_of_both_kinds_or_of_none_is_asked_about() {
    for (shown, words) in [
        (
            &["list visits", "list orders"] as &[&str],
            "cancel the red one",
        ),
        (&["list visits", "list orders"], "cancel the party"),
        (&[], "cancel the second one"),
        (&[], "cancel it"),
    ] {
        let office = desk_of_two_kinds().await;
        for request in shown {
            say(&office, request).await;
        }
        let said = say(&office, words).await;
        assert!(
            text(&said).contains("Cancel: visit"),
            "{words}: {}",
            text(&said)
        );
        assert!(
            office
                .calls()
                .iter()
                .all(|(tool, _)| tool.starts_with("get_"))
        );
    }
}

#[tokio::test]
async fn a_part_of_a_message_means_the_thing_that_was_shown() {
    let office = desk_of_two_kinds().await;
    say(&office, "list orders").await;
    say(&office, "list visits").await;
    let said = say(&office, "cancel the check-up and list orders").await;
    assert_eq!(text(&said), "Cancelled a check-up. Here.");
}
