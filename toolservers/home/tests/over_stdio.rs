//! The server as a child process of the real client, alone and with another one on the same file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[path = "../../serving/tests/client/mod.rs"]
mod client;

use std::path::Path;

use convoke_mcp::{ToolReply, ToolServers};
use serde_json::{Map, Value, json};

fn servers(db: &Path, names: &[&str]) -> ToolServers {
    client::servers("home_stdio", db, names)
}

async fn call(
    servers: &ToolServers,
    server: &str,
    tool: &str,
    arguments: Value,
    key: &str,
) -> ToolReply {
    client::call(servers, server, tool, arguments, Map::new(), key).await
}

#[tokio::test]
async fn settings_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("home.db");
    let dim = json!({"room": "the Living Room", "by": -25});
    let first = servers(&db, &["home"]);
    let done = call(&first, "home", "dim_light", dim.clone(), "k").await;
    assert!(!done.is_error, "{done:?}");
    assert_eq!(done.content["brightness"], 35);
    first.shutdown().await;

    let second = servers(&db, &["home"]);
    let again = call(&second, "home", "dim_light", dim, "k").await;
    assert_eq!(again, done);
    let status = json!({"room": "living room"});
    let status = call(&second, "home", "light_status", status, "s").await;
    assert_eq!(status.content, done.content);
    second.shutdown().await;
}

#[tokio::test]
async fn processes_that_share_a_house_make_one_change_per_key() {
    let folder = tempfile::tempdir().unwrap();
    let servers = servers(&folder.path().join("home.db"), &["one", "two"]);
    for round in 1..=4 {
        let dim = json!({"room": "office", "by": -10});
        let key = format!("key {round}");
        let (one, two) = tokio::join!(
            call(&servers, "one", "dim_light", dim.clone(), &key),
            call(&servers, "two", "dim_light", dim.clone(), &key),
        );
        assert!(!one.is_error, "{one:?}");
        assert_eq!(one, two);
        assert_eq!(one.content["brightness"], 90 - 10 * round);
    }
    servers.shutdown().await;
}

#[tokio::test]
async fn every_tool_answers_as_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let servers = servers(&folder.path().join("home.db"), &["home"]);
    let calls = [
        ("set_light", json!({"room": "all", "on": true})),
        ("dim_light", json!({"room": "kitchen", "by": 10})),
        ("light_status", json!({})),
        ("play_music", json!({"what": "jazz"})),
        ("stop_music", json!({})),
        ("set_volume", json!({"level": 20, "room": "office"})),
        ("media_status", json!({})),
        ("set_temperature", json!({"celsius": 20.5})),
        ("climate_status", json!({"room": "hallway"})),
        ("sensor_status", json!({"room": "garage"})),
        ("activate_scene", json!({"scene": "dinner"})),
        ("list_scenes", json!({})),
        ("lock_door", json!({"door": "all"})),
        ("unlock_door", json!({"door": "front door"})),
        ("set_alarm", json!({"mode": "home"})),
        ("security_status", json!({})),
    ];
    let tools = servers.tools("home").await.unwrap();
    assert_eq!(tools.len(), calls.len());
    for (tool, arguments) in calls {
        let reply = call(&servers, "home", tool, arguments, tool).await;
        assert!(!reply.is_error, "{tool}: {reply:?}");
        let result = tools.iter().find(|result| result.name == tool).unwrap();
        assert_eq!(result.input_schema["additionalProperties"], false, "{tool}");
        let schema = result.output_schema.as_deref().unwrap();
        assert_eq!(schema["additionalProperties"], false, "{tool}");
        let fits = jsonschema::validate(schema, &reply.content);
        assert!(fits.is_ok(), "{tool}: {fits:?}");
        let read_only_annotations = tool.ends_with("_status") || tool == "list_scenes";
        assert_eq!(
            result.annotations.read_only,
            Some(read_only_annotations),
            "{tool}"
        );
    }
    servers.shutdown().await;
}

#[tokio::test]
async fn an_unknown_room_is_refused_with_the_existing_ones() {
    let folder = tempfile::tempdir().unwrap();
    let servers = servers(&folder.path().join("home.db"), &["home"]);
    let cellar = json!({"room": "cellar", "on": true});
    let refused = call(&servers, "home", "set_light", cellar, "k").await;
    assert!(refused.is_error);
    assert_eq!(refused.content["code"], "home.room_not_found");
    assert_eq!(
        refused.text,
        "There is no room cellar. There are: kitchen, living room, bedroom, bathroom, office, \
         hallway, garage."
    );
    servers.shutdown().await;
}
