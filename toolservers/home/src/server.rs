//! The MCP interface: parses arguments and returns structured results.

use convoke_serving::{Answer, Call, Outcome, Shared, ToolServer, about};
use rmcp::model::{ServerConfig, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::change::Change;
use crate::error::{HomeError, Refusal};
use crate::media::{DEFAULT_PLAYER, what};
use crate::name::{RoomChoice, name};
use crate::scene;
use crate::security::Alarm;
use crate::store::Store;
use crate::tools;

/// Serves one house to any number of clients.
#[derive(Debug, Clone)]
pub struct HomeServer {
    store: Shared<Store>,
}

impl HomeServer {
    pub fn new(store: Store) -> Self {
        Self {
            store: Shared::new(store),
        }
    }

    /// Answers a read-only call.
    fn answer_read<A: DeserializeOwned>(
        &self,
        call: &Call,
        read: impl FnOnce(&Store, A) -> Result<Value, HomeError>,
    ) -> Outcome<Refusal> {
        let arguments = call.arguments()?;
        let result = self.store.with(|store| read(store, arguments))?;
        Ok(Answer::done(result))
    }

    /// Makes the change described by the arguments.
    fn change<A: DeserializeOwned>(
        &self,
        call: &Call,
        read: impl FnOnce(A) -> Result<Change, Refusal>,
    ) -> Outcome<Refusal> {
        let change = read(call.arguments()?)?;
        let key = call.key()?;
        self.store.with(|store| store.change(&change, key))
    }
}

impl ToolServer for HomeServer {
    type Refusal = Refusal;

    fn about() -> ServerConfig {
        about(
            "convoke-home",
            env!("CARGO_PKG_VERSION"),
            "A house: lights, heating, music, scenes, doors, an alarm and sensors.",
        )
    }

    fn tools() -> Vec<Tool> {
        tools::all()
    }

    fn run(&self, tool: &str, call: &Call) -> Option<Outcome<Refusal>> {
        Some(match tool {
            "light_status" => self.answer_read(call, |store, AnyRoom { room }| {
                store.lights(&RoomChoice::read_or_everywhere(room.as_deref())?)
            }),
            "climate_status" => self.answer_read(call, |store, AnyRoom { room }| {
                store.climates(&RoomChoice::read_or_everywhere(room.as_deref())?)
            }),
            "sensor_status" => self.answer_read(call, |store, AnyRoom { room }| {
                store.sensors(&RoomChoice::read_or_everywhere(room.as_deref())?)
            }),
            "media_status" => self.answer_read(call, |store, Nothing {}| store.players()),
            "security_status" => {
                self.answer_read(call, |store, Nothing {}| Ok(json!(store.security()?)))
            }
            "list_scenes" => {
                self.answer_read(call, |_, Nothing {}| Ok(json!({"scenes": scene::ALL})))
            }
            "set_light" => self.change(call, SetLight::change),
            "dim_light" => self.change(call, DimLight::change),
            "play_music" => self.change(call, PlayMusic::change),
            "stop_music" => self.change(call, |AnyRoom { room }| {
                Ok(Change::StopMusic {
                    place: RoomChoice::read_or_everywhere(room.as_deref())?,
                })
            }),
            "set_volume" => self.change(call, SetVolume::change),
            "set_temperature" => self.change(call, SetTemperature::change),
            "activate_scene" => self.change(call, |OneScene { scene }| {
                Ok(Change::ActivateScene {
                    scene: name(&scene)?,
                })
            }),
            "lock_door" => self.change(call, |OneDoor { door }| {
                Ok(Change::LockDoor { door: name(&door)? })
            }),
            "unlock_door" => self.change(call, |OneDoor { door }| {
                Ok(Change::UnlockDoor { door: name(&door)? })
            }),
            "set_alarm" => self.change(call, |OneMode { mode }| {
                Ok(Change::SetAlarm {
                    mode: Alarm::read(&mode)?,
                })
            }),
            _ => return None,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyRoom {
    #[serde(default)]
    room: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneScene {
    scene: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneDoor {
    door: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneMode {
    mode: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetLight {
    room: String,
    #[serde(default)]
    on: Option<bool>,
    #[serde(default)]
    brightness: Option<i64>,
}

impl SetLight {
    fn change(self) -> Result<Change, Refusal> {
        let brightness = self.brightness.map(|level| percent(level, "brightness"));
        Ok(Change::SetLight {
            place: RoomChoice::read(&self.room)?,
            on: self.on,
            brightness: brightness.transpose()?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DimLight {
    room: String,
    by: i64,
}

impl DimLight {
    fn change(self) -> Result<Change, Refusal> {
        let by = i8::try_from(self.by).map_err(|_| Refusal::Step)?;
        if !(-100..=100).contains(&by) {
            return Err(Refusal::Step);
        }
        Ok(Change::DimLight {
            place: RoomChoice::read(&self.room)?,
            by,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlayMusic {
    what: String,
    #[serde(default)]
    room: Option<String>,
}

impl PlayMusic {
    fn change(self) -> Result<Change, Refusal> {
        Ok(Change::PlayMusic {
            place: RoomChoice::read(self.room.as_deref().unwrap_or(DEFAULT_PLAYER))?,
            what: what(&self.what)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetVolume {
    level: i64,
    #[serde(default)]
    room: Option<String>,
}

impl SetVolume {
    fn change(self) -> Result<Change, Refusal> {
        Ok(Change::SetVolume {
            place: self.room.as_deref().map(RoomChoice::read).transpose()?,
            level: percent(self.level, "volume")?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetTemperature {
    celsius: f64,
    #[serde(default)]
    room: Option<String>,
}

impl SetTemperature {
    fn change(self) -> Result<Change, Refusal> {
        Ok(Change::SetTemperature {
            place: RoomChoice::read_or_everywhere(self.room.as_deref())?,
            celsius: self.celsius,
        })
    }
}

/// A number outside `u8` is refused like any other that is too large.
fn percent(level: i64, of: &'static str) -> Result<u8, Refusal> {
    u8::try_from(level)
        .ok()
        .filter(|level| *level <= 100)
        .ok_or(Refusal::Level(of))
}
