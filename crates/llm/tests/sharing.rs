//! Users of a client share connections and limits of endpoints, and never see secrets.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod asking;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use asking::{KEY, hello, model, options, scripted};
use convoke_llm::{ChatRequest, ModelClient, Options};
use convoke_model::{LlmConfig, Message};
use convoke_testkit::{Reply, Script};
use futures::future::join_all;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::Semaphore;

#[tokio::test]
async fn an_endpoint_gets_no_more_requests_than_its_limit() {
    let gate = Arc::new(Semaphore::new(0));
    let slow_replies = scripted(Reply::text("ok").gated(&gate)).await;
    let free = scripted(Reply::text("ok")).await;
    let client = ModelClient::new(Options {
        max_concurrent: 3,
        ..options()
    });
    let messages = hello();
    let (models, others) = ([model(&slow_replies, "m")], [model(&free, "m")]);
    let requests = || ChatRequest::new(&models, &messages);
    let many = join_all((0..12).map(|_| {
        let client = client.clone();
        async move { client.complete(&requests(), None).await }
    }));
    let watched = async {
        slow_replies.wait_for_requests(3).await;
        // A full endpoint does not delay another one.
        let request = ChatRequest::new(&others, &messages);
        client.complete(&request, None).await.unwrap();
        assert_eq!(slow_replies.requests().len(), 3);
        gate.add_permits(12);
    };
    let (replies, ()) = tokio::join!(many, watched);
    assert!(replies.iter().all(Result::is_ok));
    assert_eq!(slow_replies.requests().len(), 12);
    assert_eq!(slow_replies.max_concurrent(), 3);
}

#[tokio::test]
async fn waiting_for_a_permit_ends_at_the_deadline() {
    let server = scripted(Reply::hang()).await;
    let client = ModelClient::new(Options {
        max_concurrent: 1,
        ..options()
    });
    let (models, messages) = ([model(&server, "m")], hello());
    let ask = |time_left| {
        let request = ChatRequest {
            time_left,
            ..ChatRequest::new(&models, &messages)
        };
        let client = client.clone();
        async move { client.complete(&request, None).await.unwrap_err() }
    };
    let first = ask(Duration::from_millis(400));
    let second = async {
        server.wait_for_requests(1).await;
        ask(Duration::from_millis(20)).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.code(), first.attempts), ("llm.timed_out", 1));
    assert_eq!((second.code(), second.attempts), ("llm.timed_out", 0));
}

#[tokio::test]
async fn a_cancelled_request_releases_its_permit() {
    let server = scripted([Reply::hang(), Reply::text("ok")]).await;
    let client = ModelClient::new(Options {
        max_concurrent: 1,
        ..options()
    });
    let (models, messages) = ([model(&server, "m")], hello());
    let request = ChatRequest::new(&models, &messages);
    tokio::select! {
        _ = client.complete(&request, None) => panic!("the server hangs"),
        () = server.wait_for_requests(1) => {}
    }
    assert!(client.complete(&request, None).await.is_ok());
}

#[tokio::test]
async fn connections_are_used_again() {
    for stream in [false, true] {
        let server = scripted(Reply::text("some words")).await;
        let (models, messages) = ([model(&server, "m")], hello());
        let request = ChatRequest {
            stream,
            ..ChatRequest::new(&models, &messages)
        };
        let client = ModelClient::new(options());
        for _ in 0..5 {
            client.complete(&request, None).await.unwrap();
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let echo = Script::by(|ask| {
        let sent = ask.headers["authorization"].to_str().unwrap();
        let key = sent.strip_prefix("Bearer ").unwrap();
        let shortened = format!("{}****{}", &key[..7], &key[key.len() - 4..]);
        match ask.body["model"].as_str().unwrap() {
            "refused" => Reply::refusal(401, &format!("Incorrect key: {key} or {shortened}.")),
            "busy" => Reply::refusal(503, sent),
            "plain" => Reply::bytes(sent.to_owned()).with_status(400),
            "inside" => Reply::raw(&json!({"error": {"message": sent}})),
            "malformed" => Reply::bytes(format!("{{\"choices\": \"{sent}\"}}")),
            _ => Reply::text("x").cut(0),
        }
    });
    let server = scripted(echo).await;
    let client = ModelClient::new(options());
    for name in ["refused", "busy", "plain", "inside", "malformed", "cut"] {
        let config = LlmConfig {
            endpoint: format!("{}?token=query-secret", server.endpoint()),
            ..model(&server, name)
        };
        let (models, messages) = ([config], hello());
        let request = ChatRequest::new(&models, &messages);
        let error = client.complete(&request, None).await.unwrap_err();
        for shown in [
            format!("{error}"),
            format!("{error:?}"),
            format!("{request:?}"),
            format!("{client:?}"),
        ] {
            assert!(!shown.contains(&KEY[..7]), "{shown}");
            assert!(!shown.contains("query-secret"), "{shown}");
        }
    }
    let sent = &server.requests()[0];
    assert_eq!(sent.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(sent.uri, "/v1/chat/completions?token=query-secret");
}

#[tokio::test]
async fn a_completion_can_move_between_threads() {
    fn movable<T: Send>(future: T) -> T {
        future
    }
    let server = scripted(Reply::text("ok")).await;
    let (models, messages) = ([model(&server, "m")], hello());
    let request = ChatRequest::new(&models, &messages);
    let client = ModelClient::default();
    assert!(movable(client.complete(&request, None)).await.is_ok());
}

#[tokio::test]
async fn two_spellings_of_an_address_share_one_limit() {
    let gate = Arc::new(Semaphore::new(0));
    let server = scripted(Reply::text("ok").gated(&gate)).await;
    let client = ModelClient::new(Options {
        max_concurrent: 1,
        ..options()
    });
    let slashed = LlmConfig {
        endpoint: server.endpoint() + "/",
        ..model(&server, "m")
    };
    let (models, messages) = ([model(&server, "m"), slashed], hello());
    let asks = models.iter().map(|config| {
        let (client, messages) = (&client, &messages);
        async move {
            let request = ChatRequest::new(std::slice::from_ref(config), messages);
            client.complete(&request, None).await
        }
    });
    let opened = async {
        server.wait_for_requests(1).await;
        gate.add_permits(2);
    };
    let (replies, ()) = tokio::join!(join_all(asks), opened);
    assert!(replies.iter().all(Result::is_ok));
    assert_eq!(server.max_concurrent(), 1);
}

#[tokio::test]
async fn concurrent_requests_to_a_failing_server_all_get_their_own_answer() {
    let requests = AtomicUsize::new(0);
    let flaky = Script::by(move |ask| {
        let asked_for = ask.body["messages"][0]["content"].as_str().unwrap();
        let answer = Reply::text(format!("answer to {asked_for}"));
        match requests.fetch_add(1, Ordering::Relaxed) % 10 {
            0 | 3 | 6 => Reply::status(503),
            1 => answer.cut(30),
            4 => Reply::bytes("{\"choices\": [{\"mess"),
            8 => Reply::status(429).header("retry-after-ms", "1"),
            _ => answer,
        }
    });
    let server = scripted(flaky).await;
    let client = ModelClient::new(Options {
        max_attempts: 40,
        ..options()
    });
    let models = [model(&server, "m")];
    let asks = (0..200).map(|number| {
        let (client, models) = (&client, &models);
        async move {
            let message = format!("question {number}");
            let messages = [Message::user(&message, Timestamp::UNIX_EPOCH).unwrap()];
            let request = ChatRequest {
                stream: number % 2 == 0,
                ..ChatRequest::new(models, &messages)
            };
            let reply = client.complete(&request, None).await.unwrap();
            assert_eq!(reply.text, format!("answer to {message}"));
            reply.attempts as usize
        }
    });
    let attempts: usize = join_all(asks).await.into_iter().sum();
    // Every request is counted in exactly one reply.
    assert_eq!(attempts, server.requests().len());
    assert!(attempts > 200 && server.max_concurrent() <= 64);
}
