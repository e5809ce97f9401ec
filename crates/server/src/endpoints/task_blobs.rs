//! The files and large values of a task.

use std::collections::HashMap;

use convoke::{BlobInfo, Runtime, Viewer};
use convoke_model::{BlobHash, Part};
use futures::FutureExt;
use http::Method;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::schema_of;
use crate::call::{Call, unknown_task};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks/{task}/blobs",
    name: "task_blobs",
    summary: "The files, images and large values that a task names",
    operated: true,
    answers: &[(200, Answers::Json(schema_of::<BlobList>))],
    handler: |call| list(call).boxed(),
    ..Route::OF_USERS
};

/// What a blob is when no message says so.
const UNKNOWN: &str = "application/octet-stream";

/// The blobs of a task.
#[derive(Debug, Serialize, JsonSchema)]
struct BlobList {
    blobs: Vec<NamedBlob>,
}

/// A blob, as the messages of its task name it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NamedBlob {
    /// The SHA-256 of its content, and its name under `blobs/`.
    #[schemars(with = "String")]
    pub(super) hash: BlobHash,
    pub(super) bytes: u64,
    pub(super) media_type: String,
    /// What a file is called.
    pub(super) name: Option<String>,
}

/// The blobs of a task that a viewer sees.
pub(super) async fn named(
    runtime: &Runtime,
    viewer: &Viewer,
    task: Uuid,
) -> Result<Vec<NamedBlob>, Problem> {
    // The messages alone, without entries.
    let loaded = runtime.store().load(viewer, task, u64::MAX).await?;
    let loaded = loaded.ok_or_else(unknown_task)?;
    let mut told: HashMap<BlobHash, (String, Option<String>)> = HashMap::new();
    for part in loaded.messages.iter().flat_map(|it| &it.message.parts) {
        let (hash, about) = match part.clone() {
            Part::File {
                name,
                media_type,
                blob,
                ..
            } => (blob, (media_type, Some(name))),
            Part::Image {
                media_type, blob, ..
            } => (blob, (media_type, None)),
            Part::Text { .. } | Part::Data { .. } => continue,
        };
        told.entry(hash).or_insert(about);
    }
    let blobs = runtime.store().blobs(viewer, task).await?;
    let blob = |BlobInfo { hash, bytes }| {
        let (media_type, name) = told.remove(&hash).unwrap_or((UNKNOWN.to_owned(), None));
        NamedBlob {
            hash,
            bytes,
            media_type,
            name,
        }
    };
    Ok(blobs.into_iter().map(blob).collect())
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let viewer = call.viewer(&runtime);
    let blobs = named(&runtime, &viewer, call.task()?).await?;
    Ok(Reply::json(&BlobList { blobs }))
}
