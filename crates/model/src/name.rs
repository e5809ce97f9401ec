//! Names of agents, domains, skills, tool servers, workflows and nodes.

use std::borrow::{Borrow, Cow};
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

use crate::valid::Invalid;

/// Limit of a name, in bytes.
pub const MAX_NAME_LENGTH: usize = 64;

/// A `snake_case` name, `^[a-z][a-z0-9_]*$`. `-` is read as `_`, so `light-agent` equals `light_agent`;
/// the `_` form is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Name {
    /// Reads a name in either spelling.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
        let name = text.as_ref().replace('-', "_");
        let mut characters = name.chars();
        let starts_well = characters
            .next()
            .is_some_and(|first| first.is_ascii_lowercase());
        let goes_on_well = characters
            .all(|next| next.is_ascii_lowercase() || next.is_ascii_digit() || next == '_');
        if starts_well && goes_on_well && name.len() <= MAX_NAME_LENGTH {
            Ok(Self(name))
        } else {
            Err(Invalid::one(
                "name.pattern",
                format!(
                    "`{}` is not a name; use lower-case letters, digits and `_`, starting with a \
                     letter, at most {MAX_NAME_LENGTH} characters",
                    text.as_ref()
                ),
            ))
        }
    }

    /// For constant names in this crate; its tests validate them.
    pub(crate) fn from_static(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Whether a text is this name, in either spelling.
    pub fn matches(&self, text: &str) -> bool {
        let stored = |letter: u8| if letter == b'-' { b'_' } else { letter };
        self.0.len() == text.len() && self.0.bytes().eq(text.bytes().map(stored))
    }

    /// The stored spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl TryFrom<String> for Name {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[a-z][a-z0-9_-]*$",
            "maxLength": MAX_NAME_LENGTH,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one_name() {
        assert_eq!(
            Name::new("light-agent").unwrap(),
            Name::new("light_agent").unwrap()
        );
        assert_eq!(Name::new("light-agent").unwrap().as_str(), "light_agent");
    }

    #[test]
    fn texts_that_are_not_names_are_rejected() {
        for text in ["", "Light", "1st", "_x", "a b", "ä", "a.b", &"a".repeat(65)] {
            assert!(Name::new(text).unwrap_err().has("name.pattern"), "{text:?}");
        }
    }
}
