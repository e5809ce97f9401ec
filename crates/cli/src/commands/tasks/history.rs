//! `convoke tasks history`: lists the entries of a task's journal and the state after each.

use convoke_flow::{ConditionOutcome, ConditionReader, JudgedCondition};
use convoke_model::Redaction;
use convoke_store::{Entry, Store, Viewer};
use serde_json::{Value, json};
use uuid::Uuid;

use super::not_found;
use super::trace::redaction;
use crate::cli::StoreArgs;
use crate::output;

/// Limit of a condition with its value, in characters.
const SHOWN: usize = 80;

pub(super) async fn history(
    store: &dyn Store,
    task: Uuid,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<()> {
    let loaded = store
        .load(&Viewer::System, task, 1)
        .await?
        .ok_or_else(|| not_found(task))?;
    let redaction = redaction(store, &loaded, args).await;
    let mut reader = ConditionReader::default();
    let entries = loaded.entries.iter();
    let entries = entries.map(|entry| (entry, reader.next(entry)));
    if json {
        for (entry, conditions) in entries {
            let state = entry.state.value();
            let mut object = json!({
                "seq": entry.seq, "at": entry.at, "kind": entry.kind,
                "status": state["status"], "open": labels(&state),
            });
            if !conditions.is_empty() {
                object["conditions"] = redaction.value(&json!(conditions));
            }
            output::json_line(&object);
        }
        return Ok(());
    }
    let rows: Vec<_> = entries
        .flat_map(|(entry, conditions)| {
            let conditions = conditions
                .iter()
                .map(|seen| condition_row(seen, &redaction));
            let conditions: Vec<_> = conditions.collect();
            std::iter::once(row(entry)).chain(conditions)
        })
        .collect();
    output::line(output::table(
        ["SEQ", "AT", "WHAT", "STATE", "OPEN"],
        &rows,
        &[0],
    ));
    output::note(format!(
        "look at one with `convoke tasks show {task} --at SEQ`"
    ));
    Ok(())
}

fn row(entry: &Entry) -> [String; 5] {
    let what = entry.event["label"].as_str();
    let state = entry.state.value();
    [
        entry.seq.to_string(),
        entry.at.strftime("%H:%M:%S%.3f").to_string(),
        what.map_or_else(|| entry.kind.replace('_', " "), str::to_owned),
        state["status"].as_str().unwrap_or_default().to_owned(),
        labels(&state).join(", "),
    ]
}

/// The row of a condition, below the entry that evaluated it.
fn condition_row(condition: &JudgedCondition, redaction: &Redaction) -> [String; 5] {
    let told = match &condition.outcome {
        ConditionOutcome::Value(value) => redaction.text(&value.to_string()),
        ConditionOutcome::Error(cause) => redaction.text(cause),
    };
    let what = output::short(&format!("  {}: {told}", condition.place()), SHOWN);
    [
        String::new(),
        String::new(),
        what,
        String::new(),
        String::new(),
    ]
}

/// Open calls and questions in a state.
fn labels(state: &Value) -> Vec<String> {
    let open = state["open"].as_array();
    let label = |call: &Value| call["label"].as_str().unwrap_or_default().to_owned();
    open.into_iter().flatten().map(label).collect()
}
