//! The way in: bounds a request before anything works on it, and makes it what the engine accepts.

use convoke_app::Limits;
use convoke_engine::{Keeping, Live, NewRequest};
use convoke_model::{Channel, Invalid, Message, Request, RequestLimits, UserId};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

/// What comes in from a channel. The user id has been verified by whoever took it in.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The verified user.
    pub user: UserId,
    /// The conversation, if it is part of one.
    pub conversation: Option<Uuid>,
    /// Where it came in.
    pub channel: Channel,
    /// What was said.
    pub text: String,
    /// The same user's same key is the same request.
    pub key: Option<String>,
    /// Who listens to the answer as it is made.
    pub live: Option<Live>,
    /// How long it is kept, where it has a wish of its own.
    pub keeping: Keeping,
}

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
    check_keeping(&incoming.keeping)?;
    Ok(NewRequest {
        owner: incoming.user.uuid(),
        conversation: incoming.conversation,
        channel: incoming.channel,
        key: incoming.key,
        message: Message::user(request.message.clone(), at)?,
        input: json!({}),
        live: incoming.live,
        keeping: incoming.keeping,
    })
}

fn check_keeping(keeping: &Keeping) -> Result<(), Invalid> {
    let fits = |tag: &String| !tag.trim().is_empty() && tag.chars().count() <= MAX_TAG_CHARACTERS;
    if keeping.tags.len() > MAX_TAGS || !keeping.tags.iter().all(fits) {
        let message = format!(
            "a request has at most {MAX_TAGS} tags of 1 to {MAX_TAG_CHARACTERS} characters"
        );
        return Err(Invalid::one("request.tags", message));
    }
    if keeping.days == Some(0) {
        let message = "a task is kept for at least 1 day";
        return Err(Invalid::one("request.keep_days", message));
    }
    Ok(())
}
