//! The endpoints, one a file. Each has its row of the table and its handler.

mod answer_question;
mod cancel_task;
mod chat;
mod fork_task;
mod get_app;
mod get_conversation;
mod get_task;
mod health;
mod list_apps;
mod list_conversations;
mod list_tasks;
mod openapi;
mod reference;
mod submit_task;
mod task_events;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::route::{QueryParameter, Route};

/// Every endpoint.
pub(crate) const TABLE: &[Route] = &[
    health::LIVE,
    health::READY,
    openapi::ROUTE,
    reference::ROUTE,
    list_apps::ROUTE,
    get_app::ROUTE,
    submit_task::ROUTE,
    list_tasks::ROUTE,
    get_task::ROUTE,
    task_events::ROUTE,
    answer_question::ROUTE,
    cancel_task::ROUTE,
    fork_task::ROUTE,
    chat::ROUTE,
    list_conversations::ROUTE,
    get_conversation::ROUTE,
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
