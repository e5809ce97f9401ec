//! Detects dead workers on this machine. Each worker locks a file beside the database while its process lives. When the
//! lock is free, the process is dead and its leases are void, so its tasks resume immediately instead of after the
//! leases expire. Without these marks, leases expire as usual.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// How long the result of a scan is valid.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The workers of this process, and the folder of all marks.
#[derive(Debug)]
pub(super) struct Workers {
    folder: PathBuf,
    mine: Mutex<HashMap<String, Option<File>>>,
    looked_at: Mutex<Option<Timestamp>>,
}

impl Workers {
    pub(super) fn beside(database: &Path) -> Self {
        let mut folder = database.as_os_str().to_owned();
        folder.push("-workers");
        Self {
            folder: folder.into(),
            mine: Mutex::default(),
            looked_at: Mutex::default(),
        }
    }

    /// Creates a worker's mark, once. If that fails, its leases expire as usual.
    pub(super) fn register(&self, worker: &str) {
        let mut mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        if mine.contains_key(worker) {
            return;
        }
        let mark = self.leave_mark(worker);
        if let Err(error) = &mark {
            tracing::debug!(%error, worker, "no liveness mark; leases alone decide");
        }
        mine.insert(worker.to_owned(), mark.ok());
    }

    /// Locked before it gets its name, so a mark without a lock is never visible.
    fn leave_mark(&self, worker: &str) -> std::io::Result<File> {
        std::fs::create_dir_all(&self.folder)?;
        let draft = self.folder.join(format!(".{worker}"));
        let file = File::create(&draft)?;
        file.lock()?;
        std::fs::rename(&draft, self.folder.join(worker))?;
        Ok(file)
    }

    /// Workers whose process is dead. Their marks remain until [`Self::forget`], so a crash in between loses nothing.
    pub(super) fn dead(&self, now: Timestamp) -> Vec<String> {
        {
            let mut looked_at = self
                .looked_at
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if looked_at.is_some_and(|last| last <= now && now < last + LOOK_INTERVAL) {
                return Vec::new();
            }
            *looked_at = Some(now);
        }
        let Ok(marks) = std::fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        marks
            .filter_map(Result::ok)
            .filter_map(|mark| {
                mark.file_name()
                    .into_string()
                    .ok()
                    .map(|name| (name, mark.path()))
            })
            .filter(|(name, _)| !name.starts_with('.') && !mine.contains_key(name))
            .filter(|(_, path)| {
                File::open(path)
                    .is_ok_and(|file| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
            })
            .map(|(name, _)| name)
            .collect()
    }

    /// Removes the marks of workers whose leases have been voided.
    pub(super) fn forget(&self, workers: &[String]) {
        for worker in workers {
            let _ = std::fs::remove_file(self.folder.join(worker));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn dead_workers_are_looked_for_now_and_then_and_whenever_the_clock_went_back() {
        let folder = tempfile::tempdir().unwrap();
        let workers = Workers::beside(&folder.path().join("store.db"));
        assert!(workers.dead(at(0)).is_empty(), "nobody was ever here");
        // This mark is unlocked.
        std::fs::create_dir_all(&workers.folder).unwrap();
        File::create(workers.folder.join("gone")).unwrap();
        assert!(workers.dead(at(0)).is_empty(), "it has just looked");
        assert!(workers.dead(at(249)).is_empty());
        assert_eq!(workers.dead(at(250)), ["gone"]);
        assert!(workers.dead(at(250)).is_empty());
        assert_eq!(workers.dead(at(249)), ["gone"]);
        workers.forget(&["gone".to_owned()]);
        assert!(workers.dead(at(1_000)).is_empty());
    }

    #[test]
    fn neither_a_worker_of_this_process_nor_a_mark_in_the_making_is_dead() {
        let folder = tempfile::tempdir().unwrap();
        let workers = Workers::beside(&folder.path().join("store.db"));
        workers.register("mine");
        File::create(workers.folder.join(".draft")).unwrap();
        assert!(workers.dead(at(0)).is_empty());
    }
}
