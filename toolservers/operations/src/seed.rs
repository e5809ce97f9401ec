//! The initial state of a new folder: four services, deployments, faults and logs.

use std::fs;
use std::path::Path;

use convoke_serving::Failure;
use rusqlite::{Connection, TransactionBehavior, params};

use crate::error::OperationsError;
use crate::moment::Moment;

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

/// The initial state of a service.
struct Service {
    name: &'static str,
    replicas: u32,
    /// Measurements without a fault.
    error_rate: f64,
    p95_ms: u32,
    /// Seconds since the current state began.
    since: i64,
    /// Deployments, oldest first: version, previous version, and seconds ago.
    deployments: &'static [(&'static str, &'static str, i64)],
    fault: Option<Fault>,
    /// The log, with seconds before creation instead of times.
    log: &'static str,
}

/// The fault of a service. The database schema lists the kinds.
struct Fault {
    kind: &'static str,
    version: Option<&'static str>,
    state: &'static str,
    error_rate: f64,
    p95_ms: u32,
}

const SERVICES: &[Service] = &[
    // The new release reads a column that no migration created: rolling back helps.
    Service {
        name: "checkout",
        replicas: 4,
        error_rate: 0.002,
        p95_ms: 310,
        since: 12 * MINUTE,
        deployments: &[("2.4.0", "2.3.7", 6 * DAY), ("2.4.1", "2.4.0", 14 * MINUTE)],
        fault: Some(Fault {
            kind: "release",
            version: Some("2.4.1"),
            state: "degraded",
            error_rate: 0.18,
            p95_ms: 2400,
        }),
        log: include_str!("../seed/checkout.log"),
    },
    // The warehouse it depends on does not answer: no change here helps.
    Service {
        name: "inventory",
        replicas: 2,
        error_rate: 0.004,
        p95_ms: 220,
        since: 45 * MINUTE,
        deployments: &[("1.19.2", "1.19.1", 3 * DAY)],
        fault: Some(Fault {
            kind: "dependency",
            version: None,
            state: "degraded",
            error_rate: 0.07,
            p95_ms: 3100,
        }),
        log: include_str!("../seed/inventory.log"),
    },
    Service {
        name: "payments",
        replicas: 4,
        error_rate: 0.001,
        p95_ms: 280,
        since: 5 * DAY,
        deployments: &[("3.8.0", "3.7.5", 5 * DAY)],
        fault: None,
        log: include_str!("../seed/payments.log"),
    },
    // Two workers are deadlocked: a restart helps.
    Service {
        name: "search",
        replicas: 3,
        error_rate: 0.001,
        p95_ms: 140,
        since: 20 * MINUTE,
        deployments: &[("5.1.0", "5.0.4", 9 * DAY)],
        fault: Some(Fault {
            kind: "process",
            version: None,
            state: "down",
            error_rate: 1.0,
            p95_ms: 30_000,
        }),
        log: include_str!("../seed/search.log"),
    },
];

/// Fills a new folder and leaves others unchanged. Writes the logs under the lock of the transaction, so
/// that a process that sees the services also finds the logs.
pub(crate) fn fill_if_new(
    connection: &mut Connection,
    logs: &Path,
    now: Moment,
) -> Result<(), OperationsError> {
    if is_filled(connection)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have filled it.
    if is_filled(&transaction)? {
        return Ok(());
    }
    for service in SERVICES {
        insert(&transaction, service, now)?;
        let path = logs.join(format!("{}.log", service.name));
        fs::write(&path, dated(service.log, now))
            .map_err(|source| Failure::Folder { path, source })?;
    }
    transaction.commit()?;
    Ok(())
}

fn is_filled(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM services)", [], |row| {
        row.get(0)
    })
}

fn insert(connection: &Connection, service: &Service, now: Moment) -> Result<(), rusqlite::Error> {
    let version = service.deployments.last().map(|(version, ..)| version);
    connection.execute(
        "INSERT INTO services (name, version, replicas, error_rate, p95_ms, since_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            service.name,
            version,
            service.replicas,
            service.error_rate,
            service.p95_ms,
            now.before(service.since),
        ],
    )?;
    for (version, previous, ago) in service.deployments {
        connection.execute(
            "INSERT INTO deployments (service, version, previous, at_ms) VALUES (?1, ?2, ?3, ?4)",
            params![service.name, version, previous, now.before(*ago)],
        )?;
    }
    if let Some(fault) = &service.fault {
        connection.execute(
            "INSERT INTO faults (service, kind, version, state, error_rate, p95_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                service.name,
                fault.kind,
                fault.version,
                fault.state,
                fault.error_rate,
                fault.p95_ms,
            ],
        )?;
    }
    Ok(())
}

/// Replaces seconds by times. A line without seconds belongs to the previous one.
fn dated(log: &str, now: Moment) -> String {
    log.lines()
        .map(|line| match seconds_ago(line) {
            Some((seconds, text)) => format!("{} {text}\n", now.before(seconds)),
            None => format!("{line}\n"),
        })
        .collect()
}

fn seconds_ago(line: &str) -> Option<(i64, &str)> {
    let (seconds, text) = line.strip_prefix('-')?.split_once(' ')?;
    Some((seconds.parse().ok()?, text.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Moment {
        Moment::new("2026-10-19T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_log_gets_times_in_place_of_seconds() {
        let log = "-3600 INFO one\n    at a stack\n-5    WARN two\n";
        let expected =
            "2026-10-19T11:00:00Z INFO one\n    at a stack\n2026-10-19T11:59:55Z WARN two\n";
        assert_eq!(dated(log, now()), expected);
    }

    #[test]
    fn every_log_has_a_few_dozen_lines_in_the_order_of_time() {
        for service in SERVICES {
            let seconds: Vec<i64> = service
                .log
                .lines()
                .filter_map(seconds_ago)
                .map(|(seconds, _)| seconds)
                .collect();
            let name = service.name;
            assert!((24..=72).contains(&seconds.len()), "{name}");
            assert!(seconds.is_sorted_by(|one, next| one >= next), "{name}");
        }
    }

    #[test]
    fn the_logs_contain_secrets_for_readers_to_redact() {
        let all: String = SERVICES.iter().map(|service| service.log).collect();
        for secret in [
            "customer@example.org",
            "+49 30 12345678",
            "4111 1111 1111 1111",
            "Authorization: Bearer eyJ",
        ] {
            assert!(all.contains(secret), "{secret}");
        }
    }

    #[test]
    fn a_folder_is_filled_the_same_at_the_same_time_and_only_once() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let logs = folders.each_ref().map(|folder| {
            let mut connection = Connection::open_in_memory().unwrap();
            for migration in crate::schema::MIGRATIONS {
                connection.execute_batch(migration).unwrap();
            }
            fill_if_new(&mut connection, folder.path(), now()).unwrap();
            fill_if_new(&mut connection, folder.path(), now().before(DAY)).unwrap();
            fs::read_to_string(folder.path().join("checkout.log")).unwrap()
        });
        assert_eq!(logs[0], logs[1]);
        assert!(
            logs[0].contains("2026-10-19T11:46:00Z INFO  deploy 2.4.1"),
            "{}",
            logs[0]
        );
    }
}
