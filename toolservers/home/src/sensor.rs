//! The sensors: one set in each room.

use rusqlite::Connection;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::HomeError;
use crate::name::{Place, require};

const TABLE: &str = "sensors";

/// What is measured in a room.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensor {
    /// Which room.
    pub room: String,
    /// Degrees Celsius.
    pub temperature: f64,
    /// Percent.
    pub humidity: u8,
    /// Whether somebody moves there.
    pub motion: bool,
    /// Whether a window is open.
    pub window_open: bool,
}

/// What is measured in a place, in the order of the house.
pub(crate) fn list(connection: &Connection, place: &Place) -> Result<Vec<Sensor>, HomeError> {
    if let Some(room) = place.room() {
        require(connection, room, TABLE, "sensor")?;
    }
    let mut statement = connection.prepare_cached(
        "SELECT room, temperature, humidity, motion, window_open
         FROM sensors JOIN rooms ON rooms.name = room
         WHERE ?1 IS NULL OR room = ?1 ORDER BY position",
    )?;
    let sensors = statement.query_map([place.room()], |row| {
        Ok(Sensor {
            room: row.get(0)?,
            temperature: row.get(1)?,
            humidity: row.get(2)?,
            motion: row.get(3)?,
            window_open: row.get(4)?,
        })
    })?;
    Ok(sensors.collect::<Result<_, _>>()?)
}

/// What is measured in a place.
pub(crate) fn told(connection: &Connection, place: &Place) -> Result<Value, HomeError> {
    Ok(json!({"room": place.name(), "sensors": list(connection, place)?}))
}
