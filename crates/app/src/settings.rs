//! Settings files that belong to no app: read, filled in from the environment and checked like the files of one.

use std::path::Path;

use convoke_model::Rules;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Document;
use crate::environment::{Secrets, Variables};
use crate::origin::Origin;

/// Reads a settings file, or reports everything that is wrong with it.
pub fn read_settings<T>(
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<T, Diagnostics>
where
    T: Rules + DeserializeOwned + JsonSchema,
{
    let mut problems = Diagnostics::default();
    let mut secrets = Secrets::default();
    let (folder, name) = (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    );
    let (Some(folder), Some(name)) = (folder, name) else {
        let file = path.to_string_lossy().into_owned();
        let message = "the path names no file";
        let error = Diagnostic::of_file(Severity::Error, file, "app.file_unreadable", message);
        problems.add(error);
        return Err(problems);
    };
    let origin = Origin::Folder(folder);
    let variables = Variables {
        environment,
        missing: Severity::Error,
    };
    let document = Document::read(origin, name, &variables, &mut secrets, &mut problems);
    let parsed = document.map(|document| document.parse_whole::<T>(&secrets, &mut problems));
    match parsed.and_then(|parsed| parsed.fields) {
        Some(settings) if !problems.has_errors() => Ok(settings),
        _ => Err(problems.sorted()),
    }
}
