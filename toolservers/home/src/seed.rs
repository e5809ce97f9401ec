//! The initial state of a new house: seven rooms and their devices.

use rusqlite::{Connection, TransactionBehavior, params};

use crate::error::HomeError;

/// The initial state of a room.
struct Room {
    name: &'static str,
    /// Whether the light is on, and its brightness.
    light: (bool, u8),
    /// Target temperature.
    target: Option<f64>,
    /// What is playing, and the volume.
    player: Option<(Option<&'static str>, u8)>,
    /// Degrees Celsius.
    temperature: f64,
    humidity: u8,
    motion: bool,
    window_open: bool,
}

/// An ordinary evening at home.
const ROOMS: &[Room] = &[
    Room {
        name: "kitchen",
        light: (false, 80),
        target: Some(20.0),
        player: Some((None, 30)),
        temperature: 20.5,
        humidity: 48,
        motion: false,
        window_open: false,
    },
    Room {
        name: "living room",
        light: (true, 60),
        target: Some(21.0),
        player: Some((None, 35)),
        temperature: 21.2,
        humidity: 45,
        motion: true,
        window_open: false,
    },
    Room {
        name: "bedroom",
        light: (false, 40),
        target: Some(18.0),
        player: Some((None, 20)),
        temperature: 17.8,
        humidity: 50,
        motion: false,
        window_open: true,
    },
    Room {
        name: "bathroom",
        light: (false, 100),
        target: Some(22.0),
        player: None,
        temperature: 21.6,
        humidity: 61,
        motion: false,
        window_open: false,
    },
    Room {
        name: "office",
        light: (true, 90),
        target: Some(20.5),
        player: Some((None, 25)),
        temperature: 20.9,
        humidity: 43,
        motion: false,
        window_open: false,
    },
    Room {
        name: "hallway",
        light: (false, 50),
        target: Some(17.0),
        player: None,
        temperature: 18.3,
        humidity: 47,
        motion: false,
        window_open: false,
    },
    Room {
        name: "garage",
        light: (false, 100),
        target: None,
        player: None,
        temperature: 12.4,
        humidity: 58,
        motion: false,
        window_open: false,
    },
];

/// The doors, and whether they are locked.
const DOORS: &[(&str, bool)] = &[
    ("front door", true),
    ("back door", false),
    ("garage door", true),
];

/// Fills a house without rooms. If two processes open a new file at once, only the first one fills it.
pub(crate) fn fill_if_new(connection: &mut Connection) -> Result<(), HomeError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let furnished: bool =
        transaction.query_row("SELECT EXISTS (SELECT 1 FROM rooms)", [], |row| row.get(0))?;
    if furnished {
        return Ok(());
    }
    for room in ROOMS {
        fill_room(&transaction, room)?;
    }
    for door in DOORS {
        transaction.execute("INSERT INTO doors (name, locked) VALUES (?1, ?2)", *door)?;
    }
    transaction.execute("INSERT INTO alarm (id, mode) VALUES (1, 'off')", [])?;
    transaction.commit()?;
    Ok(())
}

fn fill_room(connection: &Connection, room: &Room) -> Result<(), rusqlite::Error> {
    let name = room.name;
    connection.execute("INSERT INTO rooms (name) VALUES (?1)", [name])?;
    let (is_on, brightness) = room.light;
    connection.execute(
        "INSERT INTO lights (room, is_on, brightness) VALUES (?1, ?2, ?3)",
        params![name, is_on, brightness],
    )?;
    if let Some(target) = room.target {
        connection.execute(
            "INSERT INTO climates (room, target) VALUES (?1, ?2)",
            params![name, target],
        )?;
    }
    if let Some((playing, volume)) = room.player {
        connection.execute(
            "INSERT INTO players (room, playing, volume) VALUES (?1, ?2, ?3)",
            params![name, playing, volume],
        )?;
    }
    connection.execute(
        "INSERT INTO sensors (room, temperature, humidity, motion, window_open)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            name,
            room.temperature,
            room.humidity,
            room.motion,
            room.window_open
        ],
    )?;
    Ok(())
}
