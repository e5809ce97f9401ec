//! Lenient deserialization.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the default value: some clients send `null` for an empty list.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
