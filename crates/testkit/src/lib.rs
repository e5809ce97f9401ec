//! Helpers for tests. Not part of the product.

mod clock;
mod corpus;
mod delegate;
mod faulty;
mod gated;
mod peak_memory;
mod recorded_metrics;
mod scripted_model;
mod scripted_reply;

pub use clock::{CountedIds, SimClock};
pub use corpus::replay;
pub use faulty::{Fault, FaultyStore};
pub use gated::GatedStore;
pub use peak_memory::peak_memory;
pub use recorded_metrics::{RecordedMetric, RecordedMetrics};
pub use scripted_model::{RecordedRequest, Script, ScriptedModel};
pub use scripted_reply::Reply;

/// Used by the macro.
#[doc(hidden)]
pub use convoke_model::{BlobHash, RetentionPolicy};
#[doc(hidden)]
pub use convoke_store as store;
