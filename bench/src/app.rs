//! A small app that is made for a measurement: a folder with one agent and, where it has one, a
//! workflow, and a store beside it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use convoke::{Incoming, Runtime, StoreChoice, local_user};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Seconds that no measurement takes, so that none is cut short by a limit.
const LONG: u32 = 3_600;

/// An app in a temporary folder, which is gone with it.
pub(crate) struct BenchApp {
    folder: TempDir,
}

impl BenchApp {
    /// Writes an app below a folder: an agent, and the workflow that every request goes through.
    pub(crate) fn write(
        below: &Path,
        agent: &Value,
        workflow: Option<&Value>,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(below).with_context(|| format!("{}", below.display()))?;
        let folder = tempfile::tempdir_in(below)?;
        let config = json!({
            "name": "bench",
            "limits": { "task_seconds": LONG, "agent_seconds": LONG },
        });
        let files = [
            ("convoke.json", Some(&config)),
            ("agents/clerk.json", Some(agent)),
            ("workflows/main.json", workflow),
        ];
        for (file, content) in files {
            let Some(content) = content else { continue };
            let path = folder.path().join(file);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, content.to_string())?;
        }
        Ok(Self { folder })
    }

    /// Where its tasks are kept.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("data/store.db")
    }

    /// Runs it over that store.
    pub(crate) async fn start(&self) -> anyhow::Result<Runtime> {
        let runtime = Runtime::builder()
            .app(self.folder.path())
            .store(StoreChoice::Sqlite(self.store()))
            .build();
        Ok(runtime.await?)
    }
}

/// An agent that is there because an app must have one, and does nothing.
pub(crate) fn idle_agent() -> Value {
    json!({ "name": "clerk", "role": "Is there.", "system_prompt": "You are there." })
}

/// A request outside any conversation.
pub(crate) fn request() -> Incoming {
    Incoming::new(local_user(), "A task of the bench.")
}

/// The executor of a measurement: as many threads as the machine of the figures has cores.
pub(crate) fn executor() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}
