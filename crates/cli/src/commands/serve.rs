//! `convoke serve`: works on an app's tasks until told to stop, whoever hands them in, and removes those whose
//! time is over.

use std::time::Duration;

use convoke::Runtime;
use convoke_store::Sweep;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use crate::cli::AppArgs;
use crate::exit::Exit;
use crate::{output, start};

pub(crate) async fn run(args: &AppArgs, json: bool) -> anyhow::Result<Exit> {
    let app = start::load_app(&args.app, &args.store.data, &args.model, json)?;
    let name = app.config.name.clone();
    let store = start::store_for(&args.store, &app)?;
    let runtime = start::lasting_runtime(app, store, &args.store.data, &args.model).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    if json {
        output::json_line(&json!({ "serving": name }));
    } else {
        output::note(format!("{name} works on its tasks; Ctrl-C stops it"));
    }
    tokio::select! {
        broken = runtime.until_stopped() => broken?,
        pruned = prune(&runtime) => pruned?,
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    output::note("stopping: calls under way are finished, the rest goes on next time");
    tokio::select! {
        stopped = runtime.shutdown() => stopped?,
        // Who asks twice does not want to wait. What is cut off goes on like after any other crash.
        _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
    }
    Ok(Exit::Done)
}

/// Removes ended tasks whose time is over, now and then. Ends only if that fails.
async fn prune(runtime: &Runtime) -> anyhow::Result<()> {
    let app = runtime.app();
    let seconds = app.config.limits.prune_seconds.max(1);
    let mut now_and_then = tokio::time::interval(Duration::from_secs(seconds.into()));
    now_and_then.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        now_and_then.tick().await;
        let sweep = Sweep {
            app: app.config.name.to_string(),
            policy: app.retention.clone(),
            dry_run: false,
        };
        let swept = runtime.store().sweep(sweep).await?;
        if !swept.tasks.is_empty() {
            tracing::info!(
                tasks = swept.tasks.len(),
                "tasks were removed whose time was over"
            );
        }
    }
}
