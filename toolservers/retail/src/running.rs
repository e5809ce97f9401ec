//! Runs certified queries, each on its own thread with a read-only connection.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use convoke_serving::BUSY_TIMEOUT;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::answer::Table;
use crate::error::Refusal;
use crate::parameters::Parameters;

/// Limit of concurrent queries.
pub const MAX_RUNNING: usize = 32;

/// Limit of rows in a result.
pub const MAX_ROWS: usize = 50;

/// The queries running in this process, by message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running(Arc<RunningState>);

#[derive(Debug, Default)]
struct RunningState {
    messages: Mutex<HashSet<String>>,
    ended: Condvar,
}

impl Running {
    /// Starts the work on a message, unless it is running. The work stores its result; waiting callers
    /// read it from there.
    pub(crate) fn begin(
        &self,
        message: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), Refusal> {
        {
            let mut messages = self.messages();
            if messages.contains(message) {
                return Ok(());
            }
            if messages.len() >= MAX_RUNNING {
                return Err(Refusal::Busy);
            }
            messages.insert(message.to_owned());
        }
        let ending = RunningGuard {
            running: self.clone(),
            message: message.to_owned(),
        };
        let thread = std::thread::Builder::new().name("retail query".to_owned());
        // If no thread is available, dropping `ending` removes the message from the running ones.
        thread
            .spawn(move || {
                work();
                drop(ending);
            })
            .map_err(|error| {
                tracing::error!(%error, "no thread for a query");
                Refusal::Busy
            })?;
        Ok(())
    }

    /// Waits until the work on a message has ended, at most this long.
    pub(crate) fn wait(&self, message: &str, at_most: Duration) {
        let messages = self.messages();
        let under_way = |messages: &mut HashSet<String>| messages.contains(message);
        // The caller checks the message to see whether it ended.
        drop(
            self.0
                .ended
                .wait_timeout_while(messages, at_most, under_way),
        );
    }

    fn messages(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0
            .messages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a message from the running ones when its work ends, even by a panic.
struct RunningGuard {
    running: Running,
    message: String,
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.running.messages().remove(&self.message);
        self.running.0.ended.notify_all();
    }
}

/// The file that queries read.
#[derive(Debug, Clone)]
pub(crate) struct Reader(PathBuf);

impl Reader {
    pub(crate) fn new(file: &Path) -> Self {
        Self(file.to_owned())
    }

    /// Runs the SQL. Values from a question are only bound as parameters.
    pub(crate) fn run(&self, sql: &str, parameters: &Parameters) -> Result<Table, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.0, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let mut statement = connection.prepare(sql)?;
        for index in 1..=statement.parameter_count() {
            let name = statement.parameter_name(index).unwrap_or_default();
            let value = parameters.bound(name.trim_start_matches(':'));
            statement.raw_bind_parameter(index, value)?;
        }
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut found = Vec::new();
        let mut rows = statement.raw_query();
        while found.len() < MAX_ROWS
            && let Some(row) = rows.next()?
        {
            let cells = (0..columns.len()).map(|place| Ok(cell(row.get_ref(place)?)));
            found.push(cells.collect::<Result<_, rusqlite::Error>>()?);
        }
        drop(rows);
        Ok(Table {
            columns,
            rows: found,
        })
    }
}

fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) | ValueRef::Blob(text) => json!(String::from_utf8_lossy(text)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_running_message_is_not_started_again() {
        let running = Running::default();
        let (go, gate) = mpsc::channel::<()>();
        running.begin("one", move || gate.recv().unwrap()).unwrap();
        running.begin("one", || panic!("begun twice")).unwrap();
        go.send(()).unwrap();
        running.wait("one", LONG);
        assert!(running.messages().is_empty());
    }

    #[test]
    fn too_many_queries_at_once_are_refused() {
        let running = Running::default();
        let mut gates = Vec::new();
        for number in 0..MAX_RUNNING {
            let (go, gate) = mpsc::channel::<()>();
            gates.push(go);
            running
                .begin(&number.to_string(), move || gate.recv().unwrap_or(()))
                .unwrap();
        }
        assert_eq!(running.begin("more", || {}), Err(Refusal::Busy));
        drop(gates);
        for number in 0..MAX_RUNNING {
            running.wait(&number.to_string(), LONG);
        }
        running.begin("more", || {}).unwrap();
    }
}
