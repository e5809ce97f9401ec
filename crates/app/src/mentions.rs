//! Every place at which an app's files name a tool, to be held against the tools themselves once their
//! servers run.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::app::App;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Document;
use crate::environment::Secrets;
use crate::origin::Origin;
use crate::yaml::push;

/// A place at which a tool is named.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolMention {
    /// The tool, as `tool` or `server.tool`.
    pub tool: String,
    /// What it is given there; texts are templates. Nothing where a model or a caller gives it.
    pub arguments: Option<Map<String, Value>>,
    /// Whether it may only look.
    pub must_look_only: bool,
    document: usize,
    pointer: String,
}

/// The places at which an app's files name tools.
pub struct ToolMentions {
    documents: Vec<Document>,
    mentions: Vec<ToolMention>,
}

impl App {
    /// Every place at which the app's files name a tool.
    pub fn tool_mentions(&self) -> ToolMentions {
        let mut found = ToolMentions {
            documents: Vec::new(),
            mentions: Vec::new(),
        };
        for file in self.files.keys() {
            // What is wrong with the files was told when the app was loaded.
            let document = Document::read(
                Origin::Kept(&self.files),
                file,
                &|_| Some(String::new()),
                &mut Secrets::default(),
                &mut Diagnostics::default(),
            );
            if let Some(document) = document {
                found.read(document, file);
            }
        }
        found
    }
}

impl ToolMentions {
    /// The places, file by file.
    pub fn iter(&self) -> impl Iterator<Item = &ToolMention> {
        self.mentions.iter()
    }

    /// The tools that are named, each once.
    pub fn tools(&self) -> BTreeSet<&str> {
        self.iter().map(|mention| mention.tool.as_str()).collect()
    }

    /// Something that is wrong at such a place, or with one of its arguments.
    pub fn problem(
        &self,
        mention: &ToolMention,
        argument: Option<&str>,
        code: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        let mut pointer = mention.pointer.clone();
        if let (Some(argument), Some((node, _))) = (argument, mention.pointer.rsplit_once('/')) {
            pointer = format!("{node}/arguments");
            push(&mut pointer, argument);
        }
        match self.documents.get(mention.document) {
            Some(document) => document.error(&pointer, code, message),
            None => Diagnostic::of_file(Severity::Error, ".", code, message),
        }
    }

    fn read(&mut self, document: Document, file: &str) {
        let value = document.normal_value();
        let index = self.documents.len();
        self.documents.push(document);
        let mut reader = Reader {
            document: index,
            mentions: &mut self.mentions,
        };
        match file.split_once('/').map_or(file, |(folder, _)| folder) {
            "agents" => reader.agent(&value),
            "workflows" => reader.nodes(&value),
            "config" => {
                reader.servers(&value);
                reader.domains(&value);
            }
            _ => {}
        }
    }
}

/// Reads the mentions of one file.
struct Reader<'a> {
    document: usize,
    mentions: &'a mut Vec<ToolMention>,
}

impl Reader<'_> {
    fn agent(&mut self, agent: &Value) {
        self.names(&agent["tools"], "/tools");
        for (index, skill) in items(&agent["skills"]) {
            let place = format!("/skills/{index}");
            self.call(&skill["action"], &format!("{place}/action"), false);
            for (name, slot) in fields(&skill["slots"]) {
                let mut slot_place = format!("{place}/slots");
                push(&mut slot_place, name);
                self.call(&slot["refers_to"], &format!("{slot_place}/refers_to"), true);
            }
        }
    }

    fn nodes(&mut self, workflow: &Value) {
        for (name, node) in fields(&workflow["nodes"]) {
            let mut place = "/nodes".to_owned();
            push(&mut place, name);
            self.call(node, &place, false);
        }
    }

    fn servers(&mut self, file: &Value) {
        for (index, server) in items(&file["servers"]) {
            let server_name = server["name"].as_str().unwrap_or_default();
            for (name, settings) in fields(&server["tools"]) {
                let mut place = format!("/servers/{index}/tools");
                push(&mut place, name);
                self.add(format!("{server_name}.{name}"), None, false, place.clone());
                self.names(
                    &settings["fallback_tools"],
                    &format!("{place}/fallback_tools"),
                );
                let verify = &settings["verify"];
                if let Some(tool) = verify.as_str() {
                    self.add(tool.to_owned(), None, true, format!("{place}/verify"));
                }
                self.call(verify, &format!("{place}/verify"), true);
            }
        }
    }

    fn domains(&mut self, file: &Value) {
        for (index, domain) in items(&file["domains"]) {
            let place = format!("/domains/{index}/mcp_tools");
            // A domain is asked, and nothing else: its tools may only look.
            for (index, tool) in items(&domain["mcp_tools"]) {
                let place = format!("{place}/{index}");
                if let Some(tool) = tool.as_str() {
                    self.add(tool.to_owned(), None, true, place.clone());
                }
                self.look(tool, &place);
                self.look(&tool["poll"], &format!("{place}/poll"));
            }
        }
    }

    /// A tool under `tool` that may only look, with what it is given if that is said.
    fn look(&mut self, asked: &Value, place: &str) {
        if let Some(tool) = asked["tool"].as_str() {
            let arguments = asked["arguments"].as_object().cloned();
            self.add(tool.to_owned(), arguments, true, format!("{place}/tool"));
        }
    }

    /// Tools in a list.
    fn names(&mut self, list: &Value, place: &str) {
        for (index, tool) in items(list) {
            if let Some(tool) = tool.as_str() {
                self.add(tool.to_owned(), None, false, format!("{place}/{index}"));
            }
        }
    }

    /// A tool under `tool`, with what it is given under `arguments`.
    fn call(&mut self, node: &Value, place: &str, must_look_only: bool) {
        let Some(tool) = node["tool"].as_str() else {
            return;
        };
        let arguments = node["arguments"].as_object().cloned();
        // How a tool is asked whether a call took effect may be left to the call's own arguments.
        let arguments = match arguments {
            None if place.ends_with("/verify") => None,
            given => Some(given.unwrap_or_default()),
        };
        let place = format!("{place}/tool");
        self.add(tool.to_owned(), arguments, must_look_only, place);
    }

    fn add(
        &mut self,
        tool: String,
        arguments: Option<Map<String, Value>>,
        must_look_only: bool,
        pointer: String,
    ) {
        self.mentions.push(ToolMention {
            tool,
            arguments,
            must_look_only,
            document: self.document,
            pointer,
        });
    }
}

fn items(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

fn fields(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flatten()
}
