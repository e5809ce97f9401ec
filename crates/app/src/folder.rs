//! The files of an app folder and their kinds.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::origin::Origin;
use crate::spelling::{nearest, one_of};

/// Limit of files in an app folder.
pub const MAX_FILES: usize = 1_000;

/// File extensions of an app's files.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Folders in which every file has the same kind.
const COLLECTIONS: [&str; 3] = ["agents", "workflows", "evals"];

/// The folder of files that exist at most once.
const CONFIG: &str = "config";

/// File stems in `config/`.
const CONFIG_FILES: [&str; 5] = [
    "mcp_servers",
    "domains",
    "channels",
    "style_guide",
    "retention_policy",
];

/// File stem of the required file.
const MAIN: &str = "convoke";

/// The files of an app folder, by their path relative to it.
#[derive(Debug, Default)]
pub(crate) struct Files {
    singles: BTreeMap<&'static str, String>,
    collections: BTreeMap<&'static str, Vec<String>>,
}

impl Files {
    /// The file of a kind that exists at most once, such as `convoke` or `domains`.
    pub(crate) fn single(&self, stem: &str) -> Option<&str> {
        self.singles.get(stem).map(String::as_str)
    }

    /// The files of a folder, sorted by name.
    pub(crate) fn collection(&self, folder: &str) -> &[String] {
        self.collections
            .get(folder)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }
}

/// Lists an app folder. Unexpected files are reported.
pub(crate) fn survey(origin: Origin<'_>, problems: &mut Diagnostics) -> Files {
    let mut survey = Survey {
        origin,
        files: Files::default(),
        count: 0,
        problems,
    };
    survey.root();
    survey.config();
    for collection in COLLECTIONS {
        survey.collection(collection);
    }
    survey.files
}

/// The folder's `convoke.*` file, if it has one.
pub(crate) fn main_file(folder: &Path) -> Option<String> {
    let names = EXTENSIONS.map(|extension| format!("{MAIN}.{extension}"));
    names.into_iter().find(|name| folder.join(name).is_file())
}

struct Survey<'a> {
    origin: Origin<'a>,
    files: Files,
    count: usize,
    problems: &'a mut Diagnostics,
}

impl Survey<'_> {
    fn root(&mut self) {
        let Some(entries) = self.entries("") else {
            return;
        };
        let folders = [&COLLECTIONS[..], &[CONFIG]].concat();
        for (name, is_folder) in entries {
            let (stem, extension) = split(&name);
            if is_folder {
                if !folders.contains(&name.as_str())
                    && let Some(near) = nearest(&name, folders.iter().copied())
                {
                    self.report_unknown(&format!("{name}/"), &format!("did you mean `{near}/`?"));
                }
            } else if stem == MAIN && EXTENSIONS.contains(&extension) {
                self.add_single(MAIN, &name);
            } else if EXTENSIONS.contains(&extension) {
                let help = match nearest(stem, CONFIG_FILES.iter().copied().chain([MAIN])) {
                    Some(MAIN) => format!("did you mean `{MAIN}.yaml`?"),
                    Some(near) => format!("did you mean `{CONFIG}/{near}.yaml`?"),
                    None => format!(
                        "move it into {}",
                        one_of(&["agents/", "workflows/", "evals/"])
                    ),
                };
                self.report_unknown(&name, &help);
            }
        }
        if self.files.single(MAIN).is_none() {
            self.problems.add(
                Diagnostic::of_file(
                    Severity::Error,
                    "convoke.yaml",
                    "app.file_missing",
                    "the file is missing; this folder is not an app",
                )
                .help("write a `convoke.yaml` with at least `name: my_app`"),
            );
        }
    }

    fn config(&mut self) {
        for (name, is_folder) in self.entries(CONFIG).unwrap_or_default() {
            let (stem, extension) = split(&name);
            let known = CONFIG_FILES.iter().find(|known| **known == stem);
            match known {
                Some(known) if !is_folder && EXTENSIONS.contains(&extension) => {
                    self.add_single(known, &format!("{CONFIG}/{name}"));
                }
                _ if is_documentation(&name) => {}
                _ => {
                    let names = CONFIG_FILES.map(|file| format!("{file}.yaml"));
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let help = match nearest(stem, CONFIG_FILES) {
                        Some(near) => format!("did you mean `{near}.yaml`?"),
                        None => format!("the files here are {}", one_of(&names)),
                    };
                    self.report_unknown(&format!("{CONFIG}/{name}"), &help);
                }
            }
        }
    }

    fn collection(&mut self, folder: &'static str) {
        let mut by_stem: BTreeMap<String, String> = BTreeMap::new();
        for (name, is_folder) in self.entries(folder).unwrap_or_default() {
            let path = format!("{folder}/{name}");
            let (stem, extension) = split(&name);
            if is_folder {
                self.report_unknown(
                    &format!("{path}/"),
                    &format!("move its files directly into `{folder}/`"),
                );
            } else if !EXTENSIONS.contains(&extension) {
                if !is_documentation(&name) {
                    self.report_unknown(&path, &format!("did you mean `{stem}.yaml`?"));
                }
            } else if let Some(first) = by_stem.get(stem) {
                self.report_duplicate(&path, first);
            } else {
                by_stem.insert(stem.to_owned(), path.clone());
                self.files.collections.entry(folder).or_default().push(path);
            }
        }
    }

    fn add_single(&mut self, stem: &'static str, path: &str) {
        match self.files.singles.get(stem).cloned() {
            Some(first) => self.report_duplicate(path, &first),
            None => {
                self.files.singles.insert(stem, path.to_owned());
            }
        }
    }

    fn report_duplicate(&mut self, path: &str, first: &str) {
        let message = format!("`{first}` already exists and has the same purpose");
        let error = Diagnostic::of_file(Severity::Error, path, "app.file_twice", message);
        self.problems.add(error.help("keep one of the two"));
    }

    fn report_unknown(&mut self, path: &str, help: &str) {
        let message = "the file is not part of an app and is ignored";
        let message = if path.ends_with('/') {
            message.replace("file", "folder")
        } else {
            message.into()
        };
        let warning = Diagnostic::of_file(Severity::Warning, path, "app.unknown_file", message);
        self.problems.add(warning.help(help));
    }

    /// The names in a folder, sorted, without hidden ones, and whether each is a folder.
    fn entries(&mut self, folder: &str) -> Option<Vec<(String, bool)>> {
        let listed = match self.origin.names(folder) {
            Ok(listed) => listed?,
            Err(error) => {
                let path = self.origin.path(folder);
                let (message, help) = match error.kind() {
                    ErrorKind::NotFound if folder.is_empty() => (
                        format!("there is no folder `{path}`"),
                        Some("name the folder of an app, or make one with `convoke new`"),
                    ),
                    ErrorKind::NotADirectory if folder.is_empty() => (
                        format!("`{path}` is not a folder"),
                        Some("name the folder of an app, which has a `convoke.yaml`"),
                    ),
                    _ => (format!("the folder `{path}` cannot be read: {error}"), None),
                };
                let (name, code) = (
                    if folder.is_empty() { "." } else { folder },
                    "app.folder_unreadable",
                );
                let mut error = Diagnostic::of_file(Severity::Error, name, code, message);
                if let Some(help) = help {
                    error = error.help(help);
                }
                self.problems.add(error);
                return None;
            }
        };
        let mut entries = Vec::new();
        for (name, is_folder) in listed {
            self.count += 1;
            if self.count > MAX_FILES {
                let message = format!("the app has more than {MAX_FILES} files");
                let error =
                    Diagnostic::of_file(Severity::Error, folder, "app.too_many_files", message);
                self.problems
                    .add(error.help("keep data outside the app's own folders"));
                break;
            }
            if !name.starts_with('.') {
                entries.push((name, is_folder));
            }
        }
        entries.sort();
        Some(entries)
    }
}

fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or((name, ""))
}

fn is_documentation(name: &str) -> bool {
    matches!(split(name).1, "md" | "txt") && split(name).0.to_lowercase().starts_with("readme")
}
