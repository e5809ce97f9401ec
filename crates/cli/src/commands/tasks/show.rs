//! `convoke tasks show`.

use convoke_engine::Question;
use convoke_store::Store;
use owo_colors::OwoColorize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::not_found;
use crate::exit::UsageError;
use crate::output;

/// Shows a task as it stood after a step: its state, and what had been said.
pub(super) async fn show_at(
    store: &dyn Store,
    task: Uuid,
    seq: u64,
    json: bool,
) -> anyhow::Result<()> {
    let loaded = store.load(task, 1).await?.ok_or_else(|| not_found(task))?;
    let last = loaded.record.seq;
    let entry = loaded.entries.iter().find(|entry| entry.seq == seq);
    let entry = entry.ok_or_else(|| {
        let message = format!("the task has {last} steps; there is no step {seq}");
        UsageError::new("task.no_such_step", message)
    })?;
    let said: Vec<_> = loaded
        .messages
        .iter()
        .filter(|stored| stored.seq <= seq)
        .collect();
    if json {
        output::json_line(&json!({ "task": task, "entry": entry, "messages": said }));
        return Ok(());
    }
    output::line(format!(
        "{} {seq} of {last}, {}",
        "step".dimmed(),
        entry.kind
    ));
    output::line(serde_json::to_string_pretty(&entry.state.value())?);
    output::note(format!("{} messages until then", said.len()));
    Ok(())
}

pub(super) async fn show(store: &dyn Store, task: Uuid, json: bool) -> anyhow::Result<()> {
    let loaded = store.load(task, 1).await?.ok_or_else(|| not_found(task))?;
    let record = &loaded.record;
    let state = loaded
        .entries
        .last()
        .map(|entry| entry.state.value())
        .unwrap_or_default();
    if json {
        output::json_line(&json!({ "task": record, "state": state, "messages": loaded.messages }));
        return Ok(());
    }
    let mut lines = vec![
        ("task", record.id.to_string()),
        (
            "app",
            format!(
                "{} ({})",
                record.app,
                record.definition.get(..12).unwrap_or(&record.definition)
            ),
        ),
        ("user", record.owner.to_string()),
        ("state", record.status.to_string()),
        ("created", record.created_at.to_string()),
    ];
    if let Some(conversation) = record.conversation {
        lines.insert(3, ("conversation", conversation.to_string()));
    }
    if let Some(completed_at) = record.completed_at {
        lines.push(("ended", completed_at.to_string()));
    }
    lines.push(("steps", record.seq.to_string()));
    if let Some(error) = &record.error {
        lines.push(("error", error.clone()));
    }
    for (name, value) in lines {
        output::line(format!("{:13}{value}", name.dimmed()));
    }
    for stored in &loaded.messages {
        let role = serde_json::to_value(stored.message.role)?;
        let who = role.as_str().unwrap_or_default().to_owned();
        output::line(format!("\n{}\n{}", who.bold(), stored.message.content));
    }
    for question in questions(&state) {
        let until = question.expires_at.strftime("%Y-%m-%d %H:%M:%S");
        let heading = format!("question {} until {until} UTC", question.id);
        output::line(format!("\n{}\n{}", heading.bold(), question.prompt));
    }
    Ok(())
}

/// What a task asks in a state.
pub(crate) fn questions(state: &Value) -> Vec<Question> {
    let questions = state.get("questions").cloned().unwrap_or_default();
    serde_json::from_value(questions).unwrap_or_default()
}
