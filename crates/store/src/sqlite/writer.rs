//! The writer thread: it takes all queued operations into one transaction and notifies each caller when the commit is
//! durable. Under load, one wait for the disk serves hundreds of tasks.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use convoke_telemetry::metrics;
use futures::FutureExt;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use crate::StoreFuture;
use crate::error::StoreError;
use crate::watch::{Hints, Scope};

/// Limit of operations in one transaction, which bounds how long the first of them waits.
const GROUP_LIMIT: usize = 1_024;

/// A group of this size means that many tasks are running.
const BUSY_GROUP: usize = 16;

/// How long a busy writer waits for more operations before it commits: half as many commits write the same steps.
const COMPANY: Duration = Duration::from_millis(1);

/// Number of groups that are written without this wait after a wait in which no operation arrived.
const ALONE: u32 = 256;

/// How long to wait before a file that cannot be opened is tried again.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);

/// Runs within the open transaction. Returns how to notify the caller, and the error if the whole group fails with it.
type Job = Box<dyn FnOnce(Option<&Connection>) -> (Acknowledge, Option<StoreError>) + Send>;

/// Called once, with the result of the transaction.
type Acknowledge = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<Sender<Job>>,
    /// The number of queued and running operations.
    queued: Arc<AtomicUsize>,
    queue_limit: usize,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        path: PathBuf,
        connection: Connection,
        queue_limit: usize,
    ) -> Result<Self, StoreError> {
        let (jobs, queue) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let written = Arc::clone(&queued);
        let thread = std::thread::Builder::new()
            .name("convoke-store".into())
            .spawn(move || write_all(&path, connection, &queue, &written))
            .map_err(|error| {
                StoreError::Unavailable(format!("cannot start the writer: {error}"))
            })?;
        Ok(Self {
            jobs: Some(jobs),
            queued,
            queue_limit,
            thread: Some(thread),
        })
    }

    /// Queues an operation immediately. The future resolves when it is durable, which is also when its hints are sent.
    /// A failing operation must not have changed anything: the transaction continues without it. An outage fails the
    /// whole group.
    pub(super) fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> Result<(T, Vec<Scope>), StoreError> + Send + 'static,
        hints: &Hints,
    ) -> StoreFuture<T> {
        if self.queued.fetch_add(1, Ordering::Relaxed) >= self.queue_limit {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            let limit = self.queue_limit;
            let error = StoreError::Unavailable(format!("{limit} changes wait to be written"));
            return std::future::ready(Err(error)).boxed();
        }
        let (reply, outcome) = oneshot::channel();
        let hints = hints.clone();
        let job: Job = Box::new(move |connection| {
            let result = connection.map(operation);
            let outage = match &result {
                Some(Err(error))
                    if error.is_outage()
                        || matches!(error, StoreError::ReadOnly | StoreError::Broken(_)) =>
                {
                    Some(error.clone())
                }
                _ => None,
            };
            let tell: Acknowledge = Box::new(move |committed| {
                let outcome = committed.and(result.unwrap_or_else(|| Err(gone())));
                let outcome = outcome.map(|(value, scopes)| {
                    for scope in scopes {
                        hints.tell(scope);
                    }
                    value
                });
                // The caller may have dropped the future.
                let _ = reply.send(outcome);
            });
            (tell, outage)
        });
        let sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        async move {
            if !sent {
                return Err(gone());
            }
            outcome.await.unwrap_or_else(|_| Err(gone()))
        }
        .boxed()
    }
}

impl Drop for Writer {
    /// Writes everything that is queued before the store is dropped.
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the store's writer has stopped".into())
}

fn write_all(path: &Path, mut connection: Connection, queue: &Receiver<Job>, queued: &AtomicUsize) {
    let mut alone = 0;
    let mut jobs = VecDeque::new();
    while let Ok(first) = queue.recv() {
        jobs.push_back(first);
        gather(&mut jobs, queue);
        if alone > 0 {
            alone -= 1;
        } else if jobs.len() >= BUSY_GROUP {
            let before = jobs.len();
            std::thread::sleep(COMPANY);
            gather(&mut jobs, queue);
            if jobs.len() < before + before / 4 {
                alone = ALONE;
            }
        }
        let written = jobs.len();
        let waited = queued.fetch_sub(written, Ordering::Relaxed);
        metrics::STORE_GROUP_SIZE.observe_number(written, []);
        metrics::STORE_QUEUE.set(waited - written, []);
        let Err(error) = write_group(&connection, &mut jobs) else {
            continue;
        };
        if matches!(error, GroupError::NotBegun) {
            continue;
        }
        // After a failed transaction, the connection's state cannot be trusted.
        loop {
            match super::open_connection(path) {
                Ok(fresh) => {
                    connection = fresh;
                    break;
                }
                Err(error) => {
                    tracing::error!(%error, "the store cannot be opened again and is tried later");
                    // No caller waits for more than one attempt.
                    gather(&mut jobs, queue);
                    queued.fetch_sub(jobs.len(), Ordering::Relaxed);
                    fail_all(&mut jobs, &error);
                    std::thread::sleep(REOPEN_PAUSE);
                }
            }
        }
    }
}

/// Takes queued operations up to the size of a group.
fn gather(jobs: &mut VecDeque<Job>, queue: &Receiver<Job>) {
    while jobs.len() < GROUP_LIMIT
        && let Ok(job) = queue.try_recv()
    {
        jobs.push_back(job);
    }
}

/// Fails jobs that were not started.
fn fail_all(jobs: &mut VecDeque<Job>, error: &StoreError) {
    for job in jobs.drain(..) {
        let (tell, _) = job(None);
        tell(Err(error.clone()));
    }
}

/// Why a group was not written. Its callers have been notified.
enum GroupError {
    /// The transaction did not begin: another process writes, or the file cannot be used. Nothing happened.
    NotBegun,
    /// It started and failed.
    Failed,
}

/// Runs a group of jobs in one transaction.
fn write_group(connection: &Connection, jobs: &mut VecDeque<Job>) -> Result<(), GroupError> {
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        let error = StoreError::from(error);
        tracing::warn!(%error, operations = jobs.len(), "a group of writes could not begin");
        fail_all(jobs, &error);
        return Err(GroupError::NotBegun);
    }
    let mut tells = Vec::with_capacity(jobs.len());
    let mut outage = None;
    while let Some(job) = jobs.pop_front() {
        let (tell, failed) = job(Some(connection));
        tells.push(tell);
        if failed.is_some() {
            outage = failed;
            break;
        }
    }
    let written = match outage {
        Some(error) => Err(error),
        None => commit(connection),
    };
    if let Err(error) = &written {
        tracing::error!(%error, operations = tells.len() + jobs.len(), "a group of writes failed");
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        fail_all(jobs, error);
    }
    for tell in tells {
        tell(written.clone());
    }
    written.map_err(|_| GroupError::Failed)
}

fn commit(connection: &Connection) -> Result<(), StoreError> {
    let began = Instant::now();
    let committed = connection.execute_batch("COMMIT");
    metrics::STORE_COMMIT_DURATION.observe_time(began.elapsed(), []);
    committed.map_err(|error| commit_failed(&error))
}

/// A commit that fails because the file is locked had no effect; any other failure is uncertain.
fn commit_failed(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unavailable(error.to_string())
        }
        _ => StoreError::Uncertain(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panicking_operation_changes_nothing_and_the_next_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let connection = crate::sqlite::open_connection(&path).unwrap();
        connection
            .execute_batch("CREATE TABLE words (word)")
            .unwrap();
        let writer = Writer::start(path, connection, 8).unwrap();
        let hints = Hints::default();
        let broken = writer.run(
            |connection| {
                connection.execute_batch("INSERT INTO words VALUES ('half')")?;
                Err::<((), _), _>(StoreError::Broken("the disk is full".into()))
            },
            &hints,
        );
        assert_eq!(
            broken.await,
            Err(StoreError::Broken("the disk is full".into()))
        );
        let words = writer.run(
            |connection| {
                let count = "SELECT count(*) FROM words";
                let words: u32 = connection.query_row(count, [], |row| row.get(0))?;
                Ok((words, Vec::new()))
            },
            &hints,
        );
        assert_eq!(words.await, Ok(0));
    }
}
