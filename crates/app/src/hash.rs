//! The identity of an app: one hash over everything that matters for running it.

use std::fmt::Write as _;

use convoke_model::Agent;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::config::AppConfig;
use crate::contents::Contents;
use crate::document::Document;
use crate::origin::AppFiles;

/// Changes when the way of hashing does, so that hashes of two ways never meet by accident.
const FORMAT: u32 = 1;

/// The hash, in hexadecimal. Formatting, comments, the order of keys, file names, evals and the
/// values of secrets leave it as it is.
pub(crate) fn of(contents: &Contents) -> String {
    let single = |document: Option<&Document>| document.map_or(Value::Null, Document::normal_value);
    let mut config = single(contents.config.as_ref().map(|config| &config.document));
    if let Some(config) = config.as_object_mut() {
        // The bar of the evals says nothing about how the app runs.
        config.remove("evals");
    }
    let whole = json!({
        "format": FORMAT,
        "config": config,
        "agents": by_name(contents.agents.iter().map(|agent| &agent.document)),
        "workflows": by_name(contents.workflows.iter().map(|workflow| &workflow.document)),
        "servers": single(contents.servers.as_ref().map(|list| &list.document)),
        "domains": single(contents.domains.as_ref().map(|list| &list.document)),
        "channels": single(contents.channels.as_ref().map(|list| &list.document)),
        "style_guide": single(contents.style_guide.as_ref().map(|guide| &guide.document)),
        "retention": single(contents.retention.as_ref().map(|policy| &policy.document)),
    });
    hexadecimal(&whole)
}

/// The hash of an app that stands in no folder. Keys leave it as it is.
pub(crate) fn of_agents(config: &AppConfig, agents: &[Agent]) -> String {
    let mut agents: Vec<Value> = agents.iter().map(without_keys).collect();
    agents.sort_by_cached_key(|value| value["name"].to_string());
    hexadecimal(&json!({ "format": FORMAT, "name": config.name, "agents": agents }))
}

/// The files that an app of agents alone would stand in, without its keys.
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

fn by_name<'a>(documents: impl Iterator<Item = &'a Document>) -> Vec<Value> {
    let mut values: Vec<Value> = documents.map(Document::normal_value).collect();
    values.sort_by_cached_key(|value| value["name"].to_string());
    values
}
