//! A shop as an MCP server: one year of carts, orders, stock, prices and campaigns, and five spaces that
//! answer questions about it.
//!
//! One SQLite file holds about 100,000 rows. The first process that opens it generates them from a fixed
//! seed, so they are the same on every machine. The data ends on [`LAST_DAY`], which is "today" for
//! every question, so answers never change.
//!
//! A space is a domain with certified queries. Parameters (periods, products, regions and the like) are
//! extracted from a question, and the rest selects a query. Only certified SQL runs, with all values
//! from the question bound as parameters. A question that matches no query with confidence is declined,
//! with examples of what can be asked.
//!
//! Each space has the tools `query_space_<id>` and `poll_response_<id>`. A query that takes longer than
//! [`Options::answer_within`] is polled. Conversations and messages are rows of the file, so that
//! polling continues after a restart, and a follow-up such as "and last month?" runs the last query
//! again with the changed parameters.
//!
//! [`serve`] speaks MCP over standard input and output or streamable HTTP. Several processes may share
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
mod unused;
mod vocabulary;
mod words;

use std::net::SocketAddr;
use std::path::Path;

use convoke_serving::Sources;

pub use calendar::{FIRST_DAY, LAST_DAY};
pub use error::{MAX_LIMIT, MAX_QUERY_LENGTH, Refusal, RetailError};
pub use running::{MAX_ROWS, MAX_RUNNING};
pub use server::{Options, RetailServer};
pub use store::{CONVERSATION_LIFETIME, Store};

/// Serves over streamable HTTP at `http`, or over standard input and output without an address.
pub async fn serve(
    db: &Path,
    http: Option<SocketAddr>,
    options: Options,
) -> Result<(), RetailError> {
    let server = RetailServer::new(Store::open(db, Sources::real())?, options)?;
    Ok(convoke_serving::serve(server, http).await?)
}
