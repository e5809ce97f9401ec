//! Diagnostics of an app folder: position, problem and help.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::source::{Position, Source, SourceRange};

/// Limit of the excerpt of a source line, in characters.
const MAX_EXCERPT: usize = 120;

/// Whether the app can run despite the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The app cannot be loaded.
    Error,
    /// The app runs, but probably not as intended.
    Warning,
    /// The app runs as it is written, which may surprise.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One problem of an app folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub severity: Severity,
    /// The file, relative to the app folder, with `/` between its parts.
    pub file: String,
    /// Position in the file; absent if the whole file is meant.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Stable code, such as `app.unknown_key` or the code of a rule.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Lines that somebody else wrote about it, such as the error output of a tool server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    #[serde(skip)]
    excerpt: Option<Excerpt>,
}

/// The source line of a diagnostic.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Excerpt {
    line: String,
    /// Characters before the caret.
    before: usize,
    /// Characters under the caret.
    width: usize,
}

impl Diagnostic {
    /// A diagnostic of a whole file.
    pub(crate) fn of_file(
        severity: Severity,
        file: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            file: file.into(),
            position: None,
            code,
            message: message.into(),
            help: None,
            output: Vec::new(),
            excerpt: None,
        }
    }

    /// A diagnostic at a position in a file.
    pub(crate) fn at(
        severity: Severity,
        source: &Source,
        place: SourceRange,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            position: Some(place.start),
            excerpt: Excerpt::of(source, place),
            ..Self::of_file(severity, source.file(), code, message)
        }
    }

    /// Adds how to fix it.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Drops the source line, because it may contain a secret.
    pub(crate) fn without_excerpt(mut self) -> Self {
        self.excerpt = None;
        self
    }

    /// Applies `change` to every text of the diagnostic, for example to hide secrets.
    pub(crate) fn map_texts(mut self, change: impl Fn(&str) -> String) -> Self {
        self.message = change(&self.message);
        self.help = self.help.map(|help| change(&help));
        for line in &mut self.output {
            *line = change(line);
        }
        self
    }

    /// Several lines: message, position, source line with a caret, output and help.
    pub fn pretty(&self) -> String {
        let mut text = format!("{}[{}]: {}\n", self.severity, self.code, self.message);
        let gutter = self
            .position
            .map_or(1, |position| position.line.to_string().len());
        let at = self
            .position
            .map(|position| format!(":{position}"))
            .unwrap_or_default();
        let _ = writeln!(text, "{:gutter$}--> {}{at}", "", self.file);
        if let (Some(position), Some(excerpt)) = (self.position, &self.excerpt) {
            let _ = writeln!(text, "{:gutter$} |", "");
            let _ = writeln!(text, "{} | {}", position.line, excerpt.line);
            let caret = "^".repeat(excerpt.width);
            let _ = writeln!(
                text,
                "{:gutter$} | {:before$}{caret}",
                "",
                "",
                before = excerpt.before
            );
        }
        if !self.output.is_empty() {
            let _ = writeln!(text, "{:gutter$} = its error output ends with:", "");
            for line in &self.output {
                let _ = writeln!(text, "{:gutter$} |   {line}", "");
            }
        }
        if let Some(help) = &self.help {
            let _ = writeln!(text, "{:gutter$} = help: {help}", "");
        }
        text
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(position) = self.position {
            write!(f, ":{position}")?;
        }
        write!(f, ": {}[{}]: {}", self.severity, self.code, self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl Excerpt {
    fn of(source: &Source, place: SourceRange) -> Option<Self> {
        let line: Vec<char> = source.line(place.start.line)?.chars().collect();
        let column = (place.start.column - 1).min(line.len());
        let end = if place.end.line == place.start.line {
            place.end.column - 1
        } else {
            line.len()
        };
        let first = column.saturating_sub(MAX_EXCERPT / 2);
        let last = line.len().min(first + MAX_EXCERPT);
        let shown = line[first..last]
            .iter()
            .map(|&character| {
                if character.is_control() {
                    ' '
                } else {
                    character
                }
            })
            .collect();
        let width = end.min(last).saturating_sub(column).max(1);
        Some(Self {
            line: shown,
            before: column - first,
            width,
        })
    }
}

/// The diagnostics of an app folder, ordered by file and position.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(transparent)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Diagnostics(Vec<Diagnostic>);

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(diagnostics: I) -> Self {
        Self(diagnostics.into_iter().collect()).sorted()
    }
}

impl Diagnostics {
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    pub(crate) fn extend(&mut self, others: impl IntoIterator<Item = Diagnostic>) {
        self.0.extend(others);
    }

    /// Sorts by file and position and removes duplicates.
    pub(crate) fn sorted(mut self) -> Self {
        self.0.sort_by(|a, b| {
            (&a.file, a.position, a.severity, a.code, &a.message)
                .cmp(&(&b.file, b.position, b.severity, b.code, &b.message))
        });
        self.0.dedup();
        self
    }

    /// Whether any of them prevents the app from running.
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// Whether any of them is an error in this file.
    pub(crate) fn has_errors_in(&self, file: &str) -> bool {
        let mut found = self.0.iter();
        found.any(|problem| problem.severity == Severity::Error && problem.file == file)
    }

    /// The number with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.0
            .iter()
            .filter(|diagnostic| diagnostic.severity == severity)
            .count()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All diagnostics in long form, separated by empty lines, with a summary as the last line.
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        for diagnostic in &self.0 {
            let _ = writeln!(text, "{}", diagnostic.pretty());
        }
        text.push_str(&self.summary());
        text.push('\n');
        text
    }

    /// The number of errors and warnings, as text.
    pub fn summary(&self) -> String {
        let of = |severity: Severity| {
            let count = self.count(severity);
            format!("{count} {severity}{}", if count == 1 { "" } else { "s" })
        };
        format!("{}, {}", of(Severity::Error), of(Severity::Warning))
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_key(line: &str, column: usize, width: usize) -> Diagnostic {
        let source = Source::new("agents/todo.yaml", format!("\n{line}\n"));
        let place = SourceRange {
            start: Position { line: 2, column },
            end: Position {
                line: 2,
                column: column + width,
            },
        };
        Diagnostic::at(
            Severity::Error,
            &source,
            place,
            "app.unknown_key",
            "unknown key `tols`",
        )
        .help("did you mean `tools`?")
    }

    #[test]
    fn a_diagnostic_is_one_line_that_editors_can_jump_to() {
        assert_eq!(
            unknown_key("  tols: []", 3, 4).to_string(),
            "agents/todo.yaml:2:3: error[app.unknown_key]: unknown key `tols`; did you mean `tools`?"
        );
    }

    #[test]
    fn the_pretty_form_shows_the_line_with_a_caret() {
        assert_eq!(
            unknown_key("  tols: []", 3, 4).pretty(),
            "error[app.unknown_key]: unknown key `tols`\n \
             --> agents/todo.yaml:2:3\n  |\n2 |   tols: []\n  |   ^^^^\n  = help: did you mean `tools`?\n"
        );
    }

    #[test]
    fn a_very_long_line_is_cut_around_its_caret() {
        let line = format!("{}tols{}", "x".repeat(5_000), "y".repeat(5_000));
        let pretty = unknown_key(&line, 5_001, 4).pretty();
        assert!(pretty.len() < 500, "{pretty}");
        assert!(pretty.contains("xtolsy"), "{pretty}");
    }

    #[test]
    fn the_json_form_is_flat() {
        let json = serde_json::to_value(unknown_key("  tols: []", 3, 4)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "severity": "error", "file": "agents/todo.yaml", "line": 2, "column": 3,
                "code": "app.unknown_key", "message": "unknown key `tols`",
                "help": "did you mean `tools`?",
            })
        );
    }
}
