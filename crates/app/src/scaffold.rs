//! Creates a new app folder: from a starter, or as a copy of another app.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use convoke_model::Name;

use crate::diagnostic::Diagnostics;
use crate::document::Document;
use crate::environment::{Secrets, Variables};
use crate::folder::{MAX_FILES, main_file};
use crate::origin::Origin;
use crate::schema::{editor_schemas, schema_line};
use crate::source::SourceRange;
use crate::spelling::{as_name, one_of};
use crate::starters::{STARTERS, Starter};

/// The files and folders that are copied. Data is not.
const COPIED: [&str; 10] = [
    "convoke.yaml",
    "convoke.yml",
    "convoke.json",
    "agents",
    "workflows",
    "config",
    "evals",
    "tools",
    "README.md",
    ".gitignore",
];

/// Limit of nested folders in an app that is copied.
const MAX_COPY_DEPTH: usize = 8;

/// Why no app was created.
#[derive(Debug, thiserror::Error)]
pub enum ScaffoldError {
    /// The folder's name is not a valid app name.
    #[error("`{name}` cannot be the name of an app; {advice}")]
    BadName {
        /// What was asked for.
        name: String,
        /// What to write instead.
        advice: String,
    },
    /// The folder is not empty.
    #[error("`{}` is not empty; choose a new folder", .0.display())]
    NotEmpty(PathBuf),
    /// The path is a file.
    #[error("`{}` is a file; choose a new folder", .0.display())]
    NotAFolder(PathBuf),
    /// There is no such starter.
    #[error("there is no starter `{name}`; {advice}")]
    UnknownStarter {
        /// What was asked for.
        name: String,
        /// What there is.
        advice: String,
    },
    /// The app to copy is not an app.
    #[error("`{}` is not an app that can be copied: {reason}", folder.display())]
    NotAnApp {
        /// What was to be copied.
        folder: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("`{}` cannot be read or written: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ScaffoldError {
    /// A stable code for scripts.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadName { .. } => "scaffold.bad_name",
            Self::NotEmpty(_) => "scaffold.not_empty",
            Self::NotAFolder(_) => "scaffold.not_a_folder",
            Self::UnknownStarter { .. } => "scaffold.unknown_starter",
            Self::NotAnApp { .. } => "scaffold.not_an_app",
            Self::Io { .. } => "scaffold.io",
        }
    }

    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// What a new app is made from.
#[derive(Debug, Clone, Copy)]
pub enum AppSource<'a> {
    /// A starter, by its name.
    Starter(&'a str),
    /// Another app.
    App(&'a Path),
}

/// Creates an app in `folder`, named after it. Returns the written files. Nothing is written unless all files can be
/// prepared.
pub fn new_app(folder: &Path, source: AppSource<'_>) -> Result<Vec<PathBuf>, ScaffoldError> {
    let name = name_of(folder)?;
    check_is_free(folder)?;
    let files = match source {
        AppSource::Starter(starter) => starter_files(starter, &name)?,
        AppSource::App(from) => copied_files(from, &name)?,
    };
    let schemas = editor_schemas();
    let mut written = Vec::new();
    for (path, bytes) in files.into_iter().chain(schemas) {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(ScaffoldError::io(parent))?;
        }
        fs::write(&path, bytes).map_err(ScaffoldError::io(&path))?;
        written.push(path);
    }
    Ok(written)
}

/// The files of a starter. A line in each names its schema to editors.
fn starter_files(starter: &str, name: &Name) -> Result<Vec<(PathBuf, Vec<u8>)>, ScaffoldError> {
    let found = Starter::named(starter).ok_or_else(|| {
        let names = STARTERS.map(|starter| starter.name);
        ScaffoldError::UnknownStarter {
            name: starter.to_owned(),
            advice: format!("there are {}", one_of(&names)),
        }
    })?;
    let files = found.texts(name.as_str()).map(|(path, text)| {
        let text = match schema_line(path) {
            Some(line) => format!("{line}\n{text}"),
            None => text,
        };
        (PathBuf::from(path), text.into_bytes())
    });
    Ok(files.collect())
}

fn name_of(folder: &Path) -> Result<Name, ScaffoldError> {
    let name = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    Name::new(&name).map_err(|_| {
        let advice = match as_name(&name) {
            Some(suggestion) => format!("try `{suggestion}`"),
            None => "use lower-case letters, digits and `_`, starting with a letter".to_owned(),
        };
        ScaffoldError::BadName { name, advice }
    })
}

fn check_is_free(folder: &Path) -> Result<(), ScaffoldError> {
    if folder.is_file() {
        return Err(ScaffoldError::NotAFolder(folder.to_owned()));
    }
    if !folder.exists() {
        return Ok(());
    }
    let mut entries = fs::read_dir(folder).map_err(ScaffoldError::io(folder))?;
    if entries.next().is_some() {
        Err(ScaffoldError::NotEmpty(folder.to_owned()))
    } else {
        Ok(())
    }
}

fn copied_files(from: &Path, name: &Name) -> Result<Vec<(PathBuf, Vec<u8>)>, ScaffoldError> {
    let not_an_app = |reason: String| ScaffoldError::NotAnApp {
        folder: from.to_owned(),
        reason,
    };
    let main = main_file(from).ok_or_else(|| not_an_app("it has no convoke.yaml".to_owned()))?;
    let mut paths = Vec::new();
    for entry in COPIED {
        collect(from, Path::new(entry), 0, &mut paths)?;
    }
    if paths.len() > MAX_FILES {
        return Err(not_an_app(format!("it has more than {MAX_FILES} files")));
    }
    let mut files = Vec::new();
    for path in paths {
        let bytes = if path == Path::new(&main) {
            renamed(from, &main, name)
                .map_err(&not_an_app)?
                .into_bytes()
        } else {
            let full = from.join(&path);
            fs::read(&full).map_err(ScaffoldError::io(&full))?
        };
        files.push((path, bytes));
    }
    Ok(files)
}

fn collect(
    from: &Path,
    path: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), ScaffoldError> {
    let full = from.join(path);
    if full.is_file() {
        found.push(path.to_owned());
    } else if full.is_dir() && depth < MAX_COPY_DEPTH {
        let mut names = Vec::new();
        for entry in fs::read_dir(&full).map_err(ScaffoldError::io(&full))? {
            names.push(entry.map_err(ScaffoldError::io(&full))?.file_name());
        }
        names.sort();
        for name in names {
            collect(from, &path.join(name), depth + 1, found)?;
        }
    }
    Ok(())
}

/// The text of `convoke.yaml` with the name replaced.
fn renamed(from: &Path, main: &str, name: &Name) -> Result<String, String> {
    let mut problems = Diagnostics::default();
    let document = Document::read(
        Origin::Folder(from),
        main,
        &Variables::EMPTY,
        &mut Secrets::default(),
        &mut problems,
    );
    let Some(document) = document else {
        return Err(problems.to_string());
    };
    let Some((_, place)) = document.written_text("/name") else {
        return Err(format!("{main} has no name"));
    };
    Ok(replaced(
        document.source.text(),
        place,
        &format!("\"{name}\""),
    ))
}

fn replaced(text: &str, place: SourceRange, by: &str) -> String {
    let mut result = String::with_capacity(text.len() + by.len());
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if index + 1 == place.start.line {
            let end = if place.end.line == place.start.line {
                place.end.column
            } else {
                usize::MAX
            };
            result.extend(line.chars().take(place.start.column - 1));
            result.push_str(by);
            result.extend(line.chars().skip(end - 1));
        } else {
            result.push_str(line);
        }
    }
    result
}
