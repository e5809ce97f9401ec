//! New app folders.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use convoke_app::{App, AppSource, FILE_SCHEMAS, STARTERS, ScaffoldError, new_app as new_app_from};

/// A new app from the first starter, or as a copy.
fn new_app(folder: &Path, from: Option<&Path>) -> Result<Vec<PathBuf>, ScaffoldError> {
    let starter = AppSource::Starter(STARTERS[0].name);
    new_app_from(folder, from.map_or(starter, AppSource::App))
}

fn no_environment(_: &str) -> Option<String> {
    None
}

fn load(folder: &Path) -> App {
    let loaded = App::load(folder, &no_environment)
        .map_err(|found| found.pretty())
        .unwrap();
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings.pretty());
    loaded.app
}

#[test]
fn a_new_app_is_clean_and_named_after_its_folder() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("my-list");
    let written = new_app(&folder, None).unwrap();
    assert_eq!(written.len(), 4 + FILE_SCHEMAS.len());
    let app = load(&folder);
    assert_eq!(app.config.name.as_str(), "my_list");
    assert_eq!(app.agents[0].skills[0].name.as_str(), "create_task");
    assert_eq!(app.evals[0].cases.len(), 1);
}

#[test]
fn a_copy_differs_only_in_its_name_and_has_no_data() {
    let place = tempfile::tempdir().unwrap();
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    new_app(&first, None).unwrap();
    fs::create_dir(first.join(".convoke")).unwrap();
    fs::write(first.join(".convoke/store.db"), "data").unwrap();
    let written = new_app(&second, Some(&first)).unwrap();
    assert_eq!(written.len(), 4 + FILE_SCHEMAS.len());
    assert!(!second.join(".convoke").exists());
    assert_eq!(load(&second).config.name.as_str(), "second");
    let text = fs::read_to_string(first.join("convoke.yaml")).unwrap();
    let copy = fs::read_to_string(second.join("convoke.yaml")).unwrap();
    assert_eq!(copy, text.replace("name: first", "name: \"second\""));
}

#[test]
fn a_json_app_is_copied_too() {
    let place = tempfile::tempdir().unwrap();
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    new_app(&first, None).unwrap();
    fs::remove_file(first.join("convoke.yaml")).unwrap();
    fs::write(
        first.join("convoke.json"),
        r#"{"version": "2.0", "name": "first"}"#,
    )
    .unwrap();
    new_app(&second, Some(&first)).unwrap();
    let copy = fs::read_to_string(second.join("convoke.json")).unwrap();
    assert_eq!(copy, r#"{"version": "2.0", "name": "second"}"#);
}

#[test]
fn an_invalid_new_app_is_rejected_and_nothing_is_written() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("full")).unwrap();
    fs::write(at("full").join("keep.txt"), "mine").unwrap();
    fs::write(at("file"), "mine").unwrap();
    for (folder, from, code, says) in [
        (at("My App"), None, "scaffold.bad_name", "try `my_app`"),
        (at("42"), None, "scaffold.bad_name", "lower-case letters"),
        (
            at("full"),
            None,
            "scaffold.not_empty",
            "choose a new folder",
        ),
        (
            at("file"),
            None,
            "scaffold.not_a_folder",
            "choose a new folder",
        ),
        (
            at("new"),
            Some(at("full")),
            "scaffold.not_an_app",
            "no convoke.yaml",
        ),
    ] {
        let error = new_app(&folder, from.as_deref()).unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(fs::read_dir(at("full")).unwrap().count(), 1);
    assert!(!at("new").exists() && !at("My App").exists());
}

#[test]
fn every_starter_is_clean_and_its_files_name_their_schemas() {
    let place = tempfile::tempdir().unwrap();
    for starter in STARTERS {
        let folder = place.path().join(starter.name);
        let written = new_app_from(&folder, AppSource::Starter(starter.name)).unwrap();
        assert_eq!(load(&folder).config.name.as_str(), starter.name);
        let yaml = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "yaml");
        for file in written.iter().filter(yaml) {
            let text = fs::read_to_string(file).unwrap();
            let first = text.lines().next().unwrap();
            let schema = first
                .strip_prefix("# yaml-language-server: $schema=")
                .unwrap();
            let schema = file.parent().unwrap().join(schema);
            let schema: serde_json::Value =
                serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
            let title = schema["title"].as_str().unwrap();
            let fits = FILE_SCHEMAS.iter().any(|(begin, name)| {
                let path = file.strip_prefix(&folder).unwrap().to_str().unwrap();
                path.starts_with(begin) && *name == title
            });
            assert!(fits, "{} has the schema {title}", file.display());
        }
    }
}

#[test]
fn a_starter_that_is_not_there_is_told_with_those_that_are() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("app");
    let error = new_app_from(&folder, AppSource::Starter("tudo")).unwrap_err();
    assert_eq!(error.code(), "scaffold.unknown_starter");
    assert!(error.to_string().contains("`todo`"), "{error}");
    assert!(!folder.exists());
}
