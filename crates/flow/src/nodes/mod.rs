//! The nodes of the way, one file each. A node has a start, which asks for a call, and a finish, which handles the
//! outcome and continues.

pub(crate) mod act;
pub(crate) mod agent;
pub(crate) mod aggregate;
pub(crate) mod compose;
pub(crate) mod decide;
pub(crate) mod dispatch;
pub(crate) mod graph;
pub(crate) mod inquire;
pub(crate) mod resolve;
pub(crate) mod route;
