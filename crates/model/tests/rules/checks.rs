//! Rules that need more than one value: the app's names, transitions and whole lists.

use convoke_model::{
    Catalogue, ChannelSpec, Checkpoint, Decision, Domain, ExecutionPlan, FormattedResponse,
    Invalid, Name, PlanStatus, Scorecard, SubAgentSession, Tool, ToolCall, ValidationResult,
    Workflow,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::config::{domain, tool, workflow};
use super::quality::{plan, scorecard};
use super::runtime::{completed_call, pending_call};
use super::{EARLY, LATE, NIL, ONE, read};

fn names(names: &[&str]) -> std::collections::BTreeSet<Name> {
    names.iter().map(|name| Name::new(name).unwrap()).collect()
}

fn catalogue() -> Catalogue {
    Catalogue {
        agents: names(&["timesheet", "writer"]),
        domains: names(&["inventory", "pricing"]),
        skills: names(&["create_task"]),
        tools: ["genie.query", "mail.send", "todo.add_task"]
            .map(String::from)
            .into(),
    }
}

fn has(result: Result<impl std::fmt::Debug, Invalid>, code: &str) {
    let invalid = result.unwrap_err();
    assert!(invalid.has(code), "{invalid}");
}

#[test]
fn the_tool_and_the_domain_of_a_call_are_registered() {
    let call: ToolCall = read(&completed_call());
    assert_eq!(call.check_against(&catalogue()), Ok(()));
    has(
        call.check_against(&Catalogue::default()),
        "tool_call.tool_unknown",
    );
    has(
        call.check_against(&Catalogue::default()),
        "tool_call.domain_unknown",
    );
}

#[test]
fn the_targets_of_a_decision_are_in_the_catalogue() {
    let to = |name: &str| -> Decision {
        let target = json!({ "name": name, "confidence": 1 });
        read(&json!({ "asked": "?", "targets": [target], "decided_by": "model" }))
    };
    for name in ["timesheet", "pricing", "create-task"] {
        assert_eq!(to(name).check_against(&catalogue()), Ok(()), "{name}");
    }
    has(
        to("nobody").check_against(&catalogue()),
        "decision.target_unknown",
    );
}

#[test]
fn the_agents_of_a_plan_exist() {
    let plan: ExecutionPlan = read(&plan(NIL));
    assert_eq!(plan.check_against(&catalogue()), Ok(()));
    has(
        plan.check_against(&Catalogue::default()),
        "plan.agent_unknown",
    );
}

#[test]
fn the_tools_and_related_domains_of_a_domain_exist() {
    let domain: Domain = read(&domain());
    assert_eq!(domain.check_against(&catalogue()), Ok(()));
    has(
        domain.check_against(&Catalogue::default()),
        "domain.tool_unknown",
    );
    has(
        domain.check_against(&Catalogue::default()),
        "domain.related_unknown",
    );
}

#[test]
fn the_agents_and_tools_of_a_workflow_exist() {
    let workflow: Workflow = read(&workflow());
    assert_eq!(workflow.check_against(&catalogue()), Ok(()));
    has(
        workflow.check_against(&Catalogue::default()),
        "workflow.agent_unknown",
    );
    has(
        workflow.check_against(&Catalogue::default()),
        "workflow.tool_unknown",
    );
}

#[test]
fn arguments_are_checked_against_the_tools_schema() {
    let tool: Tool = read(&tool("add_task", &[]));
    let arguments = |value: Value| value.as_object().unwrap().clone();
    assert_eq!(
        tool.check_arguments(&arguments(json!({ "title": "milk" }))),
        Ok(())
    );
    for wrong in [json!({}), json!({ "title": "" }), json!({ "title": 5 })] {
        has(tool.check_arguments(&arguments(wrong)), "tool.arguments");
    }
    assert_eq!(tool.as_function()["function"]["name"], "add_task");
}

#[test]
fn arguments_that_exceed_the_check_budget_are_rejected() {
    let circle = json!({ "type": "object", "allOf": [{ "$ref": "#" }] });
    let tool: Tool = read(&tool("add_task", &[]));
    let tool = tool.with(|fields| fields.input_schema = circle).unwrap();
    has(
        tool.check_arguments(&serde_json::Map::new()),
        "tool.arguments_too_complex",
    );
}

#[test]
fn fallbacks_must_exist_and_terminate() {
    let tools = |list: &[(&str, &[&str])]| -> Vec<Tool> {
        list.iter()
            .map(|(name, fallbacks)| read(&tool(name, fallbacks)))
            .collect()
    };
    let chain = tools(&[("a", &["b"]), ("b", &["todo.c"]), ("c", &[])]);
    assert_eq!(Tool::check_fallbacks(&chain), Ok(()));
    has(
        Tool::check_fallbacks(&tools(&[("a", &["b"])])),
        "tool.fallback_unknown",
    );
    let circle = Tool::check_fallbacks(&tools(&[("a", &["b"]), ("b", &["todo.a"])]));
    let message = circle.clone().unwrap_err().to_string();
    assert!(message.contains("todo.a → todo.b → todo.a"), "{message}");
    has(circle, "tool.fallback_cycle");
    has(
        Tool::check_fallbacks(&tools(&[("a", &["a"])])),
        "tool.fallback_cycle",
    );
}

#[test]
fn a_tool_call_moves_forward_only() {
    let at: Timestamp = EARLY.parse().unwrap();
    let later: Timestamp = LATE.parse().unwrap();
    let pending = || read::<ToolCall>(&pending_call());
    let started = || pending().start(at).unwrap();
    has(pending().complete(json!(1), later), "tool_call.move");
    has(pending().fail("no", later), "tool_call.move");
    has(pending().time_out("late", later), "tool_call.move");
    has(started().start(at), "tool_call.move");
    let done = started().complete(Value::Null, later).unwrap();
    assert_eq!(done.duration_ms, Some(7_000));
    assert_eq!(
        done.result,
        Some(json!({})),
        "a tool that gives nothing gives an empty object"
    );
    has(done.clone().start(at), "tool_call.move");
    has(done.fail("no", later), "tool_call.move");
    has(
        started().complete(json!(1), at - jiff::SignedDuration::from_secs(1)),
        "tool_call.times",
    );
    has(started().fail(" ", later), "tool_call.error_missing");
}

#[test]
fn a_plan_moves_forward_only() {
    let plan = || read::<ExecutionPlan>(&plan(NIL));
    has(plan().transition(PlanStatus::Completed), "plan.move");
    let running = plan().transition(PlanStatus::InProgress).unwrap();
    let failed = running.transition(PlanStatus::Failed).unwrap();
    has(failed.transition(PlanStatus::InProgress), "plan.move");
}

#[test]
fn a_session_that_has_ended_does_not_change() {
    let session: SubAgentSession = read(&json!({
        "session_id": NIL, "parent_task_id": ONE, "agent_name": "researcher",
        "task_description": "find milk", "status": "running", "created_at": EARLY,
    }));
    let done = session.clone().complete("found it").unwrap();
    has(done.clone().fail("lost it"), "session.move");
    has(done.complete("again"), "session.move");
    has(session.complete(""), "session.summary_missing");
}

#[test]
fn a_validation_result_agrees_with_its_scorecard() {
    let passed: Scorecard = read(&scorecard(true));
    let result = ValidationResult::of(&passed).unwrap();
    assert_eq!(result.check_against(&passed), Ok(()));
    let failed: Scorecard = read(&scorecard(false));
    has(result.check_against(&failed), "validation.disagrees");
    let other = passed
        .with(|scorecard| scorecard.id = ONE.parse().unwrap())
        .unwrap();
    has(result.check_against(&other), "validation.scorecard_other");
    let open = other.judge("correct_format", true, None).unwrap();
    has(ValidationResult::of(&open), "validation.scorecard_open");
}

#[test]
fn a_response_follows_its_channel_specification() {
    let response = |content: &str| -> FormattedResponse {
        let whole = json!({
            "request_id": NIL, "channel": "whatsapp", "content": content, "formatted_at": LATE,
        });
        read(&whole)
    };
    let spec = ChannelSpec::of(convoke_model::Channel::WhatsApp);
    assert_eq!(response("**32** hours ✅").check_against(&spec), Ok(()));
    has(
        response("## Hours").check_against(&spec),
        "formatted.markdown",
    );
    has(
        response(&"x".repeat(4_097)).check_against(&spec),
        "formatted.too_long",
    );
    let plain = spec.with(|spec| spec.supports_emojis = false).unwrap();
    has(
        response("32 hours ✅").check_against(&plain),
        "formatted.emoji",
    );
    let teams = ChannelSpec::of(convoke_model::Channel::Teams);
    has(
        response("32 hours").check_against(&teams),
        "formatted.channel_other",
    );
}

#[test]
fn checkpoints_of_two_tasks_are_rejected() {
    let at = |task: &str, sequence: u64| -> Checkpoint {
        read(&json!({
            "checkpoint_id": NIL, "task_id": task, "state": {}, "position": "review",
            "sequence": sequence, "created_at": EARLY,
        }))
    };
    assert_eq!(
        Checkpoint::check_sequence(&[at(NIL, 0), at(NIL, 1)]),
        Ok(())
    );
    has(
        Checkpoint::check_sequence(&[at(NIL, 0), at(ONE, 1)]),
        "checkpoint.task_other",
    );
}
