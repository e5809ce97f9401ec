//! Shared parts of all tool servers.
//!
//! A server keeps its state in one SQLite file ([`open`]), which several processes may share. Its tools
//! are described with [`tool`] and implemented by a [`ToolServer`], which returns a structured result or
//! a refusal with a stable code ([`Refuse`]). Every change goes through [`change_once`], so that a call
//! with an idempotency key takes effect once. [`serve`] speaks MCP over standard input and output, or
//! over streamable HTTP.

mod answers;
mod call;
mod database;
mod description;
mod failure;
mod handler;
mod http;
mod shared;
mod sources;
mod stdio;

use std::net::SocketAddr;

pub use answers::{
    ANSWERS_TABLE, Answer, IDEMPOTENCY_KEY, KEY_LIFETIME, Keyed, MAX_KEY_LENGTH, change_once,
};
pub use call::{Call, Outcome};
pub use database::{BUSY_TIMEOUT, open};
pub use description::{about, closed, tool};
pub use failure::{CallProblem, Failure, Refuse};
pub use handler::ToolServer;
pub use http::{HttpServer, MCP_PATH};
pub use shared::Shared;
pub use sources::Sources;
pub use stdio::serve_stdio;

/// Serves over streamable HTTP at `http`, or over standard input and output without an address.
pub async fn serve<S: ToolServer>(
    server: S,
    http: Option<SocketAddr>,
) -> Result<(), Failure<S::Refusal>> {
    match http {
        None => serve_stdio(server).await,
        Some(addr) => Ok(HttpServer::bind(server, addr).await?.run().await?),
    }
}
