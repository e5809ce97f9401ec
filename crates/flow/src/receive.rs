//! The way in: bounds a request before anything works on it, and makes it what the engine accepts.

use std::time::Duration;

use convoke_app::Limits;
use convoke_engine::{Live, NewRequest, QuestionAnswer, Retention};
use convoke_model::{Channel, Invalid, Message, Request, RequestLimits, UserId};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::input::TaskInput;

/// What comes in from a channel.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is submitted"]
pub struct Incoming {
    user: UserId,
    conversation: Option<Uuid>,
    channel: Channel,
    text: String,
    key: Option<String>,
    live: Option<Live>,
    keeping: Retention,
    not_before: Option<Duration>,
    trace: Option<String>,
}

impl Incoming {
    /// What a user said, at the terminal and outside any conversation. Whoever took it in has verified the
    /// user's id.
    pub fn new(user: UserId, text: impl Into<String>) -> Self {
        Self {
            user,
            conversation: None,
            channel: Channel::Terminal,
            text: text.into(),
            key: None,
            live: None,
            keeping: Retention::default(),
            not_before: None,
            trace: None,
        }
    }

    /// It is begun after this time, and not before.
    pub fn not_before(mut self, delay: impl Into<Option<Duration>>) -> Self {
        self.not_before = delay.into();
        self
    }

    /// The trace that it belongs to, as W3C trace context writes it (`traceparent`).
    pub fn trace(mut self, traceparent: impl Into<Option<String>>) -> Self {
        self.trace = traceparent.into();
        self
    }

    /// It is part of this conversation of the user's, which is begun with its first request.
    pub fn conversation(mut self, conversation: Uuid) -> Self {
        self.conversation = Some(conversation);
        self
    }

    /// Where it came in.
    pub fn channel(mut self, channel: Channel) -> Self {
        self.channel = channel;
        self
    }

    /// The same user's same key is the same request, and so the same task. It has at most
    /// [`MAX_KEY_CHARACTERS`].
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Who listens to the answer as it is made, as long as that is in this process.
    pub fn live(mut self, live: impl Into<Option<Live>>) -> Self {
        self.live = live.into();
        self
    }

    /// Words that the retention policy and people find the task by: at most [`MAX_TAGS`].
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.keeping.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Days for which the task is kept once it has ended, at least 1, whatever the policy says.
    pub fn keep_days(mut self, days: impl Into<Option<u32>>) -> Self {
        self.keeping.days = days.into();
        self
    }
}

/// Characters that a request's key may have.
pub const MAX_KEY_CHARACTERS: usize = 256;

/// Bytes that an answer to a question may have, written as JSON.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Tags that a request may have.
pub const MAX_TAGS: usize = 20;

/// Characters that a tag may have.
pub const MAX_TAG_CHARACTERS: usize = 100;

/// Checks a request against the app's limits. A refused one changes nothing.
pub fn receive(incoming: Incoming, limits: &Limits, at: Timestamp) -> Result<NewRequest, Invalid> {
    let request_limits = RequestLimits {
        message_characters: limits.message_characters as usize,
        history_messages: limits.history_messages as usize,
    };
    let request = Request::receive(
        Some(incoming.user.uuid()),
        &incoming.text,
        Vec::new(),
        &request_limits,
    )?;
    if let Some(key) = &incoming.key {
        check_key(key)?;
    }
    check_keeping(&incoming.keeping)?;
    Ok(NewRequest {
        owner: incoming.user.uuid(),
        conversation: incoming.conversation,
        channel: incoming.channel,
        key: incoming.key,
        message: Message::user(request.message.clone(), at)?,
        input: json!(TaskInput::User),
        live: incoming.live,
        keeping: incoming.keeping,
        not_before: incoming.not_before,
        trace: incoming.trace,
    })
}

/// Checks a key by which the same request is known again. It is not repeated in the message.
pub fn check_key(key: &str) -> Result<(), Invalid> {
    if is_word(key, MAX_KEY_CHARACTERS) {
        return Ok(());
    }
    let message =
        format!("a key has 1 to {MAX_KEY_CHARACTERS} characters, none of them a control character");
    Err(Invalid::one("request.key", message))
}

/// Checks the tags of a request.
pub fn check_tags(tags: &[String]) -> Result<(), Invalid> {
    let fits = |tag: &String| !tag.trim().is_empty() && is_word(tag, MAX_TAG_CHARACTERS);
    if tags.len() <= MAX_TAGS && tags.iter().all(fits) {
        return Ok(());
    }
    let message = format!(
        "a request has at most {MAX_TAGS} tags of 1 to {MAX_TAG_CHARACTERS} characters, none of them \
         a control character"
    );
    Err(Invalid::one("request.tags", message))
}

/// Checks what a person says to a question. A refused answer changes nothing.
pub fn check_answer(answer: &QuestionAnswer) -> Result<(), Invalid> {
    if json!(answer).to_string().len() <= MAX_ANSWER_BYTES {
        return Ok(());
    }
    let message = format!("an answer has at most {MAX_ANSWER_BYTES} bytes, written as JSON");
    Err(Invalid::one("answer.too_large", message))
}

fn is_word(text: &str, most: usize) -> bool {
    let mut characters = text.chars();
    !text.is_empty()
        && characters.by_ref().take(most).all(|one| !one.is_control())
        && characters.next().is_none()
}

fn check_keeping(keeping: &Retention) -> Result<(), Invalid> {
    check_tags(&keeping.tags)?;
    if keeping.days == Some(0) {
        let message = "a task is kept for at least 1 day";
        return Err(Invalid::one("request.keep_days", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_word_of_bounded_length() {
        let longest = "ä".repeat(MAX_KEY_CHARACTERS);
        assert!(check_key(&longest).is_ok() && check_key("order 7").is_ok());
        let longer = format!("{longest}k");
        for key in ["", "a\nb", "a\u{1b}[2K", "\u{0}", &longer] {
            let invalid = check_key(key).unwrap_err();
            assert!(invalid.has("request.key"), "{key:?}");
        }
        let endless = check_key(&"k".repeat(100_000)).unwrap_err();
        assert!(endless.to_string().len() < 200, "the key is not repeated");
    }

    #[test]
    fn tags_are_few_and_short() {
        let tags = |number, tag: &str| check_tags(&vec![tag.to_owned(); number]);
        assert!(tags(MAX_TAGS, &"t".repeat(MAX_TAG_CHARACTERS)).is_ok());
        for (number, tag) in [
            (MAX_TAGS + 1, "t"),
            (1, ""),
            (1, "  "),
            (1, "a\u{7}"),
            (1, &"t".repeat(MAX_TAG_CHARACTERS + 1)),
        ] {
            let invalid = tags(number, tag).unwrap_err();
            assert!(invalid.has("request.tags"), "{number} of {tag:?}");
        }
    }

    #[test]
    fn an_answer_is_bounded_whatever_it_says() {
        let approve = |length| QuestionAnswer::Approve {
            message: Some("m".repeat(length)),
        };
        assert!(check_answer(&approve(MAX_ANSWER_BYTES - 100)).is_ok());
        let modify = QuestionAnswer::Modify {
            value: json!({ "text": "m".repeat(MAX_ANSWER_BYTES) }),
        };
        for answer in [approve(MAX_ANSWER_BYTES), modify] {
            let invalid = check_answer(&answer).unwrap_err();
            assert!(invalid.has("answer.too_large"));
        }
    }
}
