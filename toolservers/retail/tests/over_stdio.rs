//! The server as a child process of the real client, alone and with another one on the same file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[path = "../../serving/tests/client/mod.rs"]
mod client;

use std::path::Path;

use convoke_mcp::{ToolReply, ToolServers};
use serde_json::{Map, Value, json};

/// A question for each space that its data answers.
const QUESTIONS: [(&str, &str); 5] = [
    (
        "customer_behavior",
        "Which products are abandoned in carts most often?",
    ),
    (
        "inventory",
        "Are these products in stock: Trail Running Shoes, Merino Socks?",
    ),
    ("pricing", "Which prices went up the most in July?"),
    ("marketing", "Which campaign performs best?"),
    ("sales", "Revenue by region last quarter"),
];

fn servers(db: &Path, names: &[&str]) -> ToolServers {
    client::servers("retail_stdio", db, names)
}

async fn call(servers: &ToolServers, server: &str, tool: &str, arguments: Value) -> ToolReply {
    client::call(servers, server, tool, arguments, Map::new(), "k").await
}

/// The answer to a question, polled if it is slow.
async fn ask(servers: &ToolServers, server: &str, space: &str, arguments: Value) -> ToolReply {
    let mut reply = call(servers, server, &format!("query_space_{space}"), arguments).await;
    while reply.content["status"] == "running" {
        let message = json!({
            "conversation_id": reply.content["conversation_id"],
            "message_id": reply.content["message_id"],
        });
        reply = call(servers, server, &format!("poll_response_{space}"), message).await;
    }
    reply
}

#[tokio::test]
async fn every_tool_answers_as_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let servers = servers(&folder.path().join("retail.db"), &["retail"]);
    let tools = servers.tools("retail").await.unwrap();
    assert_eq!(tools.len(), 2 * QUESTIONS.len());
    for (space, question) in QUESTIONS {
        let reply = ask(&servers, "retail", space, json!({"query": question})).await;
        assert!(!reply.is_error, "{question}: {reply:?}");
        assert!(
            !reply.content["rows"].as_array().unwrap().is_empty(),
            "{question}"
        );
        let message = json!({
            "conversation_id": reply.content["conversation_id"],
            "message_id": reply.content["message_id"],
        });
        let polled = call(
            &servers,
            "retail",
            &format!("poll_response_{space}"),
            message,
        )
        .await;
        assert_eq!(polled.content, reply.content);
        for tool in [
            format!("query_space_{space}"),
            format!("poll_response_{space}"),
        ] {
            let described = tools
                .iter()
                .find(|described| described.name == tool)
                .unwrap();
            assert_eq!(
                described.input_schema["additionalProperties"], false,
                "{tool}"
            );
            let schema = described.output_schema.as_deref().unwrap();
            assert_eq!(schema["additionalProperties"], false, "{tool}");
            let fits = jsonschema::validate(schema, &reply.content);
            assert!(fits.is_ok(), "{tool}: {fits:?}");
            assert_eq!(described.annotations.read_only, Some(true), "{tool}");
            assert_eq!(described.annotations.open_world, Some(false), "{tool}");
        }
    }
    servers.shutdown().await;
}

#[tokio::test]
async fn a_conversation_outlives_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("retail.db");
    let first = servers(&db, &["retail"]);
    let revenue = json!({"query": "Revenue by region last quarter", "conversation_id": null});
    let reply = ask(&first, "retail", "sales", revenue).await.content;
    first.shutdown().await;

    let second = servers(&db, &["retail"]);
    let message = json!({
        "conversation_id": reply["conversation_id"],
        "message_id": reply["message_id"],
    });
    let polled = call(&second, "retail", "poll_response_sales", message).await;
    assert_eq!(polled.content, reply);
    let more = json!({"query": "only electronics", "conversation_id": reply["conversation_id"]});
    let more = ask(&second, "retail", "sales", more).await.content;
    assert_eq!(more["query_id"], "revenue_by_region");
    assert_eq!(more["parameters"]["category"], "electronics");
    assert_eq!(more["parameters"]["period"], "last quarter");
    second.shutdown().await;
}

#[tokio::test]
async fn processes_that_share_a_new_file_fill_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let servers = servers(&folder.path().join("retail.db"), &["one", "two"]);
    let question = || json!({"query": "How many customers do we have?"});
    let (one, two) = tokio::join!(
        ask(&servers, "one", "customer_behavior", question()),
        ask(&servers, "two", "customer_behavior", question()),
    );
    assert!(!one.is_error, "{one:?}");
    assert_eq!(one.content["answer"], two.content["answer"]);
    let customers: i64 = one.content["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[1].as_i64().unwrap())
        .sum();
    assert_eq!(customers, 4_000);
    servers.shutdown().await;
}

#[tokio::test]
async fn a_question_for_another_space_is_declined_with_examples() {
    let folder = tempfile::tempdir().unwrap();
    let servers = servers(&folder.path().join("retail.db"), &["retail"]);
    let other = json!({"query": "Which campaign performs best?"});
    let refused = call(&servers, "retail", "query_space_pricing", other).await;
    assert!(refused.is_error);
    assert_eq!(refused.content["code"], "retail.no_certified_query");
    assert_eq!(refused.content["message"], refused.text.as_str());
    assert!(
        refused.text.starts_with(
            "The space pricing has no certified query for that. You can ask, for example: What is \
             the price of Trail Running Shoes?"
        ),
        "{}",
        refused.text
    );
    servers.shutdown().await;
}
