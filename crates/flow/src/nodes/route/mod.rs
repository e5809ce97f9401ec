//! Route: who answers what the local decision leaves open. A model chooses from the catalogue, if one may; where it is
//! not sure either, the user is asked back; where nobody fits or nobody can tell, the fallback answers.

mod choice;
mod router;

use convoke_engine::{Failure, Step};
use convoke_model::{DecidedBy, Decision, DecisionFields, Stage, TargetKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{agent, compose, decide, dispatch};
use crate::assistant::Node;
use crate::calls::{CallRequest, Request, ReturnedCall, is_default, one_call};
use crate::input::ConversationExcerpt;
use crate::inquiry::{Inquiry, Question};
use crate::interpret::{Meaning, for_goal};
use crate::memory::{Memory, PendingQuestion, RequestTarget};
use crate::split::Part;
use crate::turn::Turn;

pub(crate) use choice::{Choice, ModelChoice};
pub(crate) use router::Router;

/// The intent of an answer that the fallback gives because it could not be told who else should.
const INTENT_FALLBACK: &str = "fallback";

/// What the executor is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Routing {
    /// Which attempt it is, from 1.
    pub(crate) attempt: u32,
    /// Its deadline, in milliseconds from when the task was accepted.
    pub(crate) until_ms: u64,
    /// What is chosen from, if not from everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) over: Option<TargetKind>,
    /// What a child may read of its parent's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// Context of an open routing decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RouterContext {
    /// What the local decision takes to be likely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<RequestTarget>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) attempts: u32,
    /// What the model named that cannot be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dropped: Vec<String>,
}

/// Goes on where the local decision is not sure: with these candidates, or with none.
pub(crate) fn unsure(turn: &mut Turn<'_>, candidates: Vec<RequestTarget>) -> Step<Request> {
    // A part of a message was routed already; to do so again might never end.
    let is_part = turn.view.facts.parent.is_some();
    if !is_part && turn.assistant.router(None).is_some() {
        turn.state.node = Node::Route;
        turn.state.unsure = Some(Box::new(RouterContext {
            candidates,
            ..RouterContext::default()
        }));
        return ask(turn);
    }
    if !is_part && turn.assistant.thinker(None).is_some() {
        return decide::think(turn);
    }
    if candidates.is_empty() {
        return unsuitable(
            turn,
            "nothing that the app can do fits the request",
            Vec::new(),
        );
    }
    clarify(
        turn,
        candidates,
        None,
        "several things may be meant",
        Vec::new(),
    )
}

/// Takes in what a model chose, and goes on with it.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let assistant = turn.assistant;
    let Some(router) = assistant.router(None) else {
        return compose::broken(turn, "the router is no longer in the app");
    };
    let thought = match returned.thought() {
        Ok(thought) => thought,
        Err(failure) => return not_answered(turn, &failure),
    };
    turn.state.spent.add(&thought, router.models.iter());
    let Choice { chosen, dropped } = router.read(&thought.text, turn.said());
    if let Some(unsure) = turn.state.unsure.as_mut() {
        unsure.dropped.extend(dropped);
    }
    match chosen {
        ModelChoice::Broken(why) => again(turn, &why),
        ModelChoice::Nobody(why) => {
            let dropped = end(turn).dropped;
            unsuitable(turn, &why, dropped)
        }
        ModelChoice::Unsure {
            candidates,
            question,
            why,
        } => {
            let unsure = end(turn);
            let candidates = if candidates.is_empty() {
                unsure.candidates
            } else {
                candidates
            };
            clarify(turn, candidates, question, &why, unsure.dropped)
        }
        ModelChoice::Targets { parts, why } => {
            let dropped = end(turn).dropped;
            turn.state.decision = decision(turn.said(), &parts, &why, dropped);
            take(turn, parts)
        }
    }
}

/// Hands the request to whoever was chosen.
fn take(turn: &mut Turn<'_>, parts: Vec<Part>) -> Step<Request> {
    let assistant = turn.assistant;
    let meaning = match parts.as_slice() {
        [only] => match &only.target {
            RequestTarget::Agent { agent } => {
                return match assistant.app.agent(agent.as_str()) {
                    Some(agent) => agent::start(turn, agent),
                    None => compose::broken(turn, "the agent is no longer in the app"),
                };
            }
            goal => for_goal(&assistant.catalogue, turn.said(), goal, None),
        },
        several => match domains_only(several).zip(turn.state.decision.clone()) {
            Some((questions, decision)) => Meaning::Inquire(Box::new(Inquiry {
                questions,
                decision,
            })),
            None => return dispatch::begin(turn, parts),
        },
    };
    // What the model decided stands, whatever the words of the message would be taken for here.
    let decided = turn.state.decision.clone();
    let step = decide::go(turn, meaning);
    turn.state.decision = decided;
    step
}

/// What domains are asked, where nobody else is.
fn domains_only(parts: &[Part]) -> Option<Vec<Question>> {
    let question = |part: &Part| match &part.target {
        RequestTarget::Domain { domain } => Some(Question {
            domain: domain.clone(),
            said: part.said.clone(),
            confidence: part.confidence,
        }),
        RequestTarget::Skill(_) | RequestTarget::Agent { .. } => None,
    };
    parts.iter().map(question).collect()
}

/// Asks the model, unless it was asked often enough.
fn ask(turn: &mut Turn<'_>) -> Step<Request> {
    let Some(mut unsure) = turn.state.unsure.take() else {
        return compose::broken(turn, "the state of the routing decision is missing");
    };
    let routing = attempt(turn, &mut unsure, None);
    turn.state.unsure = Some(unsure);
    Step {
        stage: Some(Stage::Planning),
        ..one_call("route", CallRequest::Route(routing))
    }
}

/// The next question to the model.
pub(crate) fn attempt(
    turn: &Turn<'_>,
    unsure: &mut RouterContext,
    over: Option<TargetKind>,
) -> Routing {
    let now = turn.since_accepted_ms(turn.view.at);
    let time = u64::from(turn.assistant.app.config.limits.agent_seconds) * 1_000;
    unsure.attempts += 1;
    Routing {
        attempt: unsure.attempts,
        until_ms: now + time,
        over,
        earlier: turn.state.earlier,
    }
}

/// A model that chose nothing that can be chosen is asked again; in the end the fallback answers.
fn again(turn: &mut Turn<'_>, why: &str) -> Step<Request> {
    let most = turn.assistant.router(None);
    let most = most.map_or(0, |router| router.options.max_attempts);
    match &turn.state.unsure {
        Some(unsure) if unsure.attempts < most => ask(turn),
        _ => give_up(turn, why),
    }
}

/// A model that cannot be asked for a passing reason is asked again, any other is not.
fn not_answered(turn: &mut Turn<'_>, failure: &Failure) -> Step<Request> {
    let why = failure.cause();
    if failure.transient {
        again(turn, &why)
    } else {
        give_up(turn, &why)
    }
}

fn give_up(turn: &mut Turn<'_>, why: &str) -> Step<Request> {
    let why = format!("the target could not be decided: {why}");
    let dropped = end(turn).dropped;
    fall_back(turn, &why, INTENT_FALLBACK, dropped)
}

/// What was known while it was open who answers.
fn end(turn: &mut Turn<'_>) -> RouterContext {
    turn.state
        .unsure
        .take()
        .map(|unsure| *unsure)
        .unwrap_or_default()
}

pub(crate) fn decision(
    said: &str,
    parts: &[Part],
    why: &str,
    dropped: Vec<String>,
) -> Option<Decision> {
    let targets = parts.iter().map(|part| {
        let mut target = part.target.target(part.confidence);
        target.request = (part.said != said).then(|| part.said.clone());
        target
    });
    let fields = DecisionFields {
        dropped,
        ..DecisionFields::of(said, targets, why, DecidedBy::Model)
    };
    Decision::new(fields).ok()
}

/// Asks the user which of several things they mean.
fn clarify(
    turn: &mut Turn<'_>,
    candidates: Vec<RequestTarget>,
    question: Option<String>,
    why: &str,
    dropped: Vec<String>,
) -> Step<Request> {
    let assistant = turn.assistant;
    let app = &assistant.app;
    let options = app.config.decide.router.clone().unwrap_or_default();
    let own = options.clarification_prompt_template.as_deref();
    let context = json!({
        "message": turn.said(), "candidates": described(turn, &candidates), "question": question,
    });
    let context = context.as_object().cloned().unwrap_or_default();
    let agent = app.agent(options.clarification_agent.as_str());
    if let Some(agent) = agent.filter(|agent| agent.llm_config.is_some()) {
        let note = assistant.templates.text(own.unwrap_or(ASK_BACK), &context);
        turn.state.decision = open(turn, &candidates, question, why, dropped);
        return match note {
            Ok(note) => agent::start_noting(turn, agent, &note),
            Err(cause) => compose::broken(turn, &cause),
        };
    }
    let text = match (own, &question) {
        (None, Some(question)) => Ok(question.clone()),
        (None, None) if candidates.is_empty() => Ok(ASK_FOR_MORE.to_owned()),
        (own, _) => {
            let template = own.unwrap_or(&app.config.decide.clarify);
            assistant.templates.text(template, &context)
        }
    };
    let text = match text {
        Ok(text) => text,
        Err(cause) => return compose::broken(turn, &cause),
    };
    turn.state.decision = open(turn, &candidates, Some(text.clone()), why, dropped);
    let memory = Memory {
        asks: Some(PendingQuestion::Skill {
            candidates,
            said: turn.said().to_owned(),
        }),
        ..Memory::showing(turn.state.shown.clone())
    };
    compose::speak(
        turn,
        compose::ComposedReply::of(text, "clarification_needed", memory),
    )
}

/// What an agent that asks back is told, unless the app says it otherwise.
const ASK_BACK: &str = "It is not clear what I mean. Ask me one short question that settles it. \
    It may be one of these:{% for candidate in candidates %}\n- {{ candidate.description }}{% endfor %}";

/// What is asked where not even candidates are known.
const ASK_FOR_MORE: &str = "I am not sure what you mean. Could you say it in other words?";

/// A decision that leaves it to the user.
fn open(
    turn: &Turn<'_>,
    candidates: &[RequestTarget],
    question: Option<String>,
    why: &str,
    dropped: Vec<String>,
) -> Option<Decision> {
    let decided_by = match turn.assistant.router(None) {
        Some(_) => DecidedBy::Model,
        None => DecidedBy::Local,
    };
    let targets = candidates.iter().map(|goal| goal.target(0.0));
    let fields = DecisionFields {
        ambiguous: true,
        clarifying_question: Some(question.unwrap_or_else(|| ASK_FOR_MORE.to_owned())),
        dropped,
        ..DecisionFields::of(turn.said(), targets, why, decided_by)
    };
    Decision::new(fields).ok()
}

/// Nobody fits.
fn unsuitable(turn: &mut Turn<'_>, why: &str, dropped: Vec<String>) -> Step<Request> {
    fall_back(turn, why, "unknown", dropped)
}

/// The fallback answers: the app's own agent for it, or the app's own words.
fn fall_back(turn: &mut Turn<'_>, why: &str, intent: &str, dropped: Vec<String>) -> Step<Request> {
    let assistant = turn.assistant;
    let app = &assistant.app;
    let options = app.config.decide.router.clone().unwrap_or_default();
    let own = options.fallback_reason_template.as_deref();
    turn.state.decision = fallback_decision(turn.said(), &options.fallback_agent, why, dropped);
    let skills = described(turn, &assistant.catalogue.all());
    let context = json!({ "message": turn.said(), "reason": why, "skills": skills });
    let agent = app.agent(options.fallback_agent.as_str());
    if let Some(agent) = agent.filter(|agent| agent.llm_config.is_some()) {
        let fields = context.as_object().cloned().unwrap_or_default();
        let note = assistant
            .templates
            .text(own.unwrap_or(NOBODY_ELSE), &fields);
        return match note {
            Ok(note) => agent::start_noting(turn, agent, &note),
            Err(cause) => compose::broken(turn, &cause),
        };
    }
    let template = match (own, intent) {
        (Some(own), _) => own,
        (None, INTENT_FALLBACK) => SAY_OTHERWISE,
        (None, _) => app.config.decide.unknown.as_str(),
    };
    compose::say(turn, template, context, intent, Memory::default())
}

/// What the fallback agent is told, unless the app says it otherwise.
const NOBODY_ELSE: &str =
    "Nobody else takes this on: {{ reason }}. Help me as well as you can without them.";

/// What the user reads where it could not be told who answers.
const SAY_OTHERWISE: &str =
    "Sorry, I could not work out who can help with that. Could you say it in other words?";

fn fallback_decision(
    said: &str,
    agent: &convoke_model::Name,
    why: &str,
    dropped: Vec<String>,
) -> Option<Decision> {
    let goal = RequestTarget::Agent {
        agent: agent.clone(),
    };
    let fields = DecisionFields {
        dropped,
        ..DecisionFields::of(said, [goal.target(0.0)], why, DecidedBy::Fallback)
    };
    Decision::new(fields).ok()
}

/// What may be meant, as templates see it.
pub(crate) fn described(turn: &Turn<'_>, candidates: &[RequestTarget]) -> Vec<Value> {
    let (catalogue, app) = (&turn.assistant.catalogue, &turn.assistant.app);
    candidates
        .iter()
        .filter_map(|goal| {
            let (description, examples) = catalogue.description(goal, app)?;
            Some(json!({ "name": goal.name(), "description": description, "examples": examples }))
        })
        .collect()
}
