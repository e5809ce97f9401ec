//! How certain a decision is, as a number from 0 to 1.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::valid::Invalid;

/// A number from 0 (no evidence) to 1 (certain).
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Confidence(f64);

impl Confidence {
    /// No confidence at all.
    pub const NONE: Self = Self(0.0);
    /// Certainty.
    pub const CERTAIN: Self = Self(1.0);

    /// Accepts 0 to 1; rejects every other number.
    pub fn new(value: f64) -> Result<Self, Invalid> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(Invalid::one(
                "confidence.range",
                format!("a confidence must lie between 0 and 1, not {value}"),
            ))
        }
    }

    /// Clamps to 0 to 1; NaN becomes 0.
    pub fn saturating(value: f64) -> Self {
        if value.is_nan() {
            Self::NONE
        } else {
            Self(value.clamp(0.0, 1.0))
        }
    }

    /// The number.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<f64> for Confidence {
    type Error = Invalid;

    fn try_from(value: f64) -> Result<Self, Invalid> {
        Self::new(value)
    }
}

impl From<Confidence> for f64 {
    fn from(confidence: Confidence) -> Self {
        confidence.0
    }
}

impl JsonSchema for Confidence {
    fn schema_name() -> Cow<'static, str> {
        "Confidence".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_zero_to_one_are_rejected() {
        for value in [-0.1, 1.000_1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(
                Confidence::new(value).unwrap_err().has("confidence.range"),
                "{value}"
            );
        }
    }

    #[test]
    fn saturating_takes_the_nearest_confidence() {
        assert_eq!(Confidence::saturating(f64::NAN), Confidence::NONE);
        assert_eq!(Confidence::saturating(7.0), Confidence::CERTAIN);
        assert_eq!(Confidence::saturating(-7.0), Confidence::NONE);
        assert!((Confidence::saturating(0.25).value() - 0.25).abs() < f64::EPSILON);
    }
}
