//! An app stored with a task, inspected without running it: its identity and what it would start, call
//! and read.

use std::collections::{BTreeMap, BTreeSet};

use convoke_model::Transport;
use serde::Serialize;

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Document;
use crate::environment::{self, Secrets, Variables};
use crate::folder::survey;
use crate::hash::{self, HashedFiles};
use crate::origin::{AppFiles, Origin};
use crate::yaml::{Kind, Node};

/// Stored files, before they are trusted. Nothing is read from the environment.
#[derive(Debug, Clone)]
pub struct StoredApp {
    /// The app's name, as written.
    pub name: String,
    /// The hash, computed from the files.
    pub hash: String,
    /// What the app would access.
    pub reach: Reach,
    /// The hash of an app that a program built from agents alone.
    agents_hash: Option<String>,
}

/// Everything an app accesses outside Convoke. Texts are as written, with `${NAME}` for environment
/// variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// Programs it starts.
    pub commands: Vec<ReachedCommand>,
    /// Addresses of its tool servers.
    pub addresses: Vec<ReachedAddress>,
    /// Models it uses.
    pub models: Vec<ReachedModel>,
    /// Environment variables it reads, in any file.
    pub environment: BTreeSet<String>,
}

/// A program started as a tool server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReachedCommand {
    /// The server's name.
    pub server: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables set for it.
    pub env: BTreeMap<String, String>,
}

/// A tool server reached by address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReachedAddress {
    /// The server's name.
    pub server: String,
    /// The address.
    pub url: String,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, String>,
}

/// A model that receives conversations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReachedModel {
    /// The endpoint.
    pub endpoint: String,
    /// The model's name.
    pub model: String,
}

impl StoredApp {
    /// Reads stored files. Rejects files that are not valid YAML or not part of an app, because their
    /// contents would stay hidden.
    pub fn read(files: &AppFiles) -> Result<Self, Diagnostics> {
        let mut problems = Diagnostics::default();
        let documents = Documents::read(files, &mut problems);
        let hashed_files = documents.hashed_files();
        let read: BTreeSet<&str> = hashed_files.all().map(|file| file.source.file()).collect();
        if !problems.has_errors() {
            for file in files.keys().filter(|file| !read.contains(file.as_str())) {
                let message = "the file is not part of an app";
                let code = "app.unknown_file";
                problems.add(Diagnostic::of_file(Severity::Error, file, code, message));
            }
        }
        let reach = Reach::of(&hashed_files, &mut problems);
        if problems.has_errors() {
            return Err(problems.sorted());
        }
        let name = hashed_files
            .config
            .and_then(|config| config.written.get("name"));
        Ok(Self {
            name: name.and_then(Node::as_text).unwrap_or_default().to_owned(),
            hash: hash::of(&hashed_files),
            reach,
            agents_hash: hash::of_agent_files(&hashed_files),
        })
    }

    /// Whether the files have this hash, which tasks refer to.
    pub fn has_hash(&self, hash: &str) -> bool {
        self.hash == hash || self.agents_hash.as_deref() == Some(hash)
    }
}

/// The unchecked files.
#[derive(Default)]
struct Documents {
    singles: BTreeMap<&'static str, Document>,
    agents: Vec<Document>,
    workflows: Vec<Document>,
}

impl Documents {
    fn read(files: &AppFiles, problems: &mut Diagnostics) -> Self {
        let origin = Origin::Stored(files);
        let surveyed = survey(origin, problems);
        let mut secrets = Secrets::default();
        let mut document = |file: &str| {
            let mut found = Diagnostics::default();
            let variables = Variables {
                environment: &|_| None,
                missing: Severity::Error,
            };
            let document = Document::read(origin, file, &variables, &mut secrets, &mut found);
            // Missing environment variables are reported when the app runs.
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

    fn hashed_files(&self) -> HashedFiles<'_> {
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
    fn of(hashed_files: &HashedFiles<'_>, problems: &mut Diagnostics) -> Self {
        let mut reach = Self::default();
        if let Some(servers) = hashed_files.servers {
            let items = servers.written.get("servers").map(Node::items);
            for (index, server) in items.unwrap_or_default().iter().enumerate() {
                if !reach.take_server(server) {
                    let at = format!("/servers/{index}/transport");
                    let message = "this is not a valid transport of a server";
                    problems.add(servers.error(&at, "app.invalid", message));
                }
            }
        }
        for document in hashed_files.all() {
            reach.take(&document.written);
        }
        reach
    }

    /// Returns whether the server's transport could be read. It contains only texts, so one that does
    /// not parse as written does not parse with variables filled in either.
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

    /// Collects models: every map with an `endpoint`, wherever it is.
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
