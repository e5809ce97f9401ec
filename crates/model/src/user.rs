//! The user's id. It comes from a verified token, never from a model or a message.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::valid::Invalid;

/// A signed-in user. Any version of UUID is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserId(pub Uuid);

impl UserId {
    /// Reads a user id.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Uuid::parse_str(text).map(Self).map_err(|_| {
            Invalid::one(
                "user.id_malformed",
                format!(
                    "`{text}` is not a user id; it must be a UUID such as \
                     123e4567-e89b-12d3-a456-426614174000"
                ),
            )
        })
    }

    /// The UUID.
    pub fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for UserId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::parse(text)
    }
}

impl From<Uuid> for UserId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl TryFrom<String> for UserId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<UserId> for String {
    fn from(id: UserId) -> Self {
        id.0.to_string()
    }
}

impl JsonSchema for UserId {
    fn schema_name() -> Cow<'static, str> {
        "UserId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "uuid" })
    }
}
