//! `convoke check --connect`: what an app says of tools, held against the tools themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use convoke::{ToolServers, tool_servers};
use convoke_app::{ActionSlot, App, Diagnostic, SlotHolds, ToolReference, ToolReferences};
use convoke_engine::Failure;
use convoke_flow::ports::{FailureCode, ToolDescription, Tools};
use convoke_flow::toolbox::Toolbox;
use convoke_model::SystemClock;
use convoke_schema::Schema;
use serde_json::{Map, Value};

use super::results;
use crate::progress::Spinner;

/// Starts the app's tool servers and tells everything that does not fit them.
pub(super) async fn check(app: &App) -> anyhow::Result<Vec<Diagnostic>> {
    let servers = tool_servers(app, std::env::current_exe().ok());
    let toolbox = Toolbox::new(Arc::new(servers.clone()), Arc::new(SystemClock))?;
    let references = app.tool_references();
    let spinner = Spinner::new("asking the tool servers");
    let asked = spinner.wait(async {
        let found = unreachable_servers(app, &servers).await;
        (found, describe(&toolbox, &references).await)
    });
    let (mut found, described) = asked.await;
    drop(spinner);
    servers.shutdown().await;
    let all_work = found.is_empty();
    for reference in references.iter() {
        match &described[reference.tool.as_str()] {
            Ok(facts) => found.extend(check_reference(&references, reference, facts)),
            // That a server cannot be reached is told once, not for each of its tools. A bare name may be a tool of it.
            Err(failure) if failure.is(FailureCode::ToolNotReached) && !all_work => {}
            Err(failure) => found.push(missing_tool(&references, reference, failure)),
        }
    }
    Ok(found)
}

/// Starts every server, and tells of each that cannot be reached, once.
async fn unreachable_servers(app: &App, servers: &ToolServers) -> Vec<Diagnostic> {
    let problems = servers.names().map(|server| async move {
        let error = servers.tools(server).await.err()?;
        let failure = servers.last_failure(server);
        let output = failure.map(|failure| failure.error_output.clone());
        let output = output.unwrap_or_default();
        Some(app.server_unreachable(server, error.to_string(), &output))
    });
    let problems = futures::future::join_all(problems).await;
    problems.into_iter().flatten().collect()
}

type ToolDescriptions<'a> = BTreeMap<&'a str, Result<Arc<ToolDescription>, Failure>>;

async fn describe<'a>(tools: &Toolbox, references: &'a ToolReferences) -> ToolDescriptions<'a> {
    let descriptions = references.tools().into_iter().map(|tool| async move {
        let described = tools.describe(tool).await;
        (tool, described)
    });
    futures::future::join_all(descriptions)
        .await
        .into_iter()
        .collect()
}

fn missing_tool(
    references: &ToolReferences,
    reference: &ToolReference,
    failure: &Failure,
) -> Diagnostic {
    let code = if failure.is(FailureCode::ToolNotReached) {
        "connect.server_unreachable"
    } else {
        "connect.tool_unknown"
    };
    references.problem(reference, None, code, failure.message.clone())
}

fn check_reference(
    references: &ToolReferences,
    reference: &ToolReference,
    facts: &ToolDescription,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if reference.must_be_read_only && !facts.read_only {
        let message = format!(
            "`{}` may change something, and here may only look",
            reference.tool
        );
        found.push(references.problem(reference, None, "connect.tool_changes", message));
    }
    if let Some(arguments) = &reference.arguments {
        for (argument, code, message) in complaints(arguments, &facts.parameters, &reference.slots)
        {
            found.push(references.problem(reference, argument.as_deref(), code, message));
        }
    }
    if let (Some(items), Some(schema)) = (&reference.items, &facts.output_schema) {
        for (key, message) in results::unknown_fields(items, schema) {
            found.push(references.item_problem(reference, items, key, message));
        }
    }
    found
}

/// What does not fit about arguments: which, under what code, and why.
fn complaints(
    arguments: &Map<String, Value>,
    schema: &Value,
    slots: &[ActionSlot],
) -> Vec<(Option<String>, &'static str, String)> {
    let mut found = Vec::new();
    let properties = schema["properties"].as_object();
    let takes = |name: &str| properties.is_some_and(|known| known.contains_key(name));
    let is_closed = schema["additionalProperties"] == Value::Bool(false);
    for (name, value) in arguments {
        if takes(name) {
            let complaint = misfit(value, &schema["properties"][name], slots);
            found
                .extend(complaint.map(|why| (Some(name.clone()), "connect.argument_invalid", why)));
        } else if is_closed {
            let known: Vec<_> = properties
                .into_iter()
                .flatten()
                .map(|(known, _)| known.as_str())
                .collect();
            let message = format!("the tool takes no `{name}`; it takes {}", known.join(", "));
            found.push((Some(name.clone()), "connect.argument_unknown", message));
        }
    }
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !arguments.contains_key(name) {
            let message = format!("the tool needs `{name}`, which it is not given");
            found.push((None, "connect.argument_missing", message));
        }
    }
    found
}

/// Why a value cannot be what a schema wants. Of what a template gives only that is known which it is
/// sure to give: a text, unless it is a single expression, or what a slot holds, if it is that slot alone.
fn misfit(value: &Value, schema: &Value, slots: &[ActionSlot]) -> Option<String> {
    if let Value::String(text) = value
        && is_template(text)
    {
        let text = text.trim();
        let inner = text
            .strip_prefix("{{")
            .and_then(|text| text.strip_suffix("}}"));
        let alone = inner.and_then(|name| slots.iter().find(|slot| slot.name == name.trim()));
        if let Some(slot) = alone {
            return slot_misfit(slot, schema);
        }
        let is_expression = text.starts_with("{{") && text.ends_with("}}");
        let wants = schema["type"].as_str();
        return match wants {
            Some(wants) if !is_expression && wants != "string" => Some(format!(
                "the tool wants {wants}, and this template gives a text"
            )),
            _ => None,
        };
    }
    if contains_template(value) {
        return None;
    }
    let misfit = Schema::compile(schema).ok()?.check(value).err()?;
    Some(misfit.to_string())
}

/// Why what a slot holds cannot be what a schema wants.
fn slot_misfit(slot: &ActionSlot, schema: &Value) -> Option<String> {
    let name = &slot.name;
    let wants = schema["type"].as_str();
    match &slot.holds {
        SlotHolds::Item(id) => wants.filter(|wants| *wants != "object").map(|wants| {
            format!("the tool wants {wants}, and `{name}` is the whole item; write `{{{{ {name}.{id} }}}}`")
        }),
        SlotHolds::Text | SlotHolds::OneOf(_) if wants.is_some_and(|wants| wants != "string") => {
            let wants = wants.unwrap_or_default();
            let filter = match wants {
                "integer" => " | int",
                "number" => " | float",
                _ => return Some(format!("the tool wants {wants}, and `{name}` is a text")),
            };
            Some(format!("the tool wants {wants}, and `{name}` is a text; write `{{{{ {name}{filter} }}}}`"))
        }
        SlotHolds::Text => None,
        SlotHolds::OneOf(values) => {
            let schema = Schema::compile(schema).ok()?;
            let misfits = |value: &&String| schema.check(&Value::from(value.as_str())).is_err();
            let wrong = values.iter().find(misfits)?;
            Some(format!("the tool takes no `{wrong}`, which is a value of `{name}`"))
        }
    }
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("${")
}

fn contains_template(value: &Value) -> bool {
    match value {
        Value::String(text) => is_template(text),
        Value::Array(items) => items.iter().any(contains_template),
        Value::Object(fields) => fields.values().any(contains_template),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_can_be_known_of_templates_is_held_against_the_schema() {
        let schema = json!({
            "properties": { "count": { "type": "integer", "minimum": 1 }, "name": { "type": "string" } },
            "required": ["count"], "additionalProperties": false,
        });
        let codes = |arguments: Value| -> Vec<&'static str> {
            let found = complaints(arguments.as_object().unwrap(), &schema, &[]);
            found.into_iter().map(|(_, code, _)| code).collect()
        };
        assert!(codes(json!({ "count": 5, "name": "n {{ n }}" })).is_empty());
        assert!(codes(json!({ "count": "{{ n }}", "name": "{{ n }}" })).is_empty());
        assert_eq!(
            codes(json!({ "count": "n {{ n }}" })),
            ["connect.argument_invalid"]
        );
        assert_eq!(codes(json!({ "count": 0 })), ["connect.argument_invalid"]);
        assert_eq!(
            codes(json!({ "name": 5 })),
            ["connect.argument_invalid", "connect.argument_missing"]
        );
        assert_eq!(
            codes(json!({ "count": 1, "nme": "x" })),
            ["connect.argument_unknown"]
        );
    }

    #[test]
    fn what_slots_hold_is_held_against_the_schema() {
        let slot = |name: &str, holds: SlotHolds| ActionSlot {
            name: name.to_owned(),
            holds,
        };
        let slots = [
            slot("visit", SlotHolds::Item("number".to_owned())),
            slot("words", SlotHolds::Text),
            slot(
                "day",
                SlotHolds::OneOf(vec!["Monday".into(), "Sunday".into()]),
            ),
        ];
        let days = json!({ "enum": ["Monday", "Tuesday"] });
        for (argument, schema, expected) in [
            (
                "{{ visit }}",
                json!({ "type": "integer" }),
                "write `{{ visit.number }}`",
            ),
            (
                "{{ words }}",
                json!({ "type": "integer" }),
                "write `{{ words | int }}`",
            ),
            (
                "{{ words }}",
                json!({ "type": "boolean" }),
                "`words` is a text",
            ),
            ("{{day}}", days.clone(), "the tool takes no `Sunday`"),
            ("{{ visit }}", json!({ "type": "object" }), ""),
            ("{{ visit.number }}", json!({ "type": "integer" }), ""),
            ("{{ words | int }}", json!({ "type": "integer" }), ""),
            ("{{ words }}", json!({ "type": "string" }), ""),
            ("{{ day | lower }}", days, ""),
        ] {
            let found = misfit(&json!(argument), &schema, &slots).unwrap_or_default();
            assert!(found.contains(expected), "{argument}: {found}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{argument}: {found}");
        }
    }
}
