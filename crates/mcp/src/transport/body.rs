//! Reads HTTP response bodies within limits, whatever their headers claim.

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, future};
use reqwest::Response;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::wire::{self, MessageLimits};

/// Why a body could not be read.
#[derive(Debug)]
pub(super) enum BodyError {
    /// It exceeds the limit.
    TooLarge,
    /// The connection broke.
    Broken(reqwest::Error),
}

/// The whole body within the limit. Nothing is read if the declared length exceeds it.
pub(super) async fn whole(mut response: Response, limit: usize) -> Result<Vec<u8>, BodyError> {
    let claimed = response.content_length().unwrap_or(0);
    let claimed = usize::try_from(claimed).map_err(|_| BodyError::TooLarge)?;
    if claimed > limit {
        return Err(BodyError::TooLarge);
    }
    let mut body = Vec::with_capacity(claimed);
    while let Some(chunk) = response.chunk().await.map_err(BodyError::Broken)? {
        if body.len() + chunk.len() > limit {
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Why a stream of events broke.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    Broken(#[source] reqwest::Error),
}

/// The events of a response. An event that exceeds the limits ends the stream, and becomes an error for
/// the request it belongs to.
pub(super) fn events(
    response: Response,
    limits: MessageLimits,
    request_id: Option<RequestId>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    SseStream::from_bytes_stream(bounded(response.bytes_stream(), limits))
        .filter_map(move |event| {
            future::ready(within_limits_or_error(event, &limits, request_id.as_ref()))
        })
        .boxed()
}

/// Converts an event that exceeds the limits to an error for the request it belongs to.
pub(super) fn within_limits_or_error(
    event: Result<Sse, SseError>,
    limits: &MessageLimits,
    request_id: Option<&RequestId>,
) -> Option<Result<Sse, SseError>> {
    let data = event.as_ref().map(|event| event.data.as_deref());
    let message = match data {
        Ok(data) => {
            let data = data.unwrap_or_default().as_bytes();
            if limits.allow_values_of(data) {
                return Some(event);
            }
            wire::read("events", data, limits)?
        }
        Err(error) => match (words_if_too_large(error), request_id) {
            (Some(message), Some(id)) => wire::too_large(id.clone(), message),
            _ => return Some(event),
        },
    };
    let data = serde_json::to_string(&message).ok()?;
    Some(Ok(Sse::default().data(data)))
}

fn words_if_too_large(error: &SseError) -> Option<String> {
    let SseError::Body(error) = error else {
        return None;
    };
    match error.downcast_ref()? {
        StreamError::TooLarge(message) => Some(message.clone()),
        StreamError::Broken(_) => None,
    }
}

/// The bytes of an event stream, up to the first event that exceeds the limit.
fn bounded(
    bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    limits: MessageLimits,
) -> impl Stream<Item = Result<Bytes, StreamError>> + Send + 'static {
    let mut size = EventSize::default();
    let mut is_over = false;
    bytes
        .map(move |chunk| {
            let chunk = chunk.map_err(StreamError::Broken)?;
            if size.largest_with(&chunk) > limits.bytes {
                return Err(StreamError::TooLarge(limits.too_many_bytes()));
            }
            Ok(chunk)
        })
        .take_while(move |chunk| future::ready(!std::mem::replace(&mut is_over, chunk.is_err())))
}

/// Tracks how much of an event is buffered. Comments are dropped at the end of their line.
#[derive(Debug, Default)]
struct EventSize {
    kept: usize,
    line: usize,
    is_comment: bool,
    after_return: bool,
}

impl EventSize {
    /// The size of the largest event after these bytes: the incomplete one, or one that they complete.
    fn largest_with(&mut self, bytes: &[u8]) -> usize {
        let mut largest = 0;
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                // The second byte of CR LF.
                b'\n' if after_return => {}
                b'\n' | b'\r' if self.line == 0 => self.kept = 0,
                b'\n' | b'\r' => {
                    if !self.is_comment {
                        self.kept = self.kept.saturating_add(self.line);
                    }
                    self.line = 0;
                }
                _ => {
                    if self.line == 0 {
                        self.is_comment = *byte == b':';
                    }
                    self.line = self.line.saturating_add(1);
                }
            }
            largest = largest.max(self.kept.saturating_add(self.line));
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest(chunks: &[&str]) -> usize {
        let mut size = EventSize::default();
        let sizes = chunks
            .iter()
            .map(|chunk| size.largest_with(chunk.as_bytes()));
        sizes.max().unwrap()
    }

    #[test]
    fn an_event_ends_with_an_empty_line_for_all_line_endings() {
        for end in ["\n", "\r", "\r\n"] {
            let line = format!("data: 7{end}");
            let two = format!("{line}{line}{end}");
            assert_eq!(largest(&[&two]), 14, "{end:?}");
            assert_eq!(largest(&[&two, &two, &two]), 14, "{end:?}");
            assert_eq!(largest(&[&line, &line, &line]), 21, "{end:?}");
        }
        assert_eq!(largest(&["data: 7\r", "\ndata: 7\r", "\n"]), 14);
    }

    #[test]
    fn comments_count_until_their_line_ends() {
        assert_eq!(largest(&[": ping\n", ": ping\n", ": ping\n"]), 6);
        assert_eq!(largest(&[":", "xxxx", "xxxxx"]), 10);
    }
}
