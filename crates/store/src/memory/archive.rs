//! Tasks on their way out of memory, and into it.

use std::sync::Arc;

use uuid::Uuid;

use super::conversation::Conversation;
use super::{Inner, StoredSignal, StoredTask};
use crate::archive::{Archive, ArchivedConversation, ArchivedSignal, Imported};
use crate::definition::Definition;
use crate::error::StoreError;
use crate::signal::Signal;
use crate::viewer::Viewer;

impl Inner {
    /// Keeps a definition. What is trusted takes the place of what is not.
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
            .map(|kept| Arc::make_mut(kept).trusted = true)
            .is_some()
    }

    pub(super) fn take_out(&self, task: Uuid) -> Result<Option<Archive>, StoreError> {
        let Some(kept) = self.kept(task) else {
            return Ok(None);
        };
        let conversation = kept.record.conversation;
        let conversation = conversation.and_then(|id| self.conversations.get(&id));
        let signals = kept.inbox.iter().map(|kept| ArchivedSignal {
            key: kept.key.clone(),
            kind: kept.signal.kind.clone(),
            payload: kept.signal.payload.clone(),
            at: kept.signal.at,
            consumed: kept.consumed,
        });
        Ok(Some(Archive {
            record: kept.record.clone(),
            key: kept.key.clone(),
            fingerprint: kept.fingerprint.clone(),
            conversation: conversation.map(|kept| ArchivedConversation {
                channel: kept.channel,
                created_at: kept.created_at,
                updated_at: kept.updated_at,
            }),
            entries: kept.entries(1..=u64::MAX)?,
            messages: kept.messages()?,
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
        let mut kept = StoredTask {
            record: archive.record.clone(),
            key: archive.key.clone(),
            fingerprint: archive.fingerprint.clone(),
            entries: Vec::new(),
            messages: Vec::new(),
            inbox: Vec::new(),
        };
        kept.record.ordinal = ordinal;
        kept.record.worker = None;
        kept.record.seq = 0;
        for (entry, messages) in archive.steps() {
            kept.write(vec![entry], messages);
        }
        for signal in archive.signals {
            self.signals += 1;
            kept.inbox.push(StoredSignal {
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
        self.insert(kept);
        for blob in &archive.blobs {
            self.keep_blob(ordinal, blob);
        }
        self.forget_oldest();
        Ok(Imported::Created)
    }

    fn bring_in_conversation(&mut self, archive: &Archive) -> Result<(), StoreError> {
        let (Some(id), Some(told)) = (archive.record.conversation, &archive.conversation) else {
            return Ok(());
        };
        let record = &archive.record;
        let new = Conversation::new(record.owner, &record.app, told.channel, told.created_at);
        let kept = self.own_conversation(id, new)?;
        kept.created_at = kept.created_at.min(told.created_at);
        kept.updated_at = kept.updated_at.max(told.updated_at);
        Ok(())
    }
}
