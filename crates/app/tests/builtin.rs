//! Tools that need no server: the built-in ones, and those of a program that runs an app.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeSet;

use convoke_app::App;
use convoke_model::{Agent, AgentFields};
use serde_json::{Value, json};
use support::{AGENT, SERVERS, app, found};

fn with_tools(tools: &str) -> String {
    AGENT.replace(
        "tools: [todo.add_task]",
        &format!("tools: [todo.add_task, {tools}]"),
    )
}

fn agent(fields: &Value) -> Agent {
    let mut whole = json!({ "name": "clerk", "role": "Answers.", "system_prompt": "Answer." });
    whole
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    Agent::new(serde_json::from_value::<AgentFields>(whole).unwrap()).unwrap()
}

#[test]
fn built_in_tools_need_no_server() {
    let text = with_tools("builtin.calculate, builtin.current_time, builtin.wait");
    assert_eq!(found(&[("agents/todo.yaml", &text)]), [""; 0]);
    let alone = "name: clerk\nrole: Answers.\nsystem_prompt: Answer.\ntools: [calculate]\n";
    let folder = app(&[("agents/todo.yaml", alone)]);
    std::fs::remove_file(folder.path().join("config/mcp_servers.yaml")).unwrap();
    assert_eq!(support::problems_in(folder.path()), [""; 0]);
}

#[test]
fn a_built_in_tool_that_does_not_exist_is_refused_with_those_that_do() {
    for (tool, help) in [
        ("builtin.calculator", "did you mean `calculate`?"),
        ("builtin.shout", "use `calculate`, `current_time` or `wait`"),
        ("bultin.wait", "did you mean `builtin`?"),
    ] {
        let text = with_tools(tool);
        let folder = app(&[("agents/todo.yaml", &text)]);
        let problems = App::load(folder.path(), &|_| None).unwrap_err();
        let problem = problems.iter().next().unwrap();
        let code = if tool.starts_with("builtin.") {
            "app.builtin_unknown"
        } else {
            "app.server_unknown"
        };
        assert_eq!(
            (problem.code, problem.help.as_deref()),
            (code, Some(help)),
            "{tool}"
        );
    }
}

#[test]
fn no_server_may_be_called_builtin() {
    let text =
        SERVERS.to_owned() + "  - name: builtin\n    transport:\n      stdio: {command: x}\n";
    assert_eq!(
        found(&[("config/mcp_servers.yaml", &text)]),
        ["config/mcp_servers.yaml:6:11 app.server_reserved"]
    );
}

#[test]
fn a_program_may_provide_its_own_servers() {
    let text = with_tools("rust.add");
    let files = [("agents/todo.yaml", text.as_str())];
    assert_eq!(found(&files), ["agents/todo.yaml:4:24 app.server_unknown"]);
    let folder = app(&files);
    let own = |name: &str| BTreeSet::from([name.to_owned()]);
    let load = |own| App::load_for_program(folder.path(), &|_| None, &own);
    assert!(load(own("rust")).is_ok());
    let problems = load(own("todo")).unwrap_err();
    let codes: Vec<_> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["app.server_unknown", "app.server_reserved"]);
}

#[test]
fn an_app_can_be_made_of_agents_alone() {
    let app = App::of_agents(
        "desk-app",
        vec![agent(&json!({ "tools": ["builtin.wait"] }))],
    )
    .unwrap();
    assert_eq!(app.config.name, "desk_app");
    assert_eq!(app.config.limits.task_seconds, 60);
    assert!(app.agent("clerk").is_some());
    assert_eq!(app.hash.len(), 64);
}

#[test]
fn invalid_agents_are_rejected_with_every_reason() {
    let code = |agents| App::of_agents("desk", agents).unwrap_err().problems[0].code;
    assert_eq!(code(vec![]), "app.no_agents");
    let twice = App::of_agents(
        "desk",
        vec![
            agent(&json!({})),
            agent(&json!({ "tools": ["builtin.shout", "builtin.sing"] })),
        ],
    )
    .unwrap_err();
    let codes: Vec<_> = twice.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(
        codes,
        [
            "app.duplicate_name",
            "app.builtin_unknown",
            "app.builtin_unknown"
        ]
    );
    assert!(
        App::of_agents("Desk!", vec![agent(&json!({}))])
            .unwrap_err()
            .has("name.pattern")
    );
    let skill = json!({
        "name": "pay",
        "description": "Pays.",
        "sentences": ["pay"],
        "action": { "tool": "rust.pay", "reply": "Paid." },
    });
    let using = |tool: &str| {
        App::of_agents(
            "desk",
            vec![agent(&json!({ "skills": [skill], "tools": [tool] }))],
        )
    };
    assert!(using("rust.add").unwrap_err().has("app.tool_not_listed"));
    assert!(using("rust.pay").is_ok());
}

#[test]
fn the_hash_of_agents_changes_with_what_they_are_and_not_with_their_keys() {
    let hash = |prompt: &str, key: &str| {
        let model = json!({ "endpoint": "http://h/v1", "model": "m", "api_key": key });
        let agent = agent(&json!({
            "system_prompt": prompt, "llm_config": model, "fallback_models": [model],
        }));
        App::of_agents("desk", vec![agent]).unwrap().hash
    };
    assert_eq!(hash("a", "k1"), hash("a", "k2"));
    assert_ne!(hash("a", "k1"), hash("b", "k1"));
}
