//! Transient failures are retried, permanent ones are not, and deadlines hold.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod asking;

use std::sync::Mutex;
use std::time::Duration;

use asking::{answer, ask, ask_with, event, hello, model, options, scripted};
use convoke_llm::{ChatRequest, Delta, LlmProblem, ModelClient, Options};
use convoke_testkit::{Reply, Script};
use serde_json::json;

#[tokio::test]
async fn every_transient_status_is_retried() {
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        let server = scripted([Reply::status(status), Reply::text("ok")]).await;
        let reply = ask(&server).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.attempts), ("ok", 2), "{status}");
    }
}

#[tokio::test]
async fn a_permanent_status_is_not_retried() {
    for (status, code) in [
        (400, "llm.refused"),
        (401, "llm.unauthorized"),
        (403, "llm.unauthorized"),
        (404, "llm.not_found"),
        (422, "llm.refused"),
        (302, "llm.refused"),
    ] {
        let server = scripted(Reply::refusal(status, "no such luck")).await;
        let error = ask(&server).await.unwrap_err();
        assert_eq!((error.code(), error.attempts), (code, 1));
        assert!(!error.is_transient());
        assert!(error.to_string().contains("no such luck"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn attempts_are_counted_and_limited() {
    let server = scripted(Reply::status(503)).await;
    let options = Options {
        max_attempts: 3,
        ..options()
    };
    let error = ask_with(options, &server, false).await.unwrap_err();
    assert_eq!((error.code(), error.attempts), ("llm.overloaded", 3));
    assert!(error.is_transient());
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn an_exhausted_quota_is_not_retried() {
    let spent = json!({"error": {"message": "pay first", "code": "insufficient_quota"}});
    let server = scripted(Reply::raw(&spent).with_status(429)).await;
    let error = ask(&server).await.unwrap_err();
    assert_eq!((error.code(), error.attempts), ("llm.refused", 1));
}

#[tokio::test]
async fn a_broken_answer_is_retried() {
    for stream in [false, true] {
        for after in [0, 1, 40] {
            let cut = Reply::text("some words to cut").cut(after);
            let server = scripted([cut, Reply::text("ok")]).await;
            let reply = ask_with(options(), &server, stream).await.unwrap();
            assert_eq!((reply.text.as_str(), reply.attempts), ("ok", 2));
        }
    }
}

#[tokio::test]
async fn a_stream_that_ends_properly_in_the_middle_of_the_answer_is_broken() {
    let half = Reply::sse([event(&json!({"content": "half an "}))]);
    let server = scripted(half).await;
    let error = ask_with(options(), &server, true).await.unwrap_err();
    assert_eq!((error.code(), error.attempts), ("llm.broken", 4));
    assert!(error.is_transient());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let server = scripted(Reply::text("ok")).await;
    let models = [model(&server, "m")];
    drop(server);
    let messages = hello();
    let request = ChatRequest::new(&models, &messages);
    // The port may take a moment to close.
    let error = loop {
        let client = ModelClient::new(options());
        if let Err(error) = client.complete(&request, None).await {
            break error;
        }
    };
    assert!(error.is_transient());
    assert_eq!((error.code(), error.attempts), ("llm.unreachable", 4));
}

#[tokio::test]
async fn an_unreadable_answer_is_retried() {
    for body in [
        "",
        "<html>",
        "{}",
        "{\"choices\": []}",
        "{\"choices\": [{}]}",
        "{\"choi",
        "[]",
    ] {
        let server = scripted([Reply::bytes(body), Reply::text("ok")]).await;
        assert_eq!(ask(&server).await.unwrap().attempts, 2, "{body}");
        let server = scripted(Reply::bytes(body)).await;
        let error = ask(&server).await.unwrap_err();
        assert_eq!((error.code(), error.attempts), ("llm.malformed", 4));
    }
    let server = scripted([Reply::sse(["data: {\"cho\n\n"]), Reply::text("ok")]).await;
    assert_eq!(
        ask_with(options(), &server, true).await.unwrap().attempts,
        2
    );
}

#[tokio::test]
async fn an_error_inside_a_good_answer_is_an_error() {
    for (error, code, attempts) in [
        (json!({"message": "busy", "code": 429}), "llm.overloaded", 4),
        (
            json!({"message": "upstream died", "code": 502}),
            "llm.overloaded",
            4,
        ),
        (
            json!({"message": "busy", "type": "rate_limit_error"}),
            "llm.overloaded",
            4,
        ),
        (json!("something broke"), "llm.overloaded", 4),
        (
            json!({"message": "bad key", "code": 401}),
            "llm.unauthorized",
            1,
        ),
        (
            json!({"message": "bad", "type": "invalid_request_error"}),
            "llm.refused",
            1,
        ),
    ] {
        let whole = Reply::raw(&json!({ "error": error }));
        let in_choice = Reply::raw(&json!({"choices": [{ "error": error }]}));
        let midway = Reply::sse([
            event(&json!({"content": "half"})),
            format!("data: {}\n\n", json!({ "error": error })),
        ]);
        for (reply, stream) in [(whole, false), (in_choice, false), (midway, true)] {
            let server = scripted(reply).await;
            let error = ask_with(options(), &server, stream).await.unwrap_err();
            assert_eq!((error.code(), error.attempts), (code, attempts));
        }
    }
}

#[tokio::test]
async fn a_server_message_in_any_format_is_passed_on() {
    for body in [
        json!({"error": {"message": "what is wrong"}}),
        json!({"error": "what is wrong"}),
        json!({"object": "error", "message": "what is wrong"}),
        json!({"detail": "what is wrong"}),
        json!({"detail": [{"msg": "what is wrong"}]}),
    ] {
        let server = scripted(Reply::raw(&body).with_status(400)).await;
        let error = ask(&server).await.unwrap_err();
        assert!(error.to_string().contains("what is wrong"), "{error}");
    }
    let server = scripted(Reply::bytes("what is wrong").with_status(400)).await;
    let error = ask(&server).await.unwrap_err();
    assert!(error.to_string().contains("what is wrong"), "{error}");
    let server = scripted(Reply::bytes("<html>a page</html>").with_status(400)).await;
    let error = ask(&server).await.unwrap_err();
    assert!(!error.to_string().contains("page"), "{error}");
}

#[tokio::test]
async fn a_pause_beyond_the_deadline_is_not_waited_for() {
    let server = scripted(Reply::status(429).retry_after("25")).await;
    let (models, messages) = ([model(&server, "m")], hello());
    let request = ChatRequest {
        time_left: Duration::from_secs(20),
        ..ChatRequest::new(&models, &messages)
    };
    let client = ModelClient::new(options());
    let error = client.complete(&request, None).await.unwrap_err();
    assert_eq!((error.code(), error.attempts), ("llm.overloaded", 1));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(25)));
}

#[tokio::test]
async fn a_more_precise_pause_takes_precedence() {
    let busy = Reply::status(503)
        .retry_after("3600")
        .header("retry-after-ms", "1");
    let server = scripted([busy, Reply::text("ok")]).await;
    assert_eq!(ask(&server).await.unwrap().attempts, 2);
}

#[tokio::test]
async fn the_deadline_ends_every_phase() {
    for reply in [
        Reply::hang(),
        Reply::text("some words").stall(0),
        Reply::text("some words").stall(60),
    ] {
        for stream in [false, true] {
            let server = scripted(reply.clone()).await;
            let (models, messages) = ([model(&server, "m"), model(&server, "n")], hello());
            let request = ChatRequest {
                stream,
                time_left: Duration::from_millis(60),
                ..ChatRequest::new(&models, &messages)
            };
            let client = ModelClient::new(options());
            let error = client.complete(&request, None).await.unwrap_err();
            assert_eq!(error.code(), "llm.timed_out");
            assert!(error.is_transient());
        }
    }
}

#[tokio::test]
async fn a_timeout_reports_the_previous_failure() {
    let server = scripted([Reply::refusal(503, "too busy"), Reply::hang()]).await;
    let (models, messages) = ([model(&server, "m")], hello());
    let request = ChatRequest {
        time_left: Duration::from_millis(100),
        ..ChatRequest::new(&models, &messages)
    };
    let client = ModelClient::new(options());
    let error = client.complete(&request, None).await.unwrap_err();
    assert_eq!((error.code(), error.attempts), ("llm.timed_out", 2));
    assert!(error.to_string().contains("too busy"), "{error}");
}

#[tokio::test]
async fn a_silent_server_is_retried_before_the_deadline() {
    let options = Options {
        attempt_timeout: Duration::from_millis(50),
        stream_idle_timeout: Duration::from_millis(50),
        ..options()
    };
    for stream in [false, true] {
        for silent in [Reply::hang(), Reply::text("some words").stall(60)] {
            let server = scripted(Script::from([silent, Reply::text("ok")])).await;
            let reply = ask_with(options.clone(), &server, stream).await.unwrap();
            assert_eq!((reply.text.as_str(), reply.attempts), ("ok", 2));
        }
    }
}

#[tokio::test]
async fn streamed_text_of_a_broken_stream_is_reset() {
    let words = [
        event(&json!({"content": "Never "})),
        event(&json!({"content": "mind"})),
    ];
    let server = scripted([Reply::sse(words), Reply::text("All good")]).await;
    let (models, messages) = ([model(&server, "m")], hello());
    let request = ChatRequest {
        stream: true,
        ..ChatRequest::new(&models, &messages)
    };
    let deltas = Mutex::new(Vec::new());
    let live = |delta: Delta<'_>| deltas.lock().unwrap().push(format!("{delta:?}"));
    let client = ModelClient::new(options());
    let reply = client.complete(&request, Some(&live)).await.unwrap();
    assert_eq!(reply.text, "All good");
    let expected = [
        r#"Text("Never ")"#,
        r#"Text("mind")"#,
        "Reset",
        r#"Text("All ")"#,
        r#"Text("good")"#,
    ];
    assert_eq!(*deltas.lock().unwrap(), expected);
}

#[tokio::test]
async fn nothing_is_reset_if_nothing_was_streamed() {
    let server = scripted([Reply::status(503), Reply::text("Good")]).await;
    let (models, messages) = ([model(&server, "m")], hello());
    let request = ChatRequest {
        stream: true,
        ..ChatRequest::new(&models, &messages)
    };
    let deltas = Mutex::new(Vec::new());
    let live = |delta: Delta<'_>| deltas.lock().unwrap().push(format!("{delta:?}"));
    let client = ModelClient::new(options());
    client.complete(&request, Some(&live)).await.unwrap();
    assert_eq!(*deltas.lock().unwrap(), [r#"Text("Good")"#]);
}

#[tokio::test]
async fn an_answer_larger_than_allowed_is_not_read() {
    let options = Options {
        max_response_bytes: 2_000,
        ..options()
    };
    for stream in [false, true] {
        let server = scripted(Reply::text("word ".repeat(2_000))).await;
        let error = ask_with(options.clone(), &server, stream)
            .await
            .unwrap_err();
        assert_eq!(error.problem, LlmProblem::TooLarge { limit: 2_000 });
        assert_eq!(error.attempts, 1);
    }
    let server = scripted(Reply::raw(&answer(&json!({"content": "short"})))).await;
    assert!(ask_with(options, &server, false).await.is_ok());
}

#[tokio::test]
async fn a_long_pause_is_left_to_a_caller_that_waits_itself() {
    let server = scripted(Reply::status(429).retry_after("25")).await;
    let (models, messages) = ([model(&server, "m")], hello());
    let client = ModelClient::new(options());
    for (postponed, left) in [(0, true), (options().max_attempts - 1, false)] {
        let request = ChatRequest {
            postponed: Some(postponed),
            time_left: Duration::from_mins(1),
            ..ChatRequest::new(&models, &messages)
        };
        let error = client.complete(&request, None).await.unwrap_err();
        assert_eq!((error.code(), error.attempts), ("llm.overloaded", 1));
        let is_left = error.retry_in.is_some_and(|pause| pause.as_secs() == 25);
        assert_eq!(is_left, left, "{error:?}");
    }
}

#[tokio::test]
async fn a_model_that_asks_for_a_long_pause_is_not_waited_for_while_another_answers() {
    let busy = scripted(Reply::status(429).retry_after("25")).await;
    let other = scripted(Reply::text("ok")).await;
    let (models, messages) = ([model(&busy, "m"), model(&other, "n")], hello());
    let request = ChatRequest {
        postponed: Some(0),
        time_left: Duration::from_mins(1),
        ..ChatRequest::new(&models, &messages)
    };
    let reply = ModelClient::new(options()).complete(&request, None).await;
    assert_eq!(reply.unwrap().text, "ok");
}
