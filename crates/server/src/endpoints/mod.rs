//! The endpoints, one a file. Each has its row of the table and its handler.

mod all_tasks;
mod answer_question;
mod cancel_task;
mod cancel_tasks;
mod catalogue;
mod chat;
mod delete_conversation;
mod fork_task;
mod get_app;
mod get_blob;
mod get_conversation;
mod get_task;
mod health;
mod list_apps;
mod list_conversations;
mod list_tasks;
mod metrics;
mod openapi;
mod reference;
mod submit_task;
mod task_blobs;
mod task_diff;
mod task_events;
mod task_history;
mod task_state;
mod task_trace;
mod workflows;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::route::{QueryParameter, Route};

/// Every endpoint.
pub(crate) const TABLE: &[Route] = &[
    health::LIVE,
    health::READY,
    metrics::ROUTE,
    openapi::ROUTE,
    reference::ROUTE,
    list_apps::ROUTE,
    all_tasks::ROUTE,
    get_app::ROUTE,
    catalogue::AGENTS,
    catalogue::SKILLS,
    catalogue::TOOLS,
    catalogue::DOMAINS,
    workflows::LIST,
    workflows::ONE,
    submit_task::ROUTE,
    list_tasks::ROUTE,
    get_task::ROUTE,
    task_events::ROUTE,
    task_history::ROUTE,
    task_state::ROUTE,
    task_trace::ROUTE,
    task_diff::ROUTE,
    task_blobs::ROUTE,
    get_blob::ROUTE,
    answer_question::ROUTE,
    cancel_task::ROUTE,
    cancel_tasks::ROUTE,
    fork_task::ROUTE,
    chat::ROUTE,
    list_conversations::ROUTE,
    get_conversation::ROUTE,
    delete_conversation::ROUTE,
];

/// The schema of a type, as a function for the table.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const fn query<T: JsonSchema>(name: &'static str, description: &'static str) -> QueryParameter {
    QueryParameter {
        name,
        schema: schema_of::<T>,
        description,
    }
}

/// How much a page has, at most `MOST`.
const fn limit<const MOST: usize>(description: &'static str) -> QueryParameter {
    QueryParameter {
        name: "limit",
        schema: |_| json_schema!({ "type": "integer", "minimum": 1, "maximum": MOST }),
        description,
    }
}
