//! `convoke dev`: a conversation with an app while it is written. A change of its files applies from the next message
//! on; while the files have errors, the app runs on as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use convoke::{Runtime, StoreChoice};
use convoke_app::ENV_FILE;
use tokio::sync::Mutex;

use super::chat::talk;
use crate::cli::ChatArgs;
use crate::exit::{BrokenApp, Exit};
use crate::output;
use crate::start;
use crate::stopping::StopSignals;

/// The pause between two looks at the files.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Limit of nested folders that are looked at.
const MAX_DEPTH: usize = 8;

/// Limit of files that are looked at.
const MAX_FILES: usize = 2_000;

/// Endings of files whose changes matter: those of the app, and those of its tool servers. What a server stores has others.
const ENDINGS: [&str; 13] = [
    "yaml", "yml", "json", "py", "js", "mjs", "cjs", "ts", "rb", "sh", "pl", "php", "lua",
];

pub(crate) async fn run(args: &ChatArgs, json: bool) -> anyhow::Result<Exit> {
    let mut stop = StopSignals::new()?;
    let app = tokio::select! {
        app = EditedApp::open(args, json) => app?,
        () = stop.asked() => return Ok(Exit::Interrupted),
    };
    let talked = tokio::select! {
        talked = talk(args, json, async || app.current().await) => talked,
        () = app.watch() => Ok(Exit::Done),
        () = stop.asked() => Ok(Exit::Interrupted),
    };
    let runtime = app.runtime().await;
    match stop.unless_again(runtime.shutdown()).await {
        Some(stopped) => stopped?,
        None => return Ok(Exit::Interrupted),
    }
    talked
}

/// An app that is run and edited.
struct EditedApp<'a> {
    args: &'a ChatArgs,
    json: bool,
    store: StoreChoice,
    state: Mutex<State>,
}

struct State {
    runtime: Arc<Runtime>,
    seen: Files,
}

/// The files of an app, with their times and sizes.
type Files = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

impl<'a> EditedApp<'a> {
    /// Opens the app. While it has errors, waits for changes.
    async fn open(args: &'a ChatArgs, json: bool) -> anyhow::Result<Self> {
        loop {
            let seen = files(&args.app);
            match start::load_app(&args.app, &args.store.data, &args.model, json) {
                Ok(app) => {
                    // Kept open, so that a store in memory outlives a reload.
                    let store = StoreChoice::Opened(start::store_for(&args.store, &app)?.open()?);
                    let (data, model) = (&args.store.data, &args.model);
                    let runtime = start::lasting_runtime(app, store.clone(), data, model).await?;
                    runtime.start_tool_servers();
                    let runtime = Arc::new(runtime);
                    return Ok(Self {
                        args,
                        json,
                        store,
                        state: Mutex::new(State { runtime, seen }),
                    });
                }
                Err(error) if error.is::<BrokenApp>() && !seen.is_empty() => {
                    output::note("waiting for a change of the files; Ctrl-C leaves");
                }
                Err(error) => return Err(error),
            }
            while files(&args.app) == seen {
                tokio::time::sleep(LOOK_PAUSE).await;
            }
        }
    }

    /// Looks for changes again and again.
    async fn watch(&self) {
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            let mut state = self.state.lock().await;
            // While a message is answered, its app is left alone.
            if Arc::strong_count(&state.runtime) == 1 {
                self.look(&mut state).await;
            }
        }
    }

    /// The app as its files are now.
    async fn current(&self) -> Arc<Runtime> {
        let mut state = self.state.lock().await;
        self.look(&mut state).await;
        Arc::clone(&state.runtime)
    }

    async fn runtime(&self) -> Arc<Runtime> {
        Arc::clone(&self.state.lock().await.runtime)
    }

    /// Runs the app as its files are now, if they have changed and have no errors.
    async fn look(&self, state: &mut State) {
        let now = files(&self.args.app);
        if now == state.seen {
            return;
        }
        state.seen = now;
        match self.rebuilt().await {
            Ok(runtime) => {
                let before = std::mem::replace(&mut state.runtime, Arc::new(runtime));
                output::note("the app has changed, and applies from the next message on");
                if let Err(error) = before.shutdown().await {
                    output::report(self.json, &error.into(), Exit::Broken);
                }
            }
            Err(error) => {
                if !error.is::<BrokenApp>() {
                    output::report(self.json, &error, Exit::NotDone);
                }
                output::note("the app runs on as it was");
            }
        }
    }

    async fn rebuilt(&self) -> anyhow::Result<Runtime> {
        let (data, model) = (&self.args.store.data, &self.args.model);
        let app = start::load_app(&self.args.app, data, model, self.json)?;
        let runtime = start::lasting_runtime(app, self.store.clone(), data, model).await?;
        runtime.start_tool_servers();
        Ok(runtime)
    }
}

/// The files of an app folder whose changes matter. Hidden ones do not, but for `.env`, and evals do not.
fn files(app: &Path) -> Files {
    let mut found = Files::new();
    collect(app, 0, &mut found);
    found
}

fn collect(folder: &Path, depth: usize, found: &mut Files) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_hidden = name.starts_with('.') && name != ENV_FILE;
        if is_hidden || found.len() >= MAX_FILES {
            continue;
        }
        if path.is_dir() {
            let is_foreign = matches!(name.as_str(), "node_modules" | "__pycache__")
                || (depth == 0 && name == "evals");
            if !is_foreign && depth < MAX_DEPTH {
                collect(&path, depth + 1, found);
            }
            continue;
        }
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        if name != ENV_FILE && !ENDINGS.contains(&ending) {
            continue;
        }
        if let Ok(metadata) = entry.metadata() {
            found.insert(path, (metadata.modified().ok(), metadata.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_stores_and_hidden_files_are_no_changes() {
        let app = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = app.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        for path in ["convoke.yaml", "tools/server.py", ".env"] {
            write(path);
        }
        let before = files(app.path());
        assert_eq!(before.len(), 3);
        for path in [
            "pantry.db",
            ".convoke/store.db",
            ".schemas/Agent.json",
            "evals/a.yaml",
            "tools/__pycache__/server.py",
        ] {
            write(path);
        }
        assert_eq!(files(app.path()), before);
        fs::write(app.path().join(".env"), "A=1").unwrap();
        assert_ne!(files(app.path()), before);
    }
}
