//! The wire format: writing requests, and reading answers with all known deviations.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod lenient;
pub(crate) mod server_error;
pub(crate) mod sse;
pub(crate) mod stream;
