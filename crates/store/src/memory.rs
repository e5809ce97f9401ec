//! The store in memory: for tests, for runs without durability, and as the reference implementation that other backends
//! are compared with. Clarity before speed.

mod archive;
mod blobs;
mod claim;
mod conversation;
mod stored_task;
mod sweep;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_model::{BlobHash, Clock, TaskState};
use futures::FutureExt;
use jiff::Timestamp;
use uuid::Uuid;

use crate::archive::{Archive, Imported};
use crate::blob::{Blob, BlobInfo, BlobRange};
use crate::conversation::{ConversationCursor, ConversationRecord, Deletion};
use crate::definition::Definition;
use crate::error::StoreError;
use crate::journal::{Batch, Entry, Fence, JournalEvent, StatusUpdate};
use crate::page::{Page, TaskPage};
use crate::signal::{NewSignal, Signal, SignalReceipt};
use crate::task::{
    Claim, Claimed, FIRST_EPOCH, Filter, LoadedTask, NewTask, RenewedLease, Submission, Sweep,
    SweepReport, TaskRecord, TaskSummary, later,
};
use crate::viewer::Viewer;
use crate::watch::{Hint, Hints, Scope};
use crate::{Store, StoreFuture};
use blobs::StoredBlob;
use conversation::Conversation;
use stored_task::BatchPart;

/// Limits of a store in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Number of newest ended tasks whose journals are stored.
    pub journals: usize,
    /// Number of newest ended tasks whose status and conversation messages are stored.
    pub tasks: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            journals: 256,
            tasks: 2_000,
        }
    }
}

/// Everything in one process's memory, behind one lock.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    hints: Hints,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    keep: MemoryLimits,
    /// By ordinal, the order of submission.
    tasks: BTreeMap<u64, StoredTask>,
    /// Tasks that have not ended.
    live: BTreeSet<u64>,
    /// Ended tasks, oldest first.
    ended: VecDeque<u64>,
    ordinals: HashMap<Uuid, u64>,
    /// Children by parent.
    children: HashMap<Uuid, Vec<u64>>,
    /// Tasks by app, owner and key.
    keys: HashMap<(String, Uuid, String), Uuid>,
    conversations: BTreeMap<Uuid, Conversation>,
    definitions: HashMap<String, Arc<Definition>>,
    blobs: BTreeMap<BlobHash, StoredBlob>,
    /// Counters, so that no ordinal or signal id is assigned twice.
    submitted: u64,
    signals: i64,
}

#[derive(Debug)]
struct StoredTask {
    record: TaskRecord,
    key: Option<String>,
    fingerprint: Option<String>,
    /// Unparsed, in order; the newest is last.
    entries: Vec<BatchPart>,
    /// Unparsed, with the sequence of the entry that added each.
    messages: Vec<(u64, BatchPart)>,
    inbox: Vec<StoredSignal>,
}

#[derive(Debug)]
struct StoredSignal {
    signal: Signal,
    key: String,
    consumed: bool,
}

impl MemoryStore {
    /// An empty store. Leases are judged by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::keeping(MemoryLimits::default(), clock)
    }

    /// An empty store with these limits.
    pub fn keeping(keep: MemoryLimits, clock: Arc<dyn Clock>) -> Self {
        let inner = Inner {
            keep,
            ..Inner::default()
        };
        Self {
            clock,
            hints: Hints::default(),
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// Runs an operation immediately, as the port requires, and returns its result as a future.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Inner, Timestamp) -> Result<T, StoreError>,
    ) -> StoreFuture<T> {
        std::future::ready(self.at_once(work)).boxed()
    }

    fn at_once<T>(&self, work: impl FnOnce(&mut Inner, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut inner, now)
    }

    fn tell(&self, scopes: Vec<Scope>) {
        for scope in scopes {
            self.hints.tell(scope);
        }
    }
}

impl Store for MemoryStore {
    fn submit(&self, task: NewTask) -> StoreFuture<Submission> {
        let (submitted, scopes) = self.at_once(|inner, now| match inner.submit(task, now) {
            Ok(submitted @ Submission::Created { held: true, .. }) => (Ok(submitted), Vec::new()),
            outcome => (outcome, vec![Scope::Work]),
        });
        self.tell(scopes);
        std::future::ready(submitted).boxed()
    }

    fn now(&self) -> StoreFuture<Timestamp> {
        std::future::ready(Ok(self.clock.now())).boxed()
    }

    fn claim(&self, claim: Claim) -> StoreFuture<Claimed> {
        self.with(|inner, now| {
            let tasks = inner.claim(&claim, now)?;
            let next_ready_in = inner.next_ready_in(&claim, now);
            Ok(Claimed {
                now,
                tasks,
                next_ready_in,
            })
        })
    }

    fn append(&self, fence: Fence, batch: Arc<Batch>) -> StoreFuture<u64> {
        let (appended, scopes) =
            self.at_once(|inner, now| match inner.append(fence, &batch, now) {
                Ok((seq, scopes)) => (Ok(seq), scopes),
                Err(error) => (Err(error), Vec::new()),
            });
        if appended.is_ok() {
            self.hints.tell(Scope::Task(fence.task));
        }
        self.tell(scopes);
        std::future::ready(appended).boxed()
    }

    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<RenewedLease>> {
        self.with(|inner, now| {
            Ok(fences
                .into_iter()
                .map(|fence| inner.renew(fence, later(now, lease)))
                .collect())
        })
    }

    fn signal(&self, viewer: &Viewer, signal: NewSignal) -> StoreFuture<SignalReceipt> {
        let task = signal.task;
        let done = self.with(|inner, now| {
            if inner.seen(viewer, task).is_none() {
                return Ok(SignalReceipt::Unknown);
            }
            Ok(inner.signal(signal, now))
        });
        self.hints.tell(Scope::Inbox(task));
        self.hints.tell(Scope::Work);
        done
    }

    fn task(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<TaskRecord>> {
        self.with(|inner, _| Ok(inner.seen(viewer, task).map(|stored| stored.record.clone())))
    }

    fn newest(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>> {
        self.with(|inner, _| {
            let Some(stored) = inner.seen(viewer, task) else {
                return Ok(None);
            };
            let entry = stored.entries(stored.record.seq..=u64::MAX)?.pop();
            Ok(entry.map(|entry| (stored.record.clone(), entry)))
        })
    }

    fn load(&self, viewer: &Viewer, task: Uuid, from: u64) -> StoreFuture<Option<LoadedTask>> {
        self.with(|inner, _| {
            let Some(stored) = inner.seen(viewer, task) else {
                return Ok(None);
            };
            Ok(Some(LoadedTask {
                record: stored.record.clone(),
                entries: stored.entries(from..=u64::MAX)?,
                messages: stored.messages()?,
                signals: stored.waiting(),
            }))
        })
    }

    fn entries(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: RangeInclusive<u64>,
    ) -> StoreFuture<Vec<Entry>> {
        self.with(|inner, _| {
            let stored = inner.seen(viewer, task);
            stored.map_or_else(|| Ok(Vec::new()), |stored| stored.entries(seqs))
        })
    }

    fn events(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: RangeInclusive<u64>,
    ) -> StoreFuture<Vec<JournalEvent>> {
        self.with(|inner, _| {
            let stored = inner.seen(viewer, task);
            stored.map_or_else(|| Ok(Vec::new()), |stored| stored.events(&seqs))
        })
    }

    fn signals(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<Signal>> {
        self.with(|inner, _| {
            let stored = inner.seen(viewer, task);
            Ok(stored.map(StoredTask::waiting).unwrap_or_default())
        })
    }

    fn query(&self, viewer: &Viewer, filter: Filter, page: Page) -> StoreFuture<TaskPage> {
        self.with(|inner, _| {
            let found = inner.fitting(viewer, &filter).filter(|record| {
                page.before_ordinal()
                    .is_none_or(|before| record.ordinal < before)
            });
            let found = found.take(page.tasks_to_read());
            let found = found.map(|record| (record.ordinal, Some(TaskSummary::from(record))));
            Ok(page.collect(found.collect()))
        })
    }

    fn count(&self, viewer: &Viewer, filter: Filter, at_most: usize) -> StoreFuture<usize> {
        self.with(|inner, _| Ok(inner.fitting(viewer, &filter).take(at_most).count()))
    }

    fn conversation(
        &self,
        viewer: &Viewer,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>> {
        self.with(|inner, _| {
            let found = inner.conversation(id, before, limit)?;
            Ok(found.filter(|conversation| viewer.sees_conversation(conversation)))
        })
    }

    fn conversations(
        &self,
        viewer: &Viewer,
        after: Option<ConversationCursor>,
        limit: usize,
    ) -> StoreFuture<Vec<ConversationRecord>> {
        self.with(|inner, _| {
            let ids = inner.conversations.keys();
            let found: Result<Vec<_>, _> = ids
                .filter_map(|id| inner.conversation(*id, None, 0).transpose())
                .collect();
            let mut found = found?;
            found.retain(|conversation| viewer.sees_conversation(conversation));
            if let Some(after) = after {
                found.retain(|it| (it.updated_at, it.id) < (after.updated_at, after.id));
            }
            found.sort_by_key(|conversation| {
                std::cmp::Reverse((conversation.updated_at, conversation.id))
            });
            found.truncate(limit);
            Ok(found)
        })
    }

    fn delete_conversation(&self, viewer: &Viewer, id: Uuid) -> StoreFuture<Option<Deletion>> {
        self.with(|inner, _| inner.delete_conversation(viewer, id))
    }

    fn definition(&self, hash: &str) -> StoreFuture<Option<Definition>> {
        self.with(|inner, _| Ok(inner.definitions.get(hash).map(|stored| (**stored).clone())))
    }

    fn trust(&self, hash: &str) -> StoreFuture<bool> {
        let known = self.with(|inner, _| Ok(inner.trust(hash)));
        self.hints.tell(Scope::Work);
        known
    }

    fn put_blob(&self, viewer: &Viewer, task: Uuid, blob: Blob) -> StoreFuture<bool> {
        self.with(|inner, _| Ok(inner.put_blob(viewer, task, &blob)))
    }

    fn blob(
        &self,
        viewer: &Viewer,
        task: Uuid,
        hash: BlobHash,
        range: Range<u64>,
    ) -> StoreFuture<Option<BlobRange>> {
        self.with(|inner, _| Ok(inner.blob_range(viewer, task, hash, &range)))
    }

    fn blobs(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<BlobInfo>> {
        self.with(|inner, _| Ok(inner.blob_infos(viewer, task)))
    }

    fn take_out(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<Archive>> {
        self.with(|inner, _| match inner.seen(viewer, task) {
            Some(_) => inner.take_out(task),
            None => Ok(None),
        })
    }

    fn bring_in(&self, archive: Archive, definition: Option<Definition>) -> StoreFuture<Imported> {
        let brought_in = self.with(|inner, _| inner.bring_in(archive, definition));
        self.hints.tell(Scope::Work);
        brought_in
    }

    fn watch(&self, scope: Scope) -> Hint {
        self.hints.watch(scope)
    }

    fn sweep(&self, sweep: Sweep) -> StoreFuture<SweepReport> {
        self.with(|inner, now| Ok(inner.sweep(&sweep, now)))
    }
}

impl Inner {
    fn stored(&self, task: Uuid) -> Option<&StoredTask> {
        self.tasks.get(self.ordinals.get(&task)?)
    }

    /// A task that the viewer sees.
    fn seen(&self, viewer: &Viewer, task: Uuid) -> Option<&StoredTask> {
        self.stored(task)
            .filter(|stored| viewer.sees_task(&stored.record))
    }

    /// Tasks that the viewer sees and that match, newest first.
    fn fitting(&self, viewer: &Viewer, filter: &Filter) -> impl Iterator<Item = &TaskRecord> {
        let records = self.tasks.values().rev().map(|stored| &stored.record);
        records.filter(move |record| viewer.sees_task(record) && filter.fits(record))
    }

    fn stored_mut(&mut self, task: Uuid) -> Option<&mut StoredTask> {
        self.tasks.get_mut(self.ordinals.get(&task)?)
    }

    fn submit(&mut self, task: NewTask, now: Timestamp) -> Result<Submission, StoreError> {
        if let Some(key) = &task.key
            && let Some(existing) = self.keys.get(&(task.app.clone(), task.owner, key.clone()))
        {
            let known = self.stored(*existing);
            let fingerprint = known.and_then(|stored| stored.fingerprint.as_deref());
            return task.existing(*existing, fingerprint);
        }
        if self.ordinals.contains_key(&task.id) {
            return Err(StoreError::IdTaken { task: task.id });
        }
        if let Some(id) = task.conversation {
            let new = Conversation::new(task.owner, &task.app, task.channel, now);
            self.own_conversation(id, new)?;
            if task.refused_if_busy && self.is_busy(id, now) {
                return Err(StoreError::ConversationBusy { conversation: id });
            }
            if let Some(conversation) = self.conversations.get_mut(&id) {
                conversation.updated_at = now;
            }
        }
        self.submitted += 1;
        let ordinal = self.submitted;
        let record = TaskRecord {
            id: task.id,
            ordinal,
            owner: task.owner,
            conversation: task.conversation,
            channel: task.channel,
            app: task.app,
            definition: task.definition.hash.clone(),
            description: task.description,
            parent: task.parent,
            status: TaskState::Submitted,
            stage: task.stage,
            epoch: 0,
            seq: 0,
            worker: None,
            ready_at: Some(task.not_before.map_or(now, |delay| later(now, delay))),
            claims: 0,
            created_at: task.entry.at,
            started_at: None,
            completed_at: None,
            deadline: task.deadline,
            retention_days: task.retention_days,
            tags: task.tags,
            trace: task.trace,
            result: None,
            error: None,
        };
        let mut stored = StoredTask {
            record,
            key: task.key,
            fingerprint: task.fingerprint,
            entries: Vec::new(),
            messages: Vec::new(),
            inbox: Vec::new(),
        };
        self.keep(task.definition);
        stored.write(&Arc::new(Batch::of(vec![task.entry], task.messages)));
        let lease = task
            .hold
            .filter(|_| task.not_before.is_none() && !self.waits_its_turn(&stored.record, now));
        let held = lease.is_some();
        if let Some(lease) = lease {
            stored.record.epoch = FIRST_EPOCH;
            stored.record.status = TaskState::Working;
            stored.record.worker = Some(lease.worker.to_string());
            stored.record.ready_at = Some(later(now, lease.time));
            stored.record.started_at = Some(now);
        }
        let carried = stored.messages.iter();
        let carried = carried.flat_map(|(_, part)| &part.message().blobs);
        let carried: Vec<_> = carried.copied().collect();
        self.insert(stored);
        for blob in &task.blobs {
            self.keep_blob(ordinal, blob);
        }
        self.name_carried(ordinal, &carried);
        let parent = task.parent.and_then(|parent| self.stored(parent));
        if parent.is_some_and(|parent| parent.record.status.is_final()) {
            self.signal(NewSignal::parent_ended(task.id), now);
        }
        Ok(Submission::Created { id: task.id, held })
    }

    /// Adds a batch. Returns the new sequence, and what changed besides the task itself.
    fn append(
        &mut self,
        fence: Fence,
        batch: &Arc<Batch>,
        now: Timestamp,
    ) -> Result<(u64, Vec<Scope>), StoreError> {
        let fenced = StoreError::Fenced { task: fence.task };
        let stored = self.stored_mut(fence.task).ok_or(fenced.clone())?;
        let record = &stored.record;
        if record.epoch != fence.epoch || record.seq != fence.seq || record.status.is_final() {
            return Err(fenced);
        }
        let in_conversation = batch.messages.iter().any(|message| message.in_conversation);
        stored.write(batch);
        for stored in &mut stored.inbox {
            stored.consumed |= batch.consumed.contains(&stored.signal.id);
        }
        let rests = batch.standing.as_ref().is_some_and(StatusUpdate::rests);
        if let Some(standing) = &batch.standing {
            stored.stand(standing, now);
        }
        let record = &stored.record;
        let (seq, conversation, ordinal) = (record.seq, record.conversation, record.ordinal);
        let ends = record.status.is_final();
        let carried = batch.messages.iter().flat_map(|message| &message.blobs);
        let carried: Vec<_> = carried.copied().collect();
        self.name_carried(ordinal, &carried);
        let mut scopes = Vec::new();
        if rests {
            scopes.push(Scope::Rest(fence.task));
            if !ends || conversation.is_some() {
                scopes.push(Scope::Work);
            }
        }
        if in_conversation
            && let Some(conversation) = conversation.and_then(|id| self.conversations.get_mut(&id))
        {
            conversation.updated_at = now;
        }
        if ends {
            scopes.extend(self.call_off_children(fence.task, now));
            self.note_end(ordinal);
            self.forget_oldest();
        }
        Ok((seq, scopes))
    }

    /// Sends a cancellation to every running child of an ended task. Returns the changed scopes.
    fn call_off_children(&mut self, parent: Uuid, now: Timestamp) -> Vec<Scope> {
        let children = self.children.get(&parent).into_iter().flatten();
        let live = children.filter(|ordinal| self.live.contains(ordinal));
        let live: Vec<_> = live
            .filter_map(|ordinal| self.tasks.get(ordinal))
            .map(|stored| stored.record.id)
            .collect();
        let mut scopes = Vec::new();
        for child in live {
            self.signal(NewSignal::parent_ended(child), now);
            scopes.extend([Scope::Inbox(child), Scope::Work]);
        }
        scopes
    }

    /// Adds a new task.
    fn insert(&mut self, stored: StoredTask) {
        let record = &stored.record;
        let (id, ordinal) = (record.id, record.ordinal);
        self.ordinals.insert(id, ordinal);
        if let Some(key) = stored.unique_key() {
            self.keys.insert(key, id);
        }
        let open = !record.status.is_final();
        if open {
            self.live.insert(ordinal);
        } else {
            self.ended.push_back(ordinal);
        }
        let conversation = record.conversation;
        if let Some(conversation) = conversation.and_then(|id| self.conversations.get_mut(&id)) {
            conversation.tasks.insert(ordinal);
            if open {
                conversation.open.insert(ordinal);
            }
        }
        if let Some(parent) = record.parent {
            self.children.entry(parent).or_default().push(ordinal);
        }
        self.tasks.insert(ordinal, stored);
    }

    /// Records the end of a task.
    fn note_end(&mut self, ordinal: u64) {
        self.live.remove(&ordinal);
        self.ended.push_back(ordinal);
        let stored = self.tasks.get(&ordinal);
        let conversation = stored.and_then(|stored| stored.record.conversation);
        if let Some(conversation) = conversation.and_then(|id| self.conversations.get_mut(&id)) {
            conversation.open.remove(&ordinal);
        }
    }

    /// Applies the limits to ended tasks: removes the oldest journals and tasks.
    fn forget_oldest(&mut self) {
        let past = self
            .ended
            .len()
            .checked_sub(self.keep.journals.saturating_add(1));
        let past = past.and_then(|index| self.ended.get(index));
        if let Some(stored) = past.and_then(|ordinal| self.tasks.get_mut(ordinal)) {
            stored.forget_journal();
            let ordinal = stored.record.ordinal;
            self.release_blobs(ordinal);
        }
        while self.ended.len() > self.keep.tasks {
            let Some(oldest) = self.ended.pop_front() else {
                return;
            };
            self.remove(oldest);
        }
    }

    fn remove(&mut self, ordinal: u64) {
        let Some(stored) = self.tasks.remove(&ordinal) else {
            return;
        };
        self.release_blobs(ordinal);
        self.ordinals.remove(&stored.record.id);
        if let Some(parent) = stored.record.parent
            && let Some(children) = self.children.get_mut(&parent)
        {
            children.retain(|child| *child != ordinal);
            if children.is_empty() {
                self.children.remove(&parent);
            }
        }
        if let Some(key) = stored.unique_key() {
            self.keys.remove(&key);
        }
        if let Some(id) = stored.record.conversation
            && let Some(conversation) = self.conversations.get_mut(&id)
        {
            conversation.tasks.remove(&ordinal);
            conversation.open.remove(&ordinal);
            if conversation.tasks.is_empty() {
                self.conversations.remove(&id);
            }
        }
    }

    fn renew(&mut self, fence: Fence, until: Timestamp) -> RenewedLease {
        let mut renewed = RenewedLease {
            task: fence.task,
            held: false,
            signalled: false,
        };
        if let Some(stored) = self.stored_mut(fence.task)
            && stored.record.epoch == fence.epoch
            && stored.record.worker.is_some()
        {
            stored.record.ready_at = Some(until);
            renewed.held = true;
            renewed.signalled = stored.is_signalled();
        }
        renewed
    }

    fn signal(&mut self, signal: NewSignal, now: Timestamp) -> SignalReceipt {
        let id = self.signals + 1;
        let Some(stored) = self.stored_mut(signal.task) else {
            return SignalReceipt::Unknown;
        };
        if stored.inbox.iter().any(|earlier| earlier.key == signal.key) {
            return SignalReceipt::Duplicate;
        }
        if stored.record.status.is_final() {
            return SignalReceipt::Ended;
        }
        stored.inbox.push(StoredSignal {
            signal: Signal {
                id,
                kind: signal.kind.word().to_owned(),
                payload: signal.payload,
                at: now,
            },
            key: signal.key,
            consumed: false,
        });
        if stored.record.worker.is_none() {
            stored.record.ready_at = Some(now);
        }
        self.signals = id;
        SignalReceipt::Accepted
    }
}
