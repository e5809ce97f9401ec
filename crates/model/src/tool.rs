//! A tool of an MCP server, with the schemas of its arguments and results.

use std::collections::BTreeSet;

use convoke_schema::{CheckError, Schema, SchemaError, Violation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::mcp_server::{Approval, Verify};
use crate::name::Name;
use crate::valid::{Invalid, Report, Rules, Valid};

/// Time limit of a tool call by default, in seconds.
pub const DEFAULT_TOOL_TIMEOUT_SECONDS: u32 = 300;

/// A validated tool.
pub type Tool = Valid<ToolFields>;

/// One tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Tool")]
pub struct ToolFields {
    /// The server's name for it.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The server.
    pub server: Name,
    /// What it does.
    #[schemars(length(min = 1))]
    pub description: String,
    /// JSON Schema of its arguments, which are checked before every call.
    pub input_schema: Value,
    /// JSON Schema of its results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Time limit of one call, in seconds.
    #[serde(default = "default_timeout_seconds")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: u32,
    /// Tools to try in order when this one fails, as `tool` or `server.tool`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_tools: Vec<String>,
    /// Whether it changes nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Whether repeating a call with the same arguments has no further effect.
    #[serde(default)]
    pub idempotent: bool,
    /// Whether a person must approve each call.
    #[serde(default)]
    pub approval: Approval,
    /// A read-only tool that reports whether a call with unknown outcome took effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

fn default_timeout_seconds() -> u32 {
    DEFAULT_TOOL_TIMEOUT_SECONDS
}

impl ToolFields {
    /// The tool with its server, as `server.tool`.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.server, self.name)
    }

    /// The tool as a function that an OpenAI-compatible model can call.
    pub fn as_function(&self) -> Value {
        json!({
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.input_schema,
            },
        })
    }

    /// Whether `written`, as `tool` or `server.tool`, names this tool.
    fn is_named(&self, written: &str) -> bool {
        self.name == written
            || written.split_once('.').is_some_and(|(server, tool)| {
                tool == self.name && Name::new(server).is_ok_and(|server| server == self.server)
            })
    }
}

impl Valid<ToolFields> {
    /// Checks arguments against the tool's input schema.
    pub fn check_arguments(&self, arguments: &Map<String, Value>) -> Result<(), Invalid> {
        let mut report = Report::default();
        let violation = match Schema::compile(&self.input_schema) {
            Ok(schema) => schema.check(&Value::Object(arguments.clone())).err(),
            Err(error) => {
                report.add(code_of(&error, "tool.input_schema"), error.to_string());
                None
            }
        };
        match violation {
            None => {}
            Some(CheckError::Violations(violations)) => {
                for Violation { path, message } in violations {
                    let message = format!(
                        "`{}` does not accept its arguments: {path} {message}",
                        self.name
                    );
                    report.add("tool.arguments", message);
                }
            }
            Some(CheckError::TooComplex(complexity)) => report.add(
                "tool.arguments_too_complex",
                format!(
                    "the arguments of `{}` are too complex: {complexity}",
                    self.name
                ),
            ),
        }
        report.finish()
    }

    /// Checks that every fallback is one of the tools and that fallbacks have no cycle.
    pub fn check_fallbacks(tools: &[Self]) -> Result<(), Invalid> {
        let mut report = Report::default();
        for tool in tools {
            report.within(tool.qualified_name(), |report| {
                for fallback in &tool.fallback_tools {
                    report.require(
                        tools.iter().any(|known| known.is_named(fallback)),
                        "fallback_tools",
                        "tool.fallback_unknown",
                        format_args!("there is no tool `{fallback}` to fall back to"),
                    );
                }
                if let Some(path) = fallback_cycle(tool, tools) {
                    report.field(
                        "fallback_tools",
                        "tool.fallback_cycle",
                        format!("the fallbacks form a cycle: {}", path.join(" → ")),
                    );
                }
            });
        }
        report.finish()
    }
}

/// The path along fallbacks from a tool back to itself, if there is one.
fn fallback_cycle(start: &Tool, tools: &[Tool]) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut open = vec![(start, vec![start.qualified_name()])];
    while let Some((tool, path)) = open.pop() {
        let next = tools.iter().filter(|known| {
            tool.fallback_tools
                .iter()
                .any(|fallback| known.is_named(fallback))
        });
        for next in next {
            let mut path = path.clone();
            path.push(next.qualified_name());
            if next.qualified_name() == start.qualified_name() {
                return Some(path);
            }
            if seen.insert(next.qualified_name()) {
                open.push((next, path));
            }
        }
    }
    None
}

fn schema_rules(field: &str, schema: &Value, code: &'static str, report: &mut Report) {
    if !schema.is_object() {
        report.field(
            field,
            code,
            format!("{field} must be an object that is a JSON Schema"),
        );
    } else if let Err(error) = Schema::compile(schema) {
        let message = match &error {
            SchemaError::Invalid(reason) => format!("{field} is not a JSON Schema: {reason}"),
            other => format!("{field} cannot be used: {other}"),
        };
        report.field(field, code_of(&error, code), message);
    }
}

fn code_of(error: &SchemaError, usual: &'static str) -> &'static str {
    match error {
        SchemaError::TooComplex(_) => "tool.schema_too_complex",
        SchemaError::Invalid(_) | SchemaError::Unsupported(_) => usual,
    }
}

impl Rules for ToolFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.name.trim().is_empty(),
            "name",
            "tool.name_empty",
            "name is empty; a tool is called by its name",
        );
        report.require(
            !self.description.trim().is_empty(),
            "description",
            "tool.description_empty",
            "description is empty; say what the tool does",
        );
        report.require(
            self.timeout_seconds > 0,
            "timeout_seconds",
            "tool.timeout_zero",
            "timeout_seconds must be at least 1",
        );
        schema_rules(
            "input_schema",
            &self.input_schema,
            "tool.input_schema",
            report,
        );
        if let Some(schema) = &self.output_schema {
            schema_rules("output_schema", schema, "tool.output_schema", report);
        }
        let mut fallbacks = BTreeSet::new();
        report.within("fallback_tools", |report| {
            for (index, fallback) in self.fallback_tools.iter().enumerate() {
                report.require(
                    fallbacks.insert(fallback),
                    index,
                    "tool.fallback_twice",
                    format_args!("`{fallback}` is listed twice; list each fallback once"),
                );
            }
        });
    }
}
