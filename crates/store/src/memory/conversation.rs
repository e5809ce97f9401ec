//! Conversations in memory.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

use convoke_model::Channel;
use jiff::Timestamp;
use uuid::Uuid;

use super::Inner;
use crate::conversation::{ConversationRecord, Deletion};
use crate::error::StoreError;
use crate::viewer::Viewer;

/// A conversation, which is removed with its last task.
#[derive(Debug)]
pub(super) struct Conversation {
    /// Ordinals of its tasks.
    pub(super) tasks: BTreeSet<u64>,
    /// Ordinals of its tasks that have not ended.
    pub(super) open: BTreeSet<u64>,
    pub(super) owner: Uuid,
    pub(super) app: String,
    pub(super) channel: Channel,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

impl Conversation {
    pub(super) fn new(owner: Uuid, app: &str, channel: Channel, now: Timestamp) -> Self {
        Self {
            tasks: BTreeSet::new(),
            open: BTreeSet::new(),
            owner,
            app: app.to_owned(),
            channel,
            created_at: now,
            updated_at: now,
        }
    }
}

impl Inner {
    /// Returns or creates a conversation of this owner with this app. Fails if it belongs to another owner or app.
    pub(super) fn own_conversation(
        &mut self,
        id: Uuid,
        new: Conversation,
    ) -> Result<&mut Conversation, StoreError> {
        let known = match self.conversations.entry(id) {
            Entry::Vacant(free) => return Ok(free.insert(new)),
            Entry::Occupied(known) => known.into_mut(),
        };
        if (known.owner, &known.app) == (new.owner, &new.app) {
            Ok(known)
        } else {
            Err(StoreError::ForeignConversation { conversation: id })
        }
    }

    pub(super) fn conversation(
        &self,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Option<ConversationRecord>, StoreError> {
        let Some(conversation) = self.conversations.get(&id) else {
            return Ok(None);
        };
        let end = before
            .and_then(|task| self.ordinals.get(&task))
            .copied()
            .unwrap_or(u64::MAX);
        let tasks = conversation.tasks.range(..end);
        let messages_before: Vec<_> = tasks
            .filter_map(|ordinal| self.tasks.get(ordinal))
            .flat_map(|stored| stored.messages.iter().map(|(_, part)| part.message()))
            .filter(|message| message.in_conversation)
            .collect();
        let older = messages_before.len().saturating_sub(limit);
        let messages: Result<_, _> = messages_before[older..]
            .iter()
            .map(|new| serde_json::from_str(&new.message))
            .collect();
        Ok(Some(ConversationRecord {
            id,
            owner: conversation.owner,
            app: conversation.app.clone(),
            channel: conversation.channel,
            created_at: conversation.created_at,
            updated_at: conversation.updated_at,
            messages: messages?,
            older,
        }))
    }

    /// Whether a task of a conversation runs, or is ready to.
    pub(super) fn is_busy(&self, id: Uuid, now: Timestamp) -> bool {
        let conversation = self.conversations.get(&id);
        let open = conversation.into_iter().flat_map(|found| &found.open);
        let mut open = open.filter_map(|ordinal| self.tasks.get(ordinal));
        open.any(|stored| {
            let record = &stored.record;
            record.worker.is_some() || record.ready_at.is_some_and(|ready| ready <= now)
        })
    }

    pub(super) fn delete_conversation(
        &mut self,
        viewer: &Viewer,
        id: Uuid,
    ) -> Result<Option<Deletion>, StoreError> {
        let found = self.conversation(id, None, 0)?;
        if !found.is_some_and(|found| viewer.sees_conversation(&found)) {
            return Ok(None);
        }
        let own = self.conversations.get(&id).map(|found| found.tasks.clone());
        let mut tasks: Vec<u64> = own.into_iter().flatten().collect();
        let mut next = 0;
        while let Some(task) = tasks.get(next).and_then(|ordinal| self.tasks.get(ordinal)) {
            if !task.record.status.is_final() {
                return Ok(Some(Deletion::Unfinished));
            }
            let children = self.children.get(&task.record.id);
            for child in children.into_iter().flatten() {
                if !tasks.contains(child) {
                    tasks.push(*child);
                }
            }
            next += 1;
        }
        for ordinal in tasks {
            self.remove(ordinal);
        }
        Ok(Some(Deletion::Deleted))
    }
}
