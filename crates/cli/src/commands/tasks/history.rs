//! `convoke tasks history`: every point of a task's journal, and where the task stood there.

use convoke_store::{Entry, Store, Viewer};
use serde_json::{Value, json};
use uuid::Uuid;

use super::not_found;
use crate::output;

pub(super) async fn history(store: &dyn Store, task: Uuid, json: bool) -> anyhow::Result<()> {
    let loaded = store
        .load(&Viewer::System, task, 1)
        .await?
        .ok_or_else(|| not_found(task))?;
    if json {
        for entry in &loaded.entries {
            let state = entry.state.value();
            output::json_line(&json!({
                "seq": entry.seq, "at": entry.at, "kind": entry.kind,
                "status": state["status"], "open": labels(&state),
            }));
        }
        return Ok(());
    }
    let rows: Vec<_> = loaded.entries.iter().map(row).collect();
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

/// What is under way, or waits for a person, in a state.
fn labels(state: &Value) -> Vec<String> {
    let open = state["open"].as_array();
    let label = |call: &Value| call["label"].as_str().unwrap_or_default().to_owned();
    open.into_iter().flatten().map(label).collect()
}
