//! The format on the wire: how a request is written and how the many readings of an answer are
//! understood.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod complaint;
pub(crate) mod lenient;
pub(crate) mod sse;
pub(crate) mod stream;
