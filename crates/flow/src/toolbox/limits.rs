//! Limits for the results of tools written in Rust.

use std::io;

use convoke_schema::{Limits, ValueCounter};
use serde::Serialize;

/// Limits of tools written in Rust. The defaults equal those of tool servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// The most bytes of a result, as JSON.
    pub result_bytes: usize,
    /// The most JSON values in a result.
    pub result_values: usize,
    /// How much work checking arguments may take.
    pub schema: Limits,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            result_bytes: 16 * 1024 * 1024,
            result_values: 250_000,
            schema: Limits::default(),
        }
    }
}

/// The limit that a result exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExceededLimit {
    #[error("it has more than {0} bytes")]
    Bytes(usize),
    #[error("it has more than {0} JSON values")]
    Values(usize),
}

impl ToolLimits {
    /// Checks a result. Serialization errors are ignored here; they occur again when the result is converted.
    pub(super) fn allow(&self, result: &impl Serialize) -> Result<(), ExceededLimit> {
        let mut measure = Measure {
            limits: *self,
            bytes: 0,
            values: ValueCounter::default(),
            excess: None,
        };
        let written = serde_json::to_writer(&mut measure, result);
        match (written, measure.excess) {
            (Err(_), Some(excess)) => Err(excess),
            _ => Ok(()),
        }
    }
}

/// A writer that counts and discards its input, and fails when a limit is exceeded.
struct Measure {
    limits: ToolLimits,
    bytes: usize,
    values: ValueCounter,
    excess: Option<ExceededLimit>,
}

impl io::Write for Measure {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(text.len());
        self.values.feed(text);
        if self.bytes > self.limits.result_bytes {
            self.excess = Some(ExceededLimit::Bytes(self.limits.result_bytes));
        } else if self.values.values() > self.limits.result_values {
            self.excess = Some(ExceededLimit::Values(self.limits.result_values));
        }
        match self.excess {
            None => Ok(text.len()),
            Some(excess) => Err(io::Error::other(excess)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_measured_as_it_is_written() {
        let limits = ToolLimits {
            result_bytes: 20,
            result_values: 5,
            ..ToolLimits::default()
        };
        assert_eq!(limits.allow(&"x".repeat(18)), Ok(()));
        assert_eq!(limits.allow(&"x".repeat(19)), Err(ExceededLimit::Bytes(20)));
        assert_eq!(limits.allow(&json!([1, 2, 3, 4])), Ok(()));
        assert_eq!(
            limits.allow(&json!([1, 2, 3, 4, 5])),
            Err(ExceededLimit::Values(5))
        );
        assert_eq!(limits.allow(&json!(["\\\",[,[,"])), Ok(()));
    }

    #[test]
    fn an_endless_result_fails_at_the_limit() {
        struct Endless;

        impl Serialize for Endless {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(std::iter::repeat("more"))
            }
        }

        let limits = ToolLimits::default();
        assert_eq!(
            limits.allow(&Endless),
            Err(ExceededLimit::Values(limits.result_values))
        );
    }
}
