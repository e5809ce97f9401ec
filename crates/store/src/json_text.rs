//! Writes values as JSON text, byte for byte as `serde_json` does, with fewer instructions.
//!
//! The journal's texts consist of many short keys and values: an agent's task of eight entries has about six hundred.
//! `serde_json` looks at each of their bytes; this looks at eight at once, and writes UTF-8 that need not be checked again.

use serde::Serialize;
use serde::ser::{self, Error as _};
use serde_json::{Error, Result};

/// Appends a value.
pub(crate) fn write(text: &mut String, value: &(impl Serialize + ?Sized)) -> Result<()> {
    value.serialize(JsonText { text })
}

/// Writes one value.
struct JsonText<'a> {
    text: &'a mut String,
}

/// Writes the items of a list, or the entries of a map.
struct Items<'a> {
    text: &'a mut String,
    is_first: bool,
    /// What closes it.
    close: &'static str,
}

impl<'a> JsonText<'a> {
    /// A number that `serde_json` alone knows how to write.
    fn float(self, value: impl Serialize) -> Result<()> {
        self.text.push_str(&serde_json::to_string(&value)?);
        Ok(())
    }

    fn items(self, open: char, close: &'static str) -> Items<'a> {
        self.text.push(open);
        Items {
            text: self.text,
            is_first: true,
            close,
        }
    }

    /// `{"variant":`, or with what opens the variant's content.
    fn variant(&mut self, variant: &str) {
        self.text.push('{');
        string(self.text, variant);
        self.text.push(':');
    }
}

impl Items<'_> {
    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.text.push(',');
        }
    }

    fn item(&mut self, value: &(impl Serialize + ?Sized)) -> Result<()> {
        self.separate();
        write(self.text, value)
    }

    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<()> {
        self.separate();
        string(self.text, name);
        self.text.push(':');
        write(self.text, value)
    }

    fn close(self) {
        self.text.push_str(self.close);
    }
}

/// Appends a string, with quotes.
fn string(text: &mut String, value: &str) {
    text.push('"');
    if has_escaped(value.as_bytes()) {
        escape_all(text, value);
    } else {
        text.push_str(value);
    }
    text.push('"');
}

/// Appends the content of a string in which something is escaped.
fn escape_all(text: &mut String, value: &str) {
    let mut rest = value;
    while let Some(place) = rest.bytes().position(is_escaped) {
        // A byte that is escaped is a character of its own.
        let (before, after) = rest.split_at(place);
        let mut characters = after.chars();
        text.push_str(before);
        if let Some(character) = characters.next() {
            escape(text, character);
        }
        rest = characters.as_str();
    }
    text.push_str(rest);
}

fn escape(text: &mut String, character: char) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let short = match character {
        '"' => '"',
        '\\' => '\\',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        _ => {
            let code = character as usize;
            text.push_str("\\u00");
            text.push(DIGITS[code >> 4 & 15]);
            text.push(DIGITS[code & 15]);
            return;
        }
    };
    text.push('\\');
    text.push(short);
}

fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Whether a byte is escaped. The last word overlaps the one before it, so that only the shortest texts are looked at byte
/// by byte.
fn has_escaped(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk() {
        let (words, _) = bytes.as_chunks();
        return words.iter().any(|word| word_has_escaped(*word)) || word_has_escaped(*last);
    }
    if let (Some([a, b, c, d]), Some([e, f, g, h])) = (bytes.first_chunk(), bytes.last_chunk()) {
        return word_has_escaped([*a, *b, *c, *d, *e, *f, *g, *h]);
    }
    bytes.iter().any(|byte| is_escaped(*byte))
}

/// Whether one of eight bytes is escaped. The highest bit of a byte of each term is set only if that byte, or one below
/// it that it borrowed from, is below the subtrahend.
fn word_has_escaped(bytes: [u8; 8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let word = u64::from_le_bytes(bytes);
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let control = below(word, 0x20);
    let quote = below(word ^ (ONES * 0x22), 1);
    let backslash = below(word ^ (ONES * 0x5c), 1);
    (control | quote | backslash) & HIGH != 0
}

macro_rules! integers {
    ($($method:ident: $integer:ty,)*) => {$(
        fn $method(self, value: $integer) -> Result<()> {
            self.text.push_str(itoa::Buffer::new().format(value));
            Ok(())
        }
    )*};
}

macro_rules! items {
    ($($list:ident: $method:ident,)*) => {$(
        impl ser::$list for Items<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.item(value)
            }

            fn end(self) -> Result<()> {
                self.close();
                Ok(())
            }
        }
    )*};
}

macro_rules! fields {
    ($($fields:ident),*) => {$(
        impl ser::$fields for Items<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<()> {
                self.field(name, value)
            }

            fn end(self) -> Result<()> {
                self.close();
                Ok(())
            }
        }
    )*};
}

impl<'a> ser::Serializer for JsonText<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Items<'a>;
    type SerializeStruct = Items<'a>;
    type SerializeStructVariant = Items<'a>;

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.text.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    integers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
    }

    fn serialize_f32(self, value: f32) -> Result<()> {
        self.float(value)
    }

    fn serialize_f64(self, value: f64) -> Result<()> {
        self.float(value)
    }

    fn serialize_char(self, value: char) -> Result<()> {
        string(self.text, value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        string(self.text, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.text.push_str("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        self.variant(variant);
        write(self.text, value)?;
        self.text.push('}');
        Ok(())
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Items<'a>> {
        Ok(self.items('[', "]"))
    }

    fn serialize_tuple(self, _length: usize) -> Result<Items<'a>> {
        Ok(self.items('[', "]"))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<Items<'a>> {
        Ok(self.items('[', "]"))
    }

    fn serialize_tuple_variant(
        mut self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Items<'a>> {
        self.variant(variant);
        Ok(self.items('[', "]}"))
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Items<'a>> {
        Ok(self.items('{', "}"))
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Items<'a>> {
        Ok(self.items('{', "}"))
    }

    fn serialize_struct_variant(
        mut self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Items<'a>> {
        self.variant(variant);
        Ok(self.items('{', "}}"))
    }
}

items! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}

fields! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Items<'_> {
    type Ok = ();
    type Error = Error;

    /// A key that is a number or a truth value is written in quotes. Nothing else but a string can be a key.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.separate();
        let start = self.text.len();
        write(self.text, key)?;
        match self.text.as_bytes().get(start) {
            Some(b'"') => {}
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                self.text.insert(start, '"');
                self.text.push('"');
            }
            _ => return Err(Error::custom("key must be a string")),
        }
        self.text.push(':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        write(self.text, value)
    }

    fn end(self) -> Result<()> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    #[derive(Debug, Clone, Serialize)]
    struct Unit;

    #[derive(Debug, Clone, Serialize)]
    struct Pair(i32, String);

    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    struct Key(String);

    #[derive(Debug, Clone, Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Shape {
        Plain,
        #[serde(rename = "a \"name\"\n")]
        Wrapped(Box<Everything>),
        Two(u8, char),
        Named {
            left: f64,
            right: Option<f32>,
        },
    }

    #[derive(Debug, Clone, Serialize)]
    #[serde(tag = "kind", content = "with")]
    enum Tagged {
        One(String),
        Other { at: i64 },
    }

    #[derive(Debug, Clone, Serialize)]
    struct Everything {
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        maybe: Option<Pair>,
        unit: Unit,
        shapes: Vec<Shape>,
        #[serde(flatten)]
        tagged: Option<Tagged>,
        by_number: BTreeMap<i64, bool>,
        by_truth: BTreeMap<bool, u128>,
        by_key: BTreeMap<Key, (i8, u16)>,
        value: Value,
    }

    /// What both write, or that neither can.
    fn assert_same(value: &impl Serialize) {
        let mut text = "before ".to_owned();
        let written = write(&mut text, value).map(|()| text);
        let expected = serde_json::to_string(value).map(|text| format!("before {text}"));
        assert_eq!(written.ok(), expected.ok());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            strings().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((strings(), inner), 0..6)
                    .prop_map(|entries| Value::from(entries.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    /// Strings in which escaped characters stand at every place of a word of eight bytes.
    fn strings() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z_]{0,20}",
            "[\\x00-\\x24\\x5b-\\x5e\\x7e-\\x81a\u{20ac}]{0,30}",
            ".{0,20}"
        ]
    }

    fn everything() -> impl Strategy<Value = Everything> {
        let parts = (
            strings(),
            prop::option::of((any::<i32>(), strings())),
            prop::option::of(strings()),
            prop::collection::btree_map(any::<i64>(), any::<bool>(), 0..4),
            prop::collection::btree_map(any::<bool>(), any::<u128>(), 0..3),
            prop::collection::btree_map(strings().prop_map(Key), (any::<i8>(), any::<u16>()), 0..4),
            values(),
            (
                any::<u8>(),
                any::<char>(),
                any::<f64>(),
                any::<Option<f32>>(),
            ),
        );
        parts.prop_map(
            |(
                text,
                maybe,
                one,
                by_number,
                by_truth,
                by_key,
                value,
                (small, letter, left, right),
            )| {
                let tagged = match one {
                    Some(text) => Tagged::One(text),
                    None => Tagged::Other { at: 7 },
                };
                let mut everything = Everything {
                    text,
                    maybe: maybe.map(|(number, text)| Pair(number, text)),
                    unit: Unit,
                    shapes: vec![Shape::Plain],
                    tagged: Some(tagged),
                    by_number,
                    by_truth,
                    by_key,
                    value,
                };
                everything.shapes = vec![
                    Shape::Wrapped(Box::new(everything.clone())),
                    Shape::Two(small, letter),
                    Shape::Named { left, right },
                    Shape::Plain,
                ];
                everything
            },
        )
    }

    proptest! {
        #[test]
        fn a_value_is_written_as_serde_json_writes_it(value in everything()) {
            assert_same(&value);
        }

        #[test]
        fn a_string_is_escaped_as_serde_json_escapes_it(value in strings()) {
            assert_same(&value);
        }
    }

    #[test]
    fn every_character_is_written_at_every_place_of_a_word() {
        for code in (0..0x100).chain([0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x1_0000, 0x10_ffff]) {
            let character = char::from_u32(code).unwrap();
            for place in 0..20 {
                let text = format!("{}{character}{}", "a".repeat(place), "z".repeat(20 - place));
                assert_same(&text);
            }
        }
    }

    #[test]
    fn what_cannot_be_a_key_is_refused() {
        assert_same(&BTreeMap::from([(vec![1], 1)]));
        assert_same(&BTreeMap::from([(None::<String>, 1)]));
        assert_same(&BTreeMap::from([(Some("a"), 1)]));
        assert_same(&BTreeMap::from([((1, 2), 1)]));
        assert_same(&BTreeMap::from([('x', 1)]));
    }
}
