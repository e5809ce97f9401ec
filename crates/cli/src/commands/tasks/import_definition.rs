//! What tasks of an export were begun with: read, and held against the hash by which they name it.

use convoke_app::StoredApp;
use convoke_store::Definition;

use super::archive::refused;
use super::import_limits::{DEFINITION_FILE_BYTES, DEFINITION_FILES};
use super::import_source::{ReadLimit, SourceFolder};
use crate::exit::UsageError;

/// A definition whose files give its hash.
pub(super) struct ReadDefinition {
    pub(super) definition: Definition,
    /// How long all of its files are together.
    pub(super) bytes: u64,
}

impl ReadDefinition {
    /// Reads a definition of no more than so many bytes. An app's files lie in its folder, or in a folder
    /// of that.
    pub(super) fn read(
        folder: &SourceFolder,
        hash: &str,
        most: ReadLimit,
    ) -> Result<Self, UsageError> {
        let mut read = Files {
            definition: Definition {
                hash: hash.to_owned(),
                ..Definition::default()
            },
            most,
            bytes: 0,
        };
        for name in folder.names(DEFINITION_FILES)? {
            match folder.folder(&name) {
                Ok(Some(inner)) => {
                    for file in inner.names(DEFINITION_FILES)? {
                        read.take(&inner, &file, format!("{name}/{file}"))?;
                    }
                }
                _ => read.take(folder, &name, name.clone())?,
            }
        }
        let Files {
            definition, bytes, ..
        } = read;
        let app = StoredApp::read(&definition.files).map_err(|problems| {
            let why = format!("the app cannot be read: {problems}");
            refused("archive.invalid", folder.path(), why)
        })?;
        if !app.has_hash(hash) {
            let why = "the files are not those that tasks name by this hash; somebody changed them";
            return Err(refused("archive.definition_changed", folder.path(), why));
        }
        Ok(Self { definition, bytes })
    }
}

/// Files that are being read.
struct Files {
    definition: Definition,
    most: ReadLimit,
    bytes: u64,
}

impl Files {
    fn take(&mut self, folder: &SourceFolder, file: &str, name: String) -> Result<(), UsageError> {
        let text = folder
            .text(file, DEFINITION_FILE_BYTES)?
            .unwrap_or_default();
        self.bytes += text.len() as u64;
        if self.bytes > self.most.number {
            let why = format!("the definitions are too long; {}", self.most.help);
            return Err(refused("archive.too_large", folder.path(), why));
        }
        self.definition.files.insert(name, text);
        Ok(())
    }
}
