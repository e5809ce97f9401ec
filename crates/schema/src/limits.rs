//! Every limit of compiling and checking, with its default.

/// How much work a schema and a value may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most schemas in one schema, itself and all that it holds and refers to.
    pub schemas: usize,
    /// How deep one check may nest, counted in schemas applied within each other. Bounds the stack.
    pub depth: usize,
    /// How much work one check may take. A step is one schema applied to one value, or one property,
    /// item or listed value looked at.
    pub steps: u64,
    /// The most that a schema's compiled regular expressions may take, in bytes.
    pub pattern_bytes: usize,
    /// The most complaints that are listed about one value.
    pub complaints: usize,
    /// The longest complaint, in characters. A longer one is cut.
    pub complaint_characters: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            schemas: 20_000,
            depth: 256,
            steps: 500_000,
            pattern_bytes: 32 * 1024 * 1024,
            complaints: 20,
            complaint_characters: 300,
        }
    }
}
