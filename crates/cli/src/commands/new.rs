//! `convoke new`: a folder that runs as it is and is there to be changed.

use std::path::Path;

use convoke_app::{AppSource, EDITOR_SCHEMAS, STARTERS, Starter};
use serde_json::json;

use crate::cli::NewArgs;
use crate::exit::{Exit, UsageError};
use crate::output;

pub(crate) fn run(args: &NewArgs, json: bool) -> anyhow::Result<Exit> {
    if args.list {
        list(json);
        return Ok(Exit::Done);
    }
    let Some(dir) = &args.dir else {
        let message = "name the folder to make, or list the starters with --list";
        return Err(UsageError::new("scaffold.no_folder", message).into());
    };
    let starter = args.starter.as_deref().unwrap_or(STARTERS[0].name);
    let source = match &args.from {
        Some(app) => AppSource::App(app),
        None => AppSource::Starter(starter),
    };
    let made = convoke_app::new_app(dir, source)
        .map_err(|error| UsageError::new(error.code(), error.to_string()))?;
    if json {
        output::json_line(&json!({ "app": dir, "files": made }));
        return Ok(Exit::Done);
    }
    let schemas = dir.join(EDITOR_SCHEMAS);
    for file in made.iter().filter(|file| !file.starts_with(&schemas)) {
        output::line(format!("made {}", file.display()));
    }
    output::line(format!("made {}, for editors", schemas.display()));
    if args.from.is_none()
        && let Some(starter) = Starter::named(starter)
    {
        let dir = shown(dir);
        output::note(format!("Try: convoke run {dir} \"{}\"", starter.request));
    }
    Ok(Exit::Done)
}

fn list(json: bool) {
    if json {
        for starter in &STARTERS {
            let Starter {
                name, description, ..
            } = starter;
            output::json_line(&json!({ "starter": name, "description": description }));
        }
    } else {
        let rows = STARTERS.map(|starter| [starter.name.into(), starter.description.into()]);
        output::line(output::table(["STARTER", "WHAT IT SHOWS"], &rows, &[]));
    }
}

/// A folder as it is written on a command line.
fn shown(dir: &Path) -> String {
    let dir = dir.display().to_string();
    if dir.contains(char::is_whitespace) {
        format!("'{dir}'")
    } else {
        dir
    }
}
