//! Route: selects who answers when the local decision does not. A model chooses from the catalogue if the app has one;
//! if it is unsure, the user is asked; if nothing fits or the choice fails, the fallback answers.

mod choice;
mod router;

use convoke_engine::{Failure, Step};
use convoke_model::{DecidedBy, Decision, DecisionFields, Stage, TargetKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{agent, compose, decide, dispatch};
use crate::assistant::Node;
use crate::calls::{CallRequest, Request, ReturnedCall, is_default, one_call};
use crate::catalogue::Catalogue;
use crate::input::ConversationExcerpt;
use crate::inquiry::{Inquiry, Question};
use crate::interpret::{Meaning, for_target, slot_texts};
use crate::memory::{Memory, PendingQuestion, PossibleTarget, RequestTarget};
use crate::split::Part;
use crate::turn::Turn;

pub(crate) use choice::{Choice, ModelChoice};
pub(crate) use router::Router;

/// Intent of an answer after a decision that could not be made: the model was not reached, or what it wrote cannot be
/// used.
pub(crate) const INTENT_FALLBACK: &str = "fallback";

/// Intent of an answer after the decision that nothing the app can do fits the request.
pub(crate) const INTENT_UNKNOWN: &str = "unknown";

/// Intent of a clarifying question.
pub(crate) const INTENT_CLARIFY: &str = "clarification_needed";

/// Intent of an answer to a message that declines the open question.
pub(crate) const INTENT_DISMISSED: &str = "dismissed";

/// The routing request that the performer sends to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Routing {
    /// Number of the attempt, from 1.
    pub(crate) attempt: u32,
    /// Deadline in milliseconds since the task was accepted.
    pub(crate) until_ms: u64,
    /// Limits the choice to one kind of target; all kinds if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) over: Option<TargetKind>,
    /// What a child may read of its parent's conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) earlier: Option<ConversationExcerpt>,
}

/// Context of an open routing decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RouterContext {
    /// Candidates of the local decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) candidates: Vec<PossibleTarget>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) attempts: u32,
    /// Names that the model wrote and that are not in the catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) dropped: Vec<String>,
}

/// Continues after an uncertain local decision.
pub(crate) fn unsure(turn: &mut Turn<'_>, candidates: Vec<PossibleTarget>) -> Step<Request> {
    // A part of a message was routed already; routing it again could loop forever.
    let is_part = turn.view.facts.parent.is_some();
    if !is_part && turn.assistant.router(None).is_some() {
        turn.state.node = Node::Route;
        turn.state.router_context = Some(Box::new(RouterContext {
            candidates,
            ..RouterContext::default()
        }));
        return ask(turn);
    }
    if !is_part && turn.assistant.agent_with_model(None).is_some() {
        return decide::start_agent(turn);
    }
    if candidates.is_empty() {
        let why = "nothing that the app can do fits the request";
        return unsuitable(turn, why, 0.0, Vec::new());
    }
    clarify(
        turn,
        &candidates,
        None,
        "several things may be meant",
        Vec::new(),
    )
}

/// Applies the decision of a model.
pub(crate) fn finish(turn: &mut Turn<'_>, returned: ReturnedCall) -> Step<Request> {
    let assistant = turn.assistant;
    let Some(router) = assistant.router(None) else {
        return compose::fail(turn, "the router is no longer in the app");
    };
    let thought = match returned.thought() {
        Ok(thought) => thought,
        Err(failure) => return not_answered(turn, &failure),
    };
    turn.state.spent.add(&thought, router.models.iter());
    let Choice { chosen, dropped } = router.read(&thought.text, turn.message());
    if let Some(context) = turn.state.router_context.as_mut() {
        context.dropped.extend(dropped);
    }
    match chosen {
        ModelChoice::Broken(why) => again(turn, &why),
        ModelChoice::Nobody { why, confidence } => {
            let dropped = end(turn).dropped;
            unsuitable(turn, &why, confidence, dropped)
        }
        ModelChoice::Unsure {
            candidates,
            question,
            why,
        } => {
            let context = end(turn);
            let candidates = if candidates.is_empty() {
                context.candidates
            } else {
                candidates
            };
            clarify(turn, &candidates, question, &why, context.dropped)
        }
        ModelChoice::Targets { mut parts, why } => {
            fill_slots(&turn.assistant.catalogue, &mut parts);
            let dropped = end(turn).dropped;
            turn.state.decision = decision(turn.message(), &parts, &why, dropped);
            take(turn, parts)
        }
    }
}

/// Fills the slots of parts that a model chose skills for: what the user said is read in the same way, whoever decides.
pub(crate) fn fill_slots(skills: &Catalogue, parts: &mut [Part]) {
    for part in parts {
        if let RequestTarget::Skill(target) = &part.target {
            part.slots = slot_texts(skills, target, &part.request);
        }
    }
}

/// Passes the request to the chosen targets.
fn take(turn: &mut Turn<'_>, parts: Vec<Part>) -> Step<Request> {
    let assistant = turn.assistant;
    let meaning = match parts.as_slice() {
        [only] => match &only.target {
            RequestTarget::Agent { agent } => {
                return match assistant.app.agent(agent.as_str()) {
                    Some(agent) => agent::start(turn, agent),
                    None => compose::fail(turn, "the agent is no longer in the app"),
                };
            }
            target => for_target(&assistant.catalogue, turn.message(), target, None),
        },
        several => match domains_only(several).zip(turn.state.decision.clone()) {
            Some((questions, decision)) => Meaning::Inquire(Box::new(Inquiry {
                questions,
                decision,
            })),
            None => return dispatch::begin(turn, parts),
        },
    };
    // Keeps the model's decision; `decide::act_on` sets a local one.
    let decision = turn.state.decision.clone();
    let step = decide::act_on(turn, meaning);
    turn.state.decision = decision;
    step
}

/// The questions to domains, if all targets are domains.
fn domains_only(parts: &[Part]) -> Option<Vec<Question>> {
    let question = |part: &Part| match &part.target {
        RequestTarget::Domain { domain } => Some(Question {
            domain: domain.clone(),
            text: part.request.clone(),
            confidence: part.confidence,
        }),
        RequestTarget::Skill(_) | RequestTarget::Agent { .. } => None,
    };
    parts.iter().map(question).collect()
}

/// Requests a routing decision from the model.
fn ask(turn: &mut Turn<'_>) -> Step<Request> {
    let Some(mut context) = turn.state.router_context.take() else {
        return compose::fail(turn, "the state of the routing decision is missing");
    };
    let routing = attempt(turn, &mut context, None);
    turn.state.router_context = Some(context);
    Step {
        stage: Some(Stage::Planning),
        ..one_call("route", CallRequest::Route(routing))
    }
}

/// Creates the next routing request and counts the attempt.
pub(crate) fn attempt(
    turn: &Turn<'_>,
    context: &mut RouterContext,
    over: Option<TargetKind>,
) -> Routing {
    let now = turn.since_accepted_ms(turn.view.at);
    let time = u64::from(turn.assistant.app.config.limits.agent_seconds) * 1_000;
    context.attempts += 1;
    Routing {
        attempt: context.attempts,
        until_ms: now + time,
        over,
        earlier: turn.state.earlier,
    }
}

/// Retries an unusable decision; after the last attempt, the fallback answers.
fn again(turn: &mut Turn<'_>, why: &str) -> Step<Request> {
    let most = turn.assistant.router(None);
    let most = most.map_or(0, |router| router.options.max_attempts);
    match &turn.state.router_context {
        Some(context) if context.attempts < most => ask(turn),
        _ => give_up(turn, why),
    }
}

/// Retries after a transient failure of the model; other failures end routing.
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
    fall_back(turn, &why, INTENT_FALLBACK, 0.0, dropped)
}

/// Takes the context of the open routing decision.
fn end(turn: &mut Turn<'_>) -> RouterContext {
    turn.state
        .router_context
        .take()
        .map(|context| *context)
        .unwrap_or_default()
}

pub(crate) fn decision(
    request: &str,
    parts: &[Part],
    why: &str,
    dropped: Vec<String>,
) -> Option<Decision> {
    let targets = parts.iter().map(|part| part.decided(request));
    let fields = DecisionFields {
        dropped,
        ..DecisionFields::of(request, targets, why, DecidedBy::Model)
    };
    Decision::new(fields).ok()
}

/// Asks the user which candidate they mean.
fn clarify(
    turn: &mut Turn<'_>,
    possible: &[PossibleTarget],
    question: Option<String>,
    why: &str,
    dropped: Vec<String>,
) -> Step<Request> {
    let assistant = turn.assistant;
    let app = &assistant.app;
    let options = app.config.decide.router.clone().unwrap_or_default();
    let own = options.clarification_prompt_template.as_deref();
    let candidates = PossibleTarget::targets(possible);
    let context = json!({
        "message": turn.message(), "candidates": described_candidates(turn, possible), "question": question,
    });
    let context = context.as_object().cloned().unwrap_or_default();
    let agent = app.agent(options.clarification_agent.as_str());
    if let Some(agent) = agent.filter(|agent| agent.llm_config.is_some()) {
        let note = assistant.templates.text(own.unwrap_or(ASK_BACK), &context);
        turn.state.decision = open(turn, possible, question, why, dropped);
        return match note {
            Ok(note) => agent::start_with_note(turn, agent, INTENT_CLARIFY, &note),
            Err(cause) => compose::fail(turn, &cause),
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
        Err(cause) => return compose::fail(turn, &cause),
    };
    turn.state.decision = open(turn, possible, Some(text.clone()), why, dropped);
    let memory = Memory {
        question: Some(PendingQuestion::Skill {
            candidates,
            request: turn.message().to_owned(),
        }),
        ..Memory::showing(turn.state.shown.clone())
    };
    compose::end_with_reply(
        turn,
        compose::ComposedReply::of(text, INTENT_CLARIFY, memory),
    )
}

/// Default instruction for an agent that asks the user for clarification.
const ASK_BACK: &str = "It is not clear what I mean. Ask me one short question that settles it. \
    It may be one of these:{% for candidate in candidates %}\n- {{ candidate.description }}{% endfor %}";

/// Clarifying question when there are no candidates.
const ASK_FOR_MORE: &str = "I am not sure what you mean. Could you say it in other words?";

/// An ambiguous decision, which the user resolves.
pub(crate) fn open(
    turn: &Turn<'_>,
    candidates: &[PossibleTarget],
    question: Option<String>,
    why: &str,
    dropped: Vec<String>,
) -> Option<Decision> {
    let decided_by = match turn.assistant.router(None) {
        Some(_) => DecidedBy::Model,
        None => DecidedBy::Local,
    };
    let targets = candidates.iter();
    let targets = targets.map(|possible| possible.target.target(possible.confidence));
    let fields = DecisionFields {
        ambiguous: true,
        clarifying_question: Some(question.unwrap_or_else(|| ASK_FOR_MORE.to_owned())),
        dropped,
        ..DecisionFields::of(turn.message(), targets, why, decided_by)
    };
    Decision::new(fields).ok()
}

/// Answers a request that no target fits.
fn unsuitable(
    turn: &mut Turn<'_>,
    why: &str,
    confidence: f64,
    dropped: Vec<String>,
) -> Step<Request> {
    fall_back(turn, why, INTENT_UNKNOWN, confidence, dropped)
}

/// Answers with the fallback agent if it has a model, else with a template.
fn fall_back(
    turn: &mut Turn<'_>,
    why: &str,
    intent: &str,
    confidence: f64,
    dropped: Vec<String>,
) -> Step<Request> {
    let assistant = turn.assistant;
    let app = &assistant.app;
    let options = app.config.decide.router.clone().unwrap_or_default();
    let own = options.fallback_reason_template.as_deref();
    let target = RequestTarget::Agent {
        agent: options.fallback_agent.clone(),
    };
    let fields = DecisionFields {
        dropped,
        ..DecisionFields::of(
            turn.message(),
            [target.target(confidence)],
            why,
            DecidedBy::Fallback,
        )
    };
    turn.state.decision = Decision::new(fields).ok();
    let skills = described(turn, &assistant.catalogue.all());
    let context = json!({ "message": turn.message(), "reason": why, "skills": skills });
    let agent = app.agent(options.fallback_agent.as_str());
    if let Some(agent) = agent.filter(|agent| agent.llm_config.is_some()) {
        let fields = context.as_object().cloned().unwrap_or_default();
        let note = assistant
            .templates
            .text(own.unwrap_or(NOBODY_ELSE), &fields);
        return match note {
            Ok(note) => agent::start_with_note(turn, agent, intent, &note),
            Err(cause) => compose::fail(turn, &cause),
        };
    }
    let template = match (own, intent) {
        (Some(own), _) => own,
        (None, INTENT_FALLBACK) => SAY_OTHERWISE,
        (None, _) => app.config.decide.unknown.as_str(),
    };
    compose::reply_from_template(turn, template, context, intent, Memory::default())
}

/// Default instruction for the fallback agent.
const NOBODY_ELSE: &str =
    "Nobody else takes this on: {{ reason }}. Help me as well as you can without them.";

/// Default answer after a failed routing decision.
const SAY_OTHERWISE: &str =
    "Sorry, I could not work out who can help with that. Could you say it in other words?";

/// Candidates as values for templates, each with its confidence.
pub(crate) fn described_candidates(turn: &Turn<'_>, candidates: &[PossibleTarget]) -> Vec<Value> {
    let described = candidates.iter().flat_map(|possible| {
        let target = std::slice::from_ref(&possible.target);
        let described = described(turn, target).into_iter();
        described.map(|mut described| {
            described["confidence"] = json!(possible.confidence);
            described
        })
    });
    described.collect()
}

/// Targets as values for templates.
fn described(turn: &Turn<'_>, candidates: &[RequestTarget]) -> Vec<Value> {
    let (catalogue, app) = (&turn.assistant.catalogue, &turn.assistant.app);
    candidates
        .iter()
        .filter_map(|target| {
            let (description, examples) = catalogue.description(target, app)?;
            Some(json!({ "name": target.name(), "description": description, "examples": examples }))
        })
        .collect()
}
