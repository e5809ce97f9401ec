//! The sensors of each room.

use rusqlite::Connection;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::HomeError;
use crate::name::{RoomChoice, require};

const TABLE: &str = "sensors";

/// The measurements of a room.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensor {
    pub room: String,
    /// Degrees Celsius.
    pub temperature: f64,
    /// Percent.
    pub humidity: u8,
    /// Whether motion is detected.
    pub motion: bool,
    pub window_open: bool,
}

/// The measurements of a place, by room.
pub(crate) fn list(connection: &Connection, place: &RoomChoice) -> Result<Vec<Sensor>, HomeError> {
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

/// The measurements of a place, as a tool's result.
pub(crate) fn result(connection: &Connection, place: &RoomChoice) -> Result<Value, HomeError> {
    Ok(json!({"room": place.name(), "sensors": list(connection, place)?}))
}
