//! One call: arguments in, a structured answer out.

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::answers::{Answer, IDEMPOTENCY_KEY};
use crate::failure::{CallProblem, Failure, Refuse};

/// The outcome of a call.
pub type Outcome<R> = Result<Answer, Failure<R>>;

/// A client's request to one tool.
#[derive(Debug, Clone, Default)]
pub struct Call {
    arguments: Map<String, Value>,
    key: Option<Value>,
}

impl Call {
    /// Parses the arguments.
    pub fn arguments<A: DeserializeOwned>(&self) -> Result<A, CallProblem> {
        A::deserialize(&self.arguments).map_err(|error| CallProblem::Arguments(error.to_string()))
    }

    /// The idempotency key, if the call has one. Its length is checked when it is used.
    pub fn key(&self) -> Result<Option<&str>, CallProblem> {
        self.key
            .as_ref()
            .map(|key| key.as_str().ok_or(CallProblem::Key))
            .transpose()
    }
}

/// Runs a call and converts the outcome to MCP. `run` gets the tool's name and the call, and returns
/// `None` for an unknown tool.
pub(crate) async fn answer<R: Refuse>(
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
    run: impl FnOnce(&str, &Call) -> Option<Outcome<R>> + Send + 'static,
) -> Result<CallToolResponse, ErrorData> {
    let name = request.name.clone();
    let call = Call {
        arguments: request.arguments.unwrap_or_default(),
        key: context.meta.get(IDEMPOTENCY_KEY).cloned(),
    };
    // Disk access and write locks must not block the connection.
    let outcome = tokio::task::spawn_blocking(move || run(&request.name, &call))
        .await
        .map_err(|error| internal::<R>(&error))?;
    match outcome {
        None => Err(ErrorData::invalid_params(
            format!("there is no tool `{name}`"),
            None,
        )),
        Some(Ok(answer)) => Ok(result(answer).into()),
        Some(Err(Failure::Refused(refusal))) => Ok(result(Answer::refused(&refusal)).into()),
        Some(Err(error)) => Err(internal::<R>(&error)),
    }
}

/// The structured answer, with a text for older clients: JSON for a result, the message for a refusal.
fn result(answer: Answer) -> CallToolResult {
    let Answer { content, is_error } = answer;
    if is_error {
        let sentence = content["message"].as_str().unwrap_or_default().to_owned();
        let mut result = CallToolResult::structured_error(content);
        result.content = vec![ContentBlock::text(sentence)];
        result
    } else {
        CallToolResult::structured(content)
    }
}

/// Logs the cause for the operator; the client only learns that the server failed.
fn internal<R: Refuse>(error: &dyn std::error::Error) -> ErrorData {
    tracing::error!(%error, "a call failed");
    let sentence = format!("the {} server is out of order; see its log", R::SERVER);
    ErrorData::internal_error(sentence, None)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::failure::example::Refusal;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only deserializing matters")]
    struct One {
        name: String,
    }

    fn call(arguments: &Value, key: Option<Value>) -> Call {
        Call {
            arguments: arguments.as_object().cloned().unwrap(),
            key,
        }
    }

    #[test]
    fn invalid_arguments_are_reported() {
        assert!(call(&json!({"name": "a"}), None).arguments::<One>().is_ok());
        for wrong in [json!({}), json!({"name": 1}), json!({"name": "a", "b": 1})] {
            let problem = call(&wrong, None).arguments::<One>().unwrap_err();
            assert!(matches!(problem, CallProblem::Arguments(_)), "{problem}");
        }
    }

    #[test]
    fn a_key_must_be_a_text() {
        let none = json!({});
        assert_eq!(call(&none, None).key(), Ok(None));
        assert_eq!(call(&none, Some(json!("k"))).key(), Ok(Some("k")));
        assert_eq!(call(&none, Some(json!(1))).key(), Err(CallProblem::Key));
    }

    #[test]
    fn a_refusal_is_a_tool_error_with_its_sentence_as_text() {
        let refused = result(Answer::refused(&Refusal::Full));
        assert_eq!(refused.is_error, Some(true));
        assert_eq!(refused.content, [ContentBlock::text("The drawer is full.")]);
        assert_eq!(refused.structured_content.unwrap()["code"], "drawer.full");
        let done = result(Answer::done(json!({"a": 1})));
        assert_eq!(done.is_error, Some(false));
        assert_eq!(done.content, [ContentBlock::text(r#"{"a":1}"#)]);
    }
}
