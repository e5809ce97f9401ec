//! A server over streamable HTTP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::handler::{Handler, ToolServer};

/// The path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";

/// A server bound to an address, before it runs.
#[derive(Debug)]
pub struct HttpServer<S> {
    listener: TcpListener,
    handler: Handler<S>,
    addr: SocketAddr,
}

impl<S: ToolServer> HttpServer<S> {
    /// Binds the address; port 0 selects a free one.
    pub async fn bind(server: S, addr: SocketAddr) -> Result<Self, io::Error> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        if !addr.ip().is_loopback() {
            tracing::warn!(%addr, "anybody who reaches this address can call every tool as anyone");
        }
        Ok(Self {
            listener,
            handler: Handler(server),
            addr,
        })
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until the future is dropped.
    pub async fn run(self) -> Result<(), io::Error> {
        let handler = self.handler;
        let service = StreamableHttpService::new(
            move || Ok(handler.clone()),
            Arc::new(NeverSessionManager::default()),
            config(self.addr.ip()),
        );
        axum::serve(
            self.listener,
            Router::new().route_service(MCP_PATH, service),
        )
        .await
    }
}

/// Stateless, because all state is in the database: clients do not notice a restart. Serves only
/// requests that name this machine, and none from browser pages, so that no web site can reach the
/// server.
fn config(ip: IpAddr) -> StreamableHttpServerConfig {
    let mut hosts = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    if !ip.is_loopback() && !ip.is_unspecified() {
        hosts.push(ip.to_string());
    }
    let mut config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .enforce_origin_validation();
    config.legacy_session_mode = false;
    config.json_response = true;
    config
}
