//! Agents: who answers, with which model and tools, and what each of them can do.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::skill::SkillFields;
use crate::valid::{Report, Rules, Valid};

/// An agent whose rules hold.
pub type Agent = Valid<AgentFields>;

/// One agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Agent")]
pub struct AgentFields {
    /// What the agent is called.
    pub name: Name,
    /// What it is there for, in a sentence.
    #[schemars(length(min = 1))]
    pub role: String,
    /// The instruction its model gets.
    #[schemars(length(min = 1))]
    pub system_prompt: String,
    /// The tools it may call, as `tool` or `server.tool`. It can call no others.
    #[serde(default)]
    pub tools: Vec<String>,
    /// How often it may think before it must answer.
    #[serde(default = "default_max_iterations")]
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
    /// The model it thinks with. Without one it works by its skills alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_config: Option<LlmConfig>,
    /// How freely the model samples.
    #[serde(default = "default_temperature")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// What it can do, with examples that routing learns from.
    #[serde(default)]
    pub skills: Vec<SkillFields>,
    /// How long a run may take and how often it is tried.
    #[serde(default)]
    pub limits: AgentLimits,
}

/// An OpenAI-compatible endpoint.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlmConfig {
    /// Base URL, such as `http://127.0.0.1:11434/v1`.
    pub endpoint: String,
    /// The model's identifier at that endpoint.
    pub model: String,
    /// The key, written as `${NAME}` and taken from the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
}

impl fmt::Debug for LlmConfig {
    /// Leaves out the key, and the address, which may carry one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmConfig")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// How long one run of an agent may take, and how often it is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentLimits {
    /// Milliseconds for one run.
    #[schemars(range(min = 1))]
    pub timeout_ms: u64,
    /// Further attempts after a transient failure.
    pub max_retries: u32,
    /// Milliseconds between attempts.
    pub retry_delay_ms: u64,
    /// Whether runs are measured and traced.
    pub enable_telemetry: bool,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            timeout_ms: 30_000,
            max_retries: 2,
            retry_delay_ms: 1_000,
            enable_telemetry: true,
        }
    }
}

fn default_max_iterations() -> u32 {
    10
}

fn default_temperature() -> f64 {
    0.7
}

impl Rules for AgentFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.role.trim().is_empty(),
            "role",
            "agent.role_empty",
            "role is empty; say in a sentence what the agent is for",
        );
        report.require(
            !self.system_prompt.trim().is_empty(),
            "system_prompt",
            "agent.system_prompt_empty",
            "system_prompt is empty; say what the agent's model is to do",
        );
        report.require(
            self.max_iterations > 0,
            "max_iterations",
            "agent.max_iterations_zero",
            "max_iterations must be at least 1",
        );
        report.require(
            (0.0..=2.0).contains(&self.temperature),
            "temperature",
            "agent.temperature_range",
            format!(
                "temperature must lie between 0 and 2, not {}",
                self.temperature
            ),
        );
        report.require(
            self.limits.timeout_ms > 0,
            "limits",
            "agent.timeout_zero",
            "timeout_ms must be at least 1",
        );
        let mut tools = BTreeSet::new();
        for (index, tool) in self.tools.iter().enumerate() {
            report.within("tools", |report| {
                report.require(
                    tools.insert(tool),
                    index,
                    "agent.tool_twice",
                    format!("`{tool}` is listed twice; list each tool once"),
                );
            });
        }
        let mut names = BTreeSet::new();
        for (index, skill) in self.skills.iter().enumerate() {
            report.within("skills", |report| {
                report.within(index, |report| {
                    report.require(
                        names.insert(&skill.name),
                        "name",
                        "agent.skill_twice",
                        format!("the agent already has a skill `{}`", skill.name),
                    );
                    skill.rules(report);
                });
            });
        }
    }
}
