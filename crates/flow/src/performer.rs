//! The engine's executor: carries out what the program asks for, through the ports.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_engine::{Call, Effect, Executor, Failure, FailureKind, Outcome, Performing};
use convoke_llm::ModelClient;
use convoke_model::{AgentFields, Clock, Injected, McpServer, Message, Name};
use convoke_store::Store;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::assistant::Assistant;
use crate::nodes::agent::sub_agents;
use crate::nodes::{act, agent, decide};
use crate::ports::{NOT_REACHED, ToolFacts, ToolRequest, Tools};

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
    facts: Vec<ToolFacts>,
    offered: Arc<[agent::Offered]>,
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

    async fn read_history(&self, performing: &Performing) -> Result<History, Failure> {
        let Some(id) = performing.facts.conversation else {
            return Ok(History::default());
        };
        let limit = self.assistant.app.config.limits.history_messages as usize;
        let found = self
            .store
            .conversation(id, Some(performing.facts.id), limit)
            .await
            .map_err(|error| no_effect(error.code(), &error))?;
        Ok(found.map_or_else(History::default, |found| History {
            messages: found.messages,
            older: found.older,
        }))
    }

    async fn decide(&self, performing: &Performing) -> Result<Value, Failure> {
        let history = self.history(performing).await?;
        let text = performing
            .messages
            .first()
            .map_or("", |message| message.content.as_str());
        let decided = decide::decide(&self.assistant, text, &history.messages, history.older);
        serde_json::to_value(decided).map_err(|error| no_effect("decide.unwritable", &error))
    }

    async fn think(&self, performing: &Performing, call: &Call) -> Result<Value, Failure> {
        let asked: agent::Asked = serde_json::from_value(call.request.clone())
            .map_err(|error| no_effect("agent.unreadable", &error))?;
        let agent = self
            .assistant
            .app
            .agent(asked.agent.as_str())
            .ok_or_else(|| no_effect("agent.gone", &asked.agent))?;
        if asked.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(asked.delay_ms)).await;
        }
        let history = self.history(performing).await?;
        let thinking = agent::Thinking {
            agent,
            models: agent.models().cloned().collect(),
            phase: asked.phase,
            tools: self.offered(agent).await,
            history: &history.messages,
            older: history.older,
            performing,
            time_left: Duration::from_millis(agent.limits.timeout_ms)
                .min(self.time_left(performing)),
        };
        let thought = agent::perform(&self.models, &thinking).await?;
        serde_json::to_value(thought).map_err(|error| no_effect("agent.unwritable", &error))
    }

    async fn ask_agent(&self, performing: &Performing, call: &Call) -> Result<Value, Failure> {
        let (key, at) = (call.id.to_string(), self.clock.now());
        sub_agents::perform(performing, key, &call.request, at).await
    }

    /// The agent's tools as its model sees them. A server that cannot be reached takes only its own
    /// away. Made anew only when a server says something else of its tools than before.
    async fn offered(&self, agent: &AgentFields) -> Arc<[agent::Offered]> {
        let described =
            futures::future::join_all(agent.tools.iter().map(|tool| self.describe(tool))).await;
        let mut facts = Vec::with_capacity(described.len());
        for (tool, described) in agent.tools.iter().zip(described) {
            match described {
                Ok(described) => facts.push(described),
                Err(failure) => tracing::warn!(%tool, code = failure.code, "a tool is not there"),
            }
        }
        let mut known = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(offers) = known.get(&agent.name)
            && offers.facts == facts
        {
            return Arc::clone(&offers.offered);
        }
        let offered: Arc<[agent::Offered]> = agent::Offered::of(&facts)
            .chain(sub_agents::offered(&self.assistant, agent))
            .collect();
        let offers = Offers {
            facts,
            offered: Arc::clone(&offered),
        };
        known.insert(agent.name.clone(), offers);
        offered
    }

    async fn call_tool(&self, performing: &Performing, call: &Call) -> Result<Value, Failure> {
        let facts = self.describe(tool_of(call)).await?;
        let server = self.server(&facts.server);
        let request = ToolRequest {
            injected: injected(server, performing),
            arguments: call
                .request
                .get("arguments")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            idempotency_key: call.id.to_string(),
            timeout: self.time_for(server, &facts, performing),
            server: facts.server,
            tool: facts.tool,
        };
        let reply = self.stubbornly(|| self.tools.call(request.clone())).await?;
        serde_json::to_value(reply).map_err(|error| no_effect("tool.unwritable", &error))
    }

    async fn describe(&self, tool: &str) -> Result<ToolFacts, Failure> {
        self.stubbornly(|| self.tools.describe(tool)).await
    }

    /// Tries again while the server cannot be reached at all. Anything else is for the caller.
    async fn stubbornly<'a, T>(
        &self,
        attempt: impl Fn() -> BoxFuture<'a, Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut pause = self.options.pause;
        for _ in 1..self.options.attempts {
            match attempt().await {
                Err(failure) if failure.code == NOT_REACHED => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                outcome => return outcome,
            }
        }
        attempt().await
    }

    fn server(&self, name: &str) -> Option<&McpServer> {
        self.assistant
            .app
            .servers
            .iter()
            .find(|server| server.name == *name)
    }

    /// The tool's own limit, the app's, and what is left of the task's time: the least of them.
    fn time_for(
        &self,
        server: Option<&McpServer>,
        facts: &ToolFacts,
        performing: &Performing,
    ) -> Duration {
        let limits = &self.assistant.app.config.limits;
        let own = server
            .and_then(|server| server.tools.get(&facts.tool))
            .and_then(|settings| settings.timeout_seconds)
            .unwrap_or(limits.tool_seconds);
        Duration::from_secs(own.into()).min(self.time_left(performing))
    }

    /// What is left of the task's time.
    fn time_left(&self, performing: &Performing) -> Duration {
        performing
            .deadline
            .duration_since(self.clock.now())
            .try_into()
            .unwrap_or_default()
    }
}

impl Executor for Performer {
    fn effect<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Effect, Failure>> {
        async move {
            match call.kind.as_str() {
                act::KIND => {}
                // A child that was submitted under the call's id is found again, not made again.
                sub_agents::KIND => return Ok(Effect::Repeatable),
                _ => return Ok(Effect::None),
            }
            let facts = self.describe(tool_of(call)).await?;
            let keyed = self
                .server(&facts.server)
                .is_some_and(|server| server.honours_idempotency_key);
            Ok(if facts.read_only {
                Effect::None
            } else if facts.idempotent || keyed {
                Effect::Repeatable
            } else {
                Effect::Once
            })
        }
        .boxed()
    }

    fn perform<'a>(&'a self, performing: Performing, call: &'a Call) -> BoxFuture<'a, Outcome> {
        async move {
            let outcome = match call.kind.as_str() {
                decide::KIND => self.decide(&performing).await,
                act::KIND => self.call_tool(&performing, call).await,
                agent::KIND => self.think(&performing, call).await,
                sub_agents::KIND => self.ask_agent(&performing, call).await,
                other => Err(no_effect("call.unknown_kind", &other)),
            };
            outcome.map_or_else(Outcome::Failed, Outcome::Done)
        }
        .boxed()
    }
}

fn tool_of(call: &Call) -> &str {
    call.request
        .get("tool")
        .and_then(Value::as_str)
        .unwrap_or_default()
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
