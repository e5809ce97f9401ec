//! Accepts connections within their limits, and lets them end when the service stops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use convoke::Registry;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessError, Authenticator};
use crate::config::ServerConfig;
use crate::service::Service;

/// Why the service cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// The address cannot be bound.
    #[error("{address} cannot be listened on: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Callers could not be verified.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The app for the root is not among those that run.
    #[error("`root` names the app `{0}`, which does not run here")]
    UnknownRoot(String),
}

impl ListenerError {
    /// Stable and greppable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Bind { .. } => "server.bind",
            Self::Access(error) => error.code(),
            Self::UnknownRoot(_) => "server.root_unknown",
        }
    }
}

/// A service that is bound to its address.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    service: Service,
}

/// A pause after an error of the operating system, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Listener {
    /// Binds the address of the settings. Where others can reach it and the settings ask for no tokens, `without_auth` must
    /// say so again.
    pub async fn bind(
        registry: Arc<Registry>,
        config: &ServerConfig,
        without_auth: bool,
    ) -> Result<Self, ListenerError> {
        if let Some(root) = &config.root
            && registry.app(root).is_err()
        {
            return Err(ListenerError::UnknownRoot(root.clone()));
        }
        let clock = registry.clock();
        let authenticator = Authenticator::new(config, without_auth, &clock)?;
        let bind = |source| ListenerError::Bind {
            address: config.listen,
            source,
        };
        let socket = TcpListener::bind(config.listen).await.map_err(bind)?;
        let address = socket.local_addr().map_err(bind)?;
        Ok(Self {
            socket,
            address,
            service: Service::new(registry, config, authenticator, address),
        })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether callers need a token.
    pub fn requires_token(&self) -> bool {
        self.service.requires_token()
    }

    /// Serves until `stop`. Then it accepts no connection, gives answers on their way `limits.shutdown_seconds`, and ends.
    pub async fn run(self, stop: CancellationToken) {
        let limits = self.service.limits().clone();
        let places = Arc::new(Semaphore::new(limits.connections as usize));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        loop {
            // Ended connections are forgotten as they end.
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.accept(&places) => accepted,
            };
            let Some((stream, place)) = accepted else {
                continue;
            };
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(limits.read_seconds.into()))
                .max_buf_size(limits.header_bytes as usize);
            let service = self.service.clone();
            let respond = service_fn(move |request| {
                let service = service.clone();
                async move { Ok::<_, std::convert::Infallible>(service.respond(request).await) }
            });
            let connection =
                graceful.watch(builder.serve_connection(TokioIo::new(stream), respond));
            connections.spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection ended early");
                }
                drop(place);
            });
        }
        drop(self.socket);
        self.service.stopping().cancel();
        let pause = Duration::from_secs(limits.shutdown_seconds.into());
        if tokio::time::timeout(pause, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!(open = connections.len(), "connections were cut off");
        }
        connections.shutdown().await;
    }

    /// Sets options of a connection. Without them it works, but worse.
    fn prepare(&self, stream: &TcpStream) {
        // Events are small and shall leave at once.
        let _ = stream.set_nodelay(true);
        let pause = Duration::from_secs(self.service.limits().probe_seconds.into());
        let probes = TcpKeepalive::new().with_time(pause).with_interval(pause);
        let _ = SockRef::from(stream).set_tcp_keepalive(&probes);
    }

    /// The next connection, with its place among the open ones.
    async fn accept(
        &self,
        places: &Arc<Semaphore>,
    ) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
        let place = Arc::clone(places).acquire_owned().await.ok()?;
        match self.socket.accept().await {
            Ok((stream, _)) => {
                self.prepare(&stream);
                Some((stream, place))
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }
}
