//! Helpers for tests. Not part of the product.

mod clock;
mod corpus;
mod faulty;
mod gated;
mod passes_on;
mod peak_memory;
mod scripted_model;
mod scripted_reply;

pub use clock::{CountedIds, SimClock};
pub use corpus::replay;
pub use faulty::{Fault, FaultyStore};
pub use gated::GatedStore;
pub use peak_memory::peak_memory;
pub use scripted_model::{RecordedRequest, Script, ScriptedModel};
pub use scripted_reply::Reply;

/// Used by the macro.
#[doc(hidden)]
pub use convoke_model::RetentionPolicy;
#[doc(hidden)]
pub use convoke_store as store;
