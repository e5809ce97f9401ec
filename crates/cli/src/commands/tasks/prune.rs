//! `convoke tasks prune`: deletes expired tasks of an app, never a live one.

use std::path::Path;

use convoke_store::Sweep;
use serde_json::json;

use crate::cli::StoreArgs;
use crate::{output, start};

pub(super) async fn prune(
    app: &Path,
    dry_run: bool,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<()> {
    let app = start::load_app_as_written(app, &args.data, json)?;
    let store = if dry_run {
        start::open_store_to_read(args)?
    } else {
        start::open_existing_store(args)?
    };
    let sweep = Sweep {
        app: app.config.name.to_string(),
        policy: app.retention.clone(),
        dry_run,
    };
    let swept = store.sweep(sweep).await?;
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
