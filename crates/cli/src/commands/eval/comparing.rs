//! Two configurations side by side: how they measure up, and the cases that only one of them got right.

use serde::Serialize;
use serde_json::{Value, json};

use super::measuring::{Measure, passed, percent, right_in_everything};
use super::reporting;
use super::verdict::Verdict;
use crate::output;

/// What came of the cases with one configuration.
pub(super) struct Outcome {
    /// The configuration in words.
    pub(super) configuration: String,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) measures: Vec<Measure>,
}

/// One measure of both.
#[derive(Debug, Serialize)]
struct SideBySide {
    name: &'static str,
    cases: usize,
    first: f64,
    second: f64,
    /// By how much the second is better; below 0 the first is.
    difference: f64,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    First,
    Second,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// A case that only one of the two got right, and what the other made of it.
#[derive(Debug, Serialize)]
struct DifferingCase<'a> {
    file: &'a str,
    case: &'a str,
    said: &'a str,
    right: Side,
    /// What the other said.
    reply: &'a str,
    wrong: &'a [String],
}

fn side_by_side(first: &Outcome, second: &Outcome) -> Vec<SideBySide> {
    let both = first.measures.iter().zip(&second.measures);
    both.map(|(first, second)| SideBySide {
        name: first.name,
        cases: first.cases,
        first: first.share,
        second: second.share,
        difference: second.share - first.share,
    })
    .collect()
}

fn partings<'a>(first: &'a Outcome, second: &'a Outcome) -> Vec<DifferingCase<'a>> {
    let both = first.verdicts.iter().zip(&second.verdicts);
    both.filter_map(|(first, second)| {
        let (right, other) = match (first.is_right(), second.is_right()) {
            (true, false) => (Side::First, second),
            (false, true) => (Side::Second, first),
            _ => return None,
        };
        Some(DifferingCase {
            file: &other.file,
            case: &other.case,
            said: &other.said,
            right,
            reply: &other.reply,
            wrong: &other.wrong,
        })
    })
    .collect()
}

/// Both side by side, as data. Whether it is passed goes by the first.
pub(super) fn data(first: &Outcome, second: &Outcome) -> Value {
    let one = |outcome: &Outcome| {
        let mut data = reporting::data(&outcome.verdicts, &outcome.measures);
        data["configuration"] = json!(outcome.configuration);
        data
    };
    json!({
        "passed": passed(&first.measures),
        "measures": side_by_side(first, second),
        "only_one_right": partings(first, second),
        "first": one(first),
        "second": one(second),
    })
}

/// Both side by side, for people.
pub(super) fn show(first: &Outcome, second: &Outcome) {
    output::line(format!("first   {}", first.configuration));
    output::line(format!("second  {}", second.configuration));
    output::line(format!("\n{}\n", table(&side_by_side(first, second))));
    for parting in partings(first, second) {
        let (right, other) = (parting.right.word(), parting.right.other().word());
        let DifferingCase { file, case, .. } = parting;
        output::line(format!("only the {right} is right: {file} {case:?}"));
        output::line(format!("      the {other} said {:?}", parting.reply));
        for wrong in parting.wrong {
            output::line(format!("      {wrong}"));
        }
    }
    for measure in first.measures.iter().filter(|measure| !measure.passed) {
        let Measure {
            name, share, bar, ..
        } = measure;
        let (share, bar) = (percent(*share), percent(*bar));
        output::line(format!(
            "the first is below its bar in {name}: {share} of {bar}"
        ));
    }
    let (all, right) = (first.verdicts.len(), right_in_everything(&first.verdicts));
    let other = right_in_everything(&second.verdicts);
    output::line(format!(
        "{right} of {all} cases are right in everything with the first, {other} with the second"
    ));
}

/// The measures that a case speaks of.
fn table(measures: &[SideBySide]) -> String {
    let rows: Vec<_> = measures
        .iter()
        .filter(|measure| measure.cases > 0)
        .map(|measure| {
            [
                measure.name.to_owned(),
                measure.cases.to_string(),
                percent(measure.first),
                percent(measure.second),
                points(measure.difference),
            ]
        })
        .collect();
    output::table(
        ["MEASURE", "CASES", "FIRST", "SECOND", "DIFFERENCE"],
        &rows,
        &[1, 2, 3, 4],
    )
}

/// Percentage points, with a sign unless there is no difference to see.
fn points(difference: f64) -> String {
    let text = format!("{:+.1}", difference * 100.0);
    match text.as_str() {
        "+0.0" | "-0.0" => "0.0".to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use convoke_app::EvalBar;

    use super::super::measuring::measures;
    use super::*;

    fn outcome(name: &str, intents: &[bool]) -> Outcome {
        let verdict = |(number, right): (usize, &bool)| Verdict {
            reply: format!("{name} says {number}"),
            intent: Some(*right),
            wrong: if *right {
                Vec::new()
            } else {
                vec!["intent".into()]
            },
            ..Verdict::of("evals/a.yaml", &format!("case {number}"))
        };
        let verdicts: Vec<_> = intents.iter().enumerate().map(verdict).collect();
        Outcome {
            configuration: name.to_owned(),
            measures: measures(&verdicts, &EvalBar::default(), false),
            verdicts,
        }
    }

    #[test]
    fn a_difference_is_what_the_second_does_better() {
        let first = outcome("first", &[true, true, false, false]);
        let second = outcome("second", &[true, false, false, false]);
        assert_eq!(
            table(&side_by_side(&first, &second)),
            "MEASURE  CASES   FIRST  SECOND  DIFFERENCE\n\
             intents      4  50.0 %  25.0 %       -25.0"
        );
        assert_eq!(points(0.031), "+3.1");
        assert_eq!(points(-0.000_1), "0.0");
    }

    #[test]
    fn a_case_that_only_one_got_right_is_reported_with_the_other_answer() {
        let first = outcome("first", &[true, true, false, false]);
        let second = outcome("second", &[true, false, true, false]);
        let told = data(&first, &second);
        let parted = told["only_one_right"].as_array().unwrap();
        assert_eq!(parted.len(), 2, "{told}");
        assert_eq!(parted[0]["right"], "first");
        assert_eq!(parted[0]["reply"], "second says 1");
        assert_eq!(parted[1]["right"], "second");
        assert_eq!(parted[1]["reply"], "first says 2");
        assert_eq!(parted[1]["wrong"], json!(["intent"]));
    }

    #[test]
    fn whether_it_is_passed_goes_by_the_first() {
        let (good, bad) = (outcome("good", &[true]), outcome("bad", &[false]));
        assert_eq!(data(&good, &bad)["passed"], true);
        assert_eq!(data(&bad, &good)["passed"], false);
        assert_eq!(data(&bad, &good)["second"]["passed"], true);
    }
}
