//! Patterns around the agent loop: a plan before it, a critique after it, and a check of the answer against its schema.
//! Each is bounded by the agent's budget.

use convoke_engine::Step;
use convoke_llm::extract_json;
use convoke_model::{AgentFields, FailureCode, Message, Pattern};
use convoke_schema::Schema;
use serde::Deserialize;
use serde_json::Value;

use super::transcript::Thought;
use super::{Phase, agent_of, think};
use crate::calls::Request;
use crate::memory::Memory;
use crate::nodes::compose;
use crate::turn::Turn;

/// Phase of an agent's first thought.
pub(crate) fn first_phase(patterns: &[Pattern]) -> Phase {
    if patterns.contains(&Pattern::PlanExecute) {
        Phase::Plan
    } else {
        Phase::Think
    }
}

/// Prompt for a plan.
pub(crate) const PLAN: &str = "Make a short plan for the request: the steps, in order, that lead to \
     the answer. Reply with JSON only: {\"steps\": [\"…\"]}.";

/// Prompt for a critique.
pub(crate) const CRITIQUE: &str = "Judge the answer above strictly: is it correct, complete and based \
     on what was found? Reply with JSON only: {\"ok\": true} or {\"ok\": false, \"feedback\": \"what to \
     change\"}.";

/// Prompt when no more tool calls are allowed.
pub(crate) const CONCLUDE: &str =
    "You have no more tool calls. Answer now with what you know, and say what is missing.";

#[derive(Deserialize)]
struct Plan {
    steps: Vec<String>,
}

#[derive(Deserialize)]
struct Critique {
    ok: bool,
    #[serde(default)]
    feedback: String,
}

/// Starts the first step of a plan. If the plan cannot be parsed, the request is handled without one.
pub(crate) fn take_plan(turn: &mut Turn<'_>, thought: &Thought) -> Step<Request> {
    let most = agent_of(turn).map_or(1, |agent| agent.budget.plan_steps as usize);
    let plan =
        extract_json(&thought.text).and_then(|value| serde_json::from_value::<Plan>(value).ok());
    let steps: Vec<String> = plan
        .map(|plan| plan.steps)
        .unwrap_or_default()
        .into_iter()
        .filter(|step| !step.trim().is_empty())
        .take(most)
        .collect();
    let mut messages = Vec::new();
    if let Some(first) = steps.first() {
        messages.extend(Message::assistant(thought.text.clone(), turn.view.at));
        messages.extend(step_message(turn, first));
    }
    if let Some(run) = turn.state.run.as_mut() {
        run.plan = steps;
        run.phase = Phase::Think;
    }
    think(turn, messages)
}

fn step_message(turn: &Turn<'_>, step: &str) -> Option<Message> {
    Message::user(
        format!("Carry out this step of the plan: {step}"),
        turn.view.at,
    )
    .ok()
}

/// Handles an answer of the loop: it ends a step of the plan, becomes a draft for a critique, or is the final answer.
pub(crate) fn take_answer(turn: &mut Turn<'_>, agent: &AgentFields, text: &str) -> Step<Request> {
    if text.trim().is_empty() {
        let cause = FailureCode::AgentSaidNothing.because("the model said nothing");
        return compose::fail(turn, &cause);
    }
    if let Some(step) = next_step(turn) {
        let mut messages = Vec::new();
        messages.extend(Message::assistant(text, turn.view.at));
        messages.extend(step_message(turn, &step));
        return think(turn, messages);
    }
    if let Some(run) = turn.state.run.as_mut()
        && run
            .pattern_override
            .patterns(agent)
            .contains(&Pattern::Reflection)
        && run.reflections < agent.budget.reflections
    {
        run.reflections += 1;
        run.draft = Some(text.to_owned());
        run.phase = Phase::Critique;
        let mut messages = Vec::new();
        messages.extend(Message::assistant(text, turn.view.at));
        return think(turn, messages);
    }
    finish(turn, agent, text)
}

/// Removes the current step of the plan and returns the next one. After the last, asks for the final answer.
fn next_step(turn: &mut Turn<'_>) -> Option<String> {
    let run = turn.state.run.as_mut()?;
    if run.plan.is_empty() {
        return None;
    }
    run.plan.remove(0);
    run.phase = Phase::Think;
    match run.plan.first() {
        Some(step) => Some(step.clone()),
        None => Some("put together the final answer to the request from what was found".into()),
    }
}

pub(crate) fn take_critique(turn: &mut Turn<'_>, thought: &Thought) -> Step<Request> {
    let critique = extract_json(&thought.text)
        .and_then(|value| serde_json::from_value::<Critique>(value).ok());
    let agent = agent_of(turn);
    let draft = turn.state.run.as_mut().and_then(|run| run.draft.take());
    let (Some(agent), Some(draft)) = (agent, draft) else {
        return compose::fail(turn, "the draft to be judged is missing");
    };
    match critique {
        // If the critique cannot be parsed, the draft is the answer.
        None | Some(Critique { ok: true, .. }) => finish(turn, agent, &draft),
        Some(Critique { feedback, .. }) => {
            let text = format!("Revise your answer. What to change: {feedback}");
            if let Some(run) = turn.state.run.as_mut() {
                run.phase = Phase::Think;
            }
            let messages = Message::user(text, turn.view.at).into_iter().collect();
            think(turn, messages)
        }
    }
}

/// Ends the task with the agent's answer.
fn end_with(turn: &mut Turn<'_>, agent: &AgentFields, text: String) -> Step<Request> {
    let own = turn.state.run.as_ref().and_then(|run| run.intent.clone());
    let intent = own.unwrap_or_else(|| agent.name.to_string());
    let reply = compose::ComposedReply::of(text, &intent, Memory::default());
    compose::end_with_reply(turn, reply)
}

/// Ends the task if the answer fits the agent's schema; otherwise the model may correct it once.
fn finish(turn: &mut Turn<'_>, agent: &AgentFields, text: &str) -> Step<Request> {
    let Some(schema) = &agent.output_schema else {
        return end_with(turn, agent, text.to_owned());
    };
    match fitting(schema, text) {
        Ok(value) => {
            turn.state.output = Some(value.clone());
            end_with(turn, agent, value.to_string())
        }
        Err(complaint) => {
            let repaired = turn
                .state
                .run
                .as_mut()
                .map(|run| std::mem::replace(&mut run.repaired, true));
            if repaired == Some(true) {
                let why = format!("the answer does not fit its schema: {complaint}");
                return compose::fail(turn, &FailureCode::AgentOutputSchema.because(why));
            }
            if let Some(run) = turn.state.run.as_mut() {
                run.phase = Phase::Conclude;
            }
            let ask = format!("Your answer does not fit: {complaint}. Reply with the JSON only.");
            let mut messages = Vec::new();
            messages.extend(Message::assistant(text, turn.view.at));
            messages.extend(Message::user(ask, turn.view.at));
            think(turn, messages)
        }
    }
}

/// Work limit for validating an answer, in steps. Validation runs on the task driver, so it must be short.
const ANSWER_STEPS: u64 = 50_000;

/// The JSON in a text, if it fits the schema; otherwise the reason.
fn fitting(schema: &Value, text: &str) -> Result<Value, String> {
    let value = extract_json(text).ok_or("there is no JSON in it")?;
    let schema = Schema::compile(schema).map_err(|error| error.to_string())?;
    schema
        .check_within(&value, ANSWER_STEPS)
        .map_err(|misfit| misfit.to_string())?;
    Ok(value)
}
