//! The best match of a pattern, by the rule of the shortest slot, and the other ways to match.
//!
//! Every step is tried at most once at every position of the text, and only where the steps before
//! it can lead, so that no pattern can make matching slow, however its optional parts and slots are
//! nested, and one that begins with other words costs next to nothing.

use std::collections::{BTreeMap, BinaryHeap, HashSet};

use super::program::{Program, Step};
use crate::politeness::Edges;
use crate::slot_text::trimmed;
use crate::words::{Kind, Words};

/// How many other slot fillings of a pattern are given at most.
pub const MAX_ALTERNATIVES: usize = 8;

/// How many moves through a pattern are looked at for them.
const MAX_MOVES: usize = 4_000;

/// How good a match is. A request begins with what is wanted: "add … is done" is rather about
/// adding than about something that is done, so this comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// Whether the match begins with the pattern's own words.
    begins_with_words: bool,
    points: Points,
}

/// More literal characters first, then fewer words in slots.
type Points = i64;

const NO_MATCH: Points = Points::MIN;
const UNKNOWN: Points = Points::MIN + 1;
const LITERAL: Points = 1 << 20;

/// Points of every step at every position. It is reused from pattern to pattern.
#[derive(Debug, Default)]
pub(super) struct Table {
    points: Vec<Points>,
    width: usize,
    /// Positions and steps that can be reached.
    reached: Vec<(usize, usize)>,
}

impl Table {
    fn at(&self, step: usize, position: usize) -> Points {
        self.points[step * self.width + position]
    }

    /// The points of the match from a move on, if it leads to one.
    fn after(&self, next: &Move<'_>) -> Option<Points> {
        let rest = self.at(next.step, next.position);
        (rest != NO_MATCH).then(|| rest + next.gain)
    }
}

/// A text made ready for matching.
#[derive(Debug)]
pub(super) struct Prepared<'t> {
    pub(super) words: &'t Words<'t>,
    pub(super) numbers: &'t [u32],
    pub(super) edges: &'t Edges,
    /// For each position whether it lies within a quotation, where no slot begins or ends.
    pub(super) quoted: &'t [bool],
}

/// A way to go on from a step at a position.
#[derive(Debug, Clone, Copy)]
struct Move<'s> {
    gain: Points,
    step: usize,
    position: usize,
    /// What a closed slot reads.
    value: Option<&'s str>,
}

/// What a slot read: words from and up to a position, or a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Reading<'s> {
    Free(&'s str, usize, usize),
    Closed(&'s str, &'s str),
}

/// A way through a pattern that has come to a step and a position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SearchPath<'s> {
    step: usize,
    position: usize,
    readings: Vec<Reading<'s>>,
    /// The free slot that is being read, and where it began.
    open: Option<(&'s str, usize)>,
}

impl Program {
    /// The score of the best match and where it begins.
    pub(super) fn best(&self, text: &Prepared<'_>, table: &mut Table) -> Option<(Score, usize)> {
        let count = text.numbers.len();
        let starts = (0..=count).filter(|&start| text.edges.starts[start]);
        self.reach(starts.clone(), text, table);
        for index in 0..table.reached.len() {
            let (position, step) = table.reached[index];
            let points = match &self.steps[step] {
                Step::Accept if text.edges.ends[position] => 0,
                _ => self
                    .best_move(step, position, text, table)
                    .map_or(NO_MATCH, |(points, _)| points),
            };
            table.points[step * table.width + position] = points;
        }
        let best = starts
            .map(|start| (table.at(0, start), start))
            .filter(|&(points, _)| points != NO_MATCH);
        // Of equally good matches the first one counts.
        let (points, start) =
            best.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
        let score = Score {
            begins_with_words: self.begins_with_words(start, text, table),
            points,
        };
        Some((score, start))
    }

    /// Finds every step and position that can be reached, the last ones first.
    fn reach(&self, starts: impl Iterator<Item = usize>, text: &Prepared<'_>, table: &mut Table) {
        let width = text.numbers.len() + 1;
        table.width = width;
        table.points.clear();
        table.points.resize(self.steps.len() * width, NO_MATCH);
        table.reached.clear();
        for start in starts {
            table.points[start] = UNKNOWN;
            table.reached.push((start, 0));
        }
        let mut next = 0;
        while let Some(&(position, step)) = table.reached.get(next) {
            next += 1;
            let (points, reached) = (&mut table.points, &mut table.reached);
            self.moves(step, position, text, |one| {
                let cell = &mut points[one.step * width + one.position];
                if *cell == NO_MATCH {
                    *cell = UNKNOWN;
                    reached.push((one.position, one.step));
                }
            });
        }
        // A move leads to a later position, or to a later step at the same one.
        table.reached.sort_unstable_by(|one, other| other.cmp(one));
    }

    fn begins_with_words(&self, start: usize, text: &Prepared<'_>, table: &Table) -> bool {
        let mut step = 0;
        while let Step::Fork(_) = &self.steps[step] {
            match self.best_move(step, start, text, table) {
                Some((_, next)) => step = next.step,
                None => return false,
            }
        }
        matches!(&self.steps[step], Step::Word { .. } | Step::Closed { .. })
    }

    /// The best move from a step at a position that leads to a match, and the points of the match
    /// from there on.
    fn best_move<'s>(
        &'s self,
        step: usize,
        position: usize,
        text: &Prepared<'_>,
        table: &Table,
    ) -> Option<(Points, Move<'s>)> {
        let mut best: Option<(Points, Move<'s>)> = None;
        self.moves(step, position, text, |next| {
            // Earlier moves win ties, which is what makes earlier slots the shorter ones.
            if let Some(points) = table.after(&next)
                && best.is_none_or(|(most, _)| points > most)
            {
                best = Some((points, next));
            }
        });
        best
    }

    /// Offers every move from a step at a position, shorter slots first.
    fn moves<'s>(
        &'s self,
        step: usize,
        position: usize,
        text: &Prepared<'_>,
        mut offer: impl FnMut(Move<'s>),
    ) {
        let mut to = |gain: Points, step: usize, position: usize, value: Option<&'s str>| {
            offer(Move {
                gain,
                step,
                position,
                value,
            });
        };
        let count = text.numbers.len();
        let skips_symbol = || position < count && text.words.word(position).kind == Kind::Symbol;
        match &self.steps[step] {
            Step::Accept => {}
            Step::Word { word, length } => {
                if position < count && text.numbers[position] == *word {
                    let gain = Points::from(*length) * LITERAL;
                    to(gain, step + 1, position + 1, None);
                } else if skips_symbol() {
                    to(0, step, position + 1, None);
                }
            }
            Step::Closed { values, .. } => {
                for phrase in values.at(text.numbers, position) {
                    let gain = Points::from(phrase.length) * LITERAL;
                    let after = position + phrase.words.len();
                    to(gain, step + 1, after, Some(&phrase.value));
                }
                if skips_symbol() {
                    to(0, step, position + 1, None);
                }
            }
            Step::Free { .. } => {
                if position < count && !text.quoted[position] {
                    to(-1, step + 1, position + 1, None);
                }
            }
            Step::More => {
                if !text.quoted[position] {
                    to(0, step + 1, position, None);
                }
                if position < count {
                    to(-1, step, position + 1, None);
                }
            }
            Step::Fork(targets) => {
                for &target in targets {
                    to(0, target, position, None);
                }
            }
        }
    }

    /// What the best match reads into the slots, and what other matches would.
    pub(super) fn read(
        &self,
        text: &Prepared<'_>,
        table: &mut Table,
    ) -> (BTreeMap<String, String>, Vec<BTreeMap<String, String>>) {
        let Some((_, start)) = self.best(text, table) else {
            return (BTreeMap::new(), Vec::new());
        };
        let mut way = SearchPath::beginning_at(start);
        while let Some((_, next)) = self.best_move(way.step, way.position, text, table) {
            way.go_on(&self.steps[way.step], &next);
        }
        let slots = way.slots(text);
        let has_free_slot = |step: &Step| matches!(step, Step::Free { .. });
        let alternatives = if self.steps.iter().any(has_free_slot) {
            self.alternatives(&slots, text, table)
        } else {
            Vec::new()
        };
        (slots, alternatives)
    }

    /// Other slot fillings, from the best to the worst match; of equally good ones those with
    /// shorter earlier slots first.
    fn alternatives(
        &self,
        best: &BTreeMap<String, String>,
        text: &Prepared<'_>,
        table: &Table,
    ) -> Vec<BTreeMap<String, String>> {
        let mut found: Vec<(Points, Vec<usize>, BTreeMap<String, String>)> = Vec::new();
        // Ways wait by the points they will have in the end, which the table knows, and then by
        // their number: the youngest first, so that one way is followed to its end.
        let mut waiting: BinaryHeap<(Points, usize)> = BinaryHeap::new();
        let mut ways: Vec<(Points, SearchPath<'_>)> = Vec::new();
        let mut seen: HashSet<SearchPath<'_>> = HashSet::new();
        for start in (0..text.numbers.len()).rev() {
            if text.edges.starts[start] && table.at(0, start) != NO_MATCH {
                waiting.push((table.at(0, start), ways.len()));
                ways.push((0, SearchPath::beginning_at(start)));
            }
        }
        let mut next = Vec::new();
        let mut moves = 0;
        while moves < MAX_MOVES
            && let Some((_, number)) = waiting.pop()
        {
            let (mut gained, mut way) = ways[number].clone();
            // A way is followed as long as there is only one move.
            loop {
                moves += 1;
                next.clear();
                self.moves(way.step, way.position, text, |one| {
                    next.extend(table.after(&one).map(|points| (points, one)));
                });
                let [(_, only)] = next.as_slice() else { break };
                gained += only.gain;
                way.go_on(&self.steps[way.step], only);
            }
            if !seen.insert(way.clone()) {
                continue;
            }
            let step = &self.steps[way.step];
            if let Step::Accept = step {
                let slots = way.slots(text);
                if slots != *best && found.iter().all(|(.., other)| slots != *other) {
                    found.push((gained, way.ends(), slots));
                    if found.len() == MAX_ALTERNATIVES {
                        break;
                    }
                }
                continue;
            }
            for (points, one) in next.iter().rev() {
                waiting.push((gained + points, ways.len()));
                let mut branch = way.clone();
                branch.go_on(step, one);
                ways.push((gained + one.gain, branch));
            }
        }
        found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        found.into_iter().map(|(.., slots)| slots).collect()
    }
}

impl<'s> SearchPath<'s> {
    fn beginning_at(position: usize) -> Self {
        Self {
            step: 0,
            position,
            readings: Vec::new(),
            open: None,
        }
    }

    fn go_on(&mut self, step: &'s Step, next: &Move<'s>) {
        match step {
            Step::Free { slot, .. } => self.open = Some((slot, self.position)),
            Step::More if next.step != self.step => {
                if let Some((slot, from)) = self.open.take() {
                    self.readings.push(Reading::Free(slot, from, self.position));
                }
            }
            Step::Closed { slot, .. } => {
                let reading = next.value.map(|value| Reading::Closed(slot, value));
                self.readings.extend(reading);
            }
            _ => {}
        }
        (self.step, self.position) = (next.step, next.position);
    }

    /// Where the free slots end, in order.
    fn ends(&self) -> Vec<usize> {
        let ends = self.readings.iter().filter_map(|reading| match reading {
            Reading::Free(_, _, end) => Some(*end),
            Reading::Closed(..) => None,
        });
        ends.collect()
    }

    fn slots(&self, text: &Prepared<'_>) -> BTreeMap<String, String> {
        let slots = self.readings.iter().map(|reading| match *reading {
            Reading::Free(slot, from, to) => (slot.to_owned(), captured(text.words, from, to)),
            Reading::Closed(slot, value) => (slot.to_owned(), value.to_owned()),
        });
        slots.collect()
    }
}

/// The original text of the words from `from` up to `to`, with the punctuation around them, which
/// trimming judges.
fn captured(words: &Words<'_>, from: usize, to: usize) -> String {
    let start = if from == 0 {
        0
    } else {
        words.word(from - 1).span.end
    };
    let end = if to == words.len() {
        words.text().len()
    } else {
        words.word(to).span.start
    };
    trimmed(&words.text()[start..end]).to_owned()
}
