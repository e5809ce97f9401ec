//! No setting without effect: every key of an app folder has a row in the tables beside this file, and each row is seen to
//! be true.
//!
//! A row changes one key of a small app and says what differs in all that the two runs told: what the commands printed and
//! what the model was sent. A key whose effect takes a test of its own names that test. A key that is to get its effect
//! with other work says with which, and `convoke check` warns of it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod keys;
#[path = "../program/mod.rs"]
mod program;
mod runs;
mod table;
mod yaml;

use std::collections::BTreeSet;
use std::path::Path;

use keys::{File, keys};
use program::{Program, text};
use runs::Observer;
use table::{Row, Table};

/// The tables, by file.
const TABLES: [&str; 10] = [
    "app",
    "routing",
    "agents",
    "skills",
    "messages",
    "limits",
    "workflows",
    "servers",
    "domains",
    "evals",
];

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/settings"))
}

/// Checks every row of a table that two runs show.
fn assert_seen(name: &str) {
    let table = Table::read(folder(), name);
    let rows: Vec<&Row> = table.rows.iter().collect();
    let observer = Observer::new(&table);
    let half = rows.len().div_ceil(2).max(1);
    let faults: Vec<String> = std::thread::scope(|scope| {
        let halves: Vec<_> = rows
            .chunks(half)
            .map(|rows| {
                let observer = &observer;
                scope.spawn(move || {
                    let faults = rows.iter().filter_map(|row| observer.fault(row));
                    faults.collect::<Vec<_>>()
                })
            })
            .collect();
        halves
            .into_iter()
            .flat_map(|half| half.join().unwrap())
            .collect()
    });
    assert!(
        faults.is_empty(),
        "{} of {} rows of {name} are not true:\n\n{}",
        faults.len(),
        rows.len(),
        faults.join("\n\n")
    );
}

macro_rules! tables {
    ($($test:ident: $table:literal,)*) => {
        $(#[test]
        fn $test() {
            assert_seen($table);
        })*
    };
}

tables! {
    every_setting_of_the_app_has_its_effect: "app",
    every_setting_of_the_router_and_the_models_has_its_effect: "routing",
    every_setting_of_an_agent_has_its_effect: "agents",
    every_setting_of_a_skill_has_its_effect: "skills",
    every_message_is_said: "messages",
    every_limit_limits: "limits",
    every_setting_of_a_workflow_has_its_effect: "workflows",
    every_setting_of_a_tool_server_has_its_effect: "servers",
    every_setting_of_a_domain_has_its_effect: "domains",
    every_expectation_of_an_eval_is_checked: "evals",
}

#[test]
fn every_key_of_the_schemas_has_a_row_and_every_row_a_key() {
    let tables = TABLES.map(|name| Table::read(folder(), name));
    let to_come = Table::read(folder(), "to_come");
    let mut shown = BTreeSet::new();
    for table in &tables {
        shown.extend(table.rows.iter().flat_map(Row::shows));
        shown.extend(
            table
                .elsewhere
                .iter()
                .flat_map(table::ShownElsewhere::shows),
        );
    }
    let files: BTreeSet<&str> = to_come
        .to_come
        .iter()
        .map(|row| row.file.as_str())
        .collect();
    let mut missing = Vec::new();
    for file in File::ALL {
        for key in keys(file) {
            let waits = files.contains(file.path());
            let is_shown = shown.contains(&key);
            if waits == is_shown {
                missing.push(key);
            }
        }
    }
    assert!(
        missing.is_empty(),
        "no row, or one although it is to come:\n{}",
        missing.join("\n")
    );
}

#[test]
fn a_test_that_shows_a_key_exists_and_sets_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in TABLES {
        for row in Table::read(folder(), name).elsewhere {
            let (file, test) = row.test.split_once("::").unwrap();
            let written = std::fs::read_to_string(root.join(file)).unwrap();
            let start = written.find(&format!("fn {test}("));
            let start = start.unwrap_or_else(|| panic!("{file} has no test {test}"));
            let attribute = written[..start].rfind("#[").unwrap();
            let attribute = &written[attribute..start];
            assert!(attribute.contains("test"), "{test} is not run: {attribute}");
            let key = row.place.rsplit('/').next().unwrap();
            assert!(
                row.sets.contains(key) && written.contains(&row.sets),
                "{file} does not set `{}` for {}",
                row.sets,
                row.place
            );
        }
    }
}

#[test]
fn a_setting_that_is_to_come_gets_a_warning() {
    for row in Table::read(folder(), "to_come").to_come {
        let program = Program::new();
        let mut app = row.app.clone();
        app[&row.file] = row.sets.clone();
        let folder = runs::write_app(&program, &app, "", "");
        let checked = program.run(&["check", &folder]);
        let told = text(&checked.stderr);
        let file = row.file.trim_end_matches("yaml");
        assert!(
            told.contains(file) && told.contains("app.no_effect"),
            "{}: {told}",
            row.file
        );
        assert!(row.title.len() > 10, "{}", row.file);
    }
}
