//! Export and import of tasks in memory.

use std::sync::Arc;

use uuid::Uuid;

use super::conversation::Conversation;
use super::{Inner, StoredSignal, StoredTask};
use crate::archive::{Archive, ArchivedConversation, ArchivedSignal, Imported};
use crate::definition::Definition;
use crate::error::StoreError;
use crate::journal::Batch;
use crate::signal::Signal;
use crate::viewer::Viewer;

impl Inner {
    /// Stores a definition. A trusted one replaces an untrusted one.
    pub(super) fn keep(&mut self, definition: Arc<Definition>) {
        let known = self.definitions.get(&definition.hash);
        if known.is_none_or(|known| !known.trusted && definition.trusted) {
            let hash = definition.hash.clone();
            self.definitions.insert(hash, definition);
        }
    }

    pub(super) fn trust(&mut self, hash: &str) -> bool {
        let known = self.definitions.get_mut(hash);
        known
            .map(|stored| Arc::make_mut(stored).trusted = true)
            .is_some()
    }

    pub(super) fn take_out(&self, task: Uuid) -> Result<Option<Archive>, StoreError> {
        let Some(stored) = self.stored(task) else {
            return Ok(None);
        };
        let conversation = stored.record.conversation;
        let conversation = conversation.and_then(|id| self.conversations.get(&id));
        let signals = stored.inbox.iter().map(|stored| ArchivedSignal {
            key: stored.key.clone(),
            kind: stored.signal.kind.clone(),
            payload: stored.signal.payload.clone(),
            at: stored.signal.at,
            consumed: stored.consumed,
        });
        Ok(Some(Archive {
            record: stored.record.clone(),
            key: stored.key.clone(),
            fingerprint: stored.fingerprint.clone(),
            conversation: conversation.map(|stored| ArchivedConversation {
                channel: stored.channel,
                created_at: stored.created_at,
                updated_at: stored.updated_at,
            }),
            entries: stored.entries(1..=u64::MAX)?,
            messages: stored.messages()?,
            signals: signals.collect(),
            blobs: self.blobs_of(&Viewer::System, task),
        }))
    }

    pub(super) fn bring_in(
        &mut self,
        archive: Archive,
        definition: Option<Definition>,
    ) -> Result<Imported, StoreError> {
        let record = &archive.record;
        let key = archive.key.clone();
        let key = key.map(|key| (record.app.clone(), record.owner, key));
        let known = key.is_some_and(|key| self.keys.contains_key(&key));
        if known || self.ordinals.contains_key(&record.id) {
            return Ok(Imported::Existing);
        }
        self.bring_in_conversation(&archive)?;
        if let Some(mut definition) = definition {
            definition.trusted = false;
            self.keep(Arc::new(definition));
        }
        self.submitted += 1;
        let ordinal = self.submitted;
        let mut stored = StoredTask {
            record: archive.record.clone(),
            key: archive.key.clone(),
            fingerprint: archive.fingerprint.clone(),
            entries: Vec::new(),
            messages: Vec::new(),
            inbox: Vec::new(),
        };
        stored.record.ordinal = ordinal;
        stored.record.worker = None;
        stored.record.seq = 0;
        for (entry, messages) in archive.steps() {
            stored.write(&Arc::new(Batch::of(vec![entry], messages)));
        }
        for signal in archive.signals {
            self.signals += 1;
            stored.inbox.push(StoredSignal {
                signal: Signal {
                    id: self.signals,
                    kind: signal.kind,
                    payload: signal.payload,
                    at: signal.at,
                },
                key: signal.key,
                consumed: signal.consumed,
            });
        }
        self.insert(stored);
        for blob in &archive.blobs {
            self.keep_blob(ordinal, blob);
        }
        self.forget_oldest();
        Ok(Imported::Created)
    }

    fn bring_in_conversation(&mut self, archive: &Archive) -> Result<(), StoreError> {
        let (Some(id), Some(archived)) = (archive.record.conversation, &archive.conversation)
        else {
            return Ok(());
        };
        let record = &archive.record;
        let new = Conversation::new(
            record.owner,
            &record.app,
            archived.channel,
            archived.created_at,
        );
        let stored = self.own_conversation(id, new)?;
        stored.created_at = stored.created_at.min(archived.created_at);
        stored.updated_at = stored.updated_at.max(archived.updated_at);
        Ok(())
    }
}
