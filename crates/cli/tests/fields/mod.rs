//! The table of `docs/model.md` that tells where each field of the five documents can be seen, and everything that the
//! apps of this folder emit.

mod places;
mod runs;

pub(crate) use places::{Documents, Row, rows};
pub(crate) use runs::{emitted, shipped};
