//! Runs multi-agent assistants inside a program. The binary `convoke` is a user of this library.
#![doc = ""]
#![doc = include_str!("../../../docs/library.md")]
#![cfg_attr(
    fuzzing,
    allow(dead_code, reason = "a fuzz target calls a part of the binary")
)]

mod builder;
mod error;
mod runtime;
mod wire;

// A fuzz target cannot reach into a binary, so that its modules are here too where there is one.
#[cfg(fuzzing)]
extern crate self as convoke;
#[cfg(fuzzing)]
mod cli;
#[cfg(fuzzing)]
mod commands;
#[cfg(fuzzing)]
mod exit;
#[cfg(fuzzing)]
mod log;
#[cfg(fuzzing)]
mod output;
#[cfg(fuzzing)]
mod progress;
#[cfg(fuzzing)]
mod start;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use commands::tasks::fuzzing;

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
