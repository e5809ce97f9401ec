//! A pattern compiled into steps, and the match that keeps the rule of the shortest slot.
//!
//! Every step is tried at most once at every position of the text, so that no pattern can make
//! matching slow, however its optional parts and slots are nested.

use std::collections::{BTreeMap, BTreeSet};

use super::syntax::{Fault, Part};
use super::{ClosedValues, Lexicon, length_of};
use crate::politeness::Edges;
use crate::slot_text::trimmed;
use crate::words::{Kind, Words};

/// What a text must have to match, as words of which it needs at least one.
pub(super) type Needs = BTreeSet<u32>;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Program {
    steps: Vec<Step>,
    /// Every match has at least one word of each of these.
    pub(super) needs: Vec<Needs>,
}

#[derive(Debug)]
enum Step {
    Word {
        word: u32,
        length: u32,
    },
    /// Words of a closed slot.
    Closed {
        slot: String,
        column: usize,
        values: ClosedValues,
    },
    /// The first word of a free slot.
    Free {
        slot: String,
        column: usize,
    },
    /// Further words of the free slot before it, if any.
    More,
    /// Goes on at one of these steps.
    Fork(Vec<usize>),
    Accept,
}

/// How good a match is: more literal characters first, then fewer words in slots.
pub(super) type Score = i64;

const NO_MATCH: Score = Score::MIN;
const LITERAL: Score = 1 << 20;

/// Scores of every step at every position. It is reused from pattern to pattern.
#[derive(Debug, Default)]
pub(super) struct Table {
    scores: Vec<Score>,
    width: usize,
}

impl Table {
    fn at(&self, step: usize, position: usize) -> Score {
        self.scores[step * self.width + position]
    }
}

/// A text made ready for matching.
#[derive(Debug)]
pub(super) struct Prepared<'t> {
    pub(super) words: &'t Words<'t>,
    pub(super) numbers: &'t [u32],
    pub(super) edges: &'t Edges,
}

impl Program {
    pub(crate) fn compile(
        parts: &[Part],
        closed: &BTreeMap<String, ClosedValues>,
        lexicon: &mut Lexicon,
    ) -> Result<Self, Fault> {
        let mut program = Self {
            steps: Vec::new(),
            needs: Vec::new(),
        };
        program.sequence(parts, closed, lexicon);
        program.steps.push(Step::Accept);
        program.check()?;
        collect_needs(parts, closed, lexicon, &mut program.needs);
        Ok(program)
    }

    fn sequence(
        &mut self,
        parts: &[Part],
        closed: &BTreeMap<String, ClosedValues>,
        lexicon: &mut Lexicon,
    ) {
        for part in parts {
            match part {
                Part::Word(word) => self.steps.push(Step::Word {
                    word: lexicon.intern(word),
                    length: length_of(word),
                }),
                Part::Slot { name, column } => {
                    if let Some(values) = closed.get(name) {
                        let values = values.clone();
                        self.steps.push(Step::Closed {
                            slot: name.clone(),
                            column: *column,
                            values,
                        });
                    } else {
                        self.steps.push(Step::Free {
                            slot: name.clone(),
                            column: *column,
                        });
                        self.steps.push(Step::More);
                    }
                }
                Part::Choice(branches) => self.fork(branches, false, closed, lexicon),
                Part::Optional(branches) => self.fork(branches, true, closed, lexicon),
            }
        }
    }

    fn fork(
        &mut self,
        branches: &[Vec<Part>],
        may_be_missing: bool,
        closed: &BTreeMap<String, ClosedValues>,
        lexicon: &mut Lexicon,
    ) {
        let fork = self.steps.len();
        self.steps.push(Step::Fork(Vec::new()));
        let mut starts = Vec::new();
        let mut ends = Vec::new();
        for branch in branches {
            starts.push(self.steps.len());
            self.sequence(branch, closed, lexicon);
            ends.push(self.steps.len());
            self.steps.push(Step::Fork(Vec::new()));
        }
        let after = self.steps.len();
        if may_be_missing {
            starts.push(after);
        }
        self.steps[fork] = Step::Fork(starts);
        for end in ends {
            self.steps[end] = Step::Fork(vec![after]);
        }
    }

    /// The steps that can follow a step without a word being read for the step itself.
    fn following(&self, step: usize) -> Vec<usize> {
        match &self.steps[step] {
            Step::Fork(targets) => targets.clone(),
            Step::Accept => Vec::new(),
            _ => vec![step + 1],
        }
    }

    /// The steps from `from` on that can be reached through steps for which `passes` holds.
    fn reachable(&self, from: usize, passes: impl Fn(&Step) -> bool) -> Vec<usize> {
        let mut reached = vec![false; self.steps.len()];
        reached[from] = true;
        // Steps lead only forward, so that one walk in order finds everything.
        for step in from..self.steps.len() {
            if reached[step] && passes(&self.steps[step]) {
                for next in self.following(step) {
                    reached[next] = true;
                }
            }
        }
        (from..self.steps.len())
            .filter(|&step| reached[step])
            .collect()
    }

    fn check(&self) -> Result<(), Fault> {
        let no_literal = |step: &Step| !matches!(step, Step::Word { .. } | Step::Closed { .. });
        if self
            .reachable(0, no_literal)
            .contains(&(self.steps.len() - 1))
        {
            return Err(Fault::new(
                "pattern.no_literal",
                1,
                "the pattern can match without any word of its own, so that it would match \
                 everything; make a word mandatory",
            ));
        }
        for (index, step) in self.steps.iter().enumerate() {
            let (Step::Free { slot: name, .. } | Step::Closed { slot: name, .. }) = step else {
                continue;
            };
            for later in self.reachable(index + 1, |_| true) {
                if let Step::Free { slot, column } | Step::Closed { slot, column, .. } =
                    &self.steps[later]
                    && slot == name
                {
                    return Err(Fault::new(
                        "pattern.slot_twice",
                        *column,
                        format!(
                            "`{{{name}}}` can stand in one sentence twice; give the second one \
                             another name"
                        ),
                    ));
                }
            }
            if matches!(step, Step::Free { .. }) {
                let adjacent = |step: &Step| matches!(step, Step::Fork(_) | Step::More);
                for later in self.reachable(index + 1, adjacent) {
                    if let Step::Free { slot, column } = &self.steps[later] {
                        return Err(Fault::new(
                            "pattern.slots_adjacent",
                            *column,
                            format!(
                                "nothing says where `{{{name}}}` ends and `{{{slot}}}` begins; put \
                                 a word between them that is always there"
                            ),
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// The score of the best match and where it begins.
    pub(super) fn best(&self, text: &Prepared<'_>, table: &mut Table) -> Option<(Score, usize)> {
        let count = text.numbers.len();
        table.width = count + 1;
        table.scores.clear();
        table
            .scores
            .resize(self.steps.len() * table.width, NO_MATCH);
        for position in (0..=count).rev() {
            for step in (0..self.steps.len()).rev() {
                let score = self
                    .moves(step, position, text, table)
                    .map(|(score, ..)| score);
                table.scores[step * table.width + position] = score.unwrap_or(NO_MATCH);
            }
        }
        let starts = (0..=count).filter(|&start| text.edges.starts[start]);
        let best = starts
            .map(|start| (table.at(0, start), start))
            .filter(|&(s, _)| s != NO_MATCH);
        // Of equally good matches the first one counts.
        best.reduce(|best, other| if other.0 > best.0 { other } else { best })
    }

    /// The best move from a step at a position: its score, the next step and position, and the
    /// phrase's value if a closed slot was read.
    fn moves<'s>(
        &'s self,
        step: usize,
        position: usize,
        text: &Prepared<'_>,
        table: &Table,
    ) -> Option<(Score, usize, usize, Option<&'s str>)> {
        let mut best: Option<(Score, usize, usize, Option<&'s str>)> = None;
        // Earlier offers win ties, which is what makes earlier slots the shorter ones.
        let mut offer = |gain: Score, next: usize, at: usize, value: Option<&'s str>| {
            let rest = table.at(next, at);
            if rest != NO_MATCH && best.is_none_or(|best| rest + gain > best.0) {
                best = Some((rest + gain, next, at, value));
            }
        };
        let count = text.numbers.len();
        let skips_symbol = || position < count && text.words.word(position).kind == Kind::Symbol;
        match &self.steps[step] {
            Step::Accept => {
                return text.edges.ends[position].then_some((0, step, position, None));
            }
            Step::Word { word, length } => {
                if position < count && text.numbers[position] == *word {
                    offer(Score::from(*length) * LITERAL, step + 1, position + 1, None);
                } else if skips_symbol() {
                    offer(0, step, position + 1, None);
                }
            }
            Step::Closed { values, .. } => {
                for phrase in values.at(text.numbers, position) {
                    let gain = Score::from(phrase.length) * LITERAL;
                    offer(
                        gain,
                        step + 1,
                        position + phrase.words.len(),
                        Some(&phrase.value),
                    );
                }
                if skips_symbol() {
                    offer(0, step, position + 1, None);
                }
            }
            Step::Free { .. } => {
                if position < count {
                    offer(-1, step + 1, position + 1, None);
                }
            }
            Step::More => {
                offer(0, step + 1, position, None);
                if position < count {
                    offer(-1, step, position + 1, None);
                }
            }
            Step::Fork(targets) => {
                for &target in targets {
                    offer(0, target, position, None);
                }
            }
        }
        best
    }

    /// Follows the best moves from `start` and reads the slots.
    pub(super) fn slots(&self, text: &Prepared<'_>, table: &mut Table) -> BTreeMap<String, String> {
        let mut slots = BTreeMap::new();
        let Some((_, start)) = self.best(text, table) else {
            return slots;
        };
        let (mut step, mut position) = (0, start);
        let mut open: Option<(&str, usize)> = None;
        while let Some((_, next, at, value)) = self.moves(step, position, text, table) {
            match &self.steps[step] {
                Step::Free { slot, .. } => open = Some((slot, position)),
                Step::More if next != step => {
                    if let Some((slot, from)) = open.take() {
                        slots.insert(slot.to_owned(), captured(text.words, from, position));
                    }
                }
                Step::Closed { slot, .. } => {
                    if let Some(value) = value {
                        slots.insert(slot.clone(), value.to_owned());
                    }
                }
                Step::Accept => break,
                _ => {}
            }
            (step, position) = (next, at);
        }
        slots
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

/// Collects, for every part that must be matched, the words of which one must be there.
fn collect_needs(
    parts: &[Part],
    closed: &BTreeMap<String, ClosedValues>,
    lexicon: &mut Lexicon,
    needs: &mut Vec<Needs>,
) {
    for part in parts {
        match part {
            Part::Word(word) => needs.push(Needs::from([lexicon.intern(word)])),
            Part::Slot { name, .. } => {
                if let Some(values) = closed.get(name) {
                    needs.push(values.first_words().collect());
                }
            }
            Part::Choice(branches) => {
                let mut union = Needs::new();
                let mut every_branch_needs = true;
                for branch in branches {
                    let mut own = Vec::new();
                    collect_needs(branch, closed, lexicon, &mut own);
                    match own.into_iter().min_by_key(BTreeSet::len) {
                        Some(least) => union.extend(least),
                        None => every_branch_needs = false,
                    }
                }
                if every_branch_needs {
                    needs.push(union);
                }
            }
            Part::Optional(_) => {}
        }
    }
}
