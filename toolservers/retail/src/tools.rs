//! The schemas of the ten tools: one to ask and one to poll for each space.

use convoke_serving::{closed, tool};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::error::{MAX_LIMIT, MAX_QUERY_LENGTH};
use crate::running::MAX_ROWS;
use crate::space::Space;
use crate::spaces;
use crate::vocabulary::Closed;

/// All tools, by space.
pub(crate) fn all() -> Vec<Tool> {
    spaces::ALL
        .iter()
        .flat_map(|space| [query(space), poll(space)])
        .collect()
}

fn looks() -> ToolAnnotations {
    ToolAnnotations::new().open_world(false).read_only(true)
}

fn query(space: &Space) -> Tool {
    let properties = json!({
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_QUERY_LENGTH,
            "description": "The question, in words. Products are called by their full names.",
        },
        "conversation_id": {
            "type": ["string", "null"],
            "description": "The conversation to go on with; a new one if left out.",
        },
    });
    tool(
        space.query_tool,
        space.about,
        &properties,
        &["query"],
        answer(space),
        looks(),
    )
}

fn poll(space: &Space) -> Tool {
    let properties = json!({
        "conversation_id": {"type": "string"},
        "message_id": {"type": "string", "description": "The message that was running."},
    });
    tool(
        space.poll_tool,
        "Gives the answer to a question whose query was still running, or tells that it still is.",
        &properties,
        &["conversation_id", "message_id"],
        answer(space),
        looks(),
    )
}

fn answer(space: &Space) -> Value {
    let ids: Vec<&str> = space.queries.iter().map(|query| query.id).collect();
    closed(&json!({
        "status": {"type": "string", "enum": ["completed", "running"]},
        "answer": {"type": "string", "description": "The answer in words; empty while it runs."},
        "sql_query": {"type": "string", "description": "The certified SQL, as it was run."},
        "query_id": {"type": "string", "enum": ids},
        "parameters": parameters(space),
        "unused": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Parts of the question that the answer does not use, as they are spelled there.",
        },
        "columns": {"type": "array", "items": {"type": "string"}},
        "rows": {
            "type": "array",
            "maxItems": MAX_ROWS,
            "items": {"type": "array", "items": {"type": ["string", "number", "null"]}},
            "description": "Names of products are in the column `product`.",
        },
        "conversation_id": {"type": "string"},
        "message_id": {"type": "string"},
    }))
}

/// The parameters of the SQL; unrestricted ones are absent.
fn parameters(space: &Space) -> Value {
    let value = |closed: Closed| {
        let values: Vec<&str> = space
            .values(closed)
            .iter()
            .map(|(value, _)| *value)
            .collect();
        json!({"type": "string", "enum": values})
    };
    let mut properties = json!({
        "period": {"type": "string"},
        "from": {"type": "string", "format": "date"},
        "to": {"type": "string", "format": "date"},
        "category": value(Closed::Category),
        "region": value(Closed::Region),
        "segment": value(Closed::Segment),
        "warehouse": value(Closed::Warehouse),
        "campaign": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
        "products": {"type": "array", "items": {"type": "string"}},
    });
    // JSON Schema does not allow an empty enumeration.
    if !space.channels.is_empty() {
        properties["channel"] = value(Closed::Channel);
    }
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}
