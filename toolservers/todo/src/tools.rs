//! The schemas and annotations of the five tools.

use convoke_serving::tool;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::task::MAX_TITLE_LENGTH;

/// All tools, in the order of typical use.
pub(crate) fn all() -> Vec<Tool> {
    let hints = ToolAnnotations::new().open_world(false);
    vec![
        // Two calls add two tasks; nothing is lost.
        tool(
            "add_task",
            "Adds a task to the user's to-do list.",
            &json!({"user_id": user_id(), "title": title("What is to be done.")}),
            &["user_id", "title"],
            task_schema(),
            hints
                .clone()
                .read_only(false)
                .destructive(false)
                .idempotent(false),
        ),
        tool(
            "list_tasks",
            "Lists the user's tasks, oldest first.",
            &json!({
                "user_id": user_id(),
                "status": {
                    "type": "string",
                    "enum": ["pending", "completed", "all"],
                    "default": "pending",
                    "description": "Which tasks to list.",
                },
            }),
            &["user_id"],
            json!({
                "type": "object",
                "properties": {"tasks": {"type": "array", "items": task_schema()}},
                "required": ["tasks"],
            }),
            hints.clone().read_only(true),
        ),
        // Completing a completed task changes nothing.
        tool(
            "complete_task",
            "Marks a task as done. A task that is done already stays as it is.",
            &json!({"user_id": user_id(), "task_id": task_id()}),
            &["user_id", "task_id"],
            completed_schema(),
            hints
                .clone()
                .read_only(false)
                .destructive(false)
                .idempotent(true),
        ),
        // Idempotent in MCP's sense: a second call finds no task and changes nothing, although its answer
        // differs from the first one's unless it has the same idempotency key.
        tool(
            "delete_task",
            "Deletes a task for good.",
            &json!({"user_id": user_id(), "task_id": task_id()}),
            &["user_id", "task_id"],
            task_schema(),
            hints
                .clone()
                .read_only(false)
                .destructive(true)
                .idempotent(true),
        ),
        // Destructive, because the previous title is lost; idempotent, because a repeated call sets the same
        // title.
        tool(
            "update_task",
            "Gives a task another title.",
            &json!({"user_id": user_id(), "task_id": task_id(), "title": title("The new title.")}),
            &["user_id", "task_id", "title"],
            task_schema(),
            hints.read_only(false).destructive(true).idempotent(true),
        ),
    ]
}

fn user_id() -> Value {
    json!({"type": "string", "format": "uuid", "description": "Whose tasks: the verified user id."})
}

fn task_id() -> Value {
    json!({"type": "string", "format": "uuid", "description": "The task's id, as list_tasks gives it."})
}

fn title(description: &str) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_TITLE_LENGTH,
        "description": description,
    })
}

fn task_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "title": {"type": "string"},
            "is_completed": {"type": "boolean"},
            "created_at": {"type": "string", "format": "date-time"},
            "completed_at": {"type": "string", "format": "date-time"},
        },
        "required": ["id", "title", "is_completed", "created_at"],
    })
}

fn completed_schema() -> Value {
    let mut schema = task_schema();
    schema["properties"]["already"] =
        json!({"type": "boolean", "description": "The task was done before this call."});
    schema
}
