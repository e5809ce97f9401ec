//! Tools written in Rust and those of tool servers, behind one port.
//!
//! A [`Toolbox`] runs the tools that were added to it, under the server `rust` or one that the program names, and
//! forwards all other calls. It always has the built-in tools, under the server `builtin`.

mod approval;
mod builtin;
mod calculate;
mod limits;
mod rust_tool;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use convoke_app::BUILTIN_SERVER;
use convoke_model::{Clock, Invalid, Name};
use convoke_tools::{
    Failure, FailureCode, FailureKind, ToolDescription, ToolReply, ToolRequest, Tools,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use self::rust_tool::{CheckedTool, HandlerOutcome};
pub(crate) use builtin::{wait_time, waited};

pub use approval::Approvals;
pub use builtin::MAX_WAIT_SECONDS;
pub use calculate::{MAX_EXPRESSION_CHARACTERS, MAX_EXPRESSION_DEPTH};
pub use limits::ToolLimits;
pub use rust_tool::{DEFAULT_SERVER, RustTool, ToolContext, ToolEffect, ToolError};

/// Suffix of the error code for an ambiguous tool name, in all ports.
const AMBIGUOUS: &str = ".ambiguous_tool";

/// The tools of an app: those written in Rust, and those of its tool servers.
pub struct Toolbox {
    servers: Arc<dyn Tools>,
    own: BTreeMap<String, BTreeMap<String, Arc<CheckedTool>>>,
    limits: ToolLimits,
}

impl Toolbox {
    /// A toolbox with the built-in tools, over the app's servers.
    pub fn new(servers: Arc<dyn Tools>, clock: Arc<dyn Clock>) -> Result<Self, Invalid> {
        Self::within(servers, clock, ToolLimits::default())
    }

    /// A toolbox with these limits for all its tools.
    pub fn within(
        servers: Arc<dyn Tools>,
        clock: Arc<dyn Clock>,
        limits: ToolLimits,
    ) -> Result<Self, Invalid> {
        let mut toolbox = Self {
            servers,
            own: BTreeMap::new(),
            limits,
        };
        for tool in builtin::tools(clock) {
            toolbox.put(CheckedTool::new(tool, &limits)?)?;
        }
        Ok(toolbox)
    }

    /// Adds a tool. Fails if its name or schema is invalid or the name is taken.
    pub fn add(&mut self, tool: RustTool) -> Result<(), Invalid> {
        let tool = CheckedTool::new(tool, &self.limits)?;
        if tool.server == BUILTIN_SERVER {
            let message = format!("`{BUILTIN_SERVER}` is kept for the built-in tools");
            return Err(Invalid::one("tool.server_reserved", message));
        }
        self.put(tool)
    }

    fn put(&mut self, tool: CheckedTool) -> Result<(), Invalid> {
        let tools = self.own.entry(tool.server.clone()).or_default();
        if tools.contains_key(&tool.name) {
            let message = format!("there is another tool `{}.{}`", tool.server, tool.name);
            return Err(Invalid::one("tool.twice", message));
        }
        tools.insert(tool.name.clone(), Arc::new(tool));
        Ok(())
    }

    /// The names of the servers whose tools are written in Rust, `builtin` among them.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.own.keys().map(String::as_str)
    }

    /// The tools written in Rust, as `server.tool`.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.own
            .iter()
            .flat_map(|(server, tools)| tools.keys().map(move |tool| format!("{server}.{tool}")))
    }

    /// The Rust tools of a server. `-` and `_` in its name are equivalent.
    fn tools_of(&self, server: &str) -> Option<&BTreeMap<String, Arc<CheckedTool>>> {
        self.own.get(server).or_else(|| {
            let name = Name::new(server).ok()?;
            self.own.get(name.as_str())
        })
    }

    async fn find(&self, tool: &str) -> Result<Arc<ToolDescription>, Failure> {
        if let Some((server, name)) = tool.split_once('.')
            && let Some(tools) = self.tools_of(server)
        {
            return match tools.get(name) {
                Some(found) => Ok(found.facts()),
                None => Err(unknown_tool(tool, tools.values())),
            };
        }
        let own: Vec<_> = self
            .own
            .values()
            .filter_map(|tools| tools.get(tool))
            .collect();
        let elsewhere = self.servers.describe(tool).await;
        match (own.as_slice(), elsewhere) {
            ([], elsewhere) => elsewhere,
            // An unreachable server does not hide a tool of the toolbox.
            ([only], Err(failure)) if !failure.code.ends_with(AMBIGUOUS) => Ok(only.facts()),
            (several, elsewhere) => {
                let mut names: Vec<_> = several.iter().map(|tool| tool.full_name()).collect();
                let mut more = String::new();
                match elsewhere {
                    Ok(other) => names.push(format!("{}.{}", other.server, other.tool)),
                    Err(failure) if failure.code.ends_with(AMBIGUOUS) => {
                        more = format!(" ({})", failure.message);
                    }
                    Err(_) => {}
                }
                let message = format!(
                    "several servers have a tool `{tool}`; write one of {}{more}",
                    names.join(", ")
                );
                Err(Failure::no_effect(FailureCode::ToolAmbiguous, message))
            }
        }
    }
}

impl Tools for Toolbox {
    fn describe<'a>(
        &'a self,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Arc<ToolDescription>, Failure>> {
        self.find(tool).boxed()
    }

    fn call<'a>(&'a self, request: &'a ToolRequest) -> BoxFuture<'a, Result<ToolReply, Failure>> {
        let Some(tools) = self.tools_of(&request.server) else {
            return self.servers.call(request);
        };
        if let Some(tool) = tools.get(&request.tool) {
            return run(tool, request, self.limits).boxed();
        }
        let full_name = format!("{}.{}", request.server, request.tool);
        std::future::ready(Err(unknown_tool(&full_name, tools.values()))).boxed()
    }
}

/// Runs a handler. Errors, timeouts and panics become outcomes of the call.
async fn run(
    tool: &CheckedTool,
    request: &ToolRequest,
    limits: ToolLimits,
) -> Result<ToolReply, Failure> {
    let mut arguments = (*request.arguments).clone();
    // Injected values cannot be overridden by arguments.
    arguments.retain(|name, _| !request.injected.contains_key(name));
    let allowed = request.timeout;
    let until = Instant::now() + allowed;
    let late = |kind| {
        let message = format!("`{}` gave no answer within {allowed:?}", tool.full_name());
        Failure::new(kind, FailureCode::ToolTimeout, message).transient()
    };
    let arguments = timeout_at(until, tool.check(arguments))
        .await
        .map_err(|_| late(FailureKind::NoEffect))?
        .map_err(|(code, complaint)| Failure::no_effect(code, complaint))?;
    let context = ToolContext {
        caller: request.caller,
        idempotency_key: request.idempotency_key.clone(),
        injected: request.injected.clone(),
        timeout: allowed,
    };
    // Calls the handler inside, so that its own panics are caught as well as those of its future.
    let work =
        AssertUnwindSafe(async { (tool.handler)(context, arguments, limits).await }).catch_unwind();
    match timeout_at(until, work).await {
        Ok(Ok(HandlerOutcome::Done(result))) => {
            Ok(ToolReply::of(&request.server, &request.tool, result))
        }
        Ok(Ok(HandlerOutcome::Failed(error))) => Ok(ToolReply {
            server: request.server.clone(),
            tool: request.tool.clone(),
            content: serde_json::json!({ "code": error.code, "message": error.message }),
            text: error.message,
            is_error: true,
            schema_mismatch: None,
            changed_nothing: false,
        }),
        Ok(Ok(HandlerOutcome::TooLarge(excess))) => {
            let name = tool.full_name();
            let message = format!("the result of `{name}` is too large: {excess}");
            Err(Failure::answered(FailureCode::ToolResultTooLarge, message))
        }
        Ok(Ok(HandlerOutcome::Refused(complaint))) => {
            let name = tool.full_name();
            let message = format!("the arguments of `{name}` do not fit: {complaint}");
            Err(Failure::no_effect(FailureCode::ToolArguments, message))
        }
        Ok(Err(panic)) => {
            let message = format!(
                "`{}` broke down: {}",
                tool.full_name(),
                panic_message(&*panic)
            );
            Err(Failure::unknown(FailureCode::ToolPanicked, message))
        }
        Err(_) if tool.effect == ToolEffect::ReadOnly => Err(late(FailureKind::NoEffect)),
        Err(_) => Err(late(FailureKind::Unknown)),
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it panicked")
}

fn unknown_tool<'a>(tool: &str, known: impl Iterator<Item = &'a Arc<CheckedTool>>) -> Failure {
    let known: Vec<_> = known.map(|tool| tool.full_name()).collect();
    let message = format!("there is no tool `{tool}`; there are {}", known.join(", "));
    Failure::no_effect(FailureCode::ToolUnknown, message)
}

#[cfg(test)]
mod tests;
