//! Mutation tests without a build per mutant: all mutants are built at once, each behind a switch that a test process is
//! started with. `tests/mutants` prepares the folder that this works on, and says how it is called.
//!
//!     convoke-mutation FOLDER try [--survivors] PACKAGE...
//!     convoke-mutation FOLDER score

mod catalog;
mod runs;
mod switches;
mod tree;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use catalog::Mutant;
use runs::{Runner, Verdict};
use tree::Tree;

/// The file with what is known so far.
const RESULTS: &str = "results.jsonl";

/// What is known of a mutant: a line of `results.jsonl`. The last line about a mutant counts.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MutantResult {
    name: String,
    /// A hash of the file that it changes: another file is another mutant.
    source: u64,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    noticed_by: Option<String>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().context("no folder is given")?);
    match arguments.next().as_deref() {
        Some("score") => {}
        Some("try") => {
            let mut packages: Vec<_> = arguments.collect();
            let survivors = packages.first().is_some_and(|first| first == "--survivors");
            packages.drain(..usize::from(survivors));
            try_all(&folder, survivors, &packages)?;
        }
        _ => bail!("neither `try` nor `score`"),
    }
    let mutants = catalog::read(&fs::read_to_string(folder.join("list.json"))?)?;
    print_score(&mutants, &results(&folder)?);
    Ok(())
}

fn try_all(folder: &Path, survivors: bool, packages: &[String]) -> Result<()> {
    let mutants = catalog::read(&fs::read_to_string(folder.join("list.json"))?)?;
    if mutants.len() > switches::MOST_MUTANTS {
        bail!("there is room for {} mutants only", switches::MOST_MUTANTS);
    }
    let path = folder.join("tree");
    let log = Log::open(folder, &path, &mutants)?;
    let tree = Tree::new(&path, &mutants)?;
    let switched = tree.fit(&mutants, packages)?;
    let runner = Runner::new(folder.join("tmp"))?;
    let tests = runner.trace(tree.build_tests(packages)?)?;
    eprintln!(
        "{} mutants are built, {} tests pass without them",
        switched.len(),
        tests.len()
    );

    let attempt = |mutant: &Mutant, again| {
        let (verdict, test) = runner.attempt(mutant.id, &tests, again)?;
        if verdict != Verdict::Failed {
            eprintln!("{verdict:?}: {}", mutant.name);
        }
        log.note(mutant, verdict, test.map(runs::Test::full_name))
    };
    let mut todo = Vec::new();
    for mutant in &mutants {
        let known = log.known.get(&mutant.name).map(|known| known.verdict);
        if !switched.contains(&mutant.id) {
            log.note(mutant, Verdict::NotBuilt, None)?;
        } else if known.is_none_or(|known| survivors && known != Verdict::Failed) {
            todo.push(mutant);
        }
    }
    runner
        .spread(todo, |mutant| attempt(mutant, false))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    // With more patience, what only a limit has noticed.
    let now_known = results(folder)?;
    let verdict_of = |known: &HashMap<String, MutantResult>, mutant: &Mutant| {
        known.get(&mutant.name).map(|known| known.verdict)
    };
    let limited = mutants.iter().filter(|mutant| {
        let is_new = survivors || verdict_of(&log.known, mutant) != Some(Verdict::Limit);
        verdict_of(&now_known, mutant) == Some(Verdict::Limit) && is_new
    });
    let limited = limited.collect();
    runner
        .spread_wide(limited, |mutant| attempt(mutant, true))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    Ok(())
}

/// Where results are written down, and those of earlier runs that still hold.
struct Log {
    known: HashMap<String, MutantResult>,
    /// The hashes of the files that are changed.
    sources: HashMap<String, u64>,
    file: Mutex<File>,
}

impl Log {
    /// Of a tree without switches.
    fn open(folder: &Path, tree: &Path, mutants: &[Mutant]) -> Result<Self> {
        let mut sources = HashMap::new();
        for mutant in mutants {
            if !sources.contains_key(&mutant.file) {
                let mut hasher = DefaultHasher::new();
                fs::read(tree.join(&mutant.file))?.hash(&mut hasher);
                sources.insert(mutant.file.clone(), hasher.finish());
            }
        }
        let mut known = results(folder)?;
        known.retain(|name, known| {
            let file = name.split_once(':').map_or("", |(file, _)| file);
            sources
                .get(file)
                .is_none_or(|source| *source == known.source)
        });
        let mut file = File::create(folder.join(RESULTS))?;
        for known in known.values() {
            writeln!(file, "{}", serde_json::to_string(known)?)?;
        }
        Ok(Self {
            known,
            sources,
            file: Mutex::new(file),
        })
    }

    fn note(&self, mutant: &Mutant, verdict: Verdict, noticed_by: Option<String>) -> Result<()> {
        let (name, source) = (mutant.name.clone(), self.sources[&mutant.file]);
        let line = serde_json::to_string(&MutantResult {
            name,
            source,
            verdict,
            noticed_by,
        })?;
        writeln!(
            self.file.lock().unwrap_or_else(PoisonError::into_inner),
            "{line}"
        )?;
        Ok(())
    }
}

fn results(folder: &Path) -> Result<HashMap<String, MutantResult>> {
    let lines = fs::read_to_string(folder.join(RESULTS)).unwrap_or_default();
    let results = lines.lines().map(|line| {
        let result: MutantResult = serde_json::from_str(line)?;
        anyhow::Ok((result.name.clone(), result))
    });
    results.collect()
}

fn print_score(mutants: &[Mutant], results: &HashMap<String, MutantResult>) {
    let mut counts = [0; 4];
    let mut kinds = BTreeMap::<&str, usize>::new();
    for mutant in mutants {
        let Some(result) = results.get(&mutant.name) else {
            continue;
        };
        counts[result.verdict as usize] += 1;
        match result.verdict {
            Verdict::Missed => println!("missed: {}", result.name),
            Verdict::Limit => println!("only a limit: {}", result.name),
            Verdict::NotBuilt => *kinds.entry(mutant.kind()).or_default() += 1,
            Verdict::Failed => {}
        }
    }
    let [failed, limit, missed, not_built] = counts;
    println!(
        "{} mutants: a failing test notices {failed}, only a time limit {limit}, nothing {missed}. {not_built} more cannot be built.",
        failed + limit + missed
    );
    for (kind, number) in kinds {
        println!("not built: {number} {kind}");
    }
}
