//! Runs multi-agent assistants inside a program. The binary `convoke` is a user of this library.
#![doc = ""]
#![doc = include_str!("../../../docs/library.md")]

mod builder;
mod error;
mod runtime;
mod wire;

pub use builder::RuntimeBuilder;
pub use error::RuntimeError;
pub use runtime::{Runtime, local_user};
pub use wire::{StoreChoice, edition_error, engine, engine_of_kept, tool_servers};

pub use convoke_app::{App, Diagnostics};
pub use convoke_engine::{Answered, EditionError, Ended, Engine, Heard, Keeping, Live};
pub use convoke_flow::toolbox::{RustTool, ToolContext, ToolEffect, ToolError};
pub use convoke_flow::{Assistant, Incoming};
pub use convoke_llm::Options as ModelOptions;
pub use convoke_model::{
    Agent, AgentFields, AgentLimits, Answer, Channel, LlmConfig, Name, TaskState, ToolCall, UserId,
};
pub use convoke_store::{Definition, Store};
