//! A to-do list for each user, as an MCP server over SQLite.
//!
//! Five tools: `add_task`, `list_tasks`, `complete_task`, `delete_task` and `update_task`. Every one
//! takes the `user_id` whose tasks it works on; whoever connects the server to people puts the
//! verified id there, and one user never sees or touches the tasks of another. A call that carries
//! an `idempotencyKey` in its `_meta` takes effect once, however often it is made.
//!
//! The server speaks over standard input and output ([`serve_stdio`]) or streamable HTTP
//! ([`serve_http`]). Several processes may share one database file.

mod error;
mod http;
mod idempotency;
mod schema;
mod server;
mod store;
mod task;
mod tools;

use std::path::Path;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;

pub use error::{Refusal, TodoError};
pub use http::{DEFAULT_HTTP_ADDR, HttpServer, MCP_PATH, serve_http};
pub use idempotency::{IDEMPOTENCY_KEY, KEEP_KEYS, MAX_KEY_LENGTH};
pub use server::TodoServer;
pub use store::{BUSY_TIMEOUT, MAX_TASKS_PER_USER, Sources, Store};
pub use task::{MAX_TITLE_LENGTH, Status, Task};

/// Serves over standard input and output until the input ends.
pub async fn serve_stdio(db: &Path) -> Result<(), TodoError> {
    let server = TodoServer::new(Store::open(db, Sources::real())?);
    let running = match server.serve(rmcp::transport::stdio_pipes()).await {
        Ok(running) => running,
        // A client that only asks what the server is, or thinks better of it, has done no wrong.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(TodoError::Serve(error.to_string())),
    };
    running
        .waiting()
        .await
        .map_err(|error| TodoError::Serve(error.to_string()))?;
    Ok(())
}
