//! The music: players in some of the rooms.

use rusqlite::{Connection, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{HomeError, Refusal};
use crate::name::{Place, require};

/// Where music plays if nobody says where.
pub const DEFAULT_PLAYER: &str = "living room";

/// The longest name of what is played, in characters.
pub const MAX_WHAT_LENGTH: usize = 200;

const TABLE: &str = "players";

/// What a player does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Player {
    /// Where it is.
    pub room: String,
    /// What it plays, if it plays.
    pub playing: Option<String>,
    /// How loud, from 0 to 100.
    pub volume: u8,
}

/// The players of a place, in the order of the house.
pub(crate) fn list(connection: &Connection, place: &Place) -> Result<Vec<Player>, HomeError> {
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

/// Plays something in place of what plays there now.
pub(crate) fn play(connection: &Connection, place: &Place, what: &str) -> Result<Value, HomeError> {
    for player in list(connection, place)? {
        write_playing(connection, &player.room, Some(what))?;
    }
    let players = list(connection, place)?;
    Ok(json!({"room": place.name(), "playing": what, "players": players}))
}

/// Stops what plays in a place, and tells where something did.
pub(crate) fn stop(connection: &Connection, place: &Place) -> Result<Value, HomeError> {
    let mut stopped = list(connection, place)?;
    stopped.retain(|player| player.playing.is_some());
    for player in &stopped {
        write_playing(connection, &player.room, None)?;
    }
    Ok(json!({"room": place.name(), "stopped": stopped}))
}

/// Sets how loud it is in a place; where none is named, wherever something plays, or where music
/// plays by default.
pub(crate) fn set_volume(
    connection: &Connection,
    place: Option<&Place>,
    level: u8,
) -> Result<Value, HomeError> {
    let mut players = list(connection, place.unwrap_or(&Place::Everywhere))?;
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

/// What is to be played, as it is kept: trimmed, and neither empty nor too long.
pub(crate) fn what(text: &str) -> Result<String, Refusal> {
    let what = text.trim();
    if (1..=MAX_WHAT_LENGTH).contains(&what.chars().count()) {
        Ok(what.to_owned())
    } else {
        Err(Refusal::What)
    }
}
