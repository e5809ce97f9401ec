//! Descriptions of a server and its tools for clients.

use std::sync::Arc;

use rmcp::model::{Implementation, ServerCapabilities, ServerConfig, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

/// The configuration of a server that only offers tools.
pub fn about(
    name: &'static str,
    version: &'static str,
    instructions: &'static str,
) -> ServerConfig {
    ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
        .with_server_info(Implementation::new(name, version))
        .with_instructions(instructions)
}

/// A tool with these properties and no others, and a result of this schema.
pub fn tool(
    name: &'static str,
    description: &'static str,
    properties: &Value,
    required: &[&str],
    output: Value,
    annotations: ToolAnnotations,
) -> Tool {
    let input = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    Tool::new(name, description, object(input))
        .with_raw_output_schema(object(output))
        .with_annotations(annotations)
}

/// The schema of an object with exactly these properties, all required.
pub fn closed(properties: &Value) -> Value {
    let required: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .collect();
    let required = json!(required);
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn object(value: Value) -> Arc<Map<String, Value>> {
    match value {
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_object_requires_its_properties_and_allows_no_others() {
        let schema = closed(&json!({"found": {"type": "boolean"}, "change": {}}));
        assert_eq!(schema["required"], json!(["found", "change"]));
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["found"]["type"], "boolean");
    }
}
