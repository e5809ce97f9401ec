//! `convoke schema`: the JSON Schema of every type that Convoke reads or writes.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::exit::{Exit, UsageError};
use crate::output;

/// Writes the schemas of an app's files into its folder.
pub(crate) fn write(app: &Path, json: bool) -> anyhow::Result<Exit> {
    if !app.is_dir() {
        let message = format!("there is no folder {}", app.display());
        return Err(UsageError::new("schema.no_folder", message).into());
    }
    let mut written = Vec::new();
    for (path, text) in convoke_app::editor_schemas() {
        let path = app.join(path);
        let folder = path.parent().unwrap_or(app);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| {
                let message = format!("{} cannot be written: {error}", path.display());
                UsageError::new("schema.unwritable", message)
            })?;
        written.push(path);
    }
    if json {
        output::json_line(&json!({ "app": app, "files": written }));
        return Ok(Exit::Done);
    }
    for file in &written {
        output::line(format!("made {}", file.display()));
    }
    for (begin, _) in convoke_app::FILE_SCHEMAS {
        let path = if begin.ends_with('/') {
            format!("{begin}*.yaml")
        } else {
            format!("{begin}yaml")
        };
        if let Some(line) = convoke_app::schema_line(&path) {
            output::note(format!("first line of {path}: {line}"));
        }
    }
    Ok(Exit::Done)
}

pub(crate) fn run(name: Option<&str>, json: bool) -> anyhow::Result<Exit> {
    let schemas = convoke_app::schemas();
    let Some(name) = name else {
        let names: Vec<_> = schemas.iter().map(|(name, _)| name.as_ref()).collect();
        if json {
            output::json_line(&names);
        } else {
            output::line(names.join("\n"));
        }
        return Ok(Exit::Done);
    };
    let found = schemas
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, schema)) = found else {
        let nearest = schemas
            .iter()
            .map(|(known, _)| known.as_ref())
            .min_by_key(|known: &&str| {
                strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase())
            });
        return Err(UsageError::new(
            "schema.unknown",
            format!(
                "there is no type `{name}`; did you mean `{}`? `convoke schema` lists all",
                nearest.unwrap_or_default()
            ),
        )
        .into());
    };
    if json {
        output::json_line(schema);
    } else {
        output::json_lines(schema);
    }
    Ok(Exit::Done)
}
