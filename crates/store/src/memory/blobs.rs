//! Blobs in memory.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use convoke_model::BlobHash;
use uuid::Uuid;

use super::Inner;
use crate::blob::{Blob, BlobInfo, BlobRange};
use crate::viewer::Viewer;

/// A blob, which is removed with the last task that names it.
#[derive(Debug)]
pub(super) struct StoredBlob {
    content: Arc<[u8]>,
    /// The ordinals of the tasks that name it.
    tasks: BTreeSet<u64>,
}

impl Inner {
    pub(super) fn put_blob(&mut self, viewer: &Viewer, task: Uuid, blob: &Blob) -> bool {
        let Some(ordinal) = self.seen(viewer, task).map(|stored| stored.record.ordinal) else {
            return false;
        };
        self.keep_blob(ordinal, blob);
        true
    }

    pub(super) fn keep_blob(&mut self, ordinal: u64, blob: &Blob) {
        let stored = self.blobs.entry(blob.hash()).or_insert_with(|| StoredBlob {
            content: Arc::clone(blob.content()),
            tasks: BTreeSet::new(),
        });
        stored.tasks.insert(ordinal);
    }

    /// Records the blobs in a task's messages, if another task of the same owner and app names them already.
    pub(super) fn name_carried(&mut self, ordinal: u64, blobs: &[BlobHash]) {
        if blobs.is_empty() {
            return;
        }
        let Some(task) = self.tasks.get(&ordinal).map(|stored| &stored.record) else {
            return;
        };
        for hash in blobs {
            let Some(stored) = self.blobs.get_mut(hash) else {
                continue;
            };
            let others = stored
                .tasks
                .iter()
                .filter_map(|other| self.tasks.get(other));
            let mut others = others.map(|other| &other.record);
            if others.any(|other| other.owner == task.owner && other.app == task.app) {
                stored.tasks.insert(ordinal);
            }
        }
    }

    pub(super) fn release_blobs(&mut self, ordinal: u64) {
        self.blobs.retain(|_, stored| {
            stored.tasks.remove(&ordinal);
            !stored.tasks.is_empty()
        });
    }

    pub(super) fn blobs_of(&self, viewer: &Viewer, task: Uuid) -> Vec<Blob> {
        let Some(ordinal) = self.seen(viewer, task).map(|stored| stored.record.ordinal) else {
            return Vec::new();
        };
        let named = self.blobs.values();
        let named = named.filter(|stored| stored.tasks.contains(&ordinal));
        named
            .map(|stored| Blob::of(Arc::clone(&stored.content)))
            .collect()
    }

    pub(super) fn blob_infos(&self, viewer: &Viewer, task: Uuid) -> Vec<BlobInfo> {
        let Some(ordinal) = self.seen(viewer, task).map(|stored| stored.record.ordinal) else {
            return Vec::new();
        };
        let named = self.blobs.iter();
        let named = named.filter(|(_, stored)| stored.tasks.contains(&ordinal));
        let infos = named.map(|(hash, stored)| BlobInfo {
            hash: *hash,
            bytes: stored.content.len() as u64,
        });
        infos.collect()
    }

    pub(super) fn blob_range(
        &self,
        viewer: &Viewer,
        task: Uuid,
        hash: BlobHash,
        range: &Range<u64>,
    ) -> Option<BlobRange> {
        let ordinal = self.seen(viewer, task)?.record.ordinal;
        let named = self.blobs.get(&hash);
        let stored = named.filter(|stored| stored.tasks.contains(&ordinal))?;
        let length = stored.content.len();
        let place = |at: u64| usize::try_from(at).map_or(length, |at| at.min(length));
        let (start, end) = (place(range.start), place(range.end));
        Some(BlobRange {
            bytes: length as u64,
            content: stored.content.get(start..end).unwrap_or_default().to_vec(),
        })
    }
}
