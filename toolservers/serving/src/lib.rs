//! What every tool server here needs, and none should write again.
//!
//! A server keeps its state in one SQLite file ([`open`]), which several processes may share. Its
//! tools are described with [`tool`], and a call of them goes through [`answer`]: out comes a
//! structured result, or a refusal with a stable code ([`Refuse`]). Whatever changes the state goes
//! through [`change_once`], so that a call under an idempotency key takes effect once. [`serve`]
//! speaks MCP over standard input and output, or over streamable HTTP.

mod answers;
mod call;
mod database;
mod description;
mod failure;
mod http;
mod shared;
mod sources;
mod stdio;

use std::net::SocketAddr;

use rmcp::ServerHandler;

pub use answers::{
    ANSWERS_TABLE, Answer, IDEMPOTENCY_KEY, KEEP_KEYS, Keyed, MAX_KEY_LENGTH, change_once,
};
pub use call::{Call, Outcome, answer};
pub use database::{BUSY_TIMEOUT, open};
pub use description::{about, closed, tool};
pub use failure::{CallProblem, Failure, Refuse};
pub use http::{HttpServer, MCP_PATH};
pub use shared::Shared;
pub use sources::Sources;
pub use stdio::serve_stdio;

/// Serves over streamable HTTP at this address, or over standard input and output if there is none.
pub async fn serve<H, R>(handler: H, http: Option<SocketAddr>) -> Result<(), Failure<R>>
where
    H: ServerHandler + Clone,
    R: Refuse,
{
    match http {
        None => serve_stdio(handler).await,
        Some(addr) => Ok(HttpServer::bind(handler, addr).await?.run().await?),
    }
}
