//! The database's tables.

use convoke_serving::ANSWERS_TABLE;

/// Entry n migrates version n to n + 1. Entries are only ever appended.
pub(crate) const MIGRATIONS: &[&str] = &[TABLES, ANSWERS_TABLE];

const TABLES: &str = "
    CREATE TABLE rooms (
        -- The order in which people walk through the house, and lists tell of it.
        position INTEGER PRIMARY KEY,
        name     TEXT NOT NULL UNIQUE
    ) STRICT;

    CREATE TABLE lights (
        room       TEXT PRIMARY KEY REFERENCES rooms (name),
        is_on      INTEGER NOT NULL CHECK (is_on IN (0, 1)),
        -- How bright it is, or was when it was last on and will be when it is on again.
        brightness INTEGER NOT NULL CHECK (brightness BETWEEN 1 AND 100)
    ) STRICT;

    CREATE TABLE climates (
        room   TEXT PRIMARY KEY REFERENCES rooms (name),
        target REAL NOT NULL
    ) STRICT;

    CREATE TABLE players (
        room    TEXT PRIMARY KEY REFERENCES rooms (name),
        playing TEXT,
        volume  INTEGER NOT NULL CHECK (volume BETWEEN 0 AND 100)
    ) STRICT;

    CREATE TABLE sensors (
        room        TEXT PRIMARY KEY REFERENCES rooms (name),
        temperature REAL NOT NULL,
        humidity    INTEGER NOT NULL CHECK (humidity BETWEEN 0 AND 100),
        motion      INTEGER NOT NULL CHECK (motion IN (0, 1)),
        window_open INTEGER NOT NULL CHECK (window_open IN (0, 1))
    ) STRICT;

    CREATE TABLE doors (
        position INTEGER PRIMARY KEY,
        name     TEXT NOT NULL UNIQUE,
        locked   INTEGER NOT NULL CHECK (locked IN (0, 1))
    ) STRICT;

    -- There is one alarm.
    CREATE TABLE alarm (
        id   INTEGER PRIMARY KEY CHECK (id = 1),
        mode TEXT NOT NULL CHECK (mode IN ('off', 'home', 'away'))
    ) STRICT;
";
