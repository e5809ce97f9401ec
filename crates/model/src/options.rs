//! Options of an app for routing, aggregation and time. All numbers here are defaults.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::confidence::Confidence;
use crate::name::Name;
use crate::placeholder::{read_partial, read_prompt};
use crate::valid::{Report, Rules, Valid};

/// Validated router options.
pub type RouterOptions = Valid<RouterOptionsFields>;

/// How a request's target is chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "RouterOptions")]
pub struct RouterOptionsFields {
    /// The app's model that decides when the local decision is uncertain; the app's default model if
    /// left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Below this confidence, the user is asked.
    pub confidence_threshold: Confidence,
    /// Attempts with the model before the fallback agent is used.
    #[schemars(range(min = 1))]
    pub max_attempts: u32,
    /// Sampling temperature, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Limit of output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The model's system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Template of the model's prompt, over `request` and `catalogue`, which may be written as `{0}` and `{1}`.
    #[serde(
        deserialize_with = "read_prompt",
        skip_serializing_if = "Option::is_none"
    )]
    pub user_prompt_template: Option<String>,
    /// Heading of the catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_catalog_header: Option<String>,
    /// Whether the catalogue lists the skills' tags.
    pub include_agent_capabilities: bool,
    /// Whether the catalogue lists the skills' examples.
    pub include_skill_examples: bool,
    /// The agent that asks the user.
    pub clarification_agent: Name,
    /// Template of the question, over `candidates`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clarification_prompt_template: Option<String>,
    /// The agent that answers when no other can.
    pub fallback_agent: Name,
    /// Template of the reason why no other can, over `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_reason_template: Option<String>,
}

impl Default for RouterOptionsFields {
    fn default() -> Self {
        Self {
            model: None,
            confidence_threshold: Confidence::saturating(0.7),
            max_attempts: 3,
            temperature: Some(0.3),
            max_output_tokens: Some(500),
            system_prompt: None,
            user_prompt_template: None,
            agent_catalog_header: None,
            include_agent_capabilities: true,
            include_skill_examples: true,
            clarification_agent: Name::from_static("clarification_agent"),
            clarification_prompt_template: None,
            fallback_agent: Name::from_static("fallback_agent"),
            fallback_reason_template: None,
        }
    }
}

impl Default for Valid<RouterOptionsFields> {
    fn default() -> Self {
        // A unit test checks that the defaults are valid.
        Self::unchecked(RouterOptionsFields::default())
    }
}

impl Rules for RouterOptionsFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.max_attempts > 0,
            "max_attempts",
            "router.attempts_zero",
            "max_attempts must be at least 1",
        );
        report.require(
            self.temperature
                .is_none_or(|temperature| (0.0..=1.0).contains(&temperature)),
            "temperature",
            "router.temperature_range",
            "temperature must lie between 0 and 1",
        );
        report.require(
            self.max_output_tokens != Some(0),
            "max_output_tokens",
            "router.output_tokens_zero",
            "max_output_tokens must be at least 1",
        );
    }
}

/// Validated aggregator options.
pub type AggregatorOptions = Valid<AggregatorOptionsFields>;

/// How results of several agents become one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AggregatorOptions")]
pub struct AggregatorOptionsFields {
    /// The answer when every agent failed.
    pub default_fallback_message: String,
    /// Template of the answer when some failed, over `success_message` and `failure_message`, which may be written as
    /// `{successMessage}` and `{failureMessage}`.
    #[serde(deserialize_with = "read_partial")]
    pub partial_failure_template: String,
    /// Whether results are joined as prose instead of line by line.
    pub enable_natural_language_joining: bool,
    /// The app's model that combines several results into one text, which may contain only numbers from
    /// the results. Without one, or if it breaks that rule, the results are joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Default for AggregatorOptionsFields {
    fn default() -> Self {
        Self {
            default_fallback_message:
                "I encountered an issue processing your request. Please try again.".into(),
            partial_failure_template: "{{ success_message }} However, {{ failure_message }}".into(),
            enable_natural_language_joining: true,
            model: None,
        }
    }
}

impl Default for Valid<AggregatorOptionsFields> {
    fn default() -> Self {
        // A unit test checks that the defaults are valid.
        Self::unchecked(AggregatorOptionsFields::default())
    }
}

impl Rules for AggregatorOptionsFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            !self.default_fallback_message.trim().is_empty(),
            "default_fallback_message",
            "aggregator.message_empty",
            "default_fallback_message is empty; write the answer for when every agent fails",
        );
        report.require(
            ["success_message", "failure_message"]
                .iter()
                .all(|name| self.partial_failure_template.contains(name)),
            "partial_failure_template",
            "aggregator.template",
            "partial_failure_template must use success_message and failure_message",
        );
    }
}

/// Validated dispatch options.
pub type DispatchOptions = Valid<DispatchOptionsFields>;

/// How several requests in one message are executed. Time limits and retries are the agent's own
/// (`limits`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "DispatchOptions")]
pub struct DispatchOptionsFields {
    /// Whether all start at once.
    pub order: Order,
    /// Turns of the conversation passed to each of them.
    pub context_turns: u32,
}

/// Order of execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// All at once, except those that depend on another.
    #[default]
    Parallel,
    /// One after the other, in the order of the message.
    Sequential,
}

impl Default for DispatchOptionsFields {
    fn default() -> Self {
        Self {
            order: Order::default(),
            context_turns: 5,
        }
    }
}

impl Default for Valid<DispatchOptionsFields> {
    fn default() -> Self {
        // A unit test checks that the defaults are valid.
        Self::unchecked(DispatchOptionsFields::default())
    }
}

impl Rules for DispatchOptionsFields {
    fn rules(&self, report: &mut Report) {
        report.require(
            self.context_turns <= MAX_CONTEXT_TURNS,
            "context_turns",
            "dispatch.context_turns",
            format_args!("context_turns is at most {MAX_CONTEXT_TURNS}"),
        );
    }
}

/// Limit of conversation turns passed along with a part of a message.
pub const MAX_CONTEXT_TURNS: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_equal_an_empty_file() {
        let empty = || serde_json::json!({});
        let router: RouterOptions = serde_json::from_value(empty()).unwrap();
        assert_eq!(router, RouterOptions::default());
        assert_eq!(
            Name::new("clarification-agent").unwrap(),
            router.clarification_agent
        );
        assert_eq!(Name::new("fallback-agent").unwrap(), router.fallback_agent);
        let aggregator: AggregatorOptions = serde_json::from_value(empty()).unwrap();
        assert_eq!(aggregator, AggregatorOptions::default());
        let dispatch: DispatchOptions = serde_json::from_value(empty()).unwrap();
        assert_eq!(dispatch, DispatchOptions::default());
    }
}
