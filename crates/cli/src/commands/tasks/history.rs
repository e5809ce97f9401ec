//! `convoke tasks history`: lists the entries of a task's journal and the state after each.

use convoke::{HistoryEntry, TaskHistory};
use convoke_flow::{ConditionOutcome, JudgedCondition};
use convoke_store::{Store, Viewer};
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
    let mut history = TaskHistory::new(redaction(store, &loaded, args).await);
    let entries = loaded.entries.iter();
    let entries = entries.map(|entry| history.next(entry));
    if json {
        for entry in entries {
            output::json_line(&entry);
        }
        return Ok(());
    }
    let rows: Vec<_> = entries
        .flat_map(|entry| {
            let conditions: Vec<_> = entry.conditions.iter().map(condition_row).collect();
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

fn row(entry: HistoryEntry) -> [String; 5] {
    let what = entry.label;
    [
        entry.seq.to_string(),
        entry.at.strftime("%H:%M:%S%.3f").to_string(),
        what.unwrap_or_else(|| entry.kind.replace('_', " ")),
        entry.status,
        entry.open.join(", "),
    ]
}

/// The row of a condition, below the entry that evaluated it.
fn condition_row(condition: &JudgedCondition) -> [String; 5] {
    let told = match &condition.outcome {
        ConditionOutcome::Value(value) => value.to_string(),
        ConditionOutcome::Error(cause) => cause.clone(),
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
