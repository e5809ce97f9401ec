//! The program of an assistant: after each event, what comes next. Pure, like every program; what
//! has to be done outside is a call that the performer carries out.

use std::sync::Arc;
use std::time::Duration;

use convoke_app::App;
use convoke_engine::{Event, NewCall, Program, Step, View};
use convoke_model::{Agent, Decision, Name, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calls::{Made, Reply, Request, Returned, is_default};
use crate::catalogue::Skills;
use crate::error::FlowError;
use crate::memory::{Item, SkillRef};
use crate::nodes::agent::sub_agents::{ChildInput, Whom};
use crate::nodes::{act, agent, compose, decide, dispatch, graph, resolve};
use crate::template::Templates;
use crate::turn::Turn;

/// An app, ready to answer.
pub struct Assistant {
    pub(crate) app: Arc<App>,
    pub(crate) skills: Skills,
    pub(crate) templates: Templates,
}

/// How far a task has come. It is written with every entry and so holds no more than is needed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// The node whose call is open.
    pub(crate) node: Node,
    /// What the user is taken to want.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<SkillRef>,
    /// How that was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<Decision>,
    /// What is known: a text each, or the item that the text points at.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) slots: Map<String, Value>,
    /// Whether the user has said yes to it.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) confirmed: bool,
    /// Other ways to read the same message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) alternatives: Vec<Map<String, Value>>,
    /// The slot that is being looked up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slot: Option<Name>,
    /// What an earlier question narrowed the choice to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<Item>,
    /// What the user was last told of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) shown: Vec<Item>,
    /// Older messages that did not travel with the request.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) history_cut: usize,
    /// An agent's run, while a model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Box<agent::Run>>,
    /// A walk through a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) walk: Option<Box<graph::Walk>>,
    /// Several requests under way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dispatched: Vec<dispatch::Dispatched>,
    /// An answer that is data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    /// Tool calls that have ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<ToolCall>,
}

/// The nodes of the way that make calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Node {
    /// Finding out what is meant.
    #[default]
    Decide,
    /// Finding what words point at.
    Resolve,
    /// Doing it.
    Act,
    /// Letting a model think about it.
    Agent,
    /// Walking a workflow.
    Graph,
    /// Doing several things at once.
    Dispatch,
}

impl Assistant {
    /// Trains the decider and compiles what an app says.
    pub fn new(app: Arc<App>) -> Result<Self, FlowError> {
        let skills = Skills::of(&app)?;
        Ok(Self {
            app,
            skills,
            templates: Templates::new(),
        })
    }

    /// The first step: a child begins with the agent or workflow it is for, an app without skills with
    /// its workflow, else its agent, and everything else with a decision.
    fn begin(&self, turn: &mut Turn<'_>, input: Value) -> Step<Request> {
        if let Ok(child) = ChildInput::deserialize(input) {
            return self.begin_child(turn, child);
        }
        if let Some(workflow) = self.app.main_workflow().filter(|_| self.skills.is_empty()) {
            return graph::start(turn, workflow, Map::new());
        }
        match self.thinker(None) {
            Some(agent) if self.skills.is_empty() => agent::start(turn, agent),
            _ => decide::start(),
        }
    }

    fn begin_child(&self, turn: &mut Turn<'_>, child: ChildInput) -> Step<Request> {
        match &child.whom {
            Whom::Agent(name) => match self.app.agent(name.as_str()) {
                Some(agent) => agent::start_for(turn, agent, child.allowance, child.manner),
                None => compose::broken(turn, "the agent is gone"),
            },
            // As if the user had said it alone.
            Whom::Request(_) => decide::start(),
            Whom::Workflow(name) => match self.app.workflow(name.as_str()) {
                Some(workflow) => graph::start(turn, workflow, child.state),
                None => compose::broken(turn, "the workflow is gone"),
            },
        }
    }

    /// The agent that thinks about what no skill covers: the one meant, or else the first that has a
    /// model.
    pub(crate) fn thinker(&self, meant: Option<&Name>) -> Option<&Agent> {
        let thinks = |agent: &&Agent| agent.llm_config.is_some();
        let meant = meant.and_then(|name| self.app.agent(name.as_str()));
        meant
            .filter(thinks)
            .or_else(|| self.app.agents.iter().find(thinks))
    }

    /// The app.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }
}

impl Program for Assistant {
    type State = Progress;
    type Request = Request;
    type Reply = Reply;

    fn approval_time(&self) -> Duration {
        Duration::from_secs(self.app.config.limits.question_seconds.into())
    }

    fn modified(&self, request: &Request, value: Value) -> Result<Request, String> {
        request.with_arguments(value)
    }

    fn approved(&self, request: &Request, message: &str) -> Request {
        request.agreed(message)
    }

    fn fork(
        &self,
        view: View<'_, Request>,
        state: &mut Progress,
        open: Vec<NewCall<Request>>,
        set: &Map<String, Value>,
    ) -> Result<Vec<NewCall<Request>>, String> {
        if set.is_empty() {
            return Ok(open);
        }
        let mut turn = Turn {
            assistant: self,
            view,
            state,
        };
        match turn.state.node {
            Node::Graph => graph::begin_again(&mut turn, &open, set),
            Node::Act => act::begin_again(&mut turn, set),
            _ => Err("only a workflow's state, or what a skill was given, can be changed".into()),
        }
    }

    fn given(&self, request: &Request, value: Value) -> Result<Reply, String> {
        request.replied_by_hand(value)
    }

    fn step(
        &self,
        view: View<'_, Request>,
        state: &mut Progress,
        event: Event<Reply>,
    ) -> Step<Request> {
        let mut turn = Turn {
            assistant: self,
            view,
            state,
        };
        match event {
            Event::Submitted { input } => self.begin(&mut turn, input),
            Event::Returned {
                call,
                outcome,
                duration_ms,
                ..
            } => {
                let took = Duration::from_millis(duration_ms);
                let started_at = turn.view.at.checked_sub(took).unwrap_or(turn.view.at);
                let made = Made { call, started_at };
                let returned = Returned { made, outcome };
                match turn.state.node {
                    Node::Decide => decide::finish(&mut turn, returned),
                    Node::Resolve => resolve::finish(&mut turn, returned),
                    Node::Act => act::finish(&mut turn, returned),
                    Node::Agent => agent::finish(&mut turn, returned),
                    Node::Graph => graph::finish(&mut turn, returned),
                    Node::Dispatch => dispatch::finish(&mut turn, returned),
                }
            }
            Event::DeadlineReached => compose::too_late(&mut turn),
            _ => Step::default(),
        }
    }
}
