//! `convoke tasks record`: converts a task to an eval case of its app.

use convoke_engine::Snapshot;
use convoke_model::Role;
use convoke_store::{Store, Viewer};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::not_found;
use crate::commands::eval::Target;
use crate::exit::UsageError;
use crate::output;

/// Limit of earlier messages that are read.
const LOOK_BACK: usize = 50;

pub(super) async fn record(store: &dyn Store, task: Uuid, json: bool) -> anyhow::Result<()> {
    let (record, newest) = store
        .newest(&Viewer::System, task)
        .await?
        .ok_or_else(|| not_found(task))?;
    let state: Snapshot<Value, Value> = newest.state.read()?;
    let answer = state.answer.ok_or_else(|| {
        let message = format!("the task is {}, and has no answer to record", record.status);
        UsageError::new("task.not_answered", message)
    })?;
    let before = match record.conversation {
        None => Vec::new(),
        Some(id) => store
            .conversation(&Viewer::System, id, Some(task), LOOK_BACK)
            .await?
            .map(|conversation| conversation.messages)
            .unwrap_or_default(),
    };
    let before: Vec<String> = before
        .into_iter()
        .filter(|message| message.role == Role::User)
        .map(|message| message.content.clone())
        .collect();
    let calls: Vec<Value> = answer
        .tool_calls
        .iter()
        .map(|call| json!({ "tool": call.qualified_tool(), "arguments": lasting(&call.arguments) }))
        .collect();
    let mut expect = json!({
        "intent": answer.metadata.get("intent"),
        "calls": calls,
        "reply": { "equals": answer.text },
    });
    if let Some(targets) = Target::told(&answer) {
        let names = targets.into_iter().map(|target| target.name);
        expect["targets"] = names.collect();
    }
    let case = json!({ "say": record.description, "before": before, "expect": expect });
    if json {
        output::json_line(&case);
    } else {
        output::yaml(in_yaml(&case));
    }
    Ok(())
}

/// What will be the same when the case is said again: ids will not.
fn lasting(arguments: &Map<String, Value>) -> Map<String, Value> {
    let is_id = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| Uuid::parse_str(text).is_ok())
    };
    let lasting = arguments.iter().filter(|(_, value)| !is_id(value));
    lasting
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// An item of the list `cases`, to be added to a file of evals. JSON is YAML, so that no text needs quoting of its
/// own.
fn in_yaml(case: &Value) -> String {
    let expect = &case["expect"];
    let mut lines = vec![format!("  - say: {}", case["say"])];
    if case["before"]
        .as_array()
        .is_some_and(|before| !before.is_empty())
    {
        lines.push(format!("    before: {}", case["before"]));
    }
    lines.push("    expect:".to_owned());
    if expect["intent"].is_string() {
        lines.push(format!("      intent: {}", expect["intent"]));
    }
    if expect["targets"].is_array() {
        lines.push(format!("      targets: {}", expect["targets"]));
    }
    match expect["calls"].as_array().map(Vec::as_slice) {
        None | Some([]) => lines.push("      calls: []".to_owned()),
        Some(calls) => {
            lines.push("      calls:".to_owned());
            lines.extend(calls.iter().map(|call| format!("        - {call}")));
        }
    }
    lines.push(format!("      reply: {}", expect["reply"]));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_metadata_records_the_targets() {
        let mut case = json!({ "say": "play jazz", "before": [], "expect": {
            "intent": "play_music", "calls": [], "reply": { "equals": "Playing." },
        } });
        assert!(!in_yaml(&case).contains("targets"));
        case["expect"]["targets"] = json!(["play_music", "light"]);
        let written = in_yaml(&case);
        assert!(
            written.contains("\n      targets: [\"play_music\",\"light\"]\n"),
            "{written}"
        );
    }
}
