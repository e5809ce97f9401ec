//! On-call work as an MCP server: services that fail, what was deployed, and what is done about it.
//!
//! A folder holds `operations.db`, a log for each service in `logs`, and `reports`, which is empty
//! and for others to write to. The first process that opens the folder fills it with four services,
//! of which three are in trouble: each for a reason of its own, so that what helps one does not help
//! another. The times are relative to that moment; everything else is always the same.
//!
//! Six tools look: `find_service`, `service_status`, `recent_deployments`, `host_health`,
//! `find_change` and `list_changes`. Two act: `restart_service` and `roll_back`. A call that carries
//! an `idempotencyKey` in its `_meta` takes effect once, however often it is made, and the change
//! that it made can be found by that key.
//!
//! [`serve`] speaks over standard input and output or streamable HTTP. Several processes may share
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

/// Serves over streamable HTTP at this address, or over standard input and output if there is none.
pub async fn serve(folder: &Path, http: Option<SocketAddr>) -> Result<(), OperationsError> {
    let server = OperationsServer::new(Store::open(folder, Sources::real())?);
    convoke_serving::serve(server, http).await
}
