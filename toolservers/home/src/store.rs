//! The state of the house in one SQLite file.

use std::path::Path;

use convoke_serving::{Answer, Keyed, Sources, change_once};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::change::Change;
use crate::error::HomeError;
use crate::name::RoomChoice;
use crate::schema::MIGRATIONS;
use crate::security::Security;
use crate::{climate, light, media, security, seed, sensor};

/// The house has no users; all clients share the idempotency keys.
const OWNER: &str = "everybody";

/// One connection to the database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    sources: Sources,
}

impl Store {
    /// Opens the file. A new file is created and filled.
    pub fn open(db: &Path, sources: Sources) -> Result<Self, HomeError> {
        let mut connection = convoke_serving::open(db, MIGRATIONS, sources)?;
        seed::fill_if_new(&mut connection)?;
        Ok(Self {
            connection,
            sources,
        })
    }

    pub(crate) fn lights(&self, place: &RoomChoice) -> Result<Value, HomeError> {
        light::result(&self.connection, place)
    }

    pub(crate) fn climates(&self, place: &RoomChoice) -> Result<Value, HomeError> {
        climate::result(&self.connection, place)
    }

    pub(crate) fn players(&self) -> Result<Value, HomeError> {
        let players = media::list(&self.connection, &RoomChoice::Everywhere)?;
        Ok(json!({"players": players}))
    }

    pub(crate) fn sensors(&self, place: &RoomChoice) -> Result<Value, HomeError> {
        sensor::result(&self.connection, place)
    }

    /// The security state of the house.
    pub fn security(&self) -> Result<Security, HomeError> {
        security::status(&self.connection)
    }

    /// Makes a change, or returns the stored answer of an earlier call with the same key.
    pub(crate) fn change(
        &mut self,
        change: &Change,
        key: Option<&str>,
    ) -> Result<Answer, HomeError> {
        let keyed = key
            .map(|key| Keyed::new(OWNER, key, change.tool(), &json!(change)))
            .transpose()?;
        change_once(
            &mut self.connection,
            self.sources,
            keyed.as_ref(),
            |connection| change.apply(connection),
        )
    }
}

#[cfg(test)]
mod tests;
