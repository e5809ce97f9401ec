//! An export as it is read: all of it is looked at before any of it counts.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use convoke_model::TaskState;
use convoke_store::{Archive, Definition};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use uuid::Uuid;

use super::archive::{
    DEFINITIONS, TASK_FILE, TASKS, TaskFile, is_folder_name, name_of_replaced, refused,
};
use super::archive_checkpoint::{ReadCheckpoint, is_file_name};
use crate::exit::UsageError;
use crate::progress;

/// An export in which nothing is wrong.
pub(super) struct ImportFolder {
    /// In the order in which they were submitted.
    pub(super) tasks: Vec<Listed>,
    /// What they were begun with, by its hash.
    pub(super) definitions: HashMap<String, Definition>,
}

/// A task of an export. Its journal stays where it is until it is its turn, because all journals together
/// may be more than a machine can hold.
pub(super) struct Listed {
    pub(super) folder: PathBuf,
    pub(super) id: Uuid,
    pub(super) status: TaskState,
    pub(super) owner: Uuid,
    pub(super) conversation: Option<Uuid>,
    pub(super) definition: String,
    created_at: Timestamp,
}

/// A file or folder within another.
struct Found {
    name: String,
    path: PathBuf,
    is_folder: bool,
}

impl ImportFolder {
    /// Reads an export and refuses it where anything in it is wrong.
    pub(super) fn read(dir: &Path) -> Result<Self, UsageError> {
        let tasks = dir.join(TASKS);
        if !tasks.is_dir() {
            let why = "there is no export here; name the folder that `convoke tasks export` wrote";
            return Err(refused("archive.not_found", dir, why));
        }
        let folders = task_folders(&tasks)?;
        let bar = progress::bar(folders.len(), "checking");
        let mut folder = Self {
            tasks: Vec::with_capacity(folders.len()),
            definitions: HashMap::new(),
        };
        let mut among = Among::default();
        for path in folders {
            let file = path.join(TASK_FILE);
            let task = read_task_file(&path)?;
            read_journal(&path, &task)?;
            among
                .check(&task)
                .map_err(|why| refused("archive.invalid", &file, why))?;
            if task.definition_kept && !folder.definitions.contains_key(&task.definition) {
                let definition = read_definition(dir, &task.definition)?;
                folder
                    .definitions
                    .insert(task.definition.clone(), definition);
            }
            folder.tasks.push(Listed::of(path, task));
            bar.inc(1);
        }
        bar.finish_and_clear();
        // Ids sort by the time they were minted, which tells apart what came within a millisecond.
        folder.tasks.sort_by_key(|task| (task.created_at, task.id));
        Ok(folder)
    }
}

impl Listed {
    fn of(folder: PathBuf, task: TaskFile) -> Self {
        Self {
            folder,
            id: task.id,
            status: task.status,
            owner: task.owner,
            conversation: task.conversation.map(|conversation| conversation.id),
            definition: task.definition,
            created_at: task.created_at,
        }
    }

    /// The task with its journal.
    pub(super) fn archive(&self) -> Result<Archive, UsageError> {
        let task = read_task_file(&self.folder)?;
        let (entries, messages) = read_journal(&self.folder, &task)?
            .into_iter()
            .map(ReadCheckpoint::into_entry)
            .unzip::<_, _, Vec<_>, Vec<_>>();
        Ok(task.with_journal(entries, messages.into_iter().flatten().collect()))
    }
}

/// What no two tasks of an export may disagree about, or have both.
#[derive(Default)]
struct Among {
    keys: HashSet<(Uuid, String)>,
    conversations: HashMap<Uuid, Uuid>,
}

impl Among {
    fn check(&mut self, task: &TaskFile) -> Result<(), String> {
        if let Some(key) = &task.key
            && !self.keys.insert((task.owner, key.clone()))
        {
            return Err(format!(
                "another task of the same owner has the key `{key}`"
            ));
        }
        if let Some(conversation) = &task.conversation
            && *self
                .conversations
                .entry(conversation.id)
                .or_insert(task.owner)
                != task.owner
        {
            let id = conversation.id;
            return Err(format!("the conversation {id} has another owner elsewhere"));
        }
        Ok(())
    }
}

/// The folders of all tasks. What begins with a point is no task: an export that was cut off, or a program
/// that leaves its marks in every folder.
fn task_folders(tasks: &Path) -> Result<Vec<PathBuf>, UsageError> {
    let mut folders = Vec::new();
    for Found {
        name,
        path,
        is_folder,
    } in list(tasks)?
    {
        if let Some(replaced) = name_of_replaced(&name)
            && !tasks.join(replaced).exists()
        {
            let why = "an export was cut off while it replaced this task; export it once more";
            return Err(refused("archive.incomplete", &path, why));
        }
        if name.starts_with('.') {
            continue;
        }
        let is_id = Uuid::try_parse(&name).is_ok_and(|id| id.to_string() == name);
        if !is_id || !is_folder {
            let why = "this is no task; each has a folder that is called by its id, a UUID";
            return Err(refused("archive.invalid", &path, why));
        }
        folders.push(path);
    }
    Ok(folders)
}

fn read_task_file(folder: &Path) -> Result<TaskFile, UsageError> {
    let path = folder.join(TASK_FILE);
    if !path.exists() {
        return Err(refused("archive.incomplete", &path, "the file is missing"));
    }
    let task: TaskFile = read_json(&path)?;
    match what_is_wrong(&task, folder) {
        None => Ok(task),
        Some(why) => Err(refused("archive.invalid", &path, why)),
    }
}

fn what_is_wrong(task: &TaskFile, folder: &Path) -> Option<&'static str> {
    let mut keys = HashSet::new();
    if !folder.ends_with(task.id.to_string()) {
        Some("the id is not the one that the folder is called by")
    } else if task.completed_at.is_some() != task.status.is_final() {
        Some("a task has completed_at exactly when it has ended")
    } else if !is_folder_name(&task.definition) {
        Some("the definition is no hash, and would lead out of its folder")
    } else if i64::try_from(task.epoch).is_err() {
        Some("the epoch is more than a store can count")
    } else if !task.signals.iter().all(|signal| keys.insert(&signal.key)) {
        Some("two signals have the same key")
    } else {
        None
    }
}

/// The journal, in its order.
fn read_journal(folder: &Path, task: &TaskFile) -> Result<Vec<ReadCheckpoint>, UsageError> {
    let mut points = Vec::new();
    for found in list(folder)? {
        if is_file_name(&found.name) {
            points.push(read_json::<ReadCheckpoint>(&found.path)?);
        }
    }
    points.sort_by_key(|point| point.sequence);
    let (number, seq) = (points.len(), task.seq);
    if let Some((_, wanted)) = points
        .iter()
        .zip(1..)
        .find(|(point, at)| point.sequence != *at)
    {
        let why = format!("the checkpoints have no sequence {wanted}, or have another twice");
        return Err(refused("archive.incomplete", folder, why));
    }
    if number as u64 != seq || seq == 0 {
        let why = format!("the task has {seq} steps, and there are {number} checkpoints");
        return Err(refused("archive.incomplete", folder, why));
    }
    Ok(points)
}

fn read_definition(dir: &Path, hash: &str) -> Result<Definition, UsageError> {
    let folder = dir.join(DEFINITIONS).join(hash);
    let mut definition = Definition {
        hash: hash.to_owned(),
        ..Definition::default()
    };
    if !folder.is_dir() {
        let why = "a task was begun with this, and it is missing";
        return Err(refused("archive.incomplete", &folder, why));
    }
    let mut left = vec![(String::new(), folder)];
    while let Some((prefix, folder)) = left.pop() {
        for Found {
            name,
            path,
            is_folder,
        } in list(&folder)?
        {
            let file = format!("{prefix}{name}");
            if is_folder {
                left.push((format!("{file}/"), path));
            } else {
                let text = fs::read_to_string(&path);
                let text = text.map_err(|error| refused("archive.unreadable", &path, error))?;
                definition.files.insert(file, text);
            }
        }
    }
    Ok(definition)
}

/// What is in a folder, by name. A link is refused: it would lead out of the export.
fn list(folder: &Path) -> Result<Vec<Found>, UsageError> {
    let unreadable = |error| refused("archive.unreadable", folder, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let kind = entry.file_type().map_err(unreadable)?;
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            return Err(refused("archive.invalid", &path, "the name is no text"));
        };
        if !kind.is_dir() && !kind.is_file() {
            let why = "this is neither a file nor a folder; links are not followed";
            return Err(refused("archive.invalid", &path, why));
        }
        found.push(Found {
            name,
            path,
            is_folder: kind.is_dir(),
        });
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, UsageError> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| refused("archive.unreadable", path, error))?;
    serde_json::from_str(&text).map_err(|error| {
        let code = match error.classify() {
            Category::Data => "archive.invalid",
            Category::Io | Category::Syntax | Category::Eof => "archive.unreadable",
        };
        refused(code, path, error)
    })
}
