//! Skills and workflows together, with the real binary: a skill that starts a workflow, one that asks by condition, a workflow
//! that keeps the conversation of those it passes requests on to, and evals that look into it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod approval;
mod conversation;
mod evals;
#[path = "../program/mod.rs"]
mod program;
mod shop;
mod started;
