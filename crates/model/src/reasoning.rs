//! How an agent with a model thinks: how it calls tools, in which patterns, and what it may spend.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::valid::{Report, Rules};

/// How a model is told of tools, and how it calls them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// By the endpoint's own tool calls.
    Native,
    /// By structured output that is either one of the tools' calls or a reply.
    Schema,
    /// Natively; a bare JSON call in the text is understood too, and an endpoint that knows no tools
    /// gets the schema.
    #[default]
    Auto,
}

/// A bounded way of thinking. Patterns are applied in the order given.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Think, call tools, think again, until there is an answer.
    React,
    /// Criticise the answer and revise it.
    Reflection,
    /// Make a plan first and carry it out step by step.
    PlanExecute,
}

/// What one task may spend on models. At any of these it stops with a clear state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Model calls in all.
    #[schemars(range(min = 1))]
    pub model_calls: u32,
    /// Tool calls in all, those of fallbacks and of agents that it asks included. Then it answers with what
    /// it has.
    #[schemars(range(min = 1))]
    pub tool_calls: u32,
    /// Tokens in all, those of the questions and those of the answers.
    #[schemars(range(min = 1))]
    pub tokens: u64,
    /// Money in all, in the currency of the models' prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Critiques of one answer.
    pub reflections: u32,
    /// Steps of a plan.
    #[schemars(range(min = 1))]
    pub plan_steps: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            model_calls: 40,
            tool_calls: 50,
            tokens: 200_000,
            cost: None,
            reflections: 2,
            plan_steps: 6,
        }
    }
}

impl Rules for Budget {
    fn rules(&self, report: &mut Report) {
        for (field, holds) in [
            ("model_calls", self.model_calls > 0),
            ("tool_calls", self.tool_calls > 0),
            ("tokens", self.tokens > 0),
            ("plan_steps", self.plan_steps > 0),
            ("cost", self.cost.is_none_or(|cost| cost > 0.0)),
        ] {
            let message = format!("{field} must be more than 0; a budget of nothing buys nothing");
            report.require(holds, field, "budget.nothing", message);
        }
    }
}
