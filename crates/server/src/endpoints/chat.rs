//! A chat without a stored conversation: a message and the messages before it, and what the app says to it. Errors have
//! the form of an answer.

use convoke::{App, Runtime, TaskView};
use convoke_model::{
    ErrorType, Injected, Message, MessageFields, Role, ToolCall, UserId, UserRole,
};
use futures::FutureExt;
use http::{Method, StatusCode};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{schema_of, submit_task};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Answers, Errors, Route};

pub(super) const ROUTE: Route = Route {
    method: &Method::POST,
    path: "/v1/chat",
    name: "chat",
    summary: "Say something after a history that the request brings, and wait for the answer",
    request: Some(schema_of::<ChatRequest>),
    answers: &[
        (200, Answers::Json(schema_of::<ChatResponse>)),
        (202, Answers::Json(schema_of::<ChatResponse>)),
    ],
    errors: Errors {
        media_type: "application/json",
        schema: schema_of::<ChatResponse>,
        write: refusal,
    },
    handler: |call| chat(call).boxed(),
    ..Route::OF_USERS
};

/// Said while a task goes on longer than a request waits for it.
const STILL_WORKING: &str = "I'm still working on that.";

/// A message and the messages before it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChatRequest {
    /// The user, who is the one of the token. Any other is refused.
    #[serde(default)]
    user_id: Option<UserId>,
    /// What the user says.
    #[schemars(length(min = 1))]
    message: String,
    /// The messages before it, oldest first. The newest `limits.history_messages` of the app count.
    #[serde(default)]
    conversation_history: Vec<ChatMessage>,
}

/// A message of a history.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChatMessage {
    role: ChatRole,
    #[schemars(length(min = 1))]
    content: String,
    /// ISO 8601; in UTC where it names no zone.
    #[serde(default)]
    timestamp: Option<String>,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ChatRole {
    User,
    Assistant,
    /// Instructions. Those of a caller with the role `user` count as words of that user.
    System,
}

/// What the app says, and how it came to it.
#[derive(Debug, Serialize, JsonSchema)]
struct ChatResponse {
    /// For the user.
    #[schemars(length(min = 1))]
    response_text: String,
    /// The tool calls that were made for it.
    tool_invocations: Vec<ToolInvocation>,
    /// `intent`, `processing_time_ms`, `task` and `state`; `error_type` and `code` of an error; `questions` to a person.
    metadata: Map<String, Value>,
}

/// A tool call.
#[derive(Debug, Serialize, JsonSchema)]
struct ToolInvocation {
    tool_name: String,
    /// The arguments, with the user's id where the tool gets it.
    parameters: Map<String, Value>,
    result: Option<Map<String, Value>>,
    /// Why there is no result.
    error: Option<String>,
    duration_ms: Option<u64>,
}

async fn chat(call: Call) -> Result<Reply, Problem> {
    let runtime = call.runtime()?;
    let request: ChatRequest = call.json()?;
    let user = call.user();
    if request.user_id.is_some_and(|named| named != user) {
        let detail = "`user_id` is another user than the one of the token";
        let status = StatusCode::FORBIDDEN;
        return Err(Problem::new(status, "auth.user_mismatch", detail));
    }
    let history = request.conversation_history.into_iter().enumerate();
    let history = history.map(|(place, message)| message.read(place, call.role()));
    let history = history.collect::<Result<Vec<Message>, Problem>>()?;
    let incoming = submit_task::incoming(&call, request.message)?.history(history);
    let task = runtime.submit(incoming).await?;
    let status = match submit_task::wait(&call, &runtime, task).await? {
        StatusCode::ACCEPTED => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    let view = runtime.task(user, task).await?;
    let response = ChatResponse::of(view, &runtime, user);
    Ok(Reply::json(&response)
        .status(status)
        .location(&submit_task::location(&runtime, task)))
}

impl ChatMessage {
    fn read(self, place: usize, caller: UserRole) -> Result<Message, Problem> {
        let role = match self.role {
            ChatRole::Assistant => Role::Assistant,
            // The history comes from outside, so instructions in it count only from who may give them.
            ChatRole::System if caller > UserRole::User => Role::System,
            ChatRole::User | ChatRole::System => Role::User,
        };
        let timestamp = match self.timestamp.as_deref().map(read_time) {
            Some(None) => {
                let detail = format!(
                    "message {} of the history has a `timestamp` that is no ISO 8601",
                    place + 1
                );
                return Err(Problem::bad_request("request.history_timestamp", detail));
            }
            read => read.flatten(),
        };
        let message = Message::new(MessageFields {
            timestamp,
            ..MessageFields::draft(role, self.content, Timestamp::UNIX_EPOCH)
        });
        message.map_err(|invalid| {
            let detail = format!("message {} of the history: {invalid}", place + 1);
            Problem::bad_request("request.history_message", detail)
        })
    }
}

fn read_time(text: &str) -> Option<Timestamp> {
    let with_zone = text.parse::<Timestamp>().ok();
    with_zone.or_else(|| {
        let time: DateTime = text.parse().ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

impl ChatResponse {
    fn of(view: TaskView, runtime: &Runtime, user: UserId) -> Self {
        let (app, state) = (runtime.app(), view.info.state);
        let prompts: Vec<&str> = view.questions.iter().map(|it| it.prompt.as_str()).collect();
        let response_text = match &view.answer {
            Some(answer) => answer.text.clone(),
            None if !prompts.is_empty() => prompts.join("\n"),
            None if state.is_final() => runtime.words_of_end(state),
            None => STILL_WORKING.to_owned(),
        };
        let (mut metadata, calls) = match view.answer {
            Some(answer) => {
                let answer = answer.into_fields();
                let mut metadata = answer.metadata;
                let took = answer.total_execution_time_ms;
                metadata.insert("processing_time_ms".into(), took.into());
                (metadata, answer.tool_calls)
            }
            None => (Map::new(), Vec::new()),
        };
        metadata.insert("task".into(), json!(view.info.id));
        metadata.insert("state".into(), json!(state));
        if !view.questions.is_empty() {
            metadata.insert("questions".into(), json!(view.questions));
        }
        let calls = calls.into_iter();
        let calls = calls.map(|call| ToolInvocation::of(call, &app, user));
        Self {
            response_text,
            tool_invocations: calls.collect(),
            metadata,
        }
    }
}

impl ToolInvocation {
    fn of(call: ToolCall, app: &App, user: UserId) -> Self {
        let call = call.into_fields();
        let mut parameters = call.arguments;
        let server = app.servers.iter().find(|server| server.name == call.server);
        let injected = server.into_iter().flat_map(|server| &server.inject);
        for (argument, _) in injected.filter(|(_, what)| **what == Injected::UserId) {
            parameters.insert(argument.clone(), json!(user));
        }
        Self {
            tool_name: call.tool,
            parameters,
            result: call.result.map(|result| match result {
                Value::Object(result) => result,
                other => Map::from_iter([("result".to_owned(), other)]),
            }),
            error: call.error,
            duration_ms: call.duration_ms,
        }
    }
}

/// An error in the form of an answer.
fn refusal(problem: Problem, app: Option<&Runtime>) -> Reply {
    let code = problem.code();
    let words = app.and_then(|app| app.words_of_refusal(code));
    let mut metadata = Map::from_iter([("code".to_owned(), json!(code))]);
    if let Some(error_type) = ErrorType::of_request(code) {
        metadata.insert("error_type".into(), json!(error_type));
    }
    let (status, headers) = (problem.status(), problem.headers().to_vec());
    let response = ChatResponse {
        response_text: words.unwrap_or_else(|| problem.into_detail()),
        tool_invocations: Vec::new(),
        metadata,
    };
    let reply = Reply::json(&response).status(status);
    headers
        .into_iter()
        .fold(reply, |reply, (name, value)| reply.header(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_a_zone() {
        let noon = "2026-02-07T12:00:00Z".parse().unwrap();
        for text in [
            "2026-02-07T12:00:00Z",
            "2026-02-07T13:00:00+01:00",
            "2026-02-07T12:00:00",
            "2026-02-07T12:00:00.000",
        ] {
            assert_eq!(read_time(text), Some(noon), "{text}");
        }
        assert_eq!(read_time("yesterday"), None);
    }

    #[test]
    fn instructions_of_a_user_count_as_words_of_that_user() {
        let message = || ChatMessage {
            role: ChatRole::System,
            content: "Obey.".into(),
            timestamp: None,
        };
        for (caller, role) in [
            (UserRole::User, Role::User),
            (UserRole::Operator, Role::System),
        ] {
            assert_eq!(message().read(0, caller).unwrap().role, role);
        }
    }
}
