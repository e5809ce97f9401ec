//! Names of rooms, scenes and doors, as spoken and as stored.

use rusqlite::Connection;
use serde::Serialize;

use crate::error::{HomeError, Refusal};

/// Limit of a name, in characters.
pub const MAX_NAME_LENGTH: usize = 100;

/// Stands for every room or every door.
pub(crate) const ALL: &str = "all";

/// Words before a name that are not part of it: "in the kitchen".
const LEADING: &[&str] = &["a", "at", "in", "my", "on", "our", "the", "to"];

/// The rooms a call applies to: one room, or all with the device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub(crate) enum RoomChoice {
    Everywhere,
    Room(String),
}

impl RoomChoice {
    /// Parses a spoken place.
    pub(crate) fn read(text: &str) -> Result<Self, Refusal> {
        let name = name(text)?;
        Ok(match name.as_str() {
            ALL | "all rooms" | "everywhere" | "every room" => Self::Everywhere,
            _ => Self::Room(name),
        })
    }

    /// Parses an optional place; the default is everywhere.
    pub(crate) fn read_or_everywhere(text: Option<&str>) -> Result<Self, Refusal> {
        text.map_or(Ok(Self::Everywhere), Self::read)
    }

    /// The place's name in results.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Everywhere => ALL,
            Self::Room(room) => room,
        }
    }

    /// The room, or `None` for everywhere, as a query parameter.
    pub(crate) fn room(&self) -> Option<&str> {
        match self {
            Self::Everywhere => None,
            Self::Room(room) => Some(room),
        }
    }
}

impl From<RoomChoice> for String {
    fn from(place: RoomChoice) -> Self {
        place.name().to_owned()
    }
}

/// Normalises a name: lower case, single spaces, without leading articles and prepositions; not empty,
/// not too long.
pub(crate) fn name(text: &str) -> Result<String, Refusal> {
    if text.chars().count() > MAX_NAME_LENGTH {
        return Err(Refusal::Name);
    }
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let first = words
        .iter()
        .position(|word| !LEADING.contains(word))
        .ok_or(Refusal::Name)?;
    Ok(words[first..].join(" "))
}

/// Checks that a room has a device, and lists the rooms that do if it has not.
pub(crate) fn require(
    connection: &Connection,
    room: &str,
    table: &str,
    device: &'static str,
) -> Result<(), HomeError> {
    let rooms = rooms(connection)?;
    if !rooms.iter().any(|known| known == room) {
        return Err(Refusal::RoomNotFound {
            requested: room.to_owned(),
            known: rooms.join(", "),
        }
        .into());
    }
    let having = rooms_with(connection, table)?;
    if !having.iter().any(|known| known == room) {
        return Err(Refusal::DeviceNotFound {
            device,
            room: room.to_owned(),
            known: having.join(", "),
        }
        .into());
    }
    Ok(())
}

/// All rooms, in the order of the house.
fn rooms(connection: &Connection) -> Result<Vec<String>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT name FROM rooms ORDER BY position")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// The rooms with a device. `table` is a constant of this crate, never user input.
fn rooms_with(connection: &Connection, table: &str) -> Result<Vec<String>, rusqlite::Error> {
    connection
        .prepare_cached(&format!(
            "SELECT name FROM rooms JOIN {table} ON {table}.room = rooms.name ORDER BY position"
        ))?
        .query_map([], |row| row.get(0))?
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spoken_name_is_normalised() {
        for said in ["Living Room", " in the living_room. ", "the LIVING-ROOM"] {
            assert_eq!(name(said).unwrap(), "living room", "{said}");
        }
        for wrong in ["", " ", "in the", "?!", &"a".repeat(MAX_NAME_LENGTH + 1)] {
            assert_eq!(name(wrong), Err(Refusal::Name), "{wrong:?}");
        }
    }

    #[test]
    fn everywhere_has_several_spellings() {
        for said in ["all", "Everywhere", "in all rooms"] {
            assert_eq!(
                RoomChoice::read(said).unwrap(),
                RoomChoice::Everywhere,
                "{said}"
            );
        }
        assert_eq!(
            RoomChoice::read_or_everywhere(None).unwrap(),
            RoomChoice::Everywhere
        );
        let hallway = RoomChoice::read("hallway").unwrap();
        assert_eq!(hallway.room(), Some("hallway"));
    }
}
