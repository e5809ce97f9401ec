//! The MCP interface: answers questions with structured results.

use std::sync::Arc;
use std::time::Duration;

use convoke_serving::{Answer, Call, Outcome, Shared, ToolServer, about};
use rmcp::model::{ServerConfig, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::describe;
use crate::error::{Failure, MAX_QUERY_LENGTH, Refusal, RetailError};
use crate::matching::Matcher;
use crate::reading;
use crate::running::{Reader, Running};
use crate::space::{CertifiedQuery, Space};
use crate::spaces;
use crate::store::{Finished, Message, Status, Store};
use crate::tools;
use crate::unused::unused;

/// Options of the server.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How long a call waits for its query; slower ones are polled. Default 1.5 seconds; with zero,
    /// every answer is polled.
    pub answer_within: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            answer_within: Duration::from_millis(1_500),
        }
    }
}

/// Serves the spaces to any number of clients.
#[derive(Debug, Clone)]
pub struct RetailServer {
    store: Shared<Store>,
    reader: Reader,
    matcher: Arc<Matcher>,
    running: Running,
    options: Options,
}

impl RetailServer {
    pub fn new(store: Store, options: Options) -> Result<Self, RetailError> {
        Ok(Self {
            reader: Reader::new(store.file()),
            store: Shared::new(store),
            matcher: Arc::new(Matcher::new()?),
            running: Running::default(),
            options,
        })
    }

    /// Answers a question, or starts to.
    fn ask(&self, space: &'static Space, request: &Question) -> Outcome<Refusal> {
        let question = request.query.trim();
        if question.is_empty() {
            return Err(Refusal::QueryEmpty.into());
        }
        if question.chars().count() > MAX_QUERY_LENGTH {
            return Err(Refusal::QueryTooLong.into());
        }
        let conversation = request.conversation_id.as_deref();
        let last = self.store.with(|store| {
            conversation.map_or(Ok(None), |id| {
                store.require(space.id, id)?;
                store.last(id)
            })
        })?;
        let (certified, parameters) = self.matcher.understand(space, question, last.as_ref())?;
        let message = self.store.with(|store| {
            store.begin(space.id, conversation, question, certified.id, &parameters)
        })?;
        self.answer(space, certified, message)
    }

    /// Answers an earlier question, if its query has ended.
    fn poll(&self, space: &'static Space, request: &Poll) -> Outcome<Refusal> {
        let message = self.store.with(|store| {
            store.require(space.id, &request.conversation_id)?;
            store.message(&request.conversation_id, &request.message_id)
        })?;
        let certified = space
            .query(&message.query_id)
            .ok_or_else(|| Failure::Corrupt(format!("there is no query {}", message.query_id)))?;
        self.answer(space, certified, message)
    }

    /// Runs the query of a message unless it has a result, and returns its state. Queries are read-only,
    /// so a message left by a killed process is simply run again.
    fn answer(
        &self,
        space: &'static Space,
        query: &'static CertifiedQuery,
        message: Message,
    ) -> Outcome<Refusal> {
        let mut message = message;
        if message.status == Status::Running {
            self.begin(query, &message)?;
            let within = self.options.answer_within;
            // Without time to wait, the status is not read again.
            if !within.is_zero() {
                self.running.wait(&message.id, within);
                message = self
                    .store
                    .with(|store| store.message(&message.conversation, &message.id))?;
            }
        }
        if message.status == Status::Failed {
            return Err(Refusal::QueryFailed.into());
        }
        Ok(Answer::done(as_words(space, query, &message)))
    }

    fn begin(&self, query: &'static CertifiedQuery, message: &Message) -> Result<(), Refusal> {
        let (store, reader) = (self.store.clone(), self.reader.clone());
        let (id, parameters) = (message.id.clone(), message.parameters.clone());
        self.running.begin(&message.id, move || {
            let finished = reader.run(query.sql, &parameters).map(|table| Finished {
                answer: describe(&query.answer, &parameters, &table),
                table,
            });
            if let Err(error) = &finished {
                tracing::error!(%error, query = query.id, "a certified query failed");
            }
            let stored = store.with(|store| store.end(&id, finished.as_ref().ok()));
            if let Err(error) = stored {
                tracing::error!(%error, "an answer could not be kept");
            }
        })
    }
}

fn as_words(space: &Space, query: &CertifiedQuery, message: &Message) -> Value {
    let reading = reading::read(&message.question, space);
    let (status, answer, columns, rows) = match &message.result {
        Some(Finished { answer, table }) => (
            "completed",
            answer.as_str(),
            json!(table.columns),
            json!(table.rows),
        ),
        None => ("running", "", json!([]), json!([])),
    };
    json!({
        "status": status,
        "answer": answer,
        "sql_query": query.sql,
        "query_id": query.id,
        "parameters": message.parameters,
        "unused": unused(&message.question, &reading, space, query),
        "columns": columns,
        "rows": rows,
        "conversation_id": message.conversation,
        "message_id": message.id,
    })
}

impl ToolServer for RetailServer {
    type Refusal = Refusal;

    fn about() -> ServerConfig {
        about(
            "convoke-retail",
            env!("CARGO_PKG_VERSION"),
            "A year of a shop: customer behavior, inventory, pricing, marketing and sales, each a \
             space that answers questions with certified queries.",
        )
    }

    fn tools() -> Vec<Tool> {
        tools::all()
    }

    fn run(&self, tool: &str, call: &Call) -> Option<Outcome<Refusal>> {
        if let Some(space) = spaces::ALL.iter().find(|space| space.query_tool == tool) {
            let request = call.arguments().map_err(Failure::from);
            return Some(request.and_then(|request| self.ask(space, &request)));
        }
        let space = spaces::ALL.iter().find(|space| space.poll_tool == tool)?;
        let request = call.arguments().map_err(Failure::from);
        Some(request.and_then(|request| self.poll(space, &request)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    query: String,
    #[serde(default)]
    conversation_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Poll {
    conversation_id: String,
    message_id: String,
}

#[cfg(test)]
mod tests;
