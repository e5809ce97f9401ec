//! Large values within the texts of entries. Each is stored as a blob and replaced by a readable reference. References
//! are identified only by offsets stored beside the text, so no text in a value can imitate one. Readers of the store
//! get the original value.
//!
//! Which parts are extracted depends only on the value, not on its context, so a value in an event, in later states and
//! in a message is one blob.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use convoke_model::BlobHash;
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{blobs, columns};
use crate::blob::hash_of;
use crate::error::StoreError;
use crate::journal::{NewEntry, NewMessage};

/// Smaller values are never extracted, whatever the limit: a reference would be about as long.
const SMALLEST: usize = 1024;

/// Characters of a value that its reference shows.
const PREVIEW_CHARACTERS: usize = 200;

/// An entry to write.
pub(super) struct EntryColumns<'a> {
    pub(super) event: Cow<'a, str>,
    pub(super) state: Cow<'a, str>,
    pub(super) messages: Option<String>,
    /// The positions of references in the three texts.
    pub(super) blobs: Option<String>,
    /// The referenced values, without duplicates.
    pub(super) values: Vec<LargeValue<'a>>,
}

/// A value that is stored as a blob. Most are slices of the entry's texts, so extracting them takes no memory.
pub(super) struct LargeValue<'a> {
    pub(super) hash: BlobHash,
    pub(super) content: Cow<'a, str>,
}

/// References in the texts of an entry.
#[derive(Default, Serialize, Deserialize)]
struct References {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    event: Vec<Reference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    state: Vec<Reference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Reference>,
}

/// A text of an entry that may have references.
#[derive(Clone, Copy)]
pub(super) enum Text {
    Event,
    State,
    Messages,
}

#[derive(Serialize, Deserialize)]
struct Reference {
    /// Its offset in the text, in bytes.
    at: usize,
    /// Its length in bytes.
    length: usize,
    target: Target,
}

/// The target of a reference.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Target {
    /// A blob.
    Blob { hash: BlobHash, form: Form },
    /// A string in the text that itself has references.
    Text(Vec<Reference>),
}

/// How a blob is inserted into the text.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// As JSON.
    Json,
    /// As the content of a JSON string.
    Text,
}

impl Form {
    fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => "text/plain",
        }
    }
}

pub(super) fn of_entry<'a>(
    entry: &'a NewEntry,
    messages: &[NewMessage],
    inline_bytes: usize,
) -> Result<EntryColumns<'a>, StoreError> {
    let mut cutter = Cutter {
        limit: inline_bytes.max(SMALLEST),
        values: Vec::new(),
    };
    let (event, in_event) = cutter.cut(&entry.event, Strings::LookedInto, borrow)?;
    let (state, in_state) = cutter.cut(&entry.state, Strings::LookedInto, borrow)?;
    let (messages, in_messages) = match columns::messages_text(messages) {
        None => (None, Vec::new()),
        Some(text) => {
            let (cut_text, references) = cutter.cut(&text, Strings::LookedInto, own)?;
            let cut_text = match cut_text {
                Cow::Borrowed(_) => None,
                Cow::Owned(text) => Some(text),
            };
            (Some(cut_text.unwrap_or(text)), references)
        }
    };
    let references = References {
        event: in_event,
        state: in_state,
        messages: in_messages,
    };
    let blobs = if cutter.values.is_empty() {
        None
    } else {
        Some(serde_json::to_string(&references)?)
    };
    Ok(EntryColumns {
        event,
        state,
        messages,
        blobs,
        values: cutter.values,
    })
}

/// How a large string that contains JSON is stored. Tools often repeat their result as text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strings {
    /// Its large values are extracted, as outside of it.
    LookedInto,
    /// It is extracted as a whole.
    Whole,
}

/// Extracts large values from the texts of one entry.
struct Cutter<'a> {
    limit: usize,
    /// The extracted values, without duplicates.
    values: Vec<LargeValue<'a>>,
}

/// How an extracted value outlives the text that it is cut out of.
type Keep<'t, 'a> = fn(Cow<'t, str>) -> Cow<'a, str>;

/// For a text that lives as long as the entry.
fn borrow(value: Cow<'_, str>) -> Cow<'_, str> {
    value
}

/// For a text of this function's caller.
fn own<'a>(value: Cow<'_, str>) -> Cow<'a, str> {
    Cow::Owned(value.into_owned())
}

impl<'a> Cutter<'a> {
    /// Replaces a text's large values with references.
    fn cut<'t>(
        &mut self,
        text: &'t str,
        strings: Strings,
        keep: Keep<'t, 'a>,
    ) -> Result<(Cow<'t, str>, Vec<Reference>), StoreError> {
        if text.len() <= self.limit {
            return Ok((text.into(), Vec::new()));
        }
        let large = large_values(text.as_bytes(), self.limit);
        if large.is_empty() {
            return Ok((text.into(), Vec::new()));
        }
        let mut rest = String::new();
        let mut references = Vec::with_capacity(large.len());
        let mut copied = 0;
        for range in large {
            let value = &text[range.clone()];
            rest.push_str(&text[copied..range.start]);
            copied = range.end;
            let (written, target) = self.reference(value, strings, keep)?;
            references.push(Reference {
                at: rest.len(),
                length: written.len(),
                target,
            });
            rest.push_str(&written);
        }
        rest.push_str(&text[copied..]);
        Ok((rest.into(), references))
    }

    /// The reference for a value, and its target.
    fn reference<'t>(
        &mut self,
        value: &'t str,
        strings: Strings,
        keep: Keep<'t, 'a>,
    ) -> Result<(String, Target), StoreError> {
        let (content, form) = content_of(value)?;
        if form == Form::Text && strings == Strings::LookedInto && content.starts_with(['{', '[']) {
            let (rest, within) = self.cut(&content, Strings::Whole, own)?;
            // A text that is one blob as a whole is stored as one.
            if !within.is_empty() && rest.len() <= self.limit {
                return Ok((serde_json::to_string(&rest)?, Target::Text(within)));
            }
        }
        let preview: String = content.chars().take(PREVIEW_CHARACTERS).collect();
        let bytes = content.len();
        // Comparing is cheaper than hashing again.
        let mut known = self.values.iter();
        let hash = if let Some(known) = known.find(|known| known.content == content) {
            known.hash
        } else {
            let hash = hash_of(content.as_bytes());
            let content = keep(content);
            self.values.push(LargeValue { hash, content });
            hash
        };
        let written = json!({
            "blob": hash, "bytes": bytes, "media_type": form.media_type(), "preview": preview,
        });
        Ok((written.to_string(), Target::Blob { hash, form }))
    }
}

/// The stored form of a value. For a string, its content: the same text is the same blob, as a string or as a value.
fn content_of(value: &str) -> Result<(Cow<'_, str>, Form), StoreError> {
    if value.starts_with('"') {
        let text: String = serde_json::from_str(value)?;
        // A string with other escapes than serde's is stored as written.
        let mut comparison = Comparison(value.as_bytes());
        if serde_json::to_writer(&mut comparison, &text).is_ok() && comparison.0.is_empty() {
            return Ok((text.into(), Form::Text));
        }
    }
    Ok((value.into(), Form::Json))
}

/// Fails once what is written differs from this text.
struct Comparison<'a>(&'a [u8]);

impl io::Write for Comparison<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let rest = self.0.strip_prefix(bytes);
        self.0 = rest.ok_or(io::ErrorKind::InvalidData)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Finds the large values of a JSON text. A list or an object is large if its content without large values is.
fn large_values(text: &[u8], limit: usize) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    // For every open list and object: its offset, the number of values found before it, and their bytes.
    let mut open: Vec<(usize, usize, usize)> = Vec::new();
    let mut found_bytes = 0;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let start = at;
                at = string_end(text, at);
                if at - start > limit {
                    found.push(start..at);
                    found_bytes += at - start;
                }
            }
            b'[' | b'{' => {
                open.push((at, found.len(), found_bytes));
                at += 1;
            }
            b']' | b'}' => {
                at += 1;
                let Some((start, before, bytes_before)) = open.pop() else {
                    continue;
                };
                let own = (at - start).saturating_sub(found_bytes - bytes_before);
                if own > limit {
                    found.truncate(before);
                    found.push(start..at);
                    found_bytes = bytes_before + (at - start);
                }
            }
            _ => at += 1,
        }
    }
    found
}

/// The end of a string that starts at an offset.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// A text of an entry with its large values. `blobs` is the column with the positions of its references.
pub(super) fn whole<'a>(
    connection: &Connection,
    row: &'a Row<'_>,
    column: usize,
    blobs: usize,
    text: Text,
) -> Result<Cow<'a, str>, StoreError> {
    let stored = row.get_ref(column)?;
    let stored = stored.as_str().map_err(rusqlite::Error::from)?;
    let references = row.get_ref(blobs)?;
    let references = references.as_str_or_null().map_err(rusqlite::Error::from)?;
    let Some(references) = references else {
        return Ok(stored.into());
    };
    let References {
        event,
        state,
        messages,
    } = serde_json::from_str(references)?;
    let references = match text {
        Text::Event => event,
        Text::State => state,
        Text::Messages => messages,
    };
    if references.is_empty() {
        return Ok(stored.into());
    }
    Ok(restore(connection, stored, &references)?.into())
}

fn restore(
    connection: &Connection,
    stored: &str,
    references: &[Reference],
) -> Result<String, StoreError> {
    let misfit = || StoreError::Corrupt("a reference does not fit its text".into());
    let mut text = Vec::with_capacity(stored.len());
    let mut copied = 0;
    // The same value often occurs twice in a text.
    let mut read: Option<(BlobHash, String)> = None;
    for reference in references {
        let before = stored.get(copied..reference.at).ok_or_else(misfit)?;
        text.extend_from_slice(before.as_bytes());
        let end = reference.at.checked_add(reference.length);
        copied = end.ok_or_else(misfit)?;
        match &reference.target {
            Target::Text(within) => {
                let written = stored.get(reference.at..copied).ok_or_else(misfit)?;
                let rest: String = serde_json::from_str(written)?;
                let whole = restore(connection, &rest, within)?;
                text.reserve(whole.len());
                serde_json::to_writer(&mut text, &whole)?;
            }
            Target::Blob { hash, form } => {
                if read.as_ref().is_none_or(|(known, _)| known != hash) {
                    drop(read.take());
                    let content = String::from_utf8(blobs::whole(connection, *hash)?);
                    read = Some((*hash, content.map_err(|_| misfit())?));
                }
                let content = read.as_ref().map_or("", |(_, content)| content);
                text.reserve(content.len());
                match form {
                    Form::Json => text.extend_from_slice(content.as_bytes()),
                    Form::Text => serde_json::to_writer(&mut text, content)?,
                }
            }
        }
    }
    text.extend_from_slice(stored.get(copied..).ok_or_else(misfit)?.as_bytes());
    String::from_utf8(text).map_err(|_| misfit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, limit: usize) -> Vec<&str> {
        let ranges = large_values(text.as_bytes(), limit);
        ranges.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn the_smallest_values_over_the_limit_are_cut_out() {
        let string = r#""a \" ] string that is long""#;
        let list = r#"[{"a":1},{"b":2},{"c":3},{"d":4}]"#;
        let text = format!(r#"{{"s":{string},"l":{list},"n":[1,2]}}"#);
        assert_eq!(found(&text, 24), [string, list]);
        assert_eq!(found(&text, 30), [text.as_str()]);
        assert_eq!(found(&text, text.len()), Vec::<&str>::new());
    }

    #[test]
    fn a_list_that_is_large_without_its_large_values_is_cut_out_whole() {
        let list = r#"["a long string, which is large","b","c","d","e","f","g"]"#;
        let text = format!(r#"{{"l":{list}}}"#);
        assert_eq!(found(&text, 25), [list]);
        let strings = r#"["a long string, which is large","and another one that is large"]"#;
        assert_eq!(found(strings, 25).len(), 2);
    }

    fn cut(text: &str) -> (serde_json::Value, Vec<LargeValue<'_>>) {
        let mut cutter = Cutter {
            limit: 64 * 1024,
            values: Vec::new(),
        };
        let (rest, _) = cutter.cut(text, Strings::LookedInto, borrow).unwrap();
        assert!(rest.len() < 2_000, "{rest}");
        (serde_json::from_str(&rest).unwrap(), cutter.values)
    }

    #[test]
    fn a_text_that_stands_twice_is_one_blob() {
        let text = "x, \"y\"\n".repeat(20_000);
        let event = json!({ "content": text, "text": text }).to_string();
        let (read, values) = cut(&event);
        assert_eq!(values.len(), 1);
        assert_eq!(read["content"], read["text"]);
        assert_eq!(read["content"]["bytes"], text.len());
        assert_eq!(read["content"]["blob"], values[0].hash.to_string());
    }

    #[test]
    fn a_result_and_the_same_result_as_text_are_one_blob() {
        let list: Vec<_> = (0..20_000)
            .map(|id| json!({ "id": id, "t": "\"" }))
            .collect();
        let result = json!({ "tasks": list, "total": 3 });
        let event = json!({ "content": result, "text": result.to_string() }).to_string();
        let (read, values) = cut(&event);
        assert_eq!(values.len(), 1);
        assert_eq!(values[0].content, json!(list).to_string());
        let is_slice = matches!(values[0].content, Cow::Borrowed(_));
        assert!(is_slice, "a value is not copied to be written");
        assert_eq!(read["content"]["total"], 3);
        let text: serde_json::Value = serde_json::from_str(read["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, read["content"]);
    }

    #[test]
    fn a_text_that_is_no_json_is_looked_through_all_the_same() {
        for text in ["]]}}", "\"open", "\"\\", "[[[{", "~[[0,5],\"x\"]", ""] {
            assert!(found(text, 100).is_empty());
            found(text, 1);
        }
    }
}
