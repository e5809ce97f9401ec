//! Finds the best match of a pattern, preferring shorter slots, and the alternative matches.
//!
//! Every step is tried at most once at each position of the text, and only if earlier steps reach it, so
//! that no pattern makes matching slow, however its optional parts and slots are nested, and one that
//! starts with other words costs almost nothing.

use std::collections::{BTreeMap, BinaryHeap, HashSet};

use super::program::{Program, Step};
use crate::politeness::Edges;
use crate::slot_text::trimmed;
use crate::words::{Kind, Words};

/// Limit of alternative slot fillings of a pattern.
pub const MAX_ALTERNATIVES: usize = 8;

/// Limit of moves explored to find them.
const MAX_MOVES: usize = 4_000;

/// The quality of a match. The start of a request says what is wanted: "add … is done" is about adding
/// rather than about something that is done, so this is compared first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// Whether the match starts with literal words of the pattern.
    begins_with_words: bool,
    points: Points,
}

/// More literal characters first, then fewer words in slots, then fewer symbols that are left out.
type Points = i64;

const NO_MATCH: Points = Points::MIN;
const UNKNOWN: Points = Points::MIN + 1;
const LITERAL: Points = 1 << 20;

/// A word in a free slot. A symbol there costs nothing, so a slot takes the symbols beside its words: they are the
/// user's text too.
const SLOT_WORD: Points = -2;

/// A symbol that no slot takes, such as one after a closed slot. It costs less than a word, so that no slot grows over a
/// politeness to reach it.
const SYMBOL_LEFT_OUT: Points = -1;

/// The points of every step at every position. Reused for all patterns.
#[derive(Debug, Default)]
pub(super) struct Table {
    points: Vec<Points>,
    width: usize,
    /// Reachable pairs of position and step.
    reached: Vec<(usize, usize)>,
}

impl Table {
    fn at(&self, step: usize, position: usize) -> Points {
        self.points[step * self.width + position]
    }

    /// The points of the match after a move, if it leads to one.
    fn after(&self, next: &Move<'_>) -> Option<Points> {
        let rest = self.at(next.step, next.position);
        (rest != NO_MATCH).then(|| rest + next.gain)
    }
}

/// A text prepared for matching.
#[derive(Debug)]
pub(super) struct PreparedText<'t> {
    pub(super) words: &'t Words<'t>,
    pub(super) numbers: &'t [u32],
    pub(super) edges: &'t Edges,
    /// For each position, whether it is inside a quotation, where no slot starts or ends.
    pub(super) quoted: &'t [bool],
}

/// A transition from a step at a position.
#[derive(Debug, Clone, Copy)]
struct Move<'s> {
    gain: Points,
    step: usize,
    position: usize,
    /// The value read by a closed slot.
    value: Option<&'s str>,
}

/// What a slot reads: a range of words, or a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Reading<'s> {
    Free(&'s str, usize, usize),
    Closed(&'s str, &'s str),
}

/// A partial match at a step and a position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SearchPath<'s> {
    step: usize,
    position: usize,
    readings: Vec<Reading<'s>>,
    /// The free slot being read, and its start.
    open: Option<(&'s str, usize)>,
}

impl Program {
    /// The score of the best match and its start.
    pub(super) fn best(
        &self,
        text: &PreparedText<'_>,
        table: &mut Table,
    ) -> Option<(Score, usize)> {
        let count = text.numbers.len();
        let starts = (0..=count).filter(|&start| text.edges.starts[start]);
        self.reach(starts.clone(), text, table);
        for index in 0..table.reached.len() {
            let (position, step) = table.reached[index];
            let points = match &self.steps[step] {
                Step::Accept => text.edges.ends[position].map_or(NO_MATCH, |left_out| {
                    Points::try_from(left_out).unwrap_or(0) * SYMBOL_LEFT_OUT
                }),
                _ => self
                    .best_move(step, position, text, table)
                    .map_or(NO_MATCH, |(points, _)| points),
            };
            table.points[step * table.width + position] = points;
        }
        let best = starts
            .map(|start| (table.at(0, start), start))
            .filter(|&(points, _)| points != NO_MATCH);
        // The first one of equally good matches wins.
        let (points, start) =
            best.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
        let score = Score {
            begins_with_words: self.begins_with_words(start, text, table),
            points,
        };
        Some((score, start))
    }

    /// Finds all reachable steps and positions, in reverse order.
    fn reach(
        &self,
        starts: impl Iterator<Item = usize>,
        text: &PreparedText<'_>,
        table: &mut Table,
    ) {
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
        // A move leads to a later position, or to a later step at the same position.
        table.reached.sort_unstable_by(|one, other| other.cmp(one));
    }

    fn begins_with_words(&self, start: usize, text: &PreparedText<'_>, table: &Table) -> bool {
        let mut step = 0;
        while let Step::Fork(_) = &self.steps[step] {
            match self.best_move(step, start, text, table) {
                Some((_, next)) => step = next.step,
                None => return false,
            }
        }
        matches!(&self.steps[step], Step::Word { .. } | Step::Closed { .. })
    }

    /// The best move from a step at a position, and the points of the match from there on.
    fn best_move<'s>(
        &'s self,
        step: usize,
        position: usize,
        text: &PreparedText<'_>,
        table: &Table,
    ) -> Option<(Points, Move<'s>)> {
        let mut best: Option<(Points, Move<'s>)> = None;
        self.moves(step, position, text, |next| {
            // Earlier moves win ties, which makes earlier slots shorter.
            if let Some(points) = table.after(&next)
                && best.is_none_or(|(most, _)| points > most)
            {
                best = Some((points, next));
            }
        });
        best
    }

    /// All moves from a step at a position, shorter slots first.
    fn moves<'s>(
        &'s self,
        step: usize,
        position: usize,
        text: &PreparedText<'_>,
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
        let is_symbol = || position < count && text.words.word(position).kind == Kind::Symbol;
        let in_slot = || if is_symbol() { 0 } else { SLOT_WORD };
        match &self.steps[step] {
            Step::Accept => {}
            Step::Word { word, length } => {
                if position < count && text.numbers[position] == *word {
                    let gain = Points::from(*length) * LITERAL;
                    to(gain, step + 1, position + 1, None);
                } else if is_symbol() {
                    to(SYMBOL_LEFT_OUT, step, position + 1, None);
                }
            }
            Step::Closed { values, .. } => {
                for phrase in values.at(text.numbers, position) {
                    let gain = Points::from(phrase.length) * LITERAL;
                    let after = position + phrase.words.len();
                    to(gain, step + 1, after, Some(&phrase.value));
                }
                if is_symbol() {
                    to(SYMBOL_LEFT_OUT, step, position + 1, None);
                }
            }
            Step::Free { .. } => {
                if position < count && !text.quoted[position] {
                    to(in_slot(), step + 1, position + 1, None);
                }
            }
            Step::More => {
                if !text.quoted[position] {
                    to(0, step + 1, position, None);
                }
                if position < count {
                    to(in_slot(), step, position + 1, None);
                }
            }
            Step::Fork(targets) => {
                for &target in targets {
                    to(0, target, position, None);
                }
            }
        }
    }

    /// The slots of the best match, and those of alternative matches.
    pub(super) fn read(
        &self,
        text: &PreparedText<'_>,
        table: &mut Table,
    ) -> (BTreeMap<String, String>, Vec<BTreeMap<String, String>>) {
        let Some((_, start)) = self.best(text, table) else {
            return (BTreeMap::new(), Vec::new());
        };
        let mut path = SearchPath::starting_at(start);
        while let Some((_, next)) = self.best_move(path.step, path.position, text, table) {
            path.advance(&self.steps[path.step], &next);
        }
        let slots = path.slots(text);
        let has_free_slot = |step: &Step| matches!(step, Step::Free { .. });
        let alternatives = if self.steps.iter().any(has_free_slot) {
            self.alternatives(&slots, text, table)
        } else {
            Vec::new()
        };
        (slots, alternatives)
    }

    /// Alternative slot fillings, best match first; ties prefer shorter earlier slots.
    fn alternatives(
        &self,
        best: &BTreeMap<String, String>,
        text: &PreparedText<'_>,
        table: &Table,
    ) -> Vec<BTreeMap<String, String>> {
        let mut found: Vec<(Points, Vec<usize>, BTreeMap<String, String>)> = Vec::new();
        // Paths are ordered by their final points, which the table contains, and then by number, newest
        // first, so that one path is followed to its end.
        let mut waiting: BinaryHeap<(Points, usize)> = BinaryHeap::new();
        let mut paths: Vec<(Points, SearchPath<'_>)> = Vec::new();
        let mut seen: HashSet<SearchPath<'_>> = HashSet::new();
        for start in (0..text.numbers.len()).rev() {
            if text.edges.starts[start] && table.at(0, start) != NO_MATCH {
                waiting.push((table.at(0, start), paths.len()));
                paths.push((0, SearchPath::starting_at(start)));
            }
        }
        let mut next = Vec::new();
        let mut moves = 0;
        while moves < MAX_MOVES
            && let Some((_, number)) = waiting.pop()
        {
            let (mut gained, mut path) = paths[number].clone();
            // Follows a path while there is only one move.
            loop {
                moves += 1;
                next.clear();
                self.moves(path.step, path.position, text, |one| {
                    next.extend(table.after(&one).map(|points| (points, one)));
                });
                let [(_, only)] = next.as_slice() else { break };
                gained += only.gain;
                path.advance(&self.steps[path.step], only);
            }
            if !seen.insert(path.clone()) {
                continue;
            }
            let step = &self.steps[path.step];
            if let Step::Accept = step {
                gained += table.at(path.step, path.position);
                let slots = path.slots(text);
                if slots != *best && found.iter().all(|(.., other)| slots != *other) {
                    found.push((gained, path.ends(), slots));
                    if found.len() == MAX_ALTERNATIVES {
                        break;
                    }
                }
                continue;
            }
            for (points, one) in next.iter().rev() {
                waiting.push((gained + points, paths.len()));
                let mut branch = path.clone();
                branch.advance(step, one);
                paths.push((gained + one.gain, branch));
            }
        }
        found.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        found.into_iter().map(|(.., slots)| slots).collect()
    }
}

impl<'s> SearchPath<'s> {
    fn starting_at(position: usize) -> Self {
        Self {
            step: 0,
            position,
            readings: Vec::new(),
            open: None,
        }
    }

    fn advance(&mut self, step: &'s Step, next: &Move<'s>) {
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

    /// The ends of the free slots, in order.
    fn ends(&self) -> Vec<usize> {
        let ends = self.readings.iter().filter_map(|reading| match reading {
            Reading::Free(_, _, end) => Some(*end),
            Reading::Closed(..) => None,
        });
        ends.collect()
    }

    fn slots(&self, text: &PreparedText<'_>) -> BTreeMap<String, String> {
        let slots = self.readings.iter().map(|reading| match *reading {
            Reading::Free(slot, from, to) => (slot.to_owned(), original_text(text.words, from, to)),
            Reading::Closed(slot, value) => (slot.to_owned(), value.to_owned()),
        });
        slots.collect()
    }
}

/// The original text of the words from `from` up to `to`, with surrounding punctuation, which is trimmed
/// later.
fn original_text(words: &Words<'_>, from: usize, to: usize) -> String {
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
