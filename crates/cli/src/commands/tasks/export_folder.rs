//! The folder that an export is written to. Everything in it is written under another name first, so that
//! an export that is cut off leaves nothing half done under a name that counts.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use convoke_store::{Blob, Definition};
use uuid::Uuid;

use super::archive::{
    BLOBS, DEFINITIONS, TASKS, is_folder_name, is_partial, name_of_replaced, partial_name, refused,
    replaced_name,
};
use crate::exit::UsageError;

/// A folder that is empty, or holds an export already.
pub(super) struct ExportFolder {
    tasks: PathBuf,
    definitions: PathBuf,
    blobs: PathBuf,
}

/// A file of a task or a definition: its path within the folder, and what stands in it.
pub(super) type File = (String, String);

impl ExportFolder {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        check_unused(dir)?;
        let folder = Self {
            tasks: dir.join(TASKS),
            definitions: dir.join(DEFINITIONS),
            blobs: dir.join(BLOBS),
        };
        for path in [&folder.tasks, &folder.definitions] {
            fs::create_dir_all(path).map_err(|error| refused("archive.unwritable", path, error))?;
            clear_away(path)?;
        }
        Ok(folder)
    }

    /// Writes a task, in place of what an earlier export wrote of it. Tells whether there was such.
    pub(super) fn put_task(&self, id: Uuid, files: &[File]) -> anyhow::Result<bool> {
        put(&self.tasks, &id.to_string(), files)
    }

    /// Writes a blob, unless it is there already: its name says what stands in it.
    pub(super) fn put_blob(&self, blob: &Blob) -> anyhow::Result<()> {
        let name = blob.hash().to_string();
        let (partial, place) = (self.blobs.join(partial_name(&name)), self.blobs.join(&name));
        if place.exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.blobs)
            .and_then(|()| fs::write(&partial, blob.content()))
            .with_context(|| format!("{} cannot be written", place.display()))?;
        rename(&partial, &place)
    }

    /// Writes what tasks were begun with.
    pub(super) fn put_definition(&self, definition: &Definition) -> anyhow::Result<()> {
        let path = self.definitions.join(&definition.hash);
        if !is_folder_name(&definition.hash) {
            return Err(refused("archive.invalid", &path, "the hash is no name").into());
        }
        if let Some(file) = definition.files.keys().find(|file| !stays_within(file)) {
            let why = format!("the file `{file}` would lie outside its folder");
            return Err(refused("archive.invalid", &path, why).into());
        }
        let files = definition.files.clone().into_iter().collect::<Vec<File>>();
        put(&self.definitions, &definition.hash, &files)?;
        Ok(())
    }
}

/// An export is not mixed with other files: they would be taken for a part of it.
fn check_unused(dir: &Path) -> Result<(), UsageError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused("archive.unwritable", dir, error)),
    };
    let own = [TASKS, DEFINITIONS, BLOBS].map(OsStr::new);
    for entry in entries {
        let entry = entry.map_err(|error| refused("archive.unwritable", dir, error))?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !own.contains(&entry.file_name().as_os_str()) {
            let why =
                "there are files here that belong to no export; name an empty folder or a new one";
            return Err(refused("archive.not_empty", &entry.path(), why));
        }
    }
    Ok(())
}

/// Undoes what an export that was cut off left half done.
fn clear_away(parent: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(OsStr::to_str) else {
            continue;
        };
        if is_partial(name) {
            remove(&path)?;
        } else if let Some(name) = name_of_replaced(name) {
            let place = parent.join(name);
            if place.exists() {
                remove(&path)?;
            } else {
                rename(&path, &place)?;
            }
        }
    }
    Ok(())
}

/// Writes a folder whole, in place of one of the same name. Tells whether there was one.
fn put(parent: &Path, name: &str, files: &[File]) -> anyhow::Result<bool> {
    let (partial, place) = (parent.join(partial_name(name)), parent.join(name));
    fs::create_dir_all(&partial)
        .with_context(|| format!("{} cannot be written", partial.display()))?;
    for (file, text) in files {
        let path = partial.join(file);
        let folder = path.parent().unwrap_or(&partial);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    if !place.exists() {
        rename(&partial, &place)?;
        return Ok(false);
    }
    let replaced = parent.join(replaced_name(name));
    rename(&place, &replaced)?;
    rename(&partial, &place)?;
    remove(&replaced)?;
    Ok(true)
}

fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to).with_context(|| format!("{} cannot be written", to.display()))
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))
}

fn stays_within(file: &str) -> bool {
    let mut parts = Path::new(file).components();
    !file.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn files(text: &str) -> Vec<File> {
        vec![("task.json".into(), text.into())]
    }

    #[test]
    fn a_task_is_replaced_whole_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ExportFolder::open(dir.path()).unwrap();
        let id = Uuid::nil();
        let mut first = files("first");
        first.push(("checkpoint_000.json".into(), "{}".into()));
        assert!(!folder.put_task(id, &first).unwrap());
        let again = ExportFolder::open(dir.path()).unwrap();
        assert!(again.put_task(id, &files("second")).unwrap());
        let task = dir.path().join(TASKS).join(id.to_string());
        assert_eq!(
            fs::read_to_string(task.join("task.json")).unwrap(),
            "second"
        );
        assert!(!task.join("checkpoint_000.json").exists());
        assert_eq!(fs::read_dir(dir.path().join(TASKS)).unwrap().count(), 1);
    }

    #[test]
    fn what_a_cut_off_export_left_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let tasks = dir.path().join(TASKS);
        for name in [
            partial_name("a"),
            replaced_name("a"),
            replaced_name("b"),
            "b".into(),
        ] {
            fs::create_dir_all(tasks.join(name)).unwrap();
        }
        ExportFolder::open(dir.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(&tasks)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["a", "b"]);
    }

    #[test]
    fn a_folder_of_other_files_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
        let error = ExportFolder::open(dir.path()).err().unwrap();
        let error = error.downcast_ref::<UsageError>().unwrap();
        assert_eq!(error.code, "archive.not_empty");
        assert!(!dir.path().join(TASKS).exists());
    }

    #[test]
    fn a_definition_that_would_leave_its_folder_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ExportFolder::open(&dir.path().join("export")).unwrap();
        for file in ["../evil", "/tmp/evil", "a/../../evil", ""] {
            let definition = Definition {
                hash: "abc".into(),
                files: BTreeMap::from([(file.into(), String::new())]),
                trusted: true,
            };
            let error = folder.put_definition(&definition).unwrap_err();
            let error = error.downcast_ref::<UsageError>().unwrap();
            assert_eq!(error.code, "archive.invalid", "{file:?}");
        }
    }
}
