//! Changes of services, and their records.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{OperationsError, Refusal};
use crate::moment::Moment;
use crate::service::{self, Deployment, Status};

/// Limit of a reason, in characters.
pub const MAX_REASON_LENGTH: usize = 500;

/// Limit of listed changes, newest first kept, so that a list fits into a message.
pub const MAX_LISTED_CHANGES: u32 = 1000;

const COLUMNS: &str = "id, key, service, kind, detail, reason, at_ms";

/// The kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// All processes of a service were restarted.
    Restart,
    /// An earlier version replaced the current one.
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

/// The record of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub id: i64,
    /// The idempotency key of the call, if it had one.
    pub key: Option<String>,
    pub service: String,
    pub kind: Kind,
    /// Details of the change.
    pub detail: String,
    /// The reason given by the caller.
    pub reason: String,
    pub at: Moment,
}

/// A requested change.
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

/// Makes the change and records it. Whether it helped is visible in `service_status`, like with real
/// services.
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

/// Returns the number of restarts of the service.
fn restart(connection: &Connection, service: &str) -> Result<u32, OperationsError> {
    clear_stuck_processes(connection, service)?;
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
    clear_stuck_processes(connection, &service)?;
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

/// New processes are not stuck, whatever their version.
fn clear_stuck_processes(connection: &Connection, service: &str) -> Result<(), rusqlite::Error> {
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

/// The change made with this key; the latest one if an expired key was used again.
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

/// Validates a reason: trimmed, not empty, not too long.
pub(crate) fn reason(text: &str) -> Result<String, Refusal> {
    let reason = text.trim();
    if (1..=MAX_REASON_LENGTH).contains(&reason.chars().count()) {
        Ok(reason.to_owned())
    } else {
        Err(Refusal::Reason)
    }
}
