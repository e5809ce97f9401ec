//! The embedded store: one SQLite file, written by one thread with group commit and synchronous
//! FULL, read over connections of their own. People can open the file with any SQLite tool.

mod archive;
mod blobs;
mod columns;
mod large_values;
mod lost;
mod read;
mod read_only;
mod schema;
mod workers;
mod write;
mod writer;

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_model::{BlobHash, Clock};
use futures::FutureExt;
use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::archive::{Archive, Imported};
use crate::blob::{Blob, BlobInfo, BlobRange};
use crate::conversation::{ConversationCursor, ConversationRecord, Deletion};
use crate::definition::Definition;
use crate::error::StoreError;
use crate::journal::{Batch, Entry, Fence, JournalEvent};
use crate::page::{Page, TaskPage};
use crate::signal::{NewSignal, Signal, SignalReceipt};
use crate::task::{
    Claim, Claimed, Filter, LoadedTask, NewTask, RenewedLease, Submission, Sweep, SweepReport,
    TaskRecord, later,
};
use crate::viewer::Viewer;
use crate::watch::{Hint, Hints, Scope};
use crate::{Store, StoreFuture};
pub use lost::LostChanges;
use workers::Workers;
use writer::Writer;

/// How long a write waits for another process's write.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before write-ahead logging is tried again.
const WRITE_AHEAD_PAUSE: Duration = Duration::from_millis(5);

/// The number of these pauses, which take as long as the busy timeout.
const WRITE_AHEAD_PAUSES: usize = 2_000;

/// At 4 KB a page, a row of 2 KB fills one; at 16 KB the file is almost half the size.
const PAGE_SIZE: u32 = 16_384;

/// Limit of read connections.
const READERS: usize = 4;

/// Ended tasks per step of a sweep, which are removed in one transaction, so that other writers are not blocked.
const SWEEP_GROUP: usize = 500;

/// Settings of a store in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteOptions {
    /// Limit of changes that wait to be written. Above it, a change fails as `store.unavailable`.
    pub queued_writes: usize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            queued_writes: 100_000,
        }
    }
}

/// A store in a file.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    hints: Hints,
    workers: Arc<Workers>,
    /// Idle read connections, and their semaphore.
    readers: Mutex<Vec<Connection>>,
    turns: Semaphore,
    /// `None` if the file is open for reading only.
    writer: Option<Writer>,
    access: Access,
    lost: Option<LostChanges>,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// For reading and writing.
    Write,
    /// For reading, while others may write.
    Read,
    /// For reading, where no process can write.
    ReadUnchanging,
}

impl Inner {
    fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self
            .readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let connection = match idle {
            Some(connection) => connection,
            None => match self.access {
                Access::Write => open_connection(&self.path)?,
                access => read_only::connect(&self.path, access)?,
            },
        };
        let answer = question(&connection);
        // A connection whose transaction could not be ended would read an old snapshot forever.
        if connection.is_autocommit() {
            self.readers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
        }
        answer
    }
}

impl SqliteStore {
    /// Opens or creates the file, and brings an older one up to date. Its folder must exist.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_with(path, clock, SqliteOptions::default())
    }

    /// The same, with settings.
    pub fn open_with(
        path: &Path,
        clock: Arc<dyn Clock>,
        options: SqliteOptions,
    ) -> Result<Self, StoreError> {
        let lost = lost::look(path);
        let mut connection = open_connection(path)?;
        schema::migrate(&mut connection)?;
        tell_lost(path, &connection, lost)?;
        let writer = Writer::start(path.to_owned(), connection, options.queued_writes)?;
        Ok(Self::over(path, clock, Access::Write, Some(writer), lost))
    }

    /// Opens an existing file for reading, even if neither it nor its folder is writable. All changes fail. A file of
    /// an older version must be opened for writing once.
    pub fn open_read_only(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let lost = lost::look(path);
        let (connection, access) = read_only::open(path)?;
        tell_lost(path, &connection, lost)?;
        Ok(Self::over(path, clock, access, None, lost))
    }

    fn over(
        path: &Path,
        clock: Arc<dyn Clock>,
        access: Access,
        writer: Option<Writer>,
        lost: Option<LostChanges>,
    ) -> Self {
        let inner = Inner {
            path: path.to_owned(),
            clock,
            hints: Hints::default(),
            workers: Arc::new(Workers::beside(path)),
            readers: Mutex::default(),
            turns: Semaphore::new(READERS),
            writer,
            access,
            lost,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Committed changes that were missing when the file was opened.
    pub fn lost_changes(&self) -> Option<LostChanges> {
        self.inner.lost
    }

    fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        let inner = Arc::clone(&self.inner);
        async move {
            // A few connections with warm caches are faster than one per caller.
            let _turn = inner
                .turns
                .acquire()
                .await
                .map_err(|error| StoreError::Unavailable(error.to_string()))?;
            let connections = Arc::clone(&inner);
            tokio::task::spawn_blocking(move || connections.ask(question))
                .await
                .map_err(|error| {
                    StoreError::Unavailable(format!("a read did not finish: {error}"))
                })?
        }
        .boxed()
    }

    /// Queues an operation. Its hints are sent when it is durable, even if the future was dropped.
    fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> Result<(T, Vec<Scope>), StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        match &self.inner.writer {
            Some(writer) => writer.run(operation, &self.inner.hints),
            None => std::future::ready(Err(StoreError::ReadOnly)).boxed(),
        }
    }
}

impl Store for SqliteStore {
    fn now(&self) -> StoreFuture<Timestamp> {
        std::future::ready(Ok(self.inner.clock.now())).boxed()
    }

    fn submit(&self, task: NewTask) -> StoreFuture<Submission> {
        let now = self.inner.clock.now();
        let workers = Arc::clone(&self.inner.workers);
        self.write(move |connection| {
            if let Some(lease) = &task.hold {
                workers.register(&lease.worker);
            }
            let submitted = write::submit(connection, &task, now)?;
            let waits = matches!(submitted, Submission::Created { held: false, .. });
            Ok((
                submitted,
                waits.then_some(Scope::Work).into_iter().collect(),
            ))
        })
    }

    fn claim(&self, claim: Claim) -> StoreFuture<Claimed> {
        let now = self.inner.clock.now();
        let workers = Arc::clone(&self.inner.workers);
        let claimed = self.write(move |connection| {
            // The marks of workers are files, so they are scanned here, on the writer's thread.
            workers.register(&claim.worker);
            let dead = workers.dead(now);
            write::void_leases(connection, &dead, now)?;
            let tasks = write::claim(connection, &claim, now)?;
            let next_ready_in = write::next_ready_in(connection, &claim, now)?;
            let claimed = Claimed {
                now,
                tasks,
                next_ready_in,
            };
            Ok(((claimed, dead), Vec::new()))
        });
        let workers = Arc::clone(&self.inner.workers);
        async move {
            let (claimed, dead) = claimed.await?;
            workers.forget(&dead);
            Ok(claimed)
        }
        .boxed()
    }

    fn append(&self, fence: Fence, batch: Arc<Batch>) -> StoreFuture<u64> {
        let now = self.inner.clock.now();
        self.write(move |connection| write::append(connection, fence, &batch, now))
    }

    fn renew(&self, fences: Vec<Fence>, lease: Duration) -> StoreFuture<Vec<RenewedLease>> {
        let until = later(self.inner.clock.now(), lease);
        self.write(move |connection| {
            let renewed: Result<_, StoreError> = fences
                .into_iter()
                .map(|fence| write::renew(connection, fence, until))
                .collect();
            Ok((renewed?, Vec::new()))
        })
    }

    fn signal(&self, viewer: &Viewer, signal: NewSignal) -> StoreFuture<SignalReceipt> {
        let now = self.inner.clock.now();
        let viewer = viewer.clone();
        self.write(move |connection| {
            let scopes = vec![Scope::Inbox(signal.task), Scope::Work];
            Ok((write::signal(connection, &viewer, &signal, now)?, scopes))
        })
    }

    fn task(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<TaskRecord>> {
        let viewer = viewer.clone();
        self.read(move |connection| read::task(connection, &viewer, task))
    }

    fn newest(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<(TaskRecord, Entry)>> {
        let viewer = viewer.clone();
        self.read(move |connection| read::newest(connection, &viewer, task))
    }

    fn load(&self, viewer: &Viewer, task: Uuid, from: u64) -> StoreFuture<Option<LoadedTask>> {
        let viewer = viewer.clone();
        self.read(move |connection| read::load(connection, &viewer, task, from))
    }

    fn entries(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: RangeInclusive<u64>,
    ) -> StoreFuture<Vec<Entry>> {
        let viewer = viewer.clone();
        self.read(move |connection| read::entries_of(connection, &viewer, task, &seqs))
    }

    fn events(
        &self,
        viewer: &Viewer,
        task: Uuid,
        seqs: RangeInclusive<u64>,
    ) -> StoreFuture<Vec<JournalEvent>> {
        let viewer = viewer.clone();
        self.read(move |connection| read::events_of(connection, &viewer, task, &seqs))
    }

    fn signals(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<Signal>> {
        let viewer = viewer.clone();
        self.read(move |connection| read::signals_of(connection, &viewer, task))
    }

    fn query(&self, viewer: &Viewer, filter: Filter, page: Page) -> StoreFuture<TaskPage> {
        let viewer = viewer.clone();
        self.read(move |connection| read::query(connection, &viewer, &filter, page))
    }

    fn count(&self, viewer: &Viewer, filter: Filter, at_most: usize) -> StoreFuture<usize> {
        let viewer = viewer.clone();
        self.read(move |connection| read::count(connection, &viewer, &filter, at_most))
    }

    fn conversation(
        &self,
        viewer: &Viewer,
        id: Uuid,
        before: Option<Uuid>,
        limit: usize,
    ) -> StoreFuture<Option<ConversationRecord>> {
        let viewer = viewer.clone();
        self.read(move |connection| read::conversation(connection, &viewer, id, before, limit))
    }

    fn conversations(
        &self,
        viewer: &Viewer,
        after: Option<ConversationCursor>,
        limit: usize,
    ) -> StoreFuture<Vec<ConversationRecord>> {
        let viewer = viewer.clone();
        self.read(move |connection| read::conversations(connection, &viewer, after, limit))
    }

    fn delete_conversation(&self, viewer: &Viewer, id: Uuid) -> StoreFuture<Option<Deletion>> {
        let viewer = viewer.clone();
        self.write(move |connection| {
            let deletion = write::delete_conversation(connection, &viewer, id)?;
            Ok((deletion, Vec::new()))
        })
    }

    fn definition(&self, hash: &str) -> StoreFuture<Option<Definition>> {
        let hash = hash.to_owned();
        self.read(move |connection| archive::definition(connection, &hash))
    }

    fn trust(&self, hash: &str) -> StoreFuture<bool> {
        let hash = hash.to_owned();
        self.write(move |connection| Ok((archive::trust(connection, &hash)?, vec![Scope::Work])))
    }

    fn put_blob(&self, viewer: &Viewer, task: Uuid, blob: Blob) -> StoreFuture<bool> {
        let viewer = viewer.clone();
        self.write(move |connection| {
            Ok((blobs::put(connection, &viewer, task, &blob)?, Vec::new()))
        })
    }

    fn blob(
        &self,
        viewer: &Viewer,
        task: Uuid,
        hash: BlobHash,
        range: Range<u64>,
    ) -> StoreFuture<Option<BlobRange>> {
        let viewer = viewer.clone();
        self.read(move |connection| blobs::range(connection, &viewer, task, hash, &range))
    }

    fn blobs(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Vec<BlobInfo>> {
        let viewer = viewer.clone();
        self.read(move |connection| blobs::of_task(connection, &viewer, task))
    }

    fn take_out(&self, viewer: &Viewer, task: Uuid) -> StoreFuture<Option<Archive>> {
        let viewer = viewer.clone();
        self.read(move |connection| {
            read::in_snapshot(connection, || archive::take_out(connection, &viewer, task))
        })
    }

    fn bring_in(&self, archive: Archive, definition: Option<Definition>) -> StoreFuture<Imported> {
        self.write(move |connection| {
            let brought_in = archive::bring_in(connection, &archive, definition.as_ref())?;
            Ok((brought_in, vec![Scope::Work]))
        })
    }

    fn watch(&self, scope: Scope) -> Hint {
        self.inner.hints.watch(scope)
    }

    fn sweep(&self, sweep: Sweep) -> StoreFuture<SweepReport> {
        let now = self.inner.clock.now();
        let store = self.clone();
        let sweep = Arc::new(sweep);
        async move {
            let mut swept = SweepReport::default();
            let mut after = 0;
            loop {
                let looking = Arc::clone(&sweep);
                let group = store
                    .read(move |connection| read::expired(connection, &looking, after, now))
                    .await?;
                if sweep.dry_run {
                    swept.tasks.extend(group.expired);
                } else if !group.expired.is_empty() {
                    let expired = group.expired;
                    let removed = store
                        .write(move |connection| {
                            Ok((write::remove(connection, &expired)?, Vec::new()))
                        })
                        .await?;
                    swept.tasks.extend(removed);
                }
                match group.next {
                    Some(next) => after = next,
                    None => break,
                }
            }
            if !sweep.dry_run {
                store
                    .write(|connection| Ok((archive::forget_unused(connection)?, Vec::new())))
                    .await?;
            }
            Ok(swept)
        }
        .boxed()
    }
}

/// Logs what a file has lost.
fn tell_lost(
    path: &Path,
    connection: &Connection,
    lost: Option<LostChanges>,
) -> Result<(), StoreError> {
    if let Some(LostChanges { pages }) = lost {
        let newest = read::newest_time(connection)?;
        tracing::error!(
            code = "store.changes_lost",
            path = %path.display(),
            pages,
            newest = newest.map(tracing::field::display),
            "the store's write-ahead log was cut short: what was written after its last entry is gone"
        );
    }
    Ok(())
}

fn open_connection(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "page_size", PAGE_SIZE)?;
    write_ahead(&connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Enables write-ahead logging. The busy timeout does not apply to this change, so if two processes create the file at
/// once, one must retry.
fn write_ahead(connection: &Connection) -> Result<(), StoreError> {
    let pauses = std::iter::repeat_n(WRITE_AHEAD_PAUSE, WRITE_AHEAD_PAUSES);
    let enable = || connection.pragma_update(None, "journal_mode", "WAL");
    Ok(unless_busy(pauses, enable)?)
}

/// Tries something until the database is not busy, once more than there are pauses.
fn unless_busy<T>(
    pauses: impl Iterator<Item = Duration>,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    for pause in pauses {
        match attempt() {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                std::thread::sleep(pause);
            }
            outcome => return outcome,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use convoke_testkit::SimClock;
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn what_a_busy_database_refuses_is_tried_again_a_limited_number_of_times() {
        let failed = |code| Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        let attempts = |outcomes: &[i32]| {
            let mut number = 0;
            let outcome = unless_busy(std::iter::repeat_n(Duration::ZERO, 2), || {
                number += 1;
                outcomes
                    .get(number - 1)
                    .map_or(Ok(()), |code| failed(*code))
            });
            (outcome.is_ok(), number)
        };
        let busy = ffi::SQLITE_BUSY;
        assert_eq!(attempts(&[]), (true, 1));
        assert_eq!(attempts(&[busy, busy]), (true, 3));
        assert_eq!(attempts(&[busy, busy, busy]), (false, 3));
        assert_eq!(attempts(&[busy, ffi::SQLITE_NOTADB]), (false, 2));
    }

    #[test]
    fn a_connection_whose_transaction_was_not_ended_is_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let store = SqliteStore::open(&path, Arc::new(SimClock::new())).unwrap();
        let failed = store.inner.ask(|connection| {
            connection.execute_batch("BEGIN")?;
            Err::<(), _>(StoreError::Unavailable("the commit failed".into()))
        });
        assert!(failed.is_err());
        let outside = store
            .inner
            .ask(|connection| Ok(connection.is_autocommit()))
            .unwrap();
        assert!(outside, "it would read the past for ever");
    }
}
