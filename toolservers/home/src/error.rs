//! Errors: a refused call, or a failure of the server.

use convoke_serving::{CallProblem, Failure, Refuse};

use crate::climate::{MAX_CELSIUS, MIN_CELSIUS};
use crate::media::MAX_WHAT_LENGTH;
use crate::name::MAX_NAME_LENGTH;

/// A refused call, which changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such room.
    #[error("There is no room {requested}. There are: {known}.")]
    RoomNotFound {
        /// The requested name.
        requested: String,
        /// The existing rooms.
        known: String,
    },
    /// The room has no such device.
    #[error("There is no {device} in the {room}. There is one in: {known}.")]
    DeviceNotFound {
        /// The device, as people call it.
        device: &'static str,
        /// The requested room.
        room: String,
        /// The rooms with this device.
        known: String,
    },
    /// There is no such scene.
    #[error("There is no scene {requested}. There are: {known}.")]
    SceneNotFound {
        /// The requested name.
        requested: String,
        /// The existing scenes.
        known: String,
    },
    /// There is no such door.
    #[error("There is no door {requested}. There are: {known}.")]
    DoorNotFound {
        /// The requested name.
        requested: String,
        /// The existing doors.
        known: String,
    },
    /// The alarm has no such mode.
    #[error("The alarm has no mode {requested}. There are: {known}.")]
    ModeNotFound {
        /// The requested mode.
        requested: String,
        /// The existing modes.
        known: String,
    },
    /// A name is empty or too long.
    #[error("Rooms, scenes, doors and modes must have 1 to {MAX_NAME_LENGTH} characters.")]
    Name,
    /// Neither state nor brightness was given.
    #[error("Say whether the light is to be on, how bright, or both.")]
    NothingToSet,
    /// A light that is on needs a brightness.
    #[error("A light that is on has a brightness of 1 to 100.")]
    DarkLight,
    /// The brightness or volume is out of range.
    #[error("The {0} must be a whole number from 0 to 100.")]
    Level(&'static str),
    /// The step is out of range.
    #[error("The step must be a whole number from -100 to 100.")]
    Step,
    /// The temperature is out of the heating's range.
    #[error("The temperature must be from {MIN_CELSIUS} to {MAX_CELSIUS} degrees Celsius.")]
    Celsius,
    /// The name of the music is empty or too long.
    #[error("What is to be played must have 1 to {MAX_WHAT_LENGTH} characters.")]
    What,
    /// The arguments or the idempotency key are invalid.
    #[error(transparent)]
    Call(#[from] CallProblem),
}

impl Refuse for Refusal {
    const SERVER: &'static str = "home";

    fn code(&self) -> &'static str {
        match self {
            Self::RoomNotFound { .. } => "home.room_not_found",
            Self::DeviceNotFound { .. } => "home.device_not_found",
            Self::SceneNotFound { .. } => "home.scene_not_found",
            Self::DoorNotFound { .. } => "home.door_not_found",
            Self::ModeNotFound { .. } => "home.mode_not_found",
            Self::Name => "home.name",
            Self::NothingToSet => "home.nothing_to_set",
            Self::DarkLight => "home.dark_light",
            Self::Level(_) => "home.level",
            Self::Step => "home.step",
            Self::Celsius => "home.celsius",
            Self::What => "home.what",
            Self::Call(CallProblem::Arguments(_)) => "home.arguments",
            Self::Call(CallProblem::Key) => "home.idempotency_key",
            Self::Call(CallProblem::KeyReused) => "home.idempotency_key_reused",
        }
    }
}

/// Why the server or a call failed.
pub type HomeError = Failure<Refusal>;
