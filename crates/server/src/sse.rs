//! The events of a task as server-sent events. An event's cursor is its id, so that a browser that reconnects names the
//! last one it got. Live text has no id: it is speculative, and is not repeated.

use std::time::Duration;

use bytes::Bytes;
use convoke::{TaskEvents, TaskUpdate};
use futures::{Stream, stream};
use serde_json::Value;

use crate::problem::Problem;

/// When a browser reconnects after a stream was cut, in milliseconds.
const RECONNECT_MS: u32 = 1_000;

/// What the stream sends next.
enum Next {
    /// How to reconnect, and updates that were already read.
    Opening(Vec<TaskUpdate>),
    Updates,
    Over,
}

/// Encodes updates. Sends a comment after each pause, so that proxies keep the stream open. The stream ends after the task has
/// ended, and when the service stops; a client then reconnects.
pub(crate) fn encode(
    first: Vec<TaskUpdate>,
    events: TaskEvents,
    keep_alive: Duration,
) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold(
        (Next::Opening(first), events),
        move |(next, mut events)| async move {
            match next {
                Next::Opening(first) => {
                    let first: String = first.iter().map(frame).collect();
                    let opening = format!("retry: {RECONNECT_MS}\n\n{first}");
                    Some((opening.into(), (Next::Updates, events)))
                }
                Next::Updates => {
                    let (text, next) = match tokio::time::timeout(keep_alive, events.next()).await {
                        Err(_) => (": still open\n\n".to_owned(), Next::Updates),
                        Ok(Some(Ok(update))) => (frame(&update), Next::Updates),
                        Ok(Some(Err(error))) => (problem(error.into()), Next::Over),
                        Ok(None) => return None,
                    };
                    Some((text.into(), (next, events)))
                }
                Next::Over => None,
            }
        },
    )
}

fn frame(update: &TaskUpdate) -> String {
    let data = serde_json::to_value(update).unwrap_or_default();
    match update {
        TaskUpdate::Event(event) => {
            let name = data.get("type").and_then(Value::as_str).unwrap_or("event");
            format!("id: {}\nevent: {name}\ndata: {data}\n\n", event.cursor)
        }
        TaskUpdate::Live(_) => format!("event: live\ndata: {data}\n\n"),
    }
}

fn problem(problem: Problem) -> String {
    let data = serde_json::to_value(problem.details()).unwrap_or_default();
    format!("event: problem\ndata: {data}\n\n")
}
