//! Maps and lists of a task's state that grow as the task goes on. Their text is kept in segments: what was serialised
//! once is not serialised again, and a state's delta compares only the segments that have changed. So a step costs what
//! it changes, however long the task is.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::draft::{self, PartForm, Segment};
use crate::journal::text_of;

/// A segment gets no further entry once it would be longer.
const SEGMENT_BYTES: usize = 4 * 1_024;

/// A list that grows at its end.
#[derive(Debug, Clone)]
pub struct GrowingList<V> {
    items: Vec<V>,
    segments: Vec<Segment>,
}

impl<V> Default for GrowingList<V> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            segments: Vec::new(),
        }
    }
}

impl<V: Serialize> GrowingList<V> {
    /// Adds an item at the end.
    pub fn push(&mut self, item: V) {
        let comma = if self.items.is_empty() { "" } else { "," };
        let text = format!("{comma}{}", text_of(&item));
        append(&mut self.segments, text);
        self.items.push(item);
    }

    /// The items.
    pub fn items(&self) -> &[V] {
        &self.items
    }

    /// The items, without the list.
    pub fn into_items(self) -> Vec<V> {
        self.items
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl<V: Serialize> Extend<V> for GrowingList<V> {
    fn extend<I: IntoIterator<Item = V>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<V: Serialize> FromIterator<V> for GrowingList<V> {
    fn from_iter<I: IntoIterator<Item = V>>(items: I) -> Self {
        let mut list = Self::default();
        list.extend(items);
        list
    }
}

impl<V: PartialEq> PartialEq for GrowingList<V> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl<V: Serialize> Serialize for GrowingList<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if draft::is_drafting() {
            let segments = self.segments.iter().cloned();
            return draft::write_part(serializer, PartForm::List, segments);
        }
        self.items.serialize(serializer)
    }
}

impl<'de, V: Serialize + Deserialize<'de>> Deserialize<'de> for GrowingList<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<V>(PhantomData<V>);

        impl<'de, V: Serialize + Deserialize<'de>> Visitor<'de> for Items<V> {
            type Value = GrowingList<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut list = GrowingList::default();
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Items(PhantomData))
    }
}

/// A map to which entries are added, and whose values may be replaced. Its entries are in the order in which they came.
#[derive(Debug, Clone)]
pub struct GrowingMap<K, V> {
    entries: Vec<(K, V)>,
    /// Where the entry of a key is.
    positions: BTreeMap<K, usize>,
    /// Neighbouring entries as text, in order.
    blocks: Vec<Block>,
}

/// The text of neighbouring entries.
#[derive(Debug, Clone)]
struct Block {
    /// Where the first of them is.
    first: usize,
    text: BlockText,
}

#[derive(Debug, Clone)]
enum BlockText {
    Entries(Segment),
    /// One entry whose value is a list that grows. The last segment closes it.
    List(Vec<Segment>, Segment),
}

impl Block {
    fn segments(&self) -> impl Iterator<Item = &Segment> {
        let (segments, last) = match &self.text {
            BlockText::Entries(text) => (&[][..], text),
            BlockText::List(segments, close) => (&segments[..], close),
        };
        segments.iter().chain([last])
    }
}

impl<K, V> Default for GrowingMap<K, V> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            positions: BTreeMap::new(),
            blocks: Vec::new(),
        }
    }
}

impl<K: Ord, V> GrowingMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let position = *self.positions.get(key)?;
        self.entries.get(position).map(|(_, value)| value)
    }

    /// Whether there is such a key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.positions.contains_key(key)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// The values, in the order of their keys.
    pub fn into_sorted_values(self) -> impl Iterator<Item = V> {
        let mut entries = self.entries;
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries.into_iter().map(|(_, value)| value)
    }
}

impl<K: Ord + Serialize, V: Serialize> GrowingMap<K, V> {
    fn segments(&self) -> impl Iterator<Item = Segment> {
        self.blocks.iter().flat_map(Block::segments).cloned()
    }

    /// Writes the entries into a map that is being written.
    pub fn serialize_entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if draft::is_drafting() && !self.is_empty() {
            return draft::write_rest(map, self.segments().collect());
        }
        self.iter()
            .try_for_each(|(key, value)| map.serialize_entry(key, value))
    }
}

impl<K: Ord + Clone + Serialize, V: Serialize> GrowingMap<K, V> {
    /// Sets the value of a key. Gives the value that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(&position) = self.positions.get(&key) {
            let before = std::mem::replace(&mut self.entries[position].1, value);
            self.write_block_of(position);
            return Some(before);
        }
        let position = self.entries.len();
        self.positions.insert(key.clone(), position);
        self.entries.push((key, value));
        let text = self.text_at(position);
        add(&mut self.blocks, position, text);
        None
    }

    /// Changes the value of a key.
    pub fn change<Q: Ord + ?Sized>(&mut self, key: &Q, change: impl FnOnce(&mut V))
    where
        K: Borrow<Q>,
    {
        if let Some(&position) = self.positions.get(key) {
            change(&mut self.entries[position].1);
            self.write_block_of(position);
        }
    }

    /// An entry as text, with the comma before it.
    fn text_at(&self, position: usize) -> String {
        let (key, value) = &self.entries[position];
        let text = text_of(&OneEntry(key, value));
        let text = text.strip_prefix('{').unwrap_or(&text);
        let text = text.strip_suffix('}').unwrap_or(text);
        let comma = if position == 0 { "" } else { "," };
        format!("{comma}{text}")
    }

    /// The block that has an entry, and its entries.
    fn block_of(&self, position: usize) -> (usize, Range<usize>) {
        let next = self.blocks.partition_point(|block| block.first <= position);
        let end = self.blocks.get(next).map(|next| next.first);
        let index = next.saturating_sub(1);
        let first = self.blocks.get(index).map_or(0, |block| block.first);
        (index, first..end.unwrap_or(self.entries.len()))
    }

    /// Entries as text. What is too long for one block is in several.
    fn written(&self, positions: Range<usize>) -> Vec<Block> {
        let mut blocks = Vec::new();
        for position in positions {
            let text = self.text_at(position);
            add(&mut blocks, position, text);
        }
        blocks
    }

    /// Writes the block anew that has an entry.
    fn write_block_of(&mut self, position: usize) {
        let (index, positions) = self.block_of(position);
        let blocks = self.written(positions);
        self.blocks.splice(index..=index, blocks);
    }
}

impl<K: Ord + Clone + Serialize> GrowingMap<K, Value> {
    /// Adds items to the list of a key. What is no list is replaced by one.
    pub fn extend_list(&mut self, key: K, items: Vec<Value>) {
        let position = self.positions.get(&key).copied();
        let position = position.filter(|position| self.entries[*position].1.is_array());
        let Some(position) = position else {
            self.insert(key, Value::Array(items));
            return;
        };
        let (index, positions) = self.block_of(position);
        if !matches!(self.blocks[index].text, BlockText::List(..)) {
            self.separate(index, positions, position);
        }
        let (index, _) = self.block_of(position);
        let Value::Array(list) = &mut self.entries[position].1 else {
            return;
        };
        let BlockText::List(segments, _) = &mut self.blocks[index].text else {
            return;
        };
        for item in items {
            let comma = if list.is_empty() { "" } else { "," };
            append(segments, format!("{comma}{}", text_of(&item)));
            list.push(item);
        }
    }

    /// Gives a list a block of its own.
    fn separate(&mut self, index: usize, positions: Range<usize>, list: usize) {
        let mut open = self.text_at(list);
        let close = open.pop();
        let list_block = Block {
            first: list,
            text: BlockText::List(vec![Arc::new(open)], Arc::new(close.into_iter().collect())),
        };
        let before = self.written(positions.start..list);
        let after = self.written(list + 1..positions.end);
        let blocks = before.into_iter().chain([list_block]).chain(after);
        self.blocks.splice(index..=index, blocks);
    }
}

/// Adds the text of an entry to the last block, or to a new one.
fn add(blocks: &mut Vec<Block>, position: usize, text: String) {
    if let Some(Block {
        text: BlockText::Entries(segment),
        ..
    }) = blocks.last_mut()
        && has_room(segment, &text)
    {
        Arc::make_mut(segment).push_str(&text);
        return;
    }
    blocks.push(Block {
        first: position,
        text: BlockText::Entries(Arc::new(text)),
    });
}

/// Adds text to the last segment, or as a new one.
fn append(segments: &mut Vec<Segment>, text: String) {
    match segments.last_mut() {
        Some(segment) if has_room(segment, &text) => Arc::make_mut(segment).push_str(&text),
        _ => segments.push(Arc::new(text)),
    }
}

fn has_room(segment: &Segment, text: &str) -> bool {
    segment.len() + text.len() <= SEGMENT_BYTES
}

/// A map of one entry.
struct OneEntry<'a, K, V>(&'a K, &'a V);

impl<K: Serialize, V: Serialize> Serialize for OneEntry<'_, K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0, self.1)])
    }
}

impl<K: Ord + Clone + Serialize, V: Serialize> Extend<(K, V)> for GrowingMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord + Clone + Serialize, V: Serialize> FromIterator<(K, V)> for GrowingMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        map.extend(entries);
        map
    }
}

impl<K: Ord, V: PartialEq> PartialEq for GrowingMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Ord + Serialize, V: Serialize> Serialize for GrowingMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if draft::is_drafting() {
            return draft::write_part(serializer, PartForm::Map, self.segments());
        }
        serializer.collect_map(self.iter())
    }
}

impl<'de, K, V> Deserialize<'de> for GrowingMap<K, V>
where
    K: Ord + Clone + Serialize + Deserialize<'de>,
    V: Serialize + Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<K, V>(PhantomData<(K, V)>);

        impl<'de, K, V> Visitor<'de> for Entries<K, V>
        where
            K: Ord + Clone + Serialize + Deserialize<'de>,
            V: Serialize + Deserialize<'de>,
        {
            type Value = GrowingMap<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut growing = GrowingMap::default();
                while let Some((key, value)) = map.next_entry()? {
                    growing.insert(key, value);
                }
                Ok(growing)
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}
