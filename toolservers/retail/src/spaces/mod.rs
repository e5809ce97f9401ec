//! The five spaces, each in a file of its own.

mod customer_behavior;
mod inventory;
mod marketing;
mod pricing;
mod sales;

use crate::space::Space;

/// Every space, in the order in which tools are listed.
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
