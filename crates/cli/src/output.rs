//! Everything that is printed: results to standard output, the rest to standard error, colour only
//! where a person looks.

use std::io::{IsTerminal, Write};

use convoke::RuntimeError;
use convoke_engine::EngineError;
use convoke_flow::FlowError;
use convoke_model::Invalid;
use convoke_store::StoreError;
use serde::Serialize;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::exit::{BrokenApp, Exit, UsageError};

/// Prints a line of what was asked for. A closed pipe is no error: whoever read has read enough.
pub(crate) fn line(text: impl std::fmt::Display) {
    let mut out = anstream::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

/// Prints a value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(text),
        Err(error) => note(format!("this cannot be written as JSON: {error}")),
    }
}

/// Rows under headings, each column as wide as it needs to be. Columns named in `right` are numbers.
pub(crate) fn table<const N: usize>(
    headings: [&str; N],
    rows: &[[String; N]],
    right: &[usize],
) -> String {
    let mut widths = headings.map(str::width);
    for row in rows {
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

/// The beginning of a text, where all of it would take too much room.
pub(crate) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Prints something for a person, beside the result.
pub(crate) fn note(text: impl std::fmt::Display) {
    let mut out = anstream::stderr().lock();
    let _ = writeln!(out, "{text}");
}

/// Whether a person is looking at what goes beside the result.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Tells an error and gives its exit code.
pub(crate) fn report(as_json: bool, error: &anyhow::Error, exit: Exit) -> std::process::ExitCode {
    // What is wrong with an app has been shown in full by whoever loaded it.
    if !error.is::<BrokenApp>() {
        let code = code_of(error);
        if as_json {
            json_line(&json!({ "error": { "code": code, "message": format!("{error:#}") } }));
        } else {
            note(format!("error[{code}]: {error:#}"));
        }
    }
    exit.into()
}

fn code_of(error: &anyhow::Error) -> &'static str {
    if let Some(usage) = error.downcast_ref::<UsageError>() {
        return usage.code;
    }
    if let Some(invalid) = error.downcast_ref::<Invalid>() {
        return invalid
            .problems
            .first()
            .map_or("invalid", |problem| problem.code);
    }
    if let Some(runtime) = error.downcast_ref::<RuntimeError>() {
        return runtime.code();
    }
    if let Some(flow) = error.downcast_ref::<FlowError>() {
        return flow.code();
    }
    if let Some(engine) = error.downcast_ref::<EngineError>() {
        return engine.code();
    }
    if let Some(store) = error.downcast_ref::<StoreError>() {
        return store.code();
    }
    "internal"
}
