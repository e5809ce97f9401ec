//! Scenes, which set several devices at once. None unlocks a door or disarms the alarm.

use rusqlite::Connection;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{HomeError, Refusal};
use crate::name::RoomChoice;
use crate::security::{self, Alarm};
use crate::{climate, light, media};

/// A scene.
#[derive(Debug, Clone, Serialize)]
pub struct Scene {
    pub name: &'static str,
    pub description: &'static str,
    #[serde(skip)]
    steps: &'static [Step],
}

/// One step of a scene.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The light of a room at this brightness; 0 is off.
    Light(&'static str, u8),
    /// Turns all lights off.
    Dark,
    /// The target temperature of a room.
    Heat(&'static str, f64),
    /// The target temperature of all rooms.
    HeatAll(f64),
    /// What to play in a room, and its volume.
    Play(&'static str, &'static str, u8),
    /// Stops all music.
    Silence,
    /// Locks all doors.
    Lock,
    /// Sets the alarm.
    Watch(Alarm),
}

/// All scenes, in display order.
pub(crate) const ALL: &[Scene] = &[
    Scene {
        name: "movie night",
        description: "Dims the living room to 15 %, darkens the kitchen and the hallway, stops the music and heats the living room to 21.5 °C.",
        steps: &[
            Step::Light("living room", 15),
            Step::Light("kitchen", 0),
            Step::Light("hallway", 0),
            Step::Silence,
            Step::Heat("living room", 21.5),
        ],
    },
    Scene {
        name: "good night",
        description: "Turns all lights and music off, lowers the heating to 17 °C, locks the doors and arms the alarm for the night.",
        steps: &[
            Step::Dark,
            Step::Silence,
            Step::HeatAll(17.0),
            Step::Lock,
            Step::Watch(Alarm::Home),
        ],
    },
    Scene {
        name: "good morning",
        description: "Lights the bedroom, the bathroom and the kitchen, heats to 21 °C and plays the morning news in the kitchen.",
        steps: &[
            Step::Light("bedroom", 40),
            Step::Light("bathroom", 80),
            Step::Light("kitchen", 100),
            Step::HeatAll(21.0),
            Step::Play("kitchen", "morning news", 25),
        ],
    },
    Scene {
        name: "dinner",
        description: "Lights the kitchen and softly the living room, and plays dinner jazz in the kitchen.",
        steps: &[
            Step::Light("kitchen", 70),
            Step::Light("living room", 40),
            Step::Play("kitchen", "dinner jazz", 20),
        ],
    },
    Scene {
        name: "away",
        description: "Turns all lights and music off, lowers the heating to 15 °C, locks the doors and arms the alarm.",
        steps: &[
            Step::Dark,
            Step::Silence,
            Step::HeatAll(15.0),
            Step::Lock,
            Step::Watch(Alarm::Away),
        ],
    },
];

/// The scene with this name.
pub(crate) fn find(requested: &str) -> Result<&'static Scene, Refusal> {
    let names = || ALL.iter().map(|scene| scene.name);
    ALL.iter()
        .find(|scene| scene.name == requested)
        .ok_or_else(|| Refusal::SceneNotFound {
            requested: requested.to_owned(),
            known: names().collect::<Vec<_>>().join(", "),
        })
}

/// Runs all steps of a scene, or none.
pub(crate) fn activate(connection: &Connection, requested: &str) -> Result<Value, HomeError> {
    let scene = find(requested)?;
    for step in scene.steps {
        step.run(connection)?;
    }
    Ok(json!({
        "scene": scene.name,
        "description": scene.description,
        "steps": scene.steps.len(),
    }))
}

impl Step {
    fn run(self, connection: &Connection) -> Result<(), HomeError> {
        match self {
            Self::Light(room, level) => light::set(connection, &one(room), None, Some(level)),
            Self::Dark => light::set(connection, &RoomChoice::Everywhere, Some(false), None),
            Self::Heat(room, celsius) => climate::set(connection, &one(room), celsius),
            Self::HeatAll(celsius) => climate::set(connection, &RoomChoice::Everywhere, celsius),
            Self::Play(room, what, volume) => {
                media::set_volume(connection, Some(&one(room)), volume)?;
                media::play(connection, &one(room), what)
            }
            Self::Silence => media::stop(connection, &RoomChoice::Everywhere),
            Self::Lock => security::lock(connection, crate::name::ALL),
            Self::Watch(mode) => security::set_alarm(connection, mode),
        }
        .map(drop)
    }
}

fn one(room: &str) -> RoomChoice {
    RoomChoice::Room(room.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_scene_disarms_the_alarm() {
        for scene in ALL {
            let disarms = |step: &Step| matches!(step, Step::Watch(Alarm::Off));
            assert!(!scene.steps.iter().any(disarms), "{}", scene.name);
        }
    }
}
