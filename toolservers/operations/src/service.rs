//! Services, their status and their deployments.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use crate::error::{OperationsError, Refusal};
use crate::moment::Moment;

/// Limit of a service's name and of a version, in characters.
pub const MAX_NAME_LENGTH: usize = 100;

/// Default time window for deployments, in minutes.
pub const DEFAULT_WINDOW_MINUTES: u32 = 120;

/// Limit of the time window for deployments, in minutes: a year.
pub const MAX_WINDOW_MINUTES: u32 = 365 * 24 * 60;

/// Limit of listed deployments, so that a list fits into a message.
pub const MAX_LISTED_DEPLOYMENTS: u32 = 100;

/// The state of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It answers normally.
    Healthy,
    /// It answers too slowly, or with too many errors.
    Degraded,
    /// It does not answer.
    Down,
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "healthy" => Ok(Self::Healthy),
            "degraded" => Ok(Self::Degraded),
            "down" => Ok(Self::Down),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// The status of a service.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    pub service: String,
    pub state: State,
    /// The running version.
    pub version: String,
    /// Number of processes.
    pub replicas: u32,
    /// Fraction of failed requests, from 0 to 1.
    pub error_rate: f64,
    /// The 95th percentile of response times.
    pub p95_ms: u32,
    /// Start of the current state.
    pub since: Moment,
    /// Minutes since then.
    pub minutes: i64,
}

/// A deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deployment {
    pub id: i64,
    /// The deployed version.
    pub version: String,
    /// The version it replaced.
    pub previous: String,
    pub at: Moment,
    /// Minutes since then.
    pub minutes_ago: i64,
}

/// The names of all services.
pub(crate) fn names(connection: &Connection) -> Result<Vec<String>, OperationsError> {
    let mut statement = connection.prepare_cached("SELECT name FROM services ORDER BY name")?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

pub(crate) fn status(
    connection: &Connection,
    service: &str,
    now: Moment,
) -> Result<Status, OperationsError> {
    connection
        .prepare_cached(
            "SELECT name, state, version, replicas, error_rate, p95_ms, since_ms
             FROM statuses WHERE name = ?1",
        )?
        .query_row([service], |row| {
            let since: Moment = row.get(6)?;
            Ok(Status {
                service: row.get(0)?,
                state: row.get(1)?,
                version: row.get(2)?,
                replicas: row.get(3)?,
                error_rate: row.get(4)?,
                p95_ms: row.get(5)?,
                since,
                minutes: since.minutes_until(now),
            })
        })
        .optional()?
        .ok_or_else(|| Refusal::ServiceNotFound(service.to_owned()).into())
}

/// Deployments in the time window, newest first.
pub(crate) fn deployments(
    connection: &Connection,
    service: &str,
    minutes: u32,
    now: Moment,
) -> Result<Vec<Deployment>, OperationsError> {
    if !(1..=MAX_WINDOW_MINUTES).contains(&minutes) {
        return Err(Refusal::Window.into());
    }
    // An unknown service is an error, in contrast to one without deployments.
    status(connection, service, now)?;
    let mut statement = connection.prepare_cached(
        "SELECT id, version, previous, at_ms FROM deployments
         WHERE service = ?1 AND at_ms >= ?2 ORDER BY at_ms DESC, id DESC LIMIT ?3",
    )?;
    let since = now.before(i64::from(minutes) * 60);
    let found = statement.query_map(params![service, since, MAX_LISTED_DEPLOYMENTS], |row| {
        let at: Moment = row.get(3)?;
        Ok(Deployment {
            id: row.get(0)?,
            version: row.get(1)?,
            previous: row.get(2)?,
            at,
            minutes_ago: at.minutes_until(now),
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Whether the service has ever run this version.
pub(crate) fn was_deployed(
    connection: &Connection,
    service: &str,
    version: &str,
) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM deployments
             WHERE service = ?1 AND (version = ?2 OR previous = ?2))",
        )?
        .query_row([service, version], |row| row.get(0))
}

/// Validates a service's name or a version: trimmed, not empty, not too long.
pub(crate) fn name(text: &str) -> Result<String, Refusal> {
    let name = text.trim();
    if (1..=MAX_NAME_LENGTH).contains(&name.chars().count()) {
        Ok(name.to_owned())
    } else {
        Err(Refusal::Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_trimmed_and_counted_in_characters() {
        assert_eq!(name(" checkout\n").unwrap(), "checkout");
        assert_eq!(name(&"ü".repeat(MAX_NAME_LENGTH)).unwrap().len(), 200);
        for wrong in [
            String::new(),
            " ".to_owned(),
            "a".repeat(MAX_NAME_LENGTH + 1),
        ] {
            assert_eq!(name(&wrong), Err(Refusal::Name), "{wrong:?}");
        }
    }
}
