//! `convoke tasks prune`: removes ended tasks whose time is over, and never one that is live.

use std::path::Path;

use convoke_model::{RetentionPolicy, RetentionPolicyFields};
use serde_json::json;

use crate::cli::StoreArgs;
use crate::{output, start};

pub(super) async fn prune(
    app: Option<&Path>,
    dry_run: bool,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<()> {
    let policy = match app {
        None => RetentionPolicy::new(RetentionPolicyFields::default())?,
        Some(folder) => {
            let app = start::load_app_as_written(folder, &args.data, json)?;
            app.retention.clone()
        }
    };
    let store = start::open_existing_store(args)?;
    let swept = store.sweep(policy, dry_run).await?;
    if json {
        output::json_line(&json!({ "dry_run": dry_run, "tasks": swept.tasks }));
        return Ok(());
    }
    for task in &swept.tasks {
        output::line(task);
    }
    let (number, done) = (
        swept.tasks.len(),
        if dry_run {
            "would be removed"
        } else {
            "removed"
        },
    );
    let tasks = if number == 1 { "task" } else { "tasks" };
    output::note(format!("{number} {tasks} {done}"));
    Ok(())
}
