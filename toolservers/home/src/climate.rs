//! The heating: one thermostat in each room but the garage.

use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{HomeError, Refusal};
use crate::name::{Place, require};

/// The lowest temperature that the heating can be set to.
pub const MIN_CELSIUS: f64 = 5.0;

/// The highest temperature that the heating can be set to.
pub const MAX_CELSIUS: f64 = 30.0;

const TABLE: &str = "climates";

/// How warm a room is, and is to be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Climate {
    /// Which room.
    pub room: String,
    /// What it is set to, in degrees Celsius.
    pub target: f64,
    /// What its sensor measures.
    pub current: f64,
}

/// The heating of a place, in the order of the house.
pub(crate) fn list(connection: &Connection, place: &Place) -> Result<Vec<Climate>, HomeError> {
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

/// Sets the heating of a place.
pub(crate) fn set(
    connection: &Connection,
    place: &Place,
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
    let mut told = told(connection, place)?;
    told["celsius"] = json!(celsius);
    Ok(told)
}

/// How warm a place is, and is to be.
pub(crate) fn told(connection: &Connection, place: &Place) -> Result<Value, HomeError> {
    Ok(json!({"room": place.name(), "climates": list(connection, place)?}))
}
