//! The store in memory: for tests, for runs that need no durability, and as the plain reference that
//! every other backend is compared with. Clear before fast.

mod archive;
mod blobs;
mod claim;
mod conversation;
mod kept;
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
use crate::conversation::ConversationRecord;
use crate::definition::Definition;
use crate::error::StoreError;
use crate::journal::{Batch, Entry, Fence, JournalEvent, NewEntry, NewMessage, StatusUpdate};
use crate::signal::{NewSignal, Signal, SignalReceipt};
use crate::task::{
    Claim, Claimed, FIRST_EPOCH, Filter, LoadedTask, NewTask, Page, PageCursor, RenewedLease,
    Submission, Sweep, SweepReport, TaskPage, TaskRecord, TaskSummary, later,
};
use crate::viewer::Viewer;
use crate::watch::{Hint, Hints, Scope};
use crate::{Store, StoreFuture};
use blobs::KeptBlob;
use conversation::Conversation;

/// How much a store in memory keeps, which is no place to keep everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Of so many of the newest ended tasks, all is kept.
    pub journals: usize,
    /// Of so many, where they stand and what was spoken.
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
    /// By ordinal, which is the order of submission.
    tasks: BTreeMap<u64, StoredTask>,
    /// Those that have not ended.
    live: BTreeSet<u64>,
    /// Those that have, the oldest first.
    ended: VecDeque<u64>,
    ordinals: HashMap<Uuid, u64>,
    /// Those that were started by another task, by that task.
    children: HashMap<Uuid, Vec<u64>>,
    /// By app and owner.
    keys: HashMap<(String, Uuid, String), Uuid>,
    conversations: BTreeMap<Uuid, Conversation>,
    definitions: HashMap<String, Arc<Definition>>,
    blobs: BTreeMap<BlobHash, KeptBlob>,
    /// Counted, not derived, so that neither is ever given out twice.
    submitted: u64,
    signals: i64,
}

#[derive(Debug)]
struct StoredTask {
    record: TaskRecord,
    key: Option<String>,
    fingerprint: Option<String>,
    /// As they came in, one after the other up to the newest; they are read only when asked for.
    entries: Vec<NewEntry>,
    /// As they came in, with the sequence of the entry that added each.
    messages: Vec<(u64, NewMessage)>,
    inbox: Vec<StoredSignal>,
}

#[derive(Debug)]
struct StoredSignal {
    signal: Signal,
    key: String,
    consumed: bool,
}

impl MemoryStore {
    /// An empty store that tells leases by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::keeping(MemoryLimits::default(), clock)
    }

    /// The same, keeping more or less of what has ended.
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

    /// Does the work at the time of the call, as the port promises, and hands over its result.
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
            Ok(Claimed { now, tasks })
        })
    }

    fn append(&self, fence: Fence, batch: Arc<Batch>) -> StoreFuture<u64> {
        let (appended, scopes) =
            self.at_once(|inner, now| match inner.append(fence, &batch, now) {
                Ok((seq, scopes)) => (Ok(seq), scopes),
                Err(error) => (Err(error), Vec::new()),
            });
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
        self.with(|inner, _| Ok(inner.seen(viewer, task).map(|kept| kept.record.clone())))
    }

    fn newest(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>> {
        self.with(|inner, _| {
            let Some(kept) = inner.seen(viewer, task) else {
                return Ok(None);
            };
            let entry = kept.entries(kept.record.seq..=u64::MAX)?.pop();
            Ok(entry.map(|entry| (kept.record.clone(), entry)))
        })
    }

    fn load(&self, viewer: &Viewer, task: Uuid, from: u64) -> StoreFuture<Option<LoadedTask>> {
        self.with(|inner, _| {
            let Some(kept) = inner.seen(viewer, task) else {
                return Ok(None);
            };
            Ok(Some(LoadedTask {
                record: kept.record.clone(),
                entries: kept.entries(from..=u64::MAX)?,
                messages: kept.messages()?,
                signals: kept.waiting(),
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
            let kept = inner.seen(viewer, task);
            kept.map_or_else(|| Ok(Vec::new()), |kept| kept.entries(seqs))
        })
    }

    fn events(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: RangeInclusive<u64>,
    ) -> StoreFuture<Vec<JournalEvent>> {
        self.with(|inner, _| {
            let kept = inner.seen(viewer, task);
            kept.map_or_else(|| Ok(Vec::new()), |kept| kept.events(&seqs))
        })
    }

    fn signals(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<Signal>> {
        self.with(|inner, _| {
            let kept = inner.seen(viewer, task);
            Ok(kept.map(StoredTask::waiting).unwrap_or_default())
        })
    }

    fn query(&self, viewer: &Viewer, filter: Filter, page: Page) -> StoreFuture<TaskPage> {
        self.with(|inner, _| {
            let mut tasks: Vec<_> = inner
                .fitting(viewer, &filter)
                .filter(|record| page.after.is_none_or(|after| record.ordinal < after.0))
                .take(page.limit + 1)
                .map(TaskSummary::from)
                .collect();
            let more = tasks.len() > page.limit;
            tasks.truncate(page.limit);
            let next = if more {
                tasks.last().map(|task| PageCursor(task.ordinal))
            } else {
                None
            };
            Ok(TaskPage { tasks, next })
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

    fn conversations(&self, viewer: &Viewer, limit: usize) -> StoreFuture<Vec<ConversationRecord>> {
        self.with(|inner, _| {
            let ids = inner.conversations.keys();
            let found: Result<Vec<_>, _> = ids
                .filter_map(|id| inner.conversation(*id, None, 0).transpose())
                .collect();
            let mut found = found?;
            found.retain(|conversation| viewer.sees_conversation(conversation));
            found.sort_by_key(|conversation| {
                std::cmp::Reverse((conversation.updated_at, conversation.id))
            });
            found.truncate(limit);
            Ok(found)
        })
    }

    fn definition(&self, hash: &str) -> StoreFuture<Option<Definition>> {
        self.with(|inner, _| Ok(inner.definitions.get(hash).map(|kept| (**kept).clone())))
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
    fn kept(&self, task: Uuid) -> Option<&StoredTask> {
        self.tasks.get(self.ordinals.get(&task)?)
    }

    /// A task, if it is there and the viewer sees it.
    fn seen(&self, viewer: &Viewer, task: Uuid) -> Option<&StoredTask> {
        self.kept(task)
            .filter(|kept| viewer.sees_task(&kept.record))
    }

    /// Tasks that the viewer sees and that fit, newest first.
    fn fitting(&self, viewer: &Viewer, filter: &Filter) -> impl Iterator<Item = &TaskRecord> {
        let records = self.tasks.values().rev().map(|kept| &kept.record);
        records.filter(move |record| viewer.sees_task(record) && filter.fits(record))
    }

    fn kept_mut(&mut self, task: Uuid) -> Option<&mut StoredTask> {
        self.tasks.get_mut(self.ordinals.get(&task)?)
    }

    fn submit(&mut self, task: NewTask, now: Timestamp) -> Result<Submission, StoreError> {
        if let Some(key) = &task.key
            && let Some(existing) = self.keys.get(&(task.app.clone(), task.owner, key.clone()))
        {
            let known = self.kept(*existing);
            let fingerprint = known.and_then(|kept| kept.fingerprint.as_deref());
            return task.existing(*existing, fingerprint);
        }
        if self.ordinals.contains_key(&task.id) {
            return Err(StoreError::IdTaken { task: task.id });
        }
        if let Some(id) = task.conversation {
            let new = Conversation::new(task.owner, &task.app, task.channel, now);
            self.own_conversation(id, new)?.updated_at = now;
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
        let mut kept = StoredTask {
            record,
            key: task.key,
            fingerprint: task.fingerprint,
            entries: Vec::new(),
            messages: Vec::new(),
            inbox: Vec::new(),
        };
        self.keep(task.definition);
        kept.write(vec![task.entry], task.messages);
        let lease = task
            .hold
            .filter(|_| task.not_before.is_none() && !self.waits_its_turn(&kept.record, now));
        let held = lease.is_some();
        if let Some(lease) = lease {
            kept.record.epoch = FIRST_EPOCH;
            kept.record.status = TaskState::Working;
            kept.record.worker = Some(lease.worker.to_string());
            kept.record.ready_at = Some(later(now, lease.time));
            kept.record.started_at = Some(now);
        }
        let carried: Vec<_> = kept.messages.iter().map(|(_, new)| new.clone()).collect();
        self.insert(kept);
        for blob in &task.blobs {
            self.keep_blob(ordinal, blob);
        }
        self.name_carried(ordinal, &carried);
        let parent = task.parent.and_then(|parent| self.kept(parent));
        if parent.is_some_and(|parent| parent.record.status.is_final()) {
            self.signal(NewSignal::parent_ended(task.id), now);
        }
        Ok(Submission::Created { id: task.id, held })
    }

    fn append(
        &mut self,
        fence: Fence,
        batch: &Batch,
        now: Timestamp,
    ) -> Result<(u64, Vec<Scope>), StoreError> {
        let fenced = StoreError::Fenced { task: fence.task };
        let kept = self.kept_mut(fence.task).ok_or(fenced.clone())?;
        let record = &kept.record;
        if record.epoch != fence.epoch || record.seq != fence.seq || record.status.is_final() {
            return Err(fenced);
        }
        let spoken = batch.messages.iter().any(|message| message.spoken);
        kept.write(batch.entries.clone(), batch.messages.clone());
        for kept in &mut kept.inbox {
            kept.consumed |= batch.consumed.contains(&kept.signal.id);
        }
        let rests = batch.standing.as_ref().is_some_and(StatusUpdate::rests);
        if let Some(standing) = &batch.standing {
            kept.stand(standing, now);
        }
        let record = &kept.record;
        let (seq, conversation, ordinal) = (record.seq, record.conversation, record.ordinal);
        let ends = record.status.is_final();
        self.name_carried(ordinal, &batch.messages);
        let mut scopes = vec![Scope::Task(fence.task)];
        if rests {
            scopes.push(Scope::Rest(fence.task));
            if !ends || conversation.is_some() {
                scopes.push(Scope::Work);
            }
        }
        if spoken
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

    /// Tells every child that has not ended that its parent has. Gives what may have changed for others.
    fn call_off_children(&mut self, parent: Uuid, now: Timestamp) -> Vec<Scope> {
        let children = self.children.get(&parent).into_iter().flatten();
        let live = children.filter(|ordinal| self.live.contains(ordinal));
        let live: Vec<_> = live
            .filter_map(|ordinal| self.tasks.get(ordinal))
            .map(|kept| kept.record.id)
            .collect();
        let mut scopes = Vec::new();
        for child in live {
            self.signal(NewSignal::parent_ended(child), now);
            scopes.extend([Scope::Inbox(child), Scope::Work]);
        }
        scopes
    }

    /// Adds a task that is not there yet.
    fn insert(&mut self, kept: StoredTask) {
        let record = &kept.record;
        let (id, ordinal) = (record.id, record.ordinal);
        self.ordinals.insert(id, ordinal);
        if let Some(key) = kept.unique_key() {
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
        self.tasks.insert(ordinal, kept);
    }

    /// Notes that a task has ended.
    fn note_end(&mut self, ordinal: u64) {
        self.live.remove(&ordinal);
        self.ended.push_back(ordinal);
        let kept = self.tasks.get(&ordinal);
        let conversation = kept.and_then(|kept| kept.record.conversation);
        if let Some(conversation) = conversation.and_then(|id| self.conversations.get_mut(&id)) {
            conversation.open.remove(&ordinal);
        }
    }

    /// Of the ended tasks only the newest stay, and only the newest of those with their journals.
    fn forget_oldest(&mut self) {
        let past = self
            .ended
            .len()
            .checked_sub(self.keep.journals.saturating_add(1));
        let past = past.and_then(|index| self.ended.get(index));
        if let Some(kept) = past.and_then(|ordinal| self.tasks.get_mut(ordinal)) {
            kept.forget_journal();
            let ordinal = kept.record.ordinal;
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
        let Some(kept) = self.tasks.remove(&ordinal) else {
            return;
        };
        self.release_blobs(ordinal);
        self.ordinals.remove(&kept.record.id);
        if let Some(parent) = kept.record.parent
            && let Some(children) = self.children.get_mut(&parent)
        {
            children.retain(|child| *child != ordinal);
            if children.is_empty() {
                self.children.remove(&parent);
            }
        }
        if let Some(key) = kept.unique_key() {
            self.keys.remove(&key);
        }
        if let Some(id) = kept.record.conversation
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
        if let Some(kept) = self.kept_mut(fence.task)
            && kept.record.epoch == fence.epoch
            && kept.record.worker.is_some()
        {
            kept.record.ready_at = Some(until);
            renewed.held = true;
            renewed.signalled = kept.is_signalled();
        }
        renewed
    }

    fn signal(&mut self, signal: NewSignal, now: Timestamp) -> SignalReceipt {
        let id = self.signals + 1;
        let Some(kept) = self.kept_mut(signal.task) else {
            return SignalReceipt::Unknown;
        };
        if kept.inbox.iter().any(|earlier| earlier.key == signal.key) {
            return SignalReceipt::Duplicate;
        }
        if kept.record.status.is_final() {
            return SignalReceipt::Ended;
        }
        kept.inbox.push(StoredSignal {
            signal: Signal {
                id,
                kind: signal.kind.word().to_owned(),
                payload: signal.payload,
                at: now,
            },
            key: signal.key,
            consumed: false,
        });
        if kept.record.worker.is_none() {
            kept.record.ready_at = Some(now);
        }
        self.signals = id;
        SignalReceipt::Accepted
    }
}
