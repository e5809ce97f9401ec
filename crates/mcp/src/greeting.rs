//! How a conversation with a server begins, and what we listen for while it lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext,
    RunningService,
};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, Peer, RoleClient};
use tokio::task::JoinSet;

/// Greets the server in the newest protocol that it speaks.
pub(crate) async fn greet<T>(
    transport: T,
    tools_changed: &Arc<AtomicBool>,
) -> Result<RunningService<RoleClient, Listener>, String>
where
    T: Transport<RoleClient> + 'static,
{
    let listener = Listener {
        tools_changed: Arc::clone(tools_changed),
    };
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    listener
        .serve_with_lifecycle(transport, lifecycle)
        .await
        .map_err(|error| words(&error))
}

/// Why the greeting failed, for somebody who knows servers and not our protocol layer.
fn words(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        ClientInitializeError::ConnectionClosed(_) => {
            "it ended before it answered; its own words are in the log at debug level".to_owned()
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused the greeting: {}", error.message)
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => words(fallback),
        other => other.to_string(),
    }
}

/// Our side of the conversation: we offer nothing and hear that tools changed.
#[derive(Clone)]
pub(crate) struct Listener {
    tools_changed: Arc<AtomicBool>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("convoke", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.store(true, Ordering::SeqCst);
    }
}

/// In the newest protocol, a client hears of changed tools only if it asks to.
pub(crate) fn watch_tools(peer: &Peer<RoleClient>, tools_changed: &Arc<AtomicBool>) -> JoinSet<()> {
    let mut watch = JoinSet::new();
    let wanted = peer.peer_info().is_some_and(|info| {
        let announces = info
            .capabilities
            .tools
            .as_ref()
            .is_some_and(|tools| tools.list_changed == Some(true));
        announces && !info.protocol_version.has_initialize()
    });
    if wanted {
        let (peer, tools_changed) = (peer.clone(), Arc::clone(tools_changed));
        watch.spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(mut subscription) = peer.listen(filter).await else {
                return;
            };
            while let Ok(Some(_)) = subscription.next().await {
                tools_changed.store(true, Ordering::SeqCst);
            }
        });
    }
    watch
}
