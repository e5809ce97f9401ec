//! The identity of an app: a hash over everything that affects how it runs.

use std::fmt::Write as _;

use convoke_model::Agent;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::config::AppConfig;
use crate::document::Document;
use crate::origin::AppFiles;

/// Version of the hash's definition. Change it together with the definition, so that hashes of two
/// versions never collide.
const FORMAT: u32 = 1;

/// The files that the hash covers.
pub(crate) struct HashedFiles<'a> {
    pub(crate) config: Option<&'a Document>,
    pub(crate) agents: Vec<&'a Document>,
    pub(crate) workflows: Vec<&'a Document>,
    pub(crate) servers: Option<&'a Document>,
    pub(crate) domains: Option<&'a Document>,
    pub(crate) channels: Option<&'a Document>,
    pub(crate) style_guide: Option<&'a Document>,
    pub(crate) retention: Option<&'a Document>,
}

impl<'a> HashedFiles<'a> {
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Document> {
        let singles = [
            self.config,
            self.servers,
            self.domains,
            self.channels,
            self.style_guide,
            self.retention,
        ];
        let lists = self.agents.iter().chain(&self.workflows).copied();
        lists.chain(singles.into_iter().flatten())
    }
}

/// The hash in hexadecimal. Formatting, comments, key order, file names, evals and values of secrets do
/// not change it.
pub(crate) fn of(hashed_files: &HashedFiles<'_>) -> String {
    let single = |document: Option<&Document>| document.map_or(Value::Null, Document::normal_value);
    let mut config = single(hashed_files.config);
    if let Some(config) = config.as_object_mut() {
        // Minimum eval results do not affect how the app runs.
        config.remove("evals");
    }
    let whole = json!({
        "format": FORMAT,
        "config": config,
        "agents": by_name(hashed_files.agents.iter().map(|agent| agent.normal_value())),
        "workflows": by_name(hashed_files.workflows.iter().map(|workflow| workflow.normal_value())),
        "servers": single(hashed_files.servers),
        "domains": single(hashed_files.domains),
        "channels": single(hashed_files.channels),
        "style_guide": single(hashed_files.style_guide),
        "retention": single(hashed_files.retention),
    });
    hexadecimal(&whole)
}

/// The hash of an app without a folder. API keys do not change it.
pub(crate) fn of_agents(config: &AppConfig, agents: &[Agent]) -> String {
    agents_hash(&json!(config.name), agents.iter().map(without_keys))
}

/// The same hash, computed from the files of [`agent_files`]; `None` for any other files.
pub(crate) fn of_agent_files(hashed_files: &HashedFiles<'_>) -> Option<String> {
    let config = hashed_files.config?;
    let [name] = config.written.entries() else {
        return None;
    };
    let is_made_of_agents = hashed_files.all().count() == hashed_files.agents.len() + 1;
    if name.key != "name" || !is_made_of_agents {
        return None;
    }
    let agents = hashed_files
        .agents
        .iter()
        .map(|agent| agent.written.to_value());
    Some(agents_hash(&name.node.to_value(), agents))
}

fn agents_hash(name: &Value, agents: impl Iterator<Item = Value>) -> String {
    hexadecimal(&json!({ "format": FORMAT, "name": name, "agents": by_name(agents) }))
}

/// The files of an app that consists of agents alone, without API keys.
pub(crate) fn agent_files(config: &AppConfig, agents: &[Agent]) -> AppFiles {
    let main = (
        "convoke.json".to_owned(),
        json!({ "name": config.name }).to_string(),
    );
    let agents = agents.iter().map(|agent| {
        let file = format!("agents/{}.json", agent.name);
        (file, without_keys(agent).to_string())
    });
    std::iter::once(main).chain(agents).collect()
}

fn without_keys(agent: &Agent) -> Value {
    let mut fields = agent.clone().into_fields();
    let models = fields.llm_config.iter_mut();
    for model in models.chain(&mut fields.fallback_models) {
        model.api_key = None;
    }
    json!(fields)
}

fn hexadecimal(whole: &Value) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(whole.to_string()) {
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

fn by_name(values: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut values: Vec<Value> = values.collect();
    values.sort_by_cached_key(|value| value["name"].to_string());
    values
}
