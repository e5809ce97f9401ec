//! The handle on all tool servers of an app.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use convoke_model::{McpServer, Name};
use futures::future::join_all;
use rmcp::model::CallToolResult;
use tokio::time::Instant;

use crate::arguments::CheckedTool;
use crate::call::{ToolReply, ToolRequest};
use crate::error::{McpError, Refusal, StartFailure};
use crate::listing::Listing;
use crate::options::Options;
use crate::server::{Server, Shared};
use crate::session::{Outgoing, Session};
use crate::tool::ToolInfo;
use crate::transport::MessageLimits;

/// All tool servers of an app. Clones are cheap and share connections.
///
/// Dropping the last clone ends child processes without waiting; [`shutdown`](Self::shutdown) waits for
/// them.
#[derive(Clone)]
pub struct ToolServers(Arc<Inner>);

struct Inner {
    servers: BTreeMap<Name, Arc<Server>>,
    shared: Arc<Shared>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl ToolServers {
    /// Creates the handle without starting a server.
    ///
    /// If two servers have the same name, which an app's rules exclude, the later one is used.
    pub fn new(servers: Vec<McpServer>, options: Options) -> Self {
        let shared = Arc::new(Shared::new(options));
        let servers = servers
            .into_iter()
            .map(|config| {
                (
                    config.name.clone(),
                    Arc::new(Server::new(config, Arc::clone(&shared))),
                )
            })
            .collect();
        Self(Arc::new(Inner { servers, shared }))
    }

    /// The names of the servers, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.servers.keys().map(Name::as_str)
    }

    /// A server's configuration.
    pub fn config(&self, server: &str) -> Option<&McpServer> {
        self.server(server).ok().map(|server| &server.config)
    }

    /// Starts or connects to every server that is not connected. Failures are told to the options' observer, and to
    /// whoever uses the server.
    pub async fn start(&self) {
        let servers = self.0.servers.values();
        join_all(servers.map(|server| server.session(Instant::now() + server.connect_timeout())))
            .await;
    }

    /// Why a server could not be started when that was last tried. `None` once it is connected.
    pub fn last_failure(&self, server: &str) -> Option<Arc<StartFailure>> {
        self.server(server).ok()?.last_failure()
    }

    /// The tools of one server. They are listed once, and again after the server reports a change or is
    /// reconnected.
    pub async fn tools(&self, server: &str) -> Result<Arc<[ToolInfo]>, McpError> {
        Ok(Arc::clone(&self.listing(self.server(server)?).await?.tools))
    }

    /// The tool named by `tool` or `server.tool`.
    ///
    /// A bare name is searched on every server; unreachable servers are ignored if another one has the
    /// tool.
    pub async fn find(&self, tool: &str) -> Result<ToolInfo, McpError> {
        if let Some((server, name)) = tool.split_once('.')
            && let Ok(server) = self.server(server)
        {
            let listing = self.listing(server).await?;
            return match listing.get(name) {
                Some(found) => Ok(found.info.clone()),
                None => Err(unknown_tool(tool, [&*listing.tools])),
            };
        }
        let listings = join_all(self.0.servers.values().map(|server| self.listing(server))).await;
        let mut found: Vec<ToolInfo> = listings
            .iter()
            .filter_map(|listing| Some(listing.as_ref().ok()?.get(tool)?.info.clone()))
            .collect();
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                found.push(last);
                Err(McpError::Refused(Refusal::AmbiguousTool {
                    tool: tool.to_owned(),
                    candidates: found.iter().map(ToolInfo::full_name).collect(),
                }))
            }
            (None, _) => {
                let listings = listings.into_iter().collect::<Result<Vec<_>, _>>()?;
                Err(unknown_tool(
                    tool,
                    listings.iter().map(|listing| &*listing.tools),
                ))
            }
        }
    }

    /// Calls a tool once. A call is sent again, over a new connection, only if it certainly was not sent
    /// because the old connection had already ended.
    pub async fn call(&self, request: ToolRequest) -> Result<ToolReply, McpError> {
        let server = self.server(&request.server)?;
        let allowed = request
            .timeout
            .unwrap_or(self.0.shared.options.call_timeout);
        let deadline = Instant::now() + allowed;
        let session = server.session(deadline).await?;
        let mut outcome = self.send(&session, &request, deadline, allowed).await;
        let stale = matches!(outcome, Err(McpError::NotSent { .. })) && !session.is_usable();
        if stale && Instant::now() < deadline {
            let session = server.session(deadline).await?;
            outcome = self.send(&session, &request, deadline, allowed).await;
        }
        let limits = MessageLimits::of(&self.0.shared.options);
        let (tool, result) = outcome?;
        let reply = ToolReply::of(result, &limits);
        if reply.is_error {
            // What a tool says of an error has no schema.
            return Ok(reply);
        }
        let (content, schema_mismatch) = tool.judge_result(reply.content).await;
        Ok(ToolReply {
            content,
            schema_mismatch,
            ..reply
        })
    }

    /// Sends a call over a connection. The result comes with the tool as the server lists it.
    async fn send(
        &self,
        session: &Session,
        request: &ToolRequest,
        deadline: Instant,
        allowed: Duration,
    ) -> Result<(Arc<CheckedTool>, CallToolResult), McpError> {
        let listing = session.listing(&self.0.shared.options);
        let listing = tokio::time::timeout_at(deadline, listing)
            .await
            .unwrap_or_else(|_| {
                Err(McpError::NotSent {
                    server: request.server.clone(),
                    reason: "its tools were not listed before the call's deadline".to_owned(),
                })
            })?;
        let tool = listing
            .get(&request.tool)
            .ok_or_else(|| unknown_tool(&request.tool, [&*listing.tools]))?;
        let checked = tool.arguments(&request.arguments, &request.injected);
        let checked = tokio::time::timeout_at(deadline, checked).await;
        let outgoing = Outgoing {
            tool: &request.tool,
            arguments: checked.unwrap_or_else(|_| {
                Err(McpError::NotSent {
                    server: request.server.clone(),
                    reason: "its arguments were not checked before the call's deadline".to_owned(),
                })
            })?,
            idempotency_key: &request.idempotency_key,
            trace: request.trace,
            deadline,
            allowed,
        };
        let result = session.call(outgoing).await?;
        Ok((Arc::clone(tool), result))
    }

    /// Closes every connection, ends every child process and waits for them. Running calls lose their
    /// answers; later calls fail as not sent.
    pub async fn shutdown(&self) {
        self.0.shared.stop.cancel();
        join_all(self.0.servers.values().map(|server| server.close())).await;
        self.0.shared.tracker.close();
        self.0.shared.tracker.wait().await;
    }

    fn server(&self, name: &str) -> Result<&Arc<Server>, McpError> {
        Name::new(name)
            .ok()
            .and_then(|name| self.0.servers.get(&name))
            .ok_or_else(|| {
                McpError::Refused(Refusal::UnknownServer {
                    server: name.to_owned(),
                    known: self.names().map(str::to_owned).collect(),
                })
            })
    }

    async fn listing(&self, server: &Arc<Server>) -> Result<Arc<Listing>, McpError> {
        let options = &self.0.shared.options;
        let deadline = Instant::now() + server.connect_timeout() + options.backoff_longest;
        match server.session(deadline).await?.listing(options).await {
            // The connection may have ended unnoticed; a new one is tried.
            Err(McpError::NotSent { .. }) => server.session(deadline).await?.listing(options).await,
            outcome => outcome,
        }
    }
}

fn unknown_tool<'a>(tool: &str, listings: impl IntoIterator<Item = &'a [ToolInfo]>) -> McpError {
    McpError::Refused(Refusal::UnknownTool {
        tool: tool.to_owned(),
        known: listings
            .into_iter()
            .flatten()
            .map(ToolInfo::full_name)
            .collect(),
    })
}
