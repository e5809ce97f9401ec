//! `convoke tasks fork`: starts a new task at a point of another.

use std::path::Path;
use std::sync::Arc;

use convoke_store::{Store, Viewer};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::not_found;
use crate::cli::StoreArgs;
use crate::exit::{Exit, UsageError};
use crate::{output, start};

/// The point of the fork, and changes.
pub(super) struct Fork<'a> {
    pub(super) at: u64,
    /// Each as `field=value`.
    pub(super) set: &'a [String],
    pub(super) app: Option<&'a Path>,
}

pub(super) async fn fork(
    store: Arc<dyn Store>,
    task: Uuid,
    fork: &Fork<'_>,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Exit> {
    let set = fields(fork.set)?;
    let (record, _) = store
        .newest(&Viewer::System, task)
        .await?
        .ok_or_else(|| not_found(task))?;
    let engine = start::engine_of(store, &record, fork.app, args, json).await?;
    let id = engine.fork(&Viewer::System, task, fork.at, set).await?;
    if json {
        output::json_line(&json!({ "task": id, "from": task, "at": fork.at }));
    } else {
        output::line(id);
        output::note("it is carried out when its app runs: `convoke resume APP`");
    }
    Ok(Exit::Done)
}

/// Reads `field=value`; the value is JSON, or else a text.
pub(crate) fn fields(set: &[String]) -> Result<Map<String, Value>, UsageError> {
    set.iter()
        .map(|text| {
            let (field, value) = text.split_once('=').ok_or_else(|| {
                let message = format!("`{text}` sets nothing; write field=value");
                UsageError::new("set.malformed", message)
            })?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            Ok((field.trim().to_owned(), value))
        })
        .collect()
}
