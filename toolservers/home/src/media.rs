//! The music players in some of the rooms.

use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{HomeError, Refusal};
use crate::name::{RoomChoice, require};

/// The default room for music.
pub const DEFAULT_PLAYER: &str = "living room";

/// Limit of the name of what is played, in characters.
pub const MAX_WHAT_LENGTH: usize = 200;

const TABLE: &str = "players";

/// The player of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Player {
    pub room: String,
    /// What it plays; `None` if it is stopped.
    pub playing: Option<String>,
    /// Volume from 0 to 100.
    pub volume: u8,
}

/// The players of a place, by room.
pub(crate) fn list(connection: &Connection, place: &RoomChoice) -> Result<Vec<Player>, HomeError> {
    if let Some(room) = place.room() {
        require(connection, room, TABLE, "player")?;
    }
    let mut statement = connection.prepare_cached(
        "SELECT room, playing, volume FROM players JOIN rooms ON rooms.name = room
         WHERE ?1 IS NULL OR room = ?1 ORDER BY position",
    )?;
    let players = statement.query_map([place.room()], |row| {
        Ok(Player {
            room: row.get(0)?,
            playing: row.get(1)?,
            volume: row.get(2)?,
        })
    })?;
    Ok(players.collect::<Result<_, _>>()?)
}

/// Plays something, replacing what is playing.
pub(crate) fn play(
    connection: &Connection,
    place: &RoomChoice,
    what: &str,
) -> Result<Value, HomeError> {
    for player in list(connection, place)? {
        write_playing(connection, &player.room, Some(what))?;
    }
    let players = list(connection, place)?;
    Ok(json!({"room": place.name(), "playing": what, "players": players}))
}

/// Stops the players of a place, and returns those that were playing.
pub(crate) fn stop(connection: &Connection, place: &RoomChoice) -> Result<Value, HomeError> {
    let mut stopped = list(connection, place)?;
    stopped.retain(|player| player.playing.is_some());
    for player in &stopped {
        write_playing(connection, &player.room, None)?;
    }
    Ok(json!({"room": place.name(), "stopped": stopped}))
}

/// Sets the volume of a place; without a place, of all players that are playing, or of the default one.
pub(crate) fn set_volume(
    connection: &Connection,
    place: Option<&RoomChoice>,
    level: u8,
) -> Result<Value, HomeError> {
    let mut players = list(connection, place.unwrap_or(&RoomChoice::Everywhere))?;
    if place.is_none() {
        let any = players.iter().any(|player| player.playing.is_some());
        players.retain(|player| {
            if any {
                player.playing.is_some()
            } else {
                player.room == DEFAULT_PLAYER
            }
        });
    }
    for player in &mut players {
        connection
            .prepare_cached("UPDATE players SET volume = ?2 WHERE room = ?1")?
            .execute(params![player.room, level])?;
        player.volume = level;
    }
    Ok(json!({"volume": level, "players": players}))
}

fn write_playing(
    connection: &Connection,
    room: &str,
    what: Option<&str>,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("UPDATE players SET playing = ?2 WHERE room = ?1")?
        .execute(params![room, what])?;
    Ok(())
}

/// Validates the name of what to play: trimmed, not empty, not too long.
pub(crate) fn what(text: &str) -> Result<String, Refusal> {
    let what = text.trim();
    if (1..=MAX_WHAT_LENGTH).contains(&what.chars().count()) {
        Ok(what.to_owned())
    } else {
        Err(Refusal::What)
    }
}
