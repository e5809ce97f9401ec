//! The copy of the workspace that the mutants are built into, and the tests that come of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::catalog::Mutant;
use crate::switches::{self, SWITCH, SWITCH_MODULE};

/// A test program of the copy.
pub(crate) struct TestProgram {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The folder of its package, where its tests run.
    pub(crate) folder: PathBuf,
}

/// A copy of the workspace.
pub(crate) struct Tree {
    /// As they were copied, without switches.
    sources: BTreeMap<String, String>,
    path: PathBuf,
}

impl Tree {
    /// Of a copy that has the files of the mutants without switches.
    pub(crate) fn new(path: &Path, mutants: &[Mutant]) -> Result<Self> {
        let files: BTreeSet<_> = mutants.iter().map(|mutant| mutant.file.clone()).collect();
        let roots: BTreeSet<_> = files.iter().filter_map(|file| root(file)).collect();
        let sources = files.union(&roots).map(|file| {
            let source = fs::read_to_string(path.join(file))
                .with_context(|| format!("cannot read {file}"))?;
            Ok((file.clone(), source))
        });
        Ok(Self {
            sources: sources.collect::<Result<_>>()?,
            path: path.to_owned(),
        })
    }

    /// Writes all mutants that build into the copy. Gives those: what does not compile with its switch is left out.
    pub(crate) fn fit(&self, mutants: &[Mutant], packages: &[String]) -> Result<BTreeSet<usize>> {
        let mut left_out = BTreeSet::new();
        loop {
            let switched = self.write(mutants, &left_out)?;
            let refused = self.refused(packages)?;
            if refused.is_empty() {
                return Ok(switched);
            }
            if refused.is_subset(&left_out) {
                bail!("the code does not compile, and no mutant is the cause");
            }
            eprintln!("{} mutants do not compile", refused.len());
            left_out.extend(refused);
        }
    }

    fn write(&self, mutants: &[Mutant], left_out: &BTreeSet<usize>) -> Result<BTreeSet<usize>> {
        let roots: BTreeSet<_> = self.sources.keys().filter_map(|file| root(file)).collect();
        let mut switched = BTreeSet::new();
        for (file, source) in &self.sources {
            let of_file = mutants
                .iter()
                .filter(|mutant| mutant.file == *file && !left_out.contains(&mutant.id));
            let of_file: Vec<_> = of_file.collect();
            let (mut code, found) =
                switches::write(source, &of_file).with_context(|| file.clone())?;
            if roots.contains(file) {
                code.push_str(SWITCH_MODULE);
            }
            let path = self.path.join(file);
            // A file that stays as it is keeps its time, so that its crate is not built again.
            if fs::read_to_string(&path)? != code {
                fs::write(&path, code)?;
            }
            switched.extend(found);
        }
        Ok(switched)
    }

    /// The mutants at which the compiler finds errors.
    fn refused(&self, packages: &[String]) -> Result<BTreeSet<usize>> {
        let (built, messages) = self.cargo("check", &[], packages)?;
        if built {
            return Ok(BTreeSet::new());
        }
        let errors = messages
            .iter()
            .map(|message| &message["message"])
            .filter(|message| message["level"] == "error");
        let refused = errors.flat_map(|error| {
            let not_exhaustive = error["code"]["code"] == "E0004";
            let spans = error["spans"].as_array().into_iter().flatten();
            let primary = spans.filter(|span| span["is_primary"] == true);
            primary.filter_map(move |span| self.switch_near(span, not_exhaustive))
        });
        let refused: BTreeSet<_> = refused.collect();
        if refused.is_empty() {
            bail!("the code does not compile, and no mutant is the cause");
        }
        Ok(refused)
    }

    /// The switch whose mutant an error lies in, or else the nearest before it, which causes it. A match is not exhaustive
    /// because of a switch after the place that the compiler names.
    fn switch_near(&self, mut span: &Value, not_exhaustive: bool) -> Option<usize> {
        while span["expansion"]["span"].is_object() {
            span = &span["expansion"]["span"];
        }
        let code = fs::read(self.path.join(span["file_name"].as_str()?)).ok()?;
        let at = usize::try_from(span["byte_start"].as_u64()?).ok()?;
        let (before, after) = code.split_at_checked(at)?;
        let (_, number) = if not_exhaustive {
            std::str::from_utf8(after)
                .ok()?
                .split_once(&format!("if !{SWITCH}"))?
        } else {
            let before = std::str::from_utf8(before).ok()?;
            let mut around = before.rmatch_indices(SWITCH);
            let around = around.find(|(start, _)| is_in_block(&before[*start..]));
            match around {
                Some((start, _)) => before.split_at_checked(start + SWITCH.len())?,
                None => before.rsplit_once(SWITCH)?,
            }
        };
        number.split_once(')')?.0.parse().ok()
    }

    /// Builds the tests of some packages.
    pub(crate) fn build_tests(&self, packages: &[String]) -> Result<Vec<TestProgram>> {
        let (built, messages) = self.cargo("test", &["--no-run"], packages)?;
        if !built {
            bail!("the tests do not build");
        }
        let artifacts = messages
            .iter()
            .filter(|message| message["profile"]["test"] == true);
        let programs = artifacts.filter_map(|artifact| {
            let manifest = Path::new(artifact["manifest_path"].as_str()?);
            let target = &artifact["target"];
            let kind = target["kind"][0].as_str().filter(|kind| *kind != "test");
            let folder = manifest.parent()?.to_owned();
            Some(TestProgram {
                name: [target["name"].as_str()?, kind.unwrap_or_default()]
                    .join(" ")
                    .trim_end()
                    .to_owned(),
                path: artifact["executable"].as_str()?.into(),
                folder,
            })
        });
        Ok(programs.collect())
    }

    fn cargo(
        &self,
        command: &str,
        options: &[&str],
        packages: &[String],
    ) -> Result<(bool, Vec<Value>)> {
        let mut cargo = Command::new("cargo");
        cargo
            .args([command, "--message-format=json"])
            .args(options)
            .current_dir(&self.path);
        for package in packages {
            cargo.args(["-p", package]);
        }
        // Builds without debug information are quicker and smaller.
        cargo
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0")
            .env_remove("CARGO_TARGET_DIR");
        let output = cargo
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        let lines = String::from_utf8(output.stdout)?;
        let messages = lines
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Ok((output.status.success(), messages.collect()))
    }
}

/// Whether the block after a switch is still open at the end of the code. Braces in texts are in pairs.
fn is_in_block(code: &str) -> bool {
    let Some(block) = code.split_once(") { ") else {
        return false;
    };
    let mut open = 1;
    for byte in block.1.bytes() {
        match byte {
            b'{' => open += 1,
            b'}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return false;
        }
    }
    true
}

/// The root of the crate that a file belongs to.
fn root(file: &str) -> Option<String> {
    let (package, _) = file.split_once("/src/")?;
    Some(format!("{package}/src/lib.rs"))
}
