//! The body of the fuzz target `app_folder`.

use std::collections::BTreeSet;
use std::path::Path;

use crate::app::App;
use crate::contents::Purpose;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::origin::{AppFiles, Origin};

/// Precedes the path in the line before each file.
const HEADING: &str = "=== ";

/// Reads an app. Every problem must have a position in its file, and an app without problems must load
/// again from its stored files as the same app. Says whether it was such an app.
pub fn app_folder(input: &[u8]) -> bool {
    let files = files_of(&String::from_utf8_lossy(input));
    let (is_app, problems) = match read(&files, Purpose::Check) {
        Ok(loaded) => {
            assert!(!loaded.warnings.has_errors(), "{}", loaded.warnings);
            assert_is_kept(&loaded.app);
            (true, loaded.warnings)
        }
        Err(problems) => {
            assert!(problems.has_errors(), "refused for no reason");
            (false, problems)
        }
    };
    for problem in &problems {
        assert_ne!(problem.code, "app.incomplete", "{problem}");
        assert_has_place(problem, &files);
    }
    assert!(
        problems
            .pretty()
            .ends_with(&format!("{}\n", problems.summary()))
    );
    is_app
}

fn read(files: &AppFiles, purpose: Purpose) -> Result<crate::app::LoadedApp, Diagnostics> {
    let environment = |name: &str| (name == "KEY").then(|| "a-secret-value".to_owned());
    let servers = BTreeSet::new();
    App::read(
        Path::new("app"),
        Origin::Stored(files),
        &environment,
        purpose,
        &servers,
    )
}

/// Splits the input into files: a heading with the path, then the lines.
fn files_of(text: &str) -> AppFiles {
    let mut files = AppFiles::new();
    let mut file: Option<&mut String> = None;
    for line in text.split_inclusive('\n') {
        match (line.strip_prefix(HEADING), &mut file) {
            (Some(path), _) => file = Some(files.entry(path.trim().to_owned()).or_default()),
            (None, Some(text)) => text.push_str(line),
            (None, None) => {}
        }
    }
    files
}

fn assert_is_kept(app: &App) {
    match read(&app.files, Purpose::Run) {
        Ok(stored) => {
            assert_eq!(stored.app.hash, app.hash, "another app is stored");
            assert_eq!(stored.app.files, app.files, "other files are stored");
        }
        Err(problems) => assert!(
            !problems.has_errors(),
            "the stored app cannot be read: {problems}"
        ),
    }
}

fn assert_has_place(problem: &Diagnostic, files: &AppFiles) {
    let Some(position) = problem.position else {
        return;
    };
    let Some(text) = files.get(&problem.file) else {
        assert_eq!(
            problem.severity,
            Severity::Error,
            "a place in no file: {problem}"
        );
        return;
    };
    // A line ends at LF, CR or CR LF. The end of the file is a position too.
    let lines = text.replace("\r\n", "\n").split(['\n', '\r']).count();
    assert!(
        (1..=lines + 1).contains(&position.line),
        "no such line: {problem}"
    );
    assert!(position.column >= 1, "no such column: {problem}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_corpus_folder_loads_or_reports_positions() {
        convoke_testkit::replay("app_folder", super::app_folder);
    }
}
