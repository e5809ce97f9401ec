//! Reads an answer that is not streamed.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::lenient::{Arguments, Count, FinishReason, Text};
use crate::reply::{Finish, ModelCall, Usage};

/// The content of an answer, streamed or not.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) text: String,
    pub(crate) tool_calls: Vec<ModelCall>,
    pub(crate) usage: Option<Usage>,
    pub(crate) finish: Option<Finish>,
}

impl Content {
    /// The reason to stop. If the server gives none, or `stop` with calls, it is inferred from the
    /// content.
    pub(crate) fn finish(&self) -> Finish {
        match self.finish {
            Some(Finish::Stop) | None if !self.tool_calls.is_empty() => Finish::ToolCalls,
            Some(Finish::ToolCalls) | None if self.tool_calls.is_empty() => Finish::Stop,
            Some(finish) => finish,
            None => Finish::Stop,
        }
    }
}

/// Why an answer has no content.
#[derive(Debug)]
pub(crate) enum EmptyReason {
    /// It does not follow the format.
    Malformed(String),
    /// It contains an error, whatever its status.
    Error(Value),
}

impl From<serde_json::Error> for EmptyReason {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl fmt::Display for EmptyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(reason) => f.write_str(reason),
            Self::Error(error) => write!(f, "{error}"),
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    message: Option<WireMessage<Arguments>>,
    #[serde(default)]
    finish_reason: FinishReason,
    #[serde(default)]
    error: Option<Value>,
}

/// A message or a part of one. Reasoning (`reasoning`, `reasoning_content`) is ignored.
#[derive(Deserialize)]
#[serde(bound = "A: Deserialize<'de> + Default")]
pub(crate) struct WireMessage<A> {
    #[serde(default)]
    pub(crate) content: Text,
    #[serde(default)]
    pub(crate) refusal: Text,
    pub(crate) tool_calls: Option<Vec<WireCall<A>>>,
}

#[derive(Deserialize)]
#[serde(bound = "A: Deserialize<'de> + Default")]
pub(crate) struct WireCall<A> {
    #[serde(default)]
    pub(crate) index: Count,
    #[serde(default)]
    pub(crate) id: Text,
    pub(crate) function: Option<WireFunction<A>>,
}

#[derive(Deserialize)]
#[serde(bound = "A: Deserialize<'de> + Default")]
pub(crate) struct WireFunction<A> {
    #[serde(default)]
    pub(crate) name: Text,
    #[serde(default)]
    pub(crate) arguments: A,
}

#[derive(Deserialize)]
pub(crate) struct WireUsage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
}

impl WireUsage {
    /// `None` for zero prompt tokens, which means that usage was not counted.
    pub(crate) fn counted(&self) -> Option<Usage> {
        Some(Usage {
            input_tokens: self.prompt_tokens.0.filter(|&tokens| tokens > 0)?,
            output_tokens: self.completion_tokens.0?,
            estimated: false,
        })
    }
}

/// Reads a whole answer.
pub(crate) fn read(body: &[u8]) -> Result<Content, EmptyReason> {
    let answer: Answer = serde_json::from_slice(body)?;
    if let Some(error) = answer.error.filter(|error| !error.is_null()) {
        return Err(EmptyReason::Error(error));
    }
    let Some(choice) = answer
        .choices
        .and_then(|choices| choices.into_iter().next())
    else {
        return Err(EmptyReason::Malformed("it has no choices".to_owned()));
    };
    if let Some(error) = choice.error.filter(|error| !error.is_null()) {
        return Err(EmptyReason::Error(error));
    }
    let Some(message) = choice.message else {
        return Err(EmptyReason::Malformed(
            "its choice has no message".to_owned(),
        ));
    };
    let mut tool_calls = Vec::new();
    for call in message.tool_calls.into_iter().flatten() {
        let Some(function) = call.function else {
            continue;
        };
        push_call(
            &mut tool_calls,
            call.id.0,
            function.name.0,
            function.arguments.0,
        );
    }
    let text = match message.content.0 {
        text if text.is_empty() => message.refusal.0,
        text => text,
    };
    Ok(Content {
        text,
        tool_calls,
        usage: answer.usage.as_ref().and_then(WireUsage::counted),
        finish: choice.finish_reason.0,
    })
}

/// Adds a call. Missing and duplicate ids are dropped, because they cannot identify a call.
pub(crate) fn push_call(
    calls: &mut Vec<ModelCall>,
    id: String,
    name: String,
    arguments: Result<serde_json::Map<String, Value>, String>,
) {
    let is_unusable = id.is_empty()
        || calls
            .iter()
            .any(|other| other.id.as_deref() == Some(id.as_str()));
    calls.push(ModelCall {
        id: (!is_unusable).then_some(id),
        name,
        arguments,
    });
}
