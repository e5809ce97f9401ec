//! The program of an assistant: after each event, what comes next. Pure, like every program; what
//! has to be done outside is a call that the performer carries out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use convoke_app::App;
use convoke_decide::Classifiers;
use convoke_engine::{Event, NewCall, Program, Step, View};
use convoke_model::{
    Agent, Approval, Decision, Name, NodeKind, TargetKind, ToolCall, ToolSettings, Workflow,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calls::{CallInfo, DecisionContext, Reply, Request, ReturnedCall, is_default};
use crate::catalogue::{Catalogue, leading};
use crate::error::FlowError;
use crate::memory::{Item, SkillRef};
use crate::nodes::agent::sub_agents::{Addressee, ChildInput};
use crate::nodes::route::Router;
use crate::nodes::{
    act, agent, aggregate, compose, decide, dispatch, graph, inquire, resolve, route,
};
use crate::template::Templates;
use crate::toolbox::Approvals;
use crate::turn::Turn;

/// An app, ready to answer.
pub struct Assistant {
    pub(crate) app: Arc<App>,
    pub(crate) catalogue: Catalogue,
    /// How a model says who answers, where one may, by what it chooses from.
    routers: BTreeMap<Option<TargetKind>, Router>,
    pub(crate) templates: Templates,
    /// Which tools of the program that runs the app need a person's approval.
    approvals: Approvals,
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
    pub(crate) run: Option<Box<agent::AgentRun>>,
    /// A walk through a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) walk: Option<Box<graph::Walk>>,
    /// What is known while a model says who answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unsure: Option<Box<route::RouterContext>>,
    /// Several requests under way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dispatched: Vec<dispatch::SubRequest>,
    /// The domains that are being asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) asked: Vec<inquire::DomainToolCall>,
    /// The conversation that each domain goes on with.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) conversations: BTreeMap<Name, String>,
    /// Results of which a model is to make one text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gathered: Option<Box<aggregate::Aggregation>>,
    /// What was spent besides what an agent's run or a walk spends.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) spent: agent::BudgetUse,
    /// Whether it failed for a passing reason, before anything was changed.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) passing: bool,
    /// Of a child: its calls, under way or ended, that may have changed something outside. Nothing where they were
    /// not counted from the start, as in a task of an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) possible_effects: Option<usize>,
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
    /// Letting a model say who answers.
    Route,
    /// Doing several things at once.
    Dispatch,
    /// Asking data domains.
    Inquire,
    /// Letting a model make one text of several results.
    Aggregate,
}

impl Assistant {
    /// Compiles what an app says.
    pub fn new(app: Arc<App>) -> Result<Self, FlowError> {
        Self::sharing(app, &Classifiers::default())
    }

    /// The same, with a classifier that other assistants of the collection may have trained, where the apps have the
    /// same skills and domains.
    pub fn sharing(app: Arc<App>, classifiers: &Classifiers) -> Result<Self, FlowError> {
        let catalogue = Catalogue::of(&app, classifiers)?;
        Ok(Self {
            routers: routers(&app, &catalogue),
            app,
            catalogue,
            templates: Templates::new(),
            approvals: Approvals::default(),
        })
    }

    /// Asks a person before it calls what these rules say, as before what the app says.
    #[must_use]
    pub fn with_approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = approvals;
        self
    }

    /// Trains the classifier on a thread of its own, so that no request waits for it. What is not trained then is
    /// trained when it is first needed.
    pub fn train_in_background(self: &Arc<Self>) {
        if self.is_trained() {
            return;
        }
        let assistant = Arc::clone(self);
        let thread = std::thread::Builder::new().name("training".to_owned());
        if let Err(error) = thread.spawn(move || assistant.catalogue.train()) {
            tracing::warn!(%error, "there is no thread to train the classifier on");
        }
    }

    /// Whether no request has to wait for training any more.
    pub fn is_trained(&self) -> bool {
        self.catalogue.is_trained()
    }

    /// The first step: a child begins with the agent or workflow it is for, an app with nothing to decide over with its
    /// workflow, else with its agent, or with the one of several that a model chooses, and everything else with a decision.
    fn begin(&self, turn: &mut Turn<'_>, input: Value) -> Step<Request> {
        if let Ok(child) = ChildInput::deserialize(input) {
            return self.begin_child(turn, child);
        }
        let workflow = self.app.main_workflow();
        // A workflow that decides by itself who answers decides for all.
        let walks = |workflow: &&Workflow| self.catalogue.is_empty() || workflow.routes();
        if let Some(workflow) = workflow.filter(walks) {
            return graph::start(turn, workflow, Map::new());
        }
        if !self.catalogue.is_empty() {
            return decide::start(DecisionContext::default());
        }
        route::unsure(turn, Vec::new())
    }

    fn begin_child(&self, turn: &mut Turn<'_>, child: ChildInput) -> Step<Request> {
        match &child.whom {
            Addressee::Agent(name) => match self.app.agent(name.as_str()) {
                Some(agent) => agent::start_for(turn, agent, child.allowance, child.manner),
                None => compose::broken(turn, "the agent is gone"),
            },
            // As if the user had said it alone.
            Addressee::Request(_) => decide::start(child.deciding),
            Addressee::Workflow(name) => match self.app.workflow(name.as_str()) {
                Some(workflow) => graph::start(turn, workflow, child.state),
                None => compose::broken(turn, "the workflow is gone"),
            },
        }
    }

    /// The agent that thinks about what no skill covers: the one meant, or else the first that has a model and does not
    /// only work for others.
    pub(crate) fn thinker(&self, meant: Option<&Name>) -> Option<&Agent> {
        let thinks = |agent: &&Agent| agent.llm_config.is_some();
        let meant = meant.and_then(|name| self.app.agent(name.as_str()));
        meant
            .filter(thinks)
            .or_else(|| leading(&self.app).find(thinks))
    }

    /// How a model says who answers, if one may: of everything, or of one kind.
    pub(crate) fn router(&self, over: Option<TargetKind>) -> Option<&Router> {
        self.routers.get(&over)
    }

    /// What the app says of a tool, given as `tool` or `server.tool`. A bare name may be a tool of several servers.
    pub(crate) fn tool_settings(&self, tool: &str) -> impl Iterator<Item = &ToolSettings> {
        let (server, name) = match tool.split_once('.') {
            Some((server, name)) => (Some(server), name),
            None => (None, tool),
        };
        let servers = self.app.servers.iter();
        servers
            .filter(move |known| server.is_none_or(|server| known.name.matches(server)))
            .filter_map(move |known| known.tools.get(name))
    }

    /// Whether a person must agree before a tool, given as `tool` or `server.tool`, is called with these arguments.
    pub(crate) fn needs_approval(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        let mut settings = self.tool_settings(tool);
        settings.any(|settings| settings.approval == Approval::Required)
            || self.approvals.required(tool, arguments)
    }

    /// How long one call of a tool may take: its own limit, where the app sets one, else the app's.
    pub(crate) fn tool_time(&self, tool: &str) -> Duration {
        let own = self.tool_settings(tool).find_map(|own| own.timeout_seconds);
        let seconds = own.unwrap_or(self.app.config.limits.tool_seconds);
        Duration::from_secs(seconds.into())
    }

    /// The app.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }
}

/// The routers that the app's way and its workflows use.
fn routers(app: &App, catalogue: &Catalogue) -> BTreeMap<Option<TargetKind>, Router> {
    let nodes = app
        .workflows
        .iter()
        .flat_map(|workflow| workflow.nodes.values());
    let kinds = nodes
        .filter(|node| node.kind == NodeKind::Route)
        .map(|node| node.over);
    let kinds: BTreeSet<Option<TargetKind>> = kinds.chain([None]).collect();
    kinds
        .into_iter()
        .filter_map(|over| Some((over, Router::of(app, catalogue, over)?)))
        .collect()
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
        state.settle(&view, &event);
        let mut turn = Turn {
            assistant: self,
            view,
            state,
        };
        let step = self.go_on(&mut turn, event);
        if let Some(possible) = &mut turn.state.possible_effects {
            let begun = step.calls.iter();
            *possible += begun.filter(|call| call.request.0.may_act()).count();
        }
        step
    }
}

impl Progress {
    /// Notes what is known by now of the calls that may have changed something.
    fn settle(&mut self, view: &View<'_, Request>, event: &Event<Reply>) {
        match (event, view.returned) {
            (Event::Submitted { .. }, _) if view.facts.parent.is_some() => {
                self.possible_effects = Some(0);
            }
            (Event::Returned { outcome, .. }, Some(call)) => {
                let ask = &call.request.0;
                if let Some(possible) = &mut self.possible_effects
                    && ask.may_act()
                    && ask.changed_nothing(outcome)
                {
                    *possible = possible.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    /// Whether the task certainly changed nothing, nor will by a call that is under way.
    pub(crate) fn changed_nothing(&self) -> bool {
        self.possible_effects == Some(0)
    }
}

impl Assistant {
    fn go_on(&self, turn: &mut Turn<'_>, event: Event<Reply>) -> Step<Request> {
        match event {
            Event::Submitted { input } => self.begin(turn, input),
            Event::Returned {
                call,
                outcome,
                duration_ms,
                ..
            } => {
                let took = Duration::from_millis(duration_ms);
                let started_at = turn.view.at.checked_sub(took).unwrap_or(turn.view.at);
                let made = CallInfo { call, started_at };
                let returned = ReturnedCall { made, outcome };
                match turn.state.node {
                    Node::Decide => decide::finish(turn, returned),
                    Node::Resolve => resolve::finish(turn, returned),
                    Node::Act => act::finish(turn, returned),
                    Node::Agent => agent::finish(turn, returned),
                    Node::Graph => graph::finish(turn, returned),
                    Node::Route => route::finish(turn, returned),
                    Node::Dispatch => dispatch::finish(turn, returned),
                    Node::Inquire => inquire::finish(turn, returned),
                    Node::Aggregate => aggregate::finish(turn, returned),
                }
            }
            Event::DeadlineReached => compose::too_late(turn),
            _ => Step::default(),
        }
    }
}
