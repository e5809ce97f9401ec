//! A skill that starts a workflow.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::text;
use crate::shop::{Shop, listing, routed, skill};

/// A workflow that notes what it is given, and asks a person where it is told to.
fn refund(nodes: &Value, edges: &Value) -> Value {
    let mut workflow = json!({
        "name": "refund", "inputs": ["what"], "entry_point": "note",
        "nodes": {
            "note": { "type": "tool", "tool": "shop.add_note", "arguments": { "text": "{{ what }}" } },
            "told": { "type": "compose", "prompt": "{{ note.text }} is refunded." },
        },
        "edges": [{ "from": "note", "to": "told" }],
    });
    for (name, node) in nodes.as_object().unwrap() {
        workflow["nodes"][name] = node.clone();
    }
    if edges.is_array() {
        workflow["edges"] = edges.clone();
    }
    workflow
}

fn starting(workflow: &str) -> Value {
    let action = json!({ "workflow": workflow, "arguments": { "what": "{{ what }}" } });
    skill(
        "give_back",
        "give {what} back",
        &json!({ "what": {} }),
        &action,
    )
}

fn asking() -> Value {
    let mut workflow = refund(
        &json!({
            "ask": { "type": "human", "prompt": "Refund {{ what }}?" },
            "left": { "type": "compose", "prompt": "Nothing is refunded." },
        }),
        &json!([
            { "from": "ask", "to": { "approve": "note", "modify": "note", "otherwise": "left" } },
            { "from": "note", "to": "told" },
        ]),
    );
    workflow["entry_point"] = json!("ask");
    workflow
}

fn plain() -> Shop {
    Shop::new(
        &[starting("refund")],
        &[refund(&json!({}), &Value::Null)],
        &json!({}),
    )
}

#[test]
fn a_skill_starts_a_workflow_and_what_it_did_stands_in_the_answer_and_the_trace() {
    let shop = plain();
    let ended = shop.say("give the boots back");
    let answer = &ended["answer"];
    assert_eq!(answer["text"], "the boots is refunded.", "{ended}");
    assert_eq!(answer["metadata"]["intent"], "give_back");
    assert_eq!(answer["metadata"]["workflow"], "refund");
    assert_eq!(answer["metadata"]["agent"], "clerk");
    assert_eq!(answer["metadata"]["slots"], json!({ "what": "the boots" }));
    assert_eq!(
        answer["metadata"]["output"]["note"]["text"], "the boots",
        "{ended}"
    );
    assert_eq!(
        answer["metadata"]["agent_results"][0]["agent"], "clerk",
        "{ended}"
    );
    assert_eq!(answer["tool_calls"][0]["tool"], "add_note", "{ended}");
    assert_eq!(answer["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(shop.changes(), [json!(["note", "the boots"])]);
    assert_eq!(shop.program.tasks().len(), 1, "it is a part of the task");

    let trace = shop.json(&["tasks", "trace", "last"]);
    let steps: Vec<_> = trace["steps"].as_array().unwrap().iter().collect();
    let names: Vec<_> = steps
        .iter()
        .map(|step| step["step_name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"note: shop.add_note"), "{names:?}");
    let shown = text(&shop.program.run(&["tasks", "show", "last"]).stdout);
    assert!(shown.contains("the boots is refunded."), "{shown}");
    let history = text(&shop.program.run(&["tasks", "history", "last"]).stdout);
    assert!(history.contains("note: shop.add_note"), "{history}");
    let events = text(
        &shop
            .program
            .run(&["--json", "tasks", "follow", "last"])
            .stdout,
    );
    assert!(events.contains(r#""tool":"shop.add_note""#), "{events}");
}

#[test]
fn a_question_of_the_workflow_is_one_of_the_conversation() {
    let shop = Shop::new(&[starting("refund")], &[asking()], &json!({}));
    let asked = shop.say("give the boots back");
    assert_eq!(asked["state"], "input-required", "{asked}");
    assert_eq!(asked["questions"][0]["prompt"], "Refund the boots?");
    assert!(shop.changes().is_empty());
    let ended = shop.go_on("yes");
    assert_eq!(ended["answer"]["text"], "the boots is refunded.", "{ended}");
    let asked = shop.say("give the hat back");
    assert_eq!(asked["state"], "input-required", "{asked}");
    let ended = shop.go_on("no");
    assert_eq!(ended["answer"]["text"], "Nothing is refunded.", "{ended}");
    assert_eq!(shop.changes(), [json!(["note", "the boots"])]);
}

#[test]
fn a_workflow_of_a_skill_that_is_canceled_does_nothing_more() {
    let shop = Shop::new(&[starting("refund")], &[asking()], &json!({}));
    shop.say("give the boots back");
    let canceled = shop.program.run(&["tasks", "cancel", "last"]);
    assert!(canceled.status.success(), "{canceled:?}");
    shop.program.run(&["resume", &shop.app]);
    let late = shop.program.run(&["tasks", "answer", "last", "approve"]);
    assert_eq!(late.status.code(), Some(2), "{late:?}");
    shop.program.run(&["resume", &shop.app]);
    let task = shop.json(&["tasks", "show", "last"]);
    assert!(task.to_string().contains("canceled"), "{task}");
    assert!(shop.changes().is_empty());
}

#[test]
fn a_workflow_of_a_skill_goes_on_where_its_process_was_killed() {
    let workflow = refund(
        &json!({
            "pause": { "type": "tool", "tool": "builtin.wait", "arguments": { "seconds": 3 } },
            "again": { "type": "tool", "tool": "shop.add_note", "arguments": { "text": "and {{ what }}" } },
        }),
        &json!([
            { "from": "note", "to": "pause" }, { "from": "pause", "to": "again" }, { "from": "again", "to": "told" },
        ]),
    );
    let shop = Shop::new(&[starting("refund")], &[workflow], &json!({}));
    let mut child = shop
        .program
        .spawn(&["run", &shop.app, "give the boots back"]);
    let open = "SELECT count(*) FROM entries WHERE kind = 'returned'";
    let patience = Instant::now() + Duration::from_mins(1);
    // The decision and the first note are on disk.
    while shop.changes().is_empty() || returned(&shop, open) < 2 {
        assert!(Instant::now() < patience, "the first note was not written");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(shop.changes(), [json!(["note", "the boots"])]);
    // The task is ready again once its wait is over.
    while shop.changes().len() < 2 {
        assert!(Instant::now() < patience, "the task did not go on");
        shop.program.run(&["resume", &shop.app]);
    }
    let task = shop.json(&["tasks", "show", "last"]);
    assert!(
        task.to_string().contains("the boots is refunded."),
        "{task}"
    );
    assert_eq!(
        shop.changes(),
        [
            json!(["note", "the boots"]),
            json!(["note", "and the boots"])
        ]
    );
}

/// The number that the store has for a query, 0 where it has no store yet.
fn returned(shop: &Shop, query: &str) -> i64 {
    let store = shop.program.open_store();
    store.query_row(query, [], |row| row.get(0)).unwrap_or(0)
}

#[test]
fn the_limits_of_a_workflow_hold_where_a_skill_starts_it() {
    let mut workflow = refund(
        &json!({ "again": { "type": "tool", "tool": "shop.add_note", "arguments": { "text": "more" } } }),
        &json!([{ "from": "note", "to": "again" }, { "from": "again", "to": "told" }]),
    );
    workflow["max_iterations"] = json!(1);
    let shop = Shop::new(&[starting("refund")], &[workflow], &json!({}));
    let ended = shop.say("give the boots back");
    assert_eq!(ended["state"], "failed", "{ended}");
    let error = ended["error"].as_str().unwrap();
    assert!(error.starts_with("workflow.max_iterations"), "{error}");
    assert_eq!(ended["answer"]["metadata"]["intent"], "give_back");
    let said = ended["answer"]["text"].as_str().unwrap();
    assert!(
        said.contains("shop.add_note"),
        "what was done is said: {said}"
    );
    assert_eq!(shop.changes().len(), 1);
}

#[test]
fn a_workflow_without_the_value_of_an_input_does_nothing() {
    let mut give = starting("refund");
    give["sentences"] = json!(["give [{what}] back"]);
    let shop = Shop::new(&[give], &[refund(&json!({}), &Value::Null)], &json!({}));
    let ended = shop.say("give back");
    assert_eq!(ended["state"], "failed", "{ended}");
    let error = ended["error"].as_str().unwrap();
    assert!(error.starts_with("workflow.input: "), "{error}");
    assert!(shop.changes().is_empty());
}

#[test]
fn what_a_workflow_shows_is_what_the_second_one_counts_in() {
    let workflow = json!({
        "name": "look_up", "entry_point": "found",
        "nodes": {
            "found": { "type": "tool", "tool": "shop.list_orders" },
            "told": { "type": "compose", "prompt": "Orders: {{ found.orders | map(attribute='what') | join(', ') }}." },
        },
        "edges": [{ "from": "found", "to": "told" }],
    });
    let shows = json!({ "items": "found.orders", "id": "id", "label": "what", "kind": "order" });
    let mut skills = listing(None);
    skills[2]["slots"]["order"]["refers_to"]["kind"] = json!("order");
    let action = json!({ "workflow": "look_up", "shows": shows });
    skills.push(skill("look_up", "look them up", &json!({}), &action));
    let shop = Shop::new(&skills, &[workflow], &json!({}));
    shop.say("list people");
    let told = shop.go_on("look them up");
    assert_eq!(
        told["answer"]["text"], "Orders: boots, a hat, Ann.",
        "{told}"
    );
    let ended = shop.go_on("cancel the second one");
    assert_eq!(ended["answer"]["text"], "Cancelled a hat.", "{ended}");
    assert_eq!(shop.changes(), [json!(["cancel", 2])]);
}

#[test]
fn check_proves_that_the_workflow_is_there_gets_its_inputs_and_ends() {
    let mut circle = routed(None);
    circle["name"] = json!("around");
    let two = json!({ "workflow": "refund", "tool": "shop.add_note", "reply": "Done." });
    let none = json!({ "arguments": {} });
    let spoken =
        json!({ "workflow": "refund", "arguments": { "what": "{{ what }}" }, "reply": "Done." });
    let misspelt =
        json!({ "workflow": "refund", "arguments": { "what": "{{ what }}", "wat": "x" } });
    let shows = json!({ "workflow": "refund", "arguments": { "what": "{{ what }}" },
        "shows": { "items": "nota.items", "id": "id", "label": "what" } });
    for (action, code, message) in [
        (
            json!({ "workflow": "refnd" }),
            "app.workflow_unknown",
            "did you mean `refund`?",
        ),
        (
            json!({ "workflow": "refund" }),
            "app.input_missing",
            "needs the input `what`",
        ),
        (
            json!({ "workflow": "around" }),
            "app.workflow_circle",
            "whose node `who`",
        ),
        (two, "action.target", "either a `tool` or a `workflow`"),
        (none, "action.target", "either a `tool` or a `workflow`"),
        (
            json!({ "tool": "shop.add_note" }),
            "action.reply_missing",
            "`reply`",
        ),
        (spoken, "action.workflow_answers", "leave out `reply`"),
        (misspelt, "app.input_unknown", "did you mean `what`?"),
        (shows, "app.shows_unknown", "did you mean `note`?"),
    ] {
        let shop = Shop::new(
            &[skill(
                "give_back",
                "give {what} back",
                &json!({ "what": {} }),
                &action,
            )],
            &[refund(&json!({}), &Value::Null), circle.clone()],
            &json!({}),
        );
        let (said, status) = shop.check();
        assert!(
            said.contains(code) && said.contains(message),
            "{code}: {said}"
        );
        let is_warning = code == "app.input_unknown";
        assert_eq!(status == Some(0), is_warning, "{said}");
    }
    let mut only = refund(&json!({}), &Value::Null);
    only["name"] = json!("main");
    let shop = Shop::new(&[], &[only], &json!({}));
    let (said, _) = shop.check();
    assert!(
        said.contains("app.input_missing") && said.contains("nobody gives it inputs"),
        "{said}"
    );
    let (said, status) = plain().check();
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn a_request_that_a_workflow_passes_on_reaches_a_skill_that_starts_another() {
    let shop = Shop::new(&[starting("refund")], &[routed(None), asking()], &json!({}));
    let (said, status) = shop.check();
    assert_eq!(status, Some(0), "{said}");
    let asked = shop.say("give the boots back");
    assert_eq!(
        asked["questions"][0]["prompt"], "Refund the boots?",
        "{asked}"
    );
    let ended = shop.go_on("yes");
    assert_eq!(ended["answer"]["text"], "the boots is refunded.", "{ended}");
    assert_eq!(ended["answer"]["tool_calls"][0]["tool"], "add_note");
    assert_eq!(shop.changes(), [json!(["note", "the boots"])]);
}
