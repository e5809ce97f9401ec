//! What a tool is, for whoever calls one and whoever serves one: a description, a call, a reply, and the port
//! [`Tools`] between them. A client for another protocol implements the port and needs no other crate of the engine.

mod call;
pub mod checking;
mod description;
mod port;

pub use convoke_model::{Failure, FailureCode, FailureKind};

pub use call::{Arguments, Caller, ToolReply, ToolRequest};
pub use description::ToolDescription;
pub use port::Tools;
