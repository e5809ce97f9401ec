//! How many cases are right, measure by measure, and whether that reaches the app's bar.

use convoke_app::EvalBar;
use serde::Serialize;

use super::verdict::Verdict;

/// One measure over all cases that speak of it.
#[derive(Debug, Serialize)]
pub(super) struct Measure {
    pub(super) name: &'static str,
    pub(super) cases: usize,
    pub(super) right: usize,
    pub(super) share: f64,
    pub(super) bar: f64,
    pub(super) passed: bool,
}

#[expect(clippy::cast_precision_loss, reason = "nobody writes that many cases")]
fn measure(name: &'static str, results: impl Iterator<Item = bool>, bar: f64) -> Measure {
    let results: Vec<bool> = results.collect();
    let right = results.iter().filter(|right| **right).count();
    let share = if results.is_empty() {
        1.0
    } else {
        right as f64 / results.len() as f64
    };
    Measure {
        name,
        cases: results.len(),
        right,
        share,
        bar,
        passed: share >= bar,
    }
}

/// What is read off a case for one measure.
type Result = fn(&Verdict) -> Option<bool>;

/// All measures, also those that no case speaks of. Where a model decides everything, only what was done
/// is measured.
pub(super) fn measures(verdicts: &[Verdict], bar: &EvalBar, by_model: bool) -> Vec<Measure> {
    let all: [(&str, Result, f64); 6] = [
        ("intents", |one| one.intent, bar.intents),
        ("targets", |one| one.targets, bar.targets),
        ("slots", |one| one.slots, bar.slots),
        ("calls", |one| one.calls, bar.calls),
        ("replies", |one| one.reply_fits, bar.replies),
        ("answers", |one| one.answer_fits, bar.answers),
    ];
    all.into_iter()
        .filter(|(name, ..)| !by_model || *name == "calls")
        .map(|(name, result, bar)| measure(name, verdicts.iter().filter_map(result), bar))
        .collect()
}

/// Whether every measure reaches its bar.
pub(super) fn passed(measures: &[Measure]) -> bool {
    measures.iter().all(|measure| measure.passed)
}

/// A share as people read it.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// How many cases are right in everything.
pub(super) fn right_in_everything(verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|verdict| verdict.is_right()).count()
}
