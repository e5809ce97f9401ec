//! What a model is shown of the files, images and data that a request carries.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use convoke_engine::Messages;
use convoke_llm::ImageContent;
use convoke_model::{BlobHash, Message, Part};
use convoke_store::{Store, StoreError, Viewer};
use uuid::Uuid;

/// Bytes that a character of UTF-8 takes at most.
const CHARACTER_BYTES: u64 = 4;

/// The contents of a task's attachments, as far as a model can read them.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    /// The beginning of each file that is a text.
    texts: HashMap<BlobHash, String>,
    pub(crate) images: Vec<ImageContent>,
}

impl Attachments {
    /// Reads what the messages of a task carry: up to so many characters of each text, and whole images.
    pub(crate) async fn read(
        store: &dyn Store,
        viewer: &Viewer,
        task: Uuid,
        messages: &Messages,
        characters: usize,
    ) -> Result<Self, StoreError> {
        let mut attachments = Self::default();
        for part in messages.iter().flat_map(|message| &message.parts) {
            match part {
                Part::File {
                    media_type, blob, ..
                } if is_text(media_type) => {
                    let range = 0..characters as u64 * CHARACTER_BYTES;
                    let Some(read) = store.blob(viewer, task, *blob, range).await? else {
                        continue;
                    };
                    let text = String::from_utf8_lossy(&read.content);
                    let mut text: String = text.chars().take(characters).collect();
                    if (text.len() as u64) < read.bytes {
                        let _ = write!(text, "\n[cut after {characters} characters]");
                    }
                    attachments.texts.insert(*blob, text);
                }
                Part::Image { blob, bytes, .. } => {
                    let read = store.blob(viewer, task, *blob, 0..*bytes).await?;
                    attachments.images.extend(read.map(|read| ImageContent {
                        blob: *blob,
                        content: read.content.into(),
                    }));
                }
                Part::File { .. } | Part::Text { .. } | Part::Data { .. } => {}
            }
        }
        Ok(attachments)
    }

    /// The images that a message carries.
    pub(crate) fn images_of(message: &Message) -> Vec<Part> {
        let parts = message.parts.iter().filter(|part| is_image(part));
        parts.cloned().collect()
    }

    /// Whether [`Self::write_out`] changes a message.
    pub(super) fn is_written_out(message: &Message) -> bool {
        !message.parts.iter().all(is_image)
    }

    /// A message with its texts, files and data written out. Images stay parts: each model is shown them or told of
    /// them.
    pub(super) fn write_out<'m>(&self, message: &'m Message) -> Cow<'m, Message> {
        if !Self::is_written_out(message) {
            return Cow::Borrowed(message);
        }
        let mut fields = message.clone().into_fields();
        for part in &message.parts {
            self.write_part(&mut fields.content, part);
        }
        fields.parts.retain(is_image);
        Message::new(fields).map_or(Cow::Borrowed(message), Cow::Owned)
    }

    fn write_part(&self, out: &mut String, part: &Part) {
        // Writing to a string cannot fail.
        let _ = match part {
            Part::Text { text } => write!(out, "\n\n{text}"),
            Part::Data { data } => write!(out, "\n\nAttached data:\n{data}"),
            Part::File {
                name,
                media_type,
                blob,
                bytes,
            } => match self.texts.get(blob) {
                Some(text) => write!(
                    out,
                    "\n\nAttached file `{name}` ({media_type}, {bytes} bytes):\n{text}"
                ),
                None => write!(
                    out,
                    "\n\nAttached file `{name}` ({media_type}, {bytes} bytes); its content is not shown"
                ),
            },
            Part::Image { .. } => Ok(()),
        };
    }
}

fn is_image(part: &Part) -> bool {
    matches!(part, Part::Image { .. })
}

/// Whether files of a media type are texts.
fn is_text(media_type: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    let known = [
        "application/json",
        "application/toml",
        "application/xml",
        "application/x-ndjson",
        "application/x-yaml",
        "application/yaml",
    ];
    media_type.starts_with("text/")
        || known.contains(&media_type)
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
}
