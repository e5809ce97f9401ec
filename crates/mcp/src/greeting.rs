//! Initialises a session with a server, and handles the server's notifications.

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

/// Initialises the session in the newest protocol version that the server supports.
pub(crate) async fn initialise<T>(
    transport: T,
    tools_changed: &Arc<AtomicBool>,
) -> Result<RunningService<RoleClient, NotificationHandler>, String>
where
    T: Transport<RoleClient> + 'static,
{
    let listener = NotificationHandler {
        tools_changed: Arc::clone(tools_changed),
    };
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    listener
        .serve_with_lifecycle(transport, lifecycle)
        .await
        .map_err(|error| message(&error))
}

/// Describes why initialisation failed, without terms of the protocol library.
fn message(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        ClientInitializeError::ConnectionClosed(_) => {
            "it closed the connection before it answered".to_owned()
        }
        ClientInitializeError::JsonRpcError(error) => {
            format!("it rejected the initialization: {}", error.message)
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => message(fallback),
        other => other.to_string(),
    }
}

/// The client's side of a session: it offers no features and notes changes of the tool list.
#[derive(Clone)]
pub(crate) struct NotificationHandler {
    tools_changed: Arc<AtomicBool>,
}

impl ClientHandler for NotificationHandler {
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

/// The newest protocol sends changes of the tool list only to clients that subscribe.
pub(crate) fn subscribe_to_tools(
    peer: &Peer<RoleClient>,
    tools_changed: &Arc<AtomicBool>,
) -> JoinSet<()> {
    let mut watch = JoinSet::new();
    let must_subscribe = peer.peer_info().is_some_and(|info| {
        let announces = info
            .capabilities
            .tools
            .as_ref()
            .is_some_and(|tools| tools.list_changed == Some(true));
        announces && !info.protocol_version.has_initialize()
    });
    if must_subscribe {
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
