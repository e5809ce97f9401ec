//! Agent: a model that thinks, calls tools and answers, in a loop that is bounded in every direction.
//!
//! Each thought is a call whose reply is journaled, so that nothing already paid for is paid again.
//! The transcript is the task's messages: the assistant's calls, then every call's result in the order
//! of the calls, whatever order they came in.

mod budget;
mod patterns;
pub(crate) mod sub_agents;
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

pub(crate) use budget::{Allowance, BudgetUse};
use sub_agents::PatternOverride;
pub(crate) use tools::{RequestedCall, UNNAMED_SERVER, approval, calls_of};
pub(crate) use transcript::{ModelSetup, OfferedTool, Thought, ThoughtContext, think as perform};

/// By which code a model client says that the time was over.
const TIMED_OUT: &str = "llm.timed_out";

/// How far an agent's run has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentRun {
    pub(crate) agent: Name,
    pub(crate) phase: Phase,
    /// Thoughts that called tools.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) iterations: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) spent: BudgetUse,
    /// How it thinks, where it works for a workflow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) manner: PatternOverride,
    /// What it may spend, where it works for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allowance: Option<Allowance>,
    /// When its time is over, in milliseconds from when the task was accepted.
    #[serde(default)]
    pub(crate) until_ms: u64,
    /// The calls of the last thought, in its order, until all have results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) wanted: Vec<RequestedCall>,
    /// An answer that is being looked at once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) draft: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) reflections: u32,
    /// Whether the answer was sent back because it did not fit its schema.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) repaired: bool,
    /// Attempts that failed for a passing reason.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) retries: u32,
    /// What is left of a plan, the present step first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) plan: Vec<String>,
}

/// What the executor is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ThoughtRequest {
    pub(crate) agent: Name,
    pub(crate) phase: Phase,
    /// When the run's time is over.
    #[serde(default)]
    pub(crate) until_ms: u64,
    /// Delay before a retry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) delay_ms: u64,
    /// What a child may read of its parent's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// What the open thought is for.
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

/// Begins an agent's run.
pub(crate) fn start(turn: &mut Turn<'_>, agent: &AgentFields) -> Step<Request> {
    start_for(turn, agent, None, PatternOverride::default())
}

/// Begins the run of an agent that is told something besides what the user said.
pub(crate) fn start_noting(turn: &mut Turn<'_>, agent: &AgentFields, note: &str) -> Step<Request> {
    prepare(turn, agent, None, PatternOverride::default());
    let note = Message::user(note, turn.view.at);
    think(turn, note.into_iter().collect())
}

/// Begins the run of an agent that works for another, or for a workflow: it spends no more than that one
/// allows it, and thinks as that one says.
pub(crate) fn start_for(
    turn: &mut Turn<'_>,
    agent: &AgentFields,
    allowance: Option<Allowance>,
    manner: PatternOverride,
) -> Step<Request> {
    prepare(turn, agent, allowance, manner);
    think(turn, Vec::new())
}

fn prepare(
    turn: &mut Turn<'_>,
    agent: &AgentFields,
    allowance: Option<Allowance>,
    manner: PatternOverride,
) {
    turn.state.node = Node::Agent;
    turn.state.run = Some(Box::new(AgentRun {
        agent: agent.name.clone(),
        phase: patterns::first_phase(manner.patterns(agent)),
        iterations: 0,
        spent: BudgetUse::default(),
        manner,
        allowance,
        until_ms: run_ends(turn, agent),
        wanted: Vec::new(),
        draft: None,
        reflections: 0,
        repaired: false,
        retries: 0,
        plan: Vec::new(),
    }));
}

/// Takes in a thought, or the result of a call.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    match turn.view.returned.map(|call| &call.request.0) {
        Some(CallRequest::Model(_)) => match returned.outcome {
            Outcome::Done(Reply(CallReply::Thought(thought))) => take_thought(turn, *thought),
            Outcome::Done(_) => {
                compose::broken(turn, "the model call returned another kind of reply")
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
            | CallRequest::Person { .. }
            | CallRequest::At(_),
        )
        | None => compose::broken(turn, "the outcome belongs to no call"),
    }
}

/// Asks for the next thought, after adding what it is to take into account.
pub(crate) fn think(turn: &mut Turn<'_>, messages: Vec<Message>) -> Step<Request> {
    let (Some(run), Some(agent)) = (turn.state.run.as_deref(), agent_of(turn)) else {
        return compose::broken(turn, "the agent is no longer in the app");
    };
    if let Some(exhausted) = run.spent.exhausted(&run.may_spend(agent)) {
        return compose::out_of_budget(turn, exhausted);
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
        messages: messages.into_iter().map(unspoken).collect(),
        calls: vec![call],
        ..Step::default()
    }
}

fn take_thought(turn: &mut Turn<'_>, thought: Thought) -> Step<Request> {
    let Some(agent) = agent_of(turn) else {
        return compose::broken(turn, "the agent is no longer in the app");
    };
    let Some(run) = turn.state.run.as_mut() else {
        return compose::broken(turn, "the state of the agent's run is missing");
    };
    run.retries = 0;
    run.spent.add(&thought, agent.models());
    turn.state.history_cut = turn.state.history_cut.max(thought.cut);
    match run.phase {
        Phase::Plan => patterns::take_plan(turn, &thought),
        Phase::Critique => patterns::take_critique(turn, &thought),
        Phase::Think if !thought.calls.is_empty() => tools::call(turn, agent, thought),
        Phase::Think | Phase::Conclude => patterns::take_answer(turn, agent, &thought.text),
    }
}

/// A model that could not answer for a passing reason is asked again, a few times.
fn try_again(turn: &mut Turn<'_>, failure: &Failure) -> Step<Request> {
    let mut cause = failure.cause();
    let Some(agent) = agent_of(turn) else {
        return compose::broken(turn, &cause);
    };
    if failure.code == TIMED_OUT {
        let limit = turn.assistant.app.agent_time_ms(agent);
        let why = format!("{} took longer than {limit} ms", agent.name);
        cause = FailureCode::AgentTimeout.because(why);
    }
    let most = agent.limits.max_retries;
    // An attempt has the whole of the agent's time.
    let until_ms = run_ends(turn, agent) + agent.limits.retry_delay_ms;
    if let Some(run) = turn.state.run.as_mut()
        && failure.transient
        && run.retries < most
    {
        run.retries += 1;
        run.until_ms = until_ms;
        return think(turn, Vec::new());
    }
    compose::broken(turn, &cause)
}

/// When the time of a run that begins now is over, in milliseconds from when the task was accepted.
fn run_ends(turn: &Turn<'_>, agent: &AgentFields) -> u64 {
    turn.since_accepted_ms(turn.view.at) + turn.assistant.app.agent_time_ms(agent)
}

/// The agent whose run it is.
pub(crate) fn agent_of<'a>(turn: &Turn<'a>) -> Option<&'a AgentFields> {
    let run = turn.state.run.as_deref()?;
    turn.assistant
        .app
        .agent(run.agent.as_str())
        .map(|agent| &**agent)
}

/// A message of the transcript that the user never sees.
pub(crate) fn unspoken(message: Message) -> AddedMessage {
    AddedMessage {
        message,
        spoken: false,
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
    /// What it may spend in all.
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
