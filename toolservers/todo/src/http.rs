//! The server over streamable HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use crate::error::TodoError;
use crate::server::TodoServer;

/// Where the server listens if nothing else is said: this machine only. Whoever can reach the port
/// can name any user, so that anything wider needs a gate in front.
pub const DEFAULT_HTTP_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8931);

/// Serves over streamable HTTP until the future is dropped.
pub async fn serve_http(db: &Path, addr: SocketAddr) -> Result<(), TodoError> {
    crate::serve(db, Some(addr)).await
}

/// A bound address, about to be served.
#[derive(Debug)]
pub struct HttpServer(convoke_serving::HttpServer<TodoServer>);

impl HttpServer {
    /// Opens the database and takes the address; port 0 takes any free one.
    pub async fn bind(db: &Path, addr: SocketAddr) -> Result<Self, TodoError> {
        let server = TodoServer::open(db)?;
        Ok(Self(convoke_serving::HttpServer::bind(server, addr).await?))
    }

    /// The address that was taken.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Serves until the future is dropped.
    pub async fn run(self) -> Result<(), TodoError> {
        Ok(self.0.run().await?)
    }
}
