//! What was taken for what, and how often: intents for intents, and targets for targets.

use std::collections::BTreeMap;

use super::verdict::Verdict;
use crate::output;

/// What stands where nothing was wanted, or nothing was found.
const NOTHING: &str = "-";

/// A table of the intents and one of the targets, as far as cases speak of them; the right ones in one
/// line each.
pub(super) fn tables(verdicts: &[Verdict]) -> String {
    let intents = verdicts.iter().filter_map(|one| one.intents.as_ref());
    let intents = intents.map(|(wanted, got)| (wanted.as_str(), got.as_str()));
    let targets = verdicts.iter().filter_map(|one| one.chosen.as_ref());
    let targets = targets.flatten().map(|(wanted, found)| {
        let (wanted, found) = (wanted.as_deref(), found.as_deref());
        (wanted.unwrap_or(NOTHING), found.unwrap_or(NOTHING))
    });
    let tables = [table("INTENT", intents), table("TARGET", targets)];
    tables
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn table<'a>(heading: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for pair in pairs {
        *counts.entry(pair).or_default() += 1;
    }
    let rows: Vec<_> = counts
        .into_iter()
        .map(|((wanted, got), count)| {
            let note = if wanted == got { "" } else { "wrong" };
            [
                wanted.to_owned(),
                got.to_owned(),
                count.to_string(),
                note.to_owned(),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| output::table([heading, "FOUND", "CASES", ""], &rows, &[2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_beside_intents_and_what_no_case_speaks_of_is_left_out() {
        let name = |name: &str| Some(name.to_owned());
        let spoken = || Verdict {
            chosen: Some(vec![
                (name("light"), name("light")),
                (name("music"), None),
                (None, name("climate")),
            ]),
            ..Verdict::of("evals/a.yaml", "play in the light")
        };
        let both = Verdict {
            intents: Some(("several".into(), "unknown".into())),
            ..spoken()
        };
        assert_eq!(tables(&[Verdict::of("evals/a.yaml", "hello")]), "");
        assert_eq!(
            tables(&[spoken(), both]),
            "INTENT   FOUND    CASES\n\
             several  unknown      1  wrong\n\n\
             TARGET  FOUND    CASES\n\
             -       climate      2  wrong\n\
             light   light        2\n\
             music   -            2  wrong"
        );
    }
}
