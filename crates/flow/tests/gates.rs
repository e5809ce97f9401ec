//! Workflows that check before they deliver, think as their nodes say, go on from a point with another state,
//! and find out whether a call that was lost took effect.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use convoke_engine::{QuestionAnswer, TaskOutcome};
use convoke_flow::trace;
use convoke_model::{Redaction, TaskState};
use convoke_store::Viewer;
use convoke_testkit::{Reply, Script};
use office::{Office, Setting, lost};
use serde_json::{Map, Value, json};

async fn office(workflow: Value, script: impl Into<Script>) -> Office {
    let setting = Setting {
        workflows: vec![workflow],
        ..Setting::default()
    };
    Office::set_up(setting, script).await
}

fn text(ended: &TaskOutcome) -> &str {
    &ended.answer.as_ref().unwrap().text
}

fn no_model() -> Reply {
    Reply::text("Nobody should have asked.")
}

/// Says what was asked, if it is short enough; mends it once.
fn checked() -> Value {
    let criteria = |field: &str| {
        json!([
            { "id": "short", "description": "the text has at most ten characters",
              "expression": format!("{field} | length <= 10") },
            { "id": "polite", "description": "the text does not shout",
              "expression": format!("{field} != ({field} | upper)") },
        ])
    };
    json!({
        "name": "checked", "entry_point": "write",
        "nodes": {
            "write": { "type": "compose", "prompt": "{{ request }}" },
            "look": { "type": "check", "criteria": criteria("write") },
            "mend": { "type": "compose", "prompt": "{{ request | lower }}" },
            "again": { "type": "check", "criteria": criteria("mend") },
            "send": { "type": "deliver", "prompt": "{{ mend or write }}" },
        },
        "edges": [
            { "from": "write", "to": "look" },
            { "from": "look", "to": { "passed": "send", "failed": "mend" } },
            { "from": "mend", "to": "again" },
            { "from": "again", "to": { "passed": "send" } },
        ],
    })
}

#[tokio::test]
async fn only_what_has_passed_a_check_is_delivered() {
    let office = office(checked(), no_model()).await;
    assert_eq!(text(&office.ask("Hello").await), "Hello");
    assert_eq!(text(&office.ask("HELLO").await), "hello");
    let ended = office.ask("MUCH TOO LONG FOR ANYBODY").await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(
        ended
            .error
            .as_ref()
            .unwrap()
            .starts_with("workflow.not_delivered")
    );
    assert!(!text(&ended).to_lowercase().contains("much too long"));
}

#[tokio::test]
async fn a_check_that_cannot_be_made_has_not_passed() {
    let mut workflow = checked();
    workflow["nodes"]["look"]["criteria"][0]["expression"] = json!("1 // write.nothing");
    let office = office(workflow, no_model()).await;
    let ended = office.ask("Hello").await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(ended.error.unwrap().starts_with("workflow.check: short"));
}

#[tokio::test]
async fn an_agent_thinks_as_the_workflow_or_its_node_says() {
    let workflow = |patterns: Value, node: Value| {
        let mut workflow = json!({
            "name": "thinks", "entry_point": "write", "patterns": patterns,
            "nodes": { "write": { "type": "agent", "agent": "clerk" } },
        });
        let fields = workflow["nodes"]["write"].as_object_mut().unwrap();
        fields.extend(node.as_object().unwrap().clone());
        workflow
    };
    let replies = || {
        vec![
            Reply::text("A draft."),
            Reply::text(r#"{"ok": false, "feedback": "say more"}"#),
            Reply::text("A better one."),
            Reply::text(r#"{"ok": true}"#),
        ]
    };
    let reflecting = workflow(json!(["react", "reflection"]), json!({}));
    let office_of = office(reflecting, replies()).await;
    assert_eq!(text(&office_of.ask("Write.").await), "A better one.");

    let plain = workflow(
        json!(["react", "reflection"]),
        json!({ "pattern": "react" }),
    );
    let office_of = office(plain, replies()).await;
    assert_eq!(text(&office_of.ask("Write.").await), "A draft.");

    let looping = Script::by(|asked| match asked.body.get("tools") {
        Some(_) => Reply::tool_calls([("desk__get_time", json!({}))]),
        None => Reply::text("Enough."),
    });
    let bounded = workflow(json!([]), json!({ "max_iterations": 2 }));
    let office_of = office(bounded, looping).await;
    assert_eq!(text(&office_of.ask("Loop.").await), "Enough.");
    assert_eq!(office_of.calls().len(), 2);
}

#[tokio::test]
async fn no_more_tools_are_called_than_the_budget_allows() {
    let greedy = Script::by(|asked| match asked.body.get("tools") {
        Some(_) => Reply::tool_calls([
            ("desk__get_time", json!({})),
            ("desk__get_time", json!({})),
            ("desk__get_time", json!({})),
        ]),
        None => Reply::text("Enough."),
    });
    let office = Office::open(json!({ "budget": { "tool_calls": 4 } }), greedy).await;
    let ended = office.ask("Everything at once.").await;
    assert_eq!(text(&ended), "Enough.");
    assert_eq!(office.calls().len(), 4);
    let told = office.shown(2);
    let refused = told.iter().filter(|message| {
        let said = message["content"].as_str().unwrap_or_default();
        said.contains("budget of tool calls")
    });
    assert_eq!(refused.count(), 2);
    let spent = &ended.answer.unwrap().metadata["spent"];
    assert_eq!(spent["tool_calls"], 4);
}

#[tokio::test]
async fn a_fork_goes_on_from_its_point_with_the_state_it_was_given() {
    let workflow = json!({
        "name": "pays", "entry_point": "look", "state": { "sum": "set" },
        "nodes": {
            "look": { "type": "tool", "tool": "desk.get_cost" },
            "agree": { "type": "human", "prompt": "Pay {{ sum or look.cost }}?" },
            "pay": { "type": "tool", "tool": "desk.pay", "arguments": { "sum": "{{ sum or look.cost }}" } },
        },
        "edges": [
            { "from": "look", "to": "agree" },
            { "from": "agree", "to": { "approve": "pay" } },
        ],
        "answer": "Paid {{ pay.sum }}{{ ', ' ~ agree.message if agree.message }}.",
    });
    let office = office(workflow, no_model()).await;
    office.tool("get_cost", |_| Ok(json!({ "cost": 10 })));
    office.tool("pay", |arguments| Ok(arguments.clone()));
    let waiting = office.ask("Pay.").await;
    assert_eq!(waiting.questions[0].prompt, "Pay 10?");
    let task = waiting.facts.id;
    let at = office.entries(task).await.last().unwrap().seq;
    let set = Map::from_iter([("sum".to_owned(), json!(7))]);
    let fork = office
        .engine
        .fork(&Viewer::System, task, at, set)
        .await
        .unwrap();
    let asked = office.engine.wait(&Viewer::System, fork).await.unwrap();
    assert_eq!(asked.questions[0].prompt, "Pay 7?");
    for useless in [
        json!({}),
        json!({ "state_updates": {} }),
        json!({ "state_updates": { "sum": 1 }, "sum": 1 }),
    ] {
        let answer = QuestionAnswer::Modify { value: useless };
        let refused = office
            .engine
            .answer(&Viewer::System, fork, None, answer)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "answer.unusable");
    }
    let approve = QuestionAnswer::Approve {
        message: Some("thank you".into()),
    };
    office
        .engine
        .answer(&Viewer::System, fork, None, approve)
        .await
        .unwrap();
    let ended = office
        .see_through(fork, |_| json!({ "action": "approve" }))
        .await;
    assert_eq!(text(&ended), "Paid 7, thank you.");
    // The other goes its own way, and looks nothing up again.
    let ended = office
        .answer(&waiting, json!({ "action": "approve" }))
        .await;
    assert_eq!(text(&ended), "Paid 10.");
    let looked = office
        .calls()
        .into_iter()
        .filter(|(tool, _)| tool == "get_cost");
    assert_eq!(looked.count(), 1);
}

#[tokio::test]
async fn a_tool_that_needs_approval_needs_it_at_a_node_of_a_workflow_too() {
    let workflow = json!({
        "name": "signs", "entry_point": "sign",
        "nodes": {
            "sign": { "type": "tool", "tool": "desk.sign", "arguments": { "page": "{{ page }}" },
                      "map": { "over": "[3, 4]", "as": "page", "parallel": 2 } },
        },
        "answer": "Signed {{ sign | length }} pages.",
    });
    let office = office(workflow, no_model()).await;
    office.tool("sign", |arguments| Ok(arguments.clone()));
    let waiting = office.ask("Sign.").await;
    assert_eq!(waiting.status, TaskState::InputRequired);
    let asked: Vec<_> = waiting.questions.iter().map(|one| &*one.prompt).collect();
    assert_eq!(
        asked,
        [
            "May I call desk.sign with page 3?",
            "May I call desk.sign with page 4?",
        ]
    );
    assert!(office.calls().is_empty());
    let approve = |_: &_| json!({ "action": "approve" });
    let ended = office.see_through(waiting.facts.id, approve).await;
    assert_eq!(text(&ended), "Signed 2 pages.");
    assert_eq!(office.calls().len(), 2);
}

/// Pays once; the answer is lost, and `get_receipt` tells whether it took effect.
async fn paying(receipt: Value, verify: Value) -> (Office, TaskOutcome) {
    let workflow = json!({
        "name": "pays", "entry_point": "pay",
        "nodes": { "pay": { "type": "tool", "tool": "desk.pay", "arguments": { "sum": 7 } } },
        "answer": "{{ pay.number or 'paid anew' }}",
    });
    let setting = Setting {
        workflows: vec![workflow],
        server: json!({ "tools": { "pay": { "verify": verify } } }),
        ..Setting::default()
    };
    let office = Office::without_worker(setting, no_model()).await;
    let lost_once = std::sync::atomic::AtomicBool::new(true);
    office.tool("pay", move |_| {
        if lost_once.swap(false, std::sync::atomic::Ordering::SeqCst) {
            Err(lost("the line went dead"))
        } else {
            Ok(json!({}))
        }
    });
    office.tool("get_receipt", move |_| Ok(receipt.clone()));
    office.start_worker(std::sync::Arc::clone(&office.store));
    let ended = office.ask("Pay.").await;
    (office, ended)
}

fn called(office: &Office) -> Vec<String> {
    office.calls().into_iter().map(|(tool, _)| tool).collect()
}

fn by_key() -> Value {
    json!({
        "tool": "desk.get_receipt",
        "arguments": { "key": "{{ call_id }}", "sum": "{{ arguments.sum }}" },
        "done": "result.found",
        "gives": "result.receipt",
    })
}

#[tokio::test]
async fn a_lost_call_that_took_effect_returns_the_verified_result() {
    let receipt = json!({ "found": true, "receipt": { "number": "R-1" } });
    let (office, ended) = paying(receipt, by_key()).await;
    assert_eq!(text(&ended), "R-1");
    assert_eq!(called(&office), ["pay", "get_receipt"]);
    let key = office.tool_server.keys()[0].clone();
    assert_eq!(office.calls()[1].1, json!({ "key": key, "sum": 7 }));
}

#[tokio::test]
async fn a_lost_call_that_took_no_effect_is_made_again_under_its_key() {
    let (office, ended) = paying(json!({ "found": false }), by_key()).await;
    assert_eq!(text(&ended), "paid anew");
    assert_eq!(called(&office), ["pay", "get_receipt", "pay"]);
    let keys = office.tool_server.keys();
    assert_eq!(keys[0], keys[2]);
}

#[tokio::test]
async fn what_a_verifying_tool_cannot_tell_is_left_to_a_person() {
    // The plain form gives the call's own arguments and looks at `done`, which is not there.
    let (office, ended) = paying(json!({ "found": true }), json!("desk.get_receipt")).await;
    assert_eq!(ended.status, TaskState::InputRequired);
    assert_eq!(called(&office), ["pay", "get_receipt"]);
    assert_eq!(office.calls()[1].1, json!({ "sum": 7 }));
    // One that may change something itself is never asked.
    let (office, ended) = paying(json!({ "done": true }), json!("desk.pay_again")).await;
    assert_eq!(ended.status, TaskState::InputRequired);
    assert_eq!(called(&office), ["pay"]);
}

#[tokio::test]
async fn a_trace_contains_every_step_with_its_calls_tokens_and_sessions() {
    let workflow = json!({
        "name": "traced", "entry_point": "look",
        "nodes": {
            "look": { "type": "tool", "tool": "desk.get_mail", "arguments": { "to": "{{ request }}" } },
            "agree": { "type": "human", "prompt": "Go on?" },
            "write": { "type": "agent", "agent": "clerk", "prompt": "Write to {{ request }}" },
        },
        "edges": [{ "from": "look", "to": "agree" }, { "from": "agree", "to": { "approve": "write" } }],
    });
    let office = office(workflow, Reply::text("Written.")).await;
    let waiting = office.ask("ann@example.org").await;
    let ended = office
        .answer(&waiting, json!({ "action": "approve" }))
        .await;
    let task = office
        .store
        .load(&Viewer::System, ended.facts.id, 1)
        .await
        .unwrap()
        .unwrap();
    let filter = convoke_store::Filter {
        parent: Some(ended.facts.id),
        ..convoke_store::Filter::default()
    };
    let page = office
        .store
        .query(&Viewer::System, filter, convoke_store::Page::default())
        .await;
    let child = page.unwrap().tasks.remove(0);
    let child = office
        .store
        .load(&Viewer::System, child.id, 1)
        .await
        .unwrap()
        .unwrap();
    let traced = trace(&task, &[&child], &Redaction::default()).unwrap();
    let names: Vec<_> = traced
        .steps
        .iter()
        .map(|step| step.step_name.as_str())
        .collect();
    assert_eq!(
        names,
        ["submitted", "look: desk.get_mail", "agree", "write: clerk"]
    );
    let call = &traced.steps[1].tool_calls[0];
    assert_eq!(call.arguments["to"], "[address]");
    assert_eq!(traced.steps[2].message, "approve");
    assert_eq!(traced.steps[3].agent.as_ref().unwrap().as_str(), "clerk");
    let session = traced.sub_agent_sessions.values().next().unwrap();
    assert_eq!(
        (session.session_id, session.agent.as_str()),
        (child.record.id, "clerk")
    );
    let inner = trace(&child, &[], &Redaction::default()).unwrap();
    let thought = inner
        .steps
        .iter()
        .find(|step| !step.llm_calls.is_empty())
        .unwrap();
    assert!(thought.llm_calls[0].input_tokens > 0);
    let whole = serde_json::to_string(&(traced, inner)).unwrap();
    assert!(!whole.contains("ann@example.org"), "{whole}");
    let kept = trace(&task, &[], &Redaction::nothing()).unwrap();
    assert!(
        serde_json::to_string(&kept)
            .unwrap()
            .contains("ann@example.org")
    );
}

#[tokio::test]
async fn what_a_node_cannot_even_ask_for_is_an_error_like_any_other() {
    let workflow = |on_error: Value| {
        json!({
            "name": "tries", "entry_point": "look",
            "nodes": {
                "look": { "type": "tool", "tool": "desk.get_it",
                    "arguments": { "what": "{{ 1 // request.nothing }}" }, "on_error": on_error },
                "other": { "type": "compose", "prompt": "Other: {{ look.error }}" },
            },
            "edges": [{ "from": "look", "to": "other" }],
        })
    };
    let failing = office(workflow(json!("fail")), no_model()).await;
    let ended = failing.ask("Look.").await;
    let cause = ended.error.unwrap();
    assert!(
        cause.starts_with("workflow.template: ") && cause.ends_with("(at node look)"),
        "{cause}"
    );
    for on_error in [json!("continue"), json!({ "goto": "other" })] {
        let going_on = office(workflow(on_error), no_model()).await;
        let said = text(&going_on.ask("Look.").await).to_owned();
        assert!(said.starts_with("Other: workflow.template"), "{said}");
    }
}
