//! The source of an app's files: a folder, or files stored with a task.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::{fs, io};

use crate::source::Position;
use crate::yaml::MAX_FILE_BYTES;

/// The text of each file of an app, by its path relative to the app folder.
pub type AppFiles = BTreeMap<String, String>;

/// Where an app's files are read from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// The folder, as it is now.
    Folder(&'a Path),
    /// Stored files.
    Stored(&'a AppFiles),
}

impl Origin<'_> {
    /// The names in one of the app's folders (empty for the app folder itself), and whether each is a
    /// folder. `None` if the folder does not exist.
    pub(crate) fn names(self, folder: &str) -> io::Result<Option<Vec<(String, bool)>>> {
        match self {
            Self::Folder(root) => {
                let path = root.join(folder);
                if !folder.is_empty() && !path.exists() {
                    return Ok(None);
                }
                let name = |entry: fs::DirEntry| {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    (name, entry.path().is_dir())
                };
                Ok(Some(fs::read_dir(path)?.flatten().map(name).collect()))
            }
            Self::Stored(files) => {
                let mut names = BTreeSet::new();
                for path in files.keys() {
                    match path.split_once('/') {
                        Some((first, _)) if folder.is_empty() => {
                            names.insert((first.to_owned(), true));
                        }
                        Some((first, rest)) if first == folder => {
                            names.insert((rest.to_owned(), false));
                        }
                        None if folder.is_empty() => {
                            names.insert((path.clone(), false));
                        }
                        _ => {}
                    }
                }
                Ok(Some(names.into_iter().collect()))
            }
        }
    }

    /// The place of one of the app's folders, for people.
    pub(crate) fn path(self, folder: &str) -> String {
        match self {
            Self::Folder(root) if folder.is_empty() => root.display().to_string(),
            Self::Folder(root) => root.join(folder).display().to_string(),
            Self::Stored(_) => folder.to_owned(),
        }
    }

    /// The text of a file.
    pub(crate) fn text(self, file: &str) -> Result<String, UnreadableFile> {
        match self {
            Self::Folder(root) => read_text(&root.join(file)),
            Self::Stored(files) => files.get(file).cloned().ok_or_else(|| {
                UnreadableFile::of("app.file_unreadable", "the file was not stored")
            }),
        }
    }
}

/// Why a file has no text.
#[derive(Debug)]
pub(crate) struct UnreadableFile {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Where in the file, if it was read.
    pub(crate) position: Option<Position>,
}

impl UnreadableFile {
    fn of(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            position: None,
        }
    }
}

fn read_text(path: &Path) -> Result<String, UnreadableFile> {
    let unreadable = |error: io::Error| {
        UnreadableFile::of(
            "app.file_unreadable",
            format!("the file cannot be read: {error}"),
        )
    };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(UnreadableFile::of(
            "app.file_unreadable",
            "this is not a file",
        ));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    // Reading one byte more detects a file that grew since its size was read.
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message = format!("the file has more than {MAX_FILE_BYTES} bytes; split it");
        return Err(UnreadableFile::of("app.file_too_large", message));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let message = "the file is UTF-16 text; save it as UTF-8";
        return Err(UnreadableFile::of("app.file_not_text", message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..at]);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let position = Position {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        };
        let message = "the file is not UTF-8 text from here on; save it as UTF-8";
        UnreadableFile {
            position: Some(position),
            ..UnreadableFile::of("app.file_not_text", message)
        }
    })
}
