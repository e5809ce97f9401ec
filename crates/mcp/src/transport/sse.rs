//! Legacy HTTP with server-sent events: one long GET for the server's messages, and one POST per message
//! to the server.

use std::collections::HashMap;
use std::future::Future;

use convoke_model::UrlConfig;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError,
};
use sse_stream::Sse;

use super::http::{outcome_of, without_address};
use super::tracked::{DeliveryError, EndReason, SendOutcome};
use super::wire::{self, MessageLimits};
use crate::options::Options;

/// A connection to a server of the first protocol version.
pub(crate) struct SseTransport {
    server: String,
    client: reqwest::Client,
    headers: HashMap<HeaderName, HeaderValue>,
    endpoint: Url,
    events: Option<BoxStream<'static, Result<Sse, SseError>>>,
    limits: MessageLimits,
    /// Why the event stream ended.
    reason: Option<String>,
}

/// Why a message could not be posted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    #[error("the request failed: {0}")]
    Http(reqwest::Error),
    #[error("the server answered {0}")]
    Status(StatusCode),
}

impl DeliveryError for PostError {
    fn outcome(&self) -> SendOutcome {
        match self {
            Self::Http(error) => outcome_of(error),
            // After 404 the session is unknown: reconnect instead of repeating the message.
            Self::Status(StatusCode::NOT_FOUND) => SendOutcome::NeverLeft,
            Self::Status(status) if status.is_client_error() => SendOutcome::RejectedUnread,
            Self::Status(_) => SendOutcome::FailedAfterReading,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Http(error) => without_address(error),
            Self::Status(_) => self.to_string(),
        }
    }
}

impl SseTransport {
    /// Opens the event stream and waits for the server to announce its endpoint.
    pub(crate) async fn connect(
        server: &str,
        client: reqwest::Client,
        config: &UrlConfig,
        options: &Options,
    ) -> Result<Self, String> {
        let headers = super::headers(config)?;
        let address =
            Url::parse(&config.url).map_err(|error| format!("the address is invalid: {error}"))?;
        let mut events = client
            .get_stream_with_max_sse_event_size(
                config.url.as_str().into(),
                None,
                None,
                None,
                headers.clone(),
                options.max_message_bytes,
            )
            .await
            .map_err(|error| match error {
                StreamableHttpError::Client(error) => without_address(&error),
                other => other.to_string(),
            })?;
        let endpoint = loop {
            match events.next().await {
                Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                    break endpoint(&address, event.data.as_deref().unwrap_or_default())?;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(format!("the event stream broke: {error}")),
                None => {
                    return Err("the event stream ended before it announced an endpoint".to_owned());
                }
            }
        };
        Ok(Self {
            server: server.to_owned(),
            client,
            headers,
            endpoint,
            events: Some(events),
            limits: MessageLimits::of(options),
            reason: None,
        })
    }
}

/// The endpoint for messages. It must have the same origin, because messages carry headers that may
/// contain a secret.
fn endpoint(address: &Url, named: &str) -> Result<Url, String> {
    let endpoint = address
        .join(named.trim())
        .map_err(|error| format!("the server announced an invalid endpoint: {error}"))?;
    if endpoint.origin() == address.origin() {
        Ok(endpoint)
    } else {
        Err("the server announced an endpoint at another origin, which is not allowed".to_owned())
    }
}

impl EndReason for SseTransport {
    fn reason(&self) -> Option<String> {
        self.reason.clone()
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = PostError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), PostError>> + Send + 'static {
        let mut request = self.client.post(self.endpoint.clone()).json(&message);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        async move {
            let response = request.send().await.map_err(PostError::Http)?;
            let status = response.status();
            if status.is_success() {
                Ok(())
            } else {
                Err(PostError::Status(status))
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let events = self.events.as_mut()?;
        loop {
            match events.next().await? {
                Ok(event) if matches!(event.event.as_deref(), None | Some("message")) => {
                    let data = event.data.unwrap_or_default();
                    if let Some(message) = wire::read(&self.server, data.as_bytes(), &self.limits) {
                        return Some(message);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(server = self.server, %error, "the event stream broke");
                    self.reason = Some(format!("the event stream broke: {error}"));
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), PostError> {
        self.events = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_only_sent_to_the_servers_own_origin() {
        let address = Url::parse("http://tools.example:8080/sse").unwrap();
        let at = |named: &str| endpoint(&address, named).map(|url| url.to_string());
        assert_eq!(
            at("/message?sessionId=1"),
            Ok("http://tools.example:8080/message?sessionId=1".into())
        );
        assert_eq!(at("post"), Ok("http://tools.example:8080/post".into()));
        assert_eq!(
            at("http://tools.example:8080/m"),
            Ok("http://tools.example:8080/m".into())
        );
        for named in [
            "http://elsewhere.example:8080/m",
            "//elsewhere.example:8080/m",
            "http://tools.example/m",
            "https://tools.example:8080/m",
        ] {
            assert!(at(named).unwrap_err().contains("another origin"), "{named}");
        }
    }
}
