//! How rules are written and enforced: a plain struct of fields implements [`Rules`], and a [`Valid`]
//! holds only fields that pass them.
//!
//! `MessageFields` is a draft that can be filled in freely; `Message` is `Valid<MessageFields>` and
//! exists only if every rule holds. A `Valid` dereferences to its fields and cannot be changed in place,
//! so it stays valid. Rules report all problems, not only the first one, because whoever fixes a file
//! wants the whole list.

use std::fmt;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Stable code, such as `message.content_empty`.
    pub code: &'static str,
    /// JSON pointer to the offending value; empty for the whole value.
    pub path: String,
    /// What is wrong and how to fix it, in one sentence.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} [{}]", self.message, self.code)
    }
}

/// Everything that is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Invalid {
    /// At least one problem, in the order of the rules.
    pub problems: Vec<Problem>,
}

impl Invalid {
    /// A single problem with the whole value.
    pub fn one(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            problems: vec![Problem {
                code,
                path: String::new(),
                message: message.into(),
            }],
        }
    }

    /// Whether one of the problems has this code.
    pub fn has(&self, code: &str) -> bool {
        self.problems.iter().any(|problem| problem.code == code)
    }
}

/// Collects problems and tracks the current position in the value.
#[derive(Debug, Default)]
pub struct Report {
    path: String,
    problems: Vec<Problem>,
}

impl Report {
    /// Reports a problem at the current position.
    pub fn add(&mut self, code: &'static str, message: impl Into<String>) {
        self.problems.push(Problem {
            code,
            path: self.path.clone(),
            message: message.into(),
        });
    }

    /// Reports a problem of one field.
    pub fn field(
        &mut self,
        field: impl fmt::Display,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.within(field, |report| report.add(code, message));
    }

    /// Reports a problem of `field` unless `holds`. The message is formatted only then.
    pub fn require(
        &mut self,
        holds: bool,
        field: impl fmt::Display,
        code: &'static str,
        message: impl fmt::Display,
    ) {
        if !holds {
            self.field(field, code, message.to_string());
        }
    }

    /// Runs the rules of a part at `field`, which is a field's name or a list index.
    pub fn within(&mut self, field: impl fmt::Display, rules: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let segment = field.to_string().replace('~', "~0").replace('/', "~1");
        self.path.push('/');
        self.path.push_str(&segment);
        rules(self);
        self.path.truncate(length);
    }

    /// An error if there was any problem.
    pub fn finish(self) -> Result<(), Invalid> {
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(Invalid {
                problems: self.problems,
            })
        }
    }

    /// The problems so far.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }
}

/// The rules of a struct, beyond what its types guarantee.
pub trait Rules {
    /// Reports every broken rule.
    fn rules(&self, report: &mut Report);
}

/// A value whose rules hold. It dereferences to its fields and never changes in place.
#[derive(Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Valid<T>(T);

impl<T: Rules> Valid<T> {
    /// Checks every rule.
    pub fn new(fields: T) -> Result<Self, Invalid> {
        let mut report = Report::default();
        fields.rules(&mut report);
        report.finish().map(|()| Self(fields))
    }

    /// A changed copy, validated again.
    pub fn with(self, change: impl FnOnce(&mut T)) -> Result<Self, Invalid> {
        let mut fields = self.0;
        change(&mut fields);
        Self::new(fields)
    }

    /// For changes in this crate that cannot break a rule.
    pub(crate) fn unchecked(fields: T) -> Self {
        Self(fields)
    }

    /// The fields, for changing; no longer known to be valid.
    pub fn into_fields(self) -> T {
        self.0
    }
}

impl<T> Deref for Valid<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Valid<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Eq> Eq for Valid<T> {}

impl<'de, T: Rules + Deserialize<'de>> Deserialize<'de> for Valid<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(T::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl<T: JsonSchema> JsonSchema for Valid<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
