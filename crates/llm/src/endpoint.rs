//! One endpoint: its address, its authentication, its concurrency limit, and the dialects of its models.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use convoke_model::LlmConfig;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Uri};
use tokio::sync::Semaphore;

use crate::connections::IdleConnections;
use crate::wire::body::Dialect;

/// Replacement of a secret in a text.
const REDACTED: &str = "[key]";

/// Shorter values are settings, not secrets.
const MIN_SECRET_LENGTH: usize = 4;

/// Azure's own header for the key.
const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// An endpoint known to the client.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// URI of chat completions.
    pub(crate) uri: Uri,
    /// The same URI without scheme and host, for the request line.
    pub(crate) target: Uri,
    /// Idle connections.
    pub(crate) idle: IdleConnections,
    /// Host and port, for the `Host` header.
    pub(crate) host: HeaderValue,
    /// Scheme, host and port, which are safe to show.
    pub(crate) origin: String,
    /// Limits concurrent requests.
    pub(crate) permits: Semaphore,
    is_azure: bool,
    dialects: RwLock<HashMap<String, Dialect>>,
}

impl Endpoint {
    /// Parses a base address such as `http://127.0.0.1:11434/v1`. Appends the path of completions unless
    /// present, and keeps the query. Errors do not repeat the address.
    pub(crate) fn new(base: &str, max_concurrent: usize) -> Result<Self, String> {
        let wrong = |what: &str| {
            Err(format!(
                "the model's endpoint {what}; write a base URL such as http://127.0.0.1:11434/v1"
            ))
        };
        let Ok(uri) = base.trim().parse::<Uri>() else {
            return wrong("is not a URL");
        };
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (uri.scheme_str(), uri.authority())
        else {
            return wrong("does not start with http:// or https://");
        };
        if authority.as_str().contains('@') {
            return wrong("contains a user name; put the key into api_key");
        }
        let query = uri.query();
        let is_azure = [
            ".openai.azure.com",
            ".cognitiveservices.azure.com",
            ".services.ai.azure.com",
        ]
        .iter()
        .any(|suffix| authority.host().ends_with(suffix))
            || query.is_some_and(|query| query.contains("api-version="));
        let path = uri.path().trim_end_matches('/');
        let mut whole = String::from(if path.is_empty() { "/v1" } else { path });
        if !path.ends_with("/chat/completions") {
            whole.push_str("/chat/completions");
        }
        if let Some(query) = query {
            whole.push('?');
            whole.push_str(query);
        }
        let Ok(host) = HeaderValue::from_str(authority.as_str()) else {
            return wrong("has no valid host");
        };
        let origin = format!("{scheme}://{authority}");
        let mut parts = uri.into_parts();
        let Ok(path) = PathAndQuery::try_from(whole) else {
            return wrong("has no valid path");
        };
        let target = Uri::from(path.clone());
        parts.path_and_query = Some(path);
        let Ok(uri) = Uri::from_parts(parts) else {
            return wrong("is not a URL");
        };
        Ok(Self {
            uri,
            target,
            idle: IdleConnections::default(),
            host,
            origin,
            permits: Semaphore::new(max_concurrent.clamp(1, Semaphore::MAX_PERMITS)),
            is_azure,
            dialects: RwLock::default(),
        })
    }

    /// Whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    /// The authentication header, if there is a key.
    pub(crate) fn credentials(
        &self,
        config: &LlmConfig,
    ) -> Result<Option<(HeaderName, HeaderValue)>, String> {
        let Some(key) = config.api_key.as_deref().filter(|key| !key.is_empty()) else {
            return Ok(None);
        };
        let (name, value) = if self.is_azure {
            (API_KEY, HeaderValue::from_str(key))
        } else {
            (
                AUTHORIZATION,
                HeaderValue::try_from(format!("Bearer {key}")),
            )
        };
        let mut value = value.map_err(|_| {
            "the model's api_key contains a character that is not allowed in a header, such as a line break"
                .to_owned()
        })?;
        value.set_sensitive(true);
        Ok(Some((name, value)))
    }

    /// Removes the key and the address's query values from a server's text, including a key that the
    /// server abbreviated (`sk-ab***yz`).
    pub(crate) fn redact(&self, config: &LlmConfig, mut text: String) -> String {
        let key = config.api_key.as_deref().unwrap_or_default();
        let in_address = self.uri.query().into_iter().flat_map(|query| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter_map(|(name, value)| (name != "api-version").then_some(value))
        });
        for secret in in_address.chain([key]) {
            if secret.len() >= MIN_SECRET_LENGTH && text.contains(secret) {
                text = text.replace(secret, REDACTED);
            }
        }
        redact_abbreviated(key, &text).unwrap_or(text)
    }

    /// The dialect of a model at this endpoint.
    pub(crate) fn dialect(&self, model: &str) -> Dialect {
        let dialects = self.dialects.read().unwrap_or_else(PoisonError::into_inner);
        dialects.get(model).copied().unwrap_or_default()
    }

    /// Stores the dialect of a model.
    pub(crate) fn learn(&self, model: &str, dialect: Dialect) {
        let mut dialects = self
            .dialects
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        dialects.insert(model.to_owned(), dialect);
    }
}

/// Removes abbreviated keys: words that start like the key and continue with an abbreviation mark or
/// more of the key. `None` if there are none.
fn redact_abbreviated(key: &str, text: &str) -> Option<String> {
    let start = key.get(..MIN_SECRET_LENGTH)?;
    let much = key.get(..MIN_SECRET_LENGTH * 2)?;
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(start) {
        let (before, from) = rest.split_at(at);
        let end = from
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ')'))
            .unwrap_or(from.len());
        let (word, after) = from.split_at(end.max(start.len()));
        let is_key = word.starts_with(much) || ["*", "..", "…"].iter().any(|s| word.contains(s));
        shown.push_str(before);
        shown.push_str(if is_key { REDACTED } else { word });
        rest = after;
    }
    if shown.is_empty() {
        return None;
    }
    shown.push_str(rest);
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(key: &str) -> LlmConfig {
        let config = serde_json::json!({"endpoint": "", "model": "m", "api_key": key});
        serde_json::from_value(config).unwrap()
    }

    fn endpoint(base: &str) -> Endpoint {
        Endpoint::new(base, 1).unwrap()
    }

    #[test]
    fn the_path_of_completions_is_added_once() {
        for (base, expected) in [
            ("http://h:1/v1", "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/", "http://h:1/v1/chat/completions"),
            (" http://h:1/v1// ", "http://h:1/v1/chat/completions"),
            ("http://h:1", "http://h:1/v1/chat/completions"),
            ("http://h:1/", "http://h:1/v1/chat/completions"),
            ("https://h/api/v1", "https://h/api/v1/chat/completions"),
            ("https://h/openai", "https://h/openai/chat/completions"),
            (
                "http://h/v1/chat/completions",
                "http://h/v1/chat/completions",
            ),
            (
                "http://h/v1/chat/completions/",
                "http://h/v1/chat/completions",
            ),
            (
                "https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
                "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            ),
            (
                "http://[::1]:8080/v1",
                "http://[::1]:8080/v1/chat/completions",
            ),
        ] {
            assert_eq!(endpoint(base).uri.to_string(), expected, "{base}");
        }
    }

    #[test]
    fn invalid_addresses_are_rejected_without_repeating_them() {
        for base in [
            "",
            "localhost",
            "localhost:11434/secret",
            "/v1/secret",
            "ftp://secret/v1",
            "http://user:secret@h/v1",
            "http://",
            "http://h/ secret",
        ] {
            let problem = Endpoint::new(base, 1).unwrap_err();
            assert!(problem.contains("http://127.0.0.1:11434/v1"), "{problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    fn only_scheme_host_and_port_are_shown() {
        let endpoint = endpoint("https://h:8443/account/path/v1?key=secret");
        assert_eq!(endpoint.origin, "https://h:8443");
        assert!(endpoint.is_encrypted());
    }

    #[test]
    fn azure_gets_the_key_in_its_own_header() {
        for (base, header) in [
            ("https://h/v1", "authorization"),
            ("https://x.openai.azure.com/openai/v1", "api-key"),
            (
                "https://gateway/openai/deployments/d?api-version=1",
                "api-key",
            ),
        ] {
            let (name, value) = endpoint(base).credentials(&config("k")).unwrap().unwrap();
            assert_eq!(name, header);
            assert!(value.is_sensitive());
            let expected = if header == "api-key" { "k" } else { "Bearer k" };
            assert_eq!(value, expected);
        }
    }

    #[test]
    fn without_a_key_no_header_is_sent() {
        let endpoint = endpoint("http://h/v1");
        assert_eq!(endpoint.credentials(&config("")), Ok(None));
        let none = LlmConfig {
            api_key: None,
            ..config("")
        };
        assert_eq!(endpoint.credentials(&none), Ok(None));
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_reported_without_showing_it() {
        let problem = endpoint("http://h/v1")
            .credentials(&config("secret\n"))
            .unwrap_err();
        assert!(problem.contains("api_key") && !problem.contains("secret"));
    }

    #[test]
    fn secrets_are_redacted_even_if_abbreviated() {
        let endpoint = endpoint("https://h/v1?token=query-secret&n=1");
        let config = config("sk-abcdefghijkl");
        for (text, expected) in [
            ("key sk-abcdefghijkl is wrong", "key [key] is wrong"),
            ("Incorrect key: sk-ab***kl.", "Incorrect key: [key]"),
            ("'sk-a...l', sorry", "'[key]', sorry"),
            ("at ?token=query-secret", "at ?token=[key]"),
            ("sk-abcde at", "[key] at"),
            ("nothing here, only sk-album", "nothing here, only sk-album"),
        ] {
            let shown = endpoint.redact(&config, text.to_owned());
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn a_key_that_looks_like_its_replacement_is_replaced_once() {
        let shown = endpoint("http://h/v1")
            .redact(&config("[key]-and-more"), "wrong: [key]-an**".to_owned());
        assert_eq!(shown, "wrong: [key]");
    }

    #[test]
    fn a_dialect_belongs_to_one_model() {
        let endpoint = endpoint("http://h/v1");
        let dialect = Dialect {
            no_temperature: true,
            ..Dialect::default()
        };
        endpoint.learn("a", dialect);
        assert_eq!(endpoint.dialect("a"), dialect);
        assert_eq!(endpoint.dialect("b"), Dialect::default());
    }
}
