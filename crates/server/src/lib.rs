//! The HTTP service over the apps of a registry.
//!
//! [`routes`] lists every endpoint once: method, path, who may call it, and its schemas. Routing, the OpenAPI
//! document, metrics labels and the tests of who sees what are made from it. An endpoint is one file in `endpoints/`. A task
//! belongs to the store, never to a connection: a client that goes away stops nothing.

mod access;
mod call;
mod config;
mod endpoints;
mod listener;
mod openapi;
mod origin;
mod problem;
mod rate;
mod reply;
mod resources;
mod route;
mod service;
mod sse;

pub use access::{AccessError, Authenticator, Principal, mint_token};
pub use config::{AuthConfig, CorsConfig, JwtAlgorithm, JwtConfig, ServerConfig, ServerLimits};
pub use listener::{Listener, ListenerError};
pub use openapi::openapi;
pub use route::{Access, Route, routes};
pub use service::Service;
