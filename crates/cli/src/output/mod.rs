//! All printing: results to standard output, the rest to standard error, colours only on a terminal. No other file
//! writes to either, so everything printed is escaped here.

mod failure;
mod text;
mod visible;

use std::fmt::Display;
use std::io::{IsTerminal, Stderr, Stdout, Write};
use std::sync::LazyLock;

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::exit::{BrokenApp, Exit};
pub(crate) use failure::{FailureReport, failed_task, warning};
pub(crate) use text::{Text, TextStyle};
use visible::Escapes;

/// Whether standard output takes colours: a terminal does, unless the environment says otherwise.
static COLOURED: LazyLock<bool> =
    LazyLock::new(|| AutoStream::choice(&stdout()) != ColorChoice::Never);

/// Whether standard error does.
static ERRORS_COLOURED: LazyLock<bool> =
    LazyLock::new(|| AutoStream::choice(&stderr()) != ColorChoice::Never);

#[expect(clippy::disallowed_methods, reason = "this is where it is printed")]
fn stdout() -> Stdout {
    std::io::stdout()
}

#[expect(clippy::disallowed_methods, reason = "this is where it is printed")]
fn stderr() -> Stderr {
    std::io::stderr()
}

/// Prints a line of the result. A closed pipe is no error.
pub(crate) fn line(text: impl Into<Text>) {
    print(&text.into(), "\n");
}

/// Prints a part of a line.
pub(crate) fn part(text: impl Into<Text>) {
    print(&text.into(), "");
}

fn print(text: &Text, end: &str) {
    print_as_it_is(&text.rendered(*COLOURED), end);
}

fn print_as_it_is(text: &str, end: &str) {
    let mut out = stdout().lock();
    let _ = write!(out, "{text}{end}");
    let _ = out.flush();
}

/// Prints a value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) {
    print_json(serde_json::to_string(value));
}

/// Prints a value as JSON for people, on many lines.
pub(crate) fn json_lines(value: &impl Serialize) {
    print_json(serde_json::to_string_pretty(value));
}

fn print_json(text: serde_json::Result<String>) {
    match text {
        Ok(text) => print_as_it_is(&visible::escaped(text, Escapes::Json), "\n"),
        Err(error) => note(format!("this cannot be written as JSON: {error}")),
    }
}

/// A value as JSON, for a line of its own.
pub(crate) fn json_text(value: &impl Display) -> String {
    visible::escaped(value.to_string(), Escapes::Json)
}

/// Prints YAML whose strings are written as JSON has them.
pub(crate) fn yaml(text: String) {
    print_as_it_is(&visible::escaped(text, Escapes::Yaml), "\n");
}

/// Prints a question, with invisible characters shown by name.
pub(crate) fn question(prompt: &str) {
    line(Text::new().revealed(prompt));
}

/// Rows under headings, each column as wide as it needs to be. Columns named in `right` are numbers.
pub(crate) fn table<const N: usize>(
    headings: [&str; N],
    rows: &[[String; N]],
    right: &[usize],
) -> String {
    // A cell is one line, and as wide as it is shown.
    let rows: Vec<[String; N]> = rows
        .iter()
        .map(|row| row.each_ref().map(|cell| visible::in_one_line(cell)))
        .collect();
    let mut widths = headings.map(str::width);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let aligned = |cells: [&str; N]| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let space = " ".repeat(widths[column] - cell.width());
            let gap = if column == 0 { "" } else { "  " };
            let (before, after) = if right.contains(&column) {
                (space, String::new())
            } else {
                (String::new(), space)
            };
            text.extend([gap, &before, cell, &after]);
        }
        text.trim_end().to_owned()
    };
    let mut lines = vec![aligned(headings)];
    lines.extend(
        rows.iter()
            .map(|row| aligned(row.each_ref().map(String::as_str))),
    );
    lines.join("\n")
}

/// The start of a text in one line, if it is too long.
pub(crate) fn short(text: &str, most: usize) -> String {
    cut(visible::in_one_line(text), most)
}

/// The start of a text that a person decides by: invisible characters are shown by name.
pub(crate) fn short_revealed(text: &str, most: usize) -> String {
    cut(visible::in_one_line(&visible::revealed(text)), most)
}

fn cut(text: String, most: usize) -> String {
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Prints a note for a person, besides the result.
pub(crate) fn note(text: impl Into<Text>) {
    let text = text.into().rendered(*ERRORS_COLOURED);
    let _ = writeln!(stderr().lock(), "{text}");
}

/// Prints a line of the log.
pub(crate) fn log_line(time: &str, level: (TextStyle, &str), words: &str) {
    note(log_text(time, level, words));
}

/// Prints an entry of the log as JSON.
pub(crate) fn log_json(entry: &impl Display) {
    note(json_text(entry));
}

/// A log entry in a single line.
fn log_text(time: &str, (look, level): (TextStyle, &str), words: &str) -> Text {
    let words = visible::revealed(words).replace('\n', "\\n");
    Text::new()
        .dimmed(time)
        .plain(" ")
        .add(look, format!("{level:>5}"))
        .plain(" ")
        .plain(words)
}

/// Whether standard output is a terminal.
pub(crate) fn is_read_by_a_person() -> bool {
    stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn is_watched() -> bool {
    stderr().is_terminal()
}

/// A text that is printed in pieces, split anywhere.
#[derive(Debug, Default)]
pub(crate) struct StreamedText {
    /// The last character was a carriage return, which may be the first half of a line end.
    returned: bool,
}

impl StreamedText {
    pub(crate) fn print(&mut self, piece: &str) {
        let before = if self.returned { "\r" } else { "" };
        let text = format!("{before}{piece}");
        self.returned = text.ends_with('\r');
        part(text.strip_suffix('\r').unwrap_or(&text));
    }

    /// Ends the line.
    pub(crate) fn end(&mut self) {
        self.returned = false;
        line("");
    }
}

/// Prints an error and returns its exit code.
pub(crate) fn report(as_json: bool, error: &anyhow::Error, exit: Exit) -> std::process::ExitCode {
    // The problems of an app were printed when it was loaded.
    if !error.is::<BrokenApp>() {
        let failure = FailureReport::of(error);
        if as_json {
            json_line(&json!({ "error": failure }));
        } else {
            if let Some(text) = &failure.text {
                note(text);
            }
            note(failure.in_words(""));
        }
    }
    exit.into()
}

/// The code of a command line that cannot be read.
const USAGE: &str = "cli.usage";

/// Prints an error of the command line, or its help.
pub(crate) fn refuse(as_json: bool, refusal: &clap::Error) -> std::process::ExitCode {
    use clap::error::ErrorKind;
    let is_help = matches!(
        refusal.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        // It contains only our own text.
        let _ = refusal.print();
    } else {
        let rendered = refusal.render().to_string();
        let words = rendered.trim_end();
        let words = words.strip_prefix("error: ").unwrap_or(words);
        if as_json {
            let failure = json!({ "code": USAGE, "message": words });
            json_line(&json!({ "error": failure }));
        } else {
            note(Text::new().revealed(format!("error[{USAGE}]: {words}")));
        }
    }
    u8::try_from(refusal.exit_code()).map_or(Exit::Usage.into(), Into::into)
}

/// Prints the location of a panic.
pub(crate) fn panicked(panic: &std::panic::PanicHookInfo<'_>) {
    note(Text::new().revealed(panic));
    let trace = std::backtrace::Backtrace::capture();
    if trace.status() == std::backtrace::BacktraceStatus::Captured {
        note(trace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line_and_as_wide_as_it_is_shown() {
        let rows = [
            ["a\u{1b}\n".to_owned(), "1".to_owned()],
            ["b".to_owned(), "22".to_owned()],
        ];
        assert_eq!(
            table(["A", "B"], &rows, &[1]),
            "A            B\na<U+001B>    1\nb           22"
        );
    }

    #[test]
    fn a_line_of_the_log_is_one_line() {
        let line = log_text(
            "12:00",
            (TextStyle::Red, "WARN"),
            "one\n12:01 ERROR \u{1b}\u{200b}",
        );
        assert_eq!(
            line.rendered(false),
            "12:00  WARN one\\n12:01 ERROR <U+001B><U+200B>"
        );
    }

    #[test]
    fn a_text_is_cut_after_it_was_made_safe() {
        assert_eq!(short("a\nb\u{9b}c", 6), "a b<U…");
        assert_eq!(short("a\u{200b}b", 6), "a\u{200b}b");
        assert_eq!(short_revealed("a\u{200b}b", 20), "a<U+200B>b");
    }
}
