//! The MCP interface: parses arguments and returns structured results.

use std::path::Path;

use convoke_serving::{Answer, Call, Outcome, Shared, Sources, ToolServer, about};
use rmcp::model::{ServerConfig, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use uuid::Uuid;

use crate::error::{Refusal, TodoError};
use crate::store::{Change, Store};
use crate::task::{Status, title};
use crate::tools;

/// Serves one database to any number of clients.
#[derive(Debug, Clone)]
pub struct TodoServer {
    store: Shared<Store>,
}

impl TodoServer {
    pub fn new(store: Store) -> Self {
        Self {
            store: Shared::new(store),
        }
    }

    /// Opens the database and serves it.
    pub(crate) fn open(db: &Path) -> Result<Self, TodoError> {
        Ok(Self::new(Store::open(db, Sources::real())?))
    }

    /// Listing changes nothing, so an idempotency key is ignored and the list is always current.
    fn list(&self, call: &Call) -> Outcome<Refusal> {
        let list: ListTasks = call.arguments()?;
        let user = user_id(&list.user_id)?;
        let tasks = self.store.with(|store| store.list(user, list.status))?;
        Ok(Answer::done(json!({"tasks": tasks})))
    }

    fn change<A: DeserializeOwned>(
        &self,
        call: &Call,
        read: impl FnOnce(A) -> Result<(String, Change), Refusal>,
    ) -> Outcome<Refusal> {
        let (user, change) = read(call.arguments()?)?;
        let user = user_id(&user)?;
        let key = call.key()?;
        self.store.with(|store| store.change(user, &change, key))
    }
}

impl ToolServer for TodoServer {
    type Refusal = Refusal;

    fn about() -> ServerConfig {
        about(
            "convoke-todo",
            env!("CARGO_PKG_VERSION"),
            "To-do lists, one for each user.",
        )
    }

    fn tools() -> Vec<Tool> {
        tools::all()
    }

    fn run(&self, tool: &str, call: &Call) -> Option<Outcome<Refusal>> {
        Some(match tool {
            "list_tasks" => self.list(call),
            "add_task" => self.change(call, |new: NewTask| {
                Ok((
                    new.user_id,
                    Change::Add {
                        title: title(&new.title)?,
                    },
                ))
            }),
            "complete_task" => self.change(call, |one: OneTask| {
                Ok((
                    one.user_id,
                    Change::Complete {
                        task: task_id(&one.task_id)?,
                    },
                ))
            }),
            "delete_task" => self.change(call, |one: OneTask| {
                Ok((
                    one.user_id,
                    Change::Delete {
                        task: task_id(&one.task_id)?,
                    },
                ))
            }),
            "update_task" => self.change(call, |renamed: RenamedTask| {
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

fn user_id(text: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text).map_err(|_| Refusal::UserId)
}

fn task_id(text: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text).map_err(|_| Refusal::TaskId)
}
