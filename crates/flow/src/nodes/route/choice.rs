//! What a model wrote when it was asked who answers: read leniently, trusted with nothing.

use convoke_llm::extract_json;
use serde::Deserialize;
use serde_json::Value;

use super::router::Router;
use crate::memory::RequestTarget;
use crate::split::{MAX_PARTS, Part};

/// What a model chose, and what it named that cannot be chosen.
pub(crate) struct Choice {
    pub(crate) chosen: ModelChoice,
    pub(crate) dropped: Vec<String>,
}

/// What a model chose.
pub(crate) enum ModelChoice {
    /// These, each with its part of the request.
    Targets { parts: Vec<Part>, why: String },
    /// It is not sure.
    Unsure {
        candidates: Vec<RequestTarget>,
        question: Option<String>,
        why: String,
    },
    /// Nobody in the catalogue.
    Nobody(String),
    /// Nothing that can be read, or nobody who exists.
    Broken(String),
}

/// What the model is asked to write.
#[derive(Deserialize)]
struct WrittenChoice {
    #[serde(default)]
    targets: Vec<WrittenTarget>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    clarifying_question: Option<String>,
}

#[derive(Deserialize)]
struct WrittenTarget {
    name: String,
    /// A target without one is as good as guessed.
    #[serde(default)]
    confidence: Value,
    #[serde(default)]
    request: Option<String>,
}

impl Router {
    /// Reads what a model wrote of a request. Whatever it is, only what the catalogue has comes out. A target without a
    /// part of its own gets all of the request.
    pub(crate) fn read(&self, text: &str, request: &str) -> Choice {
        let written = extract_json(text).and_then(|value| WrittenChoice::deserialize(value).ok());
        let Some(written) = written else {
            return Choice {
                chosen: ModelChoice::Broken("the model's reply cannot be read".into()),
                dropped: Vec::new(),
            };
        };
        let named_any = !written.targets.is_empty();
        let mut parts: Vec<Part> = Vec::new();
        let mut dropped = Vec::new();
        for target in written.targets {
            let part = target.request.as_deref().map(str::trim);
            let part = part.filter(|part| !part.is_empty()).unwrap_or(request);
            let goal = self.goal(&target.name);
            let is_new = |goal: &&RequestTarget| parts.iter().all(|part| part.target != **goal);
            match goal.filter(is_new).filter(|_| parts.len() < MAX_PARTS) {
                Some(goal) => parts.push(Part {
                    said: part.to_owned(),
                    target: goal.clone(),
                    confidence: target.confidence.as_f64().unwrap_or(0.0),
                    follows: false,
                    slots: std::collections::BTreeMap::new(),
                }),
                None => dropped.push(target.name),
            }
        }
        let why = written.reasoning.unwrap_or_default();
        let why = if why.trim().is_empty() {
            "the model gave no reason".to_owned()
        } else {
            why
        };
        let question = written
            .clarifying_question
            .filter(|question| !question.trim().is_empty());
        Choice {
            chosen: self.judge(parts, question, why, named_any),
            dropped,
        }
    }

    fn judge(
        &self,
        parts: Vec<Part>,
        question: Option<String>,
        why: String,
        named_any: bool,
    ) -> ModelChoice {
        let threshold = self.options.confidence_threshold.value();
        if parts.is_empty() {
            return match question {
                Some(question) => ModelChoice::Unsure {
                    candidates: Vec::new(),
                    question: Some(question),
                    why,
                },
                None if named_any => ModelChoice::Broken("the model named no known target".into()),
                None => ModelChoice::Nobody(why),
            };
        }
        // One part that is not sure makes the whole so: nothing is done by halves.
        if question.is_some() || parts.iter().any(|part| part.confidence < threshold) {
            return ModelChoice::Unsure {
                candidates: parts.into_iter().map(|part| part.target).collect(),
                question,
                why,
            };
        }
        ModelChoice::Targets { parts, why }
    }
}
