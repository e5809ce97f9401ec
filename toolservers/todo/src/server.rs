//! The MCP side: arguments in, structured results out.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::error::{Refusal, TodoError};
use crate::idempotency::IDEMPOTENCY_KEY;
use crate::store::{Answer, Change, Store};
use crate::task::{Status, title};
use crate::tools;

/// Serves one database to any number of clients.
#[derive(Debug, Clone)]
pub struct TodoServer {
    store: Arc<Mutex<Store>>,
}

impl TodoServer {
    /// Serves this database.
    pub fn new(store: Store) -> Self {
        Self {
            store: Arc::new(Mutex::new(store)),
        }
    }

    /// Runs a tool. `None` means that there is no such tool.
    fn run(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        key: Option<&Value>,
    ) -> Option<Outcome> {
        Some(match tool {
            "list_tasks" => self.list(arguments),
            "add_task" => self.change(arguments, key, |new: NewTask| {
                Ok((
                    new.user_id,
                    Change::Add {
                        title: title(&new.title)?,
                    },
                ))
            }),
            "complete_task" => self.change(arguments, key, |one: OneTask| {
                Ok((
                    one.user_id,
                    Change::Complete {
                        task: task_id(&one.task_id)?,
                    },
                ))
            }),
            "delete_task" => self.change(arguments, key, |one: OneTask| {
                Ok((
                    one.user_id,
                    Change::Delete {
                        task: task_id(&one.task_id)?,
                    },
                ))
            }),
            "update_task" => self.change(arguments, key, |renamed: RenamedTask| {
                let task = task_id(&renamed.task_id)?;
                Ok((
                    renamed.user_id,
                    Change::Update {
                        task,
                        title: title(&renamed.title)?,
                    },
                ))
            }),
            _ => return None,
        })
    }

    /// Listing changes nothing, so that its key, if any, is of no account and the list is fresh.
    fn list(&self, arguments: Map<String, Value>) -> Outcome {
        let list: ListTasks = parsed(arguments)?;
        let tasks = self.locked(|store| store.list(user_id(&list.user_id)?, list.status))?;
        Ok(Answer {
            content: json!({"tasks": tasks}),
            is_error: false,
        })
    }

    fn change<A: DeserializeOwned>(
        &self,
        arguments: Map<String, Value>,
        key: Option<&Value>,
        read: impl FnOnce(A) -> Result<(String, Change), Refusal>,
    ) -> Outcome {
        let (user, change) = read(parsed(arguments)?)?;
        let user = user_id(&user)?;
        let key = key
            .map(|key| key.as_str().ok_or(Refusal::Key))
            .transpose()?;
        self.locked(|store| store.change(user, &change, key))
    }

    fn locked<T>(
        &self,
        act: impl FnOnce(&mut Store) -> Result<T, TodoError>,
    ) -> Result<T, TodoError> {
        // A panic in the middle of a transaction rolls it back, so that the store stays sound.
        act(&mut self.store.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Outcome = Result<Answer, TodoError>;

impl ServerHandler for TodoServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(
                "convoke-todo",
                env!("CARGO_PKG_VERSION"),
            ))
            .with_instructions("To-do lists, one for each user.")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let server = self.clone();
        let name = request.name.clone();
        let key = context.meta.get(IDEMPOTENCY_KEY).cloned();
        // The disk, or another process that is writing, must not hold up the conversation.
        let outcome = tokio::task::spawn_blocking(move || {
            server.run(
                &request.name,
                request.arguments.unwrap_or_default(),
                key.as_ref(),
            )
        })
        .await
        .map_err(|error| internal(&error))?;
        match outcome {
            None => Err(ErrorData::invalid_params(
                format!("there is no tool `{name}`"),
                None,
            )),
            Some(Ok(answer)) => Ok(result(answer).into()),
            Some(Err(TodoError::Refused(refusal))) => Ok(result(Answer {
                content: refusal.to_value(),
                is_error: true,
            })
            .into()),
            Some(Err(error)) => Err(internal(&error)),
        }
    }
}

/// The structured answer, and beside it what older clients read: JSON for a result, the sentence
/// for a refusal.
fn result(answer: Answer) -> CallToolResult {
    let Answer { content, is_error } = answer;
    if is_error {
        let sentence = content["message"].as_str().unwrap_or_default().to_owned();
        let mut result = CallToolResult::structured_error(content);
        result.content = vec![ContentBlock::text(sentence)];
        result
    } else {
        CallToolResult::structured(content)
    }
}

/// The cause goes to the operator's log; the client learns that it was not its fault.
fn internal(error: &dyn std::error::Error) -> ErrorData {
    tracing::error!(%error, "a call failed");
    ErrorData::internal_error("the to-do list is out of order; see the server's log", None)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTask {
    user_id: String,
    title: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListTasks {
    user_id: String,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneTask {
    user_id: String,
    task_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RenamedTask {
    user_id: String,
    task_id: String,
    title: String,
}

fn parsed<A: DeserializeOwned>(arguments: Map<String, Value>) -> Result<A, Refusal> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Refusal::Arguments(error.to_string()))
}

fn user_id(text: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text).map_err(|_| Refusal::UserId)
}

fn task_id(text: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text).map_err(|_| Refusal::TaskId)
}
