//! What can go wrong: a call that is refused, and a server that cannot run.

use convoke_serving::{CallProblem, Failure, Refuse};

use crate::climate::{MAX_CELSIUS, MIN_CELSIUS};
use crate::media::MAX_WHAT_LENGTH;
use crate::name::MAX_NAME_LENGTH;

/// A call that was turned down and changed nothing. People read the sentence, programs the code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such room.
    #[error("There is no room {asked}. There are: {known}.")]
    RoomNotFound {
        /// What was asked for.
        asked: String,
        /// The rooms there are.
        known: String,
    },
    /// The room is there, but not the device.
    #[error("There is no {device} in the {room}. There is one in: {known}.")]
    DeviceNotFound {
        /// The device, as people call it.
        device: &'static str,
        /// The room that lacks it.
        room: String,
        /// The rooms that have it.
        known: String,
    },
    /// There is no such scene.
    #[error("There is no scene {asked}. There are: {known}.")]
    SceneNotFound {
        /// What was asked for.
        asked: String,
        /// The scenes there are.
        known: String,
    },
    /// There is no such door.
    #[error("There is no door {asked}. There are: {known}.")]
    DoorNotFound {
        /// What was asked for.
        asked: String,
        /// The doors there are.
        known: String,
    },
    /// The alarm has no such mode.
    #[error("The alarm has no mode {asked}. There are: {known}.")]
    ModeNotFound {
        /// What was asked for.
        asked: String,
        /// The modes there are.
        known: String,
    },
    /// A name is empty or too long.
    #[error("Rooms, scenes, doors and modes must have 1 to {MAX_NAME_LENGTH} characters.")]
    Name,
    /// Nothing was said that could be set.
    #[error("Say whether the light is to be on, how bright, or both.")]
    NothingToSet,
    /// A light cannot be on and have no brightness.
    #[error("A light that is on has a brightness of 1 to 100.")]
    DarkLight,
    /// The brightness or volume is beyond what there is.
    #[error("The {0} must be a whole number from 0 to 100.")]
    Level(&'static str),
    /// The step is beyond what there is.
    #[error("The step must be a whole number from -100 to 100.")]
    Step,
    /// The temperature is beyond what the heating can do.
    #[error("The temperature must be from {MIN_CELSIUS} to {MAX_CELSIUS} degrees Celsius.")]
    Celsius,
    /// What is to be played is empty or too long.
    #[error("What is to be played must have 1 to {MAX_WHAT_LENGTH} characters.")]
    What,
    /// The arguments or the idempotency key are wrong.
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

/// Why the server, or one call of it, broke down.
pub type HomeError = Failure<Refusal>;
