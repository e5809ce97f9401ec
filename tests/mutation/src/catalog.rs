//! The mutants that `cargo mutants` lists, in the order in which they stand in the code.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One small change of the code.
pub(crate) struct Mutant {
    pub(crate) id: usize,
    /// File, place and change. It stays the same while the file does.
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    /// Counted from 0.
    pub(crate) column: usize,
    pub(crate) genre: Genre,
    pub(crate) replacement: String,
}

impl Mutant {
    /// What kind of change it is, for those that are counted only.
    pub(crate) fn kind(&self) -> &'static str {
        match self.genre {
            Genre::FnValue => "values that the type of their function does not take",
            Genre::BinaryOperator if self.replacement == "||" => "conditions that bind with `let`",
            Genre::BinaryOperator => "operators in constants, or that their types do not have",
            _ => "patterns that leave a match without an arm",
        }
    }
}

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

/// Reads the output of `cargo mutants --list --json`.
pub(crate) fn read(json: &str) -> Result<Vec<Mutant>> {
    let listed: Vec<Value> = serde_json::from_str(json)?;
    let mutants = listed.iter().enumerate();
    mutants
        .map(|(id, listed)| mutant(id, listed).with_context(|| format!("cannot read {listed}")))
        .collect()
}

fn mutant(id: usize, listed: &Value) -> Result<Mutant> {
    let text = |key: &str| {
        listed[key]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("no {key}"))
    };
    let start = |key: &str| {
        let number = listed["span"]["start"][key]
            .as_u64()
            .with_context(|| format!("no {key}"))?;
        anyhow::Ok(usize::try_from(number)?)
    };
    Ok(Mutant {
        id,
        name: text("name")?,
        file: text("file")?,
        line: start("line")?,
        column: start("column")?
            .checked_sub(1)
            .context("columns are counted from 1")?,
        genre: match text("genre")?.as_str() {
            "FnValue" => Genre::FnValue,
            "BinaryOperator" => Genre::BinaryOperator,
            "UnaryOperator" => Genre::UnaryOperator,
            "MatchArm" => Genre::MatchArm,
            "MatchArmGuard" => Genre::MatchArmGuard,
            "StructField" => Genre::StructField,
            other => bail!("unknown kind of change: {other}"),
        },
        replacement: text("replacement")?,
    })
}
