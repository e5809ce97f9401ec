//! The engine's executor: carries out what the program asks for, through the ports.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_engine::{Call, CallContext, Effect, Executor, Failure, FailureKind, Outcome, Verdict};
use convoke_llm::ModelClient;
use convoke_model::{AgentFields, Clock, Injected, McpServer, Message, Name, Role, VerifyFields};
use convoke_store::{Store, Viewer};
use convoke_telemetry::metrics;
use convoke_tools::{Caller, FailureCode, ToolDescription, ToolReply, ToolRequest, Tools};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tracing::Instrument;

use crate::assistant::Assistant;
use crate::calls::{CallReply, CallRequest, DecisionContext, Reply, Request, ToolCallRequest};
use crate::measured::{self, MeasuredTool};
use crate::nodes::agent::sub_agents::{self, ConversationExcerpt, SubTask};
use crate::nodes::aggregate::{self, Facts};
use crate::nodes::route::Routing;
use crate::nodes::{agent, decide};
use crate::retry_budget::RetryBudget;
use crate::toolbox::waited;

/// How stubborn the performer is.
#[derive(Debug, Clone)]
pub struct PerformerOptions {
    /// Attempts to reach a tool server that cannot be reached.
    pub attempts: u32,
    /// The pause after the first attempt; it doubles each time.
    pub pause: Duration,
}

impl Default for PerformerOptions {
    fn default() -> Self {
        Self {
            attempts: 4,
            pause: Duration::from_millis(250),
        }
    }
}

/// What was said in a conversation before a task.
#[derive(Debug, Default)]
struct History {
    /// The newest messages, oldest first.
    messages: Vec<Message>,
    /// How many are older still and were left out.
    older: usize,
}

/// Carries out calls for all tasks of an app.
pub struct Performer {
    assistant: Arc<Assistant>,
    tools: Arc<dyn Tools>,
    models: ModelClient,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    options: PerformerOptions,
    /// What each agent's model is offered.
    offers: Mutex<HashMap<Name, ModelSetups>>,
    /// Numbers the calls of tools, so that each has a span of its own.
    tool_calls: AtomicU64,
}

/// What an agent's model is offered, with what it was made from.
struct ModelSetups {
    facts: Vec<Arc<ToolDescription>>,
    offered: Arc<agent::ModelSetup>,
}

impl Performer {
    /// A performer over the app's tools and the store's conversations.
    pub fn new(
        assistant: Arc<Assistant>,
        tools: Arc<dyn Tools>,
        models: ModelClient,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: PerformerOptions,
    ) -> Self {
        Self {
            assistant,
            tools,
            models,
            store,
            clock,
            options,
            offers: Mutex::default(),
            tool_calls: AtomicU64::default(),
        }
    }

    /// What was said in the conversation before the task. It does not change while the task runs, so
    /// it is read once for each hold.
    async fn history(&self, call_context: &CallContext) -> Result<Arc<History>, Failure> {
        let kept = call_context
            .scratch
            .get_or_try_init(|| async {
                let history: Arc<dyn Any + Send + Sync> =
                    Arc::new(self.read_history(call_context).await?);
                Ok::<_, Failure>(history)
            })
            .await?;
        Arc::clone(kept).downcast::<History>().map_err(|_| {
            Failure::no_effect(
                FailureCode::HistoryUnreadable,
                "something else is kept in its place",
            )
        })
    }

    /// A part of a message has no conversation of its own, and looks back on the one that it is said in.
    async fn read_history(&self, call_context: &CallContext) -> Result<History, Failure> {
        let facts = &call_context.facts;
        let first = call_context.messages.first();
        let earlier = match (facts.conversation, facts.parent) {
            (Some(conversation), _) => Some(ConversationExcerpt {
                conversation,
                before: facts.id,
                messages: self.assistant.app.config.limits.history_messages as usize,
            }),
            (None, Some(_)) => first.and_then(ConversationExcerpt::of),
            (None, None) => None,
        };
        let Some(earlier) = earlier else {
            return Ok(History::default());
        };
        let viewer = Viewer::user(facts.owner, self.assistant.app.config.name.as_str());
        let (before, limit) = (Some(earlier.before), earlier.messages);
        let found = self
            .store
            .conversation(&viewer, earlier.conversation, before, limit)
            .await
            .map_err(|error| Failure::no_effect(error.code(), error.to_string()))?;
        Ok(found.map_or_else(History::default, |found| History {
            messages: found.messages,
            older: found.older,
        }))
    }

    async fn decide(
        &self,
        call_context: &CallContext,
        deciding: &DecisionContext,
    ) -> Result<CallReply, Failure> {
        let history = self.history(call_context).await?;
        let (assistant, deciding) = (Arc::clone(&self.assistant), deciding.clone());
        let text = said(call_context).to_owned();
        let decide = move || {
            let (earlier, older) = (&history.messages, history.older);
            decide::decide(&assistant, &deciding, &text, earlier, older)
        };
        let decided = if self.assistant.is_trained() {
            decide()
        } else {
            // It may have to be trained first, which takes longer than other tasks can wait.
            let decided = tokio::task::spawn_blocking(decide).await;
            decided
                .map_err(|error| Failure::no_effect(FailureCode::DecideFailed, error.to_string()))?
        };
        Ok(CallReply::Decided(Box::new(decided)))
    }

    /// Lets a model say who answers.
    async fn route(
        &self,
        call_context: &CallContext,
        routing: &Routing,
    ) -> Result<CallReply, Failure> {
        let router = self.assistant.router(routing.over);
        let router = router
            .ok_or_else(|| Failure::no_effect(FailureCode::RouteGone, "the router is gone"))?;
        let history = self.history(call_context).await?;
        // As much as travels with a part of a message, and beginning with what the user said.
        let turns = self.assistant.app.config.dispatch.context_turns as usize;
        let skipped = history.messages.len().saturating_sub(2 * turns);
        let recent = &history.messages[skipped..];
        let unasked = recent
            .iter()
            .take_while(|message| message.role != Role::User);
        let recent = &recent[unasked.count()..];
        let thought = router
            .ask(
                &self.models,
                &self.assistant.templates,
                call_context,
                recent,
                self.clock.now(),
                self.time_left(deadline(call_context, Some(routing.until_ms))),
            )
            .await?;
        Ok(CallReply::Thought(Box::new(thought)))
    }

    /// Lets a model write one text from several results.
    async fn synthesise(
        &self,
        call_context: &CallContext,
        facts: &Facts,
    ) -> Result<CallReply, Failure> {
        let time_left = self.time_left(deadline(call_context, Some(facts.until_ms)));
        let (text, now) = (said(call_context), self.clock.now());
        let (models, trace) = (&self.models, call_context.trace);
        let thought =
            aggregate::ask(&self.assistant, models, text, facts, now, time_left, trace).await?;
        Ok(CallReply::Thought(Box::new(thought)))
    }

    /// Lets another agent, or a workflow, do a part of the work.
    async fn hand_over(
        &self,
        call_context: &CallContext,
        sub_task: &SubTask,
        key: String,
    ) -> Result<CallReply, Failure> {
        let (at, end) = (self.clock.now(), deadline(call_context, sub_task.until_ms));
        let outcome = Box::pin(sub_agents::perform(call_context, key, sub_task, at, end)).await;
        let whom = sub_task.whom.name();
        let agent = self.assistant.app.agent(whom.as_str());
        if agent.is_none_or(|agent| agent.limits.enable_telemetry) {
            let took = self.clock.now().duration_since(at).as_millis();
            let success = outcome.as_ref().is_ok_and(|reply| !reply.is_error);
            tracing::info!(task = %call_context.facts.id, %whom, took, success, "a part of the work has come back");
        }
        outcome.map(|reply| CallReply::Tool(Box::new(reply)))
    }

    async fn think(
        &self,
        call_context: &CallContext,
        asked: &agent::ThoughtRequest,
    ) -> Result<CallReply, Failure> {
        let agent = self
            .assistant
            .app
            .agent(asked.agent.as_str())
            .ok_or_else(|| Failure::no_effect(FailureCode::AgentGone, asked.agent.as_str()))?;
        let history = self.history(call_context).await?;
        let end = deadline(call_context, Some(asked.until_ms));
        let thinking = agent::ThoughtContext {
            agent,
            offer: &*self.offered(agent, end).await,
            phase: asked.phase,
            history: &history.messages,
            older: history.older,
            call_context,
            time_left: self.time_left(end),
        };
        let thought = agent::perform(&self.models, &thinking).await?;
        Ok(CallReply::Thought(Box::new(thought)))
    }

    /// The agent's tools as its model sees them. A server that cannot be reached takes only its own
    /// away, and no more than half of the time. Made anew only when a server says something else of its
    /// tools than before.
    async fn offered(&self, agent: &AgentFields, end: Timestamp) -> Arc<agent::ModelSetup> {
        let half = self.time_left(end) / 2;
        let describe = |tool| self.describe(tool, self.assistant.tool_time(tool).min(half));
        let described =
            futures::future::join_all(agent.tools.iter().map(|tool| describe(tool))).await;
        let mut facts = Vec::with_capacity(described.len());
        for (tool, described) in agent.tools.iter().zip(described) {
            match described {
                Ok(described) => facts.push(described),
                Err(failure) => tracing::warn!(%tool, code = failure.code, "a tool is not there"),
            }
        }
        let mut known = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offers) = known.get(&agent.name)
            && offers.facts.len() == facts.len()
            && offers.facts.iter().zip(&facts).all(|(a, b)| same(a, b))
        {
            return Arc::clone(&offers.offered);
        }
        let offered = Arc::new(agent::ModelSetup::new(
            agent,
            agent::OfferedTool::of(&facts).chain(sub_agents::offered(&self.assistant, agent)),
        ));
        let offers = ModelSetups {
            facts,
            offered: Arc::clone(&offered),
        };
        known.insert(agent.name.clone(), offers);
        offered
    }

    async fn call_tool(
        &self,
        call_context: &CallContext,
        tool_call: &ToolCallRequest,
        key: String,
    ) -> Result<ToolReply, Failure> {
        let number = self.tool_calls.fetch_add(1, Ordering::Relaxed);
        let trace = call_context.trace.child(number);
        let measured = MeasuredTool::begin(tool_call, &key, trace, call_context.trace);
        let outcome = self.attempt_tool(call_context, tool_call, key, &measured);
        let outcome = outcome.instrument(measured.span.clone()).await;
        measured.ended(&outcome);
        outcome
    }

    async fn attempt_tool(
        &self,
        call_context: &CallContext,
        tool_call: &ToolCallRequest,
        key: String,
        measured: &MeasuredTool,
    ) -> Result<ToolReply, Failure> {
        let time = self.time_for(&tool_call.tool, deadline(call_context, tool_call.until_ms));
        let mut retry_budget = RetryBudget::new(&self.options, time);
        let facts = self.describe(&tool_call.tool, time).await?;
        measured.found(&facts);
        let server = self.server(&facts.server);
        let mut request = ToolRequest {
            injected: injected(server, call_context),
            arguments: Arc::clone(&tool_call.arguments),
            caller: caller(call_context).traced(measured.trace),
            idempotency_key: key,
            timeout: time,
            server: facts.server.clone(),
            tool: facts.tool.clone(),
        };
        loop {
            request.timeout = retry_budget.time_left();
            match again(&mut retry_budget, self.tools.call(&request).await) {
                Ok(pause) => {
                    metrics::RETRIES.increment(["tool"]);
                    tokio::time::sleep(pause).await;
                }
                Err(outcome) => {
                    return outcome.map(|reply| ToolReply {
                        changed_nothing: facts.read_only,
                        ..reply
                    });
                }
            }
        }
    }

    /// What is known of a tool, if its server says so within this time. To ask for it changes nothing.
    async fn describe(&self, tool: &str, time: Duration) -> Result<Arc<ToolDescription>, Failure> {
        let mut retry_budget = RetryBudget::new(&self.options, time);
        let mut why = None;
        loop {
            let described = self.tools.describe(tool);
            let outcome = match tokio::time::timeout_at(retry_budget.until(), described).await {
                Ok(outcome) => outcome,
                Err(_) => Err(why.unwrap_or_else(|| not_in_time(tool, time))),
            };
            let outcome = outcome.map_err(|failure| Failure {
                kind: FailureKind::NoEffect,
                ..failure
            });
            why = outcome.as_ref().err().cloned();
            match again(&mut retry_budget, outcome) {
                Ok(pause) => tokio::time::sleep(pause).await,
                Err(outcome) => return outcome,
            }
        }
    }

    /// How it is found out whether a call of a tool took effect, if the app says so.
    async fn verification(&self, tool: &str, time: Duration) -> Option<VerifyFields> {
        // A server that is away may still be named by the tool itself.
        let (server, name) = match self.describe(tool, time).await {
            Ok(facts) => (facts.server.clone(), facts.tool.clone()),
            Err(_) => tool
                .split_once('.')
                .map(|(server, name)| (server.to_owned(), name.to_owned()))?,
        };
        let settings = self.server(&server)?.tools.get(&name)?;
        settings.verify.as_ref().map(convoke_model::Verify::fields)
    }

    /// Asks a tool whether a call took effect. Whatever is in the way of an answer is no answer.
    async fn ask_whether(
        &self,
        call_context: &CallContext,
        tool_call: &ToolCallRequest,
        id: String,
        verify: &VerifyFields,
    ) -> Result<Verdict<Reply>, String> {
        let said = |failure: Failure| failure.message;
        let time = self.time_for(&verify.tool, deadline(call_context, tool_call.until_ms));
        let facts = self.describe(&verify.tool, time).await.map_err(said)?;
        if !facts.read_only {
            return Err(format!("{} may change something itself", verify.tool));
        }
        let templates = &self.assistant.templates;
        let given = Value::Object((*tool_call.arguments).clone());
        let mut context = Map::new();
        context.insert("call_id".into(), id.clone().into());
        context.insert("arguments".into(), given.clone());
        let arguments = match &verify.arguments {
            None => given,
            Some(asked) => templates.value(&Value::Object(asked.clone()), &context)?,
        };
        let asked = ToolCallRequest {
            tool: verify.tool.clone(),
            arguments: Arc::new(arguments.as_object().cloned().unwrap_or_default()),
            index: None,
            until_ms: tool_call.until_ms,
            delay_ms: 0,
            asks: false,
        };
        let key = format!("{id}-verify");
        let reply = self
            .call_tool(call_context, &asked, key)
            .await
            .map_err(said)?;
        if reply.is_error {
            return Err(reply.text);
        }
        context.insert("result".into(), reply.content);
        match templates.expression(&verify.done, &context)? {
            Value::Bool(true) => {
                let given = templates.expression(&verify.gives, &context)?;
                let (server, tool) = tool_call
                    .tool
                    .split_once('.')
                    .unwrap_or(("", &tool_call.tool));
                let reply = ToolReply::of(server, tool, given);
                Ok(Verdict::Done(Reply(CallReply::Tool(Box::new(reply)))))
            }
            Value::Bool(false) => Ok(Verdict::NotDone),
            other => Err(format!(
                "`{}` is {other}, neither true nor false",
                verify.done
            )),
        }
    }

    fn server(&self, name: &str) -> Option<&McpServer> {
        self.assistant.app.server(name)
    }

    /// The tool's own limit, the app's, and what is left of the task's time: the least of them.
    fn time_for(&self, tool: &str, deadline: Timestamp) -> Duration {
        let own = self.assistant.tool_time(tool);
        own.min(self.time_left(deadline))
    }

    /// What is left until then.
    fn time_left(&self, deadline: Timestamp) -> Duration {
        deadline
            .duration_since(self.clock.now())
            .try_into()
            .unwrap_or_default()
    }
}

impl Executor<Assistant> for Performer {
    async fn effect(
        &self,
        call_context: &CallContext,
        call: &Call<Request>,
    ) -> Result<Effect, Failure> {
        let tool_call = match call.request.0.itself() {
            CallRequest::Tool(tool_call) => tool_call,
            // A child that was submitted under the call's id is found again, not made again.
            CallRequest::Child(_) => return Ok(Effect::Repeatable),
            CallRequest::Decide(_)
            | CallRequest::Route(_)
            | CallRequest::Synthesise(_)
            | CallRequest::Model(_)
            | CallRequest::Person { .. }
            | CallRequest::At(_) => return Ok(Effect::None),
        };
        let time = self.time_for(&tool_call.tool, deadline(call_context, tool_call.until_ms));
        let facts = self.describe(&tool_call.tool, time).await?;
        let keyed = self
            .server(&facts.server)
            .is_some_and(|server| server.honours_idempotency_key);
        Ok(if facts.read_only {
            Effect::None
        } else if facts.idempotent || keyed {
            Effect::Repeatable
        } else if tool_call.asks {
            Effect::AtMostOnce
        } else {
            Effect::Once
        })
    }

    fn ends(&self, call_context: &CallContext, call: &Call<Request>) -> Timestamp {
        match call.request.0.itself() {
            CallRequest::Tool(tool_call) => deadline(call_context, tool_call.until_ms),
            CallRequest::Child(sub_task) => deadline(call_context, sub_task.until_ms),
            _ => call_context.deadline,
        }
    }

    async fn verify(&self, call_context: &CallContext, call: &Call<Request>) -> Verdict<Reply> {
        let CallRequest::Tool(tool_call) = call.request.0.itself() else {
            return Verdict::Unknown;
        };
        let time = self.time_for(&tool_call.tool, deadline(call_context, tool_call.until_ms));
        let Some(verify) = self.verification(&tool_call.tool, time).await else {
            return Verdict::Unknown;
        };
        let id = call.id.to_string();
        match self.ask_whether(call_context, tool_call, id, &verify).await {
            Ok(verdict) => verdict,
            Err(why) => {
                tracing::warn!(call = %call.id, tool = tool_call.tool, why, "it cannot be told whether a call took effect");
                Verdict::Unknown
            }
        }
    }

    async fn perform(&self, call_context: &CallContext, call: &Call<Request>) -> Outcome<Reply> {
        let key = || call.id.to_string();
        let began = Instant::now();
        let given = match call.request.0.itself() {
            CallRequest::Decide(deciding) => self.decide(call_context, deciding).await,
            CallRequest::Route(routing) => self.route(call_context, routing).await,
            CallRequest::Synthesise(facts) => self.synthesise(call_context, facts).await,
            CallRequest::Model(asked) => self.think(call_context, asked).await,
            CallRequest::Tool(tool_call) if tool_call.waits().is_some() => {
                // The engine makes the call once the time is over.
                Ok(CallReply::Tool(Box::new(waited(&tool_call.arguments))))
            }
            CallRequest::Tool(tool_call) => {
                let reply = self.call_tool(call_context, tool_call, key()).await;
                reply.map(|reply| CallReply::Tool(Box::new(reply)))
            }
            CallRequest::Child(sub_task) => self.hand_over(call_context, sub_task, key()).await,
            CallRequest::Person { said } => Ok(CallReply::Person(said.clone())),
            CallRequest::At(_) => Err(Failure::no_effect(
                FailureCode::CallNested,
                "a node stands in a node",
            )),
        };
        measured::call(
            call.request.0.itself(),
            given.as_ref().err(),
            began.elapsed(),
        );
        match given {
            Ok(given) => Outcome::Done(Reply(given)),
            Err(failure) => Outcome::Failed(failure),
        }
    }
}

/// What the user said.
pub(crate) fn said(call_context: &CallContext) -> &str {
    let first = call_context.messages.first();
    first.map_or("", |message| message.content.as_str())
}

/// When a call's time is over: the task's end, or the end of the run that makes it. Where the task's
/// time began anew, so does the run's.
fn deadline(call_context: &CallContext, until_ms: Option<u64>) -> Timestamp {
    let Some(until_ms) = until_ms else {
        return call_context.deadline;
    };
    let facts = &call_context.facts;
    let moved = call_context.deadline.duration_since(facts.deadline);
    let run = facts
        .created_at
        .checked_add(Duration::from_millis(until_ms))
        .and_then(|end| end.checked_add(moved));
    run.map_or(call_context.deadline, |run| run.min(call_context.deadline))
}

/// How long to wait before a server that could not be reached at all is tried again. Anything else is for the caller.
fn again<T>(
    retry_budget: &mut RetryBudget,
    outcome: Result<T, Failure>,
) -> Result<Duration, Result<T, Failure>> {
    match outcome {
        Err(failure)
            if failure.is(FailureCode::ToolNotReached) && failure.kind == FailureKind::NoEffect =>
        {
            retry_budget.next_pause().ok_or(Err(failure))
        }
        outcome => Err(outcome),
    }
}

fn not_in_time(tool: &str, time: Duration) -> Failure {
    let message = format!("the server of `{tool}` said nothing within {time:?}");
    Failure::no_effect(FailureCode::ToolNotReached, message).transient()
}

/// Whether a server says the same of a tool as before. Most do not even say it anew.
fn same(before: &Arc<ToolDescription>, now: &Arc<ToolDescription>) -> bool {
    Arc::ptr_eq(before, now) || before == now
}

fn caller(call_context: &CallContext) -> Caller {
    let facts = &call_context.facts;
    let caller = Caller::new(facts.owner, facts.id);
    match facts.conversation {
        Some(conversation) => caller.within(conversation),
        None => caller,
    }
}

/// The facts that a server's tools are given, whatever anybody else says.
fn injected(server: Option<&McpServer>, call_context: &CallContext) -> Map<String, Value> {
    let facts = &call_context.facts;
    server
        .into_iter()
        .flat_map(|server| &server.inject)
        .map(|(argument, what)| {
            let value = match what {
                Injected::UserId => json!(facts.owner),
                Injected::ConversationId => json!(facts.conversation),
                Injected::TaskId => json!(facts.id),
                Injected::Channel => json!(facts.channel),
            };
            (argument.clone(), value)
        })
        .collect()
}
