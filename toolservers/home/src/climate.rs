//! The heating: one thermostat in every room except the garage.

use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{HomeError, Refusal};
use crate::name::{RoomChoice, require};

/// Minimum of the target temperature.
pub const MIN_CELSIUS: f64 = 5.0;

/// Maximum of the target temperature.
pub const MAX_CELSIUS: f64 = 30.0;

const TABLE: &str = "climates";

/// The heating of a room.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Climate {
    pub room: String,
    /// Target temperature in degrees Celsius.
    pub target: f64,
    /// Measured temperature in degrees Celsius.
    pub current: f64,
}

/// The heating of a place, by room.
pub(crate) fn list(connection: &Connection, place: &RoomChoice) -> Result<Vec<Climate>, HomeError> {
    if let Some(room) = place.room() {
        require(connection, room, TABLE, "heating")?;
    }
    let mut statement = connection.prepare_cached(
        "SELECT climates.room, target, temperature FROM climates
         JOIN rooms ON rooms.name = climates.room
         JOIN sensors ON sensors.room = climates.room
         WHERE ?1 IS NULL OR climates.room = ?1 ORDER BY position",
    )?;
    let climates = statement.query_map([place.room()], |row| {
        Ok(Climate {
            room: row.get(0)?,
            target: row.get(1)?,
            current: row.get(2)?,
        })
    })?;
    Ok(climates.collect::<Result<_, _>>()?)
}

/// Sets the target temperature of a place.
pub(crate) fn set(
    connection: &Connection,
    place: &RoomChoice,
    celsius: f64,
) -> Result<Value, HomeError> {
    let celsius = (celsius * 10.0).round() / 10.0;
    if !(MIN_CELSIUS..=MAX_CELSIUS).contains(&celsius) {
        return Err(Refusal::Celsius.into());
    }
    for climate in list(connection, place)? {
        connection
            .prepare_cached("UPDATE climates SET target = ?2 WHERE room = ?1")?
            .execute(params![climate.room, celsius])?;
    }
    let mut result = result(connection, place)?;
    result["celsius"] = json!(celsius);
    Ok(result)
}

/// The heating of a place, as a tool's result.
pub(crate) fn result(connection: &Connection, place: &RoomChoice) -> Result<Value, HomeError> {
    Ok(json!({"room": place.name(), "climates": list(connection, place)?}))
}
