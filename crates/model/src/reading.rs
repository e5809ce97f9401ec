//! How values that others write leniently are read.

use serde::{Deserialize, Deserializer};

/// Reads JSON's `null` as the empty value, as some clients write an empty list.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
