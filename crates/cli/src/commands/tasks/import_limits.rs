//! How much an import reads at most. An export may come from anybody.

use clap::Args;
use convoke_app::{MAX_FILE_BYTES, MAX_FILES};
use convoke_store::BLOB_BYTES;

use super::import_source::ReadLimit;

/// The limits of an import, each an option of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct ImportLimits {
    /// The most tasks in the export
    #[arg(long = "max-tasks", value_name = "NUMBER", default_value_t = ImportLimits::default().tasks)]
    tasks: u64,
    /// The most files in the folder of one task, which has one for every step
    #[arg(
        long = "max-task-files",
        value_name = "NUMBER",
        default_value_t = ImportLimits::default().task_files)]
    task_files: u64,
    /// The most bytes in one file of a task
    #[arg(long = "max-file-bytes", value_name = "BYTES", default_value_t = ImportLimits::default().file_bytes)]
    file_bytes: u64,
    /// The most bytes in all files and blobs of one task, and of the tasks that are on their way at once
    #[arg(long = "max-task-bytes", value_name = "BYTES", default_value_t = ImportLimits::default().task_bytes)]
    task_bytes: u64,
    /// The most bytes in one blob
    #[arg(long = "max-blob-bytes", value_name = "BYTES", default_value_t = ImportLimits::default().blob_bytes)]
    blob_bytes: u64,
    /// The most bytes in all definitions, which are held in memory
    #[arg(long = "max-definition-bytes", value_name = "BYTES", default_value_t = ImportLimits::default().definition_bytes)]
    definition_bytes: u64,
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self {
            tasks: 100_000,
            task_files: 100_000,
            file_bytes: 16 * 1024 * 1024,
            task_bytes: 256 * 1024 * 1024,
            blob_bytes: BLOB_BYTES,
            definition_bytes: 64 * 1024 * 1024,
        }
    }
}

impl ImportLimits {
    pub(super) fn tasks(&self) -> ReadLimit {
        ReadLimit {
            number: self.tasks,
            help: "set --max-tasks",
        }
    }

    pub(super) fn task_files(&self) -> ReadLimit {
        ReadLimit {
            number: self.task_files,
            help: "set --max-task-files",
        }
    }

    pub(super) fn file_bytes(&self) -> ReadLimit {
        ReadLimit {
            number: self.file_bytes,
            help: "set --max-file-bytes",
        }
    }

    pub(super) fn task_bytes(&self) -> ReadLimit {
        ReadLimit {
            number: self.task_bytes,
            help: "set --max-task-bytes",
        }
    }

    pub(super) fn blob_bytes(&self) -> ReadLimit {
        ReadLimit {
            number: self.blob_bytes,
            help: "set --max-blob-bytes",
        }
    }

    pub(super) fn definition_bytes(&self) -> ReadLimit {
        ReadLimit {
            number: self.definition_bytes,
            help: "set --max-definition-bytes",
        }
    }
}

/// Files in a folder of a definition. No app has more.
pub(super) const DEFINITION_FILES: ReadLimit = ReadLimit {
    number: MAX_FILES as u64,
    help: "no app has as many",
};

/// Bytes in a file of a definition. No app has a longer one.
pub(super) const DEFINITION_FILE_BYTES: ReadLimit = ReadLimit {
    number: MAX_FILE_BYTES,
    help: "no app has a longer one",
};
