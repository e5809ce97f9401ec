//! The parsed files of an app folder, before they are fully checked.

use std::collections::BTreeSet;

use convoke_model::{
    AgentFields, ChannelSpecFields, DomainFields, McpServerFields, Name, PARTIAL_PLACEHOLDERS,
    PROMPT_PLACEHOLDERS, RetentionPolicyFields, SkillFields, StyleGuideFields, WorkflowFields,
    placeholders,
};

use crate::config::AppConfig;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::{Document, Parsed, ParsedList};
use crate::environment::{Secrets, Variables};
use crate::evals::{EvalCase, EvalFile};
use crate::files::{ChannelsFile, DomainsFile, McpServersFile};
use crate::folder::{Files, survey};
use crate::hash::HashedFiles;
use crate::origin::{AppFiles, Origin};
use crate::templates::Templates;
use crate::yaml::{Node, push};
use crate::{domains, references, secrecy, sentences, skills, without_effect};

/// The parsed files of an app folder.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) config: Option<Parsed<AppConfig>>,
    pub(crate) agents: Vec<Parsed<AgentFields>>,
    pub(crate) servers: Option<ParsedList<McpServerFields>>,
    pub(crate) domains: Option<ParsedList<DomainFields>>,
    pub(crate) channels: Option<ParsedList<ChannelSpecFields>>,
    pub(crate) style_guide: Option<Parsed<StyleGuideFields>>,
    pub(crate) retention: Option<Parsed<RetentionPolicyFields>>,
    pub(crate) workflows: Vec<Parsed<WorkflowFields>>,
    pub(crate) evals: Vec<ParsedList<EvalCase>>,
    /// Tool servers provided by the program that runs the app.
    pub(crate) program_servers: BTreeSet<String>,
    pub(crate) secrets: Secrets,
}

/// Reads the documents of one folder and collects their problems.
struct Reader<'a> {
    origin: Origin<'a>,
    files: Files,
    environment: &'a dyn Fn(&str) -> Option<String>,
    /// What a variable is that is not set.
    missing: Severity,
    secrets: Secrets,
    problems: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn document(&mut self, file: &str) -> Option<Document> {
        Document::read(
            self.origin,
            file,
            &Variables {
                environment: self.environment,
                missing: self.missing,
            },
            &mut self.secrets,
            self.problems,
        )
    }

    fn single(&mut self, stem: &str) -> Option<Document> {
        let file = self.files.single(stem)?.to_owned();
        self.document(&file)
    }

    fn collection(&mut self, folder: &str) -> Vec<Document> {
        let files = self.files.collection(folder).to_vec();
        files
            .iter()
            .filter_map(|file| self.document(file))
            .collect()
    }
}

/// Why a folder is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To check its files alone, where secrets are not at hand: everything is read, and a missing variable is a warning.
    CheckFiles,
    /// To check it, or to run its evals: everything is read.
    Check,
    /// To run it: evals are skipped, because they do not affect running and large ones would slow every
    /// start.
    Run,
}

impl Contents {
    /// Reads and checks a whole folder. Errors and warnings go into `problems`.
    pub(crate) fn read(
        origin: Origin<'_>,
        environment: &dyn Fn(&str) -> Option<String>,
        purpose: Purpose,
        program_servers: &BTreeSet<String>,
        problems: &mut Diagnostics,
    ) -> Self {
        let files = survey(origin, problems);
        let has_agent_files = !files.collection("agents").is_empty();
        let secrets = Secrets::default();
        let mut reader = Reader {
            origin,
            files,
            environment,
            missing: match purpose {
                Purpose::CheckFiles => Severity::Warning,
                Purpose::Check | Purpose::Run => Severity::Error,
            },
            secrets,
            problems,
        };
        // Reads all files before checking any, so that no message shows a secret that a later file reveals.
        let config = reader.single("convoke");
        let agents = reader.collection("agents");
        let servers = reader.single("mcp_servers");
        let domains = reader.single("domains");
        let channels = reader.single("channels");
        let style_guide = reader.single("style_guide");
        let retention = reader.single("retention_policy");
        let workflows = reader.collection("workflows");
        let evals = match purpose {
            Purpose::Check | Purpose::CheckFiles => reader.collection("evals"),
            Purpose::Run => Vec::new(),
        };
        let secrets = reader.secrets;
        let mut contents = Self {
            config: config.map(|document| document.parse(&secrets, problems)),
            agents: agents
                .into_iter()
                .map(|document| document.parse(&secrets, problems))
                .collect(),
            servers: servers.map(|document| {
                document.parse_list::<McpServersFile, _>("servers", &secrets, problems)
            }),
            domains: domains.map(|document| {
                document.parse_list::<DomainsFile, _>("domains", &secrets, problems)
            }),
            channels: channels.map(|document| {
                document.parse_list::<ChannelsFile, _>("channels", &secrets, problems)
            }),
            style_guide: style_guide.map(|document| document.parse(&secrets, problems)),
            retention: retention.map(|document| document.parse(&secrets, problems)),
            workflows: workflows
                .into_iter()
                .map(|document| document.parse_whole(&secrets, problems))
                .collect(),
            evals: evals
                .into_iter()
                .map(|document| document.parse_list::<EvalFile, _>("cases", &secrets, problems))
                .collect(),
            program_servers: program_servers.clone(),
            secrets: Secrets::default(),
        };
        contents.secrets = secrets;
        // Invented replacement values must not cause further problems.
        let repaired: BTreeSet<_> = problems
            .iter()
            .map(|problem| (problem.file.clone(), problem.position))
            .collect();
        let mut found = Diagnostics::default();
        contents.check(has_agent_files, &mut found);
        problems.extend(found.into_iter().filter(|problem| {
            problem.severity == Severity::Warning
                || !repaired.contains(&(problem.file.clone(), problem.position))
        }));
        without_effect::check(&contents, problems);
        contents
    }

    /// The files that the hash covers: all but the evals.
    pub(crate) fn hashed_files(&self) -> HashedFiles<'_> {
        HashedFiles {
            config: self.config.as_ref().map(|file| &file.document),
            agents: self.agents.iter().map(|file| &file.document).collect(),
            workflows: self.workflows.iter().map(|file| &file.document).collect(),
            servers: self.servers.as_ref().map(|file| &file.document),
            domains: self.domains.as_ref().map(|file| &file.document),
            channels: self.channels.as_ref().map(|file| &file.document),
            style_guide: self.style_guide.as_ref().map(|file| &file.document),
            retention: self.retention.as_ref().map(|file| &file.document),
        }
    }

    /// The files as written, without the evals.
    pub(crate) fn as_written(&self) -> AppFiles {
        let source = |document: &Document| {
            let source = &document.source;
            (source.file().to_owned(), source.text().to_owned())
        };
        self.hashed_files().all().map(source).collect()
    }

    fn check(&self, has_agent_files: bool, problems: &mut Diagnostics) {
        let templates = Templates::new();
        let mentions = sentences::Mentions::of(self.phrases());
        if let Some(config) = &self.config {
            problems.extend(config_templates(&config.document, &templates));
            problems.extend(secrecy::check(&config.document, "/models"));
            if !has_agent_files {
                let error = config
                    .document
                    .error("", "app.no_agents", "the app has no agent");
                problems.add(error.help("write one in `agents/`, such as `agents/assistant.yaml`"));
            }
        }
        for agent in &self.agents {
            problems.extend(secrecy::check(&agent.document, "/llm_config"));
            if let Some(fields) = &agent.fields {
                let found = skills::check(&agent.document, fields, &templates, &mentions);
                problems.extend(found);
            }
        }
        problems.extend(sentences::check(self.config.as_ref(), &self.agents));
        if let Some(servers) = &self.servers {
            problems.extend(secrecy::check(&servers.document, "/servers"));
            problems.extend(server_templates(&servers.document, &templates));
        }
        if let Some(domains) = &self.domains {
            problems.extend(domains::check_templates(domains, &templates));
        }
        for file in &self.evals {
            if file
                .document
                .written
                .get("cases")
                .is_some_and(|cases| cases.items().is_empty())
            {
                let message = "the file has no cases; add one, or delete the file";
                problems.add(file.document.error("/cases", "eval.no_cases", message));
            }
        }
        for workflow in &self.workflows {
            problems.extend(workflow_templates(&workflow.document, &templates));
        }
        references::check(self, problems);
    }

    /// Every name that must be unique: its kind, document and position.
    pub(crate) fn names(&self) -> Vec<(&'static str, &Document, String)> {
        let mut names = Vec::new();
        for agent in &self.agents {
            names.push(("agent", &agent.document, "/name".to_owned()));
            let skills = agent
                .document
                .written
                .get("skills")
                .map_or(&[][..], |list| list.items());
            for index in 0..skills.len() {
                names.push(("skill", &agent.document, format!("/skills/{index}/name")));
            }
        }
        if let Some(servers) = &self.servers {
            names.extend(names_in("server", &servers.document, "servers", "name"));
        }
        if let Some(domains) = &self.domains {
            names.extend(names_in("domain", &domains.document, "domains", "name"));
        }
        if let Some(channels) = &self.channels {
            names.extend(names_in(
                "channel",
                &channels.document,
                "channels",
                "channel",
            ));
        }
        for workflow in &self.workflows {
            names.push(("workflow", &workflow.document, "/name".to_owned()));
        }
        names
    }

    /// The names of one kind, including those with other errors, so that references to them are not
    /// reported as unknown.
    pub(crate) fn names_of(&self, kind: &str) -> BTreeSet<String> {
        self.names()
            .into_iter()
            .filter(|name| name.0 == kind)
            .filter_map(|(_, document, pointer)| Some(document.text(&pointer)?.replace('-', "_")))
            .collect()
    }

    /// All skills with this name; agents may share skill names.
    pub(crate) fn skills(&self, name: &Name) -> impl Iterator<Item = &SkillFields> {
        let agents = self.agents.iter().filter_map(|agent| agent.fields.as_ref());
        agents
            .flat_map(|agent| &agent.skills)
            .filter(move |skill| skill.name == *name)
    }

    /// The named parts of sentences.
    pub(crate) fn phrases(&self) -> impl Iterator<Item = (&Name, &String)> {
        let config = self
            .config
            .as_ref()
            .and_then(|config| config.fields.as_ref());
        config.into_iter().flat_map(|config| &config.decide.phrases)
    }
}

fn names_in<'a>(
    kind: &'static str,
    document: &'a Document,
    list: &str,
    key: &str,
) -> Vec<(&'static str, &'a Document, String)> {
    let count = document
        .written
        .get(list)
        .map_or(0, |list| list.items().len());
    (0..count)
        .map(|index| (kind, document, format!("/{list}/{index}/{key}")))
        .collect()
}

fn config_templates(document: &Document, templates: &Templates) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (pointer, known) in [
        (
            "/decide/router/user_prompt_template",
            &["request", "catalogue"][..],
        ),
        (
            "/decide/router/clarification_prompt_template",
            &["message", "candidates", "question"],
        ),
        (
            "/decide/router/fallback_reason_template",
            &["message", "reason"],
        ),
        (
            "/aggregator/partial_failure_template",
            &["success_message", "failure_message"],
        ),
        ("/aggregator/default_fallback_message", &[]),
    ] {
        found.extend(templates.check(document, pointer, known));
        found.extend(unknown_placeholders(document, pointer));
    }
    found.extend(templates.check(document, "/decide/clarify", &["message", "candidates"]));
    found.extend(templates.check(document, "/decide/unknown", &["message", "skills"]));
    let messages = document
        .written
        .get("messages")
        .map_or(&[][..], |node| node.entries());
    for entry in messages {
        let known: &[&str] = match entry.key.as_str() {
            "tool_failure" => &["error", "code"],
            "done" | "unfinished" => &["tools"],
            "too_long" => &["limit", "slot"],
            "partial" => &["missing"],
            "unused" => &["unused"],
            "approval" => &APPROVAL_NAMES,
            _ => &[],
        };
        found.extend(templates.check(document, &format!("/messages/{}", entry.key), known));
    }
    found
}

/// The placeholders of a template that stand for nothing: they would be sent as they are written.
fn unknown_placeholders(document: &Document, pointer: &str) -> Vec<Diagnostic> {
    let known = match pointer {
        "/decide/router/user_prompt_template" => &PROMPT_PLACEHOLDERS[..],
        "/aggregator/partial_failure_template" => &PARTIAL_PLACEHOLDERS[..],
        _ => &[],
    };
    let unknown = placeholders(document.text(pointer).unwrap_or_default());
    let unknown = unknown
        .into_iter()
        .filter(|name| known.iter().all(|(placeholder, _)| placeholder != name));
    unknown
        .map(|name| {
            let message = format!("`{{{name}}}` is no placeholder of this template");
            let known: Vec<String> = known
                .iter()
                .map(|(name, variable)| format!("`{{{name}}}` for `{{{{ {variable} }}}}`"))
                .collect();
            let help = if known.is_empty() {
                "write a variable in double braces, such as `{{ message }}`".to_owned()
            } else {
                format!("there are {}", known.join(" and "))
            };
            let error = document.error(pointer, "app.placeholder_unknown", message);
            error.help(help)
        })
        .collect()
}

/// Checks the templates of `verify` in tool servers.
fn server_templates(document: &Document, templates: &Templates) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let servers = document.written.get("servers").map(Node::items);
    for (index, server) in servers.unwrap_or_default().iter().enumerate() {
        let tools = server.get("tools").map(Node::entries);
        for tool in tools.unwrap_or_default() {
            let mut pointer = format!("/servers/{index}/tools");
            push(&mut pointer, &tool.key);
            let question = format!("{pointer}/approval_question");
            found.extend(templates.check(document, &question, &APPROVAL_NAMES));
            let when = format!("{pointer}/approval/when");
            found.extend(templates.check_condition(document, &when, &["arguments"]));
            let asked_with = ["call_id", "arguments"];
            let arguments = format!("{pointer}/verify/arguments");
            found.extend(templates.check_all(document, &arguments, &asked_with));
            for key in ["done", "gives"] {
                let known = ["call_id", "arguments", "result"];
                let pointer = format!("{pointer}/verify/{key}");
                found.extend(templates.check_expression(document, &pointer, &known));
            }
        }
    }
    found
}

/// Names in the question for an approval.
const APPROVAL_NAMES: [&str; 3] = ["tool", "arguments", "details"];

/// State fields that every workflow has.
pub const STATE_FIELDS: [&str; 6] = [
    "request",
    "task_id",
    "routing_key",
    "current_agent",
    "next_action",
    "has_model",
];

/// Checks that templates and expressions of a workflow parse, and that they use fields its nodes set.
fn workflow_templates(document: &Document, templates: &Templates) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let entries = |key: &str| {
        let entries = document.written.get(key).map(Node::entries);
        entries.unwrap_or_default()
    };
    let text = |pointer: String| document.text(&pointer).map(str::to_owned);
    let places: Vec<String> = entries("nodes")
        .iter()
        .map(|entry| {
            let mut pointer = "/nodes".to_owned();
            push(&mut pointer, &entry.key);
            pointer
        })
        .collect();
    let outputs = places
        .iter()
        .zip(entries("nodes"))
        .map(|(place, entry)| text(format!("{place}/output")).unwrap_or(entry.key.clone()));
    let declared = entries("state").iter().map(|entry| entry.key.clone());
    let inputs = document
        .written
        .get("inputs")
        .map_or(0, |list| list.items().len());
    let inputs = (0..inputs).filter_map(|index| text(format!("/inputs/{index}")));
    let fields: Vec<String> = outputs
        .chain(declared)
        .chain(inputs)
        .map(|field| field.replace('-', "_"))
        .chain(STATE_FIELDS.map(str::to_owned))
        .collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    for place in &places {
        let item = text(format!("{place}/map/as")).unwrap_or_else(|| "item".to_owned());
        let mut with_item = fields.clone();
        if document.written.find(&format!("{place}/map")).is_some() {
            with_item.push(&item);
        }
        for key in ["arguments", "prompt"] {
            let pointer = format!("{place}/{key}");
            found.extend(templates.check_over_state(document, &pointer, &with_item));
        }
        let criteria = document.written.find(&format!("{place}/criteria"));
        for index in 0..criteria.map_or(0, |criteria| criteria.items().len()) {
            let pointer = format!("{place}/criteria/{index}/expression");
            found.extend(templates.check_expression(document, &pointer, &fields));
        }
        for key in ["expression", "map/over"] {
            let pointer = format!("{place}/{key}");
            found.extend(templates.check_expression(document, &pointer, &fields));
        }
    }
    found.extend(templates.check_over_state(document, "/answer", &fields));
    let edges = document
        .written
        .get("edges")
        .map_or(0, |node| node.items().len());
    for index in 0..edges {
        let pointer = format!("/edges/{index}/condition");
        found.extend(templates.check_expression(document, &pointer, &fields));
    }
    found
}
