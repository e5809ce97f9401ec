//! The HTTP service over the apps of a registry.
//!
//! [`routes`] lists every endpoint once: method, path, who may call it, and its schemas. Routing, the OpenAPI
//! document, metrics labels and the tests of who sees what are made from it. An endpoint is one file in `endpoints/`. A task
//! belongs to the store, never to a connection: a client that goes away stops nothing.

mod access;
mod audit;
mod call;
mod config;
mod endpoints;
mod listener;
mod metrics;
mod openapi;
mod origin;
mod outgoing;
mod problem;
mod rate;
mod reply;
mod resources;
mod route;
mod service;
mod sse;

pub use access::{
    AccessError, Authenticator, KeyError, KeyFile, NewKey, NewToken, Principal, StoredKey,
    mint_token, user_of_name,
};
pub use audit::{AUDIT_TARGET, credential};
pub use config::{
    AuthConfig, CorsConfig, JwtAlgorithm, JwtConfig, OutgoingConfig, ServerConfig, ServerLimits,
};
pub use listener::{Listener, ListenerError};
pub use openapi::openapi;
pub use outgoing::OutgoingError;
pub use route::{Access, Route, routes};
pub use service::Service;
