//! Security of the house: doors and alarm.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{HomeError, Refusal};
use crate::name::{ALL, RoomChoice, name};
use crate::sensor;

/// What the alarm monitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Alarm {
    /// Nothing.
    Off,
    /// Doors and windows, while people are at home.
    Home,
    /// Everything, while nobody is at home.
    Away,
}

impl Alarm {
    const ALL: [Self; 3] = [Self::Off, Self::Home, Self::Away];

    /// Parses a spoken mode.
    pub(crate) fn read(text: &str) -> Result<Self, Refusal> {
        let requested = name(text)?;
        Self::named(&requested).ok_or(Refusal::ModeNotFound {
            requested,
            known: Self::ALL.map(Self::name).join(", "),
        })
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Home => "home",
            Self::Away => "away",
        }
    }
}

impl ToSql for Alarm {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.name().into())
    }
}

impl FromSql for Alarm {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::named(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

/// A door.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Door {
    pub door: String,
    pub locked: bool,
}

/// The security state of the house.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Security {
    pub alarm: Alarm,
    pub doors: Vec<Door>,
    pub unlocked: Vec<String>,
    /// Rooms with an open window.
    pub open_windows: Vec<String>,
    /// Rooms with motion.
    pub motion: Vec<String>,
}

/// The security state of the house.
pub(crate) fn status(connection: &Connection) -> Result<Security, HomeError> {
    let doors = doors(connection)?;
    let sensors = sensor::list(connection, &RoomChoice::Everywhere)?;
    let rooms = |holds: fn(&sensor::Sensor) -> bool| {
        let found = sensors.iter().filter(|sensor| holds(sensor));
        found.map(|sensor| sensor.room.clone()).collect()
    };
    Ok(Security {
        alarm: alarm(connection)?,
        unlocked: unlocked(&doors),
        open_windows: rooms(|sensor| sensor.window_open),
        motion: rooms(|sensor| sensor.motion),
        doors,
    })
}

/// Locks one door or all of them, and returns those that were unlocked.
pub(crate) fn lock(connection: &Connection, requested: &str) -> Result<Value, HomeError> {
    let all = doors(connection)?;
    let (door, mut changed) = if requested == ALL {
        (ALL.to_owned(), all)
    } else {
        let door = find(&all, requested)?;
        (door.door.clone(), vec![door.clone()])
    };
    changed.retain(|door| !door.locked);
    for door in &changed {
        write(connection, &door.door, true)?;
    }
    Ok(json!({"door": door, "locked": true, "changed": names(&changed)}))
}

/// Unlocks one door. All doors cannot be unlocked at once.
pub(crate) fn unlock(connection: &Connection, requested: &str) -> Result<Value, HomeError> {
    let all = doors(connection)?;
    let door = find(&all, requested)?;
    write(connection, &door.door, false)?;
    let changed: Vec<&str> = door
        .locked
        .then_some(door.door.as_str())
        .into_iter()
        .collect();
    Ok(json!({"door": door.door, "locked": false, "changed": changed}))
}

/// Sets the alarm, and returns the doors that are unlocked.
pub(crate) fn set_alarm(connection: &Connection, mode: Alarm) -> Result<Value, HomeError> {
    let was = alarm(connection)?;
    connection
        .prepare_cached("UPDATE alarm SET mode = ?1")?
        .execute([mode])?;
    let unlocked = unlocked(&doors(connection)?);
    Ok(json!({"mode": mode, "was": was, "unlocked": unlocked}))
}

fn alarm(connection: &Connection) -> Result<Alarm, rusqlite::Error> {
    connection
        .prepare_cached("SELECT mode FROM alarm")?
        .query_row([], |row| row.get(0))
}

fn doors(connection: &Connection) -> Result<Vec<Door>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT name, locked FROM doors ORDER BY position")?
        .query_map([], |row| {
            Ok(Door {
                door: row.get(0)?,
                locked: row.get(1)?,
            })
        })?
        .collect()
}

/// Finds a door by its name, with or without the word "door".
fn find<'a>(doors: &'a [Door], requested: &str) -> Result<&'a Door, Refusal> {
    let named =
        |door: &&Door| door.door == requested || door.door.strip_suffix(" door") == Some(requested);
    doors
        .iter()
        .find(named)
        .ok_or_else(|| Refusal::DoorNotFound {
            requested: requested.to_owned(),
            known: names(doors).join(", "),
        })
}

fn write(connection: &Connection, door: &str, locked: bool) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("UPDATE doors SET locked = ?2 WHERE name = ?1")?
        .execute(params![door, locked])?;
    Ok(())
}

fn unlocked(doors: &[Door]) -> Vec<String> {
    let open = doors.iter().filter(|door| !door.locked);
    open.map(|door| door.door.clone()).collect()
}

fn names(doors: &[Door]) -> Vec<&str> {
    doors.iter().map(|door| door.door.as_str()).collect()
}
