//! Rules of the types of a running task.

use convoke_model::{
    AgentResult, Answer, Checkpoint, Confidence, Conversation, Decision, HumanFeedback, LlmCall,
    Message, Name, Request, StepRecord, Task, ToolCall, Trace, UserId,
};
use serde_json::{Value, json};

use super::{EARLY, LATE, NIL, ONE, rejects};

pub(crate) fn user_message() -> Value {
    json!({ "role": "user", "content": "remind me to buy milk", "timestamp": EARLY })
}

pub(crate) fn pending_call() -> Value {
    json!({ "id": NIL, "server": "todo", "tool": "add_task", "arguments": { "title": "buy milk" } })
}

pub(crate) fn completed_call() -> Value {
    json!({
        "id": NIL, "server": "genie", "tool": "query", "domain": "inventory",
        "status": "completed", "result": { "answer": 50 },
        "started_at": EARLY, "completed_at": LATE, "duration_ms": 7_000,
    })
}

#[test]
fn a_name_keeps_its_pattern() {
    rejects::<Name>(
        &json!("light-agent"),
        &[(json!("Light Agent"), "name.pattern")],
    );
}

#[test]
fn a_user_id_is_a_uuid() {
    rejects::<UserId>(&json!(NIL), &[(json!("ann"), "user.id_malformed")]);
}

#[test]
fn a_confidence_lies_between_zero_and_one() {
    rejects::<Confidence>(
        &json!(0.5),
        &[
            (json!(1.5), "confidence.range"),
            (json!(-0.5), "confidence.range"),
        ],
    );
}

#[test]
fn a_message_keeps_its_rules() {
    rejects::<Message>(
        &user_message(),
        &[
            (json!({ "content": " \n" }), "message.content_empty"),
            (json!({ "content": null }), "message.content_empty"),
            (
                json!({ "tool_calls": [pending_call()] }),
                "message.tool_calls_role",
            ),
            (
                json!({ "role": "tool", "tool_calls": [pending_call()] }),
                "message.tool_calls_role",
            ),
            (
                json!({ "tool_call_id": "call_1" }),
                "message.tool_call_id_role",
            ),
            (json!({ "agent": "planner" }), "message.agent_role"),
        ],
    );
    let calls_only = json!({ "role": "assistant", "tool_calls": [pending_call()] });
    rejects::<Message>(
        &calls_only,
        &[(json!({ "tool_calls": [] }), "message.content_empty")],
    );
}

#[test]
fn the_parts_of_a_message_keep_their_rules() {
    let hash = "0123456789abcdef".repeat(4);
    let text = json!({ "kind": "text", "text": "milk" });
    let file = json!({
        "kind": "file", "name": "list.csv", "media_type": "text/csv", "blob": hash, "bytes": 9,
    });
    let image = json!({ "kind": "image", "media_type": "image/png", "blob": hash, "bytes": 9 });
    let data = json!({ "kind": "data", "data": { "milk": 2 } });
    let changed = |part: &Value, field: &str, value: &str| {
        let mut part = part.clone();
        part[field] = value.into();
        json!({ "parts": [part] })
    };
    let many = vec![text.clone(); 65];
    let wrong_names = ["", "..", "a/b", "a\\b", "a\nb"];
    let mut cases = vec![
        (changed(&text, "text", " "), "part.text_empty"),
        (changed(&file, "media_type", "csv"), "part.media_type"),
        (changed(&file, "media_type", "a/b/c"), "part.media_type"),
        (changed(&image, "media_type", "text/csv"), "part.image_type"),
        (changed(&image, "blob", "0123"), "blob.hash_malformed"),
        (
            changed(&image, "blob", &hash.to_uppercase()),
            "blob.hash_malformed",
        ),
        (json!({ "parts": many }), "message.too_many_parts"),
    ];
    cases.extend(wrong_names.map(|name| (changed(&file, "name", name), "part.file_name")));
    let message = json!({ "role": "user", "parts": [text, file, image, data] });
    rejects::<Message>(&message, &cases);
    let read: Message = super::read(&message);
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(written["parts"], message["parts"]);
    let plain: Message = super::read(&user_message());
    assert!(plain.parts.is_empty());
    assert_eq!(serde_json::to_value(&plain).unwrap(), user_message());
}

#[test]
fn a_tool_call_keeps_its_rules() {
    rejects::<ToolCall>(
        &pending_call(),
        &[
            (json!({ "tool": " " }), "tool_call.tool_empty"),
            (json!({ "result": 1 }), "tool_call.result_early"),
            (json!({ "error": "no" }), "tool_call.error_unfounded"),
            (
                json!({ "schema_mismatch": "/n: no number" }),
                "tool_call.mismatch_unfounded",
            ),
            (
                json!({ "result": 1, "error": "no" }),
                "tool_call.result_and_error",
            ),
            (json!({ "started_at": EARLY }), "tool_call.started_early"),
            (
                json!({ "status": "in_progress" }),
                "tool_call.started_missing",
            ),
            (
                json!({ "completed_at": EARLY }),
                "tool_call.completed_early",
            ),
            (json!({ "status": "completed" }), "tool_call.result_missing"),
            (json!({ "status": "failed" }), "tool_call.error_missing"),
            (
                json!({ "status": "timeout", "error": "" }),
                "tool_call.error_missing",
            ),
        ],
    );
    rejects::<ToolCall>(
        &completed_call(),
        &[
            (json!({ "duration_ms": 6_999 }), "tool_call.duration"),
            (json!({ "duration_ms": null }), "tool_call.duration"),
            (
                json!({ "started_at": LATE, "completed_at": EARLY }),
                "tool_call.times",
            ),
            (json!({ "error": "no" }), "tool_call.result_and_error"),
        ],
    );
}

#[test]
fn a_conversation_keeps_its_rules() {
    let conversation = json!({
        "session_id": NIL, "channel": "sms", "messages": [user_message()],
        "created_at": EARLY, "last_updated": LATE,
    });
    let reply = json!({ "role": "assistant", "content": "hello" });
    rejects::<Conversation>(
        &conversation,
        &[
            (json!({ "messages": [] }), "conversation.first_message"),
            (json!({ "messages": [reply] }), "conversation.first_message"),
            (
                json!({ "created_at": LATE, "last_updated": EARLY }),
                "conversation.times",
            ),
        ],
    );
    let without_uuid = json!({ "session_id": "session-xyz-789" });
    let mut wrong = conversation.clone();
    super::merge(&mut wrong, &without_uuid);
    assert!(serde_json::from_value::<Conversation>(wrong).is_err());
}

#[test]
fn a_request_keeps_its_rules() {
    let request = json!({ "user_id": NIL, "message": "remind me to buy milk" });
    let history = vec![user_message(); 51];
    rejects::<Request>(
        &request,
        &[
            (json!({ "message": " \n " }), "request.message_empty"),
            (
                json!({ "message": "x".repeat(2_001) }),
                "request.message_long",
            ),
            (json!({ "history": history }), "request.history_long"),
            (
                json!({ "conversation_history": history }),
                "request.history_long",
            ),
            (json!({ "user_id": "ann" }), "user.id_malformed"),
            (
                json!({ "limits": { "message_characters": 0 } }),
                "request_limits.zero",
            ),
        ],
    );
    let longest = json!({ "message": format!(" {} ", "x".repeat(2_000)) });
    super::read::<Request>(&longest);
}

#[test]
fn a_task_keeps_its_rules() {
    let task = json!({
        "id": NIL, "session_id": NIL, "description": "buy milk", "status": "pending",
        "created_at": EARLY,
    });
    let ended = json!({
        "status": "failed", "error": "no milk", "started_at": EARLY, "completed_at": LATE,
    });
    let but = |change: Value| {
        let mut whole = ended.clone();
        super::merge(&mut whole, &change);
        whole
    };
    rejects::<Task>(
        &task,
        &[
            (json!({ "description": "" }), "task.description_empty"),
            (json!({ "parent_task_id": NIL }), "task.parent_self"),
            (json!({ "retention_days": 0 }), "task.retention_zero"),
            (json!({ "result": "bought" }), "task.result_early"),
            (json!({ "error": "no" }), "task.error_unfounded"),
            (json!({ "started_at": LATE }), "task.started_early"),
            (json!({ "completed_at": LATE }), "task.completed_at"),
            (json!({ "status": "completed" }), "task.completed_at"),
            (
                json!({ "status": "working", "started_at": "2025-01-01T00:00:00Z" }),
                "task.started_before_created",
            ),
            (but(json!({ "error": null })), "task.error_missing"),
            (but(json!({ "result": "bought" })), "task.result_and_error"),
            (
                but(json!({ "status": "completed" })),
                "task.error_unfounded",
            ),
            (
                but(json!({ "started_at": LATE, "completed_at": EARLY })),
                "task.completed_before_started",
            ),
        ],
    );
    let mut failed = task;
    super::merge(&mut failed, &ended);
    super::read::<Task>(&failed);
}

#[test]
fn a_decision_keeps_its_rules() {
    let target = json!({ "name": "inventory", "confidence": 0.9 });
    let decision =
        json!({ "asked": "what is in stock?", "targets": [target], "decided_by": "local" });
    rejects::<Decision>(
        &decision,
        &[
            (json!({ "asked": "" }), "decision.asked_empty"),
            (json!({ "targets": [] }), "decision.targets_empty"),
            (
                json!({ "targets": [target, target] }),
                "decision.target_twice",
            ),
            (json!({ "ambiguous": true }), "decision.reasoning_missing"),
            (
                json!({ "targets": [], "clarifying_question": " " }),
                "decision.question_empty",
            ),
            (
                json!({ "targets": [{ "name": "inventory", "confidence": 2 }] }),
                "confidence.range",
            ),
        ],
    );
    let clarifying = json!({ "targets": [], "clarifying_question": "which stock?" });
    let mut asks = decision;
    super::merge(&mut asks, &clarifying);
    super::read::<Decision>(&asks);
}

#[test]
fn an_answer_keeps_its_rules() {
    let answer = json!({
        "text": "50 units", "sources": ["inventory.genie"], "tool_calls": [completed_call()],
    });
    rejects::<Answer>(
        &answer,
        &[
            (json!({ "text": " " }), "answer.text_empty"),
            (
                json!({ "suggestions": ["a", "b", "c", "d"] }),
                "answer.suggestions_many",
            ),
            (json!({ "sources": [] }), "answer.source_missing"),
            (
                json!({ "sources": ["pricing.genie"] }),
                "answer.source_missing",
            ),
        ],
    );
}

#[test]
fn an_agent_result_keeps_its_rules() {
    let result = json!({ "agent": "light-agent", "success": true, "content": "the lights are on" });
    rejects::<AgentResult>(
        &result,
        &[
            (json!({ "success": false }), "agent_result.error_missing"),
            (
                json!({ "error_message": "HTTP 503" }),
                "agent_result.error_unfounded",
            ),
        ],
    );
}

#[test]
fn human_feedback_keeps_its_rules() {
    let changes = json!({ "next_action": "send" });
    rejects::<HumanFeedback>(
        &json!({ "action": "approve" }),
        &[
            (json!({ "action": "modify" }), "feedback.nothing_modified"),
            (
                json!({ "state_updates": changes }),
                "feedback.changes_unasked",
            ),
            (
                json!({ "action": "reject", "arguments": {} }),
                "feedback.changes_unasked",
            ),
        ],
    );
}

#[test]
fn a_checkpoint_keeps_its_rules() {
    let checkpoint = json!({
        "checkpoint_id": NIL, "task_id": NIL, "state": {}, "position": "review", "sequence": 0,
        "created_at": LATE,
    });
    let approve = json!({ "action": "approve" });
    rejects::<Checkpoint>(
        &checkpoint,
        &[
            (
                json!({ "feedback": approve, "resumed_at": LATE, "awaiting_human": true }),
                "checkpoint.awaiting_answered",
            ),
            (json!({ "feedback": approve }), "checkpoint.resumed_at"),
            (json!({ "resumed_at": LATE }), "checkpoint.resumed_at"),
            (
                json!({ "feedback": approve, "resumed_at": EARLY }),
                "checkpoint.times",
            ),
        ],
    );
}

#[test]
fn a_step_and_a_model_call_keep_their_rules() {
    let step = json!({ "step_name": "act", "timestamp": EARLY, "status": "info" });
    rejects::<StepRecord>(
        &step,
        &[
            (json!({ "step_name": "" }), "step.name_empty"),
            (json!({ "status": "error" }), "step.error"),
            (json!({ "error": "no" }), "step.error"),
            (
                json!({ "tool_calls": [pending_call()] }),
                "step.tool_call_pending",
            ),
        ],
    );
    let call = json!({ "model": "small", "started_at": EARLY, "success": true });
    rejects::<LlmCall>(
        &call,
        &[
            (json!({ "model": "" }), "llm_call.model_empty"),
            (json!({ "success": false }), "llm_call.error"),
            (json!({ "error": "no" }), "llm_call.error"),
        ],
    );
}

#[test]
fn a_trace_keeps_its_rules() {
    let trace = json!({ "task_id": NIL, "created_at": EARLY, "updated_at": LATE });
    let session = json!({ "session_id": ONE, "agent": "researcher", "message_count": 0, "status": "running" });
    rejects::<Trace>(
        &trace,
        &[
            (
                json!({ "created_at": LATE, "updated_at": EARLY }),
                "trace.times",
            ),
            (
                json!({ "sub_agent_sessions": { NIL: session } }),
                "trace.session_key",
            ),
        ],
    );
}
