//! What one user says stays with that user, whatever else the same models are asked at the time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use convoke_model::TaskState;
use convoke_store::Viewer;
use convoke_testkit::{RecordedRequest, Reply, Script};
use office::Office;
use serde_json::json;

/// Calls a tool with what the user said last, and then says it back.
fn echo() -> Script {
    Script::by(|asked: &RecordedRequest| {
        let messages = asked.body["messages"].as_array().unwrap();
        let said = messages.iter().rfind(|message| message["role"] == "user");
        let said = said.unwrap()["content"].as_str().unwrap();
        if messages.last().unwrap()["role"] == "tool" {
            Reply::text(format!("You said {said}"))
        } else {
            Reply::tool_calls([("get_time", json!({ "note": said }))])
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_users_words_are_in_no_request_for_another() {
    let office = Office::open(json!({}), echo()).await;
    office.tool("get_time", |arguments| Ok(arguments["note"].clone()));
    let talk = |user: u128, secret: &'static str| {
        let office = &office;
        async move {
            for turn in 0..10 {
                let text = format!("{secret} {turn}");
                let task = office.submit_for(user, Some(user), &text).await.unwrap();
                let ended = office.engine.wait(&Viewer::System, task).await.unwrap();
                assert_eq!(ended.status, TaskState::Completed);
                assert_eq!(ended.answer.unwrap().text, format!("You said {text}"));
            }
        }
    };
    tokio::join!(talk(1, "heron"), talk(2, "otter"), talk(3, "weasel"));
    let requests = office.model.requests();
    assert_eq!(requests.len(), 60);
    for request in requests {
        let body = request.body.to_string();
        let present = ["heron", "otter", "weasel"]
            .into_iter()
            .filter(|word| body.contains(word));
        assert_eq!(present.count(), 1, "{body}");
    }
    // The conversation itself does travel: the last turn of each is shown the first.
    let bodies = office.model.requests();
    let remembers = |word: &str| {
        bodies.iter().any(|asked| {
            let body = asked.body.to_string();
            body.contains(&format!("{word} 0")) && body.contains(&format!("{word} 9"))
        })
    };
    assert!(["heron", "otter", "weasel"].into_iter().all(remembers));
}

#[tokio::test]
async fn nobody_can_speak_in_another_users_conversation() {
    let office = Office::open(json!({}), echo()).await;
    let task = office.submit_for(1, Some(9), "heron").await.unwrap();
    office.engine.wait(&Viewer::System, task).await.unwrap();
    let asked = office.model.requests().len();
    assert!(
        office
            .submit_for(2, Some(9), "What did I say?")
            .await
            .is_err()
    );
    assert_eq!(office.model.requests().len(), asked);
}
