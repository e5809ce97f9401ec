//! The lights: one in each room.

use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{HomeError, Refusal};
use crate::name::{RoomChoice, require};

const TABLE: &str = "lights";

/// The light of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Light {
    pub room: String,
    pub on: bool,
    /// Brightness from 1 to 100, kept while the light is off.
    pub brightness: u8,
}

/// The lights of a place, by room.
pub(crate) fn list(connection: &Connection, place: &RoomChoice) -> Result<Vec<Light>, HomeError> {
    if let Some(room) = place.room() {
        require(connection, room, TABLE, "light")?;
    }
    let mut statement = connection.prepare_cached(
        "SELECT room, is_on, brightness FROM lights JOIN rooms ON rooms.name = room
         WHERE ?1 IS NULL OR room = ?1 ORDER BY position",
    )?;
    let lights = statement.query_map([place.room()], |row| {
        Ok(Light {
            room: row.get(0)?,
            on: row.get(1)?,
            brightness: row.get(2)?,
        })
    })?;
    Ok(lights.collect::<Result<_, _>>()?)
}

/// Turns the lights of a place on or off, sets their brightness, or both. A brightness turns a light on,
/// except 0, which turns it off.
pub(crate) fn set(
    connection: &Connection,
    place: &RoomChoice,
    on: Option<bool>,
    brightness: Option<u8>,
) -> Result<Value, HomeError> {
    let on = match (on, brightness) {
        (None, None) => return Err(Refusal::NothingToSet.into()),
        (Some(true), Some(0)) => return Err(Refusal::DarkLight.into()),
        (Some(on), _) => on,
        (None, Some(brightness)) => brightness > 0,
    };
    for light in list(connection, place)? {
        let brightness = match brightness {
            None | Some(0) => light.brightness,
            Some(brightness) => brightness,
        };
        write(connection, &light.room, on, brightness)?;
    }
    result(connection, place)
}

/// Changes the brightness of a place's lights by this step. A light that is off counts as 0, and 0 turns
/// it off.
pub(crate) fn dim(connection: &Connection, place: &RoomChoice, by: i8) -> Result<Value, HomeError> {
    for light in list(connection, place)? {
        let level = if light.on { light.brightness } else { 0 };
        let level = level.saturating_add_signed(by).min(100);
        let brightness = if level == 0 { light.brightness } else { level };
        write(connection, &light.room, level > 0, brightness)?;
    }
    result(connection, place)
}

fn write(
    connection: &Connection,
    room: &str,
    on: bool,
    brightness: u8,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("UPDATE lights SET is_on = ?2, brightness = ?3 WHERE room = ?1")?
        .execute(params![room, on, brightness])?;
    Ok(())
}

/// The lights of a place, as a tool's result: whether any is on, the highest brightness, and each light.
pub(crate) fn result(connection: &Connection, place: &RoomChoice) -> Result<Value, HomeError> {
    let lights = list(connection, place)?;
    let lit = || lights.iter().filter(|light| light.on);
    let brightness = lit().map(|light| light.brightness).max().unwrap_or(0);
    Ok(json!({
        "room": place.name(),
        "on": lit().next().is_some(),
        "brightness": brightness,
        "lights": lights,
    }))
}
