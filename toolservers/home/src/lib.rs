//! A house as an MCP server: lights, heating, music, scenes, doors, an alarm and sensors.
//!
//! One SQLite file holds the state of every device. The first process that opens it creates seven rooms,
//! always the same. There are no users: anyone who can reach the server controls the house.
//!
//! Six tools are read-only: `light_status`, `media_status`, `climate_status`, `list_scenes`,
//! `sensor_status` and `security_status`. Ten change something and return the resulting state. A call
//! with an `idempotencyKey` in its `_meta` takes effect once, however often it is repeated. No scene
//! unlocks a door or disarms the alarm, so restricting the two tools that do protects the house.
//!
//! [`serve`] speaks MCP over standard input and output or streamable HTTP. Several processes may share
//! one file.

mod change;
mod climate;
mod error;
mod light;
mod media;
mod name;
mod scene;
mod schema;
mod security;
mod seed;
mod sensor;
mod server;
mod store;
mod tools;

use std::net::SocketAddr;
use std::path::Path;

use convoke_serving::Sources;

pub use climate::{Climate, MAX_CELSIUS, MIN_CELSIUS};
pub use error::{HomeError, Refusal};
pub use light::Light;
pub use media::{DEFAULT_PLAYER, MAX_WHAT_LENGTH, Player};
pub use name::MAX_NAME_LENGTH;
pub use scene::Scene;
pub use security::{Alarm, Door, Security};
pub use sensor::Sensor;
pub use server::HomeServer;
pub use store::Store;

/// Serves over streamable HTTP at `http`, or over standard input and output without an address.
pub async fn serve(db: &Path, http: Option<SocketAddr>) -> Result<(), HomeError> {
    let server = HomeServer::new(Store::open(db, Sources::real())?);
    convoke_serving::serve(server, http).await
}
