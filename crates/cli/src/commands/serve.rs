//! `convoke serve`: an HTTP service over apps. Runs their tasks until stopped, and deletes expired ones. SIGHUP reloads the
//! apps.

use std::sync::Arc;
use std::time::Duration;

use convoke::{Registry, ReloadOutcome, Runtime, RuntimeError};
use convoke_server::{Listener, ServerConfig};
use convoke_store::Sweep;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::ServeArgs;
use crate::exit::Exit;
use crate::output::{self, FailureReport};
use crate::stopping::StopSignals;
use crate::{log, start};

pub(crate) async fn run(args: &ServeArgs, json: bool) -> anyhow::Result<Exit> {
    let mut stop = StopSignals::new()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let settings = settings(args, json)?;
    let registry = Arc::new(start::registry(args, json).await?);
    let listener = match settings {
        Some(settings) => Some(listen(&registry, &settings, args.without_auth).await?),
        None => None,
    };
    announce(&registry, listener.as_ref(), json);
    for runtime in registry.apps() {
        runtime.start_tool_servers();
    }
    let closing = CancellationToken::new();
    let mut service = JoinSet::new();
    if let Some(listener) = listener {
        service.spawn(listener.run(closing.clone()));
    }
    tokio::select! {
        broken = registry.until_stopped() => broken?,
        pruned = prune(&registry) => pruned?,
        () = reload_when_asked(&registry, &mut hangup, json) => {}
        () = stop.asked() => {}
    }
    closing.cancel();
    // Streams end when the apps have stopped, and their connections after them.
    let end = async {
        let (stopped, _) = futures::join!(registry.shutdown(), service.join_all());
        stopped
    };
    match stop.unless_again(end).await {
        Some(stopped) => stopped?,
        None => return Ok(Exit::Interrupted),
    }
    Ok(Exit::Done)
}

/// The settings of the service, or nothing if it is not to listen.
fn settings(args: &ServeArgs, json: bool) -> anyhow::Result<Option<ServerConfig>> {
    if args.no_listen {
        return Ok(None);
    }
    let mut settings = match &args.server.settings {
        Some(file) => start::server_settings(file, &start::loader(&args.store.data), json)?,
        None => ServerConfig::default(),
    };
    settings.listen = args.server.listen.unwrap_or(settings.listen);
    Ok(Some(settings))
}

async fn listen(
    registry: &Arc<Registry>,
    settings: &ServerConfig,
    without_auth: bool,
) -> anyhow::Result<Listener> {
    let listening = Listener::bind(Arc::clone(registry), settings, without_auth).await;
    if listening.is_err() {
        // The error is what matters to the user.
        let _ = registry.shutdown().await;
    }
    Ok(listening?)
}

fn announce(registry: &Registry, listener: Option<&Listener>, json: bool) {
    for runtime in registry.apps() {
        let name = &runtime.app().config.name;
        let url = listener.map(|listener| format!("http://{}/apps/{name}", listener.address()));
        if json {
            output::json_line(&json!({ "serving": name, "url": url }));
            continue;
        }
        let place = url.map(|url| format!(" at {url}")).unwrap_or_default();
        output::note(format!("{name} works on its tasks{place}; Ctrl-C stops it"));
    }
    let Some(listener) = listener.filter(|_| !json) else {
        return;
    };
    output::note(format!(
        "http://{}/docs shows the endpoints",
        listener.address()
    ));
    if !listener.requires_token() {
        output::note("no token is asked for: whoever reaches this address may do everything");
    }
}

/// Reloads all apps at each SIGHUP.
async fn reload_when_asked(registry: &Registry, hangup: &mut Signal, json: bool) {
    while hangup.recv().await.is_some() {
        reload(registry, json).await;
    }
    std::future::pending::<()>().await;
}

/// Reloads all apps, and prints the result of each.
async fn reload(registry: &Registry, json: bool) {
    for runtime in registry.apps() {
        let name = &runtime.app().config.name;
        let outcome = registry.reload(name.as_str()).await;
        log::follow(&runtime.app());
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

/// Prints why an app was not reloaded.
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

/// Periodically deletes expired tasks of each app by its own policy. Returns only on failure.
async fn prune(registry: &Registry) -> anyhow::Result<()> {
    let apps = registry.apps().into_iter();
    let mut pruned: FuturesUnordered<_> = apps.map(prune_app).collect();
    // A sweep only ends by failing.
    pruned.next().await.unwrap_or(Ok(()))
}

async fn prune_app(runtime: Arc<Runtime>) -> anyhow::Result<()> {
    loop {
        // Read each time, because a reload may change the policy.
        let app = runtime.app();
        let name = app.config.name.as_str();
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
