//! What came of the cases, as build servers read it.

use std::fmt::Write as _;

use super::verdict::Verdict;

/// The verdicts as a `JUnit` report, a suite for each file.
pub(super) fn report(app: &str, verdicts: &[Verdict]) -> String {
    let wrong = |verdicts: &[&Verdict]| {
        let wrong = verdicts.iter().filter(|verdict| !verdict.wrong.is_empty());
        wrong.count()
    };
    let all: Vec<&Verdict> = verdicts.iter().collect();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\">",
        escaped(app),
        all.len(),
        wrong(&all)
    );
    let mut files: Vec<&str> = verdicts
        .iter()
        .map(|verdict| verdict.file.as_str())
        .collect();
    files.dedup();
    for file in files {
        let own: Vec<&Verdict> = verdicts
            .iter()
            .filter(|verdict| verdict.file == file)
            .collect();
        let (number, failures) = (own.len(), wrong(&own));
        let name = escaped(file);
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{name}\" tests=\"{number}\" failures=\"{failures}\">"
        );
        for verdict in own {
            let case = escaped(&verdict.case);
            let _ = write!(xml, "    <testcase classname=\"{name}\" name=\"{case}\"");
            if verdict.wrong.is_empty() {
                xml.push_str("/>\n");
                continue;
            }
            let message = escaped(&verdict.wrong.join("; "));
            let text = escaped(&format!("said: {}\nreply: {}", verdict.said, verdict.reply));
            let _ = writeln!(
                xml,
                ">\n      <failure message=\"{message}\">{text}</failure>\n    </testcase>"
            );
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// A text as it may stand in XML; what may not stand there at all is left out.
fn escaped(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => clean.push_str("&amp;"),
            '<' => clean.push_str("&lt;"),
            '>' => clean.push_str("&gt;"),
            '"' => clean.push_str("&quot;"),
            '\n' => clean.push_str("&#10;"),
            '\t' => clean.push(' '),
            '\u{fffe}' | '\u{ffff}' => {}
            control if control.is_control() => {}
            plain => clean.push(plain),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wrong_stands_beside_its_case_and_nothing_breaks_the_xml() {
        let verdict = |case: &str, wrong: &[&str]| Verdict {
            case: case.into(),
            wrong: wrong.iter().map(|text| (*text).to_owned()).collect(),
            ..Verdict::of("evals/a.yaml", "say <this> & \"that\"\u{7}\u{1b}\u{ffff}")
        };
        let report = report("app", &[verdict("one", &[]), verdict("<two>", &["a & b"])]);
        assert!(report.contains("tests=\"2\" failures=\"1\""), "{report}");
        assert!(report.contains("name=\"&lt;two&gt;\""), "{report}");
        assert!(report.contains("message=\"a &amp; b\""), "{report}");
        assert!(
            report.contains("said: say &lt;this&gt; &amp; &quot;that&quot;&#10;"),
            "{report}"
        );
        assert!(
            !report.contains(['\u{7}', '\u{1b}', '\u{ffff}']),
            "{report}"
        );
    }
}
