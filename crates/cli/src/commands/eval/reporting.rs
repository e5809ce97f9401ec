//! What is told of one configuration: the cases that are wrong, and the measures against their bar.

use serde_json::{Value, json};

use super::measuring::{Measure, passed, percent, right_in_everything};
use super::verdict::Verdict;
use crate::output::{self, Text, TextStyle};

/// What came of the cases, as data. Measures that no case speaks of are among it, with no cases.
pub(super) fn data(verdicts: &[Verdict], measures: &[Measure]) -> Value {
    json!({ "passed": passed(measures), "measures": measures, "cases": verdicts })
}

/// What came of the cases, for people.
pub(super) fn show(verdicts: &[Verdict], measures: &[Measure]) {
    for verdict in verdicts.iter().filter(|verdict| !verdict.is_right()) {
        let case = format!(" {} {:?}", verdict.file, verdict.case);
        output::line(Text::new().add(TextStyle::Red, "wrong").plain(case));
        for wrong in &verdict.wrong {
            output::line(format!("      {wrong}"));
        }
    }
    output::line(table(measures));
    let right = right_in_everything(verdicts);
    output::line(format!(
        "{right} of {} cases are right in everything",
        verdicts.len()
    ));
}

/// The measures that a case speaks of.
fn table(measures: &[Measure]) -> String {
    let rows: Vec<_> = measures
        .iter()
        .filter(|measure| measure.cases > 0)
        .map(|measure| {
            [
                measure.name.to_owned(),
                measure.cases.to_string(),
                measure.right.to_string(),
                percent(measure.share),
                percent(measure.bar),
                if measure.passed {
                    "passed"
                } else {
                    "below the bar"
                }
                .to_owned(),
            ]
        })
        .collect();
    output::table(
        ["MEASURE", "CASES", "RIGHT", "SHARE", "BAR", ""],
        &rows,
        &[1, 2, 3, 4],
    )
}
