//! Evals of an app whose requests go through a workflow.

use std::path::Path;

use serde_json::{Value, json};

use crate::shop::{Shop, listing, routed, skill};

/// Runs these cases, and returns the verdicts and the exit code.
fn judged(shop: &Shop, cases: &Value) -> (Value, Option<i32>) {
    let file = Path::new(&shop.app).join("evals/cases.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, json!({ "cases": cases }).to_string()).unwrap();
    let output = shop.program.run(&["--json", "eval", &shop.app]);
    let verdicts = serde_json::from_slice(&output.stdout);
    (
        verdicts.unwrap_or_else(|_| panic!("{output:?}")),
        output.status.code(),
    )
}

fn noting() -> Value {
    let action = json!({ "tool": "shop.add_note", "arguments": { "text": "{{ what }}" }, "reply": "Noted {{ what }}." });
    skill("note", "note {what}", &json!({ "what": {} }), &action)
}

fn routed_shop() -> Shop {
    let mut skills = listing(None);
    skills.push(noting());
    let eager = json!({ "decide": { "several": "eager" } });
    Shop::new(&skills, &[routed(None)], &eager)
}

#[test]
fn cases_are_compared_with_what_the_parts_of_a_workflow_did() {
    let shop = routed_shop();
    let look = json!({ "tool": "shop.list_orders" });
    let cancel = json!({ "tool": "shop.cancel_order", "arguments": { "id": 2 } });
    let cases = json!([
        { "say": "list orders", "expect": { "intent": "orders", "targets": ["orders"], "calls": [look],
            "reply": { "contains": ["boots"] } } },
        { "say": "cancel a hat", "expect": { "intent": "cancel", "slots": { "order": "a hat" },
            "calls": [look, cancel] } },
        { "before": ["list orders"], "say": "cancel the second one",
            "expect": { "intent": "cancel", "slots": { "order": "a hat" }, "calls": [look, cancel] } },
        { "say": "note milk and note bread", "expect": { "intent": "several", "calls": [
            { "tool": "add_note", "arguments": { "text": "milk" } },
            { "tool": "add_note", "arguments": { "text": "bread" } } ] } },
        { "say": "sing a song of the sea", "expect": { "intent": "unknown", "targets": [], "calls": [] } },
        { "say": "note tea", "expect": { "intent": "note", "slots": { "what": "tea" } } },
    ]);
    let (verdicts, code) = judged(&shop, &cases);
    assert_eq!(code, Some(0), "{verdicts:#}");
    let intents = verdicts["measures"]
        .as_array()
        .unwrap()
        .iter()
        .find(|measure| measure["name"] == "intents")
        .unwrap();
    assert_eq!(
        (&intents["cases"], &intents["right"]),
        (&json!(6), &json!(6))
    );
}

#[test]
fn what_the_parts_did_not_do_is_wrong() {
    let shop = routed_shop();
    let cases = json!([
        { "say": "list orders", "expect": { "intent": "people", "calls": [] } },
        { "say": "note tea", "expect": { "intent": "note", "slots": { "what": "coffee" },
            "calls": [{ "tool": "shop.add_note", "arguments": { "text": "coffee" } }] } },
    ]);
    let (verdicts, code) = judged(&shop, &cases);
    assert_eq!(code, Some(1), "{verdicts:#}");
    let case = |index: usize| &verdicts["cases"][index];
    assert_eq!(case(0)["intents"], json!(["people", "orders"]));
    assert_eq!(case(0)["calls"], false);
    assert_eq!(case(1)["intent"], true);
    assert_eq!(
        (&case(1)["slots"], &case(1)["calls"]),
        (&json!(false), &json!(false))
    );
}

#[test]
fn a_workflow_may_be_expected_by_its_own_name() {
    let shop = routed_shop();
    let cases = json!([{ "say": "note tea", "expect": { "intent": "main" } }]);
    let (verdicts, code) = judged(&shop, &cases);
    assert_eq!(code, Some(0), "{verdicts:#}");
}

#[test]
fn the_calls_of_a_workflow_that_a_skill_starts_are_compared() {
    let workflow = json!({
        "name": "twice", "inputs": ["what"], "entry_point": "first",
        "nodes": {
            "first": { "type": "tool", "tool": "shop.add_note", "arguments": { "text": "{{ what }}" } },
            "second": { "type": "tool", "tool": "shop.add_note", "arguments": { "text": "again {{ what }}" } },
            "told": { "type": "compose", "prompt": "Noted twice." },
        },
        "edges": [{ "from": "first", "to": "second" }, { "from": "second", "to": "told" }],
    });
    let action = json!({ "workflow": "twice", "arguments": { "what": "{{ what }}" } });
    let twice = skill(
        "twice",
        "note {what} twice",
        &json!({ "what": {} }),
        &action,
    );
    let shop = Shop::new(&[twice], &[workflow], &json!({}));
    let cases = json!([{ "say": "note tea twice", "expect": { "intent": "twice", "slots": { "what": "tea" }, "calls": [
        { "tool": "shop.add_note", "arguments": { "text": "tea" } },
        { "tool": "shop.add_note", "arguments": { "text": "again tea" } },
    ] } }]);
    let (verdicts, code) = judged(&shop, &cases);
    assert_eq!(code, Some(0), "{verdicts:#}");
}
