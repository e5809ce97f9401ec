//! `convoke tasks show`.

use convoke_engine::Question;
use convoke_store::{Store, Viewer};
use convoke_telemetry::TraceContext;
use serde_json::{Value, json};
use uuid::Uuid;

use super::not_found;
use crate::exit::UsageError;
use crate::output::{self, Text};

/// Shows a task as it stood after a step: its state, and what had been said.
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
        let content = &stored.message.content;
        output::line(if questions.is_empty() {
            heading.plain(content)
        } else {
            // Somebody decides by it.
            heading.revealed(content)
        });
    }
    for question in &questions {
        let until = question.expires_at.strftime("%Y-%m-%d %H:%M:%S");
        let heading = format!("question {} until {until} UTC", question.id);
        let heading = Text::from("\n").bold(heading).plain("\n");
        output::line(heading.revealed(&question.prompt));
    }
    Ok(())
}

/// What a task asks in a state.
pub(crate) fn questions(state: &Value) -> Vec<Question> {
    let questions = state.get("questions").cloned().unwrap_or_default();
    serde_json::from_value(questions).unwrap_or_default()
}
