//! A tool as its server describes it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One tool of one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInfo {
    pub server: String,
    /// The tool's name on that server.
    pub name: String,
    /// The server's description.
    pub description: Option<String>,
    /// The JSON Schema of its arguments, as declared by the server.
    pub input_schema: Arc<Value>,
    /// The JSON Schema of its structured result, if declared.
    pub output_schema: Option<Arc<Value>>,
    /// What the server declares about effects.
    pub annotations: ToolAnnotations,
}

/// What a server declares about a tool's effects; `None` where it declares nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolAnnotations {
    /// The tool changes nothing.
    pub read_only: Option<bool>,
    /// The tool may overwrite or remove data.
    pub destructive: Option<bool>,
    /// A repeated call with the same arguments has no further effect.
    pub idempotent: Option<bool>,
    /// The tool interacts with systems beyond its server.
    pub open_world: Option<bool>,
}

impl ToolInfo {
    /// The unique name: `server.tool`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.server, self.name)
    }

    /// Whether the tool has a top-level argument of this name.
    pub fn takes(&self, argument: &str) -> bool {
        self.input_schema
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|properties| properties.contains_key(argument))
    }

    /// The schema without injected arguments, for models and for checking a caller's arguments.
    pub fn visible_schema<'a>(&self, injected: impl IntoIterator<Item = &'a str>) -> Value {
        let mut schema = (*self.input_schema).clone();
        for name in injected {
            hide(&mut schema, name);
        }
        schema
    }

    pub(crate) fn of(server: &str, tool: rmcp::model::Tool) -> Self {
        let annotations = tool.annotations.unwrap_or_default();
        Self {
            server: server.to_owned(),
            name: tool.name.into_owned(),
            description: tool.description.map(std::borrow::Cow::into_owned),
            input_schema: Arc::new(Value::Object(owned(tool.input_schema))),
            output_schema: tool
                .output_schema
                .map(|schema| Arc::new(Value::Object(owned(schema)))),
            annotations: ToolAnnotations {
                read_only: annotations.read_only_hint,
                destructive: annotations.destructive_hint,
                idempotent: annotations.idempotent_hint,
                open_world: annotations.open_world_hint,
            },
        }
    }
}

fn owned(object: Arc<Map<String, Value>>) -> Map<String, Value> {
    Arc::unwrap_or_clone(object)
}

/// Removes a property and the requirement for it. Arguments are injected at the top level only, so only
/// that is changed.
fn hide(schema: &mut Value, name: &str) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.shift_remove(name);
    }
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if let Some(required) = object.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|entry| entry != name);
        if required.is_empty() {
            object.shift_remove("required");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(input_schema: Value) -> ToolInfo {
        ToolInfo {
            server: "todo".into(),
            name: "add_task".into(),
            description: None,
            input_schema: Arc::new(input_schema),
            output_schema: None,
            annotations: ToolAnnotations::default(),
        }
    }

    #[test]
    fn injected_arguments_are_neither_visible_nor_required() {
        let tool = tool(json!({
            "type": "object",
            "properties": {"user_id": {"type": "string"}, "title": {"type": "string"}},
            "required": ["user_id", "title"],
            "additionalProperties": false,
        }));
        assert_eq!(
            tool.visible_schema(["user_id"]),
            json!({
                "type": "object",
                "properties": {"title": {"type": "string"}},
                "required": ["title"],
                "additionalProperties": false,
            })
        );
        assert!(tool.takes("user_id"), "the schema itself is left as it is");
    }

    #[test]
    fn an_empty_required_is_removed_for_older_drafts() {
        let tool = tool(json!({
            "type": "object",
            "properties": {"user_id": {"type": "string"}},
            "required": ["user_id"],
        }));
        assert_eq!(
            tool.visible_schema(["user_id"]),
            json!({"type": "object", "properties": {}})
        );
    }

    #[test]
    fn a_schema_without_properties_stays_as_it_is() {
        assert_eq!(
            tool(json!({"type": "object"})).visible_schema(["x"]),
            json!({"type": "object"})
        );
    }
}
