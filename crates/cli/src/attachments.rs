//! Files that come with a message on the command line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use convoke::Attachment;

use crate::exit::UsageError;

/// Media types by the ending of a file's name.
const MEDIA_TYPES: &[(&str, &str)] = &[
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("jsonl", "application/x-ndjson"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("toml", "application/toml"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
];

/// Reads the files of a command line, each of at most so many bytes.
pub(crate) fn read(files: &[PathBuf], limit_bytes: u32) -> Result<Vec<Attachment>, UsageError> {
    files.iter().map(|file| one(file, limit_bytes)).collect()
}

fn one(path: &Path, limit_bytes: u32) -> Result<Attachment, UsageError> {
    let unreadable = |error: std::io::Error| {
        let message = format!("{} cannot be attached: {error}", path.display());
        UsageError::new("attachment.unreadable", message)
    };
    // A folder can be opened, but not read. A pipe ends where its writer ends, or at the limit.
    let file = File::open(path).map_err(unreadable)?;
    let mut content = Vec::new();
    file.take(u64::from(limit_bytes) + 1)
        .read_to_end(&mut content)
        .map_err(unreadable)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(Attachment {
        name: name.into_owned(),
        media_type: media_type(path).into(),
        content: content.into(),
    })
}

fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    let known = MEDIA_TYPES.iter().find(|(known, _)| ending == *known);
    known.map_or("application/octet-stream", |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_follows_from_the_ending() {
        let types = ["a.CSV", "b.jpeg", "c.tar.gz", "none"].map(|name| media_type(Path::new(name)));
        let unknown = "application/octet-stream";
        assert_eq!(types, ["text/csv", "image/jpeg", unknown, unknown]);
    }
}
