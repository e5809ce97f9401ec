//! `convoke check`: everything that is wrong with an app folder, at once.

mod connect;
mod results;

use std::collections::BTreeMap;
use std::path::Path;

use convoke::RuntimeError;
use convoke_app::{App, Bounds, Diagnostic, Diagnostics, Severity};
use serde_json::json;

use crate::cli::CheckArgs;
use crate::exit::Exit;
use crate::output::{self, Text};
use crate::start;

/// Limit of the notes that are printed; JSON has all.
const SHOWN_NOTES: usize = 3;

pub(crate) async fn run(args: &CheckArgs, json: bool) -> anyhow::Result<Exit> {
    let folder = &args.app;
    let reader = start::loader(&args.data);
    let read = if args.connect {
        reader.load_with_evals(folder)
    } else {
        reader.load_to_check(folder)
    };
    match read {
        Ok(loaded) => {
            // What can only be known by building the app is found here, before it is run.
            convoke_flow::Assistant::new(std::sync::Arc::new(loaded.app.clone()))?;
            let app = &loaded.app;
            if args.connect {
                reader.make_data_folder(app);
                let found = connect::check(app).await?;
                if !found.is_empty() {
                    show(folder, &found.into_iter().collect(), json);
                    return Ok(Exit::NotDone);
                }
            }
            let bounds: BTreeMap<_, _> = app
                .workflows
                .iter()
                .map(|workflow| (workflow.name.as_str(), app.bounds(workflow)))
                .collect();
            let shared = app.shared_sentences();
            if json {
                let warnings = loaded.warnings.iter().cloned();
                let diagnostics: Diagnostics = warnings.chain(shared).collect();
                let config = &app.config;
                output::json_line(&json!({
                    "name": config.name, "version": config.version, "description": config.description,
                    "app": folder, "errors": 0, "diagnostics": diagnostics, "workflows": bounds,
                }));
            } else {
                show(folder, &loaded.warnings, json);
                show_notes(&shared);
                for (name, bounds) in &bounds {
                    output::line(at_worst(name, bounds, app));
                }
                let skills: usize = app.agents.iter().map(|agent| agent.skills.len()).sum();
                let cases: usize = app.evals.iter().map(|set| set.cases.len()).sum();
                let mut parts = vec![
                    count(app.agents.len(), "agent"),
                    count(skills, "skill"),
                    count(app.servers.len(), "tool server"),
                    count(cases, "eval case"),
                ];
                if !app.domains.is_empty() {
                    parts.insert(2, count(app.domains.len(), "domain"));
                }
                let fine = format!(" is fine: {}.", parts.join(", "));
                output::line(Text::new().bold(&app.config.name).plain(fine));
            }
            Ok(Exit::Done)
        }
        Err(RuntimeError::App(diagnostics)) => {
            show(folder, &diagnostics, json);
            Ok(Exit::NotDone)
        }
        Err(error) => Err(error.into()),
    }
}

/// Prints some notes, and how many more there are.
fn show_notes(notes: &[Diagnostic]) {
    for note in notes.iter().take(SHOWN_NOTES) {
        output::note(Text::new().revealed(note.pretty()));
    }
    let more = notes.len().saturating_sub(SHOWN_NOTES);
    if more > 0 {
        let more = count(more, "more sentence");
        output::note(format!("{more} in several skills; --json lists all\n"));
    }
}

/// What a workflow takes at worst, in a line.
fn at_worst(name: &str, bounds: &Bounds, app: &App) -> Text {
    let mut parts = vec![count(
        usize::try_from(bounds.tool_calls).unwrap_or(usize::MAX),
        "tool call",
    )];
    for (number, noun) in [
        (bounds.model_calls, "model call"),
        (bounds.questions, "question"),
    ] {
        if number > 0 {
            parts.push(count(usize::try_from(number).unwrap_or(usize::MAX), noun));
        }
    }
    let task = u64::from(app.config.limits.task_seconds);
    let cut = if bounds.seconds > task {
        format!(", cut off at {task} s by task_seconds")
    } else {
        String::new()
    };
    let seconds = bounds.seconds;
    let worst = format!(": at worst {}, {seconds} s{cut}", parts.join(", "));
    Text::from("workflow ").bold(name).plain(worst)
}

/// Prints diagnostics: as JSON to standard output, or for people to standard error.
pub(crate) fn show(folder: &Path, diagnostics: &Diagnostics, json: bool) {
    let errors = diagnostics.count(Severity::Error);
    if json {
        output::json_line(&json!({ "app": folder, "errors": errors, "diagnostics": diagnostics }));
        return;
    }
    for diagnostic in diagnostics {
        output::note(Text::new().revealed(diagnostic.pretty()));
    }
    if errors > 0 {
        let place = format!("{} in {}", count(errors, "error"), folder.display());
        output::note(Text::new().revealed(place));
    }
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}
