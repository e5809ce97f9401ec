//! Checks references and templates in `config/domains`.

use std::collections::BTreeSet;

use convoke_model::{DomainFields, DomainTool};

use crate::contents::Contents;
use crate::diagnostic::Diagnostic;
use crate::document::ParsedList;
use crate::references::{mention, tool};
use crate::templates::Templates;

/// Conventional prefix of tools that poll for an answer.
const POLL_PREFIX: &str = "poll_response_";

/// Checks the tools and domains that domains refer to.
pub(crate) fn check(
    list: &ParsedList<DomainFields>,
    contents: &Contents,
    servers: &BTreeSet<String>,
) -> Vec<Diagnostic> {
    let known = contents.names_of("domain");
    let document = &list.document;
    let mut found = Vec::new();
    for item in &list.items {
        for (index, asked) in item.fields.mcp_tools.iter().enumerate() {
            let place = format!("{}/mcp_tools/{index}", item.pointer);
            let DomainTool::Configured(how) = asked else {
                found.extend(tool(document, &place, asked.tool(), servers));
                found.extend(undeclared_poll(list, &place, asked.tool()));
                continue;
            };
            found.extend(tool(document, &format!("{place}/tool"), &how.tool, servers));
            if let Some(poll) = &how.poll {
                let pointer = format!("{place}/poll/tool");
                found.extend(tool(document, &pointer, &poll.tool, servers));
            }
            for (index, name) in how.follows.iter().enumerate() {
                let pointer = format!("{place}/follows/{index}");
                let (name, code) = (name.as_str(), "app.domain_unknown");
                found.extend(mention(document, &pointer, "domain", name, code, &known));
            }
        }
        for (index, name) in item.fields.related_domains.iter().enumerate() {
            let pointer = format!("{}/related_domains/{index}", item.pointer);
            let (name, code) = (name.as_str(), "app.domain_unknown");
            found.extend(mention(document, &pointer, "domain", name, code, &known));
        }
    }
    found
}

/// Checks the templates and expressions of domain tools.
pub(crate) fn check_templates(
    list: &ParsedList<DomainFields>,
    templates: &Templates,
) -> Vec<Diagnostic> {
    let document = &list.document;
    let mut found = Vec::new();
    for item in &list.items {
        let pointer = format!("{}/suggestions", item.pointer);
        let known = ["question", "shown", "result"];
        found.extend(templates.check_all(document, &pointer, &known));
        for index in 0..item.fields.mcp_tools.len() {
            let place = format!("{}/mcp_tools/{index}", item.pointer);
            let asked_with = ["question", "conversation_id", "results", "pointed"];
            let pointer = format!("{place}/arguments");
            found.extend(templates.check_over_state(document, &pointer, &asked_with));
            let pointer = format!("{place}/poll/arguments");
            found.extend(templates.check_over_state(document, &pointer, &["result"]));
            for key in ["gives", "shows", "unused", "conversation", "poll/running"] {
                let pointer = format!("{place}/{key}");
                found.extend(templates.check_expression(document, &pointer, &["result"]));
            }
        }
    }
    found
}

/// Reports a polling tool that is listed as a query of its own.
fn undeclared_poll(
    list: &ParsedList<DomainFields>,
    pointer: &str,
    name: &str,
) -> Option<Diagnostic> {
    let bare = name.rsplit('.').next().unwrap_or(name);
    let rest = bare.strip_prefix(POLL_PREFIX)?;
    let message = format!("`{name}` polls for an answer and cannot be a query of its own");
    let error = list.document.error(pointer, "app.poll_undeclared", message);
    let declared = format!("{{tool: query_space_{rest}, poll: {{tool: {name}}}}}");
    Some(error.help(format!(
        "declare it as the poll of the querying tool: {declared}"
    )))
}
