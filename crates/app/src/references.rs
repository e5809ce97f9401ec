//! Checks that the names in an app's files exist and are unambiguous.
//!
//! The tools of a server are known only once it runs, so `server.tool` is checked up to the dot.

use std::collections::{BTreeMap, BTreeSet};

use convoke_model::{AgentFields, McpServerFields, Name, SkillFields, Verify};

use crate::builtin::{BUILTIN_SERVER, BUILTIN_TOOLS};
use crate::contents::Contents;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::{Document, ParsedList};
use crate::domains;
use crate::evals::{
    EvalCase, INTENT_CLARIFY, INTENT_DISMISSED, INTENT_FALLBACK, INTENT_SEVERAL, INTENT_UNKNOWN,
};
use crate::sentences::Mentions;
use crate::spelling::{did_you_mean, nearest};
use crate::started_workflows;

/// Checks all references between files.
pub(crate) fn check(contents: &Contents, problems: &mut Diagnostics) {
    duplicates(contents, problems);
    let mut servers = contents.names_of("server");
    servers.extend(contents.program_servers.iter().cloned());
    servers.insert(BUILTIN_SERVER.to_owned());
    for agent in &contents.agents {
        if let Some(fields) = &agent.fields {
            problems.extend(agent_tools(&agent.document, fields, &servers));
            problems.extend(sub_agents(&agent.document, fields, contents));
        }
    }
    if let Some(list) = &contents.servers {
        problems.extend(reserved_servers(list, &contents.program_servers));
        problems.extend(tool_settings(list, &servers));
        problems.extend(fallback_cycles(list));
    }
    if let Some(config) = &contents.config {
        problems.extend(router(&config.document, contents));
    }
    if let Some(list) = &contents.domains {
        problems.extend(domains::check(list, contents, &servers));
    }
    for workflow in &contents.workflows {
        problems.extend(nodes(&workflow.document, contents, &servers));
    }
    problems.extend(workflow_cycles(contents));
    problems.extend(started_workflows::check(contents));
    for file in &contents.evals {
        problems.extend(eval_cases(file, contents, &servers));
    }
}

/// Reports duplicate names, with both positions.
fn duplicates(contents: &Contents, problems: &mut Diagnostics) {
    let mut seen: BTreeMap<(&str, String), String> = BTreeMap::new();
    for (kind, document, pointer) in contents.names() {
        // Agents may share skill names; the model crate rejects duplicates within an agent.
        if kind == "skill" {
            continue;
        }
        let Some(name) = document.text(&pointer) else {
            continue;
        };
        let name = name.replace('-', "_");
        let here = format!(
            "{}:{}",
            document.source.file(),
            document.place(&pointer).start
        );
        if let Some(first) = seen.get(&(kind, name.clone())) {
            let message = format!("another {kind} is named `{name}`, at {first}");
            let error = document.error(&pointer, "app.duplicate_name", message);
            problems.add(error.help("rename one of them"));
        } else {
            seen.insert((kind, name), here);
        }
    }
}

/// Reports servers whose name is reserved for tools without a server.
fn reserved_servers(
    list: &ParsedList<McpServerFields>,
    program_servers: &BTreeSet<String>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for item in &list.items {
        let name = item.fields.name.as_str();
        let reserved_for = if name == BUILTIN_SERVER {
            "the built-in tools"
        } else if program_servers.contains(name) {
            "tools of the program that runs the app"
        } else {
            continue;
        };
        let message = format!("the name `{name}` is reserved for {reserved_for}");
        let pointer = format!("{}/name", item.pointer);
        let error = list
            .document
            .error(&pointer, "app.server_reserved", message);
        found.push(error.help("rename the server"));
    }
    found
}

/// Checks whether a tool, as `tool` or `server.tool`, can exist.
pub(crate) fn tool(
    document: &Document,
    pointer: &str,
    tool: &str,
    servers: &BTreeSet<String>,
) -> Option<Diagnostic> {
    // The built-in server is only suggested for a similar spelling.
    let candidates: Vec<&str> = servers
        .iter()
        .map(String::as_str)
        .filter(|known| *known != BUILTIN_SERVER)
        .collect();
    match tool.split_once('.') {
        _ if tool.trim().is_empty() => {
            let error = document.error(pointer, "app.tool_name", "a tool's name is empty");
            Some(error.help("write `tool` or `server.tool`"))
        }
        Some((server, name)) if server.is_empty() || name.is_empty() => {
            let message = format!(
                "`{tool}` has no {}",
                if name.is_empty() { "tool" } else { "server" }
            );
            let error = document.error(pointer, "app.tool_name", message);
            Some(error.help("write `server.tool`"))
        }
        Some((server, _)) if !servers.contains(&server.replace('-', "_")) => {
            let message = format!("there is no tool server `{server}`");
            let mut error = document.error(pointer, "app.server_unknown", message);
            error.help = nearest(server, [BUILTIN_SERVER])
                .map(|near| format!("did you mean `{near}`?"))
                .or_else(|| did_you_mean(server, candidates))
                .or_else(|| Some(format!("describe `{server}` in config/mcp_servers.yaml")));
            Some(error)
        }
        Some((BUILTIN_SERVER, name)) if !BUILTIN_TOOLS.contains(&name) => {
            let message = format!("there is no built-in tool `{name}`");
            let mut error = document.error(pointer, "app.builtin_unknown", message);
            error.help = did_you_mean(name, BUILTIN_TOOLS);
            Some(error)
        }
        None if candidates.is_empty() && !BUILTIN_TOOLS.contains(&tool) => {
            let message = format!("`{tool}` cannot be found, because the app has no tool server");
            let error = document.error(pointer, "app.no_server", message);
            Some(error.help("describe the server that has it in config/mcp_servers.yaml"))
        }
        _ => None,
    }
}

/// Checks that a name is among `known`.
pub(crate) fn mention(
    document: &Document,
    pointer: &str,
    kind: &str,
    name: &str,
    code: &'static str,
    known: &BTreeSet<String>,
) -> Option<Diagnostic> {
    if known.contains(&name.replace('-', "_")) {
        return None;
    }
    let mut error = document.error(pointer, code, format!("there is no {kind} `{name}`"));
    error.help = did_you_mean(name, known.iter().map(String::as_str).collect::<Vec<_>>());
    Some(error)
}

/// Built-in agents, named by the keys that refer to them.
const BUILTIN_AGENTS: [&str; 2] = ["clarification_agent", "fallback_agent"];

/// Checks the names in the options of the router and the aggregator. A default agent need not exist.
fn router(document: &Document, contents: &Contents) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let router = "/decide/router";
    let models = document
        .written
        .get("models")
        .map_or(&[][..], |models| models.entries());
    let models: BTreeSet<String> = models
        .iter()
        .map(|entry| entry.key.replace('-', "_"))
        .collect();
    for pointer in [format!("{router}/model"), "/aggregator/model".to_owned()] {
        if let Some(model) = document.text(&pointer) {
            let code = "app.model_unknown";
            found.extend(mention(document, &pointer, "model", model, code, &models));
        }
    }
    let agents = contents.names_of("agent");
    for key in BUILTIN_AGENTS {
        let pointer = format!("{router}/{key}");
        // The name of a built-in agent is the key itself.
        if let Some(agent) = document.text(&pointer).filter(|agent| *agent != key) {
            found.extend(mention(
                document,
                &pointer,
                "agent",
                agent,
                "app.agent_unknown",
                &agents,
            ));
        }
    }
    found
}

/// Checks that an agent's sub-agents exist, have a model, and do not start it again.
fn sub_agents(document: &Document, agent: &AgentFields, contents: &Contents) -> Vec<Diagnostic> {
    let known = contents.names_of("agent");
    let fields: BTreeMap<&str, &AgentFields> = contents
        .agents
        .iter()
        .filter_map(|other| other.fields.as_ref())
        .map(|fields| (fields.name.as_str(), fields))
        .collect();
    let mut found = Vec::new();
    for (index, name) in agent.agents.iter().enumerate() {
        let pointer = format!("/agents/{index}");
        found.extend(mention(
            document,
            &pointer,
            "agent",
            name.as_str(),
            "app.agent_unknown",
            &known,
        ));
        let Some(other) = fields.get(name.as_str()) else {
            continue;
        };
        if other.llm_config.is_none() {
            let message = format!("`{name}` has no model, so it cannot be a sub-agent");
            found.push(document.error(&pointer, "app.agent_without_model", message));
        }
        if can_start(&fields, other, agent.name.as_str(), &mut BTreeSet::new()) {
            let message = format!(
                "`{name}` can start `{}` again; sub-agents must not form a cycle",
                agent.name
            );
            found.push(document.error(&pointer, "app.agent_circle", message));
        }
    }
    found
}

/// Whether `from` can start the named agent, directly or through its sub-agents.
fn can_start<'a>(
    fields: &BTreeMap<&str, &'a AgentFields>,
    from: &'a AgentFields,
    name: &str,
    seen: &mut BTreeSet<&'a str>,
) -> bool {
    from.agents.iter().any(|next| {
        *next == *name
            || (seen.insert(next.as_str())
                && fields
                    .get(next.as_str())
                    .is_some_and(|next| can_start(fields, next, name, seen)))
    })
}

/// Checks the names in a workflow's nodes, even if the workflow is otherwise invalid.
fn nodes(document: &Document, contents: &Contents, servers: &BTreeSet<String>) -> Vec<Diagnostic> {
    let agents = contents.names_of("agent");
    let workflows = contents.names_of("workflow");
    let mut found = Vec::new();
    let nodes = document
        .written
        .get("nodes")
        .map_or(&[][..], |nodes| nodes.entries());
    for entry in nodes {
        let node = format!("/nodes/{}", escaped(&entry.key));
        let pointer = format!("{node}/agent");
        if let Some(agent) = document.text(&pointer) {
            let code = "app.agent_unknown";
            found.extend(mention(document, &pointer, "agent", agent, code, &agents));
        }
        let pointer = format!("{node}/tool");
        if let Some(name) = document.text(&pointer) {
            found.extend(tool(document, &pointer, name, servers));
        }
        let pointer = format!("{node}/workflow");
        if let Some(name) = document.text(&pointer) {
            let code = "app.workflow_unknown";
            found.extend(mention(
                document, &pointer, "workflow", name, code, &workflows,
            ));
        }
        let pointer = format!("{node}/type");
        if let Some(kind @ "format") = document.text(&pointer) {
            let message = format!("a node of type {kind} is not supported in a workflow yet");
            found.push(document.error(&pointer, "app.node_unsupported", message));
        }
    }
    found
}

/// Reports workflows that run each other in a cycle, which would never end.
fn workflow_cycles(contents: &Contents) -> Vec<Diagnostic> {
    let readable = || {
        let workflows = contents.workflows.iter();
        workflows.filter_map(|parsed| Some((&parsed.document, parsed.fields.as_ref()?)))
    };
    let sub_workflows = |name: &Name| -> Vec<Name> {
        let named = readable().filter(|(_, workflow)| workflow.name == *name);
        let nodes = named.flat_map(|(_, workflow)| workflow.nodes.values());
        nodes.filter_map(|node| node.workflow.clone()).collect()
    };
    let mut found = Vec::new();
    for (document, workflow) in readable() {
        let start = &workflow.name;
        let (mut seen, mut open) = (BTreeSet::new(), sub_workflows(start));
        while let Some(next) = open.pop() {
            if next == *start {
                let message = format!("`{start}` runs itself through the workflows it names");
                found.push(document.error("/nodes", started_workflows::CIRCLE, message));
                break;
            }
            if seen.insert(next.clone()) {
                open.extend(sub_workflows(&next));
            }
        }
    }
    found
}

fn agent_tools(
    document: &Document,
    agent: &AgentFields,
    servers: &BTreeSet<String>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (index, name) in agent.tools.iter().enumerate() {
        found.extend(tool(document, &format!("/tools/{index}"), name, servers));
    }
    let mut used = Vec::new();
    for (index, skill) in agent.skills.iter().enumerate() {
        if let Some(tool) = skill
            .action
            .as_ref()
            .and_then(|action| action.tool.as_ref())
        {
            used.push((format!("/skills/{index}/action/tool"), tool));
        }
        for (name, slot) in &skill.slots {
            if let Some(reference) = &slot.refers_to {
                let pointer = format!("/skills/{index}/slots/{name}/refers_to/tool");
                used.push((pointer, &reference.tool));
            }
        }
    }
    for (pointer, name) in used {
        if let Some(problem) = tool(document, &pointer, name, servers) {
            found.push(problem);
        } else if !agent.tools.iter().any(|listed| is_same_tool(listed, name)) {
            let message = format!("`{name}` is not among the tools of agent `{}`", agent.name);
            let mut error = document.error(&pointer, "app.tool_not_listed", message);
            let listed: Vec<&str> = agent.tools.iter().map(String::as_str).collect();
            error.help = nearest(name, listed)
                .map(|near| format!("did you mean `{near}`?"))
                .or_else(|| Some(format!("add `{name}` to `tools`")));
            found.push(error);
        }
    }
    found
}

/// The tools that a skill uses.
pub(crate) fn tools_of(skill: &SkillFields) -> impl Iterator<Item = &String> {
    let looked_up = skill
        .slots
        .values()
        .filter_map(|slot| slot.refers_to.as_ref());
    let action = skill.action.iter();
    let action = action.filter_map(|action| action.tool.as_ref());
    action.chain(looked_up.map(|reference| &reference.tool))
}

/// Whether two references may mean the same tool: `add` and `todo.add` may, `todo.add` and `notes.add`
/// do not.
pub(crate) fn is_same_tool(one: &str, other: &str) -> bool {
    let parts = |tool: &str| match tool.split_once('.') {
        Some((server, name)) => (Some(server.replace('-', "_")), name.to_owned()),
        None => (None, tool.to_owned()),
    };
    let ((server, name), (other_server, other_name)) = (parts(one), parts(other));
    name == other_name && (server.is_none() || other_server.is_none() || server == other_server)
}

fn tool_settings(
    list: &ParsedList<McpServerFields>,
    servers: &BTreeSet<String>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for item in &list.items {
        for (name, settings) in &item.fields.tools {
            let pointer = format!("{}/tools/{}", item.pointer, escaped(name));
            for (index, fallback) in settings.fallback_tools.iter().enumerate() {
                let pointer = format!("{pointer}/fallback_tools/{index}");
                found.extend(tool(&list.document, &pointer, fallback, servers));
            }
            if let Some(verify) = &settings.verify {
                let place = match verify {
                    Verify::Tool(_) => format!("{pointer}/verify"),
                    Verify::Configured(_) => format!("{pointer}/verify/tool"),
                };
                found.extend(tool(&list.document, &place, verify.tool(), servers));
            }
        }
    }
    found
}

/// Reports cycles of fallbacks, which would be tried forever.
fn fallback_cycles(list: &ParsedList<McpServerFields>) -> Vec<Diagnostic> {
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for item in &list.items {
        let server = &item.fields.name;
        for (name, settings) in &item.fields.tools {
            let from = format!("{server}.{name}");
            let pointer = format!("{}/tools/{}/fallback_tools", item.pointer, escaped(name));
            places.insert(from.clone(), pointer);
            // A bare name is looked up on the tool's own server.
            let to =
                settings
                    .fallback_tools
                    .iter()
                    .map(|fallback| match fallback.split_once('.') {
                        Some((server, tool)) => format!("{}.{tool}", server.replace('-', "_")),
                        None => format!("{server}.{fallback}"),
                    });
            edges.insert(from, to.collect());
        }
    }
    let mut found = Vec::new();
    let mut reported = BTreeSet::new();
    for start in edges.keys() {
        let Some(cycle) = cycle_from(start, &edges) else {
            continue;
        };
        if cycle.iter().any(|tool| reported.contains(tool)) {
            continue;
        }
        if let Some(pointer) = places.get(start) {
            let message = format!(
                "the fallbacks form a cycle: {} → {start}",
                cycle.join(" → ")
            );
            let error = list.document.error(pointer, "app.fallback_cycle", message);
            found.push(error.help("remove one of them"));
        }
        reported.extend(cycle);
    }
    found
}

/// The path from `start` back to itself, if there is one.
fn cycle_from(start: &str, edges: &BTreeMap<String, Vec<String>>) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut paths = vec![vec![start.to_owned()]];
    while let Some(path) = paths.pop() {
        for next in path
            .last()
            .and_then(|last| edges.get(last))
            .into_iter()
            .flatten()
        {
            if next == start {
                return Some(path);
            }
            if seen.insert(next) {
                paths.push(path.iter().cloned().chain([next.clone()]).collect());
            }
        }
    }
    None
}

/// Intents that are not skills.
const OTHER_INTENTS: [&str; 5] = [
    INTENT_CLARIFY,
    INTENT_DISMISSED,
    INTENT_FALLBACK,
    INTENT_SEVERAL,
    INTENT_UNKNOWN,
];

fn eval_cases(
    file: &ParsedList<EvalCase>,
    contents: &Contents,
    servers: &BTreeSet<String>,
) -> Vec<Diagnostic> {
    let document = &file.document;
    let mut found = Vec::new();
    let mentions = Mentions::of(contents.phrases());
    let mut targets = contents.names_of("skill");
    targets.extend(contents.names_of("agent"));
    targets.extend(contents.names_of("domain"));
    // An answer without a skill is named after whoever gave it.
    let mut intents = targets.clone();
    intents.extend(contents.names_of("workflow"));
    for item in &file.items {
        let expect = format!("{}/expect", item.pointer);
        for (index, name) in item.fields.expect.targets.iter().flatten().enumerate() {
            if BUILTIN_AGENTS.contains(&name.as_str()) {
                continue;
            }
            let pointer = format!("{expect}/targets/{index}");
            let (kind, code) = ("agent, domain or skill", "app.target_unknown");
            found.extend(mention(
                document,
                &pointer,
                kind,
                name.as_str(),
                code,
                &targets,
            ));
        }
        for (index, call) in item.fields.expect.calls.iter().flatten().enumerate() {
            found.extend(tool(
                document,
                &format!("{expect}/calls/{index}/tool"),
                &call.tool,
                servers,
            ));
        }
        let Some(intent) = &item.fields.expect.intent else {
            continue;
        };
        if OTHER_INTENTS.contains(&intent.as_str()) {
            continue;
        }
        if !intents.contains(intent.as_str()) {
            let message = format!("there is no skill, agent, domain or workflow `{intent}`");
            let candidates: Vec<&str> = intents
                .iter()
                .map(String::as_str)
                .chain(OTHER_INTENTS)
                .collect();
            let mut error =
                document.error(&format!("{expect}/intent"), "app.intent_unknown", message);
            error.help = did_you_mean(intent.as_str(), candidates);
            found.push(error);
            continue;
        }
        // Skills of several agents may have this name.
        let slots: BTreeSet<String> = contents
            .skills(intent)
            .flat_map(|skill| mentions.slots(skill))
            .collect();
        if slots.is_empty() && contents.skills(intent).next().is_none() {
            continue;
        }
        for name in item.fields.expect.slots.keys() {
            if !slots.contains(name.as_str()) {
                let pointer = format!("{expect}/slots/{name}");
                let message = format!("the skill `{intent}` has no slot `{name}`");
                let mut error = Diagnostic::at(
                    crate::diagnostic::Severity::Error,
                    &document.source,
                    document.key_place(&pointer),
                    "app.slot_unknown",
                    message,
                );
                let candidates: Vec<&str> = slots.iter().map(String::as_str).collect();
                error.help = did_you_mean(name.as_str(), candidates);
                found.push(error);
            }
        }
    }
    found
}

fn escaped(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}
