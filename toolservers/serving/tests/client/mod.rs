//! The real client with real servers as child processes, for the tests of all tool servers.

use std::path::Path;

use convoke_mcp::{Options, ToolReply, ToolRequest, ToolServers};
use serde_json::{Map, Value, json};

/// Servers with these names, all running the example program of the crate under test on the same file or
/// folder.
pub(crate) fn servers(example: &str, place: &Path, names: &[&str]) -> ToolServers {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().and_then(Path::parent).unwrap();
    let program = built.join("examples").join(example);
    assert!(program.exists(), "build the crate's examples first");
    let configs = names
        .iter()
        .map(|name| {
            // Only one of them is started as `convoke`.
            let stdio = json!({"command": "convoke", "args": [place]});
            let config = json!({"name": name, "transport": {"stdio": stdio}});
            serde_json::from_value(config).unwrap()
        })
        .collect();
    let options = Options {
        self_exe: Some(program),
        ..Options::default()
    };
    ToolServers::new(configs, options)
}

/// Calls a tool with an idempotency key and injected arguments.
pub(crate) async fn call(
    servers: &ToolServers,
    server: &str,
    tool: &str,
    arguments: Value,
    injected: Map<String, Value>,
    key: &str,
) -> ToolReply {
    let request = ToolRequest {
        server: server.to_owned(),
        tool: tool.to_owned(),
        arguments: serde_json::from_value(arguments).unwrap(),
        injected,
        idempotency_key: key.to_owned(),
        timeout: None,
    };
    servers.call(request).await.unwrap()
}
