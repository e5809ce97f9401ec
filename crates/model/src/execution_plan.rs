//! A plan for a request: which agents act, in which order.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::catalogue::Catalogue;
use crate::channel::Channel;
use crate::name::Name;
use crate::valid::{Invalid, Report, Rules, Valid};

/// A validated plan.
pub type ExecutionPlan = Valid<ExecutionPlanFields>;

/// One plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ExecutionPlan")]
pub struct ExecutionPlanFields {
    /// The task.
    pub request_id: Uuid,
    /// The user's message.
    pub user_message: String,
    /// The channel of the answer.
    pub channel: Channel,
    /// The steps, in order.
    #[schemars(length(min = 1))]
    pub steps: Vec<ExecutionStep>,
    /// Agents that fetch data before the answer is composed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_agents: Vec<Name>,
    /// Context of the conversation and the user.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// Progress of the plan.
    #[serde(default)]
    pub status: PlanStatus,
    /// When it was made.
    pub created_at: Timestamp,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionStep {
    /// The agent.
    pub agent: Name,
    /// What it does.
    pub action: String,
    /// Parameters of the action.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
}

/// Progress of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Not started.
    #[default]
    Created,
    /// In progress.
    InProgress,
    /// Finished.
    Completed,
    /// Abandoned.
    Failed,
}

impl PlanStatus {
    /// Whether `next` may follow directly.
    pub fn can_become(self, next: Self) -> bool {
        match self {
            Self::Created => next == Self::InProgress,
            Self::InProgress => matches!(next, Self::Completed | Self::Failed),
            Self::Completed | Self::Failed => false,
        }
    }
}

impl fmt::Display for PlanStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        })
    }
}

impl ExecutionPlanFields {
    /// Whether data must be fetched first.
    pub fn requires_data(&self) -> bool {
        !self.data_agents.is_empty()
    }
}

impl Valid<ExecutionPlanFields> {
    /// Changes the status, if the transition is legal.
    pub fn transition(self, next: PlanStatus) -> Result<Self, Invalid> {
        if !self.status.can_become(next) {
            return Err(Invalid::one(
                "plan.move",
                format!("a plan that is {} cannot become {next}", self.status),
            ));
        }
        self.with(|plan| plan.status = next)
    }

    /// Checks that the agent of every step exists.
    pub fn check_against(&self, catalogue: &Catalogue) -> Result<(), Invalid> {
        let mut report = Report::default();
        report.within("steps", |report| {
            for (index, step) in self.steps.iter().enumerate() {
                report.require(
                    catalogue.agents.contains(&step.agent),
                    index,
                    "plan.agent_unknown",
                    format_args!("there is no agent `{}`", step.agent),
                );
            }
        });
        report.finish()
    }
}

impl Rules for ExecutionPlanFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.user_message.trim().is_empty(),
            "user_message",
            "plan.message_empty",
            "user_message is empty; write the user's message",
        );
        report.require(
            !self.steps.is_empty(),
            "steps",
            "plan.steps_empty",
            "a plan has at least one step",
        );
        report.within("steps", |report| {
            for (index, step) in self.steps.iter().enumerate() {
                report.require(
                    !step.action.trim().is_empty(),
                    index,
                    "plan.action_empty",
                    "action is empty; say what the agent is to do",
                );
            }
        });
        let mut data_agents = BTreeSet::new();
        report.within("data_agents", |report| {
            for (index, agent) in self.data_agents.iter().enumerate() {
                report.require(
                    data_agents.insert(agent),
                    index,
                    "plan.data_agent_twice",
                    format_args!("`{agent}` is listed twice; list each agent once"),
                );
                report.require(
                    self.steps.iter().any(|step| step.agent == *agent),
                    index,
                    "plan.data_agent_without_step",
                    format_args!("`{agent}` is to fetch data but has no step"),
                );
            }
        });
    }
}
