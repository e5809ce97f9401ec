//! A requested change of the house, validated.

use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;

use crate::error::HomeError;
use crate::name::RoomChoice;
use crate::security::{self, Alarm};
use crate::{climate, light, media, scene};

/// A change of the house.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    SetLight {
        place: RoomChoice,
        on: Option<bool>,
        brightness: Option<u8>,
    },
    DimLight {
        place: RoomChoice,
        by: i8,
    },
    PlayMusic {
        place: RoomChoice,
        what: String,
    },
    StopMusic {
        place: RoomChoice,
    },
    SetVolume {
        place: Option<RoomChoice>,
        level: u8,
    },
    SetTemperature {
        place: RoomChoice,
        celsius: f64,
    },
    ActivateScene {
        scene: String,
    },
    LockDoor {
        door: String,
    },
    UnlockDoor {
        door: String,
    },
    SetAlarm {
        mode: Alarm,
    },
}

impl Change {
    /// The name of its tool.
    pub(crate) fn tool(&self) -> &'static str {
        match self {
            Self::SetLight { .. } => "set_light",
            Self::DimLight { .. } => "dim_light",
            Self::PlayMusic { .. } => "play_music",
            Self::StopMusic { .. } => "stop_music",
            Self::SetVolume { .. } => "set_volume",
            Self::SetTemperature { .. } => "set_temperature",
            Self::ActivateScene { .. } => "activate_scene",
            Self::LockDoor { .. } => "lock_door",
            Self::UnlockDoor { .. } => "unlock_door",
            Self::SetAlarm { .. } => "set_alarm",
        }
    }

    /// Applies it and returns the resulting state.
    pub(crate) fn apply(&self, connection: &Connection) -> Result<Value, HomeError> {
        match self {
            Self::SetLight {
                place,
                on,
                brightness,
            } => light::set(connection, place, *on, *brightness),
            Self::DimLight { place, by } => light::dim(connection, place, *by),
            Self::PlayMusic { place, what } => media::play(connection, place, what),
            Self::StopMusic { place } => media::stop(connection, place),
            Self::SetVolume { place, level } => {
                media::set_volume(connection, place.as_ref(), *level)
            }
            Self::SetTemperature { place, celsius } => climate::set(connection, place, *celsius),
            Self::ActivateScene { scene } => scene::activate(connection, scene),
            Self::LockDoor { door } => security::lock(connection, door),
            Self::UnlockDoor { door } => security::unlock(connection, door),
            Self::SetAlarm { mode } => security::set_alarm(connection, *mode),
        }
    }
}
