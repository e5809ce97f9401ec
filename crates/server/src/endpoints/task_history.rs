//! The entries of a task's journal.

use convoke::{HistoryEntry, MAX_HISTORY_ENTRIES};
use futures::FutureExt;
use http::Method;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{limit, query, schema_of};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};

/// Entries in a page, where the request does not say otherwise.
const DEFAULT_ENTRIES: usize = 100;

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks/{task}/history",
    name: "task_history",
    summary: "The entries of a task's journal, and where the task stood after each",
    operated: true,
    query: &[
        query::<u64>("after", "Only entries after this one"),
        limit::<MAX_HISTORY_ENTRIES>("Entries per page; 100 by default"),
    ],
    answers: &[(200, Answers::Json(schema_of::<History>))],
    handler: |call| read(call).boxed(),
    ..Route::OF_USERS
};

/// A part of a journal.
#[derive(Debug, Serialize, JsonSchema)]
struct History {
    entries: Vec<Entry>,
    /// The `after` of the next page. `null` on the last one.
    next: Option<u64>,
}

/// An entry of a journal.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Numbered from 1.
    seq: u64,
    at: Timestamp,
    /// What happened.
    kind: String,
    /// What it happened to, such as a call.
    label: Option<String>,
    /// The state of the task after it.
    status: String,
    /// The calls and questions that were open after it.
    open: Vec<String>,
    /// The conditions of a workflow that were evaluated in it.
    conditions: Vec<Value>,
}

impl From<HistoryEntry> for Entry {
    fn from(entry: HistoryEntry) -> Self {
        Self {
            seq: entry.seq,
            at: entry.at,
            kind: entry.kind,
            label: entry.label,
            status: entry.status,
            open: entry.open,
            conditions: entry.conditions.into_iter().map(|it| json!(it)).collect(),
        }
    }
}

async fn read(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let after = call.query_value("after")?.unwrap_or(0);
    let limit = call.limit(DEFAULT_ENTRIES, MAX_HISTORY_ENTRIES)?;
    let viewer = call.viewer(&runtime);
    let entries = runtime.history(viewer, call.task()?, after, limit).await?;
    let next = entries.last().filter(|_| entries.len() == limit);
    Ok(Reply::json(&History {
        next: next.map(|entry| entry.seq),
        entries: entries.into_iter().map(Into::into).collect(),
    }))
}
