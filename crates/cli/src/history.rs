//! The messages before a request, from a file or from standard input.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use convoke::Message;

use crate::exit::UsageError;

/// Limit of what is read, in bytes. Only the newest messages count, so it may be more than a request accepts.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads a JSON list of messages. `-` is standard input.
pub(crate) fn read(path: &Path) -> Result<Vec<Message>, UsageError> {
    let unreadable = |error: std::io::Error| {
        let message = format!("the history {} cannot be read: {error}", path.display());
        UsageError::new("history.file_unreadable", message)
    };
    let mut text = Vec::new();
    let limit = MAX_FILE_BYTES + 1;
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut text)
    } else {
        let file = File::open(path).map_err(unreadable)?;
        file.take(limit).read_to_end(&mut text)
    };
    let length = read.map_err(unreadable)?;
    if length as u64 >= limit {
        let message =
            format!("a history has at most {MAX_FILE_BYTES} bytes; leave out older messages");
        return Err(UsageError::new("history.too_large", message));
    }
    serde_json::from_slice(&text).map_err(|error| {
        let message = format!(
            "the history is not a list of messages: {error}; write \
             [{{\"role\": \"user\", \"content\": \"…\"}}, {{\"role\": \"assistant\", \"content\": \"…\"}}]"
        );
        UsageError::new("history.malformed", message)
    })
}
