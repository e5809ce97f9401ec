//! The names of the built-in tools, which need no server. The runtime implements them.

/// The server name of the built-in tools. No other server may have it.
pub const BUILTIN_SERVER: &str = "builtin";

/// The built-in tools, sorted.
pub const BUILTIN_TOOLS: [&str; 3] = ["calculate", "current_time", "wait"];
