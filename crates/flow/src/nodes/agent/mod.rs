//! Agent: a model that thinks, calls tools and answers, in a loop with a budget for time, calls, tokens and cost.
//!
//! Each thought is a call whose reply is journaled, so a resumed task does not pay for it again. The transcript is the
//! task's messages: the assistant's calls, then the results in the order of the calls.

mod attachments;
mod budget;
mod patterns;
pub(crate) mod sub_agents;
#[cfg(test)]
mod tests;
mod thought_stream;
mod tools;
mod transcript;

use convoke_engine::{AddedMessage, Failure, NewCall, Outcome, Step};
use convoke_model::{AgentFields, FailureCode, Message, Name, Stage};
use serde::{Deserialize, Serialize};

use super::compose;
use crate::assistant::Node;
use crate::calls::{CallReply, CallRequest, Reply, Request, ReturnedCall, is_default};
use crate::input::ConversationExcerpt;
use crate::turn::Turn;

pub(crate) use attachments::Attachments;
pub(crate) use budget::{Allowance, BudgetUse};
use sub_agents::PatternOverride;
pub(crate) use tools::{RequestedCall, UNNAMED_SERVER, approval, calls_of, grant_fallback};
pub(crate) use transcript::{ModelSetup, OfferedTool, Thought, ThoughtContext, think as perform};

/// The model client's error code for a timeout.
const TIMED_OUT: &str = "llm.timed_out";

/// State of an agent's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentRun {
    pub(crate) agent: Name,
    /// The intent of its answer, if it answers for nobody else; its own name otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) intent: Option<String>,
    pub(crate) phase: Phase,
    /// Number of thoughts that called tools.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) iterations: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) spent: BudgetUse,
    /// Patterns set by the node of a workflow, if it runs for one.
    #[serde(rename = "manner", default, skip_serializing_if = "is_default")]
    pub(crate) pattern_override: PatternOverride,
    /// Budget set by the parent, if it runs for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allowance: Option<Allowance>,
    /// Deadline in milliseconds since the task was accepted.
    #[serde(default)]
    pub(crate) until_ms: u64,
    /// The calls of the last thought, in order, until all have results.
    #[serde(rename = "wanted", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<RequestedCall>,
    /// The answer that a critique judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) draft: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) reflections: u32,
    /// Whether the model was asked to correct an answer that did not fit its schema.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) repaired: bool,
    /// Number of retries after transient failures.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) retries: u32,
    /// Remaining steps of the plan, the current one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) plan: Vec<String>,
}

/// The request for a thought that the performer sends to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ThoughtRequest {
    pub(crate) agent: Name,
    pub(crate) phase: Phase,
    /// Deadline in milliseconds since the task was accepted.
    #[serde(default)]
    pub(crate) until_ms: u64,
    /// Delay before a retry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) delay_ms: u64,
    /// What a child may read of its parent's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// The purpose of a thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Making a plan.
    Plan,
    /// Thinking, with tools at hand.
    Think,
    /// Answering with what there is, without tools.
    Conclude,
    /// Judging the draft.
    Critique,
}

/// Starts an agent.
pub(crate) fn start(turn: &mut Turn<'_>, agent: &AgentFields) -> Step<Request> {
    start_for(turn, agent, None, PatternOverride::default())
}

/// Starts an agent with a note after the user's message, because nobody else can be chosen. Its answer has this intent.
pub(crate) fn start_with_note(
    turn: &mut Turn<'_>,
    agent: &AgentFields,
    intent: &str,
    note: &str,
) -> Step<Request> {
    prepare(turn, agent, None, PatternOverride::default());
    if let Some(run) = turn.state.run.as_mut() {
        run.intent = Some(intent.to_owned());
    }
    let note = Message::user(note, turn.view.at);
    think(turn, note.into_iter().collect())
}

/// Starts an agent for a parent agent or workflow, which limits its budget and may override its patterns.
pub(crate) fn start_for(
    turn: &mut Turn<'_>,
    agent: &AgentFields,
    allowance: Option<Allowance>,
    pattern_override: PatternOverride,
) -> Step<Request> {
    prepare(turn, agent, allowance, pattern_override);
    think(turn, Vec::new())
}

fn prepare(
    turn: &mut Turn<'_>,
    agent: &AgentFields,
    allowance: Option<Allowance>,
    pattern_override: PatternOverride,
) {
    turn.state.node = Node::Agent;
    turn.state.run = Some(Box::new(AgentRun {
        agent: agent.name.clone(),
        intent: None,
        phase: patterns::first_phase(pattern_override.patterns(agent)),
        iterations: 0,
        spent: BudgetUse::default(),
        pattern_override,
        allowance,
        until_ms: run_ends(turn, agent),
        tool_calls: Vec::new(),
        draft: None,
        reflections: 0,
        repaired: false,
        retries: 0,
        plan: Vec::new(),
    }));
}

/// Handles a returned thought or the result of a call.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    match turn.view.returned.map(|call| &call.request.0) {
        Some(CallRequest::Model(_)) => match returned.outcome {
            Outcome::Done(Reply(CallReply::Thought(thought))) => take_thought(turn, *thought),
            Outcome::Done(_) => {
                compose::fail(turn, "the model call returned another kind of reply")
            }
            Outcome::Failed(failure) => try_again(turn, &failure),
        },
        Some(CallRequest::Tool(tool_call)) => {
            tools::take_result(turn, returned, tool_call.index, &tool_call.arguments, false)
        }
        Some(CallRequest::Child(sub_task)) => tools::take_result(
            turn,
            returned,
            Some(sub_task.index),
            &sub_task.arguments,
            true,
        ),
        Some(
            CallRequest::Decide(_)
            | CallRequest::Route(_)
            | CallRequest::Synthesise(_)
            | CallRequest::Workflow(_)
            | CallRequest::Person { .. }
            | CallRequest::At(_),
        )
        | None => compose::fail(turn, "the outcome belongs to no call"),
    }
}

/// Adds messages to the transcript and requests the next thought.
pub(crate) fn think(turn: &mut Turn<'_>, messages: Vec<Message>) -> Step<Request> {
    let (Some(run), Some(agent)) = (turn.state.run.as_deref(), agent_of(turn)) else {
        return compose::fail(turn, "the agent is no longer in the app");
    };
    if let Some(exhausted) = run.spent.exhausted(&run.may_spend(agent)) {
        return compose::budget_exhausted(turn, exhausted);
    }
    let call = NewCall {
        label: format!("{} {}", run.agent, run.phase.word()),
        request: Request(CallRequest::Model(ThoughtRequest {
            agent: run.agent.clone(),
            phase: run.phase,
            until_ms: run.until_ms,
            delay_ms: delay(run, agent),
            earlier: turn.state.earlier,
        })),
        approval: None,
    };
    Step {
        stage: Some(if run.phase == Phase::Think {
            Stage::Extracting
        } else {
            Stage::Composing
        }),
        messages: messages.into_iter().map(internal_message).collect(),
        calls: vec![call],
        ..Step::default()
    }
}

fn take_thought(turn: &mut Turn<'_>, thought: Thought) -> Step<Request> {
    let Some(agent) = agent_of(turn) else {
        return compose::fail(turn, "the agent is no longer in the app");
    };
    let Some(run) = turn.state.run.as_mut() else {
        return compose::fail(turn, "the state of the agent's run is missing");
    };
    run.retries = 0;
    run.spent.add(&thought, agent.models());
    turn.state.history_cut = turn.state.history_cut.max(thought.cut);
    turn.state.idle_seconds = turn.state.idle_seconds.or(thought.idle_seconds);
    match run.phase {
        Phase::Plan => patterns::take_plan(turn, &thought),
        Phase::Critique => patterns::take_critique(turn, &thought),
        Phase::Think if !thought.calls.is_empty() => tools::call(turn, agent, thought),
        Phase::Think | Phase::Conclude => patterns::take_answer(turn, agent, &thought.text),
    }
}

/// Retries a thought after a transient failure, up to the agent's limit.
fn try_again(turn: &mut Turn<'_>, failure: &Failure) -> Step<Request> {
    let mut cause = failure.cause();
    let Some(agent) = agent_of(turn) else {
        return compose::fail(turn, &cause);
    };
    if failure.code == TIMED_OUT {
        let limit = turn.assistant.app.agent_time_ms(agent);
        let why = format!("{} took longer than {limit} ms", agent.name);
        cause = FailureCode::AgentTimeout.because(why);
    }
    let most = agent.limits.max_retries;
    // Each attempt has the agent's full time limit.
    let until_ms = run_ends(turn, agent) + agent.limits.retry_delay_ms;
    if let Some(run) = turn.state.run.as_mut()
        && failure.transient
        && run.retries < most
    {
        run.retries += 1;
        run.until_ms = until_ms;
        return think(turn, Vec::new());
    }
    compose::fail(turn, &cause)
}

/// Deadline of a run that starts now, in milliseconds since the task was accepted.
fn run_ends(turn: &Turn<'_>, agent: &AgentFields) -> u64 {
    turn.since_accepted_ms(turn.view.at) + turn.assistant.app.agent_time_ms(agent)
}

/// The agent of the current run.
pub(crate) fn agent_of<'a>(turn: &Turn<'a>) -> Option<&'a AgentFields> {
    let run = turn.state.run.as_deref()?;
    turn.assistant
        .app
        .agent(run.agent.as_str())
        .map(|agent| &**agent)
}

/// A message of the transcript that is not part of the conversation.
pub(crate) fn internal_message(message: Message) -> AddedMessage {
    AddedMessage {
        message,
        in_conversation: false,
    }
}

fn delay(run: &AgentRun, agent: &AgentFields) -> u64 {
    if run.retries == 0 {
        0
    } else {
        agent.limits.retry_delay_ms
    }
}

impl AgentRun {
    /// The total budget of the run.
    pub(crate) fn may_spend(&self, agent: &AgentFields) -> Allowance {
        Allowance::of(&agent.budget, self.allowance.as_ref())
    }
}

impl Phase {
    fn word(self) -> &'static str {
        match self {
            Self::Plan => "plans",
            Self::Think => "thinks",
            Self::Conclude => "concludes",
            Self::Critique => "reflects",
        }
    }
}
