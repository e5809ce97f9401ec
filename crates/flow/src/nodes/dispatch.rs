//! Dispatch: several requests of one message, each a task of its own, all at once; and aggregate: one answer from
//! what came of them.

use convoke_engine::{NewCall, Step};
use convoke_model::{
    Confidence, DecidedBy, Decision, DecisionFields, Stage, Target, ToolCall, ToolCallFields,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::agent::sub_agents::{Errand, Whom};
use super::compose;
use crate::assistant::Node;
use crate::calls::{Ask, Request, Returned, is_default};
use crate::memory::{Asks, Memory};
use crate::split::Part;
use crate::turn::Turn;

/// One of several requests, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dispatched {
    said: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    came: Option<Came>,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Came {
    text: String,
    #[serde(default, skip_serializing_if = "is_default")]
    failed: bool,
    /// The tools that it called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<ToolCall>,
    /// What it asks the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asks: Option<Asks>,
}

/// Hands every part to whom it is for. None waits for another.
pub(crate) fn start(turn: &mut Turn<'_>, parts: Vec<Part>) -> Step<Request> {
    turn.state.node = Node::Dispatch;
    turn.state.decision = decision(turn.said(), &parts);
    let now = turn.since_accepted_ms(turn.view.at);
    let calls = parts.iter().enumerate().map(|(index, part)| {
        let agent = &part.target.agent;
        let app = &turn.assistant.app;
        let time = app
            .agent(agent.as_str())
            .map(|agent| app.agent_time_ms(agent));
        let errand = Errand {
            index,
            until_ms: time.map(|time| now + time),
            ..Errand::at_node(Whom::Request(agent.clone()), part.said.clone(), Map::new())
        };
        NewCall {
            label: agent.to_string(),
            request: Request(Ask::Child(errand)),
            approval: None,
        }
    });
    let calls = calls.collect();
    turn.state.dispatched = parts
        .into_iter()
        .map(|part| Dispatched {
            said: part.said,
            came: None,
        })
        .collect();
    Step {
        stage: Some(Stage::Extracting),
        calls,
        ..Step::default()
    }
}

/// Several targets, in the order in which they were asked for.
fn decision(said: &str, parts: &[Part]) -> Option<Decision> {
    let mut targets: Vec<Target> = Vec::new();
    for part in parts {
        // Two parts may be for the same skill, which is then one target.
        if targets
            .iter()
            .all(|target| target.name != part.target.skill)
        {
            targets.push(Target {
                name: part.target.skill.clone(),
                confidence: Confidence::saturating(part.confidence),
                parameters: Map::new(),
            });
        }
    }
    let fields = DecisionFields {
        asked: said.to_owned(),
        targets,
        reasoning: format!("{} requests in one message", parts.len()),
        ambiguous: false,
        clarifying_question: None,
        decided_by: DecidedBy::Local,
    };
    Decision::new(fields).ok()
}

/// Takes in what came of a part, and answers once all have come.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: Returned) -> Step<Request> {
    let Some(Ask::Child(errand)) = turn.view.returned.map(|call| &call.request.0) else {
        return compose::broken(turn, "an outcome came without its request");
    };
    let index = errand.index;
    let came = match returned.tool() {
        Ok(reply) => Came {
            failed: reply.is_error,
            calls: calls_of(&reply.content),
            asks: Asks::deserialize(&reply.content["asks"]).ok(),
            text: reply.text,
        },
        Err(cause) => Came {
            text: cause,
            failed: true,
            calls: Vec::new(),
            asks: None,
        },
    };
    if let Some(part) = turn.state.dispatched.get_mut(index) {
        part.came = Some(came);
    }
    if turn.state.dispatched.iter().any(|part| part.came.is_none()) {
        return Step::default();
    }
    aggregate(turn)
}

/// The tools that a part called.
fn calls_of(content: &Value) -> Vec<ToolCall> {
    let calls = content["tool_calls"].as_array().into_iter().flatten();
    calls
        .filter_map(|call| ToolCallFields::deserialize(call).ok())
        .filter_map(|call| ToolCall::new(call).ok())
        .collect()
}

/// One answer: what was done, and what was not.
fn aggregate(turn: &mut Turn<'_>) -> Step<Request> {
    let options = turn
        .assistant
        .app
        .config
        .aggregator
        .clone()
        .unwrap_or_default();
    let parts = std::mem::take(&mut turn.state.dispatched);
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let mut memory = Memory::default();
    for part in parts {
        let Some(came) = part.came else {
            continue;
        };
        // In the order of the message, whatever order they came in.
        turn.state.tool_calls.extend(came.calls);
        // The question that stands last is the one that the next message answers.
        memory.asks = came.asks.or(memory.asks);
        if came.failed {
            failed.push(part.said);
        } else {
            done.push(came.text);
        }
    }
    if done.is_empty() {
        let causes = failed.join(", ");
        let cause = format!("dispatch.all_failed: none of these could be done: {causes}");
        return compose::failed_with(turn, &options.default_fallback_message, &cause);
    }
    let gap = if options.enable_natural_language_joining {
        " "
    } else {
        "\n"
    };
    let done: Vec<String> = done.iter().map(|text| sentence(text)).collect();
    let success = done.join(gap);
    if failed.is_empty() {
        return compose::speak(turn, success, "several", memory);
    }
    let quoted: Vec<String> = failed.iter().map(|said| format!("“{said}”")).collect();
    let context = json!({
        "success_message": success,
        "failure_message": format!("I could not do this: {}.", quoted.join(", ")),
    });
    let template = &options.partial_failure_template;
    compose::say(turn, template, context, "several", memory)
}

/// A text that another may follow.
fn sentence(text: &str) -> String {
    let text = text.trim();
    let ends = text.ends_with(['.', '!', '?', '…', ':']);
    format!("{text}{}", if ends { "" } else { "." })
}
