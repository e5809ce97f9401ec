//! How an agent reasons with its model: tool calls, patterns and budget.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::valid::{Report, Rules};

/// How the model calls tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// Tool calls of the endpoint.
    Native,
    /// Structured output that is either a tool call or a reply.
    Schema,
    /// Native tool calls; bare JSON calls in the text are accepted, and an endpoint without tools gets
    /// the schema.
    #[default]
    Auto,
}

/// A bounded reasoning pattern. Patterns are applied in the given order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Reason, call tools and repeat until there is an answer.
    React,
    /// Criticise the answer and revise it.
    Reflection,
    /// Plan first, then carry out the steps.
    PlanExecute,
}

/// Limits of what one task may spend on models. When one is reached, the task stops and says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Limit of model calls.
    #[schemars(range(min = 1))]
    pub model_calls: u32,
    /// Limit of tool calls, including fallbacks and sub-agents. Then the agent answers with what it has.
    #[schemars(range(min = 1))]
    pub tool_calls: u32,
    /// Limit of tokens, input and output.
    #[schemars(range(min = 1))]
    pub tokens: u64,
    /// Limit of money, in the currency of the models' prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Limit of critiques of one answer.
    pub reflections: u32,
    /// Limit of steps in a plan.
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
            let message = format!("{field} must be more than 0");
            report.require(holds, field, "budget.nothing", message);
        }
    }
}
