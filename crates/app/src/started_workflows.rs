//! Checks what starts a workflow: that a skill or a node names one that exists, gives its inputs, and does not start itself
//! again through a route node.

use std::collections::BTreeSet;

use convoke_model::{Action, ActionTarget, Name, NodeKind, TargetKind, WorkflowFields};

use crate::contents::Contents;
use crate::diagnostic::Diagnostic;
use crate::document::Document;
use crate::references::mention;
use crate::spelling::did_you_mean;
use crate::yaml::push;

/// A workflow that does not end, because what it starts may start it again.
pub(crate) const CIRCLE: &str = "app.workflow_circle";

/// Checks everything that starts a workflow.
pub(crate) fn check(contents: &Contents) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for agent in &contents.agents {
        let skills = agent.fields.iter().flat_map(|fields| &fields.skills);
        for (index, skill) in skills.enumerate() {
            if let Some(action) = &skill.action {
                let pointer = format!("/skills/{index}/action");
                let skill = skill.name.as_str();
                found.extend(of_skill(&agent.document, &pointer, skill, action, contents));
            }
        }
    }
    for workflow in &contents.workflows {
        let nodes = workflow.fields.iter().flat_map(|fields| &fields.nodes);
        for (name, node) in nodes {
            let mut pointer = "/nodes".to_owned();
            push(&mut pointer, name.as_str());
            if let Some(started) = node
                .workflow
                .as_ref()
                .and_then(|name| named(contents, name))
            {
                let given: Vec<&str> = node.arguments.keys().map(String::as_str).collect();
                found.extend(inputs(&workflow.document, &pointer, &given, started));
            }
        }
    }
    found.extend(main_inputs(contents));
    found
}

fn of_skill(
    document: &Document,
    pointer: &str,
    skill: &str,
    action: &Action,
    contents: &Contents,
) -> Vec<Diagnostic> {
    let Some(ActionTarget::Workflow(name)) = action.target() else {
        return Vec::new();
    };
    let place = format!("{pointer}/workflow");
    let known = contents.names_of("workflow");
    let code = "app.workflow_unknown";
    if let Some(unknown) = mention(document, &place, "workflow", name.as_str(), code, &known) {
        return vec![unknown];
    }
    // One that cannot be read has problems of its own.
    let Some(workflow) = named(contents, name) else {
        return Vec::new();
    };
    let given: Vec<&str> = action.arguments.keys().map(String::as_str).collect();
    let mut found = inputs(document, pointer, &given, workflow);
    if let Some((workflow, node)) = routing_node(contents, workflow) {
        let message = format!(
            "`{skill}` starts a workflow whose node `{node}` (of `{workflow}`) may choose `{skill}` again"
        );
        let error = document.error(&place, CIRCLE, message);
        found
            .push(error.help("route over `domain` there, or start a workflow that does not route"));
    }
    let items = action.shows.as_ref().and_then(|shows| shows.items.as_ref());
    if let Some(items) = items {
        let field = items.split('.').next().unwrap_or_default();
        let fields = fields(workflow);
        if !fields.contains(field) {
            let message = format!("no node of `{name}` sets `{field}`");
            let place = format!("{pointer}/shows/items");
            let mut error = document.error(&place, "app.shows_unknown", message);
            error.help = did_you_mean(field, fields.iter().copied().collect::<Vec<_>>());
            found.push(error);
        }
    }
    found
}

/// A workflow by its name.
fn named<'a>(contents: &'a Contents, name: &Name) -> Option<&'a WorkflowFields> {
    let mut workflows = contents.workflows.iter();
    workflows.find_map(|workflow| {
        let fields = workflow.fields.as_ref()?;
        (fields.name == *name).then_some(fields)
    })
}

/// Fields of a workflow's state that somebody sets.
fn fields(workflow: &WorkflowFields) -> BTreeSet<&str> {
    let nodes = workflow.nodes.iter();
    let outputs = nodes.map(|(name, node)| node.output.as_ref().unwrap_or(name).as_str());
    let declared = workflow.state.keys().map(String::as_str);
    let inputs = workflow.inputs.iter().map(Name::as_str);
    outputs.chain(declared).chain(inputs).collect()
}

/// Compares what is given under `arguments` with the inputs that a workflow needs.
fn inputs(
    document: &Document,
    pointer: &str,
    given: &[&str],
    workflow: &WorkflowFields,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let name = &workflow.name;
    for input in &workflow.inputs {
        if !given.contains(&input.as_str()) {
            let message = format!("the workflow `{name}` needs the input `{input}`");
            let place = format!("{pointer}/workflow");
            let error = document.error(&place, "app.input_missing", message);
            found.push(error.help(format!("give `{input}` under `arguments`")));
        }
    }
    let known = fields(workflow);
    for argument in given.iter().filter(|given| !known.contains(*given)) {
        let mut place = format!("{pointer}/arguments");
        push(&mut place, argument);
        let message = format!("the workflow `{name}` has no input or field `{argument}`");
        let mut warning = document.warning(&place, "app.input_unknown", message);
        let candidates: Vec<&str> = known.iter().copied().collect();
        warning.help = did_you_mean(argument, candidates)
            .or_else(|| Some(format!("list it under `inputs` or `state` of `{name}`")));
        found.push(warning);
    }
    found
}

/// The first route node that can choose a skill, in a workflow or in those that it runs.
fn routing_node<'a>(
    contents: &'a Contents,
    workflow: &'a WorkflowFields,
) -> Option<(&'a Name, &'a Name)> {
    let (mut seen, mut open) = (BTreeSet::from([&workflow.name]), vec![workflow]);
    while let Some(workflow) = open.pop() {
        for (name, node) in &workflow.nodes {
            if node.kind == NodeKind::Route && node.over != Some(TargetKind::Domain) {
                return Some((&workflow.name, name));
            }
            let started = node
                .workflow
                .as_ref()
                .and_then(|name| named(contents, name));
            open.extend(started.filter(|started| seen.insert(&started.name)));
        }
    }
    None
}

/// Nobody gives inputs to the workflow that every request goes through.
fn main_inputs(contents: &Contents) -> Option<Diagnostic> {
    let workflow = match contents.workflows.as_slice() {
        [only] => only,
        several => several.iter().find(|workflow| {
            let fields = workflow.fields.as_ref();
            fields.is_some_and(|fields| fields.name.matches("main"))
        })?,
    };
    let fields = workflow.fields.as_ref()?;
    let decides = contents.names_of("skill").is_empty() && contents.names_of("domain").is_empty();
    if fields.inputs.is_empty() || !(decides || fields.routes()) {
        return None;
    }
    let message = "requests start this workflow, and nobody gives it inputs";
    let error = workflow
        .document
        .error("/inputs", "app.input_missing", message);
    Some(error.help("leave out `inputs`, or let a skill start the workflow"))
}
