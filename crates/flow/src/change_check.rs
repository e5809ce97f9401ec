//! Checks arguments that a person changed against the schema of the tool, before the answer is taken: a misspelt argument
//! would otherwise count as an approval of what was proposed.

use std::sync::Arc;

use convoke_engine::{ChangeCheck, UnusableAnswer};
use convoke_schema::Limits;
use convoke_tools::{ToolDescription, Tools, checking};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value};

use crate::assistant::Assistant;
use crate::calls::{ARGUMENT_TYPE, ARGUMENT_UNKNOWN, Request, ToolCallRequest};

/// The code of an answer that cannot be checked, because the tool's server does not answer.
const UNCHECKED: &str = "answer.unchecked";

/// Keywords of a schema that may allow other properties than those it lists.
const OPEN: [&str; 11] = [
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
    "dependentSchemas",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "$dynamicRef",
];

/// Checks changed arguments of the tools of an app.
pub struct ToolChangeCheck {
    assistant: Arc<Assistant>,
    tools: Arc<dyn Tools>,
    limits: Limits,
}

impl ToolChangeCheck {
    /// A check within these limits of work.
    pub fn new(assistant: Arc<Assistant>, tools: Arc<dyn Tools>, limits: Limits) -> Self {
        Self {
            assistant,
            tools,
            limits,
        }
    }

    async fn check_arguments(&self, made: &ToolCallRequest) -> Result<(), UnusableAnswer> {
        let tool = &made.tool;
        let described = self.described(tool).await.map_err(|why| {
            let message = format!(
                "the arguments cannot be checked, because {why}; try again, approve the call as it is, or reject it"
            );
            UnusableAnswer::new(UNCHECKED, message)
        })?;
        if let Some(name) = unknown_argument(&described.parameters, &made.arguments) {
            let known = described.parameters["properties"].as_object();
            let known: Vec<_> = known
                .into_iter()
                .flat_map(Map::keys)
                .map(String::as_str)
                .collect();
            let message = format!(
                "`{tool}` has no argument `{name}`; it has {}",
                known.join(", ")
            );
            return Err(UnusableAnswer::new(ARGUMENT_UNKNOWN, message));
        }
        let refused = |why: String| {
            let message = format!("the arguments of `{tool}` do not fit: {why}");
            UnusableAnswer::new(ARGUMENT_TYPE, message)
        };
        let schema = checking::compile((*described.parameters).clone(), self.limits).await;
        let schema = schema.map_err(|error| refused(error.to_string()))?;
        let arguments = Value::Object((*made.arguments).clone());
        let checked = checking::check(schema, arguments).await;
        checked
            .map(drop)
            .map_err(|error| refused(error.to_string()))
    }

    async fn described(&self, tool: &str) -> Result<Arc<ToolDescription>, String> {
        let limit = self.assistant.tool_time(tool);
        match tokio::time::timeout(limit, self.tools.describe(tool)).await {
            Ok(described) => described.map_err(|failure| failure.message),
            Err(_) => Err(format!(
                "the server of `{tool}` did not reply within {limit:?}"
            )),
        }
    }
}

impl ChangeCheck<Assistant> for ToolChangeCheck {
    fn check<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), UnusableAnswer>> {
        async move {
            match request.tool_call() {
                Some(made) => self.check_arguments(made).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}

/// An argument that the schema does not list. A schema that may allow other arguments as well decides by itself.
fn unknown_argument<'a>(schema: &Value, arguments: &'a Map<String, Value>) -> Option<&'a str> {
    let listed = schema["properties"].as_object()?;
    let may_allow = |keyword: &&str| schema.get(keyword).is_some_and(|value| *value != false);
    if OPEN.iter().any(may_allow) {
        return None;
    }
    let mut names = arguments.keys();
    let name = names.find(|name| !listed.contains_key(*name))?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_no_property_has_is_unknown_unless_the_schema_may_allow_it() {
        let arguments = json!({ "amount": 3, "targte": "x" });
        let arguments = arguments.as_object().unwrap();
        let properties = json!({ "amount": {}, "target": {} });
        let unknown = |schema: Value| unknown_argument(&schema, arguments).map(str::to_owned);
        assert_eq!(
            unknown(json!({ "properties": properties })).as_deref(),
            Some("targte")
        );
        let closed = json!({ "properties": properties, "additionalProperties": false });
        assert_eq!(unknown(closed).as_deref(), Some("targte"));
        for open in [
            json!({ "properties": properties, "additionalProperties": true }),
            json!({ "properties": properties, "allOf": [{}] }),
            json!({ "type": "object" }),
            json!({ "properties": { "amount": {}, "targte": {} } }),
        ] {
            assert_eq!(unknown(open), None);
        }
    }
}
