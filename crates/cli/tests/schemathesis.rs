//! The HTTP service of the real binary against its own OpenAPI document: `schemathesis` makes requests from it, those that
//! fit and those that do not, and holds every answer against it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::path::Path;
use std::process::Command;

use program::{Program, Serving, text};
use serde_json::{Value, json};

/// What is checked: no error of the service itself, no status, media type, body or method that the document does not have,
/// and nothing without the token that the document asks for.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,unsupported_method,allow_header_conformance,ignored_auth,use_after_free";

/// Requests per endpoint and phase.
const EXAMPLES: &str = "8";

/// Serves the to-do app with short waits, and tries every endpoint.
fn try_all(program: &Program, auth: &Value, headers: &[&str]) {
    let settings = json!({
        "auth": auth,
        "limits": { "wait_seconds": 5, "requests_per_minute": 1_000_000, "request_burst": 1_000_000 },
    });
    let file = program.folder().join("server.json");
    std::fs::write(&file, settings.to_string()).unwrap();
    let serving = Serving::start(
        program,
        &["--settings", file.to_str().unwrap(), &program.app()],
    );
    let tool = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/test-servers/venv/bin/schemathesis");
    assert!(tool.exists(), "run tests/install-test-servers first");
    let document = format!("http://{}/openapi.json", serving.address());
    let mut command = Command::new(tool);
    command
        .current_dir(program.folder())
        .args([
            "run",
            &document,
            "--checks",
            CHECKS,
            "--max-examples",
            EXAMPLES,
        ])
        .args([
            "--seed",
            "1",
            "--request-timeout",
            "30",
            "--workers",
            "1",
            "--no-color",
        ])
        .args([
            "--suppress-health-check",
            "all",
            "--warnings",
            "off",
            "--continue-on-failure",
        ]);
    for header in headers {
        command.args(["--header", header]);
    }
    let tried = command.output().unwrap();
    let said = text(&tried.stdout);
    assert!(tried.status.success(), "{said}\n{}", text(&tried.stderr));
    assert!(said.contains("No issues found"), "{said}");
}

#[test]
fn every_answer_without_tokens_is_as_the_document_says() {
    try_all(&Program::new(), &json!({}), &[]);
}

#[test]
fn every_answer_with_tokens_is_as_the_document_says() {
    let program = Program::new();
    let secret = "a secret that nobody knows, of many bytes";
    let auth = json!({ "jwt": { "algorithm": "HS256", "secret": secret } });
    let file = program.folder().join("server.json");
    std::fs::write(&file, json!({ "auth": auth }).to_string()).unwrap();
    let arguments = [
        "token",
        "--settings",
        file.to_str().unwrap(),
        "--user",
        "ada",
    ];
    let minted = program.run(&arguments);
    let header = format!("Authorization: Bearer {}", text(&minted.stdout).trim());
    try_all(&program, &auth, &[&header]);
}
