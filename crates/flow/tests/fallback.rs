//! Fallback tools: the same for agents, workflows, skills and data domains. Another tool is called only in place of a call
//! that certainly changed nothing, and every attempt is told.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use convoke_engine::{Failure, FailureKind, Options, TaskOutcome};
use convoke_flow::trace;
use convoke_model::{Redaction, TaskState, ToolCallStatus};
use convoke_store::Viewer;
use convoke_testkit::Reply;
use office::{Office, Setting, failure, lost};
use serde_json::{Value, json};
use std::time::Duration;

/// The office's usual tool `pay` falls back to `pay_later`, and that is all.
async fn office(setting: Setting) -> Office {
    let setting = Setting {
        worker: Options {
            repeat_pause: Duration::from_millis(1),
            ..Options::for_worker("w")
        },
        ..setting
    };
    let replies = vec![
        Reply::tool_calls([("pay", json!({ "amount": 1 }))]),
        Reply::text("Well."),
    ];
    Office::set_up(setting, replies).await
}

/// One node that pays.
fn workflow(node: &Value) -> Setting {
    let mut pay = json!({ "type": "tool", "tool": "desk.pay", "arguments": { "amount": 1 } });
    let keys = node.as_object().unwrap().clone();
    pay.as_object_mut().unwrap().extend(keys);
    let workflow = json!({
        "name": "main", "nodes": { "pay": pay }, "entry_point": "pay",
        "answer": "{{ pay }}",
    });
    Setting {
        workflows: vec![workflow],
        ..Setting::default()
    }
}

/// One skill that pays.
fn skill() -> Setting {
    let skill = json!({
        "name": "pay", "description": "pays", "sentences": ["pay now"],
        "action": { "tool": "desk.pay", "arguments": { "amount": 1 }, "reply": "{{ result }}",
            "failure": "No: {{ error }}" },
    });
    Setting {
        agent: json!({ "skills": [skill] }),
        ..Setting::default()
    }
}

/// One domain that is queried by what pays elsewhere.
fn domain() -> Setting {
    let domain = json!({
        "name": "till", "display_name": "Till", "description": "What was paid.",
        "capabilities": ["paying"], "examples": ["pay now", "what was paid"], "keywords": ["pay"],
        "mcp_tools": [{ "tool": "desk.pay", "gives": "result['did']" }],
    });
    Setting {
        domains: vec![domain],
        ..Setting::default()
    }
}

/// Everything that calls tools, by a name.
fn callers() -> Vec<(&'static str, Setting)> {
    vec![
        ("agent", Setting::default()),
        ("workflow", workflow(&json!({}))),
        ("skill", skill()),
        ("domain", domain()),
    ]
}

fn called(office: &Office) -> Vec<String> {
    office.calls().into_iter().map(|(tool, _)| tool).collect()
}

/// The calls of an answer: the tool, its status and its error.
fn told(ended: &TaskOutcome) -> Vec<(String, ToolCallStatus, Option<String>)> {
    let calls = &ended.answer.as_ref().unwrap().tool_calls;
    calls
        .iter()
        .map(|call| (call.tool.clone(), call.status, call.error.clone()))
        .collect()
}

/// The steps of a trace that called tools.
async fn tool_steps(office: &Office, ended: &TaskOutcome) -> Vec<Value> {
    let id = ended.facts.id;
    let task = office.store.load(&Viewer::System, id, 1).await.unwrap();
    let trace = trace(&task.unwrap(), &[], &Redaction::default()).unwrap();
    let trace = serde_json::to_value(&trace).unwrap();
    let steps = trace["steps"].as_array().unwrap().iter();
    steps
        .filter(|step| step["action"] == "tool")
        .cloned()
        .collect()
}

#[tokio::test]
async fn whoever_calls_gets_the_fallback_and_both_attempts_are_told() {
    for (caller, setting) in callers() {
        let office = office(setting).await;
        office.tool("pay", |_| Err(failure("no till")));
        let ended = office.ask("pay now").await;
        assert_eq!(ended.status, TaskState::Completed, "{caller}: {ended:?}");
        assert_eq!(called(&office), ["pay", "pay_later"], "{caller}");
        let amount = |(_, arguments): &(String, Value)| arguments.clone();
        let calls = office.calls();
        assert_eq!(amount(&calls[0]), amount(&calls[1]), "{caller}");

        let told = told(&ended);
        let [first, second] = told.as_slice() else {
            panic!("{caller}: {told:?}");
        };
        assert_eq!(
            (first.0.as_str(), first.1),
            ("pay", ToolCallStatus::Failed),
            "{caller}"
        );
        let error = first.2.as_ref().unwrap();
        assert!(error.contains("no till"), "{caller}: {error}");
        assert_eq!(
            *second,
            ("pay_later".into(), ToolCallStatus::Completed, None),
            "{caller}"
        );

        let steps = tool_steps(&office, &ended).await;
        let [failed, made] = steps.as_slice() else {
            panic!("{caller}: {steps:?}");
        };
        let error = failed["error"].as_str().unwrap();
        assert!(error.contains("no till"), "{caller}: {failed}");
        assert_eq!(
            made["input_data"]["instead_of"][0]["tool"], "desk.pay",
            "{caller}: {made}"
        );
    }
}

#[tokio::test]
async fn a_tool_that_says_that_it_failed_changed_nothing_and_has_a_fallback() {
    for (caller, setting) in callers() {
        let office = office(setting).await;
        office.tool_server.decline("pay", "the till is closed");
        office.ask("pay now").await;
        assert_eq!(called(&office), ["pay", "pay_later"], "{caller}");
    }
}

#[tokio::test]
async fn nothing_takes_the_place_of_a_call_that_may_have_taken_effect() {
    let answered = || Failure {
        kind: FailureKind::Answered,
        ..failure("internal error")
    };
    for fault in [answered(), lost("the line went dead")] {
        for (caller, setting) in callers() {
            let keyed = json!({
                "honours_idempotency_key": true,
                "tools": { "pay": { "fallback_tools": ["desk.pay_later"] } },
            });
            let setting = Setting {
                server: keyed,
                ..setting
            };
            let office = office(setting).await;
            let fault = fault.clone();
            office.tool("pay", move |_| Err(fault.clone()));
            office.ask("pay now").await;
            let called = called(&office);
            assert!(
                called.iter().all(|tool| tool == "pay"),
                "{caller}: {called:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_error_of_the_last_attempt_tells_of_those_before_it() {
    for (caller, setting) in callers() {
        let office = office(setting).await;
        office.tool("pay", |_| Err(failure("no till")));
        office.tool("pay_later", |_| Err(failure("no credit")));
        let ended = office.ask("pay now").await;
        let told = told(&ended);
        let errors: Vec<_> = told
            .iter()
            .filter_map(|(_, _, error)| error.as_ref())
            .collect();
        assert_eq!(errors.len(), 2, "{caller}: {told:?}");
        assert!(errors[0].contains("no till"), "{caller}: {errors:?}");
        assert!(errors[1].contains("no credit"), "{caller}: {errors:?}");
        let cause = match caller {
            "agent" => office.shown(1)[3]["content"].as_str().unwrap().to_owned(),
            _ => ended
                .error
                .clone()
                .unwrap_or_else(|| json!(ended.answer).to_string()),
        };
        for part in ["no credit", "desk.pay failed before", "no till"] {
            assert!(cause.contains(part), "{caller}: {cause}");
        }
    }
}

#[tokio::test]
async fn a_model_is_told_which_tool_answered_and_why() {
    let office = office(Setting::default()).await;
    office.tool("pay", |_| Err(failure("no till")));
    office.ask("pay now").await;
    let told = office.shown(1)[3]["content"].as_str().unwrap().to_owned();
    for part in ["pay_later", "desk.pay failed before", "no till"] {
        assert!(told.contains(part), "{told}");
    }
}

#[tokio::test]
async fn every_item_of_a_list_has_its_own_fallback() {
    let each = json!({ "map": { "over": "[1, 2, 3]" }, "arguments": { "amount": "{{ item }}" } });
    let office = office(workflow(&each)).await;
    office.tool("pay", |arguments| match arguments["amount"].as_i64() {
        Some(2) => Err(failure("no till")),
        _ => Ok(json!("paid")),
    });
    let ended = office.ask("pay now").await;
    let output = &ended.answer.as_ref().unwrap().metadata["output"]["pay"];
    assert_eq!(*output, json!(["paid", { "did": "pay_later" }, "paid"]));
    let fallbacks = office.calls().into_iter();
    let fallbacks: Vec<_> = fallbacks.filter(|(tool, _)| tool == "pay_later").collect();
    assert_eq!(fallbacks, [("pay_later".into(), json!({ "amount": 2 }))]);
}

#[tokio::test]
async fn a_retry_of_a_node_begins_with_the_tool_itself() {
    let node = json!({ "retries": 1, "retry_delay_ms": 1, "on_error": "continue" });
    let office = office(workflow(&node)).await;
    office.tool("pay", |_| Err(failure("no till")));
    office.tool("pay_later", |_| Err(failure("no credit")));
    let ended = office.ask("pay now").await;
    let expected = ["pay", "pay_later", "pay", "pay_later"];
    assert_eq!(called(&office), expected);
    let told = told(&ended);
    let told: Vec<_> = told.iter().map(|(tool, ..)| tool.as_str()).collect();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_fallback_counts_as_a_call_of_its_workflow() {
    let mut setting = workflow(&json!({}));
    setting.workflows[0]["max_iterations"] = json!(1);
    let office = office(setting).await;
    office.tool("pay", |_| Err(failure("no till")));
    let ended = office.ask("pay now").await;
    assert_eq!(called(&office), ["pay"]);
    assert!(ended.error.unwrap().contains("no till"));
}

#[tokio::test]
async fn a_fallback_needs_its_own_approval_and_none_follows_a_rejection() {
    let server = json!({ "tools": {
        "pay": { "approval": "required", "fallback_tools": ["desk.sign"] },
        "sign": { "approval": "required" },
    } });
    for (caller, setting) in [("workflow", workflow(&json!({}))), ("skill", skill())] {
        let setting = || Setting {
            server: server.clone(),
            agent: setting.agent.clone(),
            workflows: setting.workflows.clone(),
            ..Setting::default()
        };
        let rejecting = office(setting()).await;
        let waiting = rejecting.ask("pay now").await;
        rejecting
            .answer(&waiting, json!({ "action": "reject" }))
            .await;
        assert!(rejecting.calls().is_empty(), "{caller}");

        let office = office(setting()).await;
        office.tool("pay", |_| Err(failure("no till")));
        let task = office.submit("pay now").await;
        let ended = office
            .see_through(task, |_| json!({ "action": "approve" }))
            .await;
        assert_eq!(ended.status, TaskState::Completed, "{caller}");
        assert_eq!(called(&office), ["pay", "sign"], "{caller}");
        let kinds = office.journal(task).await;
        let answers = kinds.iter().filter(|kind| *kind == "answered").count();
        assert_eq!(answers, 2, "{caller}: one approval for each tool");
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_go_to_no_other_tool() {
    for (caller, setting) in callers() {
        let office = office(setting).await;
        office.tool("pay", |_| {
            Err(Failure {
                code: "mcp.bad_arguments".into(),
                ..failure("amount: no number")
            })
        });
        office.ask("pay now").await;
        assert_eq!(called(&office), ["pay"], "{caller}");
    }
}

#[tokio::test]
async fn a_result_that_does_not_fit_its_schema_counts_as_a_result() {
    for (caller, setting) in callers() {
        let office = office(setting).await;
        office.tool_server.misfit("pay", "/did: no number");
        let ended = office.ask("pay now").await;
        assert_eq!(
            called(&office),
            ["pay"],
            "{caller}: what was done is not done again"
        );
        let calls = &ended.answer.as_ref().unwrap().tool_calls;
        assert_eq!(calls[0].status, ToolCallStatus::Completed, "{caller}");
        assert_eq!(
            calls[0].schema_mismatch.as_deref(),
            Some("/did: no number"),
            "{caller}"
        );
        let steps = tool_steps(&office, &ended).await;
        assert_eq!(steps[0]["status"], "warning", "{caller}: {steps:?}");
        assert_eq!(
            steps[0]["tool_calls"][0]["schema_mismatch"], "/did: no number",
            "{caller}"
        );
        if caller == "agent" {
            let told = office.shown(1)[3]["content"].as_str().unwrap().to_owned();
            assert!(told.contains("/did: no number"), "{told}");
        }
    }
}
