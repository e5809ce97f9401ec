//! Upper bounds of a workflow's calls and time. The graph has no cycle and everything in it is bounded,
//! so the bounds can be computed before anything runs.

use std::collections::BTreeMap;

use convoke_model::{
    Action, AgentFields, DomainTool, MAX_TARGETS, Name, Node, NodeKind, OnError, Order,
    ToolSettings, WorkflowFields,
};
use serde::Serialize;

use crate::app::App;
use crate::config::Limits;

/// Limit of nested workflows. Workflows that run each other in a cycle are rejected earlier.
const DEPTH: usize = 16;

/// Upper bounds of one run of a workflow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// Tool calls of the workflow's own nodes and of its agents, including retries.
    pub tool_calls: u64,
    /// Model calls of its agents.
    pub model_calls: u64,
    /// Questions to people.
    pub questions: u64,
    /// Seconds along the longest path, without the time that people take.
    pub seconds: u64,
}

impl App {
    /// The bounds of a workflow. Every node counts, even if nodes exclude each other.
    pub fn bounds(&self, workflow: &WorkflowFields) -> Bounds {
        self.bounds_within(workflow, DEPTH)
    }

    fn bounds_within(&self, workflow: &WorkflowFields, depth: usize) -> Bounds {
        let mut all = Bounds::default();
        let mut seconds = BTreeMap::new();
        // `max_iterations` bounds the workflow's own calls as a whole; agents and other workflows have their
        // own bounds.
        let mut own_calls: u64 = 0;
        for (name, node) in &workflow.nodes {
            let own = self.bounds_of(node, depth);
            let checked = u64::from(workflow.checkpoints.contains(name));
            let calls = match node.kind {
                NodeKind::Tool => &mut own_calls,
                _ => &mut all.tool_calls,
            };
            *calls = calls.saturating_add(own.tool_calls);
            all.model_calls = all.model_calls.saturating_add(own.model_calls);
            all.questions = all.questions.saturating_add(own.questions + checked);
            seconds.insert(name, own.seconds);
        }
        let own_calls = own_calls.min(workflow.max_iterations.into());
        all.tool_calls = all.tool_calls.saturating_add(own_calls);
        let mut known = BTreeMap::new();
        all.seconds = longest(workflow, &workflow.entry_point, &seconds, &mut known);
        all
    }

    fn bounds_of(&self, node: &Node, depth: usize) -> Bounds {
        let attempts = u64::from(node.retries) + 1;
        let (items, rounds) = node.map.as_ref().map_or((1, 1), |map| {
            let rounds = map.max_items.div_ceil(map.parallel.max(1));
            (u64::from(map.max_items), u64::from(rounds))
        });
        let mut once = match node.kind {
            NodeKind::Tool => self.bounds_of_tool(node.tool.as_deref().unwrap_or_default()),
            NodeKind::Agent => {
                let agent = node
                    .agent
                    .as_ref()
                    .and_then(|name| self.agent(name.as_str()));
                agent.map_or_else(Bounds::default, |agent| self.bounds_of_agent(agent))
            }
            NodeKind::Workflow if depth > 0 => {
                let inner = node
                    .workflow
                    .as_ref()
                    .and_then(|name| self.workflow(name.as_str()));
                inner.map_or_else(Bounds::default, |inner| {
                    self.bounds_within(inner, depth - 1)
                })
            }
            NodeKind::Human => Bounds {
                questions: 1,
                ..Bounds::default()
            },
            NodeKind::Route => self.bounds_of_routing(),
            NodeKind::Dispatch => return self.bounds_of_dispatch(node, depth),
            _ => Bounds::default(),
        };
        if let Some(limit) = node.timeout_seconds {
            // Each fallback of a tool has the limit for itself.
            let calls = match node.kind {
                NodeKind::Tool => once.tool_calls,
                _ => 1,
            };
            once.seconds = once.seconds.min(u64::from(limit).saturating_mul(calls));
        }
        let delays = node.retry_delay_ms.div_ceil(1_000) * u64::from(node.retries);
        Bounds {
            tool_calls: once.tool_calls.saturating_mul(attempts * items),
            model_calls: once.model_calls.saturating_mul(attempts * items),
            questions: once.questions,
            seconds: (once.seconds.saturating_mul(attempts) + delays).saturating_mul(rounds),
        }
    }

    /// As many model calls as the router's options allow.
    fn bounds_of_routing(&self) -> Bounds {
        let router = self.config.decide.router.clone().unwrap_or_default();
        let thinks = self.agents.iter().any(|agent| agent.llm_config.is_some());
        if !thinks && self.config.models.is_empty() {
            return Bounds::default();
        }
        let attempts = u64::from(router.max_attempts);
        Bounds {
            model_calls: attempts,
            seconds: attempts * u64::from(self.config.limits.agent_seconds),
            ..Bounds::default()
        }
    }

    /// As many targets as can be chosen, each counted as the most expensive one.
    fn bounds_of_dispatch(&self, node: &Node, depth: usize) -> Bounds {
        let limits = &self.config.limits;
        let skills = self.agents.iter().flat_map(|agent| &agent.skills);
        let actions = skills.filter_map(|skill| skill.action.as_ref());
        let of_actions = actions.map(|action| self.bounds_of_action(action, depth));
        let of_agents = self.agents.iter().map(|agent| self.bounds_of_agent(agent));
        let of_domains = self.domains.iter().map(|domain| Bounds {
            tool_calls: domain
                .mcp_tools
                .iter()
                .map(|tool| calls_of(tool, limits))
                .sum(),
            seconds: limits.tool_seconds.into(),
            ..Bounds::default()
        });
        let worst = of_agents
            .chain(of_domains)
            .chain(of_actions)
            .reduce(|one, other| Bounds {
                tool_calls: one.tool_calls.max(other.tool_calls),
                model_calls: one.model_calls.max(other.model_calls),
                questions: one.questions.max(other.questions),
                seconds: one.seconds.max(other.seconds),
            })
            .unwrap_or_default();
        let seconds = node.timeout_seconds.map_or(worst.seconds, u64::from);
        let order = node.order.unwrap_or(self.config.dispatch.order);
        Bounds {
            tool_calls: worst.tool_calls.max(1).saturating_mul(MAX_TARGETS as u64),
            model_calls: worst.model_calls.saturating_mul(MAX_TARGETS as u64),
            questions: worst.questions.saturating_mul(MAX_TARGETS as u64),
            seconds: match order {
                Order::Parallel => seconds,
                Order::Sequential => seconds.saturating_mul(MAX_TARGETS as u64),
            },
        }
    }

    /// A call of a tool with all its fallbacks.
    fn bounds_of_tool(&self, tool: &str) -> Bounds {
        let fallbacks = self.tool_settings(tool).map(|own| &own.fallback_tools);
        let fallbacks = fallbacks.into_iter().flatten();
        let tools = fallbacks.map(String::as_str).chain([tool]);
        tools.fold(Bounds::default(), |all, tool| Bounds {
            tool_calls: all.tool_calls + 1,
            seconds: all.seconds.saturating_add(self.tool_seconds(tool)),
            ..all
        })
    }

    /// The workflow that a skill starts, and the question before it. A tool call is counted with the agent.
    fn bounds_of_action(&self, action: &Action, depth: usize) -> Bounds {
        let started = action.workflow.as_ref().filter(|_| depth > 0);
        let started = started.and_then(|name| self.workflow(name.as_str()));
        let inner = started.map(|started| self.bounds_within(started, depth - 1));
        let mut bounds = inner.unwrap_or_default();
        bounds.questions += u64::from(action.approval.is_some());
        bounds
    }

    /// The time limit of a tool: its own, else the app's.
    fn tool_seconds(&self, tool: &str) -> u64 {
        let own = self.tool_settings(tool);
        let own = own.and_then(|settings| settings.timeout_seconds);
        own.unwrap_or(self.config.limits.tool_seconds).into()
    }

    fn tool_settings(&self, tool: &str) -> Option<&ToolSettings> {
        let (server, tool) = tool.split_once('.')?;
        self.server(server)?.tools.get(tool)
    }

    fn bounds_of_agent(&self, agent: &AgentFields) -> Bounds {
        let attempts = u64::from(agent.limits.max_retries) + 1;
        let delays = agent.limits.retry_delay_ms * u64::from(agent.limits.max_retries);
        Bounds {
            model_calls: agent.budget.model_calls.into(),
            tool_calls: match (agent.tools.is_empty(), agent.agents.is_empty()) {
                (true, true) => 0,
                _ => agent.budget.tool_calls.into(),
            },
            seconds: (self.agent_time_ms(agent) * attempts + delays).div_ceil(1_000),
            ..Bounds::default()
        }
    }
}

/// The calls of one query of a domain's tool: the query and as many polls as its time limit allows.
fn calls_of(tool: &DomainTool, limits: &Limits) -> u64 {
    let polls = match tool {
        DomainTool::Configured(asked) => asked.poll.as_ref().map_or(0, |poll| {
            u64::from(limits.tool_seconds) * 1_000 / poll.every_ms.max(1)
        }),
        DomainTool::Tool(_) => 0,
    };
    polls + 1
}

/// Seconds from a node to the end along the slowest path.
fn longest<'a>(
    workflow: &'a WorkflowFields,
    node: &'a Name,
    seconds: &BTreeMap<&Name, u64>,
    known: &mut BTreeMap<&'a Name, u64>,
) -> u64 {
    // The search keeps its own stack, because a graph from a file may be arbitrarily deep.
    let mut open = vec![node];
    while let Some(next) = open.last().copied() {
        let detour = match workflow.nodes.get(next).map(|node| &node.on_error) {
            Some(OnError::Goto(target)) => Some(target),
            _ => None,
        };
        let behind: Vec<_> = workflow
            .successors(next)
            .into_iter()
            .chain(detour)
            .collect();
        let unknown: Vec<_> = behind
            .iter()
            .copied()
            .filter(|behind| !known.contains_key(behind))
            .collect();
        if unknown.is_empty() {
            open.pop();
            let rest = behind.iter().filter_map(|behind| known.get(behind)).max();
            let own = seconds.get(next).copied().unwrap_or(0);
            known.insert(next, own.saturating_add(rest.copied().unwrap_or(0)));
        } else {
            open.extend(unknown);
        }
    }
    known.get(node).copied().unwrap_or(0)
}
