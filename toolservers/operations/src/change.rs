//! What is done about a service, and the record of it.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{OperationsError, Refusal};
use crate::moment::Moment;
use crate::service::{self, Deployment, Status};

/// The longest reason, in characters.
pub const MAX_REASON_LENGTH: usize = 500;

/// How many changes are listed at most, the newest of them, so that a list always fits into a
/// message.
pub const MAX_LISTED_CHANGES: u32 = 1000;

const COLUMNS: &str = "id, key, service, kind, detail, reason, at_ms";

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// All processes of a service were started anew.
    Restart,
    /// An earlier version took the place of the present one.
    RollBack,
}

impl ToSql for Kind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Restart => "restart",
            Self::RollBack => "roll_back",
        }
        .into())
    }
}

impl FromSql for Kind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "restart" => Ok(Self::Restart),
            "roll_back" => Ok(Self::RollBack),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// The record of something that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What programs call it.
    pub id: i64,
    /// The idempotency key under which it was done, if there was one.
    pub key: Option<String>,
    /// To which service.
    pub service: String,
    /// What.
    pub kind: Kind,
    /// What exactly.
    pub detail: String,
    /// Why, in the words of whoever asked for it.
    pub reason: String,
    /// When.
    pub at: Moment,
}

/// What somebody on call asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    Restart {
        service: String,
        reason: String,
    },
    RollBack {
        service: String,
        to_version: String,
        reason: String,
    },
}

impl Action {
    pub(crate) fn tool(&self) -> &'static str {
        match self {
            Self::Restart { .. } => "restart_service",
            Self::RollBack { .. } => "roll_back",
        }
    }

    fn service(&self) -> &str {
        match self {
            Self::Restart { service, .. } | Self::RollBack { service, .. } => service,
        }
    }
}

/// Does what is asked for and records it. Whether it helped is for `service_status` to tell, as it
/// is with real services.
pub(crate) fn apply(
    connection: &Connection,
    action: &Action,
    key: Option<&str>,
    now: Moment,
) -> Result<Value, OperationsError> {
    let before = service::status(connection, action.service(), now)?;
    let answer = match action {
        Action::Restart { reason, .. } => {
            let restarts = restart(connection, &before.service)?;
            let detail = format!("started {} replicas anew", before.replicas);
            let change = record(connection, key, &before, Kind::Restart, detail, reason, now)?;
            json!({"change": change, "restarts": restarts})
        }
        Action::RollBack {
            to_version, reason, ..
        } => {
            let deployment = roll_back(connection, &before, to_version, now)?;
            let detail = format!("from {} to {to_version}", before.version);
            let change = record(
                connection,
                key,
                &before,
                Kind::RollBack,
                detail,
                reason,
                now,
            )?;
            json!({"change": change, "deployment": deployment})
        }
    };
    let after = service::status(connection, &before.service, now)?;
    if after.state != before.state {
        connection
            .prepare_cached("UPDATE services SET since_ms = ?2 WHERE name = ?1")?
            .execute(params![before.service, now])?;
    }
    Ok(answer)
}

/// Returns how often the service was restarted.
fn restart(connection: &Connection, service: &str) -> Result<u32, OperationsError> {
    start_anew(connection, service)?;
    let restarts = connection
        .prepare_cached(
            "UPDATE services SET restarts = restarts + 1 WHERE name = ?1 RETURNING restarts",
        )?
        .query_row([service], |row| row.get(0))?;
    Ok(restarts)
}

fn roll_back(
    connection: &Connection,
    before: &Status,
    to_version: &str,
    now: Moment,
) -> Result<Deployment, OperationsError> {
    let service = before.service.clone();
    let version = to_version.to_owned();
    if before.version == version {
        return Err(Refusal::VersionCurrent { service, version }.into());
    }
    if !service::was_deployed(connection, &service, &version)? {
        return Err(Refusal::VersionUnknown { service, version }.into());
    }
    start_anew(connection, &service)?;
    connection
        .prepare_cached("UPDATE services SET version = ?2 WHERE name = ?1")?
        .execute([&service, &version])?;
    connection
        .prepare_cached(
            "INSERT INTO deployments (service, version, previous, at_ms) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![service, version, before.version, now])?;
    Ok(Deployment {
        id: connection.last_insert_rowid(),
        version,
        previous: before.version.clone(),
        at: now,
        minutes_ago: 0,
    })
}

/// New processes are not stuck, whichever version they run.
fn start_anew(connection: &Connection, service: &str) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("DELETE FROM faults WHERE service = ?1 AND kind = 'process'")?
        .execute([service])?;
    Ok(())
}

fn record(
    connection: &Connection,
    key: Option<&str>,
    before: &Status,
    kind: Kind,
    detail: String,
    reason: &str,
    at: Moment,
) -> Result<Change, OperationsError> {
    connection
        .prepare_cached(
            "INSERT INTO changes (key, service, kind, detail, reason, at_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![key, before.service, kind, detail, reason, at])?;
    Ok(Change {
        id: connection.last_insert_rowid(),
        key: key.map(str::to_owned),
        service: before.service.clone(),
        kind,
        detail,
        reason: reason.to_owned(),
        at,
    })
}

/// The change that was made under this key: the last one, if the key was used again after its time.
pub(crate) fn find(connection: &Connection, key: &str) -> Result<Option<Change>, OperationsError> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM changes WHERE key = ?1 ORDER BY id DESC LIMIT 1"
        ))?
        .query_row([key], change)
        .optional()?;
    Ok(found)
}

/// The changes of one service or of all, oldest first.
pub(crate) fn list(
    connection: &Connection,
    service: Option<&str>,
) -> Result<Vec<Change>, OperationsError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM
             (SELECT * FROM changes WHERE ?1 IS NULL OR service = ?1 ORDER BY id DESC LIMIT ?2)
         ORDER BY id"
    ))?;
    let changes = statement.query_map(params![service, MAX_LISTED_CHANGES], change)?;
    Ok(changes.collect::<Result<_, _>>()?)
}

fn change(row: &Row<'_>) -> Result<Change, rusqlite::Error> {
    Ok(Change {
        id: row.get(0)?,
        key: row.get(1)?,
        service: row.get(2)?,
        kind: row.get(3)?,
        detail: row.get(4)?,
        reason: row.get(5)?,
        at: row.get(6)?,
    })
}

/// A reason as it is kept: trimmed, and neither empty nor too long.
pub(crate) fn reason(text: &str) -> Result<String, Refusal> {
    let reason = text.trim();
    if (1..=MAX_REASON_LENGTH).contains(&reason.chars().count()) {
        Ok(reason.to_owned())
    } else {
        Err(Refusal::Reason)
    }
}
