//! A pattern compiled into steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::syntax::{Fault, Part};
use super::{ClosedValues, Lexicon, length_of};

/// Words of which a text needs at least one to match.
pub(super) type RequiredWords = BTreeSet<u32>;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Program {
    pub(super) steps: Vec<Step>,
    /// Every match contains at least one word of each set.
    pub(super) needs: Vec<RequiredWords>,
}

/// What a pattern reads next. Steps lead only forward.
#[derive(Debug)]
pub(super) enum Step {
    Word {
        word: u32,
        length: u32,
    },
    /// Words of a closed slot.
    Closed {
        slot: String,
        column: usize,
        values: Arc<ClosedValues>,
    },
    /// The first word of a free slot.
    Free {
        slot: String,
        column: usize,
    },
    /// Further words of the preceding free slot, if any.
    More,
    /// Continues at one of these steps.
    Fork(Vec<usize>),
    Accept,
}

impl Program {
    pub(crate) fn compile(
        parts: &[Part],
        closed: &BTreeMap<String, Arc<ClosedValues>>,
        lexicon: &mut Lexicon,
    ) -> Result<Self, Fault> {
        let mut program = Self {
            steps: Vec::new(),
            needs: Vec::new(),
        };
        program.sequence(parts, closed, lexicon);
        program.steps.push(Step::Accept);
        program.check()?;
        Ok(program)
    }

    /// Computes the required words. A separate step, because checking a catalogue does not need it.
    pub(super) fn find_needs(
        &mut self,
        parts: &[Part],
        closed: &BTreeMap<String, Arc<ClosedValues>>,
        lexicon: &mut Lexicon,
    ) {
        collect_needs(parts, closed, lexicon, &mut self.needs);
    }

    fn sequence(
        &mut self,
        parts: &[Part],
        closed: &BTreeMap<String, Arc<ClosedValues>>,
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
                        let values = Arc::clone(values);
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
                // Phrases have been expanded before.
                Part::Phrase { .. } => {}
                Part::Choice(branches) => self.fork(branches, false, closed, lexicon),
                Part::Optional(branches) => self.fork(branches, true, closed, lexicon),
            }
        }
    }

    fn fork(
        &mut self,
        branches: &[Vec<Part>],
        may_be_missing: bool,
        closed: &BTreeMap<String, Arc<ClosedValues>>,
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

    /// The steps reachable from `from` through steps for which `passes` holds.
    fn reachable(&self, from: usize, passes: impl Fn(&Step) -> bool) -> Vec<usize> {
        let mut reached = vec![false; self.steps.len()];
        reached[from] = true;
        // Steps lead only forward, so one pass in order finds everything.
        for step in from..self.steps.len() {
            if reached[step] && passes(&self.steps[step]) {
                match &self.steps[step] {
                    Step::Fork(targets) => targets.iter().for_each(|&next| reached[next] = true),
                    Step::Accept => {}
                    _ => reached[step + 1] = true,
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
                "the pattern can match without any literal word, so it would match \
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
                            "`{{{name}}}` can occur twice in one sentence; give the second one \
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
                                "`{{{name}}}` and `{{{slot}}}` are adjacent; put a mandatory word \
                                 between them"
                            ),
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Collects, for every required part, the words of which one must occur.
fn collect_needs(
    parts: &[Part],
    closed: &BTreeMap<String, Arc<ClosedValues>>,
    lexicon: &mut Lexicon,
    needs: &mut Vec<RequiredWords>,
) {
    for part in parts {
        match part {
            Part::Word(word) => needs.push(RequiredWords::from([lexicon.intern(word)])),
            Part::Slot { name, .. } => {
                if let Some(values) = closed.get(name) {
                    needs.push(values.first_words().collect());
                }
            }
            Part::Choice(branches) => {
                let mut union = RequiredWords::new();
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
            Part::Optional(_) | Part::Phrase { .. } => {}
        }
    }
}
