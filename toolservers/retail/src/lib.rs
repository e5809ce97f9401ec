//! A shop as an MCP server: a year of carts, orders, stock, prices and campaigns, and five spaces
//! that answer questions about it.
//!
//! One SQLite file holds about 100,000 rows. The first process that opens it makes them from a fixed
//! seed, so that every machine has the same. The data ends on [`LAST_DAY`], which is "today" for
//! every question: an answer never changes.
//!
//! A space is a domain with certified queries. A question is read for its parameters (periods,
//! products, regions and the like), and what is left decides which query is meant. Only certified
//! SQL is ever run, with everything that a question says bound as a value. What no query surely
//! answers is declined with examples of what can be asked.
//!
//! For each space there is `query_space_<id>` and `poll_response_<id>`. A query that takes longer
//! than [`Options::answer_within`] is polled for. Conversations and messages are rows of the file,
//! so that polling goes on after a restart, and a follow-up such as "and last month?" runs the last
//! query again with what changed.
//!
//! [`serve`] speaks over standard input and output or streamable HTTP. Several processes may share
//! one file.

mod answer;
mod calendar;
mod data;
mod error;
mod matching;
mod parameters;
mod period;
mod reading;
mod running;
mod schema;
mod server;
mod space;
mod spaces;
mod store;
mod tools;
mod vocabulary;
mod words;

use std::net::SocketAddr;
use std::path::Path;

use convoke_serving::Sources;

pub use calendar::{FIRST_DAY, LAST_DAY};
pub use error::{MAX_LIMIT, MAX_QUERY_LENGTH, Refusal, RetailError};
pub use running::{MAX_ROWS, MAX_RUNNING};
pub use server::{Options, RetailServer};
pub use store::{KEEP_CONVERSATIONS, Store};

/// Serves over streamable HTTP at this address, or over standard input and output if there is none.
pub async fn serve(
    db: &Path,
    http: Option<SocketAddr>,
    options: Options,
) -> Result<(), RetailError> {
    let server = RetailServer::new(Store::open(db, Sources::real())?, options)?;
    Ok(convoke_serving::serve(server, http).await?)
}
