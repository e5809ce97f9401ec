//! Which names and pages may address the service: `Host` against DNS rebinding, `Origin` for browsers.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::access::is_loopback;
use crate::config::ServerConfig;
use crate::problem::Problem;
use crate::reply::Reply;

/// The names and pages that are accepted.
#[derive(Debug)]
pub(crate) struct OriginPolicy {
    hosts: Vec<String>,
    address: IpAddr,
    origins: Vec<String>,
}

/// Seconds that a browser may keep the answer to a preflight.
const PREFLIGHT_SECONDS: &str = "600";

impl OriginPolicy {
    pub(crate) fn new(config: &ServerConfig, address: SocketAddr) -> Self {
        Self {
            hosts: config
                .hosts
                .iter()
                .map(|host| host.to_ascii_lowercase())
                .collect(),
            address: address.ip(),
            origins: config.cors.origins.clone(),
        }
    }

    /// Refuses a request that names another host: a page whose name was pointed at this machine could otherwise read
    /// everything.
    pub(crate) fn check_host(&self, host: Option<&str>) -> Result<(), Problem> {
        let name = host.map(|host| host_name(host).to_ascii_lowercase());
        let is_known = name.as_deref().is_some_and(|name| {
            let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
            match address {
                Ok(address) => {
                    is_loopback(address) || self.address == address || self.address.is_unspecified()
                }
                Err(_) => name == "localhost" || self.hosts.iter().any(|known| known == name),
            }
        });
        if is_known {
            return Ok(());
        }
        let detail = "the service has no such name; list it in `hosts` of its settings";
        let status = StatusCode::MISDIRECTED_REQUEST;
        Err(Problem::new(status, "request.host", detail))
    }

    /// The origin of a page that may read the answer. `None` if the request is not of a page of another origin.
    pub(crate) fn check_origin(
        &self,
        headers: &HeaderMap,
        host: Option<&str>,
    ) -> Result<Option<HeaderValue>, Problem> {
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Ok(None);
        };
        let text = origin.to_str().unwrap_or_default();
        if self.origins.iter().any(|known| known == text) {
            return Ok(Some(origin.clone()));
        }
        let own = text.split_once("://").map(|(_, authority)| authority);
        if own.is_some() && own == host {
            return Ok(None);
        }
        let detail = "pages of this origin may not call the service; list it in `cors.origins` of its settings";
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "request.origin",
            detail,
        ))
    }

    /// The answer to a browser that asks what it may send.
    pub(crate) fn preflight(methods: &[&'static Method]) -> Reply {
        let names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
        let value =
            |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
        Reply::empty(StatusCode::NO_CONTENT)
            .header(
                header::ACCESS_CONTROL_ALLOW_METHODS,
                value(&names.join(", ")),
            )
            .header(
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static(
                    "authorization, content-type, idempotency-key, last-event-id, traceparent",
                ),
            )
            .header(
                header::ACCESS_CONTROL_MAX_AGE,
                HeaderValue::from_static(PREFLIGHT_SECONDS),
            )
    }
}

/// The headers that let a page of an accepted origin read an answer.
pub(crate) fn readable_by(origin: HeaderValue) -> [(HeaderName, HeaderValue); 3] {
    let exposed = HeaderValue::from_static("location, retry-after, traceparent");
    [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed),
        (header::VARY, HeaderValue::from_static("origin")),
    ]
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(listen: &str) -> OriginPolicy {
        let config = ServerConfig {
            hosts: vec!["Assistant.example.com".into()],
            cors: crate::config::CorsConfig {
                origins: vec!["https://page.example.com".into()],
            },
            ..ServerConfig::default()
        };
        OriginPolicy::new(&config, listen.parse().unwrap())
    }

    #[test]
    fn only_known_names_and_own_addresses_are_accepted() {
        let local = policy("127.0.0.1:80");
        for host in [
            "localhost",
            "localhost:8080",
            "127.0.0.1:1",
            "[::1]:80",
            "[::1]",
            "assistant.example.com:443",
        ] {
            assert!(local.check_host(Some(host)).is_ok(), "{host}");
        }
        for host in [
            Some("evil.example.com"),
            Some("192.0.2.7:80"),
            Some(""),
            Some("localhost.evil.com"),
            None,
        ] {
            assert!(local.check_host(host).is_err(), "{host:?}");
        }
        assert!(
            policy("0.0.0.0:80")
                .check_host(Some("192.0.2.7:80"))
                .is_ok()
        );
    }

    #[test]
    fn only_pages_of_known_origins_and_of_the_service_itself_are_accepted() {
        let asked = |origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
            policy("127.0.0.1:80")
                .check_origin(&headers, Some("localhost:8080"))
                .map(|it| it.is_some())
        };
        assert!(asked("https://page.example.com").unwrap());
        assert!(!asked("http://localhost:8080").unwrap());
        for origin in [
            "https://evil.example.com",
            "null",
            "http://localhost:9",
            "https://page.example.com.evil.org",
        ] {
            assert_eq!(
                asked(origin).unwrap_err().code(),
                "request.origin",
                "{origin}"
            );
        }
    }
}
