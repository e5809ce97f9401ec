//! The store in memory: for tests, for runs that need no durability, and as the plain reference that
//! every other backend is compared with. Clear before fast.

mod archive;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_model::{Channel, Clock, RetentionPolicy, TaskState};
use futures::FutureExt;
use jiff::Timestamp;
use uuid::Uuid;

use crate::archive::{Archive, BroughtIn};
use crate::conversation::ConversationRecord;
use crate::definition::Definition;
use crate::error::StoreError;
use crate::journal::{Batch, Entry, Fence, Hold, NewEntry, NewMessage, Standing, StoredMessage};
use crate::signal::{NewSignal, Signal, Signalled};
use crate::state::{StateReader, misfit};
use crate::task::{
    Claim, Claimed, FIRST_EPOCH, Filter, Loaded, NewTask, Page, Renewed, Submitted, Swept,
    TaskPage, TaskRecord, expired, lease_end, unreadable,
};
use crate::watch::{Hint, Hints, Scope};
use crate::{Store, StoreFuture};

/// How much a store in memory keeps, which is no place to keep everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Of so many of the newest ended tasks, all is kept.
    pub journals: usize,
    /// Of so many, where they stand and what was spoken.
    pub tasks: usize,
}

impl Default for Keep {
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
    keep: Keep,
    /// By ordinal, which is the order of submission.
    tasks: BTreeMap<u64, Kept>,
    /// Those that have not ended.
    live: BTreeSet<u64>,
    /// Those that have, the oldest first.
    ended: VecDeque<u64>,
    ordinals: HashMap<Uuid, u64>,
    /// Those that were started by another task, by that task.
    children: HashMap<Uuid, Vec<u64>>,
    keys: HashMap<(Uuid, String), Uuid>,
    conversations: BTreeMap<Uuid, Conversation>,
    definitions: HashMap<String, Arc<Definition>>,
    /// Counted, not derived, so that neither is ever given out twice.
    submitted: u64,
    signals: i64,
}

#[derive(Debug)]
struct Kept {
    record: TaskRecord,
    key: Option<String>,
    /// As they came in, one after the other up to the newest; they are read only when asked for.
    entries: Vec<NewEntry>,
    /// As they came in, with the sequence of the entry that added each.
    messages: Vec<(u64, NewMessage)>,
    inbox: Vec<KeptSignal>,
}

#[derive(Debug)]
struct KeptSignal {
    signal: Signal,
    key: String,
    consumed: bool,
}

#[derive(Debug)]
struct Conversation {
    /// How many of the kept tasks belong to it. It goes with the last of them.
    tasks: usize,
    owner: Uuid,
    channel: Channel,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl MemoryStore {
    /// An empty store that tells leases by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::keeping(Keep::default(), clock)
    }

    /// The same, keeping more or less of what has ended.
    pub fn keeping(keep: Keep, clock: Arc<dyn Clock>) -> Self {
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
        std::future::ready(self.now(work)).boxed()
    }

    fn now<T>(&self, work: impl FnOnce(&mut Inner, Timestamp) -> T) -> T {
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
    fn submit(&self, task: NewTask) -> StoreFuture<Submitted> {
        let (submitted, scopes) = self.now(|inner, now| match inner.submit(task, now) {
            Ok(submitted @ Submitted::Created { held: true, .. }) => (Ok(submitted), Vec::new()),
            outcome => (outcome, vec![Scope::Work]),
        });
        self.tell(scopes);
        std::future::ready(submitted).boxed()
    }

    fn claim(&self, claim: Claim) -> StoreFuture<Vec<Claimed>> {
        self.with(|inner, now| inner.claim(&claim, now))
    }

    fn append(&self, fence: Fence, batch: Batch) -> StoreFuture<u64> {
        let (appended, scopes) = self.now(|inner, now| match inner.append(fence, batch, now) {
            Ok((seq, scopes)) => (Ok(seq), scopes),
            Err(error) => (Err(error), Vec::new()),
        });
        self.tell(scopes);
        std::future::ready(appended).boxed()
    }

    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<Renewed>> {
        self.with(|inner, now| {
            Ok(fences
                .into_iter()
                .map(|fence| inner.renew(fence, lease_end(now, lease)))
                .collect())
        })
    }

    fn signal(&self, signal: NewSignal) -> StoreFuture<Signalled> {
        let task = signal.task;
        let done = self.with(|inner, now| Ok(inner.signal(signal, now)));
        self.hints.tell(Scope::Inbox(task));
        self.hints.tell(Scope::Work);
        done
    }

    fn load(&self, task: Uuid, from: u64) -> StoreFuture<Option<Loaded>> {
        self.with(|inner, _| {
            let Some(kept) = inner.kept(task) else {
                return Ok(None);
            };
            Ok(Some(Loaded {
                record: kept.record.clone(),
                entries: kept.entries_from(from)?,
                messages: kept.messages()?,
                signals: kept.waiting(),
            }))
        })
    }

    fn newest(&self, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>> {
        self.with(|inner, _| {
            let Some(kept) = inner.kept(task) else {
                return Ok(None);
            };
            let entry = kept.entries_from(kept.record.seq)?.pop();
            Ok(entry.map(|entry| (kept.record.clone(), entry)))
        })
    }

    fn query(&self, filter: Filter, page: Page) -> StoreFuture<TaskPage> {
        self.with(|inner, _| {
            let mut tasks: Vec<_> = inner
                .tasks
                .values()
                .rev()
                .map(|kept| &kept.record)
                .filter(|record| filter.fits(record))
                .filter(|record| page.before.is_none_or(|before| record.ordinal < before))
                .take(page.limit + 1)
                .cloned()
                .collect();
            let more = tasks.len() > page.limit;
            tasks.truncate(page.limit);
            let next = if more {
                tasks.last().map(|record| record.ordinal)
            } else {
                None
            };
            Ok(TaskPage { tasks, next })
        })
    }

    fn conversation(
        &self,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>> {
        self.with(|inner, _| inner.conversation(id, before, limit))
    }

    fn conversations(&self, owner: Uuid, limit: usize) -> StoreFuture<Vec<ConversationRecord>> {
        self.with(|inner, _| {
            let found: Result<Vec<_>, _> = inner
                .conversations
                .iter()
                .filter(|(_, conversation)| conversation.owner == owner)
                .filter_map(|(id, _)| inner.conversation(*id, None, 0).transpose())
                .collect();
            let mut found = found?;
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

    fn take_out(&self, task: Uuid) -> StoreFuture<Option<Archive>> {
        self.with(|inner, _| inner.take_out(task))
    }

    fn bring_in(&self, archive: Archive, definition: Option<Definition>) -> StoreFuture<BroughtIn> {
        let brought_in = self.with(|inner, _| inner.bring_in(archive, definition));
        self.hints.tell(Scope::Work);
        brought_in
    }

    fn watch(&self, scope: Scope) -> Hint {
        self.hints.watch(scope)
    }

    fn sweep(&self, policy: RetentionPolicy, dry_run: bool) -> StoreFuture<Swept> {
        self.with(|inner, now| Ok(inner.sweep(&policy, dry_run, now)))
    }
}

impl Inner {
    fn kept(&self, task: Uuid) -> Option<&Kept> {
        self.tasks.get(self.ordinals.get(&task)?)
    }

    fn kept_mut(&mut self, task: Uuid) -> Option<&mut Kept> {
        self.tasks.get_mut(self.ordinals.get(&task)?)
    }

    fn submit(&mut self, task: NewTask, now: Timestamp) -> Result<Submitted, StoreError> {
        if let Some(key) = &task.key
            && let Some(existing) = self.keys.get(&(task.owner, key.clone()))
        {
            return Ok(Submitted::Existing(*existing));
        }
        if self.ordinals.contains_key(&task.id) {
            return Err(StoreError::IdTaken { task: task.id });
        }
        if let Some(id) = task.conversation {
            let conversation = self.conversations.entry(id).or_insert(Conversation {
                tasks: 0,
                owner: task.owner,
                channel: task.channel,
                created_at: now,
                updated_at: now,
            });
            if conversation.owner != task.owner {
                return Err(StoreError::ForeignConversation { conversation: id });
            }
            conversation.updated_at = now;
            conversation.tasks += 1;
        }
        self.submitted += 1;
        let ordinal = self.submitted;
        self.live.insert(ordinal);
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
            ready_at: Some(now),
            claims: 0,
            created_at: task.entry.at,
            started_at: None,
            completed_at: None,
            deadline: task.deadline,
            retention_days: task.retention_days,
            tags: task.tags,
            result: None,
            error: None,
        };
        let mut kept = Kept {
            record,
            key: task.key.clone(),
            entries: Vec::new(),
            messages: Vec::new(),
            inbox: Vec::new(),
        };
        if !self.definitions.contains_key(&task.definition.hash) {
            let hash = task.definition.hash.clone();
            self.definitions.insert(hash, task.definition);
        }
        kept.write(vec![task.entry], task.messages);
        let lease = task.hold.filter(|_| !self.waits_its_turn(&kept.record));
        let held = lease.is_some();
        if let Some(lease) = lease {
            kept.record.epoch = FIRST_EPOCH;
            kept.record.status = TaskState::Working;
            kept.record.worker = Some(lease.worker.to_string());
            kept.record.ready_at = Some(lease_end(now, lease.time));
            kept.record.started_at = Some(now);
        }
        self.insert(kept);
        let parent = task.parent.and_then(|parent| self.kept(parent));
        if parent.is_some_and(|parent| parent.record.status.is_final()) {
            self.signal(NewSignal::parent_ended(task.id), now);
        }
        Ok(Submitted::Created { id: task.id, held })
    }

    fn claim(&mut self, claim: &Claim, now: Timestamp) -> Result<Vec<Claimed>, StoreError> {
        let mut ready: Vec<_> = self
            .live
            .iter()
            .filter_map(|ordinal| self.tasks.get(ordinal))
            .map(|kept| &kept.record)
            .filter(|record| record.ready_at.is_some_and(|ready| ready <= now))
            .filter(|record| claim.apps.contains(&record.app))
            .filter(|record| !claim.except.contains(&record.definition))
            .filter(|record| !self.waits_its_turn(record))
            .map(|record| (record.ready_at, record.ordinal))
            .collect();
        ready.sort_unstable();
        ready.truncate(claim.limit);
        let mut claimed = Vec::with_capacity(ready.len());
        for (_, ordinal) in ready {
            match self.hold(ordinal, claim, now) {
                Ok(task) => claimed.extend(task),
                Err(StoreError::Corrupt(cause)) => self.set_aside(ordinal, &cause, now),
                Err(error) => return Err(error),
            }
        }
        Ok(claimed)
    }

    /// Makes a task the worker's.
    fn hold(
        &mut self,
        ordinal: u64,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Option<Claimed>, StoreError> {
        let Some(kept) = self.tasks.get_mut(&ordinal) else {
            return Ok(None);
        };
        // All is read before anything is changed.
        let entry = kept.entries_from(kept.record.seq)?.pop();
        let entry = entry.ok_or_else(|| StoreError::Corrupt("the task has no entry".into()))?;
        let (messages, signals) = (kept.messages()?, kept.waiting());
        let record = &mut kept.record;
        record.epoch += 1;
        record.claims += 1;
        record.worker = Some(claim.worker.clone());
        record.ready_at = Some(lease_end(now, claim.lease));
        record.started_at.get_or_insert(now);
        if record.status == TaskState::Submitted {
            record.status = TaskState::Working;
        }
        Ok(Some(Claimed {
            record: record.clone(),
            entry,
            messages,
            signals,
        }))
    }

    /// Ends a task that cannot be read, so that it is in nobody's way. Its journal stays as it is.
    fn set_aside(&mut self, ordinal: u64, cause: &str, now: Timestamp) {
        tracing::error!(ordinal, cause, "a task cannot be read and is set aside");
        if let Some(kept) = self.tasks.get_mut(&ordinal) {
            let record = &mut kept.record;
            record.status = TaskState::Failed;
            record.error = Some(unreadable(cause));
            record.completed_at = Some(now);
            record.worker = None;
            record.ready_at = None;
            self.live.remove(&ordinal);
            self.ended.push_back(ordinal);
        }
    }

    /// Messages of one conversation are processed in order, one at a time.
    fn waits_its_turn(&self, record: &TaskRecord) -> bool {
        record.conversation.is_some()
            && self
                .live
                .range(..record.ordinal)
                .filter_map(|ordinal| self.tasks.get(ordinal))
                .any(|earlier| {
                    earlier.record.conversation == record.conversation
                        && matches!(
                            earlier.record.status,
                            TaskState::Submitted | TaskState::Working
                        )
                })
    }

    fn append(
        &mut self,
        fence: Fence,
        batch: Batch,
        now: Timestamp,
    ) -> Result<(u64, Vec<Scope>), StoreError> {
        let fenced = StoreError::Fenced { task: fence.task };
        let kept = self.kept_mut(fence.task).ok_or(fenced.clone())?;
        let record = &kept.record;
        if record.epoch != fence.epoch || record.seq != fence.seq || record.status.is_final() {
            return Err(fenced);
        }
        let spoken = batch.messages.iter().any(|message| message.spoken);
        kept.write(batch.entries, batch.messages);
        for kept in &mut kept.inbox {
            kept.consumed |= batch.consumed.contains(&kept.signal.id);
        }
        let rests = batch.standing.as_ref().is_some_and(Standing::rests);
        if let Some(standing) = batch.standing {
            kept.stand(standing, now);
        }
        let record = &kept.record;
        let (seq, conversation, ordinal) = (record.seq, record.conversation, record.ordinal);
        let ends = record.status.is_final();
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
            self.live.remove(&ordinal);
            self.ended.push_back(ordinal);
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
    fn insert(&mut self, kept: Kept) {
        let record = &kept.record;
        let (id, ordinal) = (record.id, record.ordinal);
        self.ordinals.insert(id, ordinal);
        if let Some(key) = &kept.key {
            self.keys.insert((record.owner, key.clone()), id);
        }
        if let Some(parent) = record.parent {
            self.children.entry(parent).or_default().push(ordinal);
        }
        self.tasks.insert(ordinal, kept);
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
        self.ordinals.remove(&kept.record.id);
        if let Some(parent) = kept.record.parent
            && let Some(children) = self.children.get_mut(&parent)
        {
            children.retain(|child| *child != ordinal);
            if children.is_empty() {
                self.children.remove(&parent);
            }
        }
        if let Some(key) = kept.key {
            self.keys.remove(&(kept.record.owner, key));
        }
        if let Some(id) = kept.record.conversation
            && let Some(conversation) = self.conversations.get_mut(&id)
        {
            conversation.tasks -= 1;
            if conversation.tasks == 0 {
                self.conversations.remove(&id);
            }
        }
    }

    fn renew(&mut self, fence: Fence, until: Timestamp) -> Renewed {
        let mut renewed = Renewed {
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

    fn signal(&mut self, signal: NewSignal, now: Timestamp) -> Signalled {
        let id = self.signals + 1;
        let Some(kept) = self.kept_mut(signal.task) else {
            return Signalled::Unknown;
        };
        if kept.inbox.iter().any(|earlier| earlier.key == signal.key) {
            return Signalled::Duplicate;
        }
        if kept.record.status.is_final() {
            return Signalled::Ended;
        }
        kept.inbox.push(KeptSignal {
            signal: Signal {
                id,
                kind: signal.kind,
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
        Signalled::Accepted
    }

    fn conversation(
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
        let spoken: Vec<_> = self
            .tasks
            .range(..end)
            .filter(|(_, kept)| kept.record.conversation == Some(id))
            .flat_map(|(_, kept)| kept.messages.iter().filter(|(_, message)| message.spoken))
            .collect();
        let older = spoken.len().saturating_sub(limit);
        let messages: Result<_, _> = spoken[older..]
            .iter()
            .map(|(_, stored)| serde_json::from_str(&stored.message))
            .collect();
        Ok(Some(ConversationRecord {
            id,
            owner: conversation.owner,
            channel: conversation.channel,
            created_at: conversation.created_at,
            updated_at: conversation.updated_at,
            messages: messages?,
            older,
        }))
    }

    fn sweep(&mut self, policy: &RetentionPolicy, dry_run: bool, now: Timestamp) -> Swept {
        let live = |task: Uuid| {
            self.kept(task)
                .is_some_and(|kept| !kept.record.status.is_final())
        };
        let over: Vec<_> = self
            .tasks
            .values()
            .map(|kept| &kept.record)
            .filter(|record| expired(record, policy, now))
            .filter(|record| !record.parent.is_some_and(live))
            .map(|record| (record.ordinal, record.id))
            .collect();
        if !dry_run {
            for (ordinal, _) in &over {
                self.remove(*ordinal);
            }
            let tasks = &self.tasks;
            let named = |hash: &str| tasks.values().any(|kept| kept.record.definition == *hash);
            self.definitions.retain(|hash, _| named(hash));
        }
        Swept {
            tasks: over.into_iter().map(|(_, id)| id).collect(),
        }
    }
}

impl Kept {
    fn entries_from(&self, from: u64) -> Result<Vec<Entry>, StoreError> {
        let first = self.record.seq + 1 - self.entries.len() as u64;
        let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let skipped = skipped.min(self.entries.len());
        // What changed can be told only from the last state that was written in full.
        let needs_earlier = |entry: &NewEntry| StateReader::default().needs_earlier(&entry.state);
        let read_from = (0..=skipped)
            .rev()
            .find(|place| !self.entries.get(*place).is_some_and(needs_earlier))
            .unwrap_or(0);
        let mut states = StateReader::default();
        let entries = (first..).zip(&self.entries).skip(read_from);
        let read = entries.map(|(seq, entry)| {
            Ok(Entry {
                seq,
                at: entry.at,
                kind: entry.kind.to_string(),
                event: serde_json::from_str(&entry.event)?,
                state: states.read(&entry.state).ok_or_else(|| misfit(seq))?,
            })
        });
        read.skip(skipped - read_from).collect()
    }

    fn messages(&self) -> Result<Vec<StoredMessage>, StoreError> {
        let read = |(seq, new): &(u64, NewMessage)| {
            Ok(StoredMessage {
                seq: *seq,
                spoken: new.spoken,
                message: serde_json::from_str(&new.message)?,
            })
        };
        self.messages.iter().map(read).collect()
    }

    /// Signals that were not taken in yet.
    fn waiting(&self) -> Vec<Signal> {
        let waiting = self.inbox.iter().filter(|kept| !kept.consumed);
        waiting.map(|kept| kept.signal.clone()).collect()
    }

    fn is_signalled(&self) -> bool {
        self.inbox.iter().any(|kept| !kept.consumed)
    }

    /// Keeps the newest entry and what was spoken.
    fn forget_journal(&mut self) {
        let newest = self.entries_from(self.record.seq);
        if let Ok(mut newest) = newest
            && let (Some(newest), Some(last)) = (newest.pop(), self.entries.last_mut())
        {
            newest.state.as_str().clone_into(&mut last.state);
        }
        self.entries.drain(..self.entries.len().saturating_sub(1));
        self.entries.shrink_to_fit();
        self.messages.retain(|(_, message)| message.spoken);
        self.messages.shrink_to_fit();
    }

    fn write(&mut self, entries: Vec<NewEntry>, messages: Vec<NewMessage>) {
        self.record.seq += entries.len() as u64;
        self.entries.extend(entries);
        let seq = self.record.seq;
        self.messages
            .extend(messages.into_iter().map(|message| (seq, message)));
    }

    fn stand(&mut self, standing: Standing, now: Timestamp) {
        let waiting = self.is_signalled();
        let record = &mut self.record;
        record.status = standing.status;
        record.stage = standing.stage;
        record.result = standing.result.or(record.result.take());
        record.error = standing.error.or(record.error.take());
        if standing.progress {
            record.claims = 0;
        }
        if standing.status.is_final() {
            record.worker = None;
            record.ready_at = None;
            record.completed_at = Some(now);
        } else if let Hold::Release { wake_at } = standing.hold {
            record.worker = None;
            // A signal that came while the task was at work must not wait for the next one.
            record.ready_at = if waiting { Some(now) } else { wake_at };
        }
    }
}
