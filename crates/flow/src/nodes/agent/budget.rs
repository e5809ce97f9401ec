//! What a run has spent, and when that is enough.

use convoke_model::{AgentFields, Budget};
use serde::{Deserialize, Serialize};

use super::transcript::Thought;
use crate::calls::is_default;
use crate::ports::ToolReply;

/// What a run has spent so far. It is part of the journaled state, so a crash forgets none of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Spent {
    pub(crate) model_calls: u32,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) cost: f64,
}

/// A million, which prices are given for.
const PRICED_TOKENS: f64 = 1_000_000.0;

impl Spent {
    /// Adds what a thought cost.
    #[expect(
        clippy::cast_precision_loss,
        reason = "nobody pays for that many tokens"
    )]
    pub(crate) fn add(&mut self, thought: &Thought, agent: &AgentFields) {
        self.model_calls += 1;
        self.input_tokens += thought.usage.input_tokens;
        self.output_tokens += thought.usage.output_tokens;
        let priced = agent.models().find(|config| config.model == thought.model);
        if let Some(prices) = priced.and_then(|config| config.prices.as_ref()) {
            self.cost += thought.usage.input_tokens as f64 * prices.input / PRICED_TOKENS
                + thought.usage.output_tokens as f64 * prices.output / PRICED_TOKENS;
        }
    }

    /// Adds what a child has spent beyond what the family had spent before it.
    pub(crate) fn add_child(&mut self, before: &Self, reply: &ToolReply) {
        if let Ok(after) = Self::deserialize(&reply.content["spent"]) {
            self.model_calls += after.model_calls.saturating_sub(before.model_calls);
            self.input_tokens += after.input_tokens.saturating_sub(before.input_tokens);
            self.output_tokens += after.output_tokens.saturating_sub(before.output_tokens);
            self.cost += (after.cost - before.cost).max(0.0);
        }
    }

    /// What is used up, if anything is.
    pub(crate) fn exhausted(&self, budget: &Budget) -> Option<&'static str> {
        if self.model_calls >= budget.model_calls {
            Some("model_calls")
        } else if self.input_tokens + self.output_tokens >= budget.tokens {
            Some("tokens")
        } else if budget.cost.is_some_and(|cost| self.cost >= cost) {
            Some("cost")
        } else {
            None
        }
    }
}
