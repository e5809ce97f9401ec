//! Trains the local decision engine on CLINC150 and measures accuracy, refusals, calibration and time,
//! on one thread.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use convoke_decide::{Entry, LocalDecider, LocalDecision, Options, Verdict};
use serde::{Deserialize, Serialize};

/// The parts of CLINC150, each a list of utterances with their intents.
#[derive(Debug, Deserialize)]
struct Clinc {
    train: Vec<(String, String)>,
    val: Vec<(String, String)>,
    oos_train: Vec<(String, String)>,
    oos_val: Vec<(String, String)>,
}

/// The measurements.
#[derive(Debug, Serialize)]
struct Measured {
    examples: usize,
    training_seconds: f64,
    training_cpu_seconds: f64,
    in_scope_accuracy: f64,
    in_scope_right_at_threshold: f64,
    out_of_scope_refused: f64,
    expected_calibration_error: f64,
    decide_median_microseconds: f64,
    decide_p99_microseconds: f64,
    thousand_patterns_median_microseconds: f64,
    small_catalogues: Vec<SmallCatalogues>,
}

/// Small catalogues without out-of-scope examples, averaged over draws. They have no required minimum;
/// they show what a typical app can expect.
#[derive(Debug, Serialize)]
struct SmallCatalogues {
    draws: usize,
    entries: usize,
    examples_each: usize,
    in_scope_accuracy: f64,
    in_scope_right_at_threshold: f64,
    wrong_at_threshold: f64,
    others_refused: f64,
}

/// A required minimum or maximum.
struct Bound {
    what: &'static str,
    measured: f64,
    at_least: Option<f64>,
    below: Option<f64>,
}

/// Trains on `train` and `oos_train` of the file `data`, measures on `val` and `oos_val`, prints the
/// results, and fails if a bound is missed.
pub(crate) fn run(data: &Path, json: bool) -> anyhow::Result<()> {
    let text =
        std::fs::read_to_string(data).with_context(|| format!("cannot read {}", data.display()))?;
    let clinc: Clinc = serde_json::from_str(&text)
        .with_context(|| format!("{} is not CLINC150 as JSON", data.display()))?;
    let measured = measure(&clinc)?;
    print(&measured, json)?;
    let missed: Vec<String> = bounds(&measured).iter().filter_map(Bound::missed).collect();
    if !missed.is_empty() {
        bail!("bounds missed: {}", missed.join("; "));
    }
    Ok(())
}

fn measure(clinc: &Clinc) -> anyhow::Result<Measured> {
    let mut examples: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (utterance, intent) in &clinc.train {
        examples.entry(intent).or_default().push(utterance.clone());
    }
    let entries = entries_of(&examples, usize::MAX);
    let out_of_scope: Vec<String> = clinc
        .oos_train
        .iter()
        .map(|(text, _)| text.clone())
        .collect();
    let count = clinc.train.len() + out_of_scope.len();
    let started = Instant::now();
    let busy_before = busy_seconds();
    let decider = build(
        &entries,
        Options {
            out_of_scope,
            ..Options::default()
        },
    )?;
    let training_seconds = started.elapsed().as_secs_f64();
    let training_cpu_seconds = match (busy_before, busy_seconds()) {
        (Some(before), Some(after)) => after - before,
        _ => training_seconds,
    };

    let mut microseconds = Vec::new();
    let mut outcomes = Vec::new();
    for (utterance, intent) in clinc.val.iter().chain(&clinc.oos_val) {
        let started = Instant::now();
        let decision = decider.decide(utterance);
        microseconds.push(started.elapsed().as_secs_f64() * 1e6);
        let truth = examples
            .contains_key(intent.as_str())
            .then_some(intent.as_str());
        outcomes.push(DecisionOutcome::new(&decision, truth));
    }
    microseconds.sort_by(f64::total_cmp);
    let quantile = |share: usize| microseconds[(microseconds.len() - 1) * share / 100];
    let inside = |one: &DecisionOutcome| one.in_scope;
    Ok(Measured {
        examples: count,
        training_seconds,
        training_cpu_seconds,
        in_scope_accuracy: share(&outcomes, inside, |one| one.right),
        in_scope_right_at_threshold: share(&outcomes, inside, |one| one.right && one.chosen),
        out_of_scope_refused: share(&outcomes, |one| !one.in_scope, |one| !one.chosen),
        expected_calibration_error: calibration_error(&outcomes),
        decide_median_microseconds: quantile(50),
        decide_p99_microseconds: quantile(99),
        thousand_patterns_median_microseconds: thousand_patterns(clinc)?,
        small_catalogues: [(3, 10), (6, 15), (20, 30)]
            .into_iter()
            .map(|(entries, each)| small_catalogues(clinc, &examples, entries, each))
            .collect::<anyhow::Result<_>>()?,
    })
}

/// The median decision time with 1,000 patterns that share most of their words; half of the texts match
/// one.
fn thousand_patterns(clinc: &Clinc) -> anyhow::Result<f64> {
    const PLACES: [&str; 10] = [
        "kitchen", "hall", "garden", "cellar", "attic", "garage", "office", "bedroom", "bathroom",
        "balcony",
    ];
    const THINGS: [&str; 10] = [
        "light", "lamp", "fan", "blind", "heater", "door", "window", "radio", "socket", "camera",
    ];
    let verbs = [
        "turn on", "turn off", "dim", "open", "close", "check", "lock", "unlock", "reset", "name",
    ];
    let mut entries = Vec::new();
    let mut texts = Vec::new();
    for (place, thing) in PLACES
        .iter()
        .flat_map(|place| THINGS.map(|thing| (place, thing)))
    {
        let sentences =
            verbs.map(|verb| format!("{verb} [the] {thing} (in|of) [the] {place} [at {{time}}]"));
        texts.push(format!(
            "please {} the {thing} in the {place} at half past nine",
            verbs[texts.len() % 10]
        ));
        entries.push(Entry {
            name: format!("{place}_{thing}"),
            sentences: sentences.to_vec(),
            ..Entry::default()
        });
    }
    let decider = build(&entries, Options::default())?;
    let misses = clinc
        .val
        .iter()
        .step_by(30)
        .map(|(utterance, _)| utterance.as_str());
    let mut microseconds = Vec::new();
    for text in texts.iter().map(String::as_str).chain(misses) {
        let started = Instant::now();
        let decision = decider.decide(text);
        microseconds.push(started.elapsed().as_secs_f64() * 1e6);
        if text.starts_with("please ")
            && text.ends_with("half past nine")
            && decision.chosen().is_none()
        {
            bail!("`{text}` should have matched a pattern");
        }
    }
    microseconds.sort_by(f64::total_cmp);
    Ok(microseconds[microseconds.len() / 2])
}

/// CPU seconds of this thread, if the system reports them. In contrast to wall-clock time, they do not
/// depend on other programs.
fn busy_seconds() -> Option<f64> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

/// The result of one decision.
struct DecisionOutcome {
    in_scope: bool,
    right: bool,
    chosen: bool,
    confidence: f64,
}

impl DecisionOutcome {
    fn new(decision: &LocalDecision, truth: Option<&str>) -> Self {
        let best = decision.candidates.first();
        Self {
            in_scope: truth.is_some(),
            right: truth.is_some() && best.map(|candidate| candidate.entry.as_str()) == truth,
            chosen: decision.verdict == Verdict::Chosen,
            confidence: best.map_or(0.0, |candidate| candidate.confidence),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the numbers of a benchmark are small"
)]
fn share(
    outcomes: &[DecisionOutcome],
    of: impl Fn(&DecisionOutcome) -> bool,
    that: impl Fn(&DecisionOutcome) -> bool,
) -> f64 {
    let all = outcomes.iter().filter(|one| of(one)).count();
    let such = outcomes.iter().filter(|one| of(one) && that(one)).count();
    such as f64 / all.max(1) as f64
}

/// The expected calibration error: the weighted difference between confidence and accuracy, over ten
/// bins of confidence.
#[expect(
    clippy::cast_precision_loss,
    reason = "the numbers of a benchmark are small"
)]
fn calibration_error(outcomes: &[DecisionOutcome]) -> f64 {
    let mut gaps = [0.0f64; 10];
    for one in outcomes {
        let upper = |bin: usize| (bin + 1) as f64 / 10.0;
        let bin = (0..9).find(|&bin| one.confidence < upper(bin)).unwrap_or(9);
        gaps[bin] += one.confidence - f64::from(u8::from(one.right));
    }
    gaps.iter().map(|gap| gap.abs()).sum::<f64>() / outcomes.len() as f64
}

fn small_catalogues(
    clinc: &Clinc,
    examples: &BTreeMap<&str, Vec<String>>,
    entries: usize,
    examples_each: usize,
) -> anyhow::Result<SmallCatalogues> {
    const DRAWS: usize = 15;
    let intents: Vec<&str> = examples.keys().copied().collect();
    let mut outcomes = Vec::new();
    for draw in 0..DRAWS {
        // Even steps through the alphabetical list mix the topics.
        let drawn: BTreeMap<&str, Vec<String>> = (0..entries)
            .map(|place| intents[(draw * 7 + place * (intents.len() / entries)) % intents.len()])
            .map(|intent| (intent, examples[intent].clone()))
            .collect();
        let decider = build(&entries_of(&drawn, examples_each), Options::default())?;
        for (utterance, intent) in clinc.val.iter().chain(&clinc.oos_val) {
            let truth = drawn
                .contains_key(intent.as_str())
                .then_some(intent.as_str());
            outcomes.push(DecisionOutcome::new(&decider.decide(utterance), truth));
        }
    }
    let inside = |one: &DecisionOutcome| one.in_scope;
    Ok(SmallCatalogues {
        draws: DRAWS,
        entries,
        examples_each,
        in_scope_accuracy: share(&outcomes, inside, |one| one.right),
        in_scope_right_at_threshold: share(&outcomes, inside, |one| one.right && one.chosen),
        wrong_at_threshold: share(&outcomes, inside, |one| !one.right && one.chosen),
        others_refused: share(&outcomes, |one| !one.in_scope, |one| !one.chosen),
    })
}

/// Entries with at most `limit` examples each, evenly selected.
fn entries_of(examples: &BTreeMap<&str, Vec<String>>, limit: usize) -> Vec<Entry> {
    examples
        .iter()
        .map(|(name, examples)| Entry {
            name: (*name).to_owned(),
            examples: examples
                .iter()
                .step_by((examples.len() / limit).max(1))
                .take(limit)
                .cloned()
                .collect(),
            ..Entry::default()
        })
        .collect()
}

fn build(entries: &[Entry], options: Options) -> anyhow::Result<LocalDecider> {
    let decider = LocalDecider::build(entries, options).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("the catalogue is not sound: {}", problems.join("; "))
    })?;
    // Training is measured separately, and no decision may wait for it.
    decider.train();
    Ok(decider)
}

fn bounds(measured: &Measured) -> [Bound; 6] {
    let floor = |what, measured, least| Bound {
        what,
        measured,
        at_least: Some(least),
        below: None,
    };
    let ceiling = |what, measured, limit| Bound {
        what,
        measured,
        at_least: None,
        below: Some(limit),
    };
    [
        floor("in-scope accuracy", measured.in_scope_accuracy, 0.93),
        floor(
            "in scope right at the threshold",
            measured.in_scope_right_at_threshold,
            0.90,
        ),
        floor("out of scope refused", measured.out_of_scope_refused, 0.60),
        ceiling(
            "training seconds on one core",
            measured.training_cpu_seconds,
            2.0,
        ),
        ceiling(
            "median microseconds of a decision",
            measured.decide_median_microseconds,
            100.0,
        ),
        ceiling(
            "median microseconds over 1,000 patterns",
            measured.thousand_patterns_median_microseconds,
            100.0,
        ),
    ]
}

impl Bound {
    fn missed(&self) -> Option<String> {
        let Self {
            what,
            measured,
            at_least,
            below,
        } = self;
        if let Some(least) = at_least
            && measured < least
        {
            return Some(format!("{what} is {measured:.4}, must be at least {least}"));
        }
        if let Some(limit) = below
            && measured >= limit
        {
            return Some(format!("{what} is {measured:.3}, must be below {limit}"));
        }
        None
    }
}

#[expect(clippy::print_stdout, reason = "the program prints its results")]
fn print(measured: &Measured, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(measured)?);
        return Ok(());
    }
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let rows = [
        ("examples", measured.examples.to_string()),
        (
            "training, time on the core",
            format!("{:.2} s", measured.training_cpu_seconds),
        ),
        (
            "training, wall clock",
            format!("{:.2} s", measured.training_seconds),
        ),
        ("in-scope accuracy", percent(measured.in_scope_accuracy)),
        (
            "in scope right at the threshold",
            percent(measured.in_scope_right_at_threshold),
        ),
        (
            "out of scope refused",
            percent(measured.out_of_scope_refused),
        ),
        (
            "expected calibration error",
            percent(measured.expected_calibration_error),
        ),
        (
            "decide, median",
            format!("{:.1} µs", measured.decide_median_microseconds),
        ),
        (
            "decide, 99th percentile",
            format!("{:.1} µs", measured.decide_p99_microseconds),
        ),
        (
            "decide over 1,000 patterns, median",
            format!("{:.1} µs", measured.thousand_patterns_median_microseconds),
        ),
    ];
    for (what, value) in rows {
        println!("{what:<36}{value:>12}");
    }
    println!("\nsmall catalogues, no out-of-scope examples");
    for small in &measured.small_catalogues {
        println!(
            "{:>3} entries with {} examples: accuracy {}, at the threshold {} right and {} wrong, \
             everything else refused {}",
            small.entries,
            small.examples_each,
            percent(small.in_scope_accuracy),
            percent(small.in_scope_right_at_threshold),
            percent(small.wrong_at_threshold),
            percent(small.others_refused),
        );
    }
    Ok(())
}
