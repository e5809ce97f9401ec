//! How an office is set up: everything that a test may want otherwise, with what is usual.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{Engine, Options};
use convoke_flow::Assistant;
use convoke_model::{Clock, SystemClock, SystemIds};
use convoke_store::{Definition, MemoryLimits, MemoryStore, Store};
use serde_json::{Value, json};

/// Tests read the journals of all their tasks afterwards.
const EVERYTHING: MemoryLimits = MemoryLimits {
    journals: usize::MAX,
    tasks: usize::MAX,
};

/// How an office is set up.
pub(crate) struct Setting {
    /// Keys of the agent, over the usual ones.
    pub(crate) agent: Value,
    /// Other agents that think with the same model.
    pub(crate) others: Vec<Value>,
    /// Workflows of the app.
    pub(crate) workflows: Vec<Value>,
    /// Keys of the tool server, over the usual ones.
    pub(crate) server: Value,
    /// The app's limits.
    pub(crate) limits: Value,
    /// How the app decides.
    pub(crate) decide: Value,
    /// More keys of the app.
    pub(crate) app: Value,
    /// The app's data domains.
    pub(crate) domains: Vec<Value>,
    /// Whether the other agents think, too.
    pub(crate) others_think: bool,
    /// Tokens of the model's window.
    pub(crate) window: u32,
    /// Where tasks are kept; in memory unless given.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// What everybody in the office reads the time from.
    pub(crate) clock: Arc<dyn Clock>,
    /// How long a task may take.
    pub(crate) task_time: Duration,
    /// How models are asked.
    pub(crate) models: convoke_llm::Options,
    /// How workers work.
    pub(crate) worker: Options,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            agent: json!({}),
            others: Vec::new(),
            workflows: Vec::new(),
            server: json!({}),
            limits: json!({}),
            decide: json!({}),
            app: json!({}),
            domains: Vec::new(),
            others_think: true,
            window: 16_384,
            store: None,
            clock: Arc::new(SystemClock),
            task_time: Duration::from_secs(30),
            models: convoke_llm::Options {
                backoff_first: Duration::from_millis(1),
                ..convoke_llm::Options::default()
            },
            worker: Options::for_worker("w"),
        }
    }
}

impl Setting {
    /// Writes the app's files.
    pub(crate) fn write(&self, folder: &Path, endpoint: &str) {
        let agent = json!({
            "name": "clerk",
            "role": "Answers.",
            "system_prompt": "You are a clerk.",
            "tools": ["desk.get_time", "desk.pay"],
            "llm_config": {
                "endpoint": endpoint,
                "model": "scripted",
                "context_tokens": self.window,
            },
            "limits": { "retry_delay_ms": 1 },
        });
        let agent = over(agent, &self.agent);
        let server = json!({
            "name": "desk",
            "transport": { "stdio": { "command": "desk" } },
            "tools": {
                "pay": { "approval": "none", "fallback_tools": ["desk.pay_later"] },
                "sign": { "approval": "required" },
            },
        });
        let servers = json!({ "servers": [over(server, &self.server)] });
        let app = json!({ "name": "office", "limits": self.limits, "decide": self.decide });
        let mut app = over(app, &self.app);
        // Models that the app names are the scripted one, too.
        let models = app.get_mut("models").and_then(Value::as_object_mut);
        for model in models.into_iter().flatten() {
            *model.1 = json!({ "endpoint": endpoint, "model": model.0 });
        }
        let mut files = vec![
            ("convoke.json".to_owned(), app),
            ("config/mcp_servers.json".to_owned(), servers),
        ];
        if !self.domains.is_empty() {
            let domains = json!({ "domains": self.domains });
            files.push(("config/domains.json".to_owned(), domains));
        }
        for other in &self.others {
            let mut other = other.clone();
            if self.others_think {
                other["llm_config"] = agent["llm_config"].clone();
            }
            let file = format!("agents/{}.json", other["name"].as_str().unwrap());
            files.push((file, other));
        }
        for workflow in &self.workflows {
            let file = format!("workflows/{}.json", workflow["name"].as_str().unwrap());
            files.push((file, workflow.clone()));
        }
        files.push(("agents/clerk.json".to_owned(), agent));
        for (file, content) in files {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content.to_string()).unwrap();
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match &self.store {
            Some(store) => Arc::clone(store),
            None => Arc::new(MemoryStore::keeping(EVERYTHING, Arc::clone(&self.clock))),
        }
    }

    pub(crate) fn engine(
        &self,
        assistant: Arc<Assistant>,
        store: Arc<dyn Store>,
    ) -> Engine<Assistant> {
        Engine::new(
            assistant,
            store,
            Arc::clone(&self.clock),
            Arc::new(SystemIds),
            "office",
            Arc::new(Definition {
                hash: "d1".into(),
                ..Definition::default()
            }),
            self.task_time,
        )
    }
}

/// The usual keys, with some given otherwise.
fn over(mut usual: Value, otherwise: &Value) -> Value {
    let keys = otherwise.as_object().unwrap().clone();
    usual.as_object_mut().unwrap().extend(keys);
    usual
}
