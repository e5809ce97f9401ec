//! A small valid app, and the diagnostics after replacing some of its files.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::Path;

use convoke_app::{App, Diagnostics, Severity};
use tempfile::TempDir;

pub(crate) const AGENT: &str = "\
name: todo
role: Keeps a list.
system_prompt: Keep a list.
tools: [todo.add_task]
skills:
  - name: create_task
    description: Add a task
    sentences:
      - add {title}
    slots:
      title: {}
    action:
      tool: todo.add_task
      arguments: {title: '{{ title }}'}
      reply: Added {{ title }}.
";

pub(crate) const SERVERS: &str = "\
servers:
  - name: todo
    transport:
      stdio: {command: convoke}
    connect_seconds: 5
";

/// A folder with the valid app, with some files replaced.
pub(crate) fn app(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let base = [
        ("convoke.yaml", "name: todo\n"),
        ("agents/todo.yaml", AGENT),
        ("config/mcp_servers.yaml", SERVERS),
    ];
    for (file, text) in base.iter().chain(files) {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The diagnostics of the app with these files, each as `file:line:column code`.
pub(crate) fn found(files: &[(&str, &str)]) -> Vec<String> {
    problems_in(app(files).path())
}

/// The diagnostics of the app with these files under an environment.
pub(crate) fn app_with_environment(
    files: &[(&str, &str)],
    environment: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    short(&load(app(files).path(), environment))
}

/// The diagnostics of a folder.
pub(crate) fn problems_in(folder: &Path) -> Vec<String> {
    short(&load(folder, &|_| None))
}

fn load(folder: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Diagnostics {
    match App::load(folder, environment) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    }
}

fn short(problems: &Diagnostics) -> Vec<String> {
    problems
        .iter()
        .map(|problem| {
            let at = problem
                .position
                .map(|position| format!(":{position}"))
                .unwrap_or_default();
            let warning = if problem.severity == Severity::Warning {
                "warning "
            } else {
                ""
            };
            format!("{}{at} {warning}{}", problem.file, problem.code)
        })
        .collect()
}
