//! A folder with many problems: all are reported at once, with clear messages.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;

use convoke_app::{App, Diagnostics};

fn broken() -> Diagnostics {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let environment = |name: &str| (name == "NOTES_HOST").then(|| "secret-host.example".to_owned());
    App::load(&folder, &environment).unwrap_err()
}

#[test]
fn every_problem_is_reported_with_its_source_line() {
    insta::assert_snapshot!(broken().pretty());
}

#[test]
fn every_problem_has_a_line_that_editors_can_jump_to() {
    insta::assert_snapshot!(broken().to_string());
}

#[test]
fn no_secret_is_reported() {
    let found = broken();
    let json = serde_json::to_string(&found).unwrap();
    for text in [
        found.pretty(),
        found.to_string(),
        format!("{found:?}"),
        json,
    ] {
        assert!(!text.contains("sk-do-not-print-me"), "{text}");
        assert!(!text.contains("secret-host.example"), "{text}");
    }
}
