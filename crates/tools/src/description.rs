//! What a tool server says of one of its tools.

use std::sync::Arc;

use serde_json::Value;

/// What a tool server says of one of its tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDescription {
    /// The server that has it.
    pub server: String,
    /// Its name there.
    pub tool: String,
    /// It changes nothing.
    pub read_only: bool,
    /// Called again with the same arguments, it changes nothing more.
    pub idempotent: bool,
    /// What it does, in the server's words.
    pub description: String,
    /// The JSON Schema of its arguments, without those that the engine adds itself.
    pub parameters: Arc<Value>,
    /// The JSON Schema of its results, if it declares one.
    pub output_schema: Option<Arc<Value>>,
}
