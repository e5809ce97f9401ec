//! Checks what goes to a tool and what comes back against its schemas: arguments before a call is sent, the result after it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use convoke_schema::{CheckError, Limits, Schema, SchemaError, Violation};
use convoke_tools::checking::{check, compile, judge};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::error::{McpError, Refusal};
use crate::tool::ToolInfo;

/// A compiled schema, or why it cannot be compiled.
type Compiled = Result<Arc<Schema>, SchemaError>;

/// A tool with compiled schemas: one for all arguments, one for each set of injected names, and one for the result.
#[derive(Debug)]
pub(crate) struct CheckedTool {
    pub(crate) info: ToolInfo,
    limits: Limits,
    compiled: Mutex<BTreeMap<Vec<String>, Compiled>>,
    /// `None` if the tool declares none.
    output: OnceCell<Option<Compiled>>,
}

impl CheckedTool {
    pub(crate) fn new(info: ToolInfo, limits: Limits) -> Self {
        Self {
            info,
            limits,
            compiled: Mutex::default(),
            output: OnceCell::new(),
        }
    }

    /// The arguments to send: the caller's, checked against the visible schema, then overridden by the
    /// injected ones and checked against the whole schema.
    ///
    /// A caller's value for an injected name is always dropped, even if the tool has no such argument,
    /// so that no caller can forge an identity.
    pub(crate) async fn arguments(
        &self,
        caller: &Map<String, Value>,
        injected: &Map<String, Value>,
    ) -> Result<Map<String, Value>, McpError> {
        let mut arguments = caller.clone();
        arguments.retain(|name, _| !injected.contains_key(name));
        let injected: Vec<(&String, &Value)> = injected
            .iter()
            .filter(|(name, _)| self.info.takes(name))
            .collect();
        if !injected.is_empty() {
            let names = injected.iter().map(|(name, _)| (*name).clone()).collect();
            arguments = self.check(names, arguments).await?;
            arguments.extend(
                injected
                    .into_iter()
                    .map(|(name, value)| (name.clone(), value.clone())),
            );
        }
        self.check(Vec::new(), arguments).await
    }

    /// How a result does not fit the tool's output schema. A schema that cannot be used, and a result that cannot be checked
    /// within the limits, are told in the log.
    pub(crate) async fn judge_result(&self, result: Value) -> (Value, Option<String>) {
        let limits = self.limits;
        let declared = self.info.output_schema.as_deref();
        let compiled = self.output.get_or_init(|| async {
            match declared {
                Some(schema) => Some(compile(schema.clone(), limits).await),
                None => None,
            }
        });
        let schema = match compiled.await {
            None => return (result, None),
            Some(Ok(schema)) => Arc::clone(schema),
            Some(Err(error)) => {
                self.tell("its output schema cannot be used", &error.to_string());
                return (result, None);
            }
        };
        match judge(schema, result).await {
            (result, Ok(())) => (result, None),
            (result, Err(CheckError::Violations(violations))) => {
                // The places, because the messages quote values.
                let places: Vec<&str> = violations.iter().map(|one| one.path.as_str()).collect();
                let places = format!("{places:?}");
                self.tell("the result does not fit its output schema", &places);
                let complaints: Vec<_> = violations.iter().map(Violation::to_string).collect();
                (result, Some(complaints.join("; ")))
            }
            (result, Err(CheckError::TooComplex(limit))) => {
                let why = limit.to_string();
                self.tell(
                    "the result cannot be checked against its output schema",
                    &why,
                );
                (result, None)
            }
        }
    }

    fn tell(&self, what: &str, why: &str) {
        let tool = self.info.full_name();
        tracing::warn!(tool, why, "{what}");
    }

    async fn check(
        &self,
        injected_names: Vec<String>,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, McpError> {
        let schema = self.schema(injected_names).await?;
        let (server, tool) = (self.info.server.clone(), self.info.name.clone());
        match check(schema, Value::Object(arguments)).await {
            Ok(Value::Object(arguments)) => Ok(arguments),
            // An object stays an object.
            Ok(_) => Ok(Map::new()),
            Err(CheckError::Violations(violations)) => Err(McpError::Refused(Refusal::Arguments {
                server,
                tool,
                violations,
            })),
            Err(CheckError::TooComplex(complexity)) => {
                let reason = complexity.to_string();
                Err(McpError::Refused(Refusal::ArgumentsTooComplex {
                    server,
                    tool,
                    reason,
                }))
            }
        }
    }

    async fn schema(&self, mut injected_names: Vec<String>) -> Result<Arc<Schema>, McpError> {
        injected_names.sort_unstable();
        let compiled_schemas = self.compiled_schemas().get(&injected_names).cloned();
        let compiled = if let Some(compiled) = compiled_schemas {
            compiled
        } else {
            let schema = self
                .info
                .visible_schema(injected_names.iter().map(String::as_str));
            let limits = self.limits;
            let compiled = compile(schema, limits).await;
            self.compiled_schemas()
                .entry(injected_names)
                .or_insert(compiled)
                .clone()
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

    fn compiled_schemas(&self) -> std::sync::MutexGuard<'_, BTreeMap<Vec<String>, Compiled>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn violations(result: Result<Map<String, Value>, McpError>) -> Vec<String> {
        match result.unwrap_err() {
            McpError::Refused(Refusal::Arguments { violations, .. }) => {
                violations.iter().map(ToString::to_string).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn every_violation_is_listed() {
        let found = violations(
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
    async fn injected_arguments_override_the_callers() {
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
    async fn violations_do_not_mention_injected_arguments() {
        let found = violations(
            add_task()
                .arguments(&object(json!({})), &object(json!({"user_id": "me!"})))
                .await,
        );
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].contains("title"), "{found:#?}");
    }

    #[tokio::test]
    async fn an_injected_value_must_fit_the_schema_too() {
        let found = violations(
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
    async fn a_tool_without_such_an_argument_gets_none() {
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
    async fn every_draft_is_supported_and_an_unknown_one_is_read_as_the_newest() {
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

    /// What is complained of in a result of a tool with this output schema.
    async fn complaint(output_schema: Value, result: Value) -> Option<String> {
        let mut tool = tool(json!({"type": "object"}));
        tool.info.output_schema = Some(Arc::new(output_schema));
        let (kept, complaint) = tool.judge_result(result.clone()).await;
        assert_eq!(kept, result, "the result stays as it is");
        complaint
    }

    #[tokio::test]
    async fn a_result_is_checked_against_the_output_schema() {
        let schema = json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        });
        assert_eq!(complaint(schema.clone(), json!({"n": 1})).await, None);
        let wrong = complaint(schema.clone(), json!({"n": "1"})).await.unwrap();
        assert!(wrong.starts_with("/n: "), "{wrong}");
        let missing = complaint(schema, json!({})).await.unwrap();
        assert!(missing.contains("\"n\""), "{missing}");
    }

    #[tokio::test]
    async fn a_result_that_cannot_be_checked_is_not_complained_of() {
        assert_eq!(complaint(json!({"type": 7}), json!({"n": 1})).await, None);
        let many = json!({"list": vec![1; 500_000]});
        let schema = json!({"properties": {"list": {"items": {"type": "integer"}}}});
        assert_eq!(complaint(schema, many).await, None);
    }

    #[tokio::test]
    async fn an_invalid_schema_is_reported_as_the_cause() {
        let error = tool(json!({"type": "wrong"}))
            .arguments(&Map::new(), &Map::new())
            .await
            .unwrap_err();
        assert_eq!(error.code(), "mcp.bad_schema");
    }

    #[tokio::test]
    async fn a_schema_with_too_many_parts_is_rejected_before_sending() {
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
    async fn arguments_that_exceed_the_check_budget_are_rejected_before_sending() {
        let tool = tool(json!({
            "type": "object",
            "properties": {"list": {"items": {"type": "integer"}}, "user_id": {}},
        }));
        let sent = |count: usize| object(json!({ "list": vec![1; count] }));
        let user = object(json!({"user_id": "me!"}));
        // Exceeds the inline budget, and fits the whole one.
        assert!(tool.arguments(&sent(50_000), &user).await.is_ok());
        let error = tool.arguments(&sent(500_000), &user).await.unwrap_err();
        assert_eq!(error.code(), "tool.arguments_too_complex", "{error}");
        assert!(error.had_no_effect() && !error.is_transient());
    }
}
