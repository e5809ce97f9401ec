//! The program of an assistant: decides after each event what comes next. Pure; everything with an effect is a call that
//! the performer carries out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use convoke_app::App;
use convoke_decide::Classifiers;
use convoke_engine::{Event, NewCall, Program, Step, UnusableAnswer, View};
use convoke_model::{
    Agent, AgentResult, Answerer, Approval, Approvers, Decision, FailureCode, Name, NodeKind,
    TargetKind, ToolCall, ToolSettings, UserId, UserRole, Workflow,
};
use convoke_store::GrowingList;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calls::{
    CallInfo, CallRequest, DecisionContext, Reply, Request, ReturnedCall, is_default,
};
use crate::catalogue::{Catalogue, leading};
use crate::error::FlowError;
use crate::fallback;
use crate::input::{ChildInput, ConversationExcerpt, TaskInput};
use crate::memory::{Item, SkillRef};
use crate::nodes::agent::sub_agents::Addressee;
use crate::nodes::route::Router;
use crate::nodes::{
    act, agent, aggregate, compose, decide, dispatch, graph, inquire, resolve, route,
};
use crate::template::Templates;
use crate::toolbox::Approvals;
use crate::turn::Turn;

/// A compiled app.
pub struct Assistant {
    pub(crate) app: Arc<App>,
    pub(crate) catalogue: Catalogue,
    workflows: BTreeMap<Name, graph::WorkflowGraph>,
    /// Model-based routers, by the kind of target that they choose from.
    routers: BTreeMap<Option<TargetKind>, Router>,
    pub(crate) templates: Templates,
    /// Which tools of the program that runs the app need a person's approval.
    approvals: Approvals,
}

/// State of a task. It is written with every entry, so it stays small.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// The node whose call is open.
    pub(crate) node: Node,
    /// The skill that the request is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<SkillRef>,
    /// The decision that led to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<Decision>,
    /// Slot values: a text, or the item that the text refers to.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) slots: Map<String, Value>,
    /// Whether the user has confirmed the action.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) confirmed: bool,
    /// Alternative slot values for the same message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) alternatives: Vec<Map<String, Value>>,
    /// The slot whose reference is being resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slot: Option<Name>,
    /// Items that an earlier question narrowed the choice to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<Item>,
    /// Items that the user was shown last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) shown: Vec<Item>,
    /// The list that the user saw last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) listed: Vec<Item>,
    /// Number of older messages that were left out of the history.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) history_cut: usize,
    /// Seconds since the last message of the conversation, if it was idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idle_seconds: Option<u64>,
    /// The run of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Box<agent::AgentRun>>,
    /// The walk through a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) walk: Option<Box<graph::Walk>>,
    /// The conditions that the workflow evaluated.
    #[serde(skip_serializing_if = "GrowingList::is_empty")]
    pub(crate) conditions: GrowingList<graph::JudgedCondition>,
    /// Context of an open routing decision.
    #[serde(rename = "unsure", skip_serializing_if = "Option::is_none")]
    pub(crate) router_context: Option<Box<route::RouterContext>>,
    /// The requests of a message that holds several.
    #[serde(rename = "dispatched", skip_serializing_if = "Vec::is_empty")]
    pub(crate) sub_requests: Vec<dispatch::SubRequest>,
    /// Open queries to data domains.
    #[serde(rename = "asked", skip_serializing_if = "Vec::is_empty")]
    pub(crate) domain_calls: Vec<inquire::DomainToolCall>,
    /// The conversation id of each data domain.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) conversations: BTreeMap<Name, String>,
    /// The questions that were suggested earlier in the conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) suggested: Vec<String>,
    /// Results that a model is combining into one text.
    #[serde(rename = "gathered", skip_serializing_if = "Option::is_none")]
    pub(crate) aggregation: Option<Box<aggregate::Aggregation>>,
    /// Budget used outside of agent runs and walks.
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) spent: agent::BudgetUse,
    /// What a child may read of its parent's conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
    /// Whether it failed for a transient reason, before anything was changed.
    #[serde(rename = "passing", skip_serializing_if = "is_default")]
    pub(crate) transient: bool,
    /// Of a child: the number of its calls that may have had an effect. `None` if they were not counted from the
    /// start, as in a task of an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) possible_effects: Option<usize>,
    /// Structured output of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    /// Tool calls that have ended.
    #[serde(skip_serializing_if = "GrowingList::is_empty")]
    pub(crate) tool_calls: GrowingList<ToolCall>,
    /// What each agent did. Only the step that ends the task sets it, so no entry holds it.
    #[serde(skip)]
    pub(crate) agent_results: Vec<AgentResult>,
}

/// The nodes that make calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Node {
    /// Classifying the message.
    #[default]
    Decide,
    /// Resolving a reference to an item.
    Resolve,
    /// Calling the skill's tool.
    Act,
    /// Running an agent with a model.
    Agent,
    /// Walking a workflow.
    Graph,
    /// Letting a model choose who answers.
    Route,
    /// Running several requests of one message.
    Dispatch,
    /// Querying data domains.
    Inquire,
    /// Letting a model combine several results.
    Aggregate,
}

impl Assistant {
    /// Compiles an app.
    pub fn new(app: Arc<App>) -> Result<Self, FlowError> {
        Self::sharing(app, &Classifiers::default())
    }

    /// Compiles an app and shares classifiers with other apps that have the same skills and domains.
    pub fn sharing(app: Arc<App>, classifiers: &Classifiers) -> Result<Self, FlowError> {
        let catalogue = Catalogue::of(&app, classifiers)?;
        Ok(Self {
            workflows: workflows(&app),
            routers: routers(&app, &catalogue),
            app,
            catalogue,
            templates: Templates::new(),
            approvals: Approvals::default(),
        })
    }

    /// Adds approval rules to those of the app.
    #[must_use]
    pub fn with_approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = approvals;
        self
    }

    /// Trains the classifier on its own thread, so that no request waits for it. Without a thread, it is trained when
    /// it is first needed.
    pub fn train_in_background(self: &Arc<Self>) {
        if self.is_trained() {
            return;
        }
        let assistant = Arc::clone(self);
        let thread = std::thread::Builder::new().name("training".to_owned());
        if let Err(error) = thread.spawn(move || assistant.catalogue.train()) {
            tracing::warn!(%error, "the classifier cannot be trained in the background");
        }
    }

    /// Whether the classifier is trained, so that no request waits for it.
    pub fn is_trained(&self) -> bool {
        self.catalogue.is_trained()
    }

    /// The first step. A child starts with the agent or workflow it is addressed to. An app without skills and domains
    /// starts with its workflow, else with its agent or the one that a model chooses. Everything else is classified.
    fn begin(&self, turn: &mut Turn<'_>, input: &Value) -> Step<Request> {
        match TaskInput::read(input) {
            Ok(TaskInput::User) => {}
            Ok(TaskInput::Child(child)) => return self.begin_child(turn, *child),
            Err(error) => {
                return compose::fail(turn, &FailureCode::InputUnreadable.because(error));
            }
        }
        let workflow = self.app.main_workflow();
        // A workflow with a route node replaces the app's own decision.
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
        turn.state.earlier = child.earlier;
        match &child.addressee {
            Addressee::Agent(name) => match self.app.agent(name.as_str()) {
                Some(agent) => {
                    agent::start_for(turn, agent, child.allowance, child.pattern_override)
                }
                None => compose::fail(turn, "the agent is no longer in the app"),
            },
            // Handled like a message of its own.
            Addressee::Request(_) => decide::start(DecisionContext {
                earlier: child.earlier,
                ..child.decision_context
            }),
            Addressee::Workflow(name) => match self.app.workflow(name.as_str()) {
                Some(workflow) => graph::start(turn, workflow, child.state),
                None => compose::fail(turn, "the workflow is no longer in the app"),
            },
        }
    }

    /// The agent for requests that no skill covers: `preferred` if it has a model, else the first agent with a model that is
    /// not reserved for sub-tasks.
    pub(crate) fn agent_with_model(&self, preferred: Option<&Name>) -> Option<&Agent> {
        let has_model = |agent: &&Agent| agent.llm_config.is_some();
        let preferred = preferred.and_then(|name| self.app.agent(name.as_str()));
        preferred
            .filter(has_model)
            .or_else(|| leading(&self.app).find(has_model))
    }

    /// A compiled workflow.
    pub(crate) fn workflow(&self, name: &Name) -> Option<&graph::WorkflowGraph> {
        self.workflows.get(name)
    }

    /// The model-based router over one kind of target, or over all.
    pub(crate) fn router(&self, over: Option<TargetKind>) -> Option<&Router> {
        self.routers.get(&over)
    }

    /// The app's settings for a tool, named as `tool` or `server.tool`. A bare name may match tools of several servers.
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

    /// Whether a call of a tool, named as `tool` or `server.tool`, needs a person's approval. A bare name needs it if any tool
    /// of that name does.
    pub(crate) fn needs_approval(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        let mut settings = self.tool_settings(tool);
        let is_asked = |settings: &ToolSettings| match &settings.approval {
            Approval::None => false,
            Approval::Required => true,
            Approval::When(condition) => self.condition_asks(tool, condition, arguments),
        };
        settings.any(is_asked) || self.approvals.required(tool, arguments)
    }

    /// Whether a tool's own condition wants approval. Only `false` does not.
    fn condition_asks(&self, tool: &str, condition: &str, arguments: &Map<String, Value>) -> bool {
        let names = Map::from_iter([("arguments".to_owned(), Value::from(arguments.clone()))]);
        let value = self.templates.expression(condition, &names);
        if let Err(cause) = &value {
            tracing::warn!(
                tool,
                cause,
                "the condition of an approval failed; a person is asked"
            );
        }
        value != Ok(Value::Bool(false))
    }

    /// Whether the user who made a request may approve what it starts: a call of a tool, or a workflow.
    pub(crate) fn requester_may_approve(&self, tool: Option<&str>, requester: UserId) -> bool {
        let mut own = tool.into_iter().flat_map(|tool| self.tool_settings(tool));
        let own = own.find_map(|settings| settings.approvers.as_ref());
        let approvers = own.unwrap_or(&self.app.config.approvers);
        let answerer = Answerer {
            user: requester,
            role: UserRole::User,
        };
        approvers.check(answerer, requester).is_ok()
    }

    /// Time limit of one call of a tool: the tool's own if set, else the app's.
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

fn workflows(app: &App) -> BTreeMap<Name, graph::WorkflowGraph> {
    let workflows = app.workflows.iter();
    workflows
        .map(|workflow| (workflow.name.clone(), graph::WorkflowGraph::of(workflow)))
        .collect()
}

/// The routers that the app and its workflows need.
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

    fn delay(&self, request: &Request) -> Duration {
        request.0.delay()
    }

    fn approvers(&self, state: &Progress, request: &Request) -> Approvers {
        let walk = state.walk.as_deref();
        let workflow = walk.and_then(|walk| self.workflow(&walk.workflow));
        let of_node = request.0.node().and_then(|node| {
            let node = workflow?.nodes.get(node)?;
            node.approvers.clone()
        });
        let of_tool = || match request.0.innermost() {
            CallRequest::Tool(tool_call) => {
                let mut settings = self.tool_settings(&tool_call.tool);
                settings.find_map(|settings| settings.approvers.clone())
            }
            _ => None,
        };
        let of_app = || self.app.config.approvers.clone();
        of_node.or_else(of_tool).unwrap_or_else(of_app)
    }

    fn modified(
        &self,
        state: &Progress,
        request: &Request,
        value: Value,
    ) -> Result<Request, UnusableAnswer> {
        let modified = request.with_arguments(value)?;
        if let (Some(updates), Some(walk)) = (modified.state_updates(), &state.walk) {
            graph::check_updates(self, walk, updates)?;
        }
        Ok(modified)
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
            Node::Graph => graph::rebuild_open_calls(&mut turn, &open, set),
            Node::Act => act::rebuild_open_calls(&mut turn, set),
            _ => Err("only a workflow's state, or what a skill was given, can be changed".into()),
        }
    }

    fn manual_reply(&self, request: &Request, value: Value) -> Result<Reply, String> {
        request.manual_reply(value)
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
            let calls = step.calls.iter();
            *possible += calls.filter(|call| call.request.0.may_act()).count();
        }
        step
    }
}

impl Progress {
    /// Updates the count of calls that may have had an effect.
    fn settle(&mut self, view: &View<'_, Request>, event: &Event<Reply>) {
        match (event, view.returned) {
            (Event::Submitted { .. }, _) if view.facts.parent.is_some() => {
                self.possible_effects = Some(0);
            }
            (Event::Returned { outcome, .. }, Some(call)) => {
                let request = &call.request.0;
                if let Some(possible) = &mut self.possible_effects
                    && request.may_act()
                    && request.changed_nothing(outcome)
                {
                    *possible = possible.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    /// Whether no call of the task, ended or open, can have had an effect.
    pub(crate) fn changed_nothing(&self) -> bool {
        self.possible_effects == Some(0)
    }
}

impl Assistant {
    fn go_on(&self, turn: &mut Turn<'_>, event: Event<Reply>) -> Step<Request> {
        match event {
            Event::Submitted { input } => self.begin(turn, &input),
            Event::Returned {
                call,
                outcome,
                duration_ms,
                ..
            } => {
                let took = Duration::from_millis(duration_ms);
                let started_at = turn.view.at.checked_sub(took).unwrap_or(turn.view.at);
                let info = CallInfo { call, started_at };
                let returned = ReturnedCall { info, outcome };
                if let Some(step) = fallback::next_attempt(turn, &returned) {
                    return step;
                }
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
            Event::DeadlineReached => compose::at_deadline(turn),
            _ => Step::default(),
        }
    }
}
