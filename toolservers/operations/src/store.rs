//! The folder: a database, the logs of the services, and a place for reports.

use std::fs;
use std::path::{Path, PathBuf};

use convoke_serving::{Answer, CallProblem, Failure, Keyed, MAX_KEY_LENGTH, Sources, change_once};
use rusqlite::Connection;
use serde_json::json;

use crate::change::{self, Action, Change};
use crate::error::OperationsError;
use crate::moment::Moment;
use crate::schema::MIGRATIONS;
use crate::seed;
use crate::service::{self, Deployment, Status};

/// The database's file in the folder.
pub const DATABASE: &str = "operations.db";

/// The folder's folder with a log for each service.
pub const LOGS: &str = "logs";

/// The folder's folder for what others write.
pub const REPORTS: &str = "reports";

/// There are no users here: whoever is on call shares the keys with everybody who is.
const OWNER: &str = "everybody";

/// One connection to the folder's database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    sources: Sources,
    folder: PathBuf,
}

impl Store {
    /// Opens the folder. If it is new, it is made and filled.
    pub fn open(folder: &Path, sources: Sources) -> Result<Self, OperationsError> {
        for inner in [LOGS, REPORTS] {
            let path = folder.join(inner);
            fs::create_dir_all(&path).map_err(|source| Failure::Folder { path, source })?;
        }
        let mut connection = convoke_serving::open(&folder.join(DATABASE), MIGRATIONS, sources)?;
        seed::once(
            &mut connection,
            &folder.join(LOGS),
            Moment::new((sources.now)()),
        )?;
        Ok(Self {
            connection,
            sources,
            folder: folder.to_owned(),
        })
    }

    /// Where the folder is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every service, by name.
    pub fn services(&self) -> Result<Vec<String>, OperationsError> {
        service::names(&self.connection)
    }

    /// How a service is.
    pub fn status(&self, service: &str) -> Result<Status, OperationsError> {
        service::status(&self.connection, service, self.now())
    }

    /// What was deployed in the last so many minutes, newest first.
    pub fn deployments(
        &self,
        service: &str,
        minutes: u32,
    ) -> Result<Vec<Deployment>, OperationsError> {
        service::deployments(&self.connection, service, minutes, self.now())
    }

    /// The change that was made under this key.
    pub fn find_change(&self, key: &str) -> Result<Option<Change>, OperationsError> {
        if !(1..=MAX_KEY_LENGTH).contains(&key.chars().count()) {
            return Err(CallProblem::Key.into());
        }
        change::find(&self.connection, key)
    }

    /// The changes of one service or of all, oldest first.
    pub fn changes(&self, service: Option<&str>) -> Result<Vec<Change>, OperationsError> {
        if let Some(service) = service {
            self.status(service)?;
        }
        change::list(&self.connection, service)
    }

    /// Does what is asked for, or gives the answer that it got when it was done before under this
    /// key.
    pub(crate) fn act(
        &mut self,
        action: &Action,
        key: Option<&str>,
    ) -> Result<Answer, OperationsError> {
        let keyed = key
            .map(|key| Keyed::new(OWNER, key, action.tool(), &json!(action)))
            .transpose()?;
        let sources = self.sources;
        change_once(
            &mut self.connection,
            sources,
            keyed.as_ref(),
            |connection| change::apply(connection, action, key, Moment::new((sources.now)())),
        )
    }

    fn now(&self) -> Moment {
        Moment::new((self.sources.now)())
    }
}

#[cfg(test)]
mod tests;
