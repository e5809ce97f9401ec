//! What was done and cannot be put into words: whoever is told to try again does it twice.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use convoke_engine::TaskOutcome;
use convoke_model::TaskState;
use convoke_testkit::Reply;
use office::{Office, Setting};
use serde_json::{Value, json};

/// A template that every check passes, and that fails over what the tool gives.
const FAILS: &str = "Paid {{ 1 // result.nothing }}.";

async fn paying(reply: &str, app: Value) -> Office {
    let skill = json!({
        "name": "pay", "description": "Pays", "sentences": ["pay {sum}"], "slots": { "sum": {} },
        "action": { "tool": "desk.pay", "arguments": { "sum": "{{ sum }}" }, "reply": reply },
    });
    let setting = Setting {
        agent: json!({ "tools": ["desk.pay"], "skills": [skill] }),
        app,
        ..Setting::default()
    };
    Office::set_up(setting, Reply::text("The model was asked.")).await
}

async fn walking(nodes: Value, edges: Value, answer: &str) -> Office {
    let mut workflow =
        json!({ "name": "main", "entry_point": "pay", "nodes": nodes, "edges": edges });
    if !answer.is_empty() {
        workflow["answer"] = json!(answer);
    }
    let setting = Setting {
        workflows: vec![workflow],
        ..Setting::default()
    };
    Office::set_up(setting, Reply::text("The model was asked.")).await
}

fn text(ended: &TaskOutcome) -> &str {
    &ended.answer.as_ref().unwrap().text
}

fn names(office: &Office) -> Vec<String> {
    office.calls().into_iter().map(|call| call.0).collect()
}

#[tokio::test]
async fn what_a_tool_did_is_told_where_its_reply_cannot_be_rendered() {
    let office = paying(FAILS, json!({})).await;
    let ended = office.ask("pay 5").await;
    assert_eq!(names(&office), ["pay"]);
    assert_eq!(ended.status, TaskState::Completed, "{:?}", ended.error);
    assert_eq!(text(&ended), "Done: desk.pay.");
    let answer = ended.answer.as_ref().unwrap();
    assert_eq!(answer.tool_calls.len(), 1);
    let why = answer.metadata["reply_failed"].as_str().unwrap();
    assert!(why.starts_with("reply.template: template.failed"), "{why}");
}

#[tokio::test]
async fn a_reply_that_says_nothing_is_told_as_done_too() {
    let office = paying("{{ '' }}", json!({})).await;
    let ended = office.ask("pay 5").await;
    assert_eq!(text(&ended), "Done: desk.pay.");
    let why = &ended.answer.as_ref().unwrap().metadata["reply_failed"];
    assert!(why.as_str().unwrap().starts_with("reply.empty"), "{why}");
}

#[tokio::test]
async fn a_reply_with_a_misspelt_field_is_told_as_done_too() {
    let office = paying("Paid {{ result.smu }}.", json!({})).await;
    let ended = office.ask("pay 5").await;
    assert_eq!(text(&ended), "Done: desk.pay.");
    let why = &ended.answer.as_ref().unwrap().metadata["reply_failed"];
    let why = why.as_str().unwrap();
    assert!(why.contains("`result.smu` is undefined"), "{why}");
}

#[tokio::test]
async fn a_reply_without_end_is_told_as_done_too() {
    let office = paying("{{ result.did * 500000 }}", json!({})).await;
    let ended = office.ask("pay 5").await;
    assert_eq!(text(&ended), "Done: desk.pay.");
}

#[tokio::test]
async fn the_app_says_in_its_own_words_what_was_done() {
    let own = json!({ "messages": { "done": "Erledigt: {{ tools | join(' und ') }}" } });
    let office = paying(FAILS, own).await;
    assert_eq!(text(&office.ask("pay 5").await), "Erledigt: desk.pay");
    // Words that fail themselves are no reason to say nothing.
    let own = json!({ "messages": { "done": "{{ 1 // tools[9] }}" } });
    let office = paying(FAILS, own).await;
    assert_eq!(text(&office.ask("pay 5").await), "Done: desk.pay.");
}

#[tokio::test]
async fn a_workflow_whose_answer_fails_tells_what_it_did() {
    let nodes = json!({ "pay": { "type": "tool", "tool": "desk.pay" } });
    for answer in ["{{ 1 // pay.nothing }}", "{{ pay.nothing }}", "{{ '' }}"] {
        let office = walking(nodes.clone(), json!([]), answer).await;
        let ended = office.ask("Go.").await;
        assert_eq!(names(&office), ["pay"]);
        assert_eq!(ended.status, TaskState::Completed, "{:?}", ended.error);
        assert_eq!(text(&ended), "Done: desk.pay.");
        let answer = ended.answer.as_ref().unwrap();
        let why = answer.metadata["reply_failed"].as_str().unwrap();
        assert!(why.starts_with("workflow."), "{why}");
        assert_eq!(answer.metadata["output"]["pay"]["did"], "pay");
    }
}

#[tokio::test]
async fn a_workflow_that_fails_after_a_tool_reports_what_was_done() {
    let nodes = json!({
        "pay": { "type": "tool", "tool": "desk.pay" },
        "say": { "type": "compose", "prompt": "{{ 1 // pay.nothing }}" },
        "sign": { "type": "tool", "tool": "desk.get_mail" },
    });
    let edges = json!([{ "from": "pay", "to": "say" }, { "from": "say", "to": "sign" }]);
    let office = walking(nodes, edges, "").await;
    let ended = office.ask("Go.").await;
    assert_eq!(names(&office), ["pay"]);
    assert_eq!(ended.status, TaskState::Failed);
    let said = text(&ended);
    assert!(said.starts_with("This was done: desk.pay."), "{said}");
    assert!(!said.contains("try again"), "{said}");
    let cause = ended.error.unwrap();
    assert!(
        cause.starts_with("workflow.template: template.failed"),
        "{cause}"
    );
}

#[tokio::test]
async fn a_workflow_that_breaks_before_anything_was_done_says_so_as_ever() {
    let nodes = json!({
        "pay": { "type": "compose", "prompt": "{{ 1 // request.nothing }}" },
        "then": { "type": "tool", "tool": "desk.pay" },
    });
    let office = walking(nodes, json!([{ "from": "pay", "to": "then" }]), "").await;
    let ended = office.ask("Go.").await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(names(&office).is_empty());
    assert!(text(&ended).starts_with("Sorry"), "{}", text(&ended));
}
