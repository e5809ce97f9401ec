//! The server over streamable HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::error::TodoError;
use crate::server::TodoServer;
use crate::store::{Sources, Store};

/// Where the server listens if nothing else is said: this machine only. Whoever can reach the port
/// can name any user, so that anything wider needs a gate in front.
pub const DEFAULT_HTTP_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8931);

/// The path that speaks MCP.
pub const MCP_PATH: &str = "/mcp";

/// Serves over streamable HTTP until the future is dropped.
pub async fn serve_http(db: &Path, addr: SocketAddr) -> Result<(), TodoError> {
    HttpServer::bind(db, addr).await?.run().await
}

/// A bound address, about to be served.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    server: TodoServer,
    addr: SocketAddr,
}

impl HttpServer {
    /// Opens the database and takes the address; port 0 takes any free one.
    pub async fn bind(db: &Path, addr: SocketAddr) -> Result<Self, TodoError> {
        let server = TodoServer::new(Store::open(db, Sources::real())?);
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        if !addr.ip().is_loopback() {
            tracing::warn!(%addr, "anybody who reaches this address can act as any user");
        }
        Ok(Self {
            listener,
            server,
            addr,
        })
    }

    /// The address that was taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until the future is dropped.
    pub async fn run(self) -> Result<(), TodoError> {
        let server = self.server;
        let service = StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::new(NeverSessionManager::default()),
            config(self.addr.ip()),
        );
        axum::serve(
            self.listener,
            Router::new().route_service(MCP_PATH, service),
        )
        .await?;
        Ok(())
    }
}

/// No sessions, as all state is in the database: a restart goes unnoticed. Only requests that name
/// this machine are served, and none from a page in a browser, so that no web site can reach in.
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
