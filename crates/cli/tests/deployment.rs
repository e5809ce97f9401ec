//! The files of `deploy/`, with the real binary.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::path::Path;

use program::http::Request;
use program::{Program, Serving};

fn deployed(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_service_runs_with_the_settings_to_start_from() {
    let program = Program::new();
    let keys = program.folder().join("keys.json");
    let settings = deployed("server.yaml")
        .replace("0.0.0.0:8080", "127.0.0.1:0")
        .replace("${CONVOKE_HOST}", "assistant.example.com")
        .replace("/var/lib/convoke/keys.json", keys.to_str().unwrap());
    let file = program.folder().join("server.yaml");
    std::fs::write(&file, settings).unwrap();
    let file = file.to_str().unwrap();
    let made = program.run(&[
        "--json",
        "keys",
        "create",
        "--settings",
        file,
        "--user",
        "ada",
    ]);
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let serving = Serving::start(&program, &[&program.app(), "--settings", file]);
    let listed = |host: &str, key: &str| {
        Request::new(serving.address(), "GET", "/api/v1/tasks")
            .header("host", host)
            .token(key)
            .send()
            .status
    };
    let key = made["key"].as_str().unwrap();
    assert_eq!(listed("assistant.example.com", key), 200);
    assert_eq!(listed("assistant.example.com", "cvk_other"), 401);
    assert_eq!(listed("elsewhere.example.com", key), 421);
}

#[test]
fn the_commands_of_the_deployment_are_accepted() {
    let arguments = |line: &str| -> Vec<String> {
        let words = line
            .split_whitespace()
            .map(|word| word.trim_matches(['"', ',', '[', ']']));
        words.map(str::to_owned).collect()
    };
    let unit = deployed("convoke.service");
    let unit = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/convoke "));
    let image = deployed("Dockerfile");
    let image = image.lines().find_map(|line| line.strip_prefix("CMD "));
    for line in [unit.unwrap(), image.unwrap()] {
        let mut arguments = arguments(line);
        // What is missing here is the app, and nothing is wrong with the command line.
        arguments.retain(|argument| !argument.is_empty());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let program = Program::new();
        let output = program.run(&[&["--json"], arguments.as_slice()].concat());
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!told.contains("cli.usage"), "{line}: {told}");
        assert!(told.contains("/etc/convoke"), "{line}: {told}");
    }
}
