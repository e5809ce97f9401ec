//! Generates valid values of every type from random bytes. Fields that rules connect are drawn together,
//! so every value is valid and everything the rules leave open varies.

mod config;
mod runtime;

pub(crate) use config::*;
pub(crate) use runtime::*;

use convoke_model::{Channel, Confidence, Name, UserId};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Map, Value};
use uuid::Uuid;

/// Random bytes, consumed by drawing values; after the last one, every draw is zero.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    bytes: std::vec::IntoIter<u8>,
}

impl Draw {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: bytes.into_iter(),
        }
    }

    /// Enough bytes for the largest type.
    pub(crate) fn strategy() -> impl Strategy<Value = Self> {
        prop::collection::vec(any::<u8>(), 0..3_000).prop_map(Self::new)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.bytes.next().unwrap_or_default()
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    pub(crate) fn number(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    pub(crate) fn count(&mut self) -> u32 {
        self.number() % 100_000 + 1
    }

    pub(crate) fn fraction(&mut self) -> f64 {
        f64::from(self.number()) / f64::from(u32::MAX)
    }

    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()].clone()
    }

    pub(crate) fn maybe<T>(&mut self, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| draw(self))
    }

    pub(crate) fn list<T>(&mut self, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.byte() % 3).map(|_| draw(self)).collect()
    }

    pub(crate) fn some<T>(&mut self, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..=self.byte() % 3).map(|_| draw(self)).collect()
    }

    /// A text that is not blank, with characters that JSON escapes and characters of several bytes.
    pub(crate) fn text(&mut self) -> String {
        let characters = [
            'a', 'Z', '0', ' ', '"', '\\', '\n', '\u{1}', 'ß', '€', '🎉', '/',
        ];
        let length = usize::from(self.byte() % 12);
        std::iter::once('t')
            .chain((0..length).map(|_| self.pick(&characters)))
            .collect()
    }

    pub(crate) fn name(&mut self) -> Name {
        let letters = ['a', 'b', 'z', '0', '_'];
        let length = usize::from(self.byte() % 8);
        let text: String = std::iter::once('n')
            .chain((0..length).map(|_| self.pick(&letters)))
            .collect();
        Name::new(text).unwrap()
    }

    /// Distinct names.
    pub(crate) fn names(&mut self) -> Vec<Name> {
        let names: std::collections::BTreeSet<_> = self.list(Self::name).into_iter().collect();
        names.into_iter().collect()
    }

    pub(crate) fn id(&mut self) -> Uuid {
        Uuid::from_bytes(std::array::from_fn(|_| self.byte()))
    }

    pub(crate) fn user(&mut self) -> UserId {
        UserId(self.id())
    }

    pub(crate) fn time(&mut self) -> Timestamp {
        let nanoseconds = i32::try_from(self.number() % 1_000_000_000).unwrap();
        Timestamp::new(i64::from(self.number()), nanoseconds).unwrap()
    }

    /// A time not before `earlier`.
    pub(crate) fn after(&mut self, earlier: Timestamp) -> Timestamp {
        earlier + SignedDuration::from_millis(i64::from(self.number() % 10_000_000))
    }

    pub(crate) fn confidence(&mut self) -> Confidence {
        let fraction = self.fraction();
        Confidence::new(fraction).unwrap()
    }

    pub(crate) fn channel(&mut self) -> Channel {
        self.pick(&Channel::ALL)
    }

    /// Any JSON value except `null`, which an optional field reads as absent.
    pub(crate) fn json(&mut self) -> Value {
        match self.byte() % 5 {
            0 => Value::Bool(self.flag()),
            1 => Value::from(self.number()),
            2 => Value::from(self.fraction() * 1e9 - 5e8),
            3 => Value::from(self.text()),
            _ => Value::Object(self.map()),
        }
    }

    pub(crate) fn map(&mut self) -> Map<String, Value> {
        self.list(|draw| {
            let value = if draw.flag() {
                draw.text().into()
            } else {
                Value::from(draw.number())
            };
            (draw.text(), value)
        })
        .into_iter()
        .collect()
    }
}
