//! `convoke serve`: works on the tasks of apps until told to stop, whoever hands them in, and removes those whose
//! time is over. SIGHUP reloads the apps.

use std::sync::Arc;
use std::time::Duration;

use convoke::{Registry, ReloadOutcome, Runtime, RuntimeError};
use convoke_store::Sweep;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::ServeArgs;
use crate::exit::Exit;
use crate::output::{self, FailureReport};
use crate::stopping::StopSignals;
use crate::{log, start};

pub(crate) async fn run(args: &ServeArgs, json: bool) -> anyhow::Result<Exit> {
    let mut stop = StopSignals::new()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let registry = start::registry(args, json).await?;
    for runtime in registry.apps() {
        let name = &runtime.app().config.name;
        if json {
            output::json_line(&json!({ "serving": name }));
        } else {
            output::note(format!("{name} works on its tasks; Ctrl-C stops it"));
        }
    }
    tokio::select! {
        broken = registry.until_stopped() => broken?,
        pruned = prune(&registry) => pruned?,
        () = reload_when_asked(&registry, &mut hangup, json) => {}
        () = stop.asked() => {}
    }
    match stop.unless_again(registry.shutdown()).await {
        Some(stopped) => stopped?,
        None => return Ok(Exit::Interrupted),
    }
    Ok(Exit::Done)
}

/// Reloads every app each time the process is asked to.
async fn reload_when_asked(registry: &Registry, hangup: &mut Signal, json: bool) {
    while hangup.recv().await.is_some() {
        reload(registry, json).await;
    }
    std::future::pending::<()>().await;
}

/// Reloads every app, and says what became of each.
async fn reload(registry: &Registry, json: bool) {
    for runtime in registry.apps() {
        let name = &runtime.app().config.name;
        let outcome = registry.reload(name.as_str()).await;
        if let Ok(reloaded) = registry.app(name.as_str()) {
            log::follow(reloaded.app());
        }
        let word = match outcome {
            Ok(ReloadOutcome::Reloaded) => "reloaded",
            Ok(ReloadOutcome::Unchanged) => "unchanged",
            Err(error) => {
                refuse(&runtime, error, json);
                continue;
            }
        };
        if json {
            output::json_line(&json!({ "reload": name, "outcome": word }));
        } else {
            output::note(format!("{name}: {word}"));
        }
    }
}

/// Says why an app runs on as it was.
fn refuse(runtime: &Runtime, error: RuntimeError, json: bool) {
    let app = runtime.app();
    let name = &app.config.name;
    if let (RuntimeError::App(diagnostics), false) = (&error, json) {
        crate::commands::check::show(&app.folder, diagnostics, json);
        output::note(format!("{name}: refused; it runs on as it was"));
        return;
    }
    let diagnostics = match &error {
        RuntimeError::App(diagnostics) => Some(json!(diagnostics)),
        _ => None,
    };
    let failure = FailureReport::of(&error.into());
    if json {
        output::json_line(&json!({
            "reload": name, "outcome": "refused", "error": failure, "diagnostics": diagnostics,
        }));
    } else {
        output::note(failure.in_words(&format!("{name} runs on as it was: ")));
    }
}

/// Removes ended tasks whose time is over, now and then, of each app by its own policy. Ends only if that fails.
async fn prune(registry: &Registry) -> anyhow::Result<()> {
    let apps = registry.apps();
    let mut pruned: FuturesUnordered<_> = apps
        .iter()
        .map(|runtime| prune_app(registry, runtime.app().config.name.as_str()))
        .collect();
    // One that ends has failed.
    pruned.next().await.unwrap_or(Ok(()))
}

async fn prune_app(registry: &Registry, name: &str) -> anyhow::Result<()> {
    loop {
        // As the app is now: its policy may have been reloaded.
        let runtime: Arc<Runtime> = registry.app(name)?;
        let app = runtime.app();
        let sweep = Sweep {
            app: name.to_owned(),
            policy: app.retention.clone(),
            dry_run: false,
        };
        let swept = runtime.store().sweep(sweep).await?;
        if !swept.tasks.is_empty() {
            tracing::info!(
                app = name,
                tasks = swept.tasks.len(),
                "tasks were removed whose time was over"
            );
        }
        let seconds = app.config.limits.prune_seconds.max(1);
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    }
}
