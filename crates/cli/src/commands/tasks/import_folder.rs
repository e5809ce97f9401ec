//! An export as it is read: all of it is looked at before any of it counts.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use convoke_flow::{MAX_KEY_CHARACTERS, check_key, check_tags};
use convoke_model::{Invalid, Name, TaskState};
use convoke_store::{Archive, Blob, Entry, StoredMessage};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::archive::{
    BLOBS, BlobFile, DEFINITIONS, TASK_FILE, TASKS, TaskFile, is_folder_name, name_of_replaced,
    refused,
};
use super::archive_checkpoint::{ReadCheckpoint, is_file_name};
use super::import_definition::ReadDefinition;
use super::import_limits::ImportLimits;
use super::import_source::{ReadLimit, SourceFolder};
use crate::exit::UsageError;
use crate::progress;

/// An export in which nothing is wrong.
pub(super) struct ImportFolder {
    /// In the order in which they were submitted.
    pub(super) tasks: Vec<ListedTask>,
    /// What they were begun with, by its hash.
    pub(super) definitions: HashMap<String, ReadDefinition>,
    folder: SourceFolder,
    blobs: SourceBlobs,
    limits: ImportLimits,
}

/// A task of an export. Its journal stays where it is until it is its turn, because all journals together
/// may be more than a machine can hold.
pub(super) struct ListedTask {
    pub(super) path: PathBuf,
    pub(super) id: Uuid,
    pub(super) status: TaskState,
    pub(super) owner: Uuid,
    pub(super) app: String,
    pub(super) conversation: Option<Uuid>,
    pub(super) definition: String,
    created_at: Timestamp,
    /// How long its files are.
    pub(super) bytes: u64,
    /// What its files were when they were looked at. Others are not brought in.
    digest: [u8; 32],
}

impl ImportFolder {
    /// Reads an export and refuses it where anything in it is wrong.
    pub(super) fn read(dir: &Path, limits: ImportLimits) -> Result<Self, UsageError> {
        let no_export = || {
            let why = "there is no export here; name the folder that `convoke tasks export` wrote";
            refused("archive.not_found", dir, why)
        };
        let folder = SourceFolder::open(dir)?.ok_or_else(no_export)?;
        let tasks = folder.folder(TASKS)?.ok_or_else(no_export)?;
        let definitions = folder.folder(DEFINITIONS)?;
        let blobs = SourceBlobs {
            folder: folder.folder(BLOBS)?,
            missing: dir.join(BLOBS),
        };
        let ids = task_ids(&tasks, limits.tasks())?;
        let bar = progress::bar(ids.len(), "checking");
        let mut listed = Vec::with_capacity(ids.len());
        let mut among = SharedFacts::default();
        let mut read = ReadDefinitions {
            folder: definitions.as_ref(),
            missing: dir.join(DEFINITIONS),
            left: limits.definition_bytes(),
            read: HashMap::new(),
        };
        for id in ids {
            let mut reader = TaskReader::open(&tasks, &id, &limits)?;
            let task = reader.task_file()?;
            reader.journal(&task, |_| {})?;
            for blob in &task.blobs {
                reader.blob(&blobs, blob)?;
            }
            among
                .check(&task)
                .map_err(|why| refused("archive.invalid", &reader.file(), why))?;
            if task.definition_kept {
                read.definition(&task.definition)?;
            }
            listed.push(reader.listed(task));
            bar.inc(1);
        }
        bar.finish_and_clear();
        // Ids sort by the time they were minted, which tells apart what came within a millisecond.
        listed.sort_by_key(|task| (task.created_at, task.id));
        Ok(Self {
            tasks: listed,
            definitions: read.read,
            folder: tasks,
            blobs,
            limits,
        })
    }

    /// A task with its journal, as it was when the export was looked at.
    pub(super) fn archive(&self, listed: &ListedTask) -> Result<Archive, UsageError> {
        let id = listed.id.to_string();
        let mut reader = TaskReader::open(&self.folder, &id, &self.limits)?;
        let task = reader.task_file()?;
        let (mut entries, mut messages): (Vec<Entry>, Vec<StoredMessage>) = Default::default();
        reader.journal(&task, |point| {
            let (entry, added) = point.into_entry();
            entries.push(entry);
            messages.extend(added);
        })?;
        let blobs: Result<Vec<_>, _> = task
            .blobs
            .iter()
            .map(|blob| reader.blob(&self.blobs, blob))
            .collect();
        let blobs = blobs?;
        if reader.digest() != listed.digest {
            let why = "somebody changed the task while it was imported";
            return Err(refused("archive.changed", reader.folder.path(), why));
        }
        entries.sort_by_key(|entry| entry.seq);
        messages.sort_by_key(|said| said.seq);
        Ok(task.with_journal(entries, messages, blobs))
    }
}

/// The definitions that were read so far.
struct ReadDefinitions<'a> {
    folder: Option<&'a SourceFolder>,
    /// Where they would be.
    missing: PathBuf,
    /// What may still be read.
    left: ReadLimit,
    read: HashMap<String, ReadDefinition>,
}

impl ReadDefinitions<'_> {
    fn definition(&mut self, hash: &str) -> Result<(), UsageError> {
        if self.read.contains_key(hash) {
            return Ok(());
        }
        let folder = match self.folder {
            Some(folder) => folder.folder(hash)?,
            None => None,
        };
        let folder = folder.ok_or_else(|| {
            let why = "a task was begun with this, and it is missing";
            refused("archive.incomplete", &self.missing.join(hash), why)
        })?;
        let read = ReadDefinition::read(&folder, hash, self.left)?;
        self.left.number -= read.bytes.min(self.left.number);
        self.read.insert(hash.to_owned(), read);
        Ok(())
    }
}

/// The blobs of an export.
struct SourceBlobs {
    folder: Option<SourceFolder>,
    /// Where they would be.
    missing: PathBuf,
}

/// A task whose files are being read.
struct TaskReader<'a> {
    folder: SourceFolder,
    limits: &'a ImportLimits,
    bytes: u64,
    digest: Sha256,
}

impl<'a> TaskReader<'a> {
    fn open(tasks: &SourceFolder, id: &str, limits: &'a ImportLimits) -> Result<Self, UsageError> {
        let folder = tasks.folder(id)?.ok_or_else(|| {
            let why = "the task was there and is gone";
            refused("archive.changed", &tasks.path().join(id), why)
        })?;
        Ok(Self {
            folder,
            limits,
            bytes: 0,
            digest: Sha256::new(),
        })
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join(TASK_FILE)
    }

    fn task_file(&mut self) -> Result<TaskFile, UsageError> {
        let missing = "the file is missing";
        let task: Option<TaskFile> = self.json(TASK_FILE)?;
        let task = task.ok_or_else(|| refused("archive.incomplete", &self.file(), missing))?;
        match what_is_wrong(&task, self.folder.path()) {
            None => Ok(task),
            Some(why) => Err(refused("archive.invalid", &self.file(), why)),
        }
    }

    /// Hands over the points of the journal, by the names of their files, and checks that it has them all.
    fn journal(
        &mut self,
        task: &TaskFile,
        mut take: impl FnMut(ReadCheckpoint),
    ) -> Result<(), UsageError> {
        let mut sequences = Vec::new();
        for name in self.folder.names(self.limits.task_files())? {
            if is_file_name(&name) {
                // One that is gone since then is missed below.
                if let Some(point) = self.json::<ReadCheckpoint>(&name)? {
                    sequences.push(point.sequence);
                    take(point);
                }
            }
        }
        sequences.sort_unstable();
        let incomplete = |why: String| refused("archive.incomplete", self.folder.path(), why);
        let (number, seq) = (sequences.len(), task.seq);
        if let Some((_, wanted)) = sequences.iter().zip(1..).find(|(found, at)| *found != at) {
            let why = format!("the checkpoints have no sequence {wanted}, or have another twice");
            return Err(incomplete(why));
        }
        if number as u64 != seq || seq == 0 {
            let why = format!("the task has {seq} steps, and there are {number} checkpoints");
            return Err(incomplete(why));
        }
        Ok(())
    }

    fn json<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, UsageError> {
        let Some(text) = self.folder.text(name, self.limits.file_bytes())? else {
            return Ok(None);
        };
        self.count(text.len())?;
        for part in [name, &text] {
            self.digest.update((part.len() as u64).to_le_bytes());
            self.digest.update(part);
        }
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let code = match error.classify() {
                    Category::Data => "archive.invalid",
                    Category::Io | Category::Syntax | Category::Eof => "archive.unreadable",
                };
                Err(refused(code, &self.folder.path().join(name), error))
            }
        }
    }

    /// A blob that the task names. What has another content than its name says is refused.
    fn blob(&mut self, blobs: &SourceBlobs, named: &BlobFile) -> Result<Blob, UsageError> {
        let name = named.hash.to_string();
        let path = blobs.missing.join(&name);
        let most = self.limits.blob_bytes();
        let content = match &blobs.folder {
            Some(folder) => folder.content(&name, most)?,
            None => None,
        };
        let content = content.ok_or_else(|| {
            let why = "a task names this blob, and it is missing";
            refused("archive.incomplete", &path, why)
        })?;
        self.count(content.len())?;
        let blob = Blob::new(content.into(), most.number)
            .map_err(|error| refused("archive.too_large", &path, error))?;
        if (blob.hash(), blob.info().bytes) != (named.hash, named.bytes) {
            let why = "the content is not the one that its name and size say";
            return Err(refused("archive.invalid", &path, why));
        }
        Ok(blob)
    }

    /// Adds to what was read of the task, which has a limit.
    fn count(&mut self, bytes: usize) -> Result<(), UsageError> {
        self.bytes += bytes as u64;
        let most = self.limits.task_bytes();
        if self.bytes > most.number {
            let why = format!(
                "the task has more than {} bytes; {}",
                most.number, most.help
            );
            return Err(refused("archive.too_large", self.folder.path(), why));
        }
        Ok(())
    }

    fn digest(&self) -> [u8; 32] {
        self.digest.clone().finalize().into()
    }

    fn listed(self, task: TaskFile) -> ListedTask {
        ListedTask {
            path: self.folder.path().to_owned(),
            id: task.id,
            status: task.status.state,
            owner: task.owner,
            app: task.app,
            conversation: task.conversation.map(|conversation| conversation.id),
            definition: task.definition,
            created_at: task.created_at,
            bytes: self.bytes,
            digest: self.digest.finalize().into(),
        }
    }
}

/// What no two tasks of an export may disagree about, or have both.
#[derive(Default)]
struct SharedFacts {
    keys: HashSet<(String, Uuid, String)>,
    /// The owner and the app of each.
    conversations: HashMap<Uuid, (Uuid, String)>,
}

impl SharedFacts {
    fn check(&mut self, task: &TaskFile) -> Result<(), String> {
        if let Some(key) = &task.key
            && !self
                .keys
                .insert((task.app.clone(), task.owner, key.clone()))
        {
            return Err(format!(
                "another task of the same owner has the key `{key}`"
            ));
        }
        let Some(conversation) = &task.conversation else {
            return Ok(());
        };
        let id = conversation.id;
        let own = (task.owner, task.app.clone());
        let known = self.conversations.entry(id).or_insert_with(|| own.clone());
        if *known == own {
            Ok(())
        } else if known.0 == own.0 {
            Err(format!(
                "the conversation {id} is with another app elsewhere"
            ))
        } else {
            Err(format!("the conversation {id} has another owner elsewhere"))
        }
    }
}

/// The folders of all tasks. What begins with a point is no task: an export that was cut off, or a program
/// that leaves its marks in every folder.
fn task_ids(tasks: &SourceFolder, most: ReadLimit) -> Result<Vec<String>, UsageError> {
    let names = tasks.names(most)?;
    let mut ids = Vec::new();
    for name in &names {
        if let Some(replaced) = name_of_replaced(name)
            && names
                .binary_search_by(|name| name.as_str().cmp(replaced))
                .is_err()
        {
            let why = "an export was cut off while it replaced this task; export it once more";
            return Err(refused("archive.incomplete", &tasks.path().join(name), why));
        }
        if name.starts_with('.') {
            continue;
        }
        if !Uuid::try_parse(name).is_ok_and(|id| id.to_string() == *name) {
            let why = "this is no task; each has a folder that is called by its id, a UUID";
            return Err(refused("archive.invalid", &tasks.path().join(name), why));
        }
        ids.push(name.clone());
    }
    Ok(ids)
}

/// The most characters in the kind of a signal.
const MAX_SIGNAL_KIND: usize = 64;

fn what_is_wrong(task: &TaskFile, folder: &Path) -> Option<String> {
    let mut keys = HashSet::new();
    let bounded = |signal: &convoke_store::ArchivedSignal| {
        check_key(&signal.key).is_ok() && signal.kind.len() <= MAX_SIGNAL_KIND
    };
    let of = |invalid: Invalid| invalid.to_string();
    if !folder.ends_with(task.id.to_string()) {
        Some("the id is not the one that the folder is called by".into())
    } else if let Err(invalid) = task.check() {
        Some(invalid.to_string())
    } else if !is_folder_name(&task.definition) {
        Some("the definition is no hash, and would lead out of its folder".into())
    } else if i64::try_from(task.epoch).is_err() {
        Some("the epoch is more than a store can count".into())
    } else if !task.signals.iter().all(|signal| keys.insert(&signal.key)) {
        Some("two signals have the same key".into())
    } else if !task.signals.iter().all(bounded) {
        Some(format!(
            "the key of a signal has 1 to {MAX_KEY_CHARACTERS} characters, and its kind at most \
             {MAX_SIGNAL_KIND}"
        ))
    } else if Name::new(&task.app).is_err() {
        Some("the app has no name that an app can have".into())
    } else {
        let key = task.key.as_deref().map_or(Ok(()), check_key);
        key.and_then(|()| check_tags(&task.tags)).err().map(of)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const ARCHIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/archive");

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        limits: ImportLimits,
    }

    fn limits(arguments: &[&str]) -> ImportLimits {
        let arguments = std::iter::once("import").chain(arguments.iter().copied());
        Command::try_parse_from(arguments).unwrap().limits
    }

    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let (path, to) = {
                let entry = entry.unwrap();
                (entry.path(), to.join(entry.file_name()))
            };
            if path.is_dir() {
                copy(&path, &to);
            } else {
                std::fs::copy(&path, &to).unwrap();
            }
        }
    }

    #[test]
    fn a_task_that_is_changed_after_it_was_looked_at_is_not_brought_in() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        copy(Path::new(ARCHIVE), &out);
        let folder = ImportFolder::read(&out, limits(&[])).unwrap();
        let listed = &folder.tasks[0];
        assert!(folder.archive(listed).is_ok());
        let file = listed.path.join(TASK_FILE);
        let text = std::fs::read_to_string(&file).unwrap();
        let stranger = Uuid::nil().to_string();
        let changed = text.replace(&listed.owner.to_string(), &stranger);
        assert_ne!(text, changed);
        std::fs::write(&file, changed).unwrap();
        let error = folder.archive(listed).unwrap_err();
        assert_eq!(error.code, "archive.changed");
    }

    #[test]
    fn definitions_have_room_for_so_many_bytes_together() {
        let read = |most: &str| {
            let limits = limits(&["--max-definition-bytes", most]);
            ImportFolder::read(Path::new(ARCHIVE), limits)
        };
        let bytes = read("1000000").unwrap().definitions;
        let bytes: u64 = bytes.values().map(|read| read.bytes).sum();
        assert!(read(&bytes.to_string()).is_ok());
        let error = read(&(bytes - 1).to_string()).err().unwrap();
        assert_eq!(error.code, "archive.too_large");
        assert!(error.message.contains("--max-definition-bytes"));
    }
}
