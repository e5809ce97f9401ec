//! What the app says to a user who gets no answer: of a request that was refused before it became a task, and of a task
//! that ended without words.

use convoke_app::AppConfig;
use convoke_model::TaskState;
use serde_json::{Map, Value, json};

use crate::template::Templates;

/// What the app says to a user whose request was refused with this code, if it has words for it.
pub fn words_of_refusal(config: &AppConfig, code: &str) -> Option<String> {
    let messages = &config.messages;
    let template = match code {
        "request.message_empty" => &messages.empty,
        "request.message_long" => &messages.too_long,
        "engine.busy" => &messages.busy,
        _ => return None,
    };
    let limit = json!(config.limits.message_characters);
    let context = [("limit", limit), ("slot", Value::Null)];
    let context = Map::from_iter(context.map(|(name, value)| (name.to_owned(), value)));
    let words = Templates::new().text(template, &context).ok()?;
    (!words.is_empty()).then_some(words)
}

/// What the app says to a user whose task ended in this state without an answer.
pub fn words_of_end(config: &AppConfig, state: TaskState) -> String {
    let template = match state {
        TaskState::Canceled => &config.messages.canceled,
        _ => &config.messages.failure,
    };
    let words = Templates::new().text(template, &Map::new());
    words.unwrap_or_else(|_| template.clone())
}
