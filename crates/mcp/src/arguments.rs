//! Arguments are checked against the tool's schema before a call leaves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Map, Value};

use crate::error::{Complaint, McpError, Refusal};
use crate::tool::ToolInfo;

/// A tool with its schemas compiled: one for the whole arguments, and one for each set of names
/// that the engine fills in.
#[derive(Debug)]
pub(crate) struct CheckedTool {
    pub(crate) info: ToolInfo,
    compiled: Mutex<BTreeMap<Vec<String>, Arc<Validator>>>,
}

impl CheckedTool {
    pub(crate) fn new(info: ToolInfo) -> Self {
        Self {
            info,
            compiled: Mutex::default(),
        }
    }

    /// The arguments to send: the caller's, checked as far as the caller can see, with the
    /// engine's own put over them, and then checked as a whole.
    ///
    /// What the caller gives under an injected name is dropped even where the tool does not take
    /// it, so that nobody can say who they are by way of an argument.
    pub(crate) fn arguments(
        &self,
        given: &Map<String, Value>,
        injected: &Map<String, Value>,
    ) -> Result<Map<String, Value>, McpError> {
        let mut arguments = given.clone();
        arguments.retain(|name, _| !injected.contains_key(name));
        let injected: Vec<(&String, &Value)> = injected
            .iter()
            .filter(|(name, _)| self.info.takes(name))
            .collect();
        if !injected.is_empty() {
            let names = injected.iter().map(|(name, _)| (*name).clone()).collect();
            arguments = self.check(names, arguments)?;
            arguments.extend(
                injected
                    .into_iter()
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
        }
        self.check(Vec::new(), arguments)
    }

    fn check(
        &self,
        hidden: Vec<String>,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, McpError> {
        let validator = self.validator(hidden)?;
        let arguments = Value::Object(arguments);
        let complaints: Vec<Complaint> = validator
            .iter_errors(&arguments)
            .map(|error| Complaint {
                path: error.instance_path().to_string(),
                message: error.to_string(),
            })
            .collect();
        match arguments {
            Value::Object(arguments) if complaints.is_empty() => Ok(arguments),
            _ => Err(McpError::Refused(Refusal::Arguments {
                server: self.info.server.clone(),
                tool: self.info.name.clone(),
                complaints,
            })),
        }
    }

    fn validator(&self, mut hidden: Vec<String>) -> Result<Arc<Validator>, McpError> {
        hidden.sort_unstable();
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = compiled.get(&hidden) {
            return Ok(Arc::clone(validator));
        }
        let schema = self.info.visible_schema(hidden.iter().map(String::as_str));
        let validator = compile(schema).map_err(|reason| {
            McpError::Refused(Refusal::Schema {
                server: self.info.server.clone(),
                tool: self.info.name.clone(),
                reason,
            })
        })?;
        let validator = Arc::new(validator);
        compiled.insert(hidden, Arc::clone(&validator));
        Ok(validator)
    }
}

/// Compiles a schema of whichever draft it names. A `$schema` that nobody knows is read as the
/// newest draft, which is what MCP says of a schema without one.
fn compile(mut schema: Value) -> Result<Validator, String> {
    match jsonschema::validator_for(&schema) {
        Ok(validator) => Ok(validator),
        Err(error) => {
            let named = schema
                .as_object_mut()
                .and_then(|object| object.shift_remove("$schema"));
            match named {
                Some(_) => jsonschema::validator_for(&schema).map_err(|error| error.to_string()),
                None => Err(error.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::ToolAnnotations;

    fn tool(input_schema: Value) -> CheckedTool {
        CheckedTool::new(ToolInfo {
            server: "todo".into(),
            name: "add_task".into(),
            description: None,
            input_schema: Arc::new(input_schema),
            output_schema: None,
            annotations: ToolAnnotations::default(),
        })
    }

    fn add_task() -> CheckedTool {
        tool(json!({
            "type": "object",
            "properties": {
                "user_id": {"type": "string", "minLength": 3},
                "title": {"type": "string", "maxLength": 5},
                "stars": {"type": "integer"},
            },
            "required": ["user_id", "title"],
            "additionalProperties": false,
        }))
    }

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    fn complaints(result: Result<Map<String, Value>, McpError>) -> Vec<String> {
        match result.unwrap_err() {
            McpError::Refused(Refusal::Arguments { complaints, .. }) => {
                complaints.iter().map(ToString::to_string).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_complaint_is_listed() {
        let found = complaints(add_task().arguments(
            &object(json!({"title": "too long", "stars": "5", "x": 1})),
            &Map::new(),
        ));
        assert_eq!(found.len(), 4, "{found:#?}");
        assert!(
            found.iter().any(|line| line.starts_with("/title: ")),
            "{found:#?}"
        );
        assert!(
            found.iter().any(|line| line.starts_with("/stars: ")),
            "{found:#?}"
        );
        assert!(
            found.iter().any(|line| line.contains("user_id")),
            "{found:#?}"
        );
    }

    #[test]
    fn what_the_engine_injects_overrides_what_the_caller_says() {
        let sent = add_task()
            .arguments(
                &object(json!({"title": "milk", "user_id": "somebody else"})),
                &object(json!({"user_id": "me!"})),
            )
            .unwrap();
        assert_eq!(
            Value::Object(sent),
            json!({"title": "milk", "user_id": "me!"})
        );
    }

    #[test]
    fn the_caller_hears_nothing_of_injected_arguments() {
        let found = complaints(
            add_task().arguments(&object(json!({})), &object(json!({"user_id": "me!"}))),
        );
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].contains("title"), "{found:#?}");
    }

    #[test]
    fn an_injected_value_must_fit_the_schema_too() {
        let found = complaints(add_task().arguments(
            &object(json!({"title": "milk"})),
            &object(json!({"user_id": ""})),
        ));
        assert!(found[0].starts_with("/user_id: "), "{found:#?}");
    }

    #[test]
    fn a_tool_that_takes_no_such_argument_gets_none() {
        let tool = tool(json!({"type": "object"}));
        let sent = tool
            .arguments(
                &object(json!({"user_id": "forged", "a": 1})),
                &object(json!({"user_id": "me"})),
            )
            .unwrap();
        assert_eq!(Value::Object(sent), json!({"a": 1}));
    }

    #[test]
    fn every_draft_is_understood_and_an_unknown_one_is_read_as_the_newest() {
        for draft in [
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-06/schema#",
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2019-09/schema",
            "https://json-schema.org/draft/2020-12/schema",
            "https://example.com/a-draft-of-our-own",
        ] {
            let tool = tool(json!({
                "$schema": draft,
                "type": "object",
                "properties": {"a": {"type": "integer"}},
            }));
            assert!(
                tool.arguments(&object(json!({"a": 1})), &Map::new())
                    .is_ok(),
                "{draft}"
            );
            assert!(
                tool.arguments(&object(json!({"a": "1"})), &Map::new())
                    .is_err(),
                "{draft}"
            );
        }
    }

    #[test]
    fn a_schema_that_is_none_is_named_as_the_cause() {
        let error = tool(json!({"type": "wrong"}))
            .arguments(&Map::new(), &Map::new())
            .unwrap_err();
        assert_eq!(error.code(), "mcp.bad_schema");
    }
}
