//! Parses the routing decision of a model. Parsing is lenient; only targets in the catalogue are accepted.
//!
//! Two forms are understood: the one that the prompt requests, with a list of `targets`, and one primary `agentId` with
//! `additionalAgents`, for prompts of an app's own. Keys may be written in snake case or in camel case.

use convoke_llm::extract_json;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::router::{Router, Special};
use crate::memory::{PossibleTarget, RequestTarget};
use crate::split::{MAX_PARTS, Part};

/// A model's choice, and the names it wrote that are not in the catalogue.
pub(crate) struct Choice {
    pub(crate) chosen: ModelChoice,
    pub(crate) dropped: Vec<String>,
}

/// The routing decision of a model.
pub(crate) enum ModelChoice {
    /// Each target with its part of the request.
    Targets { parts: Vec<Part>, why: String },
    /// The model is not confident enough, or asks for clarification.
    Unsure {
        candidates: Vec<PossibleTarget>,
        question: Option<String>,
        why: String,
    },
    /// No target fits.
    Nobody {
        why: String,
        /// How certain the model is of that; 0 if it does not say.
        confidence: f64,
    },
    /// The output could not be parsed, or names no known target; the reason.
    Broken(String),
}

/// The JSON of a model, its keys in lower case without separators.
#[derive(Deserialize)]
struct WrittenChoice {
    #[serde(default)]
    targets: Vec<WrittenTarget>,
    /// The primary agent.
    #[serde(default)]
    agentid: Option<String>,
    /// Further agents, of the same confidence as the primary one.
    #[serde(default)]
    additionalagents: Option<Vec<String>>,
    #[serde(default)]
    confidence: Value,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    clarifyingquestion: Option<String>,
}

#[derive(Deserialize)]
struct WrittenTarget {
    #[serde(alias = "agentid")]
    name: String,
    #[serde(default)]
    confidence: Value,
    #[serde(default)]
    request: Option<String>,
}

impl WrittenChoice {
    fn read(text: &str) -> Option<Self> {
        Self::deserialize(with_plain_keys(extract_json(text)?)).ok()
    }

    /// All targets, the primary one first.
    fn targets(&mut self) -> Vec<WrittenTarget> {
        let targets = std::mem::take(&mut self.targets);
        if !targets.is_empty() {
            return targets;
        }
        let agents = self.agentid.take().into_iter();
        let agents = agents.chain(self.additionalagents.take().unwrap_or_default());
        agents
            .map(|name| WrittenTarget {
                name,
                confidence: self.confidence.clone(),
                request: None,
            })
            .collect()
    }
}

/// The same value with the keys of its objects in lower case, without `_` and `-`.
fn with_plain_keys(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let plain = |key: &str| key.replace(['_', '-'], "").to_lowercase();
            let fields = fields.into_iter();
            let fields: Map<String, Value> = fields
                .map(|(key, value)| (plain(&key), with_plain_keys(value)))
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => items.into_iter().map(with_plain_keys).collect(),
        other => other,
    }
}

/// A confidence as a number or as a number in a text. A missing or other one counts as 0.
fn confidence(written: &Value) -> f64 {
    let text = |text: &str| text.trim().parse::<f64>().ok();
    let number = written.as_f64().or_else(|| text(written.as_str()?));
    number.filter(|number| number.is_finite()).unwrap_or(0.0)
}

impl Router {
    /// Parses a model's output. Names that are not in the catalogue are returned as `dropped`. A target without its own
    /// part of the request gets the whole request.
    pub(crate) fn read(&self, text: &str, request: &str) -> Choice {
        let Some(mut written) = WrittenChoice::read(text) else {
            return Choice {
                chosen: ModelChoice::Broken("the model's reply cannot be read".into()),
                dropped: Vec::new(),
            };
        };
        let targets = written.targets();
        let mut named = Named {
            any: !targets.is_empty(),
            special: None,
        };
        let mut parts: Vec<Part> = Vec::new();
        let mut dropped = Vec::new();
        for target in targets {
            let confidence = confidence(&target.confidence);
            let part = target.request.as_deref().map(str::trim);
            let part = part.filter(|part| !part.is_empty()).unwrap_or(request);
            let known = self.target(&target.name);
            let is_new = |known: &&RequestTarget| parts.iter().all(|part| part.target != **known);
            match known.filter(is_new).filter(|_| parts.len() < MAX_PARTS) {
                Some(known) => parts.push(Part {
                    request: part.to_owned(),
                    target: known.clone(),
                    confidence,
                    follows: false,
                    slots: std::collections::BTreeMap::new(),
                }),
                None => match self.special(&target.name) {
                    Some(special) => named.special = Some((special, confidence)),
                    None => dropped.push(target.name),
                },
            }
        }
        let why = written.reasoning.unwrap_or_default();
        let why = if why.trim().is_empty() {
            "the model gave no reason".to_owned()
        } else {
            why
        };
        let question = written
            .clarifyingquestion
            .filter(|question| !question.trim().is_empty());
        Choice {
            chosen: self.judge(parts, question, why, &named),
            dropped,
        }
    }

    fn judge(
        &self,
        parts: Vec<Part>,
        question: Option<String>,
        why: String,
        named: &Named,
    ) -> ModelChoice {
        let threshold = self.options.confidence_threshold.value();
        if parts.is_empty() {
            let confidence = named.special.map_or(0.0, |(_, confidence)| confidence);
            return match (question, named.special) {
                (question, Some((Special::Clarification, _))) | (question @ Some(_), _) => {
                    ModelChoice::Unsure {
                        candidates: Vec::new(),
                        question,
                        why,
                    }
                }
                (None, None) if named.any => {
                    ModelChoice::Broken("the model named no known target".into())
                }
                (None, _) => ModelChoice::Nobody { why, confidence },
            };
        }
        // One uncertain part makes the whole decision uncertain, so that no request is executed in part.
        if question.is_some() || parts.iter().any(|part| part.confidence < threshold) {
            let candidates = parts.into_iter().map(|part| PossibleTarget {
                target: part.target,
                confidence: part.confidence,
            });
            return ModelChoice::Unsure {
                candidates: candidates.collect(),
                question,
                why,
            };
        }
        ModelChoice::Targets { parts, why }
    }
}

/// What a model named.
struct Named {
    /// Whether it named any target, known or not.
    any: bool,
    /// One of the agents that stand for no target, and its confidence.
    special: Option<(Special, f64)>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn targets(written: &Value) -> Vec<(String, f64)> {
        let mut written = WrittenChoice::read(&written.to_string()).unwrap();
        let targets = written.targets().into_iter();
        targets
            .map(|target| (target.name.clone(), confidence(&target.confidence)))
            .collect()
    }

    #[test]
    fn a_primary_agent_with_additional_ones_is_a_list_of_targets() {
        let expected = [
            ("light-agent".to_owned(), 0.88),
            ("music-agent".to_owned(), 0.88),
        ];
        for written in [
            json!({ "agentId": "light-agent", "confidence": 0.88, "reasoning": "r",
                "additionalAgents": ["music-agent"] }),
            json!({ "AgentId": "light-agent", "Confidence": "0.88",
                "AdditionalAgents": ["music-agent"] }),
            json!({ "agent_id": "light-agent", "confidence": 0.88,
                "additional_agents": ["music-agent"] }),
        ] {
            assert_eq!(targets(&written), expected, "{written}");
        }
        let alone =
            json!({ "agentId": "light-agent", "confidence": 0.95, "additionalAgents": null });
        assert_eq!(targets(&alone), [("light-agent".to_owned(), 0.95)]);
    }

    #[test]
    fn a_confidence_that_is_no_number_is_none() {
        for written in [json!(null), json!("sure"), json!([1]), json!("NaN")] {
            assert!(confidence(&written).abs() < f64::EPSILON, "{written}");
        }
    }
}
