//! The state of the house in one SQLite file.

use std::path::Path;

use convoke_serving::{Answer, Keyed, Sources, change_once};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::change::Change;
use crate::error::HomeError;
use crate::name::Place;
use crate::schema::MIGRATIONS;
use crate::security::Security;
use crate::{climate, light, media, security, seed, sensor};

/// There are no users here: everybody in the house shares the keys.
const OWNER: &str = "everybody";

/// One connection to the database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    sources: Sources,
}

impl Store {
    /// Opens the file. If it is new, it is made and the house furnished.
    pub fn open(db: &Path, sources: Sources) -> Result<Self, HomeError> {
        let mut connection = convoke_serving::open(db, MIGRATIONS, sources)?;
        seed::once(&mut connection)?;
        Ok(Self {
            connection,
            sources,
        })
    }

    /// How the lights of a place are.
    pub(crate) fn lights(&self, place: &Place) -> Result<Value, HomeError> {
        light::told(&self.connection, place)
    }

    /// How warm a place is, and is to be.
    pub(crate) fn climates(&self, place: &Place) -> Result<Value, HomeError> {
        climate::told(&self.connection, place)
    }

    /// What every player does.
    pub(crate) fn players(&self) -> Result<Value, HomeError> {
        let players = media::list(&self.connection, &Place::Everywhere)?;
        Ok(json!({"players": players}))
    }

    /// What is measured in a place.
    pub(crate) fn sensors(&self, place: &Place) -> Result<Value, HomeError> {
        sensor::told(&self.connection, place)
    }

    /// How safe the house is.
    pub fn security(&self) -> Result<Security, HomeError> {
        security::status(&self.connection)
    }

    /// Makes a change, or gives the answer that it got when it was made before under this key.
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
