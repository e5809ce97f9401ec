//! Tools that write down what they were asked, and behave as a test says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use convoke_engine::{Failure, FailureKind};
use convoke_flow::ports::{ToolDescription, ToolReply, ToolRequest, Tools};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// What a tool does when it is called.
type Behaviour = Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value, Failure>> + Send + Sync>;

/// Tools that write down what they were asked.
#[derive(Default)]
pub(crate) struct FakeToolServer {
    behaviours: Mutex<HashMap<String, Behaviour>>,
    calls: Mutex<Vec<(String, Value)>>,
    keys: Mutex<Vec<String>>,
    described: Mutex<Vec<String>>,
    /// Tools that say that they cannot, and what they say.
    declines: Mutex<HashMap<String, String>>,
    misfits: Mutex<HashMap<String, String>>,
}

impl FakeToolServer {
    /// Makes a tool behave.
    pub(crate) fn behave<F>(&self, name: &str, behaviour: F)
    where
        F: Fn(Value) -> BoxFuture<'static, Result<Value, Failure>> + Send + Sync + 'static,
    {
        let behaviour = Arc::new(behaviour);
        self.behaviours
            .lock()
            .unwrap()
            .insert(name.into(), behaviour);
    }

    /// Makes a tool say that it cannot do what it is asked.
    pub(crate) fn decline(&self, name: &str, words: &str) {
        let mut declines = self.declines.lock().unwrap();
        declines.insert(name.into(), words.into());
    }

    /// Makes the results of a tool misfit its schema, in these words.
    pub(crate) fn misfit(&self, name: &str, words: &str) {
        let mut misfits = self.misfits.lock().unwrap();
        misfits.insert(name.into(), words.into());
    }

    /// The calls so far: tool and arguments.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().unwrap().clone()
    }

    /// The tools that were described so far, each time that they were.
    pub(crate) fn described(&self) -> Vec<String> {
        self.described.lock().unwrap().clone()
    }

    /// The idempotency keys of the calls so far, in their order.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

impl Tools for FakeToolServer {
    fn describe<'a>(
        &'a self,
        tool: &'a str,
    ) -> BoxFuture<'a, Result<Arc<ToolDescription>, Failure>> {
        self.described.lock().unwrap().push(tool.to_owned());
        let (server, name) = tool.split_once('.').unwrap_or(("desk", tool));
        let facts = ToolDescription {
            server: server.into(),
            tool: name.into(),
            read_only: name.starts_with("get"),
            idempotent: false,
            description: format!("The tool {name}."),
            parameters: Arc::new(json!({ "type": "object", "properties": {} })),
            output_schema: None,
        };
        std::future::ready(Ok(Arc::new(facts))).boxed()
    }

    fn call<'a>(&'a self, request: &'a ToolRequest) -> BoxFuture<'a, Result<ToolReply, Failure>> {
        let arguments = Value::Object((*request.arguments).clone());
        let behaviour = self.behaviours.lock().unwrap().get(&request.tool).cloned();
        self.calls
            .lock()
            .unwrap()
            .push((request.tool.clone(), arguments.clone()));
        let key = request.idempotency_key.clone();
        self.keys.lock().unwrap().push(key);
        let misfit = self.misfits.lock().unwrap().get(&request.tool).cloned();
        let declined = self.declines.lock().unwrap().get(&request.tool).cloned();
        if let Some(words) = declined {
            let reply = ToolReply {
                server: request.server.clone(),
                tool: request.tool.clone(),
                content: json!({ "code": "desk.declined", "message": words }),
                text: words,
                is_error: true,
                schema_mismatch: None,
                changed_nothing: false,
            };
            return std::future::ready(Ok(reply)).boxed();
        }
        async move {
            let outcome = match behaviour {
                // As every port does, it waits no longer than it may.
                Some(behaviour) => tokio::time::timeout(request.timeout, behaviour(arguments))
                    .await
                    .unwrap_or_else(|_| Err(lost("no answer came in time"))),
                None => Ok(json!({ "did": request.tool })),
            };
            outcome.map(|content| ToolReply {
                server: request.server.clone(),
                tool: request.tool.clone(),
                text: match &content {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                },
                content,
                is_error: false,
                schema_mismatch: misfit,
                changed_nothing: false,
            })
        }
        .boxed()
    }
}

/// A call that certainly did nothing.
pub(crate) fn failure(message: &str) -> Failure {
    Failure::no_effect("desk.broken", message)
}

/// A call that may or may not have taken effect.
pub(crate) fn lost(message: &str) -> Failure {
    Failure {
        code: "desk.lost".into(),
        kind: FailureKind::Unknown,
        ..failure(message)
    }
}
