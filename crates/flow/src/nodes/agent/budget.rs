//! Budgets of agent runs.

use convoke_model::{Budget, LlmConfig};
use convoke_tools::ToolReply;
use serde::{Deserialize, Serialize};

use super::transcript::Thought;
use crate::calls::is_default;

/// The part of a budget that is used up. It is journaled, so it survives a crash.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BudgetUse {
    pub(crate) model_calls: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) tool_calls: u32,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) cost: f64,
}

impl BudgetUse {
    /// Adds the usage of a thought.
    pub(crate) fn add<'a>(
        &mut self,
        thought: &Thought,
        mut models: impl Iterator<Item = &'a LlmConfig>,
    ) {
        self.model_calls += 1;
        self.input_tokens += thought.usage.input_tokens;
        self.output_tokens += thought.usage.output_tokens;
        let priced = models.find(|config| config.model == thought.model);
        if let Some(prices) = priced.and_then(|config| config.prices.as_ref()) {
            self.cost += prices.cost(thought.usage.input_tokens, thought.usage.output_tokens);
        }
    }

    /// Adds the usage of a child.
    pub(crate) fn add_child(&mut self, reply: &ToolReply) {
        if let Ok(child) = Self::deserialize(&reply.content["spent"]) {
            self.add_all(&child);
        }
    }

    /// Adds another usage.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.model_calls += other.model_calls;
        self.tool_calls += other.tool_calls;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cost += other.cost;
    }

    /// Remaining tool calls.
    pub(crate) fn tool_calls_left(&self, allowance: &Allowance) -> u32 {
        allowance.tool_calls.saturating_sub(self.tool_calls)
    }

    /// The exhausted part of the budget, if no further thought is possible.
    pub(crate) fn exhausted(&self, allowance: &Allowance) -> Option<&'static str> {
        if self.model_calls >= allowance.model_calls {
            Some("model_calls")
        } else if self.input_tokens + self.output_tokens >= allowance.tokens {
            Some("tokens")
        } else if allowance.cost.is_some_and(|cost| self.cost >= cost) {
            Some("cost")
        } else {
            None
        }
    }
}

/// The budget of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Allowance {
    model_calls: u32,
    tool_calls: u32,
    tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

impl Allowance {
    /// The agent's own budget, reduced to `at_most`.
    pub(crate) fn of(budget: &Budget, at_most: Option<&Self>) -> Self {
        let own = Self {
            model_calls: budget.model_calls,
            tool_calls: budget.tool_calls,
            tokens: budget.tokens,
            cost: budget.cost,
        };
        let Some(other) = at_most else {
            return own;
        };
        Self {
            model_calls: own.model_calls.min(other.model_calls),
            tool_calls: own.tool_calls.min(other.tool_calls),
            tokens: own.tokens.min(other.tokens),
            cost: match (own.cost, other.cost) {
                (Some(own), Some(other)) => Some(own.min(other)),
                (own, other) => own.or(other),
            },
        }
    }

    /// The equal share of the remaining budget for each of several parallel children. One model call is reserved for
    /// the parent, to use their results.
    pub(crate) fn share(&self, spent: &BudgetUse, children: u32) -> Self {
        let children = children.max(1);
        let left = self.model_calls.saturating_sub(spent.model_calls);
        let tokens = self
            .tokens
            .saturating_sub(spent.input_tokens + spent.output_tokens);
        Self {
            model_calls: left.saturating_sub(1) / children,
            tool_calls: spent.tool_calls_left(self) / children,
            tokens: tokens / u64::from(children),
            cost: self
                .cost
                .map(|cost| (cost - spent.cost).max(0.0) / f64::from(children)),
        }
    }
}
