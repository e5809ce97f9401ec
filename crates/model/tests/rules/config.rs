//! Rules of the types that people write in an app's files.

use convoke_model::{
    Agent, AggregatorOptions, ChannelSpec, DispatchOptions, Domain, McpServer, RetentionPolicy,
    RouterOptions, Skill, StyleGuide, Workflow,
};
use serde_json::{Value, json};

use super::rejects;

pub(crate) fn domain() -> Value {
    json!({
        "name": "inventory", "display_name": "Inventory", "description": "What is in stock",
        "mcp_tools": ["query"], "related_domains": ["pricing"],
    })
}

pub(crate) fn workflow() -> Value {
    json!({
        "name": "review",
        "nodes": {
            "write": { "type": "agent", "agent": "writer" },
            "ask": { "type": "human", "prompt": "Send it?" },
            "send": { "type": "tool", "tool": "mail.send", "arguments": { "to": "all" } },
        },
        "edges": [{ "from": "write", "to": "ask" }, { "from": "ask", "to": { "approve": "send" } }],
        "entry_point": "write",
        "checkpoints": ["ask"],
    })
}

#[test]
fn an_agent_keeps_its_rules() {
    let skill = json!({ "name": "dim", "description": "Dims the lights" });
    let agent = json!({ "name": "light-agent", "role": "lights", "system_prompt": "Be bright." });
    rejects::<Agent>(
        &agent,
        &[
            (json!({ "name": "Light" }), "name.pattern"),
            (json!({ "role": "" }), "agent.role_empty"),
            (json!({ "system_prompt": "" }), "agent.system_prompt_empty"),
            (json!({ "max_iterations": 0 }), "agent.max_iterations_zero"),
            (json!({ "temperature": 2.1 }), "agent.temperature_range"),
            (json!({ "temperature": -0.1 }), "agent.temperature_range"),
            (
                json!({ "limits": { "timeout_ms": 0 } }),
                "agent.timeout_zero",
            ),
            (json!({ "agents": ["light_agent"] }), "agent.agents"),
            (json!({ "agents": ["b", "b"] }), "agent.agents"),
            (
                json!({ "patterns": ["react", "react"] }),
                "agent.pattern_twice",
            ),
            (
                json!({ "output_schema": { "type": 7 } }),
                "agent.output_schema",
            ),
            (
                json!({ "output_schema": schema_of_too_many_parts() }),
                "agent.schema_too_complex",
            ),
            (
                json!({ "fallback_models": [{ "endpoint": "http://x", "model": "m" }] }),
                "agent.fallback_without_model",
            ),
            (json!({ "budget": { "tokens": 0 } }), "budget.nothing"),
            (
                json!({ "llm_config": { "endpoint": "http://x", "model": "m", "context_tokens": 0 } }),
                "llm_config.context_zero",
            ),
            (
                json!({ "llm_config": { "endpoint": "http://x", "model": "m", "prices": { "input": -1.0, "output": 1.0 } } }),
                "llm_config.price_negative",
            ),
            (json!({ "tools": ["a", "a"] }), "agent.tool_twice"),
            (json!({ "skills": [skill, skill] }), "agent.skill_twice"),
        ],
    );
}

#[test]
fn a_skill_keeps_its_rules() {
    let skill = json!({ "name": "add", "description": "Adds a task", "slots": { "when": {} } });
    let slot = |slot: Value| json!({ "slots": { "when": slot } });
    let reference = json!({
        "tool": "list", "items": "tasks", "id": "id", "label": "title", "none": "none", "many": "which?",
    });
    let values = json!({ "today": ["today"] });
    rejects::<Skill>(
        &skill,
        &[
            (json!({ "description": "" }), "skill.description_empty"),
            (json!({ "examples": [" "] }), "skill.text_empty"),
            (json!({ "action": {} }), "action.target"),
            (
                json!({ "action": { "tool": "add", "workflow": "add", "reply": "Done." } }),
                "action.target",
            ),
            (
                json!({ "action": { "tool": "add" } }),
                "action.reply_missing",
            ),
            (
                json!({ "action": { "workflow": "add", "reply": "Done." } }),
                "action.workflow_answers",
            ),
            (
                json!({ "action": { "workflow": "add", "failure": "Not done." } }),
                "action.workflow_answers",
            ),
            (
                json!({ "action": { "workflow": "add", "approval": { "when": " " } } }),
                "action.approval_empty",
            ),
            (json!({ "sentences": [""] }), "skill.text_empty"),
            (
                slot(json!({ "values": values, "default": "never" })),
                "slot.default_unknown",
            ),
            (slot(json!({ "max_length": 0 })), "slot.max_length_zero"),
            (
                slot(json!({ "values": values, "refers_to": reference })),
                "slot.values_and_reference",
            ),
        ],
    );
}

/// A schema that exceeds the limits.
fn schema_of_too_many_parts() -> Value {
    let parts = (0..20_000).map(|number| (format!("p{number}"), json!(true)));
    let properties: serde_json::Map<String, Value> = parts.collect();
    json!({ "type": "object", "properties": properties })
}

#[test]
fn a_tool_server_keeps_its_rules() {
    let server = json!({ "name": "todo", "transport": { "stdio": { "command": "convoke" } } });
    let url = |transport: &str| json!({ "transport": { "stdio": null, transport: { "url": "ftp://example.org" } } });
    rejects::<McpServer>(
        &server,
        &[
            (
                json!({ "transport": { "stdio": { "command": "" } } }),
                "mcp_server.command_empty",
            ),
            (
                json!({ "transport": { "stdio": { "command": "convoke", "cwd": "" } } }),
                "mcp_server.cwd_empty",
            ),
            (url("sse"), "mcp_server.url"),
            (url("http"), "mcp_server.url"),
            (
                json!({ "connect_seconds": 0 }),
                "mcp_server.connect_seconds",
            ),
            (
                json!({ "tools": { "add": { "timeout_seconds": 0 } } }),
                "tool.timeout_zero",
            ),
            (
                json!({ "tools": { "add": { "approval": { "when": "" } } } }),
                "tool.approval_empty",
            ),
            (
                json!({ "tools": { "add": { "approvers": { "roles": ["user"], "requester": false } } } }),
                "approvers.nobody",
            ),
        ],
    );
}

#[test]
fn a_domain_keeps_its_rules() {
    rejects::<Domain>(
        &domain(),
        &[
            (json!({ "name": "In Stock" }), "name.pattern"),
            (json!({ "display_name": "" }), "domain.display_name_empty"),
            (json!({ "description": "" }), "domain.description_empty"),
            (
                json!({ "mcp_tools": ["query", "query"] }),
                "domain.tool_twice",
            ),
            (
                json!({ "mcp_tools": [{ "tool": "query", "poll": { "tool": "query" } }] }),
                "domain.tool_twice",
            ),
            (
                json!({ "mcp_tools": [{ "tool": "query", "poll": { "tool": "poll", "every_ms": 0 } }] }),
                "domain.poll_zero",
            ),
            (
                json!({ "mcp_tools": [{ "tool": " " }] }),
                "domain.tool_empty",
            ),
            (
                json!({ "mcp_tools": [{ "tool": "query", "needs": ["later"] }, "later"] }),
                "domain.needs_unknown",
            ),
            (
                json!({ "mcp_tools": [{ "tool": "query", "follows": ["inventory"] }] }),
                "domain.follows_itself",
            ),
            (
                json!({ "keywords": ["stock", " "] }),
                "domain.keyword_empty",
            ),
            (
                json!({ "related_domains": ["pricing", "pricing"] }),
                "domain.related_twice",
            ),
            (
                json!({ "related_domains": ["inventory"] }),
                "domain.related_twice",
            ),
        ],
    );
}

#[test]
fn a_channel_specification_keeps_its_rules() {
    rejects::<ChannelSpec>(
        &json!({ "channel": "sms", "max_length": 160 }),
        &[
            (json!({ "max_length": 39 }), "channel_spec.max_length_small"),
            (json!({ "max_length": 1_601 }), "channel_spec.sms_length"),
            (json!({ "max_length": null }), "channel_spec.sms_length"),
            (
                json!({ "supports_markdown": true }),
                "channel_spec.sms_markdown",
            ),
            (
                json!({ "markdown_features": ["bold"] }),
                "channel_spec.features_without_markdown",
            ),
            (
                json!({ "channel": "email", "supports_markdown": true, "markdown_features": ["bold", "bold"] }),
                "channel_spec.feature_twice",
            ),
        ],
    );
}

#[test]
fn a_style_guide_keeps_its_rules() {
    let guide = json!({ "version": "1", "brand_name": "Convoke", "personality": "calm" });
    rejects::<StyleGuide>(
        &guide,
        &[
            (json!({ "version": "" }), "style_guide.version_empty"),
            (json!({ "brand_name": "" }), "style_guide.brand_name_empty"),
            (
                json!({ "personality": "" }),
                "style_guide.personality_empty",
            ),
        ],
    );
}

fn check(ids: &[&str], on_error: &str) -> Value {
    let criterion =
        |id: &&str| json!({ "id": id, "description": "it is short enough", "expression": "true" });
    let criteria: Vec<Value> = ids.iter().map(criterion).collect();
    json!({ "type": "check", "prompt": null, "criteria": criteria, "on_error": on_error })
}

#[test]
fn nodes_that_decide_who_answers_keep_their_rules() {
    let node = |node: Value| json!({ "nodes": { "ask": node } });
    rejects::<Workflow>(
        &workflow(),
        &[
            (node(json!({ "over": "agent" })), "node.over"),
            (node(json!({ "of": "start" })), "node.of"),
            (node(json!({ "order": "sequential" })), "node.order"),
            (
                node(json!({ "type": "aggregate", "of": "nobody", "prompt": null })),
                "workflow.of_unknown",
            ),
        ],
    );
}

#[test]
fn a_workflow_keeps_its_rules() {
    rejects::<Workflow>(
        &workflow(),
        &[
            (
                json!({ "max_iterations": 0 }),
                "workflow.max_iterations_zero",
            ),
            (
                json!({ "state": { "amount": { "schema": { "type": 7 } } } }),
                "workflow.state_schema",
            ),
            (
                json!({ "entry_point": "begin" }),
                "workflow.entry_point_unknown",
            ),
            (
                json!({ "nodes": { "island": { "type": "condition" } } }),
                "workflow.unreachable",
            ),
            (
                json!({ "checkpoints": ["nowhere"] }),
                "workflow.checkpoint_unknown",
            ),
            (
                json!({ "checkpoints": ["ask", "ask"] }),
                "workflow.checkpoint_twice",
            ),
            (
                json!({ "edges": [{ "from": "write", "to": "nowhere" }] }),
                "workflow.edge_unknown",
            ),
            (
                json!({ "edges": [{ "from": "nowhere", "to": "ask" }] }),
                "workflow.edge_unknown",
            ),
            (
                json!({ "edges": [{ "from": "write", "to": {} }] }),
                "workflow.edge_nowhere",
            ),
            (
                json!({ "edges": [
                { "from": "write", "to": { "again": "write", "on": "ask" } },
                { "from": "ask", "to": "send" },
            ] }),
                "workflow.cycle",
            ),
        ],
    );
}

#[test]
fn a_node_of_a_workflow_keeps_its_rules() {
    let node = |node: Value| json!({ "nodes": { "ask": node } });
    rejects::<Workflow>(
        &workflow(),
        &[
            (node(json!({ "agent": "writer" })), "node.agent"),
            (node(json!({ "type": "agent" })), "node.agent"),
            (node(json!({ "type": "tool", "prompt": null })), "node.tool"),
            (
                node(json!({ "arguments": { "to": "all" } })),
                "node.arguments",
            ),
            (node(json!({ "workflow": "other" })), "node.workflow"),
            (node(json!({ "map": { "over": "[]" } })), "node.map"),
            (
                node(json!({ "type": "tool", "tool": "a.b", "prompt": null,
                    "map": { "over": "[]", "parallel": 0 } })),
                "node.map_zero",
            ),
            (node(json!({ "join": { "first": 0 } })), "node.join_zero"),
            (node(json!({ "timeout_seconds": 0 })), "node.timeout_zero"),
            (
                node(json!({ "on_error": { "goto": "nowhere" } })),
                "workflow.on_error_unknown",
            ),
            (node(json!({ "type": "condition" })), "node.prompt"),
            (
                node(
                    json!({ "type": "condition", "prompt": null, "expression": "1", "approvers": {} }),
                ),
                "node.approvers",
            ),
            (
                node(json!({ "approvers": { "roles": [] } })),
                "approvers.nobody",
            ),
            (node(json!({ "expression": "state" })), "node.expression"),
            (node(json!({ "pattern": "react" })), "node.pattern"),
            (
                node(json!({ "type": "check", "prompt": null })),
                "node.criteria",
            ),
            (
                node(check(&["short", "short"], "fail")),
                "node.criterion_twice",
            ),
            (
                node(json!({ "type": "check", "prompt": null, "criteria": [
                    { "id": "a", "description": "short", "expression": "true" },
                ] })),
                "node.criterion_vague",
            ),
            (node(check(&["short"], "continue")), "node.check_continues"),
            (
                json!({ "nodes": {
                    "ask": check(&["short"], "fail"),
                    "send": { "type": "deliver", "tool": null, "arguments": null },
                } }),
                "workflow.unchecked",
            ),
            (
                json!({ "answer": "hello", "nodes": {
                    "send": { "type": "deliver", "tool": null, "arguments": null },
                } }),
                "workflow.answer_delivered",
            ),
            (
                node(json!({ "max_iterations": 0 })),
                "node.max_iterations_zero",
            ),
        ],
    );
}

#[test]
fn a_retention_policy_keeps_its_rules() {
    rejects::<RetentionPolicy>(
        &json!({ "by_status": { "failed": 14 } }),
        &[
            (json!({ "default_days": 0 }), "retention.days_zero"),
            (json!({ "by_task": { "debug": 0 } }), "retention.days_zero"),
            (
                json!({ "by_status": { "failed": 0 } }),
                "retention.days_zero",
            ),
            (
                json!({ "by_status": { "working": 1 } }),
                "retention.status_live",
            ),
        ],
    );
}

#[test]
fn options_keep_their_rules() {
    rejects::<RouterOptions>(
        &json!({}),
        &[
            (json!({ "confidence_threshold": 1.5 }), "confidence.range"),
            (json!({ "max_attempts": 0 }), "router.attempts_zero"),
            (json!({ "temperature": 1.5 }), "router.temperature_range"),
            (
                json!({ "max_output_tokens": 0 }),
                "router.output_tokens_zero",
            ),
        ],
    );
    rejects::<DispatchOptions>(
        &json!({}),
        &[(json!({ "context_turns": 51 }), "dispatch.context_turns")],
    );
    rejects::<AggregatorOptions>(
        &json!({}),
        &[
            (
                json!({ "default_fallback_message": "" }),
                "aggregator.message_empty",
            ),
            (
                json!({ "partial_failure_template": "{{ success_message }}" }),
                "aggregator.template",
            ),
        ],
    );
}

#[test]
fn unknown_keys_in_app_files_are_rejected() {
    let unknown = json!({ "colour": "red" });
    let refuses_key = |result: Result<(), serde_json::Error>| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains("unknown field `colour`"), "{message}");
    };
    refuses_key(serde_json::from_value::<RouterOptions>(unknown.clone()).map(drop));
    refuses_key(serde_json::from_value::<RetentionPolicy>(unknown.clone()).map(drop));
    refuses_key(serde_json::from_value::<Domain>(unknown.clone()).map(drop));
    refuses_key(serde_json::from_value::<Workflow>(unknown.clone()).map(drop));
    refuses_key(serde_json::from_value::<StyleGuide>(unknown.clone()).map(drop));
    refuses_key(serde_json::from_value::<ChannelSpec>(unknown.clone()).map(drop));
    refuses_key(serde_json::from_value::<Agent>(unknown).map(drop));
}
