//! Every field of the five documents can be seen where `docs/model.md` says: the apps are run, and everything that they
//! emit is held against the table and against the published schemas.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod fields;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fields::{Documents, Row, emitted, rows, shipped};
use program::{Program, text};
use serde_json::{Value, json};

/// The documents that have a published schema: the kind, the part of the document, and the type.
const SCHEMAS: [(&str, &str, &str); 8] = [
    ("task", "", "Task"),
    ("checkpoint", "", "Checkpoint"),
    ("trace", "", "Trace"),
    ("run", "/answer", "Answer"),
    ("show", "/state/answer", "Answer"),
    ("show", "/state/program/decision", "Decision"),
    ("show", "/messages/0/message", "Message"),
    ("show", "/messages/1/message", "Message"),
];

fn table() -> Vec<Row> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/model.md");
    rows(&std::fs::read_to_string(page).unwrap())
}

/// What of the documents does not fit its schema.
fn misfits(documents: &Documents) -> Vec<String> {
    let program = Program::new();
    let mut schemas: BTreeMap<&str, jsonschema::Validator> = BTreeMap::new();
    let mut problems = BTreeSet::new();
    for (kind, part, name) in SCHEMAS {
        let schema = schemas.entry(name).or_insert_with(|| {
            let output = program.run(&["--json", "schema", name]);
            let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
            jsonschema::validator_for(&schema).unwrap()
        });
        let parts = documents.of(kind).iter();
        let parts = parts.filter_map(|document| document.pointer(part));
        for part in parts.filter(|part| !part.is_null()) {
            for error in schema.iter_errors(part) {
                let place = error.instance_path().to_string();
                problems.insert(format!("{kind}: {place} does not fit {name}: {error}"));
            }
        }
    }
    problems.into_iter().collect()
}

/// The examples of the five documents, by their document and type.
fn examples(folder: &str) -> BTreeMap<String, Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fields/examples")
        .join(folder);
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let example = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                example,
            )
        })
        .collect()
}

/// The keys of an example that have no row, and those whose type is another one where the field is seen.
fn unlike(name: &str, example: &Value, rows: &[Row], documents: &Documents) -> Vec<String> {
    let mut words = name.split(' ');
    let noun = format!("{} {}", words.next().unwrap(), words.next().unwrap());
    let mut problems = Vec::new();
    for (key, value) in example.as_object().unwrap() {
        let field = format!("{noun}.{key}");
        match rows.iter().find(|row| row.field == field) {
            None => problems.push(format!("{field} of the example `{name}` has no row")),
            Some(row) => problems.extend(row.misfit(value, documents)),
        }
    }
    problems
}

/// An app of one agent with another file.
fn app_with(program: &Program, file: &str, content: &Value) -> String {
    let agent = "name: clerk\nrole: Answers.\nsystem_prompt: Answer.\n";
    let server = "servers: [{name: genie, transport: {stdio: {command: genie}}}]\n";
    let content = content.to_string();
    program.app_of(&[
        ("agents/clerk.yaml", agent),
        ("config/mcp_servers.yaml", server),
        ("convoke.yaml", "name: example\n"),
        (file, content.as_str()),
    ])
}

#[test]
fn the_examples_of_the_documents_are_read_where_they_are_input() {
    let examples = examples("read");
    let check = |app: &str, program: &Program| {
        let output = program.run(&["check", app]);
        assert!(output.status.success(), "{output:?}");
    };
    for (name, example) in &examples {
        let program = Program::new();
        match name.as_str() {
            "S1 RetentionPolicy" => {
                let app = app_with(&program, "config/retention_policy.json", example);
                check(&app, &program);
            }
            "S2 Domain" => {
                let mut domain = example.clone();
                let mut domains = vec![Value::Null];
                for related in example["related_domains"].as_array().unwrap() {
                    let mut other = domain.clone();
                    other["name"] = related.clone();
                    other["related_domains"] = json!([]);
                    other["mcp_tools"] = json!([domain["mcp_tools"][0]]);
                    domains.push(other);
                }
                // It lists the tool that polls as if it were a query: that is refused, and the help says how to write it.
                domains[0] = domain.clone();
                let file = "config/domains.json";
                let app = app_with(&program, file, &json!({ "domains": domains }));
                let refused = text(&program.run(&["check", &app]).stderr);
                assert!(refused.contains("app.poll_undeclared"), "{refused}");
                let [query, poll] = [0, 1].map(|place| domain["mcp_tools"][place].clone());
                domain["mcp_tools"] = json!([{ "tool": query, "poll": { "tool": poll } }]);
                domains[0] = domain;
                check(
                    &app_with(&program, file, &json!({ "domains": domains })),
                    &program,
                );
            }
            "S3 RouterExecutorOptions" => {
                let key = |name: &str| match name {
                    "ChatClientKey" => "model".to_owned(),
                    name => {
                        let snake = name.chars().flat_map(|letter| {
                            let gap = letter.is_ascii_uppercase().then_some('_');
                            gap.into_iter().chain([letter.to_ascii_lowercase()])
                        });
                        snake.skip(1).collect()
                    }
                };
                let options = example.as_object().unwrap().iter();
                let router: BTreeMap<_, _> =
                    options.map(|(name, value)| (key(name), value)).collect();
                let model = example["ChatClientKey"].as_str().unwrap();
                let models =
                    json!({ model: { "endpoint": "http://127.0.0.1:1/v1", "model": "phi3" } });
                let config =
                    json!({ "name": "example", "decide": { "router": router }, "models": models });
                let app = app_with(&program, "convoke.json", &config);
                std::fs::remove_file(Path::new(&app).join("convoke.yaml")).unwrap();
                check(&app, &program);
            }
            "S4 AgentRequest" => {
                let history = program.folder().join("history.json");
                std::fs::write(&history, example["conversation_history"].to_string()).unwrap();
                let value = |key: &str| example[key].as_str().unwrap();
                let app = shipped("todo");
                let arguments = [
                    "--json",
                    "run",
                    &app,
                    value("message"),
                    "--user",
                    value("user_id"),
                    "--history",
                    history.to_str().unwrap(),
                ];
                let output = program.run(&arguments);
                let result: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(
                    result["answer"]["metadata"]["intent"], "create_task",
                    "{result}"
                );
                assert_eq!(result["conversation"], Value::Null);
            }
            other => panic!("nothing reads the example `{other}`"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_the_documents_is_seen_where_the_table_says() {
    let documents = emitted().await;
    let rows = table();
    assert!(rows.len() > 390, "only {} rows were found", rows.len());
    let mut problems = misfits(&documents);
    problems.extend(rows.iter().filter_map(|row| row.problem(&documents)));
    for (name, example) in examples("emitted") {
        problems.extend(unlike(&name, &example, &rows, &documents));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn work_to_come_is_named_by_one_of_these_titles() {
    let titles: BTreeSet<_> = table()
        .iter()
        .filter_map(|row| row.to_come().map(str::to_owned))
        .collect();
    let known = [
        "Agents of other systems (A2A)",
        "Conversations on real channels",
        "Stores for several machines (Redis, Postgres)",
        "True to its word",
    ];
    let unknown: Vec<_> = titles
        .iter()
        .filter(|title| !known.contains(&title.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn a_field_that_never_came_out_is_reported() {
    let mut documents = Documents::default();
    documents.add(
        "run",
        json!({ "a": [{ "b": 7, "c": "two words" }], "d": { "x": true }, "e": [] }),
    );
    let problems = |page: &str| -> Vec<_> {
        let rows = rows(page);
        rows.iter()
            .filter_map(|row| row.problem(&documents))
            .collect()
    };
    for dead in [
        "| S1 A.b | A.b | run: a.b | |",
        "| S1 A.b | A.b | run: a[].x | |",
        "| S1 A.b | A.b | run: a[].b=8 | |",
        "| S1 A.b | A.b | run: a[].c~three | |",
        "| S1 A.b | A.b | run: e | |",
        "| S1 A.b | A.b | show: a | |",
        "| S1 A.b | A.b |  | |",
        "| S1 A.b | A.b | somewhere | |",
        "| S1 A.b | – | to come: The rest; then run: a | |",
    ] {
        assert_eq!(problems(dead).len(), 1, "{dead}");
    }
    for alive in [
        "| S1 A.b | A.b | run: a[].b | |",
        "| S1 A.b | A.b | run: a[].b=7 | |",
        "| S1 A.b | A.b | run: a[].c~words | |",
        "| S1 A.b | A.b | run: d.*=true | |",
        "| S1 A.b | – | to come: The rest; then run: e | |",
        "| S1 A.b | – | to come: The rest | |",
    ] {
        assert_eq!(problems(alive), Vec::<String>::new(), "{alive}");
    }
}
