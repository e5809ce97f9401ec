//! The engine's executor: carries out what the program asks for, through the ports.

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{Call, Effect, Executor, Failure, FailureKind, Outcome, Performing};
use convoke_model::{Clock, Injected, McpServer};
use convoke_store::Store;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::assistant::Assistant;
use crate::nodes::{act, decide};
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

/// Carries out calls for all tasks of an app.
pub struct Performer {
    assistant: Arc<Assistant>,
    tools: Arc<dyn Tools>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    options: PerformerOptions,
}

impl Performer {
    /// A performer over the app's tools and the store's conversations.
    pub fn new(
        assistant: Arc<Assistant>,
        tools: Arc<dyn Tools>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: PerformerOptions,
    ) -> Self {
        Self {
            assistant,
            tools,
            store,
            clock,
            options,
        }
    }

    async fn decide(&self, performing: &Performing) -> Outcome {
        let limit = self.assistant.app.config.limits.history_messages as usize;
        let conversation = match performing.facts.conversation {
            None => Ok(None),
            Some(id) => {
                self.store
                    .conversation(id, Some(performing.facts.id), limit)
                    .await
            }
        };
        let (history, cut) = match conversation {
            Ok(Some(conversation)) => (conversation.messages, conversation.older),
            Ok(None) => (Vec::new(), 0),
            Err(error) => return Outcome::Failed(no_effect(error.code(), &error)),
        };
        let text = performing
            .messages
            .first()
            .map_or("", |message| message.content.as_str());
        let decided = decide::decide(&self.assistant, text, &history, cut);
        serde_json::to_value(decided).map_or_else(
            |error| Outcome::Failed(no_effect("decide.unwritable", &error)),
            Outcome::Done,
        )
    }

    async fn call_tool(&self, performing: &Performing, call: &Call) -> Outcome {
        match self.try_tool(performing, call).await {
            Ok(value) => Outcome::Done(value),
            Err(failure) => Outcome::Failed(failure),
        }
    }

    async fn try_tool(&self, performing: &Performing, call: &Call) -> Result<Value, Failure> {
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
        let left: Duration = performing
            .deadline
            .duration_since(self.clock.now())
            .try_into()
            .unwrap_or_default();
        Duration::from_secs(own.into()).min(left)
    }
}

impl Executor for Performer {
    fn effect<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Effect, Failure>> {
        async move {
            if call.kind != act::KIND {
                return Ok(Effect::None);
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
            match call.kind.as_str() {
                decide::KIND => self.decide(&performing).await,
                act::KIND => self.call_tool(&performing, call).await,
                other => Outcome::Failed(no_effect("call.unknown_kind", &other)),
            }
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
    }
}
