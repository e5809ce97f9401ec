//! The content of a file, an image or a large value of a task. It is sent as it is read, to be saved and not to be shown:
//! it may be anything.

use bytes::Bytes;
use convoke::{Runtime, Viewer};
use convoke_model::BlobHash;
use futures::{FutureExt, Stream, stream};
use http::{HeaderName, HeaderValue, Method, header};
use std::sync::Arc;
use uuid::Uuid;

use super::task_blobs::{NamedBlob, named};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::GET,
    path: "/api/v1/tasks/{task}/blobs/{blob}",
    name: "get_blob",
    summary: "The content of a file, an image or a large value of a task",
    operated: true,
    answers: &[(200, Answers::Binary)],
    handler: |call| read(call).boxed(),
    ..Route::OF_USERS
};

/// Bytes that are read at once.
const RANGE_BYTES: u64 = 256 * 1024;

/// Whatever it is, nothing in it runs in a browser.
const POLICY: &str = "default-src 'none'; sandbox";

async fn read(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let viewer = call.viewer(&runtime);
    let task = call.task()?;
    let hash = call.parameters.get("blob").unwrap_or_default();
    let unknown = || Problem::not_found("blob.not_found", "the task has no such blob");
    let blobs = named(&runtime, &viewer, task).await?;
    let hash: BlobHash = hash.parse().map_err(|_| unknown())?;
    let blob = blobs.into_iter().find(|blob| blob.hash == hash);
    let blob = blob.ok_or_else(unknown)?;
    let media_type = HeaderValue::from_str(&blob.media_type)
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let content = content(runtime, viewer, task, hash);
    Ok(Reply::stream(content)
        .header(header::CONTENT_TYPE, media_type)
        .header(header::CONTENT_LENGTH, blob.bytes.into())
        .header(header::CONTENT_DISPOSITION, disposition(&blob))
        .header(
            HeaderName::from_static("content-security-policy"),
            HeaderValue::from_static(POLICY),
        )
        .header(
            header::CACHE_CONTROL,
            HeaderValue::from_static("private, no-cache"),
        ))
}

/// The content, as fast as it is taken. Cut off if it cannot be read on.
fn content(
    runtime: Arc<Runtime>,
    viewer: Viewer,
    task: Uuid,
    hash: BlobHash,
) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold(
        (runtime, viewer, 0),
        move |(runtime, viewer, from)| async move {
            let range = from..from + RANGE_BYTES;
            let read = runtime.store().blob(&viewer, task, hash, range).await;
            let read = read.inspect_err(|error| tracing::warn!(%error, "a blob was cut off"));
            let content = read.ok()??.content;
            let next = from + content.len() as u64;
            (!content.is_empty()).then(|| (content.into(), (runtime, viewer, next)))
        },
    )
}

/// Saves it under its name.
fn disposition(blob: &NamedBlob) -> HeaderValue {
    let name = blob.name.clone().unwrap_or_else(|| blob.hash.to_string());
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let plain: String = name
        .chars()
        .map(|letter| if is_plain(letter) { letter } else { '_' })
        .collect();
    let encoded: String = name
        .bytes()
        .map(|byte| {
            if is_plain(char::from(byte)) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect();
    let text = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_place_in_the_header() {
        let named = |name: &str| NamedBlob {
            hash: "0".repeat(64).parse().unwrap(),
            bytes: 0,
            media_type: String::new(),
            name: Some(name.into()),
        };
        for (name, expected) in [
            (
                "a.csv",
                "attachment; filename=\"a.csv\"; filename*=UTF-8''a.csv",
            ),
            (
                "ä\"\r\nx: y",
                "attachment; filename=\"____x__y\"; filename*=UTF-8''%C3%A4%22%0D%0Ax%3A%20y",
            ),
        ] {
            assert_eq!(disposition(&named(name)), expected, "{name}");
        }
    }
}
