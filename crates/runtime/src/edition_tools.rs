//! The tool servers of each edition of an app: they end with the last user of their edition.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use convoke_flow::ports::{Failure, ToolDescription, ToolReply, ToolRequest, Tools};
use convoke_mcp::ToolServers;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// The tool servers of one edition. Dropping it shuts them down.
pub(crate) struct EditionTools {
    servers: ToolServers,
    ending: Ending,
}

/// Where tool servers are shut down whose edition is gone.
#[derive(Clone)]
struct Ending {
    tracker: TaskTracker,
    executor: Handle,
}

impl Drop for EditionTools {
    fn drop(&mut self) {
        let servers = self.servers.clone();
        let Ending { tracker, executor } = &self.ending;
        tracker.spawn_on(async move { servers.shutdown().await }, executor);
    }
}

impl Tools for EditionTools {
    fn describe<'a>(
        &'a self,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Arc<ToolDescription>, Failure>> {
        self.servers.describe(tool)
    }

    fn call<'a>(&'a self, request: &'a ToolRequest) -> BoxFuture<'a, Result<ToolReply, Failure>> {
        Tools::call(&self.servers, request)
    }
}

/// The tool servers of all open editions of an app.
pub(crate) struct OpenTools {
    open: Mutex<Vec<Weak<EditionTools>>>,
    ending: Ending,
}

impl OpenTools {
    pub(crate) fn new(executor: Handle) -> Self {
        Self {
            open: Mutex::default(),
            ending: Ending {
                tracker: TaskTracker::new(),
                executor,
            },
        }
    }

    /// Makes an edition the owner of its tool servers.
    pub(crate) fn own(&self, servers: ToolServers) -> Arc<EditionTools> {
        let ending = self.ending.clone();
        let tools = Arc::new(EditionTools { servers, ending });
        let mut open = self.lock();
        open.retain(|tools| tools.strong_count() > 0);
        open.push(Arc::downgrade(&tools));
        tools
    }

    /// Begins to start the tool servers of the edition that was opened last.
    pub(crate) fn start_newest(&self) {
        let newest = self.lock().last().and_then(Weak::upgrade);
        if let Some(newest) = newest {
            let servers = newest.servers.clone();
            let Ending { tracker, executor } = &self.ending;
            tracker.spawn_on(async move { servers.start().await }, executor);
        }
    }

    /// Ends the tool servers of all editions, and waits until they are gone.
    pub(crate) async fn shutdown(&self) {
        let open = std::mem::take(&mut *self.lock());
        for tools in open.iter().filter_map(Weak::upgrade) {
            tools.servers.shutdown().await;
        }
        self.ending.tracker.close();
        self.ending.tracker.wait().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<EditionTools>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
