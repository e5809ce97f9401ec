//! The server over streamable HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use crate::error::TodoError;
use crate::server::TodoServer;

/// The default address: this machine only. A client that reaches the port can name any user, so wider
/// access needs a gateway in front.
pub const DEFAULT_HTTP_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8931);

/// Serves over streamable HTTP until the future is dropped.
pub async fn serve_http(db: &Path, addr: SocketAddr) -> Result<(), TodoError> {
    crate::serve(db, Some(addr)).await
}

/// A server bound to an address, before it runs.
#[derive(Debug)]
pub struct HttpServer(convoke_serving::HttpServer<TodoServer>);

impl HttpServer {
    /// Opens the database and binds the address; port 0 selects a free one.
    pub async fn bind(db: &Path, addr: SocketAddr) -> Result<Self, TodoError> {
        let server = TodoServer::open(db)?;
        Ok(Self(convoke_serving::HttpServer::bind(server, addr).await?))
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Serves until the future is dropped.
    pub async fn run(self) -> Result<(), TodoError> {
        Ok(self.0.run().await?)
    }
}
