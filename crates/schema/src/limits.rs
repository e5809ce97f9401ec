//! Limits of compiling and checking, with their defaults.

/// How much work a schema and a value may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Limit of schema objects in one schema, including those it references.
    pub schemas: usize,
    /// Limit of schemas nested in one check. It bounds the stack.
    pub depth: usize,
    /// Steps of one check. A step is one schema applied to one value, or one property, item or listed
    /// value read.
    pub steps: u64,
    /// Limit of all compiled regular expressions of a schema, in bytes.
    pub pattern_bytes: usize,
    /// Limit of violations reported for one value.
    pub violations: usize,
    /// Limit of one violation's message, in characters. Longer messages are cut.
    pub violation_characters: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            schemas: 20_000,
            depth: 256,
            steps: 500_000,
            pattern_bytes: 32 * 1024 * 1024,
            violations: 20,
            violation_characters: 300,
        }
    }
}
