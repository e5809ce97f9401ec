//! An app as it was kept with a task, looked at without running it: which app it is, and what it would
//! start, call and read if it ran.

use std::collections::{BTreeMap, BTreeSet};

use convoke_model::Transport;
use serde::Serialize;

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Document;
use crate::environment::{self, Secrets};
use crate::folder::survey;
use crate::hash::{self, HashedFiles};
use crate::origin::{AppFiles, Origin};
use crate::yaml::{Kind, Node};

/// What can be said of kept files before anything of them is believed. Nothing is taken from the
/// environment.
#[derive(Debug, Clone)]
pub struct KeptApp {
    /// What the app is called, as it is written.
    pub name: String,
    /// The hash of the files, computed anew.
    pub hash: String,
    /// What the app would reach.
    pub reach: Reach,
    /// The hash by which a program names an app that it made of agents alone.
    agents_hash: Option<String>,
}

/// All that an app reaches outside Convoke. Texts stand as they are written, with `${NAME}` wherever the
/// environment decides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// Programs that it starts.
    pub commands: Vec<ReachedCommand>,
    /// Addresses at which it calls tools.
    pub addresses: Vec<ReachedAddress>,
    /// Models that it asks.
    pub models: Vec<ReachedModel>,
    /// Variables that it reads, wherever in its files.
    pub environment: BTreeSet<String>,
}

/// A program that is started as a tool server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReachedCommand {
    /// The server's name.
    pub server: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that are set for it.
    pub env: BTreeMap<String, String>,
}

/// A tool server that is called at an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReachedAddress {
    /// The server's name.
    pub server: String,
    /// Where it listens.
    pub url: String,
    /// What is sent along with every request.
    pub headers: BTreeMap<String, String>,
}

/// A model that is sent what was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReachedModel {
    /// Where it is asked.
    pub endpoint: String,
    /// Its name there.
    pub model: String,
}

impl KeptApp {
    /// Reads kept files. They are refused where they cannot be read as YAML, or where one of them is no
    /// part of an app: nobody would see what is in it.
    pub fn read(files: &AppFiles) -> Result<Self, Diagnostics> {
        let mut problems = Diagnostics::default();
        let documents = Documents::read(files, &mut problems);
        let covered = documents.covered();
        let read: BTreeSet<&str> = covered.all().map(|file| file.source.file()).collect();
        if !problems.has_errors() {
            for file in files.keys().filter(|file| !read.contains(file.as_str())) {
                let message = "the file is no part of an app";
                let code = "app.unknown_file";
                problems.add(Diagnostic::of_file(Severity::Error, file, code, message));
            }
        }
        let reach = Reach::of(&covered, &mut problems);
        if problems.has_errors() {
            return Err(problems.sorted());
        }
        let name = covered.config.and_then(|config| config.written.get("name"));
        Ok(Self {
            name: name.and_then(Node::as_text).unwrap_or_default().to_owned(),
            hash: hash::of(&covered),
            reach,
            agents_hash: hash::of_agent_files(&covered),
        })
    }

    /// Whether the files are those that a task names by this hash.
    pub fn has_hash(&self, hash: &str) -> bool {
        self.hash == hash || self.agents_hash.as_deref() == Some(hash)
    }
}

/// The files, none of them checked.
#[derive(Default)]
struct Documents {
    singles: BTreeMap<&'static str, Document>,
    agents: Vec<Document>,
    workflows: Vec<Document>,
}

impl Documents {
    fn read(files: &AppFiles, problems: &mut Diagnostics) -> Self {
        let origin = Origin::Kept(files);
        let surveyed = survey(origin, problems);
        let mut secrets = Secrets::default();
        let mut document = |file: &str| {
            let mut found = Diagnostics::default();
            let document = Document::read(origin, file, &|_| None, &mut secrets, &mut found);
            // What the environment lacks is asked once the app is to run.
            let found = found.into_iter();
            problems.extend(found.filter(|problem| !problem.code.starts_with("app.environment_")));
            document
        };
        let mut documents = Self::default();
        for stem in [
            "convoke",
            "mcp_servers",
            "domains",
            "channels",
            "style_guide",
            "retention_policy",
        ] {
            if let Some(read) = surveyed.single(stem).and_then(&mut document) {
                documents.singles.insert(stem, read);
            }
        }
        let mut collection = |folder| {
            let files = surveyed.collection(folder).iter();
            files.filter_map(|file| document(file)).collect()
        };
        documents.agents = collection("agents");
        documents.workflows = collection("workflows");
        documents
    }

    fn covered(&self) -> HashedFiles<'_> {
        let single = |stem| self.singles.get(stem);
        HashedFiles {
            config: single("convoke"),
            agents: self.agents.iter().collect(),
            workflows: self.workflows.iter().collect(),
            servers: single("mcp_servers"),
            domains: single("domains"),
            channels: single("channels"),
            style_guide: single("style_guide"),
            retention: single("retention_policy"),
        }
    }
}

impl Reach {
    fn of(covered: &HashedFiles<'_>, problems: &mut Diagnostics) -> Self {
        let mut reach = Self::default();
        if let Some(servers) = covered.servers {
            let items = servers.written.get("servers").map(Node::items);
            for (index, server) in items.unwrap_or_default().iter().enumerate() {
                if !reach.take_server(server) {
                    let at = format!("/servers/{index}/transport");
                    let message = "this is no way to reach a server";
                    problems.add(servers.error(&at, "app.invalid", message));
                }
            }
        }
        for document in covered.all() {
            reach.take(&document.written);
        }
        reach
    }

    /// A transport holds nothing but texts, so that one which cannot be read as it is written cannot be
    /// read with the environment filled in either.
    fn take_server(&mut self, server: &Node) -> bool {
        let name = server.get("name").and_then(Node::as_text);
        let name = name.unwrap_or_default().to_owned();
        let transport = server.get("transport").map(Node::to_value);
        let transport = transport.and_then(|value| serde_json::from_value(value).ok());
        match transport {
            Some(Transport::Stdio(config)) => self.commands.push(ReachedCommand {
                server: name,
                command: config.command,
                args: config.args,
                env: config.env,
            }),
            Some(Transport::Http(config) | Transport::Sse(config)) => {
                self.addresses.push(ReachedAddress {
                    server: name,
                    url: config.url,
                    headers: config.headers,
                });
            }
            None => return false,
        }
        true
    }

    /// A model stands in several places; wherever it does, it has an `endpoint`.
    fn take(&mut self, node: &Node) {
        match &node.kind {
            Kind::Text(text) => {
                let names = environment::names(text).map(str::to_owned);
                self.environment.extend(names);
            }
            Kind::List(items) => items.iter().for_each(|item| self.take(item)),
            Kind::Map(entries) => {
                let text = |key| node.get(key).and_then(Node::as_text);
                if let Some(endpoint) = text("endpoint") {
                    let model = ReachedModel {
                        endpoint: endpoint.to_owned(),
                        model: text("model").unwrap_or_default().to_owned(),
                    };
                    if !self.models.contains(&model) {
                        self.models.push(model);
                    }
                }
                for entry in entries {
                    self.take(&entry.node);
                }
            }
            Kind::Null | Kind::Bool(_) | Kind::Number(_) => {}
        }
    }
}
