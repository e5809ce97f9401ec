//! The client: tries the models in order, retries each, and remembers their dialects.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use convoke_model::LlmConfig;
use convoke_telemetry::{TraceContext, metrics};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::Instrument;

use crate::attempt::{Attempt, Failure};
use crate::connections::Connections;
use crate::endpoint::Endpoint;
use crate::error::{LlmError, LlmProblem};
use crate::estimate::estimate_tokens;
use crate::measured::MeasuredCall;
use crate::options::Options;
use crate::reply::{ChatReply, Delta, Live, Usage};
use crate::request::ChatRequest;
use crate::retry::next_pause;
use crate::wire::answer::Content;
use crate::wire::body;

/// Replaces deadlines beyond the clock's range.
const FAR_FUTURE: Duration = Duration::from_hours(24 * 365);

/// A handle on chat models. Clones share connections, limits and learned dialects.
#[derive(Clone)]
pub struct ModelClient(Arc<Shared>);

struct Shared {
    options: Options,
    connections: Connections,
    endpoints: RwLock<HashMap<String, Arc<Endpoint>>>,
    /// Numbers the calls, so that each has a span of its own.
    calls: AtomicU64,
}

/// The state shared by all attempts of one completion.
struct Completion<'a> {
    request: &'a ChatRequest<'a>,
    deadline: Instant,
    live: Live<'a>,
    attempts: u32,
    /// The span of the call of the current model.
    trace: Option<TraceContext>,
    /// The last failure.
    last_problem: Option<LlmProblem>,
}

impl ModelClient {
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Shared {
            connections: Connections::new(&options),
            options,
            endpoints: RwLock::default(),
            calls: AtomicU64::default(),
        }))
    }

    /// Asks the models in order until one answers. `live` receives the answer while it is streamed.
    /// Dropping the future cancels the request.
    pub async fn complete(
        &self,
        request: &ChatRequest<'_>,
        live: Live<'_>,
    ) -> Result<ChatReply, LlmError> {
        let has_streamed = AtomicBool::new(false);
        let forward = |delta: Delta<'_>| {
            has_streamed.store(true, Ordering::Relaxed);
            if let Some(live) = live {
                live(delta);
            }
        };
        let now = Instant::now();
        let deadline = now
            .checked_add(request.time_left)
            .unwrap_or(now + FAR_FUTURE);
        let mut completion = Completion {
            request,
            deadline,
            live: live.map(|_| &forward as &(dyn Fn(Delta<'_>) + Send + Sync)),
            attempts: 0,
            trace: None,
            last_problem: None,
        };
        let mut best_error: Option<LlmError> = None;
        let mut shortest_pause = None;
        for config in request.models {
            let endpoint = self.endpoint(&config.endpoint);
            let server = endpoint.as_ref().ok().and_then(|known| known.uri.host());
            let number = self.0.calls.fetch_add(1, Ordering::Relaxed);
            completion.trace = request.trace.map(|parent| parent.child(number));
            let attempts = completion.attempts;
            let measured = if request.measured {
                let server = server.unwrap_or_default();
                MeasuredCall::begin(config, server, completion.trace, request.trace)
            } else {
                MeasuredCall::unmeasured(config)
            };
            let result = match &endpoint {
                Ok(endpoint) => {
                    self.ask(config, endpoint, &mut completion, live, &has_streamed)
                        .instrument(measured.span.clone())
                        .await
                }
                Err(reason) => Err(LlmProblem::Misconfigured {
                    reason: reason.clone(),
                }
                .into()),
            };
            let origin =
                endpoint.map_or_else(|_| String::new(), |endpoint| endpoint.origin.clone());
            let ModelFailure { problem, retry_in } = match result {
                Ok(content) => {
                    let reply = completion.reply(content, config, origin);
                    measured.answered(&reply, completion.attempts - attempts);
                    return Ok(reply);
                }
                Err(given_up) => given_up,
            };
            measured.failed(&problem, completion.attempts - attempts);
            let is_last = !problem.is_for_the_next_model();
            completion.last_problem = Some(problem.clone());
            let error = LlmError {
                problem,
                model: config.model.clone(),
                endpoint: origin,
                attempts: 0,
                retry_in: None,
            };
            shortest_pause = [shortest_pause, retry_in].into_iter().flatten().min();
            if best_error
                .as_ref()
                .is_none_or(|best_error| outranks(&error, best_error))
            {
                best_error = Some(error);
            }
            if is_last {
                break;
            }
        }
        let mut error = best_error.unwrap_or_else(|| LlmError {
            problem: LlmProblem::Misconfigured {
                reason: "no model is configured; add llm_config to the agent".to_owned(),
            },
            model: String::new(),
            endpoint: String::new(),
            attempts: 0,
            retry_in: None,
        });
        error.attempts = completion.attempts;
        // A pause helps neither a request that its caller can mend nor one whose time is over.
        error.retry_in = shortest_pause.filter(|_| rank(&error.problem) < 2);
        Err(error)
    }

    /// Asks one model until it answers or is given up.
    async fn ask(
        &self,
        config: &LlmConfig,
        endpoint: &Arc<Endpoint>,
        completion: &mut Completion<'_>,
        live: Live<'_>,
        has_streamed: &AtomicBool,
    ) -> Result<Exchange, ModelFailure> {
        let mut dialect = endpoint.dialect(&config.model);
        let mut body = completion.body(config, dialect)?;
        let mut failures = completion.request.postponed.unwrap_or(0);
        loop {
            let permit = completion.permit(endpoint).await?;
            if let Some(live) = live
                && has_streamed.swap(false, Ordering::Relaxed)
            {
                live(Delta::Reset);
            }
            completion.attempts += 1;
            let attempt = Attempt {
                connections: &self.0.connections,
                options: &self.0.options,
                endpoint,
                config,
                request: completion.request,
                trace: completion.trace,
                dialect,
                deadline: completion.deadline,
                live: completion.live,
            };
            let outcome = attempt.run(body.clone()).await;
            drop(permit);
            let problem = match outcome {
                Ok(content) => return Ok(Exchange { content, body }),
                // Each lesson changes the dialect, so their number is bounded.
                Err(Failure::NewDialect(learned)) => {
                    endpoint.learn(&config.model, learned);
                    dialect = learned;
                    body = completion.body(config, dialect)?;
                    continue;
                }
                Err(Failure::Problem(LlmProblem::TimedOut { time, .. })) => {
                    let last = completion.last_problem.take().map(Box::new);
                    return Err(LlmProblem::TimedOut { time, last }.into());
                }
                Err(Failure::Problem(problem)) => problem,
            };
            failures += 1;
            let left = completion
                .deadline
                .saturating_duration_since(Instant::now());
            let Some(pause) = next_pause(&self.0.options, &problem, failures, left) else {
                return Err(problem.into());
            };
            if completion.request.postponed.is_some() && pause > self.0.options.hold_pauses {
                return Err(ModelFailure {
                    problem,
                    retry_in: Some(pause),
                });
            }
            tracing::debug!(
                model = config.model,
                endpoint = endpoint.origin,
                code = problem.code(),
                failures,
                ?pause,
                "a model is asked again"
            );
            metrics::RETRIES.increment(["model"]);
            completion.last_problem = Some(problem);
            sleep(pause).await;
        }
    }

    fn endpoint(&self, base: &str) -> Result<Arc<Endpoint>, String> {
        let endpoints = self.0.endpoints.read();
        let endpoints = endpoints.unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = endpoints.get(base) {
            return Ok(endpoint.clone());
        }
        drop(endpoints);
        let endpoint = Arc::new(Endpoint::new(base, self.0.options.max_concurrent)?);
        let mut endpoints = self
            .0
            .endpoints
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // Different spellings of one address share one endpoint and its limit.
        let same = endpoints.values().find(|other| other.uri == endpoint.uri);
        let endpoint = same.cloned().unwrap_or(endpoint);
        endpoints.insert(base.to_owned(), endpoint.clone());
        Ok(endpoint)
    }
}

impl Default for ModelClient {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl fmt::Debug for ModelClient {
    /// Hides the endpoints, whose addresses may contain a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelClient")
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

/// Why a model was given up, and when its caller should ask it again.
struct ModelFailure {
    problem: LlmProblem,
    retry_in: Option<Duration>,
}

impl From<LlmProblem> for ModelFailure {
    fn from(problem: LlmProblem) -> Self {
        Self {
            problem,
            retry_in: None,
        }
    }
}

/// An answer and the body of its request.
struct Exchange {
    content: Content,
    body: Bytes,
}

impl Completion<'_> {
    fn body(&self, config: &LlmConfig, dialect: body::Dialect) -> Result<Bytes, LlmProblem> {
        match body::write(self.request, config, dialect) {
            Ok(body) => Ok(body.into()),
            Err(error) => Err(LlmProblem::Misconfigured {
                reason: format!("the request cannot be serialized: {error}"),
            }),
        }
    }

    async fn permit<'e>(
        &mut self,
        endpoint: &'e Endpoint,
    ) -> Result<SemaphorePermit<'e>, LlmProblem> {
        if let Ok(permit) = endpoint.permits.try_acquire() {
            return Ok(permit);
        }
        match timeout_at(self.deadline, endpoint.permits.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(LlmProblem::TimedOut {
                time: self.request.time_left,
                last: self.last_problem.take().map(Box::new),
            }),
        }
    }

    fn reply(&self, answered: Exchange, config: &LlmConfig, endpoint: String) -> ChatReply {
        let Exchange { content, body } = answered;
        ChatReply {
            finish: content.finish(),
            usage: content.usage.unwrap_or_else(|| estimated(&body, &content)),
            text: content.text,
            tool_calls: content.tool_calls,
            model: config.model.clone(),
            endpoint,
            attempts: self.attempts,
        }
    }
}

fn estimated(body: &[u8], content: &Content) -> Usage {
    let mut output_tokens = estimate_tokens(&content.text);
    for call in &content.tool_calls {
        let arguments = match &call.arguments {
            Ok(arguments) => serde_json::to_string(arguments).unwrap_or_default(),
            Err(text) => text.clone(),
        };
        output_tokens += estimate_tokens(&call.name) + estimate_tokens(&arguments);
    }
    Usage {
        input_tokens: estimate_tokens(&String::from_utf8_lossy(body)),
        output_tokens,
        estimated: true,
    }
}

/// Which of two models' errors is returned: first those the caller can fix, then transient ones, then
/// the earlier one.
fn outranks(new: &LlmError, best_error: &LlmError) -> bool {
    rank(&new.problem) > rank(&best_error.problem)
}

fn rank(problem: &LlmProblem) -> u8 {
    match problem {
        LlmProblem::Unsupported { .. }
        | LlmProblem::TooLong { .. }
        | LlmProblem::TimedOut { .. } => 2,
        problem => u8::from(problem.is_transient()),
    }
}
