//! Tools that take the place of others.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use convoke_app::App;
use support::app;

#[test]
fn what_takes_the_place_of_a_tool_that_may_only_look_may_only_look() {
    let server = "servers:\n  - name: todo\n    transport: {stdio: {command: convoke}}\n    tools:\n      \
                  list_tasks: {fallback_tools: [todo.archive]}\n      add_task: {fallback_tools: [todo.shout]}\n";
    let domains = "domains:\n  - {name: tasks, display_name: Tasks, description: Tasks., mcp_tools: [todo.list_tasks]}\n";
    let folder = app(&[
        ("config/mcp_servers.yaml", server),
        ("config/domains.yaml", domains),
    ]);
    let app = App::load(folder.path(), &|_| None).unwrap().app;
    let references = app.tool_references();
    let may_only_look = |tool: &str| {
        let mut all = references.iter().filter(|one| one.tool == tool);
        all.any(|one| one.must_be_read_only)
    };
    assert!(may_only_look("todo.archive"));
    assert!(!may_only_look("todo.shout"));
}
