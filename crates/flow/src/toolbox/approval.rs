//! Approval rules of tools written in Rust.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use convoke_model::Name;
use serde_json::{Map, Value};

use super::RustTool;

type Rule = dyn Fn(&Map<String, Value>) -> bool + Send + Sync;

/// When the calls of a tool need approval.
#[derive(Clone)]
pub(super) enum ApprovalRule {
    Never,
    Always,
    If(Arc<Rule>),
}

impl ApprovalRule {
    /// Whether a person must approve. A rule that panics counts as `true`.
    fn holds(&self, arguments: &Map<String, Value>) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::If(rule) => catch_unwind(AssertUnwindSafe(|| rule(arguments))).unwrap_or(true),
        }
    }
}

impl fmt::Debug for ApprovalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::Always => "Always",
            Self::If(_) => "If",
        })
    }
}

/// The rules of all tools of a toolbox that have any, by server and name.
#[derive(Debug, Clone, Default)]
pub struct Approvals(BTreeMap<String, BTreeMap<String, ApprovalRule>>);

impl Approvals {
    /// Whether a call of a tool, named as `tool` or `server.tool`, needs approval. A bare name matches the tools of all
    /// servers.
    pub(crate) fn required(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let holds = |tools: &BTreeMap<String, ApprovalRule>, name: &str| {
            tools.get(name).is_some_and(|rule| rule.holds(arguments))
        };
        match tool.split_once('.') {
            Some((server, name)) => {
                let tools = self.0.get(&canonical_server(server));
                tools.is_some_and(|tools| holds(tools, name))
            }
            None => self.0.values().any(|tools| holds(tools, tool)),
        }
    }
}

impl<'a> FromIterator<&'a RustTool> for Approvals {
    fn from_iter<I: IntoIterator<Item = &'a RustTool>>(tools: I) -> Self {
        let mut approvals = Self::default();
        for tool in tools {
            let (server, name, rule) = tool.approval_rule();
            if !matches!(rule, ApprovalRule::Never) {
                let server = approvals.0.entry(canonical_server(server)).or_default();
                server.insert(name.to_owned(), rule.clone());
            }
        }
        approvals
    }
}

/// A server's name in its canonical spelling.
fn canonical_server(server: &str) -> String {
    Name::new(server).map_or_else(|_| server.to_owned(), String::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ToolError;
    use super::*;

    fn tool(server: &str, name: &str) -> RustTool {
        let schema = json!({ "type": "object" });
        let done = |_, _: Value| async { Ok::<_, ToolError>(()) };
        RustTool::with_schema(name, "Does it.", schema, done).server(server)
    }

    fn requires(approvals: &Approvals, tool: &str, sum: i64) -> bool {
        let arguments = Map::from_iter([("sum".to_owned(), json!(sum))]);
        approvals.required(tool, &arguments)
    }

    #[test]
    fn a_rule_holds_for_its_own_tool_however_it_is_named() {
        let dear = |arguments: &Map<String, Value>| arguments["sum"].as_i64() > Some(10);
        let tools = [
            tool("the-desk", "pay").approval_required_if(dear),
            tool("the-desk", "sign").approval_required(),
            tool("the-desk", "look"),
            tool("till", "look"),
        ];
        let approvals: Approvals = tools.iter().collect();
        for pay in ["pay", "the-desk.pay", "the_desk.pay"] {
            assert!(requires(&approvals, pay, 11), "{pay}");
            assert!(!requires(&approvals, pay, 10), "{pay}");
        }
        assert!(requires(&approvals, "the_desk.sign", 0));
        for other in ["look", "the_desk.look", "till.pay", "till.sign"] {
            assert!(!requires(&approvals, other, 11), "{other}");
        }
    }

    #[test]
    fn a_rule_that_panics_requires_approval() {
        let broken = |arguments: &Map<String, Value>| arguments["amount"].is_null();
        let tools = [tool("till", "pay").approval_required_if(broken)];
        let approvals: Approvals = tools.iter().collect();
        assert!(requires(&approvals, "till.pay", 1));
    }
}
