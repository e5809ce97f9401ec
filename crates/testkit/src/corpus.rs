//! Runs the bodies of fuzz targets without a fuzzer, over the corpus in `fuzz/corpus` and mutations of
//! it.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

/// Limit of the process's memory while it reads a corpus.
const MAX_PEAK_BYTES: u64 = 128 << 20;

/// Limit of one input, in bytes.
const MAX_INPUT_BYTES: usize = 4 << 10;

/// Limit of inputs per target.
const MAX_INPUTS: usize = 100;

/// Number of mutated inputs.
const CHANGED_INPUTS: u32 = 400;

/// One input of so many, at least, must get as far as the rules of its target. Only inputs with a name of their own count:
/// most of what a fuzzer has learnt is refused.
const LEAST_SHARE: usize = 5;

/// Runs the body of a fuzz target over its corpus and over mutations of it. The body says whether an input got as far as
/// the rules of the target: a body that refuses everything at once finds nothing, and looks like one that finds nothing.
///
/// # Panics
///
/// Panics if the body does, if the corpus is empty or exceeds its limits, if too few of its inputs get as far as the
/// rules, or if the process needed more than 128 MiB.
#[expect(clippy::panic, reason = "tests fail by panicking")]
pub fn replay(target: &str, body: fn(&[u8]) -> bool) {
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "{target} has no corpus");
    assert!(
        corpus.len() <= MAX_INPUTS,
        "{target} keeps {} inputs",
        corpus.len()
    );
    let (mut named, mut accepted) = (0, 0);
    for (name, input) in &corpus {
        assert!(
            input.len() <= MAX_INPUT_BYTES,
            "{target}/{name} has {} bytes",
            input.len()
        );
        let is_accepted = body(input);
        if !is_learnt(name) {
            named += 1;
            accepted += usize::from(is_accepted);
        }
    }
    assert!(
        accepted > 0 && accepted * LEAST_SHARE >= named,
        "{target}: {accepted} of {named} inputs get as far as the rules"
    );
    let inputs = corpus.into_iter().map(|(_, input)| input).collect();
    let config = Config {
        cases: CHANGED_INPUTS,
        // Failing inputs are printed, to be added to the corpus.
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&changed(inputs), |input| {
        body(&input.0);
        Ok(())
    });
    if let Err(problem) = outcome {
        panic!("{target}: {problem}");
    }
    if let Some(peak) = peak_bytes() {
        assert!(peak <= MAX_PEAK_BYTES, "{target} needed {peak} bytes");
    }
}

/// Whether an input is named by its hash, as a fuzzer names what it learns.
fn is_learnt(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The inputs of a target, by name.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut inputs: Vec<_> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().into_string().ok()?,
                fs::read(entry.path()).ok()?,
            ))
        })
        .collect();
    inputs.sort();
    inputs
}

/// An input that is printed as a Rust literal.
struct Input(Vec<u8>);

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// One mutation. Positions are fractions of the input's length.
#[derive(Debug, Clone)]
enum Change {
    /// Overwrites bytes.
    Overwrite(Index, Vec<u8>),
    /// Inserts bytes.
    Insert(Index, Vec<u8>),
    /// Removes a range.
    Remove(Index, Index),
    /// Copies a range to another position.
    Repeat(Index, Index, Index),
}

impl Change {
    fn apply(&self, input: &mut Vec<u8>) {
        let place = |index: &Index| index.index(input.len() + 1);
        let range = |one: &Index, other: &Index| {
            let (one, other) = (place(one), place(other));
            one.min(other)..one.max(other)
        };
        match self {
            Self::Overwrite(at, bytes) => {
                let at = place(at);
                let end = input.len().min(at + bytes.len());
                input.splice(at..end, bytes.iter().copied());
            }
            Self::Insert(at, bytes) => {
                let at = place(at);
                input.splice(at..at, bytes.iter().copied());
            }
            Self::Remove(from, to) => {
                input.drain(range(from, to));
            }
            Self::Repeat(from, to, at) => {
                let (copy, at) = (input[range(from, to)].to_vec(), place(at));
                input.splice(at..at, copy);
            }
        }
        input.truncate(MAX_INPUT_BYTES);
    }
}

fn changed(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Input> {
    let place = any::<Index>;
    let change = || {
        proptest::prop_oneof![
            (place(), vec(any::<u8>(), 1..4)).prop_map(|(at, bytes)| Change::Overwrite(at, bytes)),
            (place(), "[ -~\n]{1,3}")
                .prop_map(|(at, text)| Change::Overwrite(at, text.into_bytes())),
            (place(), vec(any::<u8>(), 1..4)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
            (place(), place()).prop_map(|(from, to)| Change::Remove(from, to)),
            (place(), place(), place()).prop_map(|(from, to, at)| Change::Repeat(from, to, at)),
        ]
    };
    (select(corpus), vec(change(), 1..5)).prop_map(|(mut input, changes)| {
        for change in &changes {
            change.apply(&mut input);
        }
        Input(input)
    })
}

/// The process's peak memory in bytes, if the system reports it.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
