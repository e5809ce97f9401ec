//! Answers requests: who calls, which endpoint, within which limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use convoke::{Registry, Runtime, UserRole};
use convoke_telemetry::metrics::HTTP_REQUEST_DURATION;
use futures::FutureExt;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::access::{Authenticator, Principal};
use crate::audit;
use crate::call::Call;
use crate::config::{ServerConfig, ServerLimits};
use crate::metrics::MetricCollector;
use crate::origin::{OriginPolicy, readable_by};
use crate::problem::Problem;
use crate::rate::RequestRate;
use crate::reply::{Body, Reply};
use crate::route::{Access, Errors, Found, PathParameters, Route, Scope, find, routes};

/// The service over the apps of a registry. Clones share everything.
#[derive(Debug, Clone)]
pub struct Service(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    registry: Arc<Registry>,
    root: Option<String>,
    limits: ServerLimits,
    authenticator: Authenticator,
    origins: OriginPolicy,
    rate: RequestRate,
    /// `None`: the program that runs the service collects its metrics itself.
    metrics: Option<MetricCollector>,
    /// Set once the service takes no further work.
    stopping: CancellationToken,
}

impl Service {
    /// A service at an address that was bound already.
    pub(crate) fn new(
        registry: Arc<Registry>,
        config: &ServerConfig,
        authenticator: Authenticator,
        address: SocketAddr,
    ) -> Self {
        let apps = registry.apps();
        let only = match apps.as_slice() {
            [only] => Some(only.app().config.name.to_string()),
            _ => None,
        };
        Self(Arc::new(Parts {
            root: config.root.clone().or(only),
            limits: config.limits.clone(),
            authenticator,
            origins: OriginPolicy::new(config, address),
            rate: RequestRate::new(&config.limits),
            metrics: MetricCollector::of_process(config.limits.metric_series),
            stopping: CancellationToken::new(),
            registry,
        }))
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.0.limits
    }

    /// The name of the app at the root.
    pub(crate) fn root(&self) -> Option<&str> {
        self.0.root.as_deref()
    }

    pub(crate) fn requires_token(&self) -> bool {
        self.0.authenticator.is_required()
    }

    pub(crate) fn metrics(&self) -> Option<&MetricCollector> {
        self.0.metrics.as_ref()
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// Answers a request. A panic in an endpoint ends that request only.
    pub(crate) async fn respond(self, request: Request<Incoming>) -> Response<Body> {
        let started = Instant::now();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let found = find(&method, &path);
        let (name, errors, app) = match &found {
            Found::Route { route, app, .. } => (route.name, route.errors, app.clone()),
            _ => ("none", Errors::PROBLEMS, None),
        };
        let span = tracing::info_span!("request", otel.name = name, %method, http.route = name);
        let service = self.clone();
        let answered = async move { service.answer(request, found).await };
        let answered = std::panic::AssertUnwindSafe(answered).catch_unwind();
        let (origin, outcome) = answered.instrument(span).await.unwrap_or_else(|_| {
            tracing::error!(endpoint = name, "an endpoint panicked");
            let detail = "something went wrong in the service; its log says what";
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            (None, Err(Problem::new(status, "service.panicked", detail)))
        });
        let code = outcome.as_ref().err().map(Problem::code);
        let reply = outcome.unwrap_or_else(|problem| {
            let app = self.app(app.as_deref()).ok().flatten();
            (errors.write)(problem, app.as_deref())
        });
        let mut response = reply.into_response();
        let headers = response.headers_mut();
        for (name, value) in SECURITY_HEADERS {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        if let Some(origin) = origin {
            headers.extend(readable_by(origin).map(|(name, value)| (Some(name), value)));
        }
        let status = response.status();
        HTTP_REQUEST_DURATION.observe_time(
            started.elapsed(),
            [method_of(&method), name, status.as_str()],
        );
        tracing::debug!(
            endpoint = name,
            status = status.as_u16(),
            code,
            ms = started.elapsed().as_millis(),
            "answered"
        );
        response
    }

    /// The answer, and the origin of the page that may read it.
    async fn answer(
        self,
        request: Request<Incoming>,
        found: Found,
    ) -> (Option<HeaderValue>, Result<Reply, Problem>) {
        let host = host_of(&request);
        let origins = &self.0.origins;
        let checked = origins.check_host(host.as_deref());
        let checked =
            checked.and_then(|()| origins.check_origin(request.headers(), host.as_deref()));
        let origin = match checked {
            Ok(origin) => origin,
            Err(problem) => return (None, Err(problem)),
        };
        let answered = match found {
            Found::Route {
                route,
                app,
                parameters,
            } => self.call(request, route, app, parameters).await,
            Found::OtherMethods(methods)
                if request.method() == Method::OPTIONS && origin.is_some() =>
            {
                Ok(OriginPolicy::preflight(&methods))
            }
            Found::OtherMethods(methods) => Err(other_methods(&methods)),
            Found::Nothing => Err(Problem::not_found(
                "service.no_such_path",
                "there is nothing here",
            )),
        };
        (origin, answered)
    }

    async fn call(
        self,
        request: Request<Incoming>,
        route: &'static Route,
        app: Option<String>,
        parameters: PathParameters,
    ) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        let principal = match route.access {
            Access::Public => None,
            Access::Role(role) => {
                let principal = self.0.authenticator.principal(&head.headers).await?;
                self.0.rate.check(principal.user)?;
                if principal.role < role {
                    let detail = format!("this needs the role `{role}`");
                    let status = StatusCode::FORBIDDEN;
                    return Err(Problem::new(status, "auth.role", detail));
                }
                Some(principal)
            }
        };
        let principal = principal.unwrap_or_else(Principal::nobody);
        let name = app.as_deref().or(self.root()).map(str::to_owned);
        let app = match route.scope {
            // What spans all apps is not for who may use some of them.
            Scope::Service if is_of_operators(route) && principal.apps.is_some() => {
                let detail = "this needs a token or a key that is good for all apps";
                return Err(Problem::new(StatusCode::FORBIDDEN, "auth.scope", detail));
            }
            Scope::Service => None,
            Scope::App => match &name {
                // An app outside of the scope is like one that is not there.
                Some(name) if !principal.may_use(name) => return Err(Problem::unknown_app()),
                _ => self.app(app.as_deref())?,
            },
        };
        let body = self.read(body).await?;
        let call = Call {
            app,
            principal: principal.clone(),
            operated: route.operated,
            parameters: parameters.clone(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers,
            body,
            service: self,
        };
        let outcome = (route.handler)(call).await;
        if route.audited {
            let task = parameters.get("task");
            audit::call(route, &principal, name.as_deref(), task, &outcome);
        }
        outcome
    }

    /// The app that a path names, or the one at the root.
    fn app(&self, named: Option<&str>) -> Result<Option<Arc<Runtime>>, Problem> {
        let Some(name) = named.or(self.root()) else {
            return Ok(None);
        };
        Ok(Some(self.registry().app(name)?))
    }

    async fn read(&self, body: Incoming) -> Result<Bytes, Problem> {
        let limits = &self.0.limits;
        let most = limits.body_bytes as usize;
        let reading = Limited::new(body, most).collect();
        let pause = Duration::from_secs(limits.read_seconds.into());
        let Ok(read) = tokio::time::timeout(pause, reading).await else {
            let detail = "the body did not arrive in time";
            return Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "request.slow",
                detail,
            ));
        };
        read.map(http_body_util::Collected::to_bytes)
            .map_err(|error| {
                if error.downcast_ref::<LengthLimitError>().is_some() {
                    let detail = format!("the body has more than {most} bytes");
                    let status = StatusCode::PAYLOAD_TOO_LARGE;
                    return Problem::new(status, "request.too_large", detail);
                }
                Problem::bad_request("request.cut", "the body was cut off")
            })
    }
}

/// The method, of those that the table has; a client may send any other.
fn method_of(method: &Method) -> &str {
    let mut known = routes().iter().map(|route| route.method);
    known
        .find(|known| *known == method)
        .map_or("_OTHER", Method::as_str)
}

/// Whether ordinary users may not call it.
fn is_of_operators(route: &Route) -> bool {
    matches!(route.access, Access::Role(role) if role >= UserRole::Operator)
}

/// Sent with every answer: no browser guesses types, frames answers, or sends addresses on.
const SECURITY_HEADERS: [(&str, &str); 3] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
];

/// The host that a request addresses.
fn host_of(request: &Request<Incoming>) -> Option<String> {
    let header = request.headers().get(header::HOST);
    let header = header
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    header.or_else(|| request.uri().authority().map(ToString::to_string))
}

fn other_methods(methods: &[&'static Method]) -> Problem {
    let names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    let allowed = names.join(", ");
    let detail = format!("this path takes {allowed}");
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "service.method", detail);
    match HeaderValue::from_str(&allowed) {
        Ok(value) => problem.header(header::ALLOW, value),
        Err(_) => problem,
    }
}
