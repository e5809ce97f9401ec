//! The schemas and annotations of the sixteen tools.

use convoke_serving::{closed, tool};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::climate::{MAX_CELSIUS, MIN_CELSIUS};
use crate::media::{DEFAULT_PLAYER, MAX_WHAT_LENGTH};
use crate::name::MAX_NAME_LENGTH;

/// All tools, by device.
pub(crate) fn all() -> Vec<Tool> {
    [lights(), media(), climate(), scenes(), security()].concat()
}

fn read_only_annotations() -> ToolAnnotations {
    ToolAnnotations::new().open_world(false).read_only(true)
}

/// Destructive in MCP's sense, because the previous setting is lost; idempotent, because a repeated call
/// sets the same.
fn setting_annotations() -> ToolAnnotations {
    ToolAnnotations::new()
        .open_world(false)
        .read_only(false)
        .destructive(true)
        .idempotent(true)
}

fn lights() -> Vec<Tool> {
    vec![
        tool(
            "set_light",
            "Turns the light of a room on or off, sets its brightness, or both.",
            &json!({
                "room": name("The room, or `all`."),
                "on": {"type": "boolean", "description": "Whether it is to be on."},
                "brightness": percent("How bright it is to be; 0 is off."),
            }),
            &["room"],
            lights_told(),
            setting_annotations(),
        ),
        // Each call is a further step, unless it repeats an idempotency key.
        tool(
            "dim_light",
            "Makes the light of a room brighter or darker by so much.",
            &json!({
                "room": name("The room, or `all`."),
                "by": {
                    "type": "integer",
                    "minimum": -100,
                    "maximum": 100,
                    "description": "How much brighter; less than 0 is darker.",
                },
            }),
            &["room", "by"],
            lights_told(),
            setting_annotations().idempotent(false),
        ),
        tool(
            "light_status",
            "Tells which lights are on, and how bright.",
            &json!({"room": name("The room; all if left out.")}),
            &[],
            lights_told(),
            read_only_annotations(),
        ),
    ]
}

fn media() -> Vec<Tool> {
    vec![
        tool(
            "play_music",
            "Plays a song, an artist, a style or a station in a room.",
            &json!({
                "what": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_WHAT_LENGTH,
                    "description": "What to play, in words.",
                },
                "room": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_NAME_LENGTH,
                    "default": DEFAULT_PLAYER,
                    "description": "The room, or `all`.",
                },
            }),
            &["what"],
            closed(&json!({
                "room": place(),
                "playing": {"type": "string"},
                "players": list(&player()),
            })),
            setting_annotations(),
        ),
        tool(
            "stop_music",
            "Stops the music in a room, or everywhere.",
            &json!({"room": name("The room; everywhere if left out.")}),
            &[],
            closed(&json!({
                "room": place(),
                "stopped": {
                    "type": "array",
                    "items": player(),
                    "description": "The players that played, as they were.",
                },
            })),
            setting_annotations(),
        ),
        tool(
            "set_volume",
            "Sets how loud the music is.",
            &json!({
                "level": percent("How loud it is to be."),
                "room": name(
                    "The room; if left out, wherever something plays, else the living room.",
                ),
            }),
            &["level"],
            closed(&json!({"volume": {"type": "integer"}, "players": list(&player())})),
            setting_annotations(),
        ),
        tool(
            "media_status",
            "Tells what plays where, and how loud.",
            &json!({}),
            &[],
            closed(&json!({"players": list(&player())})),
            read_only_annotations(),
        ),
    ]
}

fn climate() -> Vec<Tool> {
    let climate = closed(&json!({
        "room": {"type": "string"},
        "target": {"type": "number", "description": "What it is set to, in degrees Celsius."},
        "current": {"type": "number", "description": "What is measured, in degrees Celsius."},
    }));
    let sensor = closed(&json!({
        "room": {"type": "string"},
        "temperature": {"type": "number", "description": "Degrees Celsius."},
        "humidity": {"type": "integer", "description": "Percent."},
        "motion": {"type": "boolean", "description": "Whether somebody moves there."},
        "window_open": {"type": "boolean"},
    }));
    vec![
        tool(
            "set_temperature",
            "Sets the heating of a room, or of all rooms.",
            &json!({
                "celsius": {
                    "type": "number",
                    "minimum": MIN_CELSIUS,
                    "maximum": MAX_CELSIUS,
                    "description": "Degrees Celsius, kept to one digit behind the point.",
                },
                "room": name("The room; all if left out."),
            }),
            &["celsius"],
            closed(&json!({
                "room": place(),
                "climates": list(&climate),
                "celsius": {"type": "number"},
            })),
            setting_annotations(),
        ),
        tool(
            "climate_status",
            "Tells how warm the rooms are, and what the heating is set to.",
            &json!({"room": name("The room; all if left out.")}),
            &[],
            closed(&json!({"room": place(), "climates": list(&climate)})),
            read_only_annotations(),
        ),
        tool(
            "sensor_status",
            "Tells temperature, humidity, motion and open windows.",
            &json!({"room": name("The room; all if left out.")}),
            &[],
            closed(&json!({"room": place(), "sensors": list(&sensor)})),
            read_only_annotations(),
        ),
    ]
}

fn scenes() -> Vec<Tool> {
    vec![
        tool(
            "activate_scene",
            "Sets several devices at once, as list_scenes tells.",
            &json!({"scene": name("The scene's name, as list_scenes gives it.")}),
            &["scene"],
            closed(&json!({
                "scene": {"type": "string"},
                "description": {"type": "string", "description": "What was done."},
                "steps": {"type": "integer", "description": "How many things were done."},
            })),
            setting_annotations(),
        ),
        tool(
            "list_scenes",
            "Lists the scenes and what they do.",
            &json!({}),
            &[],
            closed(&json!({
                "scenes": list(&closed(&json!({
                    "name": {"type": "string"},
                    "description": {"type": "string"},
                }))),
            })),
            read_only_annotations(),
        ),
    ]
}

fn security() -> Vec<Tool> {
    let mode = json!({"type": "string", "enum": ["off", "home", "away"]});
    let names = json!({"type": "array", "items": {"type": "string"}});
    let door = closed(&json!({
        "door": {"type": "string"},
        "locked": {"type": "boolean"},
        "changed": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The doors that were otherwise before.",
        },
    }));
    vec![
        tool(
            "lock_door",
            "Locks a door. A door that is locked already stays as it is.",
            &json!({"door": name("The door, as security_status gives it, or `all`.")}),
            &["door"],
            door.clone(),
            setting_annotations(),
        ),
        tool(
            "unlock_door",
            "Unlocks one door, so that anybody can come in.",
            &json!({"door": name("The door, as security_status gives it.")}),
            &["door"],
            door,
            setting_annotations(),
        ),
        tool(
            "set_alarm",
            "Arms the alarm for people at home or away, or turns it off.",
            &json!({"mode": name("What it is to watch: `off`, `home` or `away`.")}),
            &["mode"],
            closed(&json!({
                "mode": mode,
                "was": mode,
                "unlocked": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The doors that are not locked.",
                },
            })),
            setting_annotations(),
        ),
        tool(
            "security_status",
            "Tells the alarm, the doors, open windows and motion.",
            &json!({}),
            &[],
            closed(&json!({
                "alarm": mode,
                "doors": list(&closed(&json!({
                    "door": {"type": "string"},
                    "locked": {"type": "boolean"},
                }))),
                "unlocked": names,
                "open_windows": names,
                "motion": names,
            })),
            read_only_annotations(),
        ),
    ]
}

fn name(description: &str) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_NAME_LENGTH,
        "description": description,
    })
}

fn percent(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": 100, "description": description})
}

/// The place, as results name it.
fn place() -> Value {
    json!({"type": "string", "description": "The room, or `all`."})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn lights_told() -> Value {
    closed(&json!({
        "room": place(),
        "on": {"type": "boolean", "description": "Whether any of them is on."},
        "brightness": {
            "type": "integer",
            "description": "Of the brightest one that is on; 0 if none is.",
        },
        "lights": list(&closed(&json!({
            "room": {"type": "string"},
            "on": {"type": "boolean"},
            "brightness": {
                "type": "integer",
                "description": "How bright it is, or will be when it is on again.",
            },
        }))),
    }))
}

fn player() -> Value {
    closed(&json!({
        "room": {"type": "string"},
        "playing": {"type": ["string", "null"]},
        "volume": {"type": "integer"},
    }))
}
