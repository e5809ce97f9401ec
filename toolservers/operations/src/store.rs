//! The folder: database, logs and reports.

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

/// File name of the database.
pub const DATABASE: &str = "operations.db";

/// Subfolder with a log for each service.
pub const LOGS: &str = "logs";

/// Subfolder for files of other programs.
pub const REPORTS: &str = "reports";

/// There are no users; all clients share the idempotency keys.
const OWNER: &str = "everybody";

/// One connection to the folder's database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    sources: Sources,
    folder: PathBuf,
}

impl Store {
    /// Opens the folder. A new folder is created and filled.
    pub fn open(folder: &Path, sources: Sources) -> Result<Self, OperationsError> {
        for inner in [LOGS, REPORTS] {
            let path = folder.join(inner);
            fs::create_dir_all(&path).map_err(|source| Failure::Folder { path, source })?;
        }
        let mut connection = convoke_serving::open(&folder.join(DATABASE), MIGRATIONS, sources)?;
        seed::fill_if_new(
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

    /// The folder's path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names of all services.
    pub fn services(&self) -> Result<Vec<String>, OperationsError> {
        service::names(&self.connection)
    }

    pub fn status(&self, service: &str) -> Result<Status, OperationsError> {
        service::status(&self.connection, service, self.now())
    }

    /// Deployments in the time window, newest first.
    pub fn deployments(
        &self,
        service: &str,
        minutes: u32,
    ) -> Result<Vec<Deployment>, OperationsError> {
        service::deployments(&self.connection, service, minutes, self.now())
    }

    /// The change made with this key.
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

    /// Makes a change, or returns the stored answer of an earlier call with the same key.
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
