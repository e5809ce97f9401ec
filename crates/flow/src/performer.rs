//! The engine's executor: carries out what the program asks for, through the ports.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_engine::{Call, CallContext, Effect, Executor, Failure, FailureKind, Outcome, Verdict};
use convoke_llm::ModelClient;
use convoke_model::{AgentFields, Clock, Injected, McpServer, Name, NodeKind, Role, VerifyFields};
use convoke_store::{Store, Viewer};
use convoke_telemetry::metrics;
use convoke_tools::{Caller, FailureCode, ToolDescription, ToolReply, ToolRequest, Tools};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

use crate::assistant::Assistant;
use crate::calls::{CallReply, CallRequest, DecisionContext, Reply, Request, ToolCallRequest};
use crate::input::ConversationExcerpt;
use crate::measured::{self, MeasuredTool};
use crate::nodes::agent::Attachments;
use crate::nodes::agent::sub_agents::{self, SubTask};
use crate::nodes::aggregate::{self, Facts};
use crate::nodes::route::Routing;
use crate::nodes::{agent, decide};
use crate::request_history::RequestHistory;
use crate::retry_budget::RetryBudget;
use crate::task_scratch::{ClassifiedTool, History, TaskScratch};
use crate::toolbox::waited;

/// Retry settings of the performer.
#[derive(Debug, Clone)]
pub struct PerformerOptions {
    /// Number of attempts to reach a tool server.
    pub attempts: u32,
    /// Pause after the first attempt. Doubles with each attempt.
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

/// Carries out calls for all tasks of an app.
pub struct Performer {
    assistant: Arc<Assistant>,
    tools: Arc<dyn Tools>,
    models: ModelClient,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    options: PerformerOptions,
    /// Whether the app checks anything before it is delivered. Then no text is live: none was checked yet.
    checks_answers: bool,
    /// Cached model setups, by agent.
    offers: Mutex<HashMap<Name, ModelSetups>>,
    /// Numbers the calls of tools, so that each has a span of its own.
    tool_calls: AtomicU64,
}

/// A model setup with the tool descriptions it was built from.
struct ModelSetups {
    facts: Vec<Arc<ToolDescription>>,
    offered: Arc<agent::ModelSetup>,
}

impl Performer {
    /// Creates a performer over an app's tools and the conversations of a store.
    pub fn new(
        assistant: Arc<Assistant>,
        tools: Arc<dyn Tools>,
        models: ModelClient,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: PerformerOptions,
    ) -> Self {
        let workflows = assistant.app.workflows.iter();
        let mut nodes = workflows.flat_map(|workflow| workflow.nodes.values());
        Self {
            checks_answers: nodes.any(|node| node.kind == NodeKind::Check),
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

    /// The conversation before the task. A child reads the excerpt that its call names.
    async fn history(
        &self,
        call_context: &CallContext,
        earlier: Option<ConversationExcerpt>,
    ) -> Result<Arc<History>, Failure> {
        let scratch = TaskScratch::of(call_context).await?;
        let read = || async { self.read_history(call_context, earlier).await.map(Arc::new) };
        scratch.history.get_or_try_init(read).await.cloned()
    }

    async fn read_history(
        &self,
        call_context: &CallContext,
        earlier: Option<ConversationExcerpt>,
    ) -> Result<History, Failure> {
        let facts = &call_context.facts;
        let first = call_context.messages.first();
        if let Some(RequestHistory { messages, older }) = RequestHistory::of(first) {
            return Ok(History { messages, older });
        }
        let earlier = match (facts.conversation, facts.parent) {
            (Some(conversation), _) => Some(ConversationExcerpt {
                conversation: Some(conversation),
                before: facts.id,
                messages: self.assistant.app.config.limits.history_messages as usize,
            }),
            (None, Some(_)) => {
                earlier.or_else(|| first.and_then(ConversationExcerpt::of_older_child))
            }
            (None, None) => None,
        };
        let Some((earlier, conversation)) =
            earlier.and_then(|earlier| Some((earlier, earlier.conversation?)))
        else {
            return Ok(History::default());
        };
        let viewer = Viewer::user(facts.owner, self.assistant.app.config.name.as_str());
        let (before, limit) = (Some(earlier.before), earlier.messages);
        let found = self
            .store
            .conversation(&viewer, conversation, before, limit)
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
        decision_context: &DecisionContext,
    ) -> Result<CallReply, Failure> {
        let history = self.history(call_context, decision_context.earlier).await?;
        let (assistant, decision_context) = (Arc::clone(&self.assistant), decision_context.clone());
        let text = user_message(call_context).to_owned();
        let idle_seconds = self.idle_seconds(call_context, &history);
        let decide = move || {
            let (earlier, older) = (&history.messages, history.older);
            let mut decided = decide::decide(&assistant, &decision_context, &text, earlier, older);
            decided.idle_seconds = idle_seconds;
            decided
        };
        let decided = if self.assistant.is_trained() {
            decide()
        } else {
            // Training may come first, and would block the executor.
            let decided = tokio::task::spawn_blocking(decide).await;
            decided
                .map_err(|error| Failure::no_effect(FailureCode::DecideFailed, error.to_string()))?
        };
        Ok(CallReply::Decided(Box::new(decided)))
    }

    /// Seconds between the last message of the conversation and this one, if they made it idle. A part of a message is in
    /// no conversation of its own.
    fn idle_seconds(&self, call_context: &CallContext, history: &History) -> Option<u64> {
        let facts = &call_context.facts;
        let last = history.messages.last().filter(|_| facts.parent.is_none())?;
        let quiet = facts.created_at.duration_since(last.timestamp?).as_secs();
        let seconds = u64::try_from(quiet).ok()?;
        let idle_after = self.assistant.app.config.limits.conversation_idle_seconds;
        (seconds >= idle_after.into()).then_some(seconds)
    }

    /// Lets a model choose who answers.
    async fn route(
        &self,
        call_context: &CallContext,
        routing: &Routing,
    ) -> Result<CallReply, Failure> {
        let router = self.assistant.router(routing.over);
        let router = router.ok_or_else(|| {
            Failure::no_effect(FailureCode::RouteGone, "the router is no longer in the app")
        })?;
        let history = self.history(call_context, routing.earlier).await?;
        // The same number of turns as a sub-task sees, starting with a user message.
        let turns = self.assistant.app.config.dispatch.context_turns as usize;
        let skipped = history.messages.len().saturating_sub(2 * turns);
        let recent = &history.messages[skipped..];
        let unasked = recent
            .iter()
            .take_while(|message| message.role != Role::User);
        let recent = &recent[unasked.count()..];
        let attachments = self.attachments(call_context).await?;
        let thought = router
            .ask(
                &self.models,
                &self.assistant.templates,
                call_context,
                recent,
                &attachments,
                self.clock.now(),
                self.time_left(deadline(call_context, Some(routing.until_ms))),
            )
            .await?;
        Ok(CallReply::Thought(Box::new(thought)))
    }

    /// Lets a model write one answer from several results.
    async fn synthesise(
        &self,
        call_context: &CallContext,
        facts: &Facts,
    ) -> Result<CallReply, Failure> {
        let time_left = self.time_left(deadline(call_context, Some(facts.until_ms)));
        let (text, now) = (user_message(call_context), self.clock.now());
        let (assistant, models) = (&self.assistant, &self.models);
        let thought =
            aggregate::ask(assistant, models, text, facts, now, time_left, call_context).await?;
        Ok(CallReply::Thought(Box::new(thought)))
    }

    /// Runs a sub-task and waits for its reply.
    async fn run_child(
        &self,
        call_context: &CallContext,
        sub_task: &SubTask,
        key: String,
    ) -> Result<CallReply, Failure> {
        let (at, end) = (self.clock.now(), deadline(call_context, sub_task.until_ms));
        let outcome = Box::pin(sub_agents::perform(call_context, key, sub_task, at, end)).await;
        let addressee = sub_task.addressee.name();
        if self.is_measured(addressee) {
            let took = self.clock.now().duration_since(at).as_millis();
            let success = outcome.as_ref().is_ok_and(|reply| !reply.is_error);
            tracing::info!(task = %call_context.facts.id, %addressee, took, success, "a sub-task ended");
        }
        outcome.map(|reply| CallReply::Tool(Box::new(reply)))
    }

    /// Whether calls of an agent have spans and metrics. Those of what is not an agent have.
    fn is_measured(&self, agent: &Name) -> bool {
        let agent = self.assistant.app.agent(agent.as_str());
        agent.is_none_or(|agent| agent.limits.enable_telemetry)
    }

    async fn think(
        &self,
        call_context: &CallContext,
        request: &agent::ThoughtRequest,
    ) -> Result<CallReply, Failure> {
        let agent = self
            .assistant
            .app
            .agent(request.agent.as_str())
            .ok_or_else(|| Failure::no_effect(FailureCode::AgentGone, request.agent.as_str()))?;
        let history = self.history(call_context, request.earlier).await?;
        let attachments = self.attachments(call_context).await?;
        let end = deadline(call_context, Some(request.until_ms));
        let thinking = agent::ThoughtContext {
            agent,
            setup: &*self.model_setup(agent, end).await,
            phase: request.phase,
            history: &history.messages,
            older: history.older,
            attachments: &attachments,
            call_context,
            may_be_live: !self.checks_answers,
            time_left: self.time_left(end),
        };
        let mut thought = agent::perform(&self.models, &thinking).await?;
        thought.idle_seconds = self.idle_seconds(call_context, &history);
        Ok(CallReply::Thought(Box::new(thought)))
    }

    /// What the user attached to the request.
    async fn attachments(&self, call_context: &CallContext) -> Result<Arc<Attachments>, Failure> {
        let scratch = TaskScratch::of(call_context).await?;
        let (app, facts) = (&self.assistant.app.config, &call_context.facts);
        let read = || async {
            let viewer = Viewer::user(facts.owner, app.name.as_str());
            let (messages, characters) = (&call_context.messages, app.limits.attachment_characters);
            Attachments::read(
                &*self.store,
                &viewer,
                facts.id,
                messages,
                characters as usize,
            )
            .await
            .map(Arc::new)
            .map_err(|error| Failure::no_effect(error.code(), error.to_string()))
        };
        scratch.attachments.get_or_try_init(read).await.cloned()
    }

    /// The agent's tools as its model sees them. An unreachable server removes only its own tools and uses at most half
    /// of the time. Rebuilt only when a description changes.
    async fn model_setup(&self, agent: &AgentFields, end: Timestamp) -> Arc<agent::ModelSetup> {
        let half = self.time_left(end) / 2;
        let describe = |tool| self.describe(tool, self.assistant.tool_time(tool).min(half));
        let described =
            futures::future::join_all(agent.tools.iter().map(|tool| describe(tool))).await;
        let mut facts = Vec::with_capacity(described.len());
        for (tool, described) in agent.tools.iter().zip(described) {
            match described {
                Ok(described) => facts.push(described),
                Err(failure) => tracing::warn!(%tool, code = failure.code, "a tool is unavailable"),
            }
        }
        let mut known = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offers) = known.get(&agent.name)
            && offers.facts.len() == facts.len()
            && offers
                .facts
                .iter()
                .zip(&facts)
                .all(|(a, b)| is_unchanged(a, b))
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

    /// The tool and the effect of a call. Described once per call, however often the call is made.
    async fn classified(
        &self,
        call_context: &CallContext,
        call: Uuid,
        tool_call: &ToolCallRequest,
    ) -> Result<ClassifiedTool, Failure> {
        let scratch = TaskScratch::of(call_context).await?;
        if let Some(tool) = scratch.tool(call) {
            return Ok(tool);
        }
        let time = self.time_for(&tool_call.tool, deadline(call_context, tool_call.until_ms));
        let description = self.describe(&tool_call.tool, time).await?;
        let server = self.server(&description.server);
        let keyed = server.is_some_and(|server| server.honours_idempotency_key);
        let effect = if description.read_only {
            Effect::None
        } else if description.idempotent || keyed {
            Effect::Repeatable
        } else if tool_call.is_query {
            Effect::AtMostOnce
        } else {
            Effect::Once
        };
        let tool = ClassifiedTool {
            description,
            effect,
        };
        scratch.keep_tool(call, tool.clone());
        Ok(tool)
    }

    /// Calls a task's tool. Drops its description once the outcome is certain.
    async fn use_tool(
        &self,
        call_context: &CallContext,
        call: Uuid,
        tool_call: &ToolCallRequest,
    ) -> Result<ToolReply, Failure> {
        let time = self.time_for(&tool_call.tool, deadline(call_context, tool_call.until_ms));
        let retry_budget = self.retry_budget(time);
        let tool = self.classified(call_context, call, tool_call).await?;
        let (description, key) = (&tool.description, call.to_string());
        let outcome = self
            .call_tool(call_context, tool_call, description, key, retry_budget)
            .await;
        let is_certain = !matches!(&outcome, Err(failure) if failure.kind == FailureKind::Unknown);
        if is_certain {
            TaskScratch::of(call_context).await?.forget_tool(call);
        }
        outcome
    }

    async fn call_tool(
        &self,
        call_context: &CallContext,
        tool_call: &ToolCallRequest,
        description: &Arc<ToolDescription>,
        key: String,
        retry_budget: RetryBudget,
    ) -> Result<ToolReply, Failure> {
        let number = self.tool_calls.fetch_add(1, Ordering::Relaxed);
        let trace = call_context.trace.child(number);
        let measured = MeasuredTool::begin(tool_call, &key, trace, call_context.trace);
        measured.found(description);
        let outcome = self.attempt_tool(
            call_context,
            tool_call,
            description,
            key,
            retry_budget,
            &measured,
        );
        let outcome = outcome.instrument(measured.span.clone()).await;
        measured.ended(&outcome);
        outcome
    }

    async fn attempt_tool(
        &self,
        call_context: &CallContext,
        tool_call: &ToolCallRequest,
        description: &Arc<ToolDescription>,
        key: String,
        mut retry_budget: RetryBudget,
        measured: &MeasuredTool,
    ) -> Result<ToolReply, Failure> {
        let server = self.server(&description.server);
        let mut request = ToolRequest {
            injected: injected(server, call_context),
            arguments: Arc::clone(&tool_call.arguments),
            caller: caller(call_context).traced(measured.trace),
            idempotency_key: key,
            timeout: retry_budget.time_left(),
            server: description.server.clone(),
            tool: description.tool.clone(),
        };
        loop {
            request.timeout = retry_budget.time_left();
            match pause_before_retry(&mut retry_budget, self.tools.call(&request).await) {
                Ok(pause) => {
                    metrics::RETRIES.increment(["tool"]);
                    tokio::time::sleep(pause).await;
                }
                Err(outcome) => {
                    return outcome.map(|reply| ToolReply {
                        changed_nothing: description.read_only,
                        ..reply
                    });
                }
            }
        }
    }

    /// Describes a tool within this time. Has no effect outside.
    async fn describe(&self, tool: &str, time: Duration) -> Result<Arc<ToolDescription>, Failure> {
        let mut retry_budget = self.retry_budget(time);
        let mut why = None;
        loop {
            let described = self.tools.describe(tool);
            let outcome = match tokio::time::timeout_at(retry_budget.until(), described).await {
                Ok(outcome) => outcome,
                Err(_) => Err(why.unwrap_or_else(|| describe_timed_out(tool, time))),
            };
            let outcome = outcome.map_err(|failure| Failure {
                kind: FailureKind::NoEffect,
                ..failure
            });
            why = outcome.as_ref().err().cloned();
            match pause_before_retry(&mut retry_budget, outcome) {
                Ok(pause) => tokio::time::sleep(pause).await,
                Err(outcome) => return outcome,
            }
        }
    }

    /// The app's settings for verifying a call, if it has any.
    async fn verification(
        &self,
        call_context: &CallContext,
        call: Uuid,
        tool_call: &ToolCallRequest,
    ) -> Option<VerifyFields> {
        // The name in the call serves if the server cannot be reached.
        let classified = self.classified(call_context, call, tool_call).await;
        let (server, name) = if let Ok(ClassifiedTool { description, .. }) = &classified {
            (description.server.as_str(), description.tool.as_str())
        } else {
            tool_call.tool.split_once('.')?
        };
        let settings = self.server(server)?.tools.get(name)?;
        settings.verify.as_ref().map(convoke_model::Verify::fields)
    }

    /// Asks the verifying tool whether a call took effect. An error means that it is not known.
    async fn ask_verifier(
        &self,
        call_context: &CallContext,
        tool_call: &ToolCallRequest,
        id: String,
        verify: &VerifyFields,
    ) -> Result<Verdict<Reply>, String> {
        let message_of = |failure: Failure| failure.message;
        let time = self.time_for(&verify.tool, deadline(call_context, tool_call.until_ms));
        let retry_budget = self.retry_budget(time);
        let description = self
            .describe(&verify.tool, time)
            .await
            .map_err(message_of)?;
        if !description.read_only {
            return Err(format!(
                "`{}` is not read-only and cannot verify a call",
                verify.tool
            ));
        }
        let templates = &self.assistant.templates;
        let given = Value::Object((*tool_call.arguments).clone());
        let mut context = Map::new();
        context.insert("call_id".into(), id.clone().into());
        context.insert("arguments".into(), given.clone());
        let arguments = match &verify.arguments {
            None => given,
            Some(request) => templates.value(&Value::Object(request.clone()), &context)?,
        };
        let request = ToolCallRequest {
            tool: verify.tool.clone(),
            arguments: Arc::new(arguments.as_object().cloned().unwrap_or_default()),
            index: None,
            until_ms: tool_call.until_ms,
            delay_ms: 0,
            is_query: false,
            attempts: Vec::new(),
        };
        let key = format!("{id}-verify");
        let reply = self
            .call_tool(call_context, &request, &description, key, retry_budget)
            .await
            .map_err(message_of)?;
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

    /// The time limit of the tool, or what is left until the deadline if that is less.
    fn time_for(&self, tool: &str, deadline: Timestamp) -> Duration {
        let own = self.assistant.tool_time(tool);
        own.min(self.time_left(deadline))
    }

    /// What reaching a tool server may take.
    fn retry_budget(&self, time: Duration) -> RetryBudget {
        let reach = self.assistant.app.config.limits.tool_reach_seconds;
        RetryBudget::new(&self.options, time, Duration::from_secs(reach.into()))
    }

    /// The time until a deadline; zero if it is past.
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
        let tool_call = match call.request.0.innermost() {
            CallRequest::Tool(tool_call) => tool_call,
            // A child has the call's id as its key, so submitting it again finds it.
            CallRequest::Child(_) => return Ok(Effect::Repeatable),
            CallRequest::Decide(_)
            | CallRequest::Route(_)
            | CallRequest::Synthesise(_)
            | CallRequest::Model(_)
            | CallRequest::Workflow(_)
            | CallRequest::Person { .. }
            | CallRequest::At(_) => return Ok(Effect::None),
        };
        let tool = self.classified(call_context, call.id, tool_call).await?;
        Ok(tool.effect)
    }

    fn ends(&self, call_context: &CallContext, call: &Call<Request>) -> Timestamp {
        match call.request.0.innermost() {
            CallRequest::Tool(tool_call) => deadline(call_context, tool_call.until_ms),
            CallRequest::Child(sub_task) => deadline(call_context, sub_task.until_ms),
            _ => call_context.deadline,
        }
    }

    async fn verify(&self, call_context: &CallContext, call: &Call<Request>) -> Verdict<Reply> {
        let CallRequest::Tool(tool_call) = call.request.0.innermost() else {
            return Verdict::Unknown;
        };
        let verify = self.verification(call_context, call.id, tool_call).await;
        let Some(verify) = verify else {
            return Verdict::Unknown;
        };
        let id = call.id.to_string();
        match self
            .ask_verifier(call_context, tool_call, id, &verify)
            .await
        {
            Ok(verdict) => verdict,
            Err(why) => {
                tracing::warn!(call = %call.id, tool = tool_call.tool, why, "a call could not be verified");
                Verdict::Unknown
            }
        }
    }

    async fn perform(&self, call_context: &CallContext, call: &Call<Request>) -> Outcome<Reply> {
        let began = Instant::now();
        let given = match call.request.0.innermost() {
            CallRequest::Decide(decision_context) => {
                self.decide(call_context, decision_context).await
            }
            // Boxed, because they are several times as large as the future of a tool call.
            CallRequest::Route(routing) => Box::pin(self.route(call_context, routing)).await,
            CallRequest::Synthesise(facts) => Box::pin(self.synthesise(call_context, facts)).await,
            CallRequest::Model(request) => Box::pin(self.think(call_context, request)).await,
            CallRequest::Tool(tool_call) if tool_call.waits().is_some() => {
                // The engine makes the call when the timer fires.
                Ok(CallReply::Tool(Box::new(waited(&tool_call.arguments))))
            }
            CallRequest::Tool(tool_call) => {
                let reply = self.use_tool(call_context, call.id, tool_call).await;
                reply.map(|reply| CallReply::Tool(Box::new(reply)))
            }
            CallRequest::Child(sub_task) => {
                let key = call.id.to_string();
                self.run_child(call_context, sub_task, key).await
            }
            CallRequest::Person { answer } => Ok(CallReply::Person(answer.clone())),
            CallRequest::Workflow(_) => Ok(CallReply::Person(None)),
            CallRequest::At(_) => Err(Failure::no_effect(
                FailureCode::CallNested,
                "a node is nested in another",
            )),
        };
        let request = call.request.0.innermost();
        let is_measured = match request {
            CallRequest::Model(thought) => self.is_measured(&thought.agent),
            CallRequest::Child(sub_task) => self.is_measured(sub_task.addressee.name()),
            _ => true,
        };
        if is_measured {
            measured::call(request, given.as_ref().err(), began.elapsed());
        }
        match given {
            Ok(given) => Outcome::Done(Reply(given)),
            Err(failure) => Outcome::Failed(failure),
        }
    }
}

/// The user's message.
pub(crate) fn user_message(call_context: &CallContext) -> &str {
    let first = call_context.messages.first();
    first.map_or("", |message| message.content.as_str())
}

/// The deadline of a call: that of the task or of the agent run, whichever is earlier. If the task's deadline was
/// extended, the run's moves with it.
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

/// The pause before another attempt if the server could not be reached, else the outcome for the caller.
fn pause_before_retry<T>(
    retry_budget: &mut RetryBudget,
    outcome: Result<T, Failure>,
) -> Result<Duration, Result<T, Failure>> {
    match outcome {
        Err(failure)
            if failure.is(FailureCode::ToolNotReached)
                && failure.kind == FailureKind::NoEffect
                && failure.transient =>
        {
            retry_budget.next_pause().ok_or(Err(failure))
        }
        outcome => Err(outcome),
    }
}

fn describe_timed_out(tool: &str, time: Duration) -> Failure {
    let message = format!("the server of `{tool}` did not reply within {time:?}");
    Failure::no_effect(FailureCode::ToolNotReached, message).transient()
}

/// Whether a tool's description is unchanged. Usually it is the same allocation.
fn is_unchanged(before: &Arc<ToolDescription>, now: &Arc<ToolDescription>) -> bool {
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

/// Arguments that the engine sets for a server's tools. They override those of the model.
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
