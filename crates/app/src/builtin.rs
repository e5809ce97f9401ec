//! The tools that every app has without a server of its own. Whoever runs an app brings them along;
//! here stands what an app may call them.

/// The server that the built-in tools count as belonging to. No other may be called that.
pub const BUILTIN_SERVER: &str = "builtin";

/// The built-in tools, in the order of their names.
pub const BUILTIN_TOOLS: [&str; 3] = ["calculate", "current_time", "wait"];
