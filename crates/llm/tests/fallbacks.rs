//! The next model is asked if the first one fails, where that can help.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod asking;

use std::time::Duration;

use asking::{add, hello, model, options, scripted};
use convoke_llm::{ChatReply, ChatRequest, Feature, LlmError, LlmProblem, ModelClient, Output};
use convoke_model::LlmConfig;
use convoke_testkit::{Reply, ScriptedModel};
use serde_json::json;

async fn both(first: &ScriptedModel, second: &ScriptedModel) -> Result<ChatReply, LlmError> {
    let (models, messages) = ([model(first, "first"), model(second, "second")], hello());
    let request = ChatRequest::new(&models, &messages);
    ModelClient::new(options()).complete(&request, None).await
}

#[tokio::test]
async fn the_next_model_answers_for_one_that_does_not() {
    for (reply, tries) in [
        (Reply::status(503), 4),
        (Reply::status(429).retry_after("86400"), 1),
        (Reply::text("x").cut(0), 4),
        (Reply::bytes("no JSON"), 4),
        (Reply::status(401), 1),
        (Reply::status(403), 1),
        (Reply::status(404), 1),
    ] {
        let (first, second) = (scripted(reply).await, scripted(Reply::text("ok")).await);
        let reply = both(&first, &second).await.unwrap();
        assert_eq!(
            (reply.text.as_str(), reply.model.as_str()),
            ("ok", "second")
        );
        assert_eq!(reply.attempts, tries + 1);
        assert!(second.endpoint().starts_with(&reply.endpoint));
        assert_eq!(second.requests()[0].body["model"], "second");
    }
}

#[tokio::test]
async fn an_invalid_request_is_not_sent_to_the_next_model() {
    let (first, second) = (
        scripted(Reply::refusal(400, "messages must alternate")).await,
        scripted(Reply::text("ok")).await,
    );
    let error = both(&first, &second).await.unwrap_err();
    assert_eq!(
        (error.code(), error.model.as_str()),
        ("llm.refused", "first")
    );
    assert_eq!(second.requests().len(), 0);
}

#[tokio::test]
async fn of_several_failures_a_transient_one_is_returned() {
    let denied = scripted(Reply::status(401)).await;
    let busy = scripted(Reply::status(503)).await;
    for (first, second) in [(&denied, &busy), (&busy, &denied)] {
        let error = both(first, second).await.unwrap_err();
        assert_eq!((error.code(), error.attempts), ("llm.overloaded", 5));
    }
    let error = both(&denied, &denied).await.unwrap_err();
    assert_eq!(error.model, "first");
}

#[tokio::test]
async fn an_invalid_address_is_reported_and_skipped() {
    let server = scripted(Reply::text("ok")).await;
    let broken = LlmConfig {
        endpoint: "localhost:11434".to_owned(),
        ..model(&server, "broken")
    };
    let messages = hello();
    let client = ModelClient::new(options());
    let models = [broken.clone(), model(&server, "m")];
    let reply = client
        .complete(&ChatRequest::new(&models, &messages), None)
        .await;
    assert_eq!(reply.unwrap().model, "m");
    let models = [broken];
    let error = client
        .complete(&ChatRequest::new(&models, &messages), None)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "llm.misconfigured");
    assert!(error.to_string().contains("http://"), "{error}");
}

#[tokio::test]
async fn without_a_model_there_is_an_error() {
    let messages = hello();
    let client = ModelClient::new(options());
    let request = ChatRequest::new(&[], &messages);
    let error = client.complete(&request, None).await.unwrap_err();
    assert_eq!((error.code(), error.attempts), ("llm.misconfigured", 0));
}

#[tokio::test]
async fn unsupported_features_have_their_own_error() {
    let schema = json!({"type": "object"});
    let tools = [add()];
    for (status, message, feature) in [
        (
            400,
            "This response_format type is unavailable now",
            Feature::StructuredOutput,
        ),
        (
            400,
            "'response_format.type' must be 'text'; json_schema is not supported",
            Feature::StructuredOutput,
        ),
        (
            422,
            "Structured outputs are not available for this model",
            Feature::StructuredOutput,
        ),
        (
            400,
            "registry.ollama.ai/library/gemma:2b does not support tools",
            Feature::Tools,
        ),
        (500, "tools param requires --jinja flag", Feature::Tools),
        (
            400,
            "\"auto\" tool choice requires --enable-auto-tool-choice to be set",
            Feature::Tools,
        ),
    ] {
        let server = scripted(Reply::refusal(status, message)).await;
        let (models, messages) = ([model(&server, "m"), model(&server, "n")], hello());
        let request = ChatRequest {
            tools: &tools,
            output: Output::JsonSchema {
                name: "call",
                schema: &schema,
            },
            ..ChatRequest::new(&models, &messages)
        };
        let client = ModelClient::new(options());
        let error = client.complete(&request, None).await.unwrap_err();
        let expected = LlmProblem::Unsupported {
            feature,
            message: message.to_owned(),
        };
        assert_eq!((error.problem, error.attempts), (expected, 1));
        // The same message means nothing to a request without these features.
        let plain = ChatRequest::new(&models, &messages);
        let error = client.complete(&plain, None).await.unwrap_err();
        assert!(!matches!(error.problem, LlmProblem::Unsupported { .. }));
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_has_its_own_error() {
    for body in [
        json!({"error": {"message": "too much", "code": "context_length_exceeded"}}),
        json!({"error": {"message": "This model's maximum context length is 8192 tokens."}}),
        json!({"error": {"message": "the request exceeds the available context size"}}),
        json!({"error": {"message": "x", "type": "exceed_context_size_error", "code": 400}}),
    ] {
        let first = scripted(Reply::raw(&body).with_status(400)).await;
        let second = scripted(Reply::text("ok")).await;
        let error = both(&first, &second).await.unwrap_err();
        assert_eq!((error.code(), error.attempts), ("llm.too_long", 1));
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn a_dialect_that_a_model_rejects_is_replaced_and_remembered() {
    let server = scripted(convoke_testkit::Script::by(|ask| {
        let body = ask.body.as_object().unwrap();
        if body.contains_key("max_tokens") {
            let message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.";
            return Reply::refusal(400, message);
        }
        if body.contains_key("temperature") {
            let message = "Unsupported value: 'temperature' does not support 0.2";
            return Reply::refusal(400, message);
        }
        if body.contains_key("stream_options") {
            return Reply::refusal(400, "unknown field stream_options");
        }
        Reply::text("ok")
    }))
    .await;
    let (models, messages) = ([model(&server, "m")], hello());
    let request = ChatRequest {
        max_output_tokens: Some(77),
        temperature: 0.2,
        stream: true,
        time_left: Duration::from_mins(1),
        ..ChatRequest::new(&models, &messages)
    };
    let client = ModelClient::new(options());
    assert_eq!(client.complete(&request, None).await.unwrap().attempts, 4);
    assert_eq!(client.complete(&request, None).await.unwrap().attempts, 1);
    assert_eq!(server.requests()[4].body["max_completion_tokens"], 77);
}
