//! Creates a new app folder: a small commented app, or a copy of another one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use convoke_model::Name;

use crate::diagnostic::Diagnostics;
use crate::document::Document;
use crate::environment::Secrets;
use crate::folder::{MAX_FILES, main_file};
use crate::origin::Origin;
use crate::source::SourceRange;
use crate::spelling::as_name;

/// The files of the small app, with their paths.
const FILES: [(&str, &str); 4] = [
    ("convoke.yaml", include_str!("../templates/convoke.yaml")),
    (
        "agents/assistant.yaml",
        include_str!("../templates/agents/assistant.yaml"),
    ),
    (
        "config/mcp_servers.yaml",
        include_str!("../templates/config/mcp_servers.yaml"),
    ),
    (
        "evals/create_task.yaml",
        include_str!("../templates/evals/create_task.yaml"),
    ),
];

/// The placeholder for the name in the small app's `convoke.yaml`.
const PLACEHOLDER: &str = "NAME";

/// The files and folders that are copied. Data is not.
const COPIED: [&str; 8] = [
    "convoke.yaml",
    "convoke.yml",
    "convoke.json",
    "agents",
    "workflows",
    "config",
    "evals",
    "README.md",
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

/// Creates an app in `folder`, named after it: a copy of `from`, or a small app. Returns the written
/// files. Nothing is written unless all files can be prepared.
pub fn new_app(folder: &Path, from: Option<&Path>) -> Result<Vec<PathBuf>, ScaffoldError> {
    let name = name_of(folder)?;
    check_is_free(folder)?;
    let files = match from {
        None => FILES
            .iter()
            .map(|(path, text)| {
                (
                    PathBuf::from(path),
                    text.replace(PLACEHOLDER, name.as_str()),
                )
            })
            .map(|(path, text)| (path, text.into_bytes()))
            .collect(),
        Some(from) => copied_files(from, &name)?,
    };
    let mut written = Vec::new();
    for (path, bytes) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(ScaffoldError::io(parent))?;
        }
        fs::write(&path, bytes).map_err(ScaffoldError::io(&path))?;
        written.push(path);
    }
    Ok(written)
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
    let none = |_: &str| Some(String::new());
    let document = Document::read(
        Origin::Folder(from),
        main,
        &none,
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
