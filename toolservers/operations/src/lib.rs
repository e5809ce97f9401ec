//! On-call work as an MCP server: failing services, their deployments, and changes to fix them.
//!
//! A folder contains `operations.db`, a log for each service in `logs`, and an empty folder `reports`
//! for other programs. The first process that opens the folder creates four services, three of which
//! have problems with different causes, so that each needs a different fix. Times are relative to that
//! moment; everything else is always the same.
//!
//! Six tools are read-only: `find_service`, `service_status`, `recent_deployments`, `host_health`,
//! `find_change` and `list_changes`. Two make changes: `restart_service` and `roll_back`. A call with an
//! `idempotencyKey` in its `_meta` takes effect once, however often it is repeated, and its change can
//! be found by that key.
//!
//! [`serve`] speaks MCP over standard input and output or streamable HTTP. Several processes may share
//! one folder.

mod change;
mod error;
mod host;
mod mention;
mod moment;
mod schema;
mod seed;
mod server;
mod service;
mod store;
mod tools;

use std::net::SocketAddr;
use std::path::Path;

use convoke_serving::Sources;

pub use change::{Change, Kind, MAX_LISTED_CHANGES, MAX_REASON_LENGTH};
pub use error::{OperationsError, Refusal};
pub use host::HostHealth;
pub use mention::MAX_TEXT_LENGTH;
pub use moment::Moment;
pub use server::OperationsServer;
pub use service::{
    DEFAULT_WINDOW_MINUTES, Deployment, MAX_LISTED_DEPLOYMENTS, MAX_NAME_LENGTH,
    MAX_WINDOW_MINUTES, State, Status,
};
pub use store::{DATABASE, LOGS, REPORTS, Store};

/// Serves over streamable HTTP at `http`, or over standard input and output without an address.
pub async fn serve(folder: &Path, http: Option<SocketAddr>) -> Result<(), OperationsError> {
    let server = OperationsServer::new(Store::open(folder, Sources::real())?);
    convoke_serving::serve(server, http).await
}
