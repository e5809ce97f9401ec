//! The database's tables.

use convoke_serving::ANSWERS_TABLE;

/// Entry n migrates version n to n + 1. Entries are only ever appended.
pub(crate) const MIGRATIONS: &[&str] = &[TABLES, ANSWERS_TABLE];

const TABLES: &str = "
    CREATE TABLE services (
        name       TEXT PRIMARY KEY,
        version    TEXT NOT NULL,
        replicas   INTEGER NOT NULL,
        -- What is measured while nothing is wrong.
        error_rate REAL NOT NULL,
        p95_ms     INTEGER NOT NULL,
        -- When the present state began.
        since_ms   INTEGER NOT NULL,
        restarts   INTEGER NOT NULL DEFAULT 0
    ) STRICT;

    -- What is wrong with a service, which nobody who is on call can see: they see its state.
    CREATE TABLE faults (
        service    TEXT PRIMARY KEY REFERENCES services (name),
        -- A bad release shows while its version runs; a stuck process is gone fill_if_new it is started
        -- anew; for a failing dependency nothing can be done here.
        kind       TEXT NOT NULL CHECK (kind IN ('release', 'process', 'dependency')),
        version    TEXT,
        state      TEXT NOT NULL CHECK (state IN ('degraded', 'down')),
        error_rate REAL NOT NULL,
        p95_ms     INTEGER NOT NULL
    ) STRICT;

    CREATE VIEW statuses AS
        SELECT services.name,
               coalesce(faults.state, 'healthy') AS state,
               services.version,
               services.replicas,
               coalesce(faults.error_rate, services.error_rate) AS error_rate,
               coalesce(faults.p95_ms, services.p95_ms) AS p95_ms,
               services.since_ms
        FROM services
        LEFT JOIN faults
            ON faults.service = services.name
            AND (faults.kind <> 'release' OR faults.version = services.version);

    CREATE TABLE deployments (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        service  TEXT NOT NULL REFERENCES services (name),
        version  TEXT NOT NULL,
        previous TEXT NOT NULL,
        at_ms    INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX deployments_of_service ON deployments (service, at_ms);

    CREATE TABLE changes (
        id      INTEGER PRIMARY KEY AUTOINCREMENT,
        -- The idempotency key under which the change was made, if there was one.
        key     TEXT,
        service TEXT NOT NULL REFERENCES services (name),
        kind    TEXT NOT NULL CHECK (kind IN ('restart', 'roll_back')),
        detail  TEXT NOT NULL,
        reason  TEXT NOT NULL,
        at_ms   INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX changes_by_key ON changes (key);
    CREATE INDEX changes_of_service ON changes (service, id);
";
