//! Runs tests: once without a mutant, to see which switches each reaches, and then those that reach a mutant with it on.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::tree::TestProgram;

/// How long a test may take that takes no time without a mutant.
const LEAST_LIMIT: Duration = Duration::from_secs(7);

/// A test may take so many times as long as without a mutant.
const LIMIT_FACTOR: f64 = 15.0;

/// A test that takes longer than this without a mutant is left out: a mutant that others miss would cost it again each time.
const LONGEST_TEST: Duration = Duration::from_secs(12);

/// A mutant that makes so many tests take too long is taken for one that a limit notices.
const SLOW_TESTS: usize = 2;

/// The same for a mutant that is tried again: whether a test fails says more than that one takes long.
const SLOW_TESTS_AGAIN: usize = 3;

/// Tests that took too long are given so much more time where that is all that has noticed a mutant.
const PATIENCE: u32 = 3;

/// What the tests make of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// A test fails.
    Failed,
    /// No test fails, but one does not end in time.
    Limit,
    /// All tests pass.
    Missed,
    /// It does not compile, or has no place for a switch.
    NotBuilt,
}

/// A test that passes without a mutant.
pub(crate) struct Test {
    program: Arc<TestProgram>,
    name: String,
    time: Duration,
    reached: BTreeSet<usize>,
}

impl Test {
    pub(crate) fn full_name(&self) -> String {
        format!("{} {}", self.program.name, self.name)
    }

    fn limit(&self) -> Duration {
        LEAST_LIMIT.max(self.time.mul_f64(LIMIT_FACTOR))
    }
}

/// Where tests run: a folder for what they leave behind, and how many run at once.
pub(crate) struct Runner {
    folder: PathBuf,
    at_once: usize,
    runs: AtomicUsize,
}

impl Runner {
    /// Runs twice as many tests at once as there are cores, since many of them only wait.
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        let at_once = 2 * thread::available_parallelism()?.get();
        Ok(Self {
            folder,
            at_once,
            runs: AtomicUsize::new(0),
        })
    }

    /// Runs every test without a mutant, and leaves out those that do not pass: to them every mutant would seem to be
    /// noticed.
    pub(crate) fn trace(&self, programs: Vec<TestProgram>) -> Result<Vec<Test>> {
        let mut named = Vec::new();
        for program in programs {
            let program = Arc::new(program);
            for name in tests_of(&program)? {
                named.push((Arc::clone(&program), name));
            }
        }
        let traced = self.spread(named, |(program, name)| self.trace_one(&program, &name));
        let traced: Vec<_> = traced.into_iter().collect::<Result<_>>()?;
        Ok(traced.into_iter().flatten().collect())
    }

    fn trace_one(&self, program: &Arc<TestProgram>, name: &str) -> Result<Option<Test>> {
        // A test that fails may have been short of time: many run at once.
        for _ in 0..2 {
            let begun = Instant::now();
            let limit = 40 * LEAST_LIMIT;
            let (passed, reached) = self.run(program, name, "CONVOKE_MUTANT_TRACE", None, limit)?;
            let time = begun.elapsed();
            if passed == Some(true) && time > LONGEST_TEST {
                eprintln!("left out, it takes long: {} {name}", program.name);
                return Ok(None);
            }
            if passed == Some(true) {
                return Ok(Some(Test {
                    program: Arc::clone(program),
                    name: name.to_owned(),
                    time,
                    reached,
                }));
            }
        }
        eprintln!(
            "left out, it does not pass without a mutant: {} {name}",
            program.name
        );
        Ok(None)
    }

    /// Tries a mutant with the tests that reach it, the quickest first. Gives which test has noticed it.
    pub(crate) fn attempt<'a>(
        &self,
        mutant: usize,
        tests: &'a [Test],
        again: bool,
    ) -> Result<(Verdict, Option<&'a Test>)> {
        let mut reaching: Vec<_> = tests
            .iter()
            .filter(|test| test.reached.contains(&mutant))
            .collect();
        reaching.sort_by_key(|test| test.time);
        let mut slow = Vec::new();
        for test in reaching {
            match self.run_with(mutant, test, test.limit())? {
                Some(true) => {}
                Some(false) => return Ok((Verdict::Failed, Some(test))),
                None => slow.push(test),
            }
            if slow.len() == if again { SLOW_TESTS_AGAIN } else { SLOW_TESTS } {
                break;
            }
        }
        if again {
            for test in slow.iter().take(SLOW_TESTS) {
                match self.run_with(mutant, test, test.limit() * PATIENCE)? {
                    Some(true) => {}
                    Some(false) => return Ok((Verdict::Failed, Some(test))),
                    None => return Ok((Verdict::Limit, Some(test))),
                }
            }
            return Ok((Verdict::Missed, None));
        }
        Ok(slow
            .first()
            .map_or((Verdict::Missed, None), |test| (Verdict::Limit, Some(test))))
    }

    fn run_with(&self, mutant: usize, test: &Test, limit: Duration) -> Result<Option<bool>> {
        let (passed, _) = self.run(
            &test.program,
            &test.name,
            "CONVOKE_MUTANT",
            Some(mutant),
            limit,
        )?;
        Ok(passed)
    }

    /// Runs one test in a process group of its own. Gives whether it has passed, or nothing if it has not ended in time.
    fn run(
        &self,
        program: &TestProgram,
        name: &str,
        variable: &str,
        mutant: Option<usize>,
        limit: Duration,
    ) -> Result<(Option<bool>, BTreeSet<usize>)> {
        let folder = self
            .folder
            .join(self.runs.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir_all(&folder)?;
        let trace = folder.join("reached");
        let value = mutant.map_or_else(
            || trace.clone().into_os_string(),
            |mutant| mutant.to_string().into(),
        );
        let mut test = Command::new(&program.path);
        test.args(["--exact", name, "--nocapture"])
            .current_dir(&program.folder)
            .process_group(0);
        // As `cargo nextest` does: some tests depend on having a process of their own.
        test.env("NEXTEST", "1")
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .env("TMPDIR", &folder);
        test.env(variable, value)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut test = test
            .spawn()
            .with_context(|| format!("cannot run {}", program.path.display()))?;
        let begun = Instant::now();
        let status = loop {
            let status = test.try_wait()?;
            if status.is_some() || begun.elapsed() >= limit {
                break status;
            }
            thread::sleep(Duration::from_millis(2));
        };
        // Also what it has started.
        if let Some(group) = i32::try_from(test.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        test.wait()?;
        let reached = fs::read_to_string(&trace).unwrap_or_default();
        let reached = reached
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect();
        remove(&folder);
        Ok((status.map(|status| status.success()), reached))
    }

    /// Does something with each of these, several at once. Gives what came of it in no particular order.
    pub(crate) fn spread<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        work: impl Fn(T) -> R + Sync,
    ) -> Vec<R> {
        Self::spread_over(self.at_once, items, work)
    }

    /// The same where most of the time is spent waiting for tests that do not end.
    pub(crate) fn spread_wide<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        work: impl Fn(T) -> R + Sync,
    ) -> Vec<R> {
        Self::spread_over(2 * self.at_once, items, work)
    }

    fn spread_over<T: Send, R: Send>(
        at_once: usize,
        items: Vec<T>,
        work: impl Fn(T) -> R + Sync,
    ) -> Vec<R> {
        let (left, done) = (Mutex::new(VecDeque::from(items)), Mutex::new(Vec::new()));
        thread::scope(|threads| {
            for _ in 0..at_once {
                threads.spawn(|| {
                    loop {
                        let next = left
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .pop_front();
                        let Some(next) = next else { return };
                        let result = work(next);
                        done.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(result);
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names of a program's tests, without those that are ignored.
fn tests_of(program: &TestProgram) -> Result<Vec<String>> {
    let list = |more: &[&str]| {
        let mut command = Command::new(&program.path);
        command
            .args(["--list", "--format", "terse"])
            .args(more)
            .current_dir(&program.folder);
        let listed = command
            .output()
            .with_context(|| format!("cannot run {}", program.path.display()))?;
        let names = String::from_utf8(listed.stdout)?;
        let names = names.lines().filter_map(|line| line.strip_suffix(": test"));
        anyhow::Ok(names.map(str::to_owned).collect::<Vec<_>>())
    };
    let ignored = list(&["--ignored"])?;
    Ok(list(&[])?
        .into_iter()
        .filter(|name| !ignored.contains(name))
        .collect())
}

/// A killed process may still be about to write into its folder.
fn remove(folder: &Path) {
    for _ in 0..3 {
        if fs::remove_dir_all(folder).is_ok() {
            return;
        }
    }
}
