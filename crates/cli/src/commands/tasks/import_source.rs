//! A folder of an export as it is read. Everything in it is opened by its name in the folder that is open
//! already, links are not followed, and what was opened is looked at before it is read: so neither a link, nor a
//! pipe, nor somebody who changes the folder in the meantime leads the reader elsewhere or holds it up.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::archive::refused;
use crate::exit::UsageError;

/// An open folder.
pub(super) struct SourceFolder {
    fd: OwnedFd,
    path: PathBuf,
}

/// How much of something is read at most, and how its reader is told to read more.
#[derive(Clone, Copy)]
pub(super) struct ReadLimit {
    pub(super) number: u64,
    /// Such as `set --max-tasks`.
    pub(super) help: &'static str,
}

impl SourceFolder {
    /// Opens the folder at a path, if there is one.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, UsageError> {
        open_folder(CWD, path, path.to_owned())
    }

    /// Opens a folder in this one, if there is one.
    pub(super) fn folder(&self, name: &str) -> Result<Option<Self>, UsageError> {
        open_folder(&self.fd, Path::new(name), self.path.join(name))
    }

    /// Where the folder is, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The names of what is in it, sorted.
    pub(super) fn names(&self, most: ReadLimit) -> Result<Vec<String>, UsageError> {
        let unreadable = |error: Errno| refused("archive.unreadable", &self.path, error);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let Ok(name) = entry.file_name().to_str() else {
                let path = self.path.join(entry.file_name().to_string_lossy().as_ref());
                return Err(refused("archive.invalid", &path, "the name is no text"));
            };
            if matches!(name, "." | "..") {
                continue;
            }
            if names.len() as u64 >= most.number {
                let ReadLimit { number, help } = most;
                let why = format!("there are more than {number} files here; {help}");
                return Err(refused("archive.too_large", &self.path, why));
            }
            names.push(name.to_owned());
        }
        names.sort();
        Ok(names)
    }

    /// The text of a file in it, if there is one.
    pub(super) fn text(&self, name: &str, most: ReadLimit) -> Result<Option<String>, UsageError> {
        let Some(content) = self.content(name, most)? else {
            return Ok(None);
        };
        let text = String::from_utf8(content).map_err(|error| {
            refused(
                "archive.unreadable",
                &self.path.join(name),
                error.utf8_error(),
            )
        })?;
        Ok(Some(text))
    }

    /// What stands in a file in it, if there is one.
    pub(super) fn content(
        &self,
        name: &str,
        most: ReadLimit,
    ) -> Result<Option<Vec<u8>>, UsageError> {
        let path = self.path.join(name);
        // A pipe that nobody writes to is opened all the same, and refused.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = match openat(&self.fd, name, flags | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NXIO) => return Err(no_file(&path)),
            Err(error) => return Err(refused("archive.unreadable", &path, error)),
        };
        let found = fstat(&fd).map_err(|error| refused("archive.unreadable", &path, error))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(no_file(&path));
        }
        let too_large = || {
            let ReadLimit { number, help } = most;
            let why = format!("the file has more than {number} bytes; {help}");
            Err(refused("archive.too_large", &path, why))
        };
        if u64::try_from(found.st_size).is_ok_and(|size| size > most.number) {
            return too_large();
        }
        let mut content = Vec::new();
        // A file that grows in the meantime is one byte too long.
        let mut file = File::from(fd).take(most.number.saturating_add(1));
        file.read_to_end(&mut content)
            .map_err(|error| refused("archive.unreadable", &path, error))?;
        if content.len() as u64 > most.number {
            return too_large();
        }
        Ok(Some(content))
    }
}

fn open_folder(
    parent: impl std::os::fd::AsFd,
    name: &Path,
    path: PathBuf,
) -> Result<Option<SourceFolder>, UsageError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(SourceFolder { fd, path })),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let why = "this is no folder; links are not followed";
            Err(refused("archive.invalid", &path, why))
        }
        Err(error) => Err(refused("archive.unreadable", &path, error)),
    }
}

fn no_file(path: &Path) -> UsageError {
    let why = "this is no file; links are not followed";
    refused("archive.invalid", path, why)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const MOST: ReadLimit = ReadLimit {
        number: 10,
        help: "keep it short",
    };

    #[test]
    fn what_was_opened_stays_what_it_is_whatever_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
        for (folder, text) in [(&inside, "ours"), (&outside, "theirs")] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), text).unwrap();
        }
        let folder = SourceFolder::open(&inside).unwrap().unwrap();
        assert_eq!(folder.names(MOST).unwrap(), ["file"]);
        // The folder is exchanged for a link to another.
        fs::rename(&inside, dir.path().join("moved")).unwrap();
        symlink(&outside, &inside).unwrap();
        assert_eq!(folder.text("file", MOST).unwrap().unwrap(), "ours");
        let error = SourceFolder::open(&inside).err().unwrap();
        assert_eq!(error.code, "archive.invalid");
        // And a file in it for a link, after it was listed.
        let file = dir.path().join("moved/file");
        fs::remove_file(&file).unwrap();
        symlink(outside.join("file"), &file).unwrap();
        let error = folder.text("file", MOST).unwrap_err();
        assert_eq!(error.code, "archive.invalid");
        assert!(folder.text("none", MOST).unwrap().is_none());
        assert!(folder.folder("none").unwrap().is_none());
    }

    #[test]
    fn only_so_much_is_read_of_a_file_and_of_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = SourceFolder::open(dir.path()).unwrap().unwrap();
        fs::write(dir.path().join("file"), "0123456789").unwrap();
        assert!(folder.text("file", MOST).unwrap().is_some());
        fs::write(dir.path().join("file"), "0123456789a").unwrap();
        let error = folder.text("file", MOST).unwrap_err();
        assert_eq!(error.code, "archive.too_large");
        assert!(error.message.contains("10 bytes; keep it short"));
        for number in 0..9 {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(folder.names(MOST).unwrap().len(), 10);
        fs::write(dir.path().join("another"), "").unwrap();
        let error = folder.names(MOST).unwrap_err();
        assert_eq!(error.code, "archive.too_large");
    }
}
