//! Settings that are right and yet change nothing: with the other settings of the app, or in this version.

use crate::config::AppConfig;
use crate::contents::Contents;
use crate::diagnostic::Diagnostics;
use crate::document::{Document, Parsed};
use crate::yaml::{Kind, Node, push};

const CODE: &str = "app.no_effect";

/// Warns of every setting that somebody wrote and that changes nothing. A file with errors has more urgent problems.
pub(crate) fn check(contents: &Contents, problems: &mut Diagnostics) {
    let files = [
        (
            contents.channels.as_ref().map(|file| &file.document),
            "no message is sent through the channels of this file yet; it is checked and has no effect",
        ),
        (
            contents.style_guide.as_ref().map(|file| &file.document),
            "answers do not follow the style guide yet; it is checked and has no effect",
        ),
    ];
    for (document, message) in files {
        if let Some(document) = document
            && !problems.has_errors_in(document.source.file())
        {
            problems.add(document.warning("", CODE, message));
        }
    }
    if let Some(config) = &contents.config
        && !problems.has_errors_in(config.document.source.file())
    {
        limits(config, problems);
        if let Some(fields) = &config.fields {
            times_beyond_the_task(contents, fields.limits.task_seconds.into(), problems);
        }
    }
}

/// The time of one tool, agent or node, which may also be more than its task has.
fn times_beyond_the_task(contents: &Contents, task: u64, problems: &mut Diagnostics) {
    let mut times = Vec::new();
    if let Some(servers) = &contents.servers {
        let document = &servers.document;
        let written = document.written.get("servers").map(Node::items);
        for (index, server) in written.unwrap_or_default().iter().enumerate() {
            for tool in server.get("tools").map(Node::entries).unwrap_or_default() {
                let mut pointer = format!("/servers/{index}/tools");
                push(&mut pointer, &tool.key);
                times.push((document, pointer + "/timeout_seconds", 1_000));
            }
        }
    }
    for agent in &contents.agents {
        times.push((&agent.document, "/limits/timeout_ms".to_owned(), 1));
    }
    for workflow in &contents.workflows {
        let nodes = workflow.document.written.get("nodes").map(Node::entries);
        for node in nodes.unwrap_or_default() {
            let mut pointer = "/nodes".to_owned();
            push(&mut pointer, &node.key);
            times.push((&workflow.document, pointer + "/timeout_seconds", 1_000));
        }
    }
    for (document, pointer, unit_ms) in times {
        let Some(Kind::Number(time)) = document.written.find(&pointer).map(|node| &node.kind)
        else {
            continue;
        };
        let ms = time.as_u64().unwrap_or_default().saturating_mul(unit_ms);
        if ms > task.saturating_mul(1_000) {
            let message = format!(
                "this is {ms} ms, but a task ends after {task} seconds (`limits.task_seconds`)"
            );
            problems.add(document.warning(&pointer, CODE, message));
        }
    }
}

/// A part of a task has no more time than the task.
fn limits(config: &Parsed<AppConfig>, problems: &mut Diagnostics) {
    let Some(fields) = &config.fields else {
        return;
    };
    let limits = &fields.limits;
    let task = limits.task_seconds;
    for (key, seconds) in [
        ("tool_seconds", limits.tool_seconds),
        ("agent_seconds", limits.agent_seconds),
    ] {
        warn_if_written(&config.document, &format!("limits/{key}"), problems, || {
            (seconds > task).then(|| {
                format!(
                    "`{key}` is {seconds}, but a task ends after {task} seconds (`task_seconds`)"
                )
            })
        });
    }
}

/// Warns at a key that stands in the file. A default that has no effect is nobody's mistake.
fn warn_if_written(
    document: &Document,
    key: &str,
    problems: &mut Diagnostics,
    why: impl FnOnce() -> Option<String>,
) {
    let pointer = format!("/{key}");
    if document.written.find(&pointer).is_none() {
        return;
    }
    if let Some(why) = why() {
        problems.add(document.warning(&pointer, CODE, why));
    }
}
