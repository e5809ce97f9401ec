//! A to-do list for each user, as an MCP server over SQLite.
//!
//! Five tools: `add_task`, `list_tasks`, `complete_task`, `delete_task` and `update_task`. Each takes
//! the `user_id` whose tasks it works on; the client must fill in a verified id. One user cannot see or
//! change the tasks of another. A call with an `idempotencyKey` in its `_meta` takes effect once,
//! however often it is repeated.
//!
//! The server speaks MCP over standard input and output ([`serve_stdio`]) or streamable HTTP
//! ([`serve_http`]). Several processes may share one database file.

mod error;
mod http;
mod schema;
mod server;
mod store;
mod task;
mod tools;

use std::net::SocketAddr;
use std::path::Path;

pub use convoke_serving::{
    BUSY_TIMEOUT, IDEMPOTENCY_KEY, KEY_LIFETIME, MAX_KEY_LENGTH, MCP_PATH, Sources,
};
pub use error::{Refusal, TodoError};
pub use http::{DEFAULT_HTTP_ADDR, HttpServer, serve_http};
pub use server::TodoServer;
pub use store::{MAX_TASKS_PER_USER, Store};
pub use task::{MAX_TITLE_LENGTH, Status, Task};

/// Serves over standard input and output until the input ends.
pub async fn serve_stdio(db: &Path) -> Result<(), TodoError> {
    serve(db, None).await
}

/// Serves over streamable HTTP at `http`, or over standard input and output without an address.
pub async fn serve(db: &Path, http: Option<SocketAddr>) -> Result<(), TodoError> {
    convoke_serving::serve(TodoServer::open(db)?, http).await
}
