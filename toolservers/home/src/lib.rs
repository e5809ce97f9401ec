//! A house as an MCP server: lights, heating, music, scenes, doors, an alarm and sensors.
//!
//! One SQLite file holds the state of every device. The first process that opens it furnishes seven
//! rooms, always in the same way. The house belongs to whoever can reach the server: there are no
//! users.
//!
//! Six tools look: `light_status`, `media_status`, `climate_status`, `list_scenes`, `sensor_status`
//! and `security_status`. Ten act, and say in what they return how things are afterwards. A call
//! that carries an `idempotencyKey` in its `_meta` takes effect once, however often it is made. No
//! scene unlocks a door or disarms the alarm, so that whoever guards those two tools guards the
//! house.
//!
//! [`serve`] speaks over standard input and output or streamable HTTP. Several processes may share
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

/// Serves over streamable HTTP at this address, or over standard input and output if there is none.
pub async fn serve(db: &Path, http: Option<SocketAddr>) -> Result<(), HomeError> {
    let server = HomeServer::new(Store::open(db, Sources::real())?);
    convoke_serving::serve(server, http).await
}
