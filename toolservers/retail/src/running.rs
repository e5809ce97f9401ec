//! Runs certified queries, each on a thread of its own with its own connection that can only read.

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

/// How many queries run at once.
pub const MAX_RUNNING: usize = 32;

/// How many rows a result has at most.
pub const MAX_ROWS: usize = 50;

/// The queries that this process runs, by message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running(Arc<Inside>);

#[derive(Debug, Default)]
struct Inside {
    messages: Mutex<HashSet<String>>,
    ended: Condvar,
}

impl Running {
    /// Begins to work on a message, unless that is under way. The work tells nobody when it is
    /// done: whoever waits looks at what it left behind.
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
        let ending = Ending {
            running: self.clone(),
            message: message.to_owned(),
        };
        let thread = std::thread::Builder::new().name("retail query".to_owned());
        // If there is no thread to be had, `ending` is dropped here and takes the message back.
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

    /// Waits until a message is done with, but not longer than this.
    pub(crate) fn wait(&self, message: &str, at_most: Duration) {
        let messages = self.messages();
        let under_way = |messages: &mut HashSet<String>| messages.contains(message);
        // Whether it ended or the time did is seen by who looks at the message.
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

/// Takes a message back when its work ends, even by a panic.
struct Ending {
    running: Running,
    message: String,
}

impl Drop for Ending {
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

    /// Runs the SQL. Whatever a question said reaches it only as a bound value.
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
    fn a_message_that_is_under_way_is_not_begun_again() {
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
