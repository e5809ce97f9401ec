//! Collects every tool reference in an app, so that `check --connect` can validate them against running
//! servers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::app::App;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::Document;
use crate::environment::{Secrets, Variables};
use crate::origin::Origin;
use crate::yaml::push;

/// One reference to a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReference {
    /// The tool, as `tool` or `server.tool`.
    pub tool: String,
    /// Its arguments, as templates; absent if a model or a caller supplies them.
    pub arguments: Option<Map<String, Value>>,
    /// Whether the tool must be read-only.
    pub must_be_read_only: bool,
    /// The fields of the result that name items, if the app reads any.
    pub items: Option<ItemFields>,
    /// The tool that it is a fallback of.
    fallback_of: Option<String>,
    /// The slots of the skill whose action this is.
    pub slots: Vec<ActionSlot>,
    document: usize,
    pointer: String,
}

/// What a slot holds when an action uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionSlot {
    /// The name that templates use.
    pub name: String,
    /// What it holds.
    pub holds: SlotHolds,
}

/// Kinds of values of slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotHolds {
    /// Any text.
    Text,
    /// One of these texts.
    OneOf(Vec<String>),
    /// The whole item that the words refer to; its id is in this field.
    Item(String),
}

impl ActionSlot {
    fn read(name: &str, slot: &Value) -> Self {
        let holds = match (slot["refers_to"]["id"].as_str(), slot["values"].as_object()) {
            (Some(id), _) => SlotHolds::Item(id.to_owned()),
            (None, Some(values)) => {
                let default = slot["default"].as_str().map(str::to_owned);
                let mut all: Vec<String> = values.keys().cloned().collect();
                all.extend(default.filter(|default| !values.contains_key(default)));
                SlotHolds::OneOf(all)
            }
            (None, None) => SlotHolds::Text,
        };
        Self {
            name: name.replace('-', "_"),
            holds,
        }
    }
}

/// Fields of a tool's result that name items: those of `shows` or `refers_to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemFields {
    /// The field with the list. Without one, the result is the item.
    pub list: Option<String>,
    /// The keys `id` and `label`, and the fields of an item that they name.
    pub of_item: Vec<(&'static str, String)>,
    pointer: String,
}

impl ItemFields {
    fn read(value: &Value, pointer: String) -> Option<Self> {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        Some(Self {
            list: text("items"),
            of_item: vec![("id", text("id")?), ("label", text("label")?)],
            pointer,
        })
    }
}

/// All tool references of an app.
pub struct ToolReferences {
    documents: Vec<Document>,
    references: Vec<ToolReference>,
}

impl App {
    /// Collects the tool references of all files.
    pub fn tool_references(&self) -> ToolReferences {
        let mut found = ToolReferences {
            documents: Vec::new(),
            references: Vec::new(),
        };
        for file in self.files.keys() {
            // Problems of the files were reported when the app was loaded.
            let document = Document::read(
                Origin::Stored(&self.files),
                file,
                &Variables::EMPTY,
                &mut Secrets::default(),
                &mut Diagnostics::default(),
            );
            if let Some(document) = document {
                found.read(document, file);
            }
        }
        found.restrict_fallbacks();
        found
    }

    /// The error that a tool server cannot be used, at its name in `config/mcp_servers.yaml`, with the last lines of its
    /// error output.
    pub fn server_unreachable(
        &self,
        server: &str,
        message: impl Into<String>,
        error_output: &[String],
    ) -> Diagnostic {
        const CODE: &str = "connect.server_unreachable";
        let message = message.into();
        let documents = self.tool_references().documents;
        let place = documents.iter().find_map(|document| {
            let value = document.normal_value();
            let (index, _) = items(&value["servers"]).find(|(_, one)| {
                let name = one["name"].as_str().unwrap_or_default();
                name.replace('-', "_") == server
            })?;
            Some((document, format!("/servers/{index}/name")))
        });
        let mut error = match place {
            Some((document, pointer)) => document.error(&pointer, CODE, message),
            None => Diagnostic::of_file(Severity::Error, "config/mcp_servers.yaml", CODE, message),
        };
        error.output = error_output.to_vec();
        error.map_texts(|text| self.redact(text))
    }
}

impl ToolReferences {
    /// What takes the place of a tool that may only look may only look, too.
    fn restrict_fallbacks(&mut self) {
        let looks = self.references.iter().filter(|one| one.must_be_read_only);
        let looks: BTreeSet<String> = looks.map(|one| one.tool.replace('-', "_")).collect();
        for reference in &mut self.references {
            let restricted = reference.fallback_of.as_ref().is_some_and(|tool| {
                let bare = tool.split_once('.').map_or(tool.as_str(), |(_, bare)| bare);
                looks.contains(&tool.replace('-', "_")) || looks.contains(&bare.replace('-', "_"))
            });
            reference.must_be_read_only |= restricted;
        }
    }

    /// The references, by file.
    pub fn iter(&self) -> impl Iterator<Item = &ToolReference> {
        self.references.iter()
    }

    /// The referenced tools, without duplicates.
    pub fn tools(&self) -> BTreeSet<&str> {
        self.iter()
            .map(|reference| reference.tool.as_str())
            .collect()
    }

    /// An error at a reference, or at one of its arguments.
    pub fn problem(
        &self,
        reference: &ToolReference,
        argument: Option<&str>,
        code: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        let mut pointer = reference.pointer.clone();
        if let (Some(argument), Some((node, _))) = (argument, reference.pointer.rsplit_once('/')) {
            pointer = format!("{node}/arguments");
            push(&mut pointer, argument);
        }
        match self.documents.get(reference.document) {
            Some(document) => document.error(&pointer, code, message),
            None => Diagnostic::of_file(Severity::Error, ".", code, message),
        }
    }

    /// An error at a key of `shows` or `refers_to`.
    pub fn item_problem(
        &self,
        reference: &ToolReference,
        items: &ItemFields,
        key: &str,
        message: impl Into<String>,
    ) -> Diagnostic {
        let code = "connect.result_unknown";
        let pointer = format!("{}/{key}", items.pointer);
        match self.documents.get(reference.document) {
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
            references: &mut self.references,
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

/// Collects the references of one file.
struct Reader<'a> {
    document: usize,
    references: &'a mut Vec<ToolReference>,
}

impl Reader<'_> {
    fn agent(&mut self, agent: &Value) {
        self.names(&agent["tools"], "/tools");
        for (index, skill) in items(&agent["skills"]) {
            let place = format!("/skills/{index}");
            if self.call(&skill["action"], &format!("{place}/action"), false) {
                let slots =
                    fields(&skill["slots"]).map(|(name, slot)| ActionSlot::read(name, slot));
                let slots = slots.collect();
                if let Some(action) = self.references.last_mut() {
                    action.slots = slots;
                }
                let shows = &skill["action"]["shows"];
                self.reads(ItemFields::read(shows, format!("{place}/action/shows")));
            }
            for (name, slot) in fields(&skill["slots"]) {
                let mut slot_place = format!("{place}/slots");
                push(&mut slot_place, name);
                let slot_place = format!("{slot_place}/refers_to");
                let refers_to = &slot["refers_to"];
                self.call(refers_to, &slot_place, true);
                self.reads(ItemFields::read(refers_to, slot_place));
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
                let before = self.references.len();
                self.names(
                    &settings["fallback_tools"],
                    &format!("{place}/fallback_tools"),
                );
                for fallback in &mut self.references[before..] {
                    fallback.fallback_of = Some(format!("{server_name}.{name}"));
                }
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
            // A domain is only queried, so its tools must be read-only.
            for (index, tool) in items(&domain["mcp_tools"]) {
                let place = format!("{place}/{index}");
                if let Some(tool) = tool.as_str() {
                    self.add(tool.to_owned(), None, true, place.clone());
                }
                self.read_only_call(tool, &place);
                self.read_only_call(&tool["poll"], &format!("{place}/poll"));
            }
        }
    }

    /// Adds a read-only tool at `tool`, with its arguments if there are any.
    fn read_only_call(&mut self, query: &Value, place: &str) {
        if let Some(tool) = query["tool"].as_str() {
            let arguments = query["arguments"].as_object().cloned();
            self.add(tool.to_owned(), arguments, true, format!("{place}/tool"));
        }
    }

    /// Adds the tools of a list.
    fn names(&mut self, list: &Value, place: &str) {
        for (index, tool) in items(list) {
            if let Some(tool) = tool.as_str() {
                self.add(tool.to_owned(), None, false, format!("{place}/{index}"));
            }
        }
    }

    /// Adds the tool at `tool`, with the arguments at `arguments`. False if there is none.
    fn call(&mut self, node: &Value, place: &str, must_be_read_only: bool) -> bool {
        let Some(tool) = node["tool"].as_str() else {
            return false;
        };
        let arguments = node["arguments"].as_object().cloned();
        // `verify` without arguments uses those of the call it verifies.
        let arguments = match arguments {
            None if place.ends_with("/verify") => None,
            given => Some(given.unwrap_or_default()),
        };
        let place = format!("{place}/tool");
        self.add(tool.to_owned(), arguments, must_be_read_only, place);
        true
    }

    /// Sets what the app reads of the result of the tool that was added last.
    fn reads(&mut self, items: Option<ItemFields>) {
        if let (Some(last), Some(items)) = (self.references.last_mut(), items)
            && items
                .pointer
                .starts_with(last.pointer.trim_end_matches("/tool"))
        {
            last.items = Some(items);
        }
    }

    fn add(
        &mut self,
        tool: String,
        arguments: Option<Map<String, Value>>,
        must_be_read_only: bool,
        pointer: String,
    ) {
        self.references.push(ToolReference {
            tool,
            arguments,
            must_be_read_only,
            items: None,
            fallback_of: None,
            slots: Vec::new(),
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
