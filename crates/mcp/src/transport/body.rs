//! The bodies of HTTP responses, read no further than allowed, whatever their headers say.

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, future};
use reqwest::Response;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::wire::{self, MessageLimits};

/// Why a body is not there.
#[derive(Debug)]
pub(super) enum BodyError {
    /// It is larger than allowed.
    TooLarge,
    /// It broke off.
    Broken(reqwest::Error),
}

/// The whole body, if it has at most so many bytes. Nothing is read of one that says that it has more.
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

/// Why a stream of events ended before its end.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    Broken(#[source] reqwest::Error),
}

/// The events of a response to a request. An event that is too large ends the stream; the request that it
/// was to answer, where there is one, is told.
pub(super) fn events(
    response: Response,
    limits: MessageLimits,
    asked: Option<RequestId>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    SseStream::from_bytes_stream(bounded(response.bytes_stream(), limits))
        .filter_map(move |event| future::ready(readable(event, &limits, asked.as_ref())))
        .boxed()
}

/// The event as it may be read: what is too large becomes an error for whoever waits for it.
pub(super) fn readable(
    event: Result<Sse, SseError>,
    limits: &MessageLimits,
    asked: Option<&RequestId>,
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
        Err(error) => match (words_if_too_large(error), asked) {
            (Some(words), Some(id)) => wire::too_large(id.clone(), words),
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
        StreamError::TooLarge(words) => Some(words.clone()),
        StreamError::Broken(_) => None,
    }
}

/// The bytes of an event stream, up to the first event that is larger than allowed.
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

/// How much of one event is in memory. Comments are dropped with their lines.
#[derive(Debug, Default)]
struct EventSize {
    kept: usize,
    line: usize,
    is_comment: bool,
    after_return: bool,
}

impl EventSize {
    /// The largest that an event becomes with these bytes: the one under way, or one that they end.
    fn largest_with(&mut self, bytes: &[u8]) -> usize {
        let mut largest = 0;
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                // The second half of one line's end.
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
    fn an_event_ends_with_an_empty_line_however_lines_end() {
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
