//! `convoke tasks prune`: removes ended tasks whose time is over, and never one that is live.

use std::path::Path;

use convoke_app::App;
use convoke_model::{RetentionPolicy, RetentionPolicyFields};
use serde_json::json;

use crate::cli::StoreArgs;
use crate::exit::BrokenApp;
use crate::{output, start};

pub(super) async fn prune(
    app: Option<&Path>,
    dry_run: bool,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<()> {
    let policy = match app {
        None => RetentionPolicy::new(RetentionPolicyFields::default())?,
        Some(folder) => match App::load_to_run(folder, &start::environment(&args.data)) {
            Ok(loaded) => loaded.app.retention,
            Err(diagnostics) => {
                crate::commands::check::show(folder, &diagnostics, json);
                return Err(BrokenApp.into());
            }
        },
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
