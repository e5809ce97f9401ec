//! What tests share. Nothing here is part of the product.

mod clock;
mod gated;

pub use clock::{CountedIds, SimClock};
pub use gated::GatedStore;
