//! Arguments are checked against the tool's schema before a call leaves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use convoke_schema::{Limits, Misfit, Schema, SchemaError};
use convoke_tools::checking::{check, off_the_executor};
use serde_json::{Map, Value};

use crate::error::{McpError, Refusal};
use crate::tool::ToolInfo;

/// A schema as it was compiled, or why it cannot be.
type Compiled = Result<Arc<Schema>, SchemaError>;

/// A tool with its schemas compiled: one for the whole arguments, and one for each set of names
/// that the engine fills in.
#[derive(Debug)]
pub(crate) struct CheckedTool {
    pub(crate) info: ToolInfo,
    limits: Limits,
    compiled: Mutex<BTreeMap<Vec<String>, Compiled>>,
}

impl CheckedTool {
    pub(crate) fn new(info: ToolInfo, limits: Limits) -> Self {
        Self {
            info,
            limits,
            compiled: Mutex::default(),
        }
    }

    /// The arguments to send: the caller's, checked as far as the caller can see, with the
    /// engine's own put over them, and then checked as a whole.
    ///
    /// What the caller gives under an injected name is dropped even where the tool does not take
    /// it, so that nobody can say who they are by way of an argument.
    pub(crate) async fn arguments(
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
            arguments = self.checked(names, arguments).await?;
            arguments.extend(
                injected
                    .into_iter()
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
        }
        self.checked(Vec::new(), arguments).await
    }

    async fn checked(
        &self,
        hidden: Vec<String>,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, McpError> {
        let schema = self.schema(hidden).await?;
        let (server, tool) = (self.info.server.clone(), self.info.name.clone());
        match check(schema, Value::Object(arguments)).await {
            Ok(Value::Object(arguments)) => Ok(arguments),
            // What went in as an object comes out as one.
            Ok(_) => Ok(Map::new()),
            Err(Misfit::Complaints(complaints)) => Err(McpError::Refused(Refusal::Arguments {
                server,
                tool,
                complaints,
            })),
            Err(Misfit::TooComplex(complexity)) => {
                let reason = complexity.to_string();
                Err(McpError::Refused(Refusal::ArgumentsTooComplex {
                    server,
                    tool,
                    reason,
                }))
            }
        }
    }

    async fn schema(&self, mut hidden: Vec<String>) -> Result<Arc<Schema>, McpError> {
        hidden.sort_unstable();
        let known = self.known().get(&hidden).cloned();
        let compiled = if let Some(compiled) = known {
            compiled
        } else {
            let schema = self.info.visible_schema(hidden.iter().map(String::as_str));
            let limits = self.limits;
            let compiled = off_the_executor(move || compile(schema, limits)).await;
            self.known().entry(hidden).or_insert(compiled).clone()
        };
        let (server, tool) = (self.info.server.clone(), self.info.name.clone());
        compiled.map_err(|error| {
            let reason = error.to_string();
            McpError::Refused(match error {
                SchemaError::TooComplex(_) => Refusal::SchemaTooComplex {
                    server,
                    tool,
                    reason,
                },
                SchemaError::Invalid(_) | SchemaError::Unsupported(_) => Refusal::Schema {
                    server,
                    tool,
                    reason,
                },
            })
        })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Vec<String>, Compiled>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiles a schema of whichever draft it names. A `$schema` that nobody knows is read as the
/// newest draft, which is what MCP says of a schema without one.
fn compile(mut schema: Value, limits: Limits) -> Compiled {
    let error = match Schema::compile_within(&schema, limits) {
        Ok(compiled) => return Ok(Arc::new(compiled)),
        Err(error) => error,
    };
    let named = schema
        .as_object_mut()
        .filter(|_| matches!(error, SchemaError::Invalid(_)))
        .and_then(|object| object.shift_remove("$schema"));
    match named {
        Some(_) => Schema::compile_within(&schema, limits).map(Arc::new),
        None => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::ToolAnnotations;

    fn tool(input_schema: Value) -> CheckedTool {
        let info = ToolInfo {
            server: "todo".into(),
            name: "add_task".into(),
            description: None,
            input_schema: Arc::new(input_schema),
            output_schema: None,
            annotations: ToolAnnotations::default(),
        };
        CheckedTool::new(info, Limits::default())
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

    #[tokio::test]
    async fn every_complaint_is_listed() {
        let found = complaints(
            add_task()
                .arguments(
                    &object(json!({"title": "too long", "stars": "5", "x": 1})),
                    &Map::new(),
                )
                .await,
        );
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

    #[tokio::test]
    async fn what_the_engine_injects_overrides_what_the_caller_says() {
        let sent = add_task()
            .arguments(
                &object(json!({"title": "milk", "user_id": "somebody else"})),
                &object(json!({"user_id": "me!"})),
            )
            .await
            .unwrap();
        assert_eq!(
            Value::Object(sent),
            json!({"title": "milk", "user_id": "me!"})
        );
    }

    #[tokio::test]
    async fn the_caller_hears_nothing_of_injected_arguments() {
        let found = complaints(
            add_task()
                .arguments(&object(json!({})), &object(json!({"user_id": "me!"})))
                .await,
        );
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].contains("title"), "{found:#?}");
    }

    #[tokio::test]
    async fn an_injected_value_must_fit_the_schema_too() {
        let found = complaints(
            add_task()
                .arguments(
                    &object(json!({"title": "milk"})),
                    &object(json!({"user_id": ""})),
                )
                .await,
        );
        assert!(found[0].starts_with("/user_id: "), "{found:#?}");
    }

    #[tokio::test]
    async fn a_tool_that_takes_no_such_argument_gets_none() {
        let tool = tool(json!({"type": "object"}));
        let sent = tool
            .arguments(
                &object(json!({"user_id": "forged", "a": 1})),
                &object(json!({"user_id": "me"})),
            )
            .await
            .unwrap();
        assert_eq!(Value::Object(sent), json!({"a": 1}));
    }

    #[tokio::test]
    async fn every_draft_is_understood_and_an_unknown_one_is_read_as_the_newest() {
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
                    .await
                    .is_ok(),
                "{draft}"
            );
            assert!(
                tool.arguments(&object(json!({"a": "1"})), &Map::new())
                    .await
                    .is_err(),
                "{draft}"
            );
        }
    }

    #[tokio::test]
    async fn a_schema_that_is_none_is_named_as_the_cause() {
        let error = tool(json!({"type": "wrong"}))
            .arguments(&Map::new(), &Map::new())
            .await
            .unwrap_err();
        assert_eq!(error.code(), "mcp.bad_schema");
    }

    #[tokio::test]
    async fn a_schema_of_too_many_parts_is_refused_before_anything_leaves() {
        let properties: Map<String, Value> = (0..Limits::default().schemas)
            .map(|number| (format!("p{number}"), json!({})))
            .collect();
        let error = tool(json!({"type": "object", "properties": properties}))
            .arguments(&Map::new(), &Map::new())
            .await
            .unwrap_err();
        assert_eq!(error.code(), "tool.schema_too_complex", "{error}");
        assert!(error.had_no_effect() && !error.is_transient());
    }

    #[tokio::test]
    async fn arguments_that_take_too_long_to_check_are_refused_before_anything_leaves() {
        let tool = tool(json!({
            "type": "object",
            "properties": {"list": {"items": {"type": "integer"}}, "user_id": {}},
        }));
        let sent = |count: usize| object(json!({ "list": vec![1; count] }));
        let user = object(json!({"user_id": "me!"}));
        // Far beyond what is checked at once, and within the budget.
        assert!(tool.arguments(&sent(50_000), &user).await.is_ok());
        let error = tool.arguments(&sent(500_000), &user).await.unwrap_err();
        assert_eq!(error.code(), "tool.arguments_too_complex", "{error}");
        assert!(error.had_no_effect() && !error.is_transient());
    }
}
