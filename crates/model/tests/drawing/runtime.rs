//! Generators for the types of a running task.

use convoke_model::*;

use serde_json::{Map, json};

use super::Draw;

pub(crate) fn role(draw: &mut Draw) -> Role {
    draw.pick(&[Role::User, Role::Assistant, Role::Tool, Role::System])
}

pub(crate) fn tool_call_status(draw: &mut Draw) -> ToolCallStatus {
    use ToolCallStatus::{Completed, Failed, InProgress, Pending, Timeout};
    draw.pick(&[Pending, InProgress, Completed, Failed, Timeout])
}

pub(crate) fn tool_call(draw: &mut Draw) -> ToolCall {
    let started = draw.time();
    let ended = draw.after(started);
    let call = ToolCall::pending(draw.id(), draw.name(), draw.text(), draw.map())
        .and_then(|call| {
            call.with(|call| {
                call.model_call_id = draw.maybe(Draw::text);
                call.domain = draw.maybe(Draw::name);
            })
        })
        .unwrap();
    let status = tool_call_status(draw);
    if status == ToolCallStatus::Pending {
        return call;
    }
    let call = call.start(started).unwrap();
    let call = match status {
        ToolCallStatus::Completed => call.complete(draw.json(), ended),
        ToolCallStatus::Failed => call.fail(draw.text(), ended),
        ToolCallStatus::Timeout => call.time_out(draw.text(), ended),
        ToolCallStatus::Pending | ToolCallStatus::InProgress => Ok(call),
    };
    call.unwrap()
}

fn part(draw: &mut Draw) -> Part {
    let blob = BlobHash::of_digest([draw.byte(); 32]);
    let bytes = u64::from(draw.number());
    match draw.byte() % 4 {
        0 => Part::Text { text: draw.text() },
        1 => Part::File {
            name: format!("{}.csv", draw.name()),
            media_type: "text/csv".into(),
            blob,
            bytes,
        },
        2 => Part::Image {
            media_type: "image/png".into(),
            blob,
            bytes,
        },
        _ => Part::Data {
            data: serde_json::Value::Object(draw.map()),
        },
    }
}

pub(crate) fn message(draw: &mut Draw) -> Message {
    let role = role(draw);
    let assistant = role == Role::Assistant;
    let tool_calls = if assistant {
        draw.list(tool_call)
    } else {
        Vec::new()
    };
    Message::new(MessageFields {
        role,
        content: if tool_calls.is_empty() || draw.flag() {
            draw.text()
        } else {
            String::new()
        },
        tool_calls,
        tool_call_id: if role == Role::Tool {
            draw.maybe(Draw::text)
        } else {
            None
        },
        agent: if assistant {
            draw.maybe(Draw::name)
        } else {
            None
        },
        timestamp: draw.maybe(Draw::time),
        parts: draw.list(part),
        metadata: draw.map(),
    })
    .unwrap()
}

pub(crate) fn task_state(draw: &mut Draw) -> TaskState {
    draw.pick(&TaskState::ALL)
}

pub(crate) fn stage(draw: &mut Draw) -> Stage {
    use Stage::{Composing, Extracting, Formatting, Planning, Refining, Sending, Validating};
    draw.pick(&[
        Planning, Extracting, Composing, Formatting, Validating, Refining, Sending,
    ])
}

pub(crate) fn task_status(draw: &mut Draw) -> TaskStatus {
    TaskStatus {
        state: task_state(draw),
        stage: draw.maybe(stage),
        message: draw.maybe(message),
        timestamp: draw.maybe(Draw::time),
    }
}

pub(crate) fn task(draw: &mut Draw) -> Task {
    let status = task_status(draw);
    let state = status.state;
    let id = draw.id();
    let created_at = draw.time();
    let started = draw.after(created_at);
    let completed = draw.after(started);
    let failed = matches!(state, TaskState::Canceled | TaskState::Rejected) && draw.flag();
    Task::new(TaskFields {
        id,
        session_id: draw.maybe(Draw::id),
        owner: draw.maybe(Draw::user),
        description: draw.text(),
        status,
        assigned_agent: draw.maybe(Draw::name),
        parent_task_id: draw.maybe(Draw::id).filter(|parent| *parent != id),
        history: draw.list(message),
        decision: draw.maybe(decision),
        answer: draw.maybe(answer),
        result: (state == TaskState::Completed).then(|| draw.text()),
        error: (state == TaskState::Failed || failed).then(|| draw.text()),
        tags: draw.list(Draw::text),
        retention_days: draw.maybe(Draw::count),
        created_at,
        started_at: (state != TaskState::Submitted && draw.flag()).then_some(started),
        completed_at: state.is_final().then_some(completed),
    })
    .unwrap()
}

pub(crate) fn activity(draw: &mut Draw) -> Activity {
    draw.pick(&[Activity::Active, Activity::Idle])
}

pub(crate) fn conversation(draw: &mut Draw) -> Conversation {
    let started = draw.time();
    let first = Message::user(draw.text(), started).unwrap();
    let conversation = Conversation::begin(
        draw.id(),
        draw.maybe(Draw::user),
        draw.channel(),
        first,
        started,
    );
    let at = draw.after(started);
    let message = draw.list(message);
    message
        .into_iter()
        .try_fold(conversation.unwrap(), |conversation, message| {
            conversation.say(message, at)
        })
        .and_then(|conversation| conversation.with(|fields| fields.metadata = draw.map()))
        .unwrap()
}

pub(crate) fn request_limits(draw: &mut Draw) -> RequestLimits {
    RequestLimits {
        message_characters: usize::from(draw.byte()) + 20,
        history_messages: usize::from(draw.byte() % 3),
    }
}

pub(crate) fn request(draw: &mut Draw) -> Request {
    let limits = request_limits(draw);
    let message_text = draw.text();
    let history = draw.list(message);
    let request = Request::receive(draw.maybe(Draw::id), &message_text, history, &limits).unwrap();
    if draw.flag() {
        request.on(draw.channel(), draw.maybe(Draw::id))
    } else {
        request
    }
}

pub(crate) fn target(draw: &mut Draw) -> Target {
    Target {
        name: draw.name(),
        kind: target_kind(draw),
        agent: draw.maybe(Draw::name),
        request: draw.maybe(Draw::text),
        confidence: draw.confidence(),
        parameters: draw.map(),
    }
}

pub(crate) fn target_kind(draw: &mut Draw) -> TargetKind {
    draw.pick(&[TargetKind::Skill, TargetKind::Agent, TargetKind::Domain])
}

pub(crate) fn decided_by(draw: &mut Draw) -> DecidedBy {
    draw.pick(&[DecidedBy::Local, DecidedBy::Model, DecidedBy::Fallback])
}

pub(crate) fn decision(draw: &mut Draw) -> Decision {
    let targets: Vec<_> = draw
        .names()
        .into_iter()
        .map(|name| Target {
            name,
            ..target(draw)
        })
        .collect();
    Decision::new(DecisionFields {
        asked: draw.text(),
        clarifying_question: (targets.is_empty() || draw.flag()).then(|| draw.text()),
        targets,
        reasoning: draw.text(),
        ambiguous: draw.flag(),
        decided_by: decided_by(draw),
        dropped: draw.list(Draw::text),
    })
    .unwrap()
}

pub(crate) fn reliance(draw: &mut Draw) -> Reliance {
    draw.pick(&[Reliance::Low, Reliance::Medium, Reliance::High])
}

pub(crate) fn answer(draw: &mut Draw) -> Answer {
    let tool_calls = draw.list(tool_call);
    Answer::new(AnswerFields {
        text: draw.text(),
        sources: tool_calls.iter().map(|call| call.source()).collect(),
        tool_calls,
        suggestions: draw.list(Draw::text),
        confidence: reliance(draw),
        warnings: draw.list(Draw::text),
        partial_results: draw.flag(),
        total_execution_time_ms: draw.number().into(),
        metadata: draw.map(),
    })
    .unwrap()
}

pub(crate) fn agent_result(draw: &mut Draw) -> AgentResult {
    let success = draw.flag();
    AgentResult::new(AgentResultFields {
        agent: draw.name(),
        content: if success { draw.text() } else { String::new() },
        success,
        error_message: (!success).then(|| draw.text()),
        execution_time_ms: draw.number().into(),
    })
    .unwrap()
}

pub(crate) fn feedback_action(draw: &mut Draw) -> FeedbackAction {
    draw.pick(&[
        FeedbackAction::Approve,
        FeedbackAction::Reject,
        FeedbackAction::Modify,
    ])
}

pub(crate) fn step_status(draw: &mut Draw) -> StepStatus {
    draw.pick(&[StepStatus::Info, StepStatus::Warning, StepStatus::Error])
}

pub(crate) fn llm_call(draw: &mut Draw) -> LlmCall {
    let success = draw.flag();
    LlmCall::new(LlmCallFields {
        model: draw.text(),
        started_at: draw.time(),
        duration_ms: draw.number().into(),
        input_tokens: draw.number().into(),
        output_tokens: draw.number().into(),
        success,
        error: (!success).then(|| draw.text()),
    })
    .unwrap()
}

pub(crate) fn step_record(draw: &mut Draw) -> StepRecord {
    let status = step_status(draw);
    let mut tool_calls = draw.list(tool_call);
    tool_calls.retain(|call| call.status != ToolCallStatus::Pending);
    StepRecord::new(StepRecordFields {
        step_name: draw.text(),
        message: draw.text(),
        timestamp: draw.time(),
        status,
        agent: draw.maybe(Draw::name),
        action: draw.maybe(Draw::text),
        input_data: draw.map(),
        output_data: draw.map(),
        tool_calls,
        llm_calls: draw.list(llm_call),
        duration_ms: draw.number().into(),
        error: (status == StepStatus::Error).then(|| draw.text()),
    })
    .unwrap()
}

pub(crate) fn redaction(draw: &mut Draw) -> Redaction {
    let all = Redaction::default();
    Redaction {
        remove: all.remove.into_iter().filter(|_| draw.flag()).collect(),
        fields: draw.list(Draw::text),
    }
}

pub(crate) fn trace(draw: &mut Draw) -> Trace {
    let started = draw.time();
    let trace = Trace::begin(draw.id(), started).unwrap();
    let at = draw.after(started);
    let steps = draw.list(step_record);
    let trace = steps
        .into_iter()
        .try_fold(trace, |trace, step| {
            trace.record(step, &redaction(draw), at)
        })
        .unwrap();
    let sessions = draw.list(sub_agent_session_info);
    sessions
        .into_iter()
        .try_fold(trace, |trace, session| trace.follow(session, at))
        .unwrap()
}

pub(crate) fn session_status(draw: &mut Draw) -> SessionStatus {
    draw.pick(&[
        SessionStatus::Running,
        SessionStatus::Completed,
        SessionStatus::Failed,
    ])
}

pub(crate) fn state(draw: &mut Draw) -> State {
    State {
        messages: draw.list(message),
        next_action: draw.maybe(Draw::text),
        current_agent: draw.maybe(Draw::name),
        routing_key: draw.maybe(Draw::text),
        pending_operations: draw.list(Draw::json),
        started_at: draw.maybe(Draw::time),
        metadata: draw.map(),
    }
}

pub(crate) fn answerer(draw: &mut Draw) -> Answerer {
    Answerer {
        user: draw.user(),
        role: draw.pick(&[UserRole::User, UserRole::Operator, UserRole::Admin]),
    }
}

pub(crate) fn human_feedback(draw: &mut Draw) -> HumanFeedback {
    let action = feedback_action(draw);
    let modify = action == FeedbackAction::Modify;
    HumanFeedback::new(HumanFeedbackFields {
        action,
        message: draw.maybe(Draw::text),
        state_updates: if modify { draw.map() } else { Map::new() },
        arguments: modify.then(|| draw.map()),
        result: modify.then(|| json!(draw.text())),
        by: draw.maybe(answerer),
    })
    .unwrap()
}

pub(crate) fn checkpoint(draw: &mut Draw) -> Checkpoint {
    let created_at = draw.time();
    let feedback = draw.maybe(human_feedback);
    Checkpoint::new(CheckpointFields {
        checkpoint_id: draw.id(),
        task_id: draw.id(),
        state: state(draw),
        position: draw.name(),
        sequence: draw.number().into(),
        created_at,
        awaiting_human: feedback.is_none() && draw.flag(),
        resumed_at: feedback.is_some().then(|| draw.after(created_at)),
        feedback,
    })
    .unwrap()
}

pub(crate) fn sub_agent_session_info(draw: &mut Draw) -> SubAgentSessionInfo {
    SubAgentSessionInfo {
        session_id: draw.id(),
        agent: draw.name(),
        message_count: usize::from(draw.byte()),
        status: session_status(draw),
    }
}
