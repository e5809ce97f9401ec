//! What a message carries besides its text: texts, data, files and images.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blob_hash::BlobHash;
use crate::valid::Report;

/// Limit of the parts of one message.
pub const MAX_PARTS: usize = 64;

/// Limit of the characters in a file's name or a media type.
const MAX_PART_NAME: usize = 255;

/// A part of a message. The content of files and images is a blob that the store keeps beside the journal; the message
/// carries the blob's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A file.
    File {
        /// What it is called, without a folder.
        name: String,
        /// Its media type, such as `text/csv`.
        media_type: String,
        /// The SHA-256 of its content.
        blob: BlobHash,
        /// How long it is.
        bytes: u64,
    },
    /// An image.
    Image {
        /// Its media type, such as `image/png`.
        media_type: String,
        /// The SHA-256 of its content.
        blob: BlobHash,
        /// How long it is.
        bytes: u64,
    },
    /// Structured data.
    Data {
        /// The data.
        data: Value,
    },
}

impl Part {
    /// The blob that holds the part's content.
    pub fn blob(&self) -> Option<BlobHash> {
        match self {
            Self::File { blob, .. } | Self::Image { blob, .. } => Some(*blob),
            Self::Text { .. } | Self::Data { .. } => None,
        }
    }

    pub(crate) fn rules(&self, report: &mut Report) {
        match self {
            Self::Text { text } => report.require(
                !text.trim().is_empty(),
                "text",
                "part.text_empty",
                "the text is empty; leave the part out",
            ),
            Self::File {
                name, media_type, ..
            } => {
                report.require(
                    is_file_name(name),
                    "name",
                    "part.file_name",
                    format_args!(
                        "a file's name has 1 to {MAX_PART_NAME} characters, and no folder or control character"
                    ),
                );
                require_media_type(report, media_type);
            }
            Self::Image { media_type, .. } => {
                require_media_type(report, media_type);
                report.require(
                    media_type.starts_with("image/"),
                    "media_type",
                    "part.image_type",
                    "the media type of an image begins with `image/`; anything else is a file",
                );
            }
            Self::Data { .. } => {}
        }
    }
}

fn is_file_name(name: &str) -> bool {
    let fits = |letter: char| !letter.is_control() && letter != '/' && letter != '\\';
    !matches!(name.trim(), "" | "." | "..")
        && name.chars().count() <= MAX_PART_NAME
        && name.chars().all(fits)
}

fn require_media_type(report: &mut Report, media_type: &str) {
    let fits = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'/')
    };
    let is_type = media_type.len() <= MAX_PART_NAME
        && media_type
            .split_once('/')
            .is_some_and(|(kind, subtype)| fits(kind) && fits(subtype));
    report.require(
        is_type,
        "media_type",
        "part.media_type",
        "a media type is written like `text/csv`",
    );
}
