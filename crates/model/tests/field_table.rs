//! Checks the table in `docs/model.md` that maps every field of the five documents.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use convoke_model::schemas;
use serde_json::Value;

/// A row of the table: a field of a document and its current places.
#[derive(Debug)]
struct Row {
    field: String,
    places: Vec<String>,
}

fn rows(page: &str) -> Vec<Row> {
    page.lines()
        .filter(|line| {
            let mut cell = line.trim_start_matches("| ").chars();
            line.starts_with("| ")
                && cell.next() == Some('S')
                && cell.next().is_some_and(|digit| digit.is_ascii_digit())
                && cell.next() == Some(' ')
                && !line.trim_start_matches("| ")[3..].starts_with('|')
        })
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let places = cells.get(1).copied().unwrap_or_default();
            Row {
                field: cells[0].to_owned(),
                places: places.split(", ").map(str::to_owned).collect(),
            }
        })
        .collect()
}

/// The schema itself and its alternatives.
fn alternatives(schema: &Value) -> Vec<&Value> {
    let branches = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|key| schema[*key].as_array())
        .flatten();
    std::iter::once(schema).chain(branches).collect()
}

fn has_field(schema: &Value, field: &str) -> bool {
    alternatives(schema)
        .iter()
        .any(|schema| schema["properties"].get(field).is_some())
}

fn has_value(schema: &Value, value: &str) -> bool {
    alternatives(schema).iter().any(|schema| {
        schema["const"] == value
            || schema["enum"]
                .as_array()
                .is_some_and(|values| values.iter().any(|own| own == value))
    })
}

/// Whether the file that defines a type has a public method of this name.
fn has_method(noun: &str, method: &str) -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let definitions = ["type", "struct", "enum"]
        .map(|keyword| [" ", ";", "{"].map(|end| format!("pub {keyword} {noun}{end}")));
    fs::read_dir(folder).unwrap().any(|entry| {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        definitions
            .iter()
            .flatten()
            .any(|definition| source.contains(definition))
            && source.contains(&format!("pub fn {method}("))
    })
}

/// Problems with the rows.
fn problems(rows: &[Row]) -> Vec<String> {
    let schemas: BTreeMap<_, _> = schemas()
        .into_iter()
        .map(|(name, schema)| (name, schema.to_value()))
        .collect();
    let exists = |place: &str| {
        if let Some((noun, method)) = place
            .strip_prefix("derived: ")
            .and_then(|place| place.split_once("::"))
        {
            has_method(noun, method)
        } else if let Some((noun, value)) = place.split_once('=') {
            schemas
                .get(noun)
                .is_some_and(|schema| has_value(schema, value))
        } else if let Some((noun, field)) = place.split_once('.') {
            schemas
                .get(noun)
                .is_some_and(|schema| has_field(schema, field))
        } else {
            false
        }
    };
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for row in rows {
        if !seen.insert(&row.field) {
            problems.push(format!("{} stands there twice", row.field));
        }
        // What is still to come has no type yet; where it will be seen is checked where the apps are run.
        let is_missing = |place: &&String| *place != "–" && !exists(place);
        for place in row.places.iter().filter(is_missing) {
            problems.push(format!(
                "{} has gone to `{place}`, which does not exist",
                row.field
            ));
        }
    }
    problems
}

#[test]
fn every_field_of_the_documents_has_a_place() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/model.md");
    let rows = rows(&fs::read_to_string(page).unwrap());
    let problems = problems(&rows);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    for (document, fields) in [
        ("S0 ", 128),
        ("S1 ", 130),
        ("S2 ", 55),
        ("S3 ", 53),
        ("S4 ", 36),
    ] {
        let listed = rows
            .iter()
            .filter(|row| row.field.starts_with(document))
            .count();
        assert_eq!(listed, fields, "{document}has lost or gained fields");
    }
}

#[test]
fn a_missing_place_is_reported() {
    let wrong = [
        "| S1 Task.colour | Task.colour | |",
        "| S1 Job.id | Job.id | |",
        "| S1 TaskStatus=asleep | TaskState=asleep | |",
        "| S3 Choice.guess | derived: Decision::guess | |",
        "| S3 Choice.primary | derived: Workflow::primary | |",
        "| S1 Task.id | | |",
        "| S1 Task.both | Task.id, Task.colour | |",
    ];
    for row in wrong {
        assert_eq!(problems(&rows(row)).len(), 1, "{row}");
    }
    let twice = "| S1 Task.id | Task.id | |\n| S1 Task.id | Task.id | |";
    assert_eq!(problems(&rows(twice)).len(), 1);
    let right = "| S1 Task.id | Task.id | |\n| S3 Choice.agent | derived: Decision::primary | |";
    assert_eq!(rows(right).len(), 2);
    assert!(problems(&rows(right)).is_empty());
}
