//! Agents: their model, their tools and their skills.

use std::collections::BTreeSet;
use std::fmt;

use convoke_schema::{Schema, SchemaError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::Name;
use crate::reasoning::{Budget, Pattern, ToolMode};
use crate::skill::SkillFields;
use crate::valid::{Report, Rules, Valid};

/// A validated agent.
pub type Agent = Valid<AgentFields>;

/// An agent as its file describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Agent")]
pub struct AgentFields {
    /// The agent's name.
    pub name: Name,
    /// The agent's purpose, in a sentence.
    #[schemars(length(min = 1))]
    pub role: String,
    /// System prompt of its model.
    #[schemars(length(min = 1))]
    pub system_prompt: String,
    /// Tools it may call, as `tool` or `server.tool`. It can call no others.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Agents it may start as sub-agents. Each has a history of its own and returns its answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Name>,
    /// Limit of model turns per run. After the last one it must answer.
    #[serde(default = "default_max_iterations")]
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
    /// The model it uses. Without one it works by its skills alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_config: Option<LlmConfig>,
    /// Models to try, in order, when the first one fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<LlmConfig>,
    /// How the model calls tools.
    #[serde(default)]
    pub tool_mode: ToolMode,
    /// The reasoning patterns it applies, in order.
    #[serde(default = "default_patterns")]
    pub patterns: Vec<Pattern>,
    /// JSON Schema of its answers, if they are data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Limits of what one task may spend on models.
    #[serde(default)]
    pub budget: Budget,
    /// Sampling temperature, from 0 to 2.
    #[serde(default = "default_temperature")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: f64,
    /// What it can do. Routing learns from the examples.
    #[serde(default)]
    pub skills: Vec<SkillFields>,
    /// Time limit and retries of one run.
    #[serde(default)]
    pub limits: AgentLimits,
}

/// An OpenAI-compatible endpoint.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlmConfig {
    /// Base URL, such as `http://127.0.0.1:11434/v1`.
    pub endpoint: String,
    /// The model's identifier at that endpoint.
    pub model: String,
    /// The key, written as `${NAME}` and taken from the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Context window in tokens, prompt and answer together.
    #[serde(default = "default_context_tokens")]
    #[schemars(range(min = 1))]
    pub context_tokens: u32,
    /// Whether the model understands images. One that does not is told that there are some.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub images: bool,
    /// Prices, needed for a budget in money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

/// Price per million tokens, in any currency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Per million input tokens.
    #[schemars(range(min = 0.0))]
    pub input: f64,
    /// Per million output tokens.
    #[schemars(range(min = 0.0))]
    pub output: f64,
}

impl Prices {
    /// What an answer costs.
    #[expect(
        clippy::cast_precision_loss,
        reason = "nobody pays for that many tokens"
    )]
    pub fn cost(&self, input_tokens: u64, output_tokens: u64) -> f64 {
        const PRICED_TOKENS: f64 = 1_000_000.0;
        input_tokens as f64 * self.input / PRICED_TOKENS
            + output_tokens as f64 * self.output / PRICED_TOKENS
    }
}

impl AgentFields {
    /// The models to ask, in order. Empty for an agent that works by its skills alone.
    pub fn models(&self) -> impl Iterator<Item = &LlmConfig> {
        self.llm_config.iter().chain(&self.fallback_models)
    }
}

impl fmt::Debug for LlmConfig {
    /// Hides the key, and the address, which may contain one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmConfig")
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Time limit and retries of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentLimits {
    /// Milliseconds for one attempt at the whole run, including tool calls; `agent_seconds` of the app
    /// if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Retries after a transient failure.
    pub max_retries: u32,
    /// Milliseconds between attempts.
    pub retry_delay_ms: u64,
    /// Whether runs are measured and traced.
    pub enable_telemetry: bool,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            timeout_ms: None,
            max_retries: 2,
            retry_delay_ms: 1_000,
            enable_telemetry: true,
        }
    }
}

fn default_max_iterations() -> u32 {
    10
}

fn default_patterns() -> Vec<Pattern> {
    vec![Pattern::React]
}

fn default_context_tokens() -> u32 {
    16_384
}

fn default_temperature() -> f64 {
    0.7
}

impl Rules for LlmConfig {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.context_tokens > 0,
            "context_tokens",
            "llm_config.context_zero",
            "context_tokens must be at least 1",
        );
        let paid = |price: f64| price.is_finite() && price >= 0.0;
        report.require(
            self.prices
                .as_ref()
                .is_none_or(|prices| paid(prices.input) && paid(prices.output)),
            "prices",
            "llm_config.price_negative",
            "a price is at least 0",
        );
    }
}

fn output_schema_rules(schema: &Value, report: &mut Report) {
    let Err(error) = Schema::compile(schema) else {
        return;
    };
    let (code, message) = match &error {
        SchemaError::Invalid(reason) => (
            "agent.output_schema",
            format!("this is not a JSON Schema: {reason}"),
        ),
        SchemaError::Unsupported(_) => ("agent.output_schema", error.to_string()),
        SchemaError::TooComplex(_) => ("agent.schema_too_complex", error.to_string()),
    };
    report.field("output_schema", code, message);
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
            format_args!(
                "temperature must lie between 0 and 2, not {}",
                self.temperature
            ),
        );
        report.require(
            self.limits.timeout_ms != Some(0),
            "limits",
            "agent.timeout_zero",
            "timeout_ms must be at least 1",
        );
        report.require(
            self.fallback_models.is_empty() || self.llm_config.is_some(),
            "fallback_models",
            "agent.fallback_without_model",
            "fallback_models needs llm_config; name the first model there",
        );
        if let Some(schema) = &self.output_schema {
            output_schema_rules(schema, report);
        }
        let mut agents = BTreeSet::new();
        report.require(
            self.agents
                .iter()
                .all(|agent| *agent != self.name && agents.insert(agent)),
            "agents",
            "agent.agents",
            "agents lists other agents, each once, and not the agent itself",
        );
        let mut patterns = BTreeSet::new();
        report.require(
            self.patterns.iter().all(|pattern| patterns.insert(pattern)),
            "patterns",
            "agent.pattern_twice",
            "a pattern is named twice; name each once",
        );
        report.within("budget", |report| self.budget.rules(report));
        if let Some(config) = &self.llm_config {
            report.within("llm_config", |report| config.rules(report));
        }
        report.within("fallback_models", |report| {
            for (index, config) in self.fallback_models.iter().enumerate() {
                report.within(index, |report| config.rules(report));
            }
        });
        let mut tools = BTreeSet::new();
        for (index, tool) in self.tools.iter().enumerate() {
            report.within("tools", |report| {
                report.require(
                    tools.insert(tool),
                    index,
                    "agent.tool_twice",
                    format_args!("`{tool}` is listed twice; list each tool once"),
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
                        format_args!("the agent already has a skill `{}`", skill.name),
                    );
                    skill.rules(report);
                });
            });
        }
    }
}
