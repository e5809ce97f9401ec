//! A small app for a measurement: a folder with one agent and optionally a workflow, and a store next to
//! it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use convoke::{IncomingRequest, Runtime, StoreChoice, local_user};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A limit in seconds that no measurement reaches.
const LONG: u32 = 3_600;

/// An app in a temporary folder, deleted when dropped.
pub(crate) struct BenchApp {
    folder: TempDir,
}

impl BenchApp {
    /// Writes an app in a folder: an agent, and the workflow for all requests.
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

    /// The path of its store.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("data/store.db")
    }

    /// Starts the runtime with that store.
    pub(crate) async fn start(&self) -> anyhow::Result<Runtime> {
        let runtime = Runtime::builder()
            .app(self.folder.path())
            .store(StoreChoice::Sqlite(self.store()))
            .build();
        Ok(runtime.await?)
    }
}

/// An agent that does nothing; an app needs at least one.
pub(crate) fn idle_agent() -> Value {
    json!({ "name": "clerk", "role": "Is there.", "system_prompt": "You are there." })
}

/// A request without a conversation.
pub(crate) fn request() -> IncomingRequest {
    IncomingRequest::new(local_user(), "A task of the bench.")
}

/// The runtime of a measurement, with as many threads as the documented machine has cores.
pub(crate) fn executor() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}
