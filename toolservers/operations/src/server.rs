//! The MCP interface: parses arguments and returns structured results.

use convoke_serving::{Answer, Call, Outcome, Shared, ToolServer, about};
use rmcp::model::{ServerConfig, Tool};
use serde::Deserialize;
use serde_json::json;

use crate::change::{Action, reason};
use crate::error::Refusal;
use crate::host::HostHealth;
use crate::mention::mentioned;
use crate::service::{DEFAULT_WINDOW_MINUTES, name};
use crate::store::Store;
use crate::tools;

/// Serves one folder to any number of clients.
#[derive(Debug, Clone)]
pub struct OperationsServer {
    store: Shared<Store>,
}

impl OperationsServer {
    pub fn new(store: Store) -> Self {
        Self {
            store: Shared::new(store),
        }
    }

    fn find_service(&self, call: &Call) -> Outcome<Refusal> {
        let Text { text } = call.arguments()?;
        let services = self.store.with(|store| store.services())?;
        let mentioned = mentioned(&text, &services)?;
        let service = match mentioned.as_slice() {
            [only] => Some(only),
            _ => None,
        };
        Ok(Answer::done(
            json!({"service": service, "mentioned": mentioned, "services": services}),
        ))
    }

    fn service_status(&self, call: &Call) -> Outcome<Refusal> {
        let OneService { service } = call.arguments()?;
        let service = name(&service)?;
        let status = self.store.with(|store| store.status(&service))?;
        Ok(Answer::done(json!(status)))
    }

    fn recent_deployments(&self, call: &Call) -> Outcome<Refusal> {
        let window: Window = call.arguments()?;
        let service = name(&window.service)?;
        // A number outside `u32` is refused like any other that is too large.
        let minutes = u32::try_from(window.minutes).map_err(|_| Refusal::Window)?;
        let deployments = self
            .store
            .with(|store| store.deployments(&service, minutes))?;
        Ok(Answer::done(json!({"deployments": deployments})))
    }

    fn host_health(&self, call: &Call) -> Outcome<Refusal> {
        let Nothing {} = call.arguments()?;
        let folder = self.store.with(|store| store.folder().to_owned());
        Ok(Answer::done(json!(HostHealth::read(&folder))))
    }

    fn find_change(&self, call: &Call) -> Outcome<Refusal> {
        let OneKey { key } = call.arguments()?;
        let change = self.store.with(|store| store.find_change(&key))?;
        Ok(Answer::done(
            json!({"found": change.is_some(), "change": change}),
        ))
    }

    fn list_changes(&self, call: &Call) -> Outcome<Refusal> {
        let AnyService { service } = call.arguments()?;
        let service = service.as_deref().map(name).transpose()?;
        let changes = self.store.with(|store| store.changes(service.as_deref()))?;
        Ok(Answer::done(json!({"changes": changes})))
    }

    fn restart_service(&self, call: &Call) -> Outcome<Refusal> {
        let request: Restart = call.arguments()?;
        let action = Action::Restart {
            service: name(&request.service)?,
            reason: reason(&request.reason)?,
        };
        self.act(call, &action)
    }

    fn roll_back(&self, call: &Call) -> Outcome<Refusal> {
        let request: RollBack = call.arguments()?;
        let action = Action::RollBack {
            service: name(&request.service)?,
            to_version: name(&request.to_version)?,
            reason: reason(&request.reason)?,
        };
        self.act(call, &action)
    }

    fn act(&self, call: &Call, action: &Action) -> Outcome<Refusal> {
        let key = call.key()?;
        self.store.with(|store| store.act(action, key))
    }
}

impl ToolServer for OperationsServer {
    type Refusal = Refusal;

    fn about() -> ServerConfig {
        about(
            "convoke-operations",
            env!("CARGO_PKG_VERSION"),
            "Services, how they are, what was deployed, and what can be done about them.",
        )
    }

    fn tools() -> Vec<Tool> {
        tools::all()
    }

    fn run(&self, tool: &str, call: &Call) -> Option<Outcome<Refusal>> {
        Some(match tool {
            "find_service" => self.find_service(call),
            "service_status" => self.service_status(call),
            "recent_deployments" => self.recent_deployments(call),
            "host_health" => self.host_health(call),
            "find_change" => self.find_change(call),
            "list_changes" => self.list_changes(call),
            "restart_service" => self.restart_service(call),
            "roll_back" => self.roll_back(call),
            _ => return None,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneService {
    service: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyService {
    #[serde(default)]
    service: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneKey {
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Window {
    service: String,
    #[serde(default = "default_window")]
    minutes: i64,
}

fn default_window() -> i64 {
    i64::from(DEFAULT_WINDOW_MINUTES)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restart {
    service: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RollBack {
    service: String,
    to_version: String,
    reason: String,
}
