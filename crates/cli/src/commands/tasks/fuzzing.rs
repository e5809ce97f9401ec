//! The body of the fuzz target `archive`.
#![expect(clippy::panic, reason = "a fuzz target fails by panicking")]

use std::fs;
use std::path::{Component, Path};
use std::sync::Arc;

use convoke_model::SystemClock;
use convoke_store::{Archive, Imported, MemoryStore, Store, StoreError, Viewer};

use super::import_folder::ImportFolder;
use super::import_limits::ImportLimits;

/// The line before each file, with its path after it.
const HEADING: &str = "=== ";

/// Reads an export. What is accepted can be brought into a store, and is there as the export says. Says whether a task was.
pub fn archive(input: &[u8]) -> bool {
    let Ok(export) = tempfile::tempdir() else {
        panic!("no folder can be made");
    };
    write(export.path(), &String::from_utf8_lossy(input));
    let folder = match ImportFolder::read(export.path(), ImportLimits::default()) {
        Ok(folder) => folder,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else {
        panic!("no runtime can be made");
    };
    let store = MemoryStore::new(Arc::new(SystemClock));
    for task in &folder.tasks {
        let archive = match folder.archive(task) {
            Ok(archive) => archive,
            Err(error) => panic!("accepted, then refused: {error}"),
        };
        let definition = folder
            .definitions
            .get(&task.definition)
            .map(|read| read.definition.clone());
        runtime.block_on(bring_in(&store, archive, definition));
    }
    !folder.tasks.is_empty()
}

async fn bring_in(
    store: &MemoryStore,
    archive: Archive,
    definition: Option<convoke_store::Definition>,
) {
    let id = archive.record.id;
    match store.bring_in(archive.clone(), definition).await {
        Ok(Imported::Created) => {}
        Ok(Imported::Existing) | Err(StoreError::ForeignConversation { .. }) => return,
        Err(error) => panic!("accepted, then not stored: {error}"),
    }
    let there = match store.take_out(&Viewer::System, id).await {
        Ok(Some(there)) => there,
        other => panic!("stored, then not found: {other:?}"),
    };
    assert_eq!(there.entries, archive.entries);
    assert_eq!(there.messages, archive.messages);
    assert_eq!(there.signals, archive.signals);
    assert_eq!(there.blobs, archive.blobs);
    assert_eq!(there.record.status, archive.record.status);
    assert_eq!(there.record.seq, archive.record.seq);
}

/// Writes the files of an input: each a heading with its path, and its lines after it. A path that leads out of the
/// folder is left out: the file system, not the import, is what it would be tried on.
fn write(folder: &Path, text: &str) {
    let mut file = None;
    for line in text.split_inclusive('\n') {
        match (line.strip_prefix(HEADING), &mut file) {
            (Some(path), file) => {
                put(folder, file.take());
                *file = Some((path.trim().to_owned(), String::new()));
            }
            (None, Some((_, text))) => text.push_str(line),
            (None, None) => {}
        }
    }
    put(folder, file);
}

fn put(folder: &Path, file: Option<(String, String)>) {
    let Some((path, text)) = file else {
        return;
    };
    let is_inside = Path::new(&path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !is_inside {
        return;
    }
    let path = folder.join(path);
    // A file where a folder would have to be leaves this one out.
    let _ = path.parent().map(fs::create_dir_all);
    let _ = fs::write(path, text);
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kept_export_and_changes_of_it_are_refused_or_brought_in_as_they_are() {
        convoke_testkit::replay("archive", super::archive);
    }
}
