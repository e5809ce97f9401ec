//! The metrics of the real binary, as a Prometheus server reads them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::collections::BTreeMap;

use program::http::{Answer, Request};
use program::{Program, Serving, text};
use serde_json::json;

const SECRET: &str = "a secret that nobody knows, of many bytes";

fn get(address: &str, path: &str) -> Answer {
    Request::new(address, "GET", path).send()
}

/// The samples, by their names with labels. Every line must have the format's form.
fn samples(exposition: &str) -> BTreeMap<&str, &str> {
    let mut samples = BTreeMap::new();
    let mut family = "";
    for line in exposition.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            family = described.split(' ').next().unwrap();
            continue;
        }
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            assert_eq!(name, family, "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with(family), "{line} is not of {family}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(samples.insert(name, value).is_none(), "{line} twice");
    }
    samples
}

#[test]
fn what_the_service_did_stands_in_its_metrics() {
    let program = Program::new();
    let serving = Serving::start(&program, &[&program.app()]);
    let address = serving.address();
    for message in ["remind me to buy milk", "remind me to buy bread"] {
        let request = Request::new(address, "POST", "/api/v1/tasks");
        assert_eq!(
            request.json(&json!({ "message": message })).send().status,
            201
        );
    }
    assert_eq!(get(address, "/api/v1/nothing").status, 404);
    assert_eq!(
        Request::new(address, "BREW", "/api/v1/tasks").send().status,
        405
    );
    let answer = get(address, "/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let exposition = answer.text();
    let samples = samples(&exposition);
    let value = |name: &str| {
        *samples
            .get(name)
            .unwrap_or_else(|| panic!("{name}\n{exposition}"))
    };
    assert_eq!(
        value(r#"convoke_tasks_accepted_total{app="todo",channel="http"}"#),
        "2"
    );
    assert_eq!(
        value(r#"convoke_tasks_ended_total{app="todo",state="completed"}"#),
        "2"
    );
    assert_eq!(
        value(r#"convoke_task_duration_seconds_count{app="todo",state="completed"}"#),
        "2"
    );
    assert_eq!(
        value(r#"convoke_task_duration_seconds_bucket{app="todo",state="completed",le="+Inf"}"#),
        "2"
    );
    assert_eq!(value(r#"convoke_tasks_held{app="todo"}"#), "0");
    let answered = |method: &str, route: &str, status: &str| {
        value(&format!(
            "http_server_request_duration_seconds_count{{http_request_method=\"{method}\",http_route=\"{route}\",http_response_status_code=\"{status}\"}}"
        ))
    };
    assert_eq!(answered("POST", "submit_task", "201"), "2");
    assert_eq!(answered("GET", "none", "404"), "1");
    assert_eq!(answered("_OTHER", "none", "405"), "1");
    for told in ["milk", "bread"] {
        assert!(!exposition.contains(told), "{exposition}");
    }
}

#[test]
fn metrics_are_for_operators_of_all_apps() {
    let program = Program::new();
    let settings = program.folder().join("server.json");
    let auth = json!({ "auth": { "jwt": { "algorithm": "HS256", "secret": SECRET } } });
    std::fs::write(&settings, auth.to_string()).unwrap();
    let settings = settings.to_str().unwrap();
    let serving = Serving::start(&program, &[&program.app(), "--settings", settings]);
    let status = |arguments: &[&str]| {
        let minted = program.run(
            &[
                &["token", "--settings", settings, "--user", "ada"],
                arguments,
            ]
            .concat(),
        );
        let token = text(&minted.stdout).trim().to_owned();
        assert!(minted.status.success(), "{minted:?}");
        Request::new(serving.address(), "GET", "/metrics")
            .token(&token)
            .send()
            .status
    };
    assert_eq!(get(serving.address(), "/metrics").status, 401);
    assert_eq!(status(&["--role", "user"]), 403);
    assert_eq!(status(&["--role", "operator", "--app", "todo"]), 403);
    assert_eq!(status(&["--role", "operator"]), 200);
}
