//! One thread writes for everybody: it drains what has piled up into one transaction and tells each
//! caller once the commit is on disk. Under load, one wait for the disk serves hundreds of tasks.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::FutureExt;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::StoreFuture;
use crate::error::StoreError;
use crate::watch::{Hints, Scope};

/// Operations in one transaction at most, so that the first of them does not wait for ever.
const GROUP_LIMIT: usize = 1_024;

/// A group of so many means that many tasks are at work.
const BUSY_GROUP: usize = 16;

/// How long a busy writer waits for company before it commits: half as many commits write the same steps.
const COMPANY: Duration = Duration::from_millis(1);

/// Groups that are written at once after company did not come, because everybody waits for the commit.
const ALONE: u32 = 256;

/// Does its work inside the open transaction and gives back how to tell the caller afterwards.
type Job = Box<dyn FnOnce(&Connection) -> Result<Acknowledge, (Acknowledge, StoreError)> + Send>;

/// Called once, with whether the commit held.
type Acknowledge = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(path: PathBuf, connection: Connection) -> Result<Self, StoreError> {
        let (jobs, queue) = channel();
        let thread = std::thread::Builder::new()
            .name("convoke-store".into())
            .spawn(move || write_all(&path, connection, &queue))
            .map_err(|error| StoreError::Broken(format!("cannot start the writer: {error}")))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Queues an operation now; the future resolves when it is durable, which is also when the scopes
    /// that the operation gives are hinted at. An operation that refuses
    /// (any error but `Broken`) must have changed nothing: the transaction goes on without it.
    pub(super) fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Connection) -> Result<(T, Vec<Scope>), StoreError> + Send + 'static,
        hints: &Hints,
    ) -> StoreFuture<T> {
        let (reply, outcome) = oneshot::channel();
        let hints = hints.clone();
        let job: Job = Box::new(move |connection| {
            let result = operation(connection);
            let broken = match &result {
                Err(error @ StoreError::Broken(_)) => Some(error.clone()),
                _ => None,
            };
            let tell: Acknowledge = Box::new(move |committed| {
                let outcome = committed.and(result).map(|(value, scopes)| {
                    for scope in scopes {
                        hints.tell(scope);
                    }
                    value
                });
                // The caller may have stopped waiting, which is its right.
                let _ = reply.send(outcome);
            });
            match broken {
                None => Ok(tell),
                Some(error) => Err((tell, error)),
            }
        });
        let queued = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        async move {
            if !queued {
                return Err(gone());
            }
            outcome.await.unwrap_or_else(|_| Err(gone()))
        }
        .boxed()
    }
}

impl Drop for Writer {
    /// Everything queued is written before the store is gone.
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone() -> StoreError {
    StoreError::Broken("the store's writer has stopped".into())
}

fn write_all(path: &Path, mut connection: Connection, queue: &Receiver<Job>) {
    let mut alone = 0;
    // What is left of a group that failed is written with the next.
    let mut jobs = VecDeque::new();
    loop {
        if jobs.is_empty() {
            match queue.recv() {
                Ok(first) => jobs.push_back(first),
                Err(_) => return,
            }
        }
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
        if write_group(&connection, &mut jobs).is_ok() {
            continue;
        }
        // After a failed commit the connection's own idea of the file cannot be trusted.
        match super::open_connection(path) {
            Ok(fresh) => connection = fresh,
            Err(error) => {
                tracing::error!(%error, "the store cannot be opened again; nothing more is written");
                return;
            }
        }
    }
}

/// Takes what has piled up, as far as it fits into one group.
fn gather(jobs: &mut VecDeque<Job>, queue: &Receiver<Job>) {
    while jobs.len() < GROUP_LIMIT
        && let Ok(job) = queue.try_recv()
    {
        jobs.push_back(job);
    }
}

/// Runs a group of jobs in one transaction.
fn write_group(connection: &Connection, jobs: &mut VecDeque<Job>) -> Result<(), StoreError> {
    let mut tells = Vec::with_capacity(jobs.len());
    let written = begin_and_run(connection, jobs, &mut tells)
        .and_then(|()| connection.execute_batch("COMMIT").map_err(StoreError::from));
    if let Err(error) = &written {
        tracing::error!(%error, operations = tells.len(), "a group of writes failed");
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
    }
    for tell in tells {
        tell(written.clone());
    }
    written
}

fn begin_and_run(
    connection: &Connection,
    jobs: &mut VecDeque<Job>,
    tells: &mut Vec<Acknowledge>,
) -> Result<(), StoreError> {
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        // The first job is given up, or the same would be tried for ever: dropping it drops its reply,
        // which reads as a store that is gone.
        jobs.pop_front();
        return Err(error.into());
    }
    while let Some(job) = jobs.pop_front() {
        match job(connection) {
            Ok(tell) => tells.push(tell),
            Err((tell, error)) => {
                tells.push(tell);
                return Err(error);
            }
        }
    }
    Ok(())
}
