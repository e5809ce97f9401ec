//! The engine's executor: carries out what the program asks for, through the ports.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_engine::{Call, Effect, Executor, Failure, FailureKind, Outcome, Performing, Verdict};
use convoke_llm::ModelClient;
use convoke_model::{AgentFields, Clock, Injected, McpServer, Message, Name, Role, VerifyFields};
use convoke_store::Store;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::assistant::Assistant;
use crate::calls::{Ask, Deciding, Given, Reply, Request, ToolWish};
use crate::nodes::agent::sub_agents::{self, Earlier, Errand};
use crate::nodes::aggregate::{self, Facts};
use crate::nodes::route::Routing;
use crate::nodes::{agent, decide};
use crate::patience::Patience;
use crate::ports::{Caller, NOT_REACHED, ToolFacts, ToolReply, ToolRequest, Tools};

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
    offers: Mutex<HashMap<Name, Offers>>,
}

/// What an agent's model is offered, with what it was made from.
struct Offers {
    facts: Vec<Arc<ToolFacts>>,
    offered: Arc<agent::Offer>,
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
        }
    }

    /// What was said in the conversation before the task. It does not change while the task runs, so
    /// it is read once for each hold.
    async fn history(&self, performing: &Performing) -> Result<Arc<History>, Failure> {
        let kept = performing
            .scratch
            .get_or_try_init(|| async {
                let history: Arc<dyn Any + Send + Sync> =
                    Arc::new(self.read_history(performing).await?);
                Ok::<_, Failure>(history)
            })
            .await?;
        Arc::clone(kept)
            .downcast::<History>()
            .map_err(|_| no_effect("history.unreadable", &"something else is kept in its place"))
    }

    /// A part of a message has no conversation of its own, and looks back on the one that it is said in.
    async fn read_history(&self, performing: &Performing) -> Result<History, Failure> {
        let facts = &performing.facts;
        let first = performing.messages.first();
        let earlier = match (facts.conversation, facts.parent) {
            (Some(conversation), _) => Some(Earlier {
                conversation,
                before: facts.id,
                messages: self.assistant.app.config.limits.history_messages as usize,
            }),
            (None, Some(_)) => first.and_then(Earlier::of),
            (None, None) => None,
        };
        let Some(earlier) = earlier else {
            return Ok(History::default());
        };
        let found = self
            .store
            .conversation(earlier.conversation, Some(earlier.before), earlier.messages)
            .await
            .map_err(|error| no_effect(error.code(), &error))?;
        Ok(found.map_or_else(History::default, |found| History {
            messages: found.messages,
            older: found.older,
        }))
    }

    async fn decide(&self, performing: &Performing, deciding: &Deciding) -> Result<Given, Failure> {
        let history = self.history(performing).await?;
        let (assistant, deciding) = (Arc::clone(&self.assistant), deciding.clone());
        let text = said(performing).to_owned();
        let decide = move || {
            let (earlier, older) = (&history.messages, history.older);
            decide::decide(&assistant, &deciding, &text, earlier, older)
        };
        let decided = if self.assistant.is_trained() {
            decide()
        } else {
            // It may have to be trained first, which takes longer than other tasks can wait.
            let decided = tokio::task::spawn_blocking(decide).await;
            decided.map_err(|error| no_effect("decide.failed", &error))?
        };
        Ok(Given::Decided(Box::new(decided)))
    }

    /// Lets a model say who answers.
    async fn route(&self, performing: &Performing, routing: &Routing) -> Result<Given, Failure> {
        let router = self.assistant.router(routing.over);
        let router = router.ok_or_else(|| no_effect("route.gone", &"the router is gone"))?;
        let history = self.history(performing).await?;
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
                said(performing),
                recent,
                self.clock.now(),
                self.time_left(deadline(performing, Some(routing.until_ms))),
            )
            .await?;
        Ok(Given::Thought(Box::new(thought)))
    }

    /// Lets a model write one text from several results.
    async fn synthesise(&self, performing: &Performing, facts: &Facts) -> Result<Given, Failure> {
        let time_left = self.time_left(deadline(performing, Some(facts.until_ms)));
        let (text, now) = (said(performing), self.clock.now());
        let thought =
            aggregate::ask(&self.assistant, &self.models, text, facts, now, time_left).await?;
        Ok(Given::Thought(Box::new(thought)))
    }

    /// Lets another agent, or a workflow, do a part of the work.
    async fn hand_over(
        &self,
        performing: &Performing,
        errand: &Errand,
        key: String,
    ) -> Result<Given, Failure> {
        let (at, end) = (self.clock.now(), deadline(performing, errand.until_ms));
        let outcome = Box::pin(sub_agents::perform(performing, key, errand, at, end)).await;
        let whom = errand.whom.name();
        let agent = self.assistant.app.agent(whom.as_str());
        if agent.is_none_or(|agent| agent.limits.enable_telemetry) {
            let took = self.clock.now().duration_since(at).as_millis();
            let success = outcome.as_ref().is_ok_and(|reply| !reply.is_error);
            tracing::info!(task = %performing.facts.id, %whom, took, success, "a part of the work has come back");
        }
        outcome.map(|reply| Given::Tool(Box::new(reply)))
    }

    async fn think(&self, performing: &Performing, asked: &agent::Asked) -> Result<Given, Failure> {
        let agent = self
            .assistant
            .app
            .agent(asked.agent.as_str())
            .ok_or_else(|| no_effect("agent.gone", &asked.agent))?;
        let history = self.history(performing).await?;
        let end = deadline(performing, Some(asked.until_ms));
        let thinking = agent::Thinking {
            agent,
            offer: &*self.offered(agent, end).await,
            phase: asked.phase,
            history: &history.messages,
            older: history.older,
            performing,
            time_left: self.time_left(end),
        };
        let thought = agent::perform(&self.models, &thinking).await?;
        Ok(Given::Thought(Box::new(thought)))
    }

    /// The agent's tools as its model sees them. A server that cannot be reached takes only its own
    /// away, and no more than half of the time. Made anew only when a server says something else of its
    /// tools than before.
    async fn offered(&self, agent: &AgentFields, end: Timestamp) -> Arc<agent::Offer> {
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
        let offered = Arc::new(agent::Offer::new(
            agent,
            agent::Offered::of(&facts).chain(sub_agents::offered(&self.assistant, agent)),
        ));
        let offers = Offers {
            facts,
            offered: Arc::clone(&offered),
        };
        known.insert(agent.name.clone(), offers);
        offered
    }

    async fn call_tool(
        &self,
        performing: &Performing,
        wish: &ToolWish,
        key: String,
    ) -> Result<ToolReply, Failure> {
        let time = self.time_for(&wish.tool, deadline(performing, wish.until_ms));
        let mut patience = Patience::new(&self.options, time);
        let facts = self.describe(&wish.tool, time).await?;
        let server = self.server(&facts.server);
        let mut request = ToolRequest {
            injected: injected(server, performing),
            arguments: Arc::clone(&wish.arguments),
            caller: Caller {
                user: performing.facts.owner,
                conversation: performing.facts.conversation,
                task: performing.facts.id,
            },
            idempotency_key: key,
            timeout: time,
            server: facts.server.clone(),
            tool: facts.tool.clone(),
        };
        loop {
            request.timeout = patience.time_left();
            match again(&mut patience, self.tools.call(&request).await) {
                Ok(pause) => tokio::time::sleep(pause).await,
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
    async fn describe(&self, tool: &str, time: Duration) -> Result<Arc<ToolFacts>, Failure> {
        let mut patience = Patience::new(&self.options, time);
        let mut why = None;
        loop {
            let described = self.tools.describe(tool);
            let outcome = match tokio::time::timeout_at(patience.until(), described).await {
                Ok(outcome) => outcome,
                Err(_) => Err(why.unwrap_or_else(|| not_in_time(tool, time))),
            };
            let outcome = outcome.map_err(|failure| Failure {
                kind: FailureKind::NoEffect,
                ..failure
            });
            why = outcome.as_ref().err().cloned();
            match again(&mut patience, outcome) {
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
        performing: &Performing,
        wish: &ToolWish,
        id: String,
        verify: &VerifyFields,
    ) -> Result<Verdict<Reply>, String> {
        let said = |failure: Failure| failure.message;
        let time = self.time_for(&verify.tool, deadline(performing, wish.until_ms));
        let facts = self.describe(&verify.tool, time).await.map_err(said)?;
        if !facts.read_only {
            return Err(format!("{} may change something itself", verify.tool));
        }
        let templates = &self.assistant.templates;
        let given = Value::Object((*wish.arguments).clone());
        let mut context = Map::new();
        context.insert("call_id".into(), id.clone().into());
        context.insert("arguments".into(), given.clone());
        let arguments = match &verify.arguments {
            None => given,
            Some(asked) => templates.value(&Value::Object(asked.clone()), &context)?,
        };
        let asked = ToolWish {
            tool: verify.tool.clone(),
            arguments: Arc::new(arguments.as_object().cloned().unwrap_or_default()),
            index: None,
            until_ms: wish.until_ms,
            delay_ms: 0,
            asks: false,
        };
        let key = format!("{id}-verify");
        let reply = self
            .call_tool(performing, &asked, key)
            .await
            .map_err(said)?;
        if reply.is_error {
            return Err(reply.text);
        }
        context.insert("result".into(), reply.content);
        match templates.expression(&verify.done, &context)? {
            Value::Bool(true) => {
                let given = templates.expression(&verify.gives, &context)?;
                let (server, tool) = wish.tool.split_once('.').unwrap_or(("", &wish.tool));
                let reply = ToolReply::of(server, tool, given);
                Ok(Verdict::Done(Reply(Given::Tool(Box::new(reply)))))
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
        performing: &Performing,
        call: &Call<Request>,
    ) -> Result<Effect, Failure> {
        let wish = match call.request.0.itself() {
            Ask::Tool(wish) => wish,
            // A child that was submitted under the call's id is found again, not made again.
            Ask::Child(_) => return Ok(Effect::Repeatable),
            Ask::Decide(_)
            | Ask::Route(_)
            | Ask::Synthesise(_)
            | Ask::Model(_)
            | Ask::Person { .. }
            | Ask::At(_) => return Ok(Effect::None),
        };
        let time = self.time_for(&wish.tool, deadline(performing, wish.until_ms));
        let facts = self.describe(&wish.tool, time).await?;
        let keyed = self
            .server(&facts.server)
            .is_some_and(|server| server.honours_idempotency_key);
        Ok(if facts.read_only {
            Effect::None
        } else if facts.idempotent || keyed {
            Effect::Repeatable
        } else if wish.asks {
            Effect::AtMostOnce
        } else {
            Effect::Once
        })
    }

    fn ends(&self, performing: &Performing, call: &Call<Request>) -> Timestamp {
        match call.request.0.itself() {
            Ask::Tool(wish) => deadline(performing, wish.until_ms),
            Ask::Child(errand) => deadline(performing, errand.until_ms),
            _ => performing.deadline,
        }
    }

    async fn verify(&self, performing: &Performing, call: &Call<Request>) -> Verdict<Reply> {
        let Ask::Tool(wish) = call.request.0.itself() else {
            return Verdict::Unknown;
        };
        let time = self.time_for(&wish.tool, deadline(performing, wish.until_ms));
        let Some(verify) = self.verification(&wish.tool, time).await else {
            return Verdict::Unknown;
        };
        let id = call.id.to_string();
        match self.ask_whether(performing, wish, id, &verify).await {
            Ok(verdict) => verdict,
            Err(why) => {
                tracing::warn!(call = %call.id, tool = wish.tool, why, "it cannot be told whether a call took effect");
                Verdict::Unknown
            }
        }
    }

    async fn perform(&self, performing: &Performing, call: &Call<Request>) -> Outcome<Reply> {
        let key = || call.id.to_string();
        let delay = call.request.0.delay_ms();
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        let given = match call.request.0.itself() {
            Ask::Decide(deciding) => self.decide(performing, deciding).await,
            Ask::Route(routing) => self.route(performing, routing).await,
            Ask::Synthesise(facts) => self.synthesise(performing, facts).await,
            Ask::Model(asked) => self.think(performing, asked).await,
            Ask::Tool(wish) => {
                let reply = self.call_tool(performing, wish, key()).await;
                reply.map(|reply| Given::Tool(Box::new(reply)))
            }
            Ask::Child(errand) => self.hand_over(performing, errand, key()).await,
            Ask::Person { said } => Ok(Given::Person(said.clone())),
            Ask::At(_) => Err(no_effect("call.nested", &"a node stands in a node")),
        };
        match given {
            Ok(given) => Outcome::Done(Reply(given)),
            Err(failure) => Outcome::Failed(failure),
        }
    }
}

/// What the user said.
fn said(performing: &Performing) -> &str {
    let first = performing.messages.first();
    first.map_or("", |message| message.content.as_str())
}

/// When a call's time is over: the task's end, or the end of the run that makes it. Where the task's
/// time began anew, so does the run's.
fn deadline(performing: &Performing, until_ms: Option<u64>) -> Timestamp {
    let Some(until_ms) = until_ms else {
        return performing.deadline;
    };
    let facts = &performing.facts;
    let moved = performing.deadline.duration_since(facts.deadline);
    let run = facts
        .created_at
        .checked_add(Duration::from_millis(until_ms))
        .and_then(|end| end.checked_add(moved));
    run.map_or(performing.deadline, |run| run.min(performing.deadline))
}

/// How long to wait before a server that could not be reached at all is tried again. Anything else is for the caller.
fn again<T>(
    patience: &mut Patience,
    outcome: Result<T, Failure>,
) -> Result<Duration, Result<T, Failure>> {
    match outcome {
        Err(failure) if failure.code == NOT_REACHED && failure.kind == FailureKind::NoEffect => {
            patience.next_pause().ok_or(Err(failure))
        }
        outcome => Err(outcome),
    }
}

fn not_in_time(tool: &str, time: Duration) -> Failure {
    Failure {
        code: NOT_REACHED.into(),
        message: format!("the server of `{tool}` said nothing within {time:?}"),
        kind: FailureKind::NoEffect,
        transient: true,
    }
}

/// Whether a server says the same of a tool as before. Most do not even say it anew.
fn same(before: &Arc<ToolFacts>, now: &Arc<ToolFacts>) -> bool {
    Arc::ptr_eq(before, now) || before == now
}

/// The facts that a server's tools are given, whatever anybody else says.
fn injected(server: Option<&McpServer>, performing: &Performing) -> Map<String, Value> {
    let facts = &performing.facts;
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

fn no_effect(code: &str, message: &impl ToString) -> Failure {
    Failure {
        code: code.into(),
        message: message.to_string(),
        kind: FailureKind::NoEffect,
        transient: false,
    }
}
