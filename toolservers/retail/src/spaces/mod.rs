//! The five spaces, one per file.

mod customer_behavior;
mod inventory;
mod marketing;
mod pricing;
mod sales;

use crate::space::Space;

/// All spaces, in the order of the tool list.
pub(crate) const ALL: &[&Space] = &[
    &customer_behavior::SPACE,
    &inventory::SPACE,
    &pricing::SPACE,
    &marketing::SPACE,
    &sales::SPACE,
];

/// The space of this name.
#[cfg(test)]
pub(crate) fn by_id(id: &str) -> Option<&'static Space> {
    ALL.iter().copied().find(|space| space.id == id)
}
