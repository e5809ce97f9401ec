//! `convoke tasks list`.

use convoke_model::{TaskState, UserId};
use convoke_store::{Filter, Page, Store, TaskSummary, Viewer};

use crate::commands::speaker::parse_id;
use crate::output;

/// Characters of a text that a row shows.
const SHOWN: usize = 60;

pub(super) fn filter(
    states: &[TaskState],
    user: Option<&str>,
    conversation: Option<&str>,
) -> anyhow::Result<Filter> {
    Ok(Filter {
        states: states.to_vec(),
        owner: user.map(UserId::parse).transpose()?.map(UserId::uuid),
        conversation: conversation
            .map(|text| parse_id("conversation", text))
            .transpose()?,
        ..Filter::default()
    })
}

pub(super) async fn list(
    store: &dyn Store,
    filter: Filter,
    limit: usize,
    json: bool,
) -> anyhow::Result<()> {
    let page = store
        .query(&Viewer::System, filter, Page { after: None, limit })
        .await?;
    if json {
        for task in &page.tasks {
            output::json_line(task);
        }
        return Ok(());
    }
    if page.tasks.is_empty() {
        output::line("No tasks.");
        return Ok(());
    }
    let rows: Vec<_> = page.tasks.iter().map(row).collect();
    let headings = ["TASK", "APP", "STATE", "CREATED", "ASKED", "ANSWER"];
    output::line(output::table(headings, &rows, &[]));
    if page.next.is_some() {
        output::note(format!(
            "There are more; raise --limit above {limit} to see them."
        ));
    }
    Ok(())
}

fn row(task: &TaskSummary) -> [String; 6] {
    [
        task.id.to_string(),
        task.app.clone(),
        task.status.to_string(),
        task.created_at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        short(&task.description, task.status),
        short(
            task.result
                .as_deref()
                .or(task.error.as_deref())
                .unwrap_or_default(),
            task.status,
        ),
    ]
}

fn short(text: &str, status: TaskState) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if status.awaits_person() {
        output::short_revealed(&one_line, SHOWN)
    } else {
        output::short(&one_line, SHOWN)
    }
}
