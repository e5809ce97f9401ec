//! Domains, channels, voice, retention and workflows: what is rejected, and where.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use convoke_app::App;
use convoke_model::{Channel, TaskState};
use support::{app, found};

const WORKFLOW: &str = "\
name: review
nodes:
  think: {type: agent, agent: todo}
  ask: {type: human, prompt: 'May I?'}
  add: {type: tool, tool: todo.add_task, arguments: {title: '{{ think.title }}'}}
edges:
  - {from: think, to: ask}
  - from: ask
    to: add
    condition: routing_key == 'yes'
entry_point: think
";

const DOMAINS: &str = "\
domains:
  - name: sales
    display_name: Sales
    description: What was sold.
    mcp_tools: [todo.list_tasks]
    related_domains: [stock]
  - name: stock
    display_name: Stock
    description: What is there.
";

#[test]
fn a_whole_app_is_read_into_its_parts() {
    let folder = app(&[
        ("workflows/review.yaml", WORKFLOW),
        ("config/domains.yaml", DOMAINS),
        (
            "config/channels.yaml",
            "channels:\n  - channel: sms\n    max_length: 160\n",
        ),
        (
            "config/style_guide.yml",
            "version: '1'\nbrand_name: Todo\npersonality: warm\nhumor: {enabled: false}\n",
        ),
        (
            "config/retention_policy.json",
            r#"{"default_days": 3, "by_status": {"failed": 30}}"#,
        ),
    ]);
    let loaded = App::load(folder.path(), &|_| None)
        .map_err(|found| found.pretty())
        .unwrap();
    let app = loaded.app;
    assert_eq!(app.workflows[0].nodes.len(), 3);
    assert_eq!(app.domains[1].name.as_str(), "stock");
    assert_eq!(app.channel(Channel::Sms).max_length, Some(160));
    assert_eq!(app.channel(Channel::Terminal).max_length, None);
    assert!(!app.style_guide.unwrap().humor.enabled);
    assert_eq!(app.retention.days_for(None, &[], TaskState::Failed), 30);
    assert_eq!(app.retention.days_for(None, &[], TaskState::Completed), 3);
}

#[test]
fn without_a_retention_policy_the_limits_apply() {
    let folder = app(&[("convoke.yaml", "name: todo\nlimits: {retention_days: 2}\n")]);
    let app = App::load(folder.path(), &|_| None).unwrap().app;
    assert_eq!(app.retention.default_days, 2);
}

#[test]
fn an_invalid_workflow_is_rejected_at_its_positions() {
    let workflow = WORKFLOW
        .replace("agent: todo", "agent: tood")
        .replace("tool: todo.add_task", "tool: tdo.add_task")
        .replace("think.title }}", "think.title }")
        .replace("== 'yes'", "== == 'yes'")
        .replace("{from: think, to: ask}", "{from: thnk, to: ask}");
    assert_eq!(
        found(&[("workflows/review.yaml", &workflow)]),
        [
            "workflows/review.yaml:3:31 app.agent_unknown",
            "workflows/review.yaml:5:27 app.server_unknown",
            "workflows/review.yaml:5:76 app.template",
            "workflows/review.yaml:7:12 workflow.edge_unknown",
            "workflows/review.yaml:10:31 app.expression",
        ]
    );
    let workflow = WORKFLOW.replace("type: human", "type: humn");
    assert_eq!(
        found(&[("workflows/review.yaml", &workflow)]),
        ["workflows/review.yaml:4:15 app.unknown_value"]
    );
    let workflow = WORKFLOW.replace("to: add\n", "to: [add]\n");
    assert_eq!(
        found(&[("workflows/review.yaml", &workflow)]),
        ["workflows/review.yaml:9:5 app.wrong_type"]
    );
}

#[test]
fn a_field_that_no_node_sets_is_a_warning() {
    let workflow = WORKFLOW
        .replace("think.title", "thnk.title")
        .replace("== 'yes'", "== limit");
    assert_eq!(
        found(&[("workflows/review.yaml", &workflow)]),
        [
            "workflows/review.yaml:5:65 warning app.template_variable",
            "workflows/review.yaml:10:31 warning app.template_variable",
        ]
    );
    let declared = format!("{workflow}state: {{thnk: set, limit: max}}\n");
    assert!(found(&[("workflows/review.yaml", &declared)]).is_empty());
}

#[test]
fn two_workflows_of_one_name_are_refused() {
    assert_eq!(
        found(&[
            ("workflows/a.yaml", WORKFLOW),
            ("workflows/b.yaml", WORKFLOW)
        ]),
        ["workflows/b.yaml:1:7 app.duplicate_name"]
    );
}

#[test]
fn unknown_references_in_a_domain_are_rejected() {
    let domains = DOMAINS
        .replace("[stock]", "[stok]")
        .replace("todo.list", "tdo.list");
    assert_eq!(
        found(&[("config/domains.yaml", &domains)]),
        [
            "config/domains.yaml:5:17 app.server_unknown",
            "config/domains.yaml:6:23 app.domain_unknown"
        ]
    );
    let twice = DOMAINS
        .replace("name: stock", "name: sales")
        .replace("[stock]", "[]");
    assert_eq!(
        found(&[("config/domains.yaml", &twice)]),
        ["config/domains.yaml:7:11 app.duplicate_name"]
    );
}

#[test]
fn templates_and_tools_of_domains_are_checked() {
    let domains = "\
domains:
  - name: sales
    display_name: Sales
    description: What was sold.
    mcp_tools:
      - tool: todo.list_tasks
        arguments: {query: '{{ qestion }}'}
        gives: result.answer |
        follows: [stok]
        poll: {tool: tdo.poll, running: reslt.status == 'running'}
      - todo.poll_response_sales
";
    assert_eq!(
        found(&[("config/domains.yaml", domains)]),
        [
            "config/domains.yaml:7:32 warning app.template_variable",
            "config/domains.yaml:8:30 app.expression",
            "config/domains.yaml:9:19 app.domain_unknown",
            "config/domains.yaml:10:22 app.server_unknown",
            "config/domains.yaml:10:41 warning app.template_variable",
            "config/domains.yaml:11:9 app.poll_undeclared",
        ]
    );
}

#[test]
fn broken_rules_of_channels_voice_and_retention_are_reported_at_their_position() {
    assert_eq!(
        found(&[
            (
                "config/channels.yaml",
                "channels:\n  - channel: sms\n    max_length: 2000\n  - channel: sms\n    max_length: 160\n  - channel: fax\n",
            ),
            (
                "config/style_guide.yaml",
                "version: 1\nbrand_name: ''\npersonality: warm\n"
            ),
            (
                "config/retention_policy.yaml",
                "default_days: 0\nby_status: {working: 3}\n"
            ),
        ]),
        [
            "config/channels.yaml:3:17 channel_spec.sms_length",
            "config/channels.yaml:4:14 app.duplicate_name",
            "config/channels.yaml:6:14 app.unknown_value",
            "config/retention_policy.yaml:1:15 retention.days_zero",
            "config/retention_policy.yaml:2:22 retention.status_live",
            "config/style_guide.yaml:1:10 app.wrong_type",
            "config/style_guide.yaml:2:13 style_guide.brand_name_empty",
        ]
    );
}

#[test]
fn an_alias_of_a_key_is_accepted() {
    let policy = "default_days: 3\nby_tag: {urgent: 9}\nby_status: {canceled: 1}\n";
    assert_eq!(found(&[("config/retention_policy.yaml", policy)]), [""; 0]);
}

#[test]
fn unknown_references_of_the_router_are_rejected() {
    let text = "name: todo\nmodels:\n  big: {endpoint: http://x, model: y}\ndecide:\n  router:\n    model: \
                bigg\n    fallback_agent: tood\n    clarification_agent: clarification_agent\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        [
            "convoke.yaml:6:12 app.model_unknown",
            "convoke.yaml:7:21 app.agent_unknown"
        ]
    );
}

#[test]
fn a_setting_that_changes_nothing_gets_a_warning_where_it_stands() {
    let channels = "channels:\n  - channel: sms\n    max_length: 160\n";
    let style = "version: '1'\nbrand_name: Todo\npersonality: warm\nhumor: {enabled: false}\n";
    let times =
        "name: todo\nlimits:\n  task_seconds: 20\n  tool_seconds: 30\n  agent_seconds: 20\n";
    let servers = "servers:\n  - name: todo\n    transport: {http: {url: 'http://127.0.0.1:9/mcp'}}\n    \
                   tools:\n      buy: {timeout_seconds: 21}\n      ask: {timeout_seconds: 20}\n";
    let found = found(&[
        ("convoke.yaml", times),
        ("config/channels.yaml", channels),
        ("config/style_guide.yaml", style),
        ("config/mcp_servers.yaml", servers),
    ]);
    assert_eq!(
        found,
        [
            "config/channels.yaml:1:1 warning app.no_effect",
            "config/mcp_servers.yaml:5:30 warning app.no_effect",
            "config/style_guide.yaml:1:1 warning app.no_effect",
            "convoke.yaml:4:17 warning app.no_effect",
        ]
    );
}

#[test]
fn a_placeholder_that_stands_for_nothing_is_refused() {
    let config = "name: todo\ndecide:\n  router:\n    user_prompt_template: 'Request: {0}, agents: {1}, {2}'\n    \
                  fallback_reason_template: 'Sorry: {reason}'\naggregator:\n  \
                  partial_failure_template: '{successMessage} But {failureMessage}'\n";
    assert_eq!(
        found(&[("convoke.yaml", config)]),
        [
            "convoke.yaml:4:27 app.placeholder_unknown",
            "convoke.yaml:5:31 app.placeholder_unknown",
        ]
    );
}

#[test]
fn a_default_without_effect_is_nobodys_mistake() {
    // The default of `tool_seconds` is 50.
    let found = found(&[
        ("convoke.yaml", "name: todo\nlimits: {task_seconds: 20}\n"),
        ("config/retention_policy.yaml", "default_days: 3\n"),
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_store_that_a_run_would_refuse_is_refused() {
    for scheme in ["postgres", "redis", "mysql"] {
        let config = format!("name: todo\nstore: {{ url: '{scheme}://db/x' }}\n");
        let found = found(&[("convoke.yaml", &config)]);
        assert_eq!(found, ["convoke.yaml:2:15 config.store_url"], "{scheme}");
    }
}
