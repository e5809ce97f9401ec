//! A skill that asks by condition.

use convoke_testkit::{Reply, ScriptedModel};
use serde_json::{Value, json};

use crate::program::text;
use crate::shop::{Shop, refund, skill};

fn shop(when: &str) -> Shop {
    Shop::new(&[refund(when)], &[], &json!({}))
}

const DEAR: &str = "amount | float > 100";

#[test]
fn one_skill_asks_where_its_condition_holds_and_only_there() {
    let shop = shop(DEAR);
    let ended = shop.say("refund boots for 20 euros");
    assert_eq!(ended["answer"]["text"], "Refunded boots.", "{ended}");
    let asked = shop.say("refund a hat for 250 euros");
    assert_eq!(asked["state"], "input-required", "{asked}");
    assert_eq!(
        asked["questions"][0]["prompt"],
        "May I call shop.add_note with text “a hat”?"
    );
    assert_eq!(shop.changes(), [json!(["note", "boots"])]);
    let ended = shop.go_on("yes");
    assert_eq!(ended["answer"]["text"], "Refunded a hat.", "{ended}");
    let asked = shop.say("refund a coat for 100.01 euros");
    assert_eq!(asked["state"], "input-required", "{asked}");
    let ended = shop.go_on("no");
    assert_eq!(
        ended["answer"]["metadata"]["error_type"], "UnauthorizedError",
        "{ended}"
    );
    assert_eq!(
        shop.changes(),
        [json!(["note", "boots"]), json!(["note", "a hat"])]
    );
}

#[test]
fn what_cannot_be_evaluated_asks() {
    for (when, message) in [
        // The amount is left out.
        (DEAR, "refund boots"),
        // It is no number.
        (DEAR, "refund boots for many euros"),
        (DEAR, "refund boots for nan euros"),
        // It is no yes or no.
        ("what", "refund boots for 1 euros"),
        ("0", "refund boots for 1 euros"),
        ("amount", "refund boots"),
        ("text.price > 100", "refund boots for 1 euros"),
    ] {
        let shop = shop(when);
        let asked = shop.say(message);
        assert_eq!(asked["state"], "input-required", "{when}: {asked}");
        assert!(shop.changes().is_empty(), "{when}");
    }
    let shop = shop("false");
    let ended = shop.say("refund boots");
    assert_eq!(ended["answer"]["text"], "Refunded boots.", "{ended}");
}

#[test]
fn the_condition_stands_in_trace_and_history_with_its_value() {
    let shop = shop(DEAR);
    shop.say("refund boots for 20 euros");
    let condition = |trace: &Value| {
        let steps = trace["steps"].as_array().unwrap();
        let mut steps = steps.iter().filter(|step| step["action"] == "condition");
        steps.next().unwrap().clone()
    };
    let seen = condition(&shop.json(&["tasks", "trace", "last"]));
    assert_eq!(seen["step_name"], "refund → approval", "{seen}");
    assert_eq!(seen["output_data"]["value"], false, "{seen}");
    let history = text(&shop.program.run(&["tasks", "history", "last"]).stdout);
    assert!(history.contains("refund → approval: false"), "{history}");
    shop.say("refund boots for many euros");
    let seen = condition(&shop.json(&["tasks", "trace", "last"]));
    assert!(seen["error"].as_str().is_some(), "{seen}");
}

#[test]
fn check_refuses_a_condition_over_what_is_not_there() {
    for (when, code, message) in [
        ("amuont | float > 100", "app.template_variable", "amuont"),
        ("amount > 100", "app.expression", "amount | float > 100"),
        ("text > 100", "app.expression", "cannot be compared"),
        ("amount >", "app.expression", "cannot be parsed"),
        (" ", "action.approval_empty", "`when` is empty"),
    ] {
        let (said, status) = shop(when).check();
        assert_ne!(status, Some(0), "{when}: {said}");
        assert!(
            said.contains(code) && said.contains(message),
            "{when}: {said}"
        );
    }
}

#[test]
fn a_condition_sees_the_arguments_before_the_slots() {
    let mut dear = refund("amount > 100");
    dear["action"]["arguments"] = json!({ "text": "{{ what }}", "amount": "{{ amount | float }}" });
    let shop = Shop::new(&[dear], &[], &json!({}));
    let asked = shop.say("refund boots for 200 euros");
    assert_eq!(asked["state"], "input-required", "{asked}");
    assert!(shop.changes().is_empty());
}

fn starting(confirm: Option<&str>) -> (Value, Value) {
    let mut action = json!({ "workflow": "pay", "approval": { "when": DEAR },
        "arguments": { "what": "{{ what }}", "amount": "{{ amount | float }}" } });
    if let Some(confirm) = confirm {
        action["confirm"] = json!(confirm);
    }
    let slots = json!({ "what": {}, "amount": {} });
    let pay = skill("pay", "pay {what} [for {amount} euros]", &slots, &action);
    let workflow = json!({
        "name": "pay", "inputs": ["what", "amount"], "entry_point": "note",
        "nodes": {
            "note": { "type": "tool", "tool": "shop.add_note", "arguments": { "text": "{{ amount }} for {{ what }}" } },
            "told": { "type": "compose", "prompt": "Paid {{ note.text }}." },
        },
        "edges": [{ "from": "note", "to": "told" }],
    });
    (pay, workflow)
}

#[test]
fn a_workflow_starts_once_a_person_has_approved() {
    let (pay, workflow) = starting(None);
    let shop = Shop::new(&[pay], &[workflow], &json!({}));
    let ended = shop.say("pay boots for 20 euros");
    assert_eq!(ended["answer"]["text"], "Paid 20.0 for boots.", "{ended}");
    let asked = shop.say("pay a hat for 200 euros");
    assert_eq!(asked["state"], "input-required", "{asked}");
    assert_eq!(
        asked["questions"][0]["prompt"], "May I call pay with amount 200.0, what “a hat”?",
        "{asked}"
    );
    assert_eq!(shop.changes().len(), 1);
    let ended = shop.go_on("yes");
    assert_eq!(ended["answer"]["text"], "Paid 200.0 for a hat.", "{ended}");
    shop.say("pay a coat for 300 euros");
    let ended = shop.go_on("no");
    assert_eq!(ended["answer"]["metadata"]["intent"], "pay", "{ended}");
    assert_eq!(shop.changes().len(), 2);
}

#[test]
fn who_approves_a_workflow_may_change_what_it_is_given_and_nothing_else() {
    let (pay, workflow) = starting(None);
    let shop = Shop::new(&[pay], &[workflow], &json!({}));
    shop.say("pay a hat for 200 euros");
    let answer = |set: &str| {
        let answer = ["tasks", "answer", "last", "modify", "--set", set];
        let noted = shop.program.run(&answer);
        let resumed = text(&shop.program.run(&["resume", &shop.app]).stdout);
        (noted.status.success(), text(&noted.stderr) + &resumed)
    };
    for unusable in ["amuont=1", "amount=much"] {
        let (noted, said) = answer(unusable);
        assert!(!noted && said.contains("answer.unusable"), "{said}");
        assert!(shop.changes().is_empty(), "{:?}", shop.changes());
    }
    let (_, said) = answer("amount=150");
    assert!(said.contains("Paid 150 for a hat."), "{said}");
    assert_eq!(shop.changes(), [json!(["note", "150 for a hat"])]);
}

#[test]
fn a_confirmation_is_the_approval_of_those_who_may_approve() {
    for (config, state) in [
        (json!({}), "completed"),
        (
            json!({ "approvers": { "roles": ["operator"], "requester": false } }),
            "input-required",
        ),
    ] {
        let (pay, workflow) = starting(Some("Pay {{ what }}?"));
        let shop = Shop::new(&[pay], &[workflow], &config);
        let asked = shop.say("pay a hat for 200 euros");
        assert_eq!(asked["answer"]["text"], "Pay a hat?", "{asked}");
        let ended = shop.go_on("yes");
        assert_eq!(ended["state"], state, "{ended}");
    }
}

#[test]
fn a_confirmation_of_a_workflow_approves_none_of_its_calls() {
    let (pay, workflow) = starting(Some("Pay {{ what }}?"));
    let tools = json!({ "add_note": { "approval": "required" } });
    let shop = Shop::with_server(&[pay], &[workflow], &json!({}), &tools);
    shop.say("pay a hat for 200 euros");
    let asked = shop.go_on("yes");
    assert_eq!(asked["state"], "input-required", "{asked}");
    assert!(shop.changes().is_empty());
    let ended = shop.go_on("yes");
    assert_eq!(ended["answer"]["text"], "Paid 200.0 for a hat.", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_condition_of_a_tool_holds_whoever_calls_it() {
    let tools = |when: &str| json!({ "add_note": { "approval": { "when": when } } });
    let cheap = "arguments.text != 'tea'";
    let action = json!({ "tool": "shop.add_note", "arguments": { "text": "{{ what }}" }, "reply": "Noted." });
    let note = skill("note", "note {what}", &json!({ "what": {} }), &action);
    let shop = Shop::with_server(std::slice::from_ref(&note), &[], &json!({}), &tools(cheap));
    assert_eq!(shop.say("note tea")["answer"]["text"], "Noted.");
    assert_eq!(shop.say("note gold")["state"], "input-required");
    assert_eq!(shop.changes(), [json!(["note", "tea"])]);
    for (when, message) in [
        ("arguments.txt != 'tea'", "note tea"),
        ("arguments.text > 1", "note tea"),
        ("arguments.text", "note tea"),
    ] {
        let shop = Shop::with_server(std::slice::from_ref(&note), &[], &json!({}), &tools(when));
        assert_eq!(shop.say(message)["state"], "input-required", "{when}");
        assert!(shop.changes().is_empty());
    }
    let (said, _) = Shop::with_server(&[note], &[], &json!({}), &tools("text != 'tea'")).check();
    assert!(said.contains("app.template_variable"), "{said}");

    for (text, state) in [("tea", "completed"), ("gold", "input-required")] {
        let replies = [
            Reply::tool_calls([("add_note", json!({ "text": text }))]),
            Reply::text("Done."),
        ];
        let model = ScriptedModel::start(replies).await.unwrap();
        let shop = Shop::with_server(&[], &[], &json!({}), &tools(cheap));
        let chosen = format!("{}#scripted", model.endpoint());
        let ended = shop.json(&["run", &shop.app, "--model", &chosen, "write it down"]);
        assert_eq!(ended["state"], state, "{ended}");
    }
}
