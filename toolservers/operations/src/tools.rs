//! The schemas and annotations of the eight tools.

use convoke_serving::{MAX_KEY_LENGTH, closed, tool};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::change::MAX_REASON_LENGTH;
use crate::mention::MAX_TEXT_LENGTH;
use crate::service::{DEFAULT_WINDOW_MINUTES, MAX_NAME_LENGTH, MAX_WINDOW_MINUTES};

/// All tools: read-only ones in the order of typical use, then those that make changes.
pub(crate) fn all() -> Vec<Tool> {
    vec![
        find_service(),
        service_status(),
        recent_deployments(),
        host_health(),
        find_change(),
        list_changes(),
        restart_service(),
        roll_back(),
    ]
}

fn read_only_annotations() -> ToolAnnotations {
    ToolAnnotations::new().open_world(false).read_only(true)
}

/// Destructive, because running requests and the current processes are lost; not idempotent, because
/// each call is a further change unless it repeats an idempotency key.
fn acting_annotations() -> ToolAnnotations {
    ToolAnnotations::new()
        .open_world(false)
        .read_only(false)
        .destructive(true)
        .idempotent(false)
}

fn find_service() -> Tool {
    tool(
        "find_service",
        "Tells which services a text speaks of. `service` is null if it names none, or more than one.",
        &json!({
            "text": {
                "type": "string",
                "maxLength": MAX_TEXT_LENGTH,
                "description": "What somebody wrote.",
            },
        }),
        &["text"],
        closed(&json!({
            "service": {"type": ["string", "null"]},
            "mentioned": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Every service that the text names, in its order.",
            },
            "services": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Every service there is.",
            },
        })),
        read_only_annotations(),
    )
}

fn service_status() -> Tool {
    tool(
        "service_status",
        "Tells how a service is, and since when.",
        &json!({"service": service()}),
        &["service"],
        closed(&json!({
            "service": {"type": "string"},
            "state": {"type": "string", "enum": ["healthy", "degraded", "down"]},
            "version": {"type": "string"},
            "replicas": {"type": "integer"},
            "error_rate": {
                "type": "number",
                "description": "Which part of the requests fails, from 0 to 1.",
            },
            "p95_ms": {
                "type": "integer",
                "description": "How many milliseconds 95 of 100 requests take at most.",
            },
            "since": moment(),
            "minutes": {"type": "integer", "description": "How many minutes ago the state began."},
        })),
        read_only_annotations(),
    )
}

fn recent_deployments() -> Tool {
    tool(
        "recent_deployments",
        "Lists what was deployed lately, newest first.",
        &json!({
            "service": service(),
            "minutes": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_WINDOW_MINUTES,
                "default": DEFAULT_WINDOW_MINUTES,
                "description": "How far to look back.",
            },
        }),
        &["service"],
        closed(&json!({"deployments": {"type": "array", "items": deployment()}})),
        read_only_annotations(),
    )
}

fn host_health() -> Tool {
    let number = json!({"type": ["number", "null"]});
    tool(
        "host_health",
        "Tells the load, memory and disk of the machine; what cannot be read is null.",
        &json!({}),
        &[],
        closed(&json!({
            "load_1": number,
            "load_5": number,
            "memory_used_percent": number,
            "disk_used_percent": number,
        })),
        read_only_annotations(),
    )
}

fn find_change() -> Tool {
    let mut nullable = change();
    nullable["type"] = json!(["object", "null"]);
    tool(
        "find_change",
        "Finds the change that was made under an idempotency key.",
        &json!({
            "key": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_KEY_LENGTH,
                "description": "The idempotency key of the call that made the change.",
            },
        }),
        &["key"],
        closed(&json!({"found": {"type": "boolean"}, "change": nullable})),
        read_only_annotations(),
    )
}

fn list_changes() -> Tool {
    tool(
        "list_changes",
        "Lists what was done to one service or to all, oldest first; of very many, only the newest.",
        &json!({"service": service()}),
        &[],
        closed(&json!({"changes": {"type": "array", "items": change()}})),
        read_only_annotations(),
    )
}

fn restart_service() -> Tool {
    tool(
        "restart_service",
        "Starts all processes of a service anew. Whether that helped, service_status tells.",
        &json!({"service": service(), "reason": reason()}),
        &["service", "reason"],
        closed(&json!({
            "change": change(),
            "restarts": {"type": "integer", "description": "How often it was restarted by now."},
        })),
        acting_annotations(),
    )
}

fn roll_back() -> Tool {
    let to_version = json!({
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_NAME_LENGTH,
        "description": "A version that ran before, as recent_deployments gives it.",
    });
    tool(
        "roll_back",
        "Deploys an earlier version of a service. Whether that helped, service_status tells.",
        &json!({"service": service(), "to_version": to_version, "reason": reason()}),
        &["service", "to_version", "reason"],
        closed(&json!({"change": change(), "deployment": deployment()})),
        acting_annotations(),
    )
}

fn service() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_NAME_LENGTH,
        "description": "The service's name, as find_service gives it.",
    })
}

fn reason() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_REASON_LENGTH,
        "description": "Why, for those who read the record later.",
    })
}

fn moment() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn deployment() -> Value {
    closed(&json!({
        "id": {"type": "integer"},
        "version": {"type": "string"},
        "previous": {"type": "string", "description": "What ran before."},
        "at": moment(),
        "minutes_ago": {"type": "integer"},
    }))
}

fn change() -> Value {
    closed(&json!({
        "id": {"type": "integer"},
        "key": {
            "type": ["string", "null"],
            "description": "The idempotency key under which the change was made.",
        },
        "service": {"type": "string"},
        "kind": {"type": "string", "enum": ["restart", "roll_back"]},
        "detail": {"type": "string"},
        "reason": {"type": "string"},
        "at": moment(),
    }))
}
