//! Large values within the texts of entries. Each is written as a blob, and the text has a reference in its place, which
//! people can read. Only the offsets that stand beside the text say what is a reference: no text that somebody sends is
//! ever taken for one, and whoever reads through the store finds the value itself.
//!
//! What is cut out of a text follows from the value alone, not from what stands around it: so a value that is in an
//! event, in the states after it and in a message is one blob.

use std::borrow::Cow;
use std::ops::Range;

use convoke_model::BlobHash;
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{blobs, columns};
use crate::blob::Blob;
use crate::error::StoreError;
use crate::journal::{NewEntry, NewMessage};

/// No smaller value is cut out, whatever the limit: its reference would be about as long.
const SMALLEST: usize = 1024;

/// Characters of a value that stand in its reference.
const PREVIEW_CHARACTERS: usize = 200;

/// An entry as it is written.
pub(super) struct EntryColumns<'a> {
    pub(super) event: Cow<'a, str>,
    pub(super) state: Cow<'a, str>,
    pub(super) messages: Option<String>,
    /// Where the three have references.
    pub(super) blobs: Option<String>,
    /// What these refer to.
    pub(super) values: Vec<Blob>,
}

/// Where the texts of an entry have references.
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
    /// Where it stands in the text, in bytes.
    at: usize,
    /// How long it is itself.
    length: usize,
    target: Target,
}

/// What a reference stands for.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Target {
    /// A blob.
    Blob { hash: BlobHash, form: Form },
    /// The string that stands in the text, which has references itself.
    Text(Vec<Reference>),
}

/// How a blob becomes a part of the text again.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// It is JSON.
    Json,
    /// It is what a JSON string says.
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
    let (event, in_event) = cutter.cut(&entry.event, Strings::LookedInto)?;
    let (state, in_state) = cutter.cut(&entry.state, Strings::LookedInto)?;
    let (messages, in_messages) = match columns::messages_text(messages) {
        None => (None, Vec::new()),
        Some(text) => {
            let (cut_text, references) = cutter.cut(&text, Strings::LookedInto)?;
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

/// What becomes of a large string that is JSON itself. A tool often says its result once more as text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strings {
    /// The large values in it are cut out, as they are outside of it.
    LookedInto,
    /// It is cut out whole.
    Whole,
}

/// Cuts large values out of the texts of one entry.
struct Cutter {
    limit: usize,
    /// What was cut out, each once.
    values: Vec<Blob>,
}

impl Cutter {
    /// A text with references in the place of its large values.
    fn cut<'a>(
        &mut self,
        text: &'a str,
        strings: Strings,
    ) -> Result<(Cow<'a, str>, Vec<Reference>), StoreError> {
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
            let (written, target) = self.reference(value, strings)?;
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

    /// What stands in the place of a value, and what it stands for.
    fn reference(&mut self, value: &str, strings: Strings) -> Result<(String, Target), StoreError> {
        let (content, form) = content_of(value)?;
        if form == Form::Text && strings == Strings::LookedInto && content.starts_with(['{', '[']) {
            let (rest, within) = self.cut(&content, Strings::Whole)?;
            // A text that is one blob as a whole is kept as such.
            if !within.is_empty() && rest.len() <= self.limit {
                return Ok((serde_json::to_string(&rest)?, Target::Text(within)));
            }
        }
        let preview: String = content.chars().take(PREVIEW_CHARACTERS).collect();
        let bytes = content.len();
        // To compare costs less than to hash once more.
        let known = self.values.iter();
        let mut known = known.filter(|known| **known.content() == *content.as_bytes());
        let hash = if let Some(known) = known.next() {
            known.hash()
        } else {
            let blob = Blob::of(content.into_owned().into_bytes().into());
            let hash = blob.hash();
            self.values.push(blob);
            hash
        };
        let written = json!({
            "blob": hash, "bytes": bytes, "media_type": form.media_type(), "preview": preview,
        });
        Ok((written.to_string(), Target::Blob { hash, form }))
    }
}

/// What is kept of a value. Of a string, what it says: the same text is the same blob, whether it is a string or a value.
fn content_of(value: &str) -> Result<(Cow<'_, str>, Form), StoreError> {
    if value.starts_with('"') {
        let said: String = serde_json::from_str(value)?;
        // What is written otherwise than it would be here is kept as it is written.
        if serde_json::to_string(&said)? == value {
            return Ok((said.into(), Form::Text));
        }
    }
    Ok((value.into(), Form::Json))
}

/// Where the large values of a JSON text are. A list or an object is one if what it holds besides large values is.
fn large_values(text: &[u8], limit: usize) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    // Of every list and object that is open: where it begins, how many values were found before it, and their bytes.
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

/// Where a string that begins at a place has ended.
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

/// A text of an entry, with its large values. `blobs` is the column that says where its references are.
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
    let mut text = String::new();
    let mut copied = 0;
    // One value often stands twice in a text.
    let mut read: Option<(BlobHash, String)> = None;
    for reference in references {
        text.push_str(stored.get(copied..reference.at).ok_or_else(misfit)?);
        let end = reference.at.checked_add(reference.length);
        copied = end.ok_or_else(misfit)?;
        match &reference.target {
            Target::Text(within) => {
                let written = stored.get(reference.at..copied).ok_or_else(misfit)?;
                let rest: String = serde_json::from_str(written)?;
                let whole = restore(connection, &rest, within)?;
                text.push_str(&serde_json::to_string(&whole)?);
            }
            Target::Blob { hash, form } => {
                if read.as_ref().is_none_or(|(known, _)| known != hash) {
                    let content = String::from_utf8(blobs::whole(connection, *hash)?);
                    read = Some((*hash, content.map_err(|_| misfit())?));
                }
                let content = read.as_ref().map_or("", |(_, content)| content);
                match form {
                    Form::Json => text.push_str(content),
                    Form::Text => text.push_str(&serde_json::to_string(content)?),
                }
            }
        }
    }
    text.push_str(stored.get(copied..).ok_or_else(misfit)?);
    Ok(text)
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

    fn cut(text: &str) -> (serde_json::Value, Vec<Blob>) {
        let mut cutter = Cutter {
            limit: 64 * 1024,
            values: Vec::new(),
        };
        let (rest, _) = cutter.cut(text, Strings::LookedInto).unwrap();
        assert!(rest.len() < 2_000, "{rest}");
        (serde_json::from_str(&rest).unwrap(), cutter.values)
    }

    #[test]
    fn a_text_that_stands_twice_is_one_blob() {
        let text = "x, \"y\"\n".repeat(20_000);
        let (read, values) = cut(&json!({ "content": text, "text": text }).to_string());
        assert_eq!(values.len(), 1);
        assert_eq!(read["content"], read["text"]);
        assert_eq!(read["content"]["bytes"], text.len());
        assert_eq!(read["content"]["blob"], values[0].hash().to_string());
    }

    #[test]
    fn a_result_and_the_same_result_as_text_are_one_blob() {
        let list: Vec<_> = (0..20_000)
            .map(|id| json!({ "id": id, "t": "\"" }))
            .collect();
        let result = json!({ "tasks": list, "total": 3 });
        let (read, values) =
            cut(&json!({ "content": result, "text": result.to_string() }).to_string());
        assert_eq!(values.len(), 1);
        assert_eq!(**values[0].content(), *json!(list).to_string().as_bytes());
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
