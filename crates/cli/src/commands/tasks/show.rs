//! `convoke tasks show`.

use convoke_engine::Question;
use convoke_flow::assigned_agent;
use convoke_model::Part;
use convoke_store::{Store, Viewer};
use convoke_telemetry::TraceContext;
use serde_json::{Value, json};
use uuid::Uuid;

use super::not_found;
use crate::exit::UsageError;
use crate::output::{self, Text};
use crate::times::second;

/// Shows a task after an entry: its state and messages.
pub(super) async fn show_at(
    store: &dyn Store,
    task: Uuid,
    seq: u64,
    json: bool,
) -> anyhow::Result<()> {
    let loaded = store
        .load(&Viewer::System, task, 1)
        .await?
        .ok_or_else(|| not_found(task))?;
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
    let of = format!(" {seq} of {last}, {}", entry.kind);
    output::line(Text::new().dimmed("step").plain(of));
    output::json_lines(&entry.state.value());
    output::note(format!("{} messages until then", said.len()));
    Ok(())
}

pub(super) async fn show(store: &dyn Store, task: Uuid, json: bool) -> anyhow::Result<()> {
    let loaded = store
        .load(&Viewer::System, task, 1)
        .await?
        .ok_or_else(|| not_found(task))?;
    let record = &loaded.record;
    let state = loaded
        .entries
        .last()
        .map(|entry| entry.state.value())
        .unwrap_or_default();
    let messages = loaded.messages.iter().map(|stored| &stored.message);
    let agent = assigned_agent(&state, messages);
    if json {
        let mut task = json!(record);
        task["assigned_agent"] = json!(agent);
        output::json_line(&json!({ "task": task, "state": state, "messages": loaded.messages }));
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
    if let Some(agent) = agent {
        lines.push(("agent", agent.to_string()));
    }
    if let Some(conversation) = record.conversation {
        lines.insert(3, ("conversation", conversation.to_string()));
    }
    if let Some(trace) = record.trace.as_deref().and_then(TraceContext::parse) {
        lines.push(("trace", trace.trace_id().to_string()));
    }
    if let Some(completed_at) = record.completed_at {
        lines.push(("ended", completed_at.to_string()));
    }
    lines.push(("steps", record.seq.to_string()));
    if let Some(error) = &record.error {
        lines.push(("error", error.clone()));
    }
    for (name, value) in lines {
        output::line(Text::new().dimmed(format!("{name:13}")).plain(value));
    }
    let questions = questions(&state);
    for stored in &loaded.messages {
        let role = serde_json::to_value(stored.message.role)?;
        let who = role.as_str().unwrap_or_default().to_owned();
        let heading = Text::from("\n").bold(who).plain("\n");
        let mut content = stored.message.content.clone();
        for part in &stored.message.parts {
            content.push_str(&attached(part));
        }
        output::line(if questions.is_empty() {
            heading.plain(&content)
        } else {
            // A person decides by it.
            heading.revealed(&content)
        });
    }
    for question in &questions {
        let until = second(question.expires_at);
        let again = question.snoozed_until;
        let again = again.map(|again| format!(", asked again at {}", second(again)));
        let again = again.unwrap_or_default();
        let heading = format!("question {} until {until}{again}", question.id);
        let heading = Text::from("\n").bold(heading).plain("\n");
        output::line(heading.revealed(&question.prompt));
    }
    Ok(())
}

/// A part of a message, in a line.
fn attached(part: &Part) -> String {
    match part {
        Part::Text { text } => format!("\n{text}"),
        Part::Data { data } => format!("\n{data}"),
        Part::File {
            name,
            media_type,
            bytes,
            ..
        } => format!("\nattached: {name} ({media_type}, {bytes} bytes)"),
        Part::Image {
            media_type, bytes, ..
        } => format!("\nattached: an image ({media_type}, {bytes} bytes)"),
    }
}

/// The open questions in a state.
pub(crate) fn questions(state: &Value) -> Vec<Question> {
    let questions = state.get("questions").cloned().unwrap_or_default();
    serde_json::from_value(questions).unwrap_or_default()
}
