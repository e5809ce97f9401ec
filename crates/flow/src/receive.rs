//! Checks a request against its limits and converts it for the engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use convoke_app::Limits;
use convoke_engine::{Live, NewRequest, QuestionAnswer, Retention};
use convoke_model::{
    Channel, Invalid, MAX_PARTS, Message, MessageFields, Part, Request, RequestLimits, Role, UserId,
};
use convoke_store::Blob;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::input::TaskInput;
use crate::request_history::{RequestHistory, check_history};

/// A request from a channel.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is submitted"]
pub struct IncomingRequest {
    user: UserId,
    conversation: Option<Uuid>,
    channel: Channel,
    text: String,
    key: Option<String>,
    live: Option<Live>,
    retention: Retention,
    not_before: Option<Duration>,
    while_busy: WhileBusy,
    trace: Option<String>,
    attachments: Vec<Attachment>,
    history: Option<Vec<Message>>,
}

/// What becomes of a request while an earlier one of its conversation is worked on. One that waits for a person or for its
/// time does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhileBusy {
    /// It waits for its turn.
    #[default]
    Enqueue,
    /// It is refused.
    Reject,
    /// The earlier ones are cancelled. What they did stays done.
    Interrupt,
}

/// A file or an image that comes with a message.
#[derive(Clone)]
pub struct Attachment {
    /// What it is called, without a folder.
    pub name: String,
    /// Its media type, such as `text/csv`. One that begins with `image/` makes it an image.
    pub media_type: String,
    /// All of it.
    pub content: Arc<[u8]>,
}

impl fmt::Debug for Attachment {
    /// Hides the content, which may be private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("name", &self.name)
            .field("media_type", &self.media_type)
            .field("bytes", &self.content.len())
            .finish()
    }
}

impl Attachment {
    fn part(self, limit_bytes: u64) -> Result<(Part, Blob), Invalid> {
        let blob = Blob::new(self.content, limit_bytes).map_err(|_| {
            let message = format!("an attachment has at most {limit_bytes} bytes");
            Invalid::one("request.attachment_too_large", message)
        })?;
        let (media_type, bytes) = (self.media_type, blob.info().bytes);
        let part = if media_type.starts_with("image/") {
            Part::Image {
                media_type,
                blob: blob.hash(),
                bytes,
            }
        } else {
            Part::File {
                name: self.name,
                media_type,
                blob: blob.hash(),
                bytes,
            }
        };
        Ok((part, blob))
    }
}

impl IncomingRequest {
    /// A message of a user, from the terminal and without a conversation. The caller has verified the user's id.
    pub fn new(user: UserId, text: impl Into<String>) -> Self {
        Self {
            user,
            conversation: None,
            channel: Channel::Terminal,
            text: text.into(),
            key: None,
            live: None,
            retention: Retention::default(),
            not_before: None,
            while_busy: WhileBusy::default(),
            trace: None,
            attachments: Vec::new(),
            history: None,
        }
    }

    /// The messages before this one, oldest first, in place of a stored conversation: nothing is read from or written to
    /// one. They are trusted like the user's id, so take them from where you keep them. The newest
    /// `limits.history_messages` count; the answer's `history_cut` says how many were cut.
    ///
    /// For "it" and "the second one" to be understood, an assistant's message carries the `memory` of its answer's
    /// metadata in its own.
    pub fn history(mut self, messages: impl Into<Option<Vec<Message>>>) -> Self {
        self.history = messages.into();
        self
    }

    /// Files and images that come with it: each of at most `limits.attachment_bytes`, and at most [`MAX_PARTS`].
    pub fn attach(mut self, attachments: impl IntoIterator<Item = Attachment>) -> Self {
        self.attachments.extend(attachments);
        self
    }

    /// Delays the start of the task by this time.
    pub fn not_before(mut self, delay: impl Into<Option<Duration>>) -> Self {
        self.not_before = delay.into();
        self
    }

    /// What becomes of it while an earlier request of its conversation is worked on.
    pub fn while_busy(mut self, what: WhileBusy) -> Self {
        self.while_busy = what;
        self
    }

    /// Whose it is.
    pub fn user(&self) -> UserId {
        self.user
    }

    /// Whether earlier requests of its conversation are cancelled, and that conversation.
    pub fn interrupts(&self) -> Option<Uuid> {
        let interrupts = self.while_busy == WhileBusy::Interrupt;
        self.conversation.filter(|_| interrupts)
    }

    /// The trace that it belongs to, as a W3C `traceparent`.
    pub fn trace(mut self, traceparent: impl Into<Option<String>>) -> Self {
        self.trace = traceparent.into();
        self
    }

    /// The conversation that it belongs to. The first request creates it.
    pub fn conversation(mut self, conversation: Uuid) -> Self {
        self.conversation = Some(conversation);
        self
    }

    /// The channel. The default is the terminal.
    pub fn channel(mut self, channel: Channel) -> Self {
        self.channel = channel;
        self
    }

    /// Idempotency key: a second request of the same user with the same key returns the first one's task. At most
    /// [`MAX_KEY_CHARACTERS`].
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The listener for live text, if the task runs in this process.
    pub fn live(mut self, live: impl Into<Option<Live>>) -> Self {
        self.live = live.into();
        self
    }

    /// Tags for the retention policy and for filters: at most [`MAX_TAGS`].
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.retention.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Days that the task is stored after it has ended, at least 1. Overrides the retention policy.
    pub fn keep_days(mut self, days: impl Into<Option<u32>>) -> Self {
        self.retention.days = days.into();
        self
    }
}

/// Limit of a request's key, in characters.
pub const MAX_KEY_CHARACTERS: usize = 256;

/// Limit of an answer to a question, in bytes of JSON.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Limit of tags per request.
pub const MAX_TAGS: usize = 20;

/// Limit of a tag, in characters.
pub const MAX_TAG_CHARACTERS: usize = 100;

/// Checks a request against the app's limits. A rejected request has no effect.
pub fn receive(
    incoming: IncomingRequest,
    limits: &Limits,
    at: Timestamp,
) -> Result<NewRequest, Invalid> {
    let request_limits = RequestLimits {
        message_characters: limits.message_characters as usize,
        history_messages: limits.history_messages as usize,
    };
    if incoming.history.is_some() && incoming.conversation.is_some() {
        let message = "a request has a history or a conversation, not both";
        return Err(Invalid::one("request.history_and_conversation", message));
    }
    let carries_history = incoming.history.is_some();
    let request = Request::receive(
        Some(incoming.user.uuid()),
        &incoming.text,
        incoming.history.unwrap_or_default(),
        &request_limits,
    )?;
    check_history(&request.history)?;
    if let Some(key) = &incoming.key {
        check_key(key)?;
    }
    check_retention(&incoming.retention)?;
    if incoming.attachments.len() > MAX_PARTS {
        let message = format!("a message has at most {MAX_PARTS} attachments");
        return Err(Invalid::one("request.too_many_attachments", message));
    }
    let attachments = incoming.attachments.into_iter();
    let attachments = attachments.map(|attachment| attachment.part(limits.attachment_bytes.into()));
    let attachments: Result<Vec<_>, Invalid> = attachments.collect();
    let (parts, blobs) = attachments?.into_iter().unzip();
    let mut message = MessageFields {
        parts,
        ..MessageFields::draft(Role::User, request.message.clone(), at)
    };
    if carries_history {
        let history = RequestHistory {
            messages: request.history.clone(),
            older: request.history_cut,
        };
        history.write_to(&mut message.metadata);
    }
    Ok(NewRequest {
        owner: incoming.user.uuid(),
        conversation: incoming.conversation,
        refused_if_busy: incoming.while_busy == WhileBusy::Reject,
        channel: incoming.channel,
        key: incoming.key,
        message: Message::new(message)?,
        blobs,
        input: json!(TaskInput::User),
        live: incoming.live,
        retention: incoming.retention,
        not_before: incoming.not_before,
        trace: incoming.trace,
    })
}

/// Checks an idempotency key. The error does not contain the key.
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

/// Checks the answer to a question. A rejected answer has no effect.
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

fn check_retention(retention: &Retention) -> Result<(), Invalid> {
    check_tags(&retention.tags)?;
    if retention.days == Some(0) {
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
