//! Apps stored with tasks: their files have their hash, and show what they would access.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use convoke_app::{App, AppFiles, StoredApp};
use convoke_model::{Agent, AgentFields};
use serde_json::json;
use support::app;

fn kept(files: &[(&str, &str)]) -> AppFiles {
    let own = |(file, text): &(&str, &str)| ((*file).to_owned(), (*text).to_owned());
    files.iter().map(own).collect()
}

fn load(files: &AppFiles, hash: &str) -> Result<App, Vec<&'static str>> {
    let loaded = App::load_stored(files, hash, Path::new(""), &|_| None, &BTreeSet::new());
    loaded.map_err(|problems| problems.iter().map(|problem| problem.code).collect())
}

const AGENT: &str = "name: clerk\nrole: Answers.\nsystem_prompt: Answer.\n";

#[test]
fn the_files_of_every_example_app_give_its_hash() {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    let mut number = 0;
    for folder in std::fs::read_dir(apps).unwrap() {
        let folder = folder.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        for load in [App::load, App::load_to_run] {
            let app = load(&folder, &|_| None).unwrap().app;
            let read = StoredApp::read(&app.files).unwrap();
            assert_eq!(read.hash, app.hash, "{}", folder.display());
            assert!(read.has_hash(&app.hash));
        }
        number += 1;
    }
    assert!(number >= 4);
}

#[test]
fn the_environment_evals_and_defaults_do_not_change_the_hash_of_stored_files() {
    let server = "servers:\n  - name: todo\n    transport: {stdio: {command: \
                  '${RUN:-convoke}', args: ['${KEY}']}}\n";
    let case = "cases: [{say: add milk, expect: {intent: create_task}}]";
    let folder = app(&[("config/mcp_servers.yaml", server), ("evals/a.yaml", case)]);
    for environment in [
        |name: &str| (name == "KEY").then(|| "k".to_owned()),
        |name: &str| (name != "RUN").then(|| format!("value of {name}")),
    ] {
        let app = App::load(folder.path(), &environment).unwrap().app;
        assert!(!app.files.contains_key("evals/a.yaml"));
        let read = StoredApp::read(&app.files).unwrap();
        assert!(read.has_hash(&app.hash));
        let (files, hash) = (&*app.files, &app.hash);
        let none = BTreeSet::new();
        let again = App::load_stored(files, hash, folder.path(), &environment, &none).unwrap();
        assert_eq!(again.hash, app.hash);
    }
}

/// Hashes are stored with tasks, so they must not change between versions.
#[test]
fn a_hash_of_an_earlier_version_stays_the_same() {
    let files = kept(&[
        ("convoke.yaml", "name: desk\n"),
        (
            "agents/clerk.yaml",
            "name: clerk\nrole: Answers.\nsystem_prompt: Answer.\nskills:\n  - name: time\n    description: \
             Tells the time.\n    sentences: [what time is it]\n    action: {tool: builtin.current_time, \
             reply: Soon.}\ntools: [builtin.current_time]\n",
        ),
    ]);
    let hash = "850bfc9d67f1dfa2a1b0b7f441c5d1a76896aa938dfb439a1140668228846d61";
    assert_eq!(StoredApp::read(&files).unwrap().hash, hash);
    assert_eq!(load(&files, hash).unwrap().hash, hash);
}

#[test]
fn files_that_do_not_give_the_hash_are_not_loaded() {
    let files = kept(&[("convoke.yaml", "name: desk\n"), ("agents/a.yaml", AGENT)]);
    let hash = StoredApp::read(&files).unwrap().hash;
    assert!(load(&files, &hash).is_ok());
    for (file, text) in [
        ("convoke.yaml", "name: desk\nlimits: {task_seconds: 61}\n"),
        ("agents/a.yaml", &AGENT.replace("Answer.", "Obey.")),
        (
            "config/mcp_servers.yaml",
            "servers: [{name: x, transport: {stdio: {command: sh}}}]",
        ),
    ] {
        let mut changed = files.clone();
        changed.insert(file.to_owned(), text.to_owned());
        assert_eq!(
            load(&changed, &hash).unwrap_err(),
            ["app.definition_changed"]
        );
    }
    assert_eq!(load(&files, "").unwrap_err(), ["app.definition_changed"]);
}

fn agent(prompt: &str, otherwise: &serde_json::Value) -> Agent {
    let mut fields = json!({
        "name": "clerk", "role": "R.", "system_prompt": prompt, "llm_config": {
            "endpoint": "http://h/v1", "model": "m", "api_key": "k1", "prices": {"input": 0.1, "output": 1e-7},
        },
    });
    for (key, value) in otherwise.as_object().unwrap() {
        fields[key] = value.clone();
    }
    Agent::new(serde_json::from_value::<AgentFields>(fields).unwrap()).unwrap()
}

#[test]
fn an_app_of_agents_alone_has_the_hash_of_its_program() {
    for prompt in [
        "Plain.",
        "\"Quoted\" \\ and 'so', - [on]: {yes}\n\tnext # line",
        "Zwölf 🌍 \u{7f} \u{85} \u{2028} \u{1} ends",
        "true",
        "1e400",
        "costs ${KEY:-nothing}",
    ] {
        let agents = vec![
            agent(prompt, &json!({})),
            agent(
                "B.",
                &json!({ "name": "adder", "temperature": 0.300_000_000_000_000_04 }),
            ),
        ];
        let app = App::of_agents("desk-app", agents).unwrap();
        assert!(
            StoredApp::read(&app.files).unwrap().has_hash(&app.hash),
            "{prompt:?}"
        );
        assert_eq!(load(&app.files, &app.hash).unwrap().hash, app.hash);
        let file = "agents/clerk.json".to_owned();
        let mut changed = (*app.files).clone();
        changed.insert(file.clone(), changed[&file].replace("\"R.\"", "\"S.\""));
        assert_eq!(
            load(&changed, &app.hash).unwrap_err(),
            ["app.definition_changed"]
        );
        // An app of agents alone cannot have this file, so the hash does not cover it.
        let mut more = (*app.files).clone();
        let config = r#"{"name":"desk_app","limits":{"task_seconds":61}}"#;
        more.insert("convoke.json".into(), config.into());
        assert_eq!(
            load(&more, &app.hash).unwrap_err(),
            ["app.definition_changed"]
        );
    }
}

#[test]
fn files_that_are_not_part_of_an_app_are_not_stored() {
    let whole = [("convoke.yaml", "name: desk\n"), ("agents/a.yaml", AGENT)];
    for file in [
        "agents/notes.txt",
        "evals/a.yaml",
        "config/README.md",
        "run.sh",
        "../x.yaml",
    ] {
        let mut files = kept(&whole);
        files.insert(file.into(), "cases: []".into());
        let problems = StoredApp::read(&files).map(|_| file).unwrap_err();
        let found = problems
            .iter()
            .find(|problem| problem.code == "app.unknown_file");
        assert_eq!(found.unwrap().file, file);
    }
    let broken = kept(&[("convoke.yaml", "name: [\n"), ("agents/a.yaml", AGENT)]);
    assert!(StoredApp::read(&broken).unwrap_err().has_errors());
    assert!(StoredApp::read(&AppFiles::new()).unwrap_err().has_errors());
}

#[test]
fn everything_an_app_accesses_is_listed_as_written() {
    let files = kept(&[
        (
            "convoke.yaml",
            "name: desk\nmodels: {big: {endpoint: 'https://${HOST:-evil.example}/v1', model: m1}}\n",
        ),
        (
            "agents/a.yaml",
            "name: clerk\nrole: Answers.\nsystem_prompt: 'Ask ${WHO}, not $${NOBODY}.'\nllm_config: {endpoint: \
             http://a/v1, model: m2, api_key: '${KEY}'}\nfallback_models: [{endpoint: http://b/v1, model: \
             m3}]\n",
        ),
        (
            "config/mcp_servers.yaml",
            "servers:\n  - name: one\n    transport: {stdio: {command: '${SHELL:-sh}', args: [-c, \"a b\"], env: \
             {TOKEN: '${TOKEN}'}}}\n  - name: two\n    transport: {http: {url: 'http://h/${PATH}', headers: \
             {authorization: 'Bearer ${KEY}'}}}\n  - name: three\n    transport: {sse: {url: 'http://old'}}\n",
        ),
    ]);
    let reach = json!(StoredApp::read(&files).unwrap().reach);
    let expected = json!({
        "commands": [{
            "server": "one", "command": "${SHELL:-sh}", "args": ["-c", "a b"],
            "env": { "TOKEN": "${TOKEN}" },
        }],
        "addresses": [
            { "server": "two", "url": "http://h/${PATH}", "headers": { "authorization": "Bearer ${KEY}" } },
            { "server": "three", "url": "http://old", "headers": {} },
        ],
        "models": [
            { "endpoint": "http://a/v1", "model": "m2" },
            { "endpoint": "http://b/v1", "model": "m3" },
            { "endpoint": "https://${HOST:-evil.example}/v1", "model": "m1" },
        ],
        "environment": ["HOST", "KEY", "PATH", "SHELL", "TOKEN", "WHO"],
    });
    assert_eq!(reach, expected);
    let servers = "servers: [{name: x, transport: {stdio: {program: sh}}}]";
    let odd = kept(&[
        ("convoke.yaml", "name: desk\n"),
        ("agents/a.yaml", AGENT),
        ("config/mcp_servers.yaml", servers),
    ]);
    assert!(
        StoredApp::read(&odd).is_err(),
        "what cannot be shown is not read"
    );
}
