//! A user's conversations: listed in pages, searched, deleted.

use convoke_engine::EngineError;
use convoke_model::UserId;
use convoke_store::{ConversationCursor, ConversationRecord, Deletion};
use uuid::Uuid;

use crate::error::RuntimeError;
use crate::runtime::Runtime;

/// Conversations that one page of a list may have.
pub const MAX_CONVERSATIONS_PER_PAGE: usize = 1_000;

/// Conversations that one search looks through. Whoever searches goes on after them.
const SEARCHED_CONVERSATIONS: usize = 200;

/// The newest messages of a conversation that a search looks through.
const SEARCHED_MESSAGES: usize = 200;

/// A part of a user's list of conversations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConversationPage {
    /// The conversations without their messages, the one with the newest message first.
    pub conversations: Vec<ConversationRecord>,
    /// Where the next page begins, if there may be more.
    pub next: Option<ConversationCursor>,
}

impl Runtime {
    /// A user's conversations after a position. With a `text`, those in which a message has it, in whatever case; a search
    /// looks through 200 conversations and the newest 200 messages of each, so a page may have fewer than `limit`, or
    /// none, and still be followed by another.
    pub async fn conversations(
        &self,
        user: UserId,
        text: Option<&str>,
        after: Option<ConversationCursor>,
        limit: usize,
    ) -> Result<ConversationPage, RuntimeError> {
        let viewer = self.viewer(user);
        let limit = limit.min(MAX_CONVERSATIONS_PER_PAGE);
        let Some(text) = text else {
            let mut conversations = self
                .store()
                .conversations(&viewer, after, limit + 1)
                .await?;
            let is_last = conversations.len() <= limit;
            conversations.truncate(limit);
            let next = conversations.last().filter(|_| !is_last);
            return Ok(ConversationPage {
                next: next.map(ConversationRecord::cursor),
                conversations,
            });
        };
        let text = text.to_lowercase();
        let most = SEARCHED_CONVERSATIONS;
        let searched = self.store().conversations(&viewer, after, most).await?;
        let is_last = searched.len() < most;
        let mut conversations = Vec::new();
        let mut next = searched
            .last()
            .filter(|_| !is_last)
            .map(ConversationRecord::cursor);
        for mut found in searched {
            if conversations.len() == limit {
                next = conversations.last().map(ConversationRecord::cursor);
                break;
            }
            let read = self.store();
            let read = read
                .conversation(&viewer, found.id, None, SEARCHED_MESSAGES)
                .await?;
            let messages = read.map(|read| read.messages).unwrap_or_default();
            let has_text = |content: &str| content.to_lowercase().contains(&text);
            if messages.iter().any(|message| has_text(&message.content)) {
                found.messages.clear();
                conversations.push(found);
            }
        }
        Ok(ConversationPage {
            conversations,
            next,
        })
    }

    /// Deletes a user's conversation with its tasks and all that belongs to them. Refused while one of them has not ended
    /// (`conversation.unfinished`). Returns whether there is such a conversation. Forks of its tasks remain: they are tasks of
    /// their own.
    pub async fn delete_conversation(
        &self,
        user: UserId,
        conversation: Uuid,
    ) -> Result<bool, RuntimeError> {
        let viewer = self.viewer(user);
        let deleted = self.store().delete_conversation(&viewer, conversation);
        match deleted.await? {
            None => Ok(false),
            Some(Deletion::Deleted) => Ok(true),
            Some(Deletion::Unfinished) => {
                let message = "a task of the conversation has not ended; cancel it, or wait";
                let code = "conversation.unfinished";
                let message = message.to_owned();
                Err(EngineError::Refused { code, message }.into())
            }
        }
    }
}
