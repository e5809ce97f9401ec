//! Turns a text into weighted features: words, pairs of words, and parts of words.
//!
//! The linear model sees only numbered features with weights. Another source of features, such as
//! sentence embeddings, would append its own numbers to the same list.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "numbers of features are small enough for f32 and u32"
)]

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::words::{Words, prefix};

/// Limit of characters read from a text. Bounds the work for hostile texts.
pub(crate) const MAX_CHARACTERS: usize = 4_096;

/// Lengths of word parts, in characters; a word's edges count as one character each.
const PART_LENGTHS: std::ops::RangeInclusive<usize> = 2..=4;

/// Maximum distance of two words that form a pair.
const WINDOW: usize = 10;

/// Characters of a word used in pairs, so that endings do not matter.
const STEM: usize = 4;

/// The kinds of features. Each kind is normalised to its own length, so that the many word parts do not
/// outweigh the few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A word.
    Word,
    /// Two neighbours in order, or the first or last word with the edge.
    Neighbours,
    /// A part of a word.
    Piece,
    /// The stems of two words near each other, in any order.
    Together,
}

/// The length that each kind is normalised to, in the order of [`Kind`].
const LENGTHS: [f32; 4] = [1.0, 0.7, 1.4, 1.0];

/// The features of one text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Features {
    /// Numbered features with weights, without duplicates.
    pub(crate) known: Vec<(u32, f32)>,
    /// The share of the text that occurs in no example, 0 to 1.
    pub(crate) unknown: f32,
}

/// The features of the examples, each with a number and its rarity.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    numbers: Numbers<u32>,
    rarity: Vec<f32>,
    rarity_of_unknown: f32,
}

type Numbers<T> = HashMap<u64, T, BuildHasherDefault<AlreadyHashed>>;

/// A feature of a text: its hash, its kind and its dampened frequency.
type Counted = (u64, Kind, f32);

impl Vocabulary {
    /// Learns the features of these texts, and returns each text's features.
    pub(crate) fn learn<'t>(texts: impl Iterator<Item = &'t str>) -> (Self, Vec<Features>) {
        let mut raw: Vec<Vec<Counted>> = Vec::new();
        let mut documents: Numbers<u32> = Numbers::default();
        for text in texts {
            let counted = count(text);
            for &(hash, ..) in &counted {
                *documents.entry(hash).or_default() += 1;
            }
            raw.push(counted);
        }
        // With few examples every feature may matter; with many, features of only one or two of them are
        // noise.
        let least = match raw.len() {
            0..1_000 => 1,
            1_000..10_000 => 2,
            _ => 3,
        };
        // Frequent features come first, so that their weights share cache lines; ties are broken by hash, so
        // that numbers do not depend on the map's order.
        let mut numbered: Vec<(u64, u32)> = documents
            .into_iter()
            .filter(|&(_, count)| count >= least)
            .collect();
        numbered.sort_unstable_by_key(|&(hash, count)| (Reverse(count), hash));
        let total = raw.len() as f32 + 1.0;
        // The square root of the usual inverse document frequency: rare features count more, but less
        // strongly than in search.
        let rarity = |count: f32| ((total / (count + 1.0)).ln() + 1.0).sqrt();
        let mut vocabulary = Self {
            numbers: HashMap::with_capacity_and_hasher(
                numbered.len(),
                BuildHasherDefault::default(),
            ),
            rarity: Vec::with_capacity(numbered.len()),
            rarity_of_unknown: rarity(0.0),
        };
        for (number, (hash, count)) in numbered.into_iter().enumerate() {
            vocabulary.numbers.insert(hash, number as u32);
            vocabulary.rarity.push(rarity(count as f32));
        }
        let features = raw
            .iter()
            .map(|counted| vocabulary.weighted(counted))
            .collect();
        (vocabulary, features)
    }

    pub(crate) fn len(&self) -> usize {
        self.rarity.len()
    }

    pub(crate) fn features(&self, text: &str) -> Features {
        self.weighted(&count(text))
    }

    /// Unknown features have no number but count in the length that weights are divided by: a mostly
    /// unknown text gets small weights, so no entry is confident about it.
    fn weighted(&self, counted: &[Counted]) -> Features {
        let mut known: Vec<(u32, f32)> = Vec::with_capacity(counted.len());
        let mut kinds: Vec<Kind> = Vec::with_capacity(counted.len());
        let mut squares = [0.0f32; LENGTHS.len()];
        for &(hash, kind, frequency) in counted {
            let number = self.numbers.get(&hash).copied();
            let rarity = number.map_or(self.rarity_of_unknown, |number| {
                self.rarity[number as usize]
            });
            let weight = frequency * rarity;
            squares[kind as usize] += weight * weight;
            if let Some(number) = number {
                known.push((number, weight));
                kinds.push(kind);
            }
        }
        let mut scale = [0.0f32; LENGTHS.len()];
        let mut whole = 0.0;
        for (kind, &square) in squares.iter().enumerate() {
            if square > 0.0 {
                scale[kind] = LENGTHS[kind] / square.sqrt();
                whole += LENGTHS[kind] * LENGTHS[kind];
            }
        }
        let mut length = 0.0;
        for (feature, &kind) in known.iter_mut().zip(&kinds) {
            feature.1 *= scale[kind as usize];
            length += feature.1 * feature.1;
        }
        let unknown = if whole > 0.0 {
            (1.0 - length / whole).max(0.0)
        } else {
            1.0
        };
        Features { known, unknown }
    }
}

/// Every feature of a text, once.
fn count(text: &str) -> Vec<Counted> {
    let words = Words::of(prefix(text, MAX_CHARACTERS));
    let mut seen: Vec<(u64, Kind)> = Vec::with_capacity(words.len() * 32);
    let edge = hash_of(0, "");
    let mut before = edge;
    let mut stems: Vec<u64> = Vec::with_capacity(words.len());
    for word in words.normals() {
        let own = hash_of(1, word);
        seen.push((own, Kind::Word));
        seen.push((join(before, own), Kind::Neighbours));
        before = own;
        let stem = hash_of(2, prefix(word, STEM));
        seen.extend(stems.iter().rev().take(WINDOW).map(|&other| {
            (
                join(join(stem.min(other), 3), stem.max(other)),
                Kind::Together,
            )
        }));
        stems.push(stem);
    }
    if words.len() > 0 {
        seen.push((join(before, edge), Kind::Neighbours));
    }
    let mut characters: Vec<char> = Vec::new();
    for run in words.runs() {
        characters.clear();
        characters.push(' ');
        characters.extend(run.chars());
        characters.push(' ');
        for start in 0..characters.len() {
            let mut hash = hash_of(4, "");
            for (index, &character) in characters[start..]
                .iter()
                .take(*PART_LENGTHS.end())
                .enumerate()
            {
                hash = join(hash, u64::from(u32::from(character)));
                if PART_LENGTHS.contains(&(index + 1)) {
                    seen.push((hash, Kind::Piece));
                }
            }
        }
    }
    seen.sort_unstable();
    seen.chunk_by(|left, right| left == right)
        .map(|same| (same[0].0, same[0].1, 1.0 + (same.len() as f32).ln()))
        .collect()
}

fn hash_of(kind: u64, text: &str) -> u64 {
    text.chars().fold(
        kind.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x51_7CC1,
        |hash, character| join(hash, u64::from(u32::from(character))),
    )
}

/// Adds a part to a hash, with the steps of the splitmix64 generator.
fn join(hash: u64, part: u64) -> u64 {
    let mut mixed = hash.rotate_left(7) ^ part.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A hasher for keys that are hashes already.
#[derive(Debug, Default)]
pub(crate) struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = join(self.0, u64::from(byte));
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_features_reduce_the_weight_of_known_ones() {
        let (vocabulary, _) = Vocabulary::learn(["buy milk", "show my list"].into_iter());
        let known = vocabulary.features("buy milk");
        let half = vocabulary.features("buy zzxxqq");
        assert!(known.unknown < 0.01, "{}", known.unknown);
        assert!(half.unknown > 0.3, "{}", half.unknown);
        assert!((vocabulary.features("").unknown - 1.0).abs() < f32::EPSILON);
    }

    #[test]
    fn a_long_text_is_read_only_up_to_the_limit() {
        let (vocabulary, _) = Vocabulary::learn(["buy milk"].into_iter());
        let filler = "x ".repeat(MAX_CHARACTERS / 2);
        let beyond = vocabulary.features(&format!("{filler}buy milk"));
        assert_eq!(beyond.known, vocabulary.features(&filler).known);
    }
}
