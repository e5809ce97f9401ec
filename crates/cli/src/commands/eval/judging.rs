//! Says a case to an app and compares what comes out.

use convoke::{Answer, App, IncomingRequest, Runtime, TaskOutcome, UserId};
use convoke_app::{EvalCase, Expectation, ExpectedCall, ExpectedReply};
use convoke_model::Name;
use regex::Regex;
use serde_json::{Value, json};
use uuid::Uuid;

use super::deeds::Deeds;
use super::targets;
use super::verdict::Verdict;
use crate::commands::speaker::Speaker;

/// How cases are judged.
pub(super) struct Judge {
    /// Tools that only look things up, where the way to a call is the model's own.
    pub(super) lookups: Option<Vec<String>>,
}

/// The tools by which the app's skills find what words point at.
pub(super) fn lookups(app: &App) -> impl Iterator<Item = String> {
    let skills = app.agents.iter().flat_map(|agent| &agent.skills);
    let slots = skills.flat_map(|skill| skill.slots.values());
    let references = slots.filter_map(|slot| slot.refers_to.as_ref());
    references.map(|reference| bare(&reference.tool).to_owned())
}

/// A tool's name without its server's.
fn bare(tool: &str) -> &str {
    tool.rsplit('.').next().unwrap_or(tool)
}

impl Judge {
    pub(super) async fn hear(
        &self,
        runtime: &Runtime,
        file: &str,
        case: &EvalCase,
    ) -> anyhow::Result<Verdict> {
        let (user, conversation) = (UserId::from(runtime.ids().next()), runtime.ids().next());
        for earlier in &case.before {
            say(runtime, user, conversation, earlier).await?;
        }
        let ended = say(runtime, user, conversation, &case.say).await?;
        let mut verdict = Verdict {
            case: case.title().to_owned(),
            ..Verdict::of(file, &case.say)
        };
        let Some(answer) = &ended.answer else {
            self.nothing_came(&mut verdict, &case.expect, &ended);
            return Ok(verdict);
        };
        verdict.reply.clone_from(&answer.text);
        if case.expect.question.is_some() && self.lookups.is_none() {
            verdict.reply_fits = Some(false);
            let wrong = format!(
                "question: nobody was asked, the answer is {:?}",
                answer.text
            );
            verdict.wrong.push(wrong);
            return Ok(verdict);
        }
        let deeds = Deeds::of(runtime, &ended, answer).await?;
        match &self.lookups {
            Some(lookups) => compare_effects(&mut verdict, &case.expect, &deeds, lookups),
            None => compare(&mut verdict, &runtime.app(), &case.expect, answer, &deeds),
        }
        Ok(verdict)
    }

    /// Without an answer everything is wrong that the case speaks of, except a question that was asked.
    fn nothing_came(&self, verdict: &mut Verdict, expect: &Expectation, ended: &TaskOutcome) {
        let questions = ended.questions.iter().map(|question| &question.prompt);
        let questions: Vec<_> = questions.map(String::as_str).collect();
        let asked = questions.join("\n");
        let only_question = Expectation {
            question: expect.question.clone(),
            ..Expectation::default()
        };
        match (&ended.error, &expect.question) {
            (None, Some(wanted)) => {
                let complaints = text_complaints("question", wanted, &asked);
                verdict.reply_fits = Some(complaints.is_empty());
                verdict.wrong.extend(complaints);
                verdict.reply = asked;
                if *expect == only_question {
                    return;
                }
                let wrong = "no answer: of a task that waits for a person, only the `question` can be expected";
                verdict.wrong.push(wrong.to_owned());
            }
            (None, None) => verdict.wrong.push(format!(
                "no answer: the task waits for a person (expect a `question`): {asked}"
            )),
            (Some(error), _) => verdict.wrong.push(format!("no answer: {error}")),
        }
        let wrong = |speaks_of: bool| speaks_of.then_some(false);
        verdict.calls = wrong(expect.calls.is_some());
        if self.lookups.is_some() {
            return;
        }
        verdict.intent = wrong(expect.intent.is_some());
        verdict.targets = wrong(expect.targets.is_some());
        verdict.slots = wrong(!expect.slots.is_empty());
        if expect.reply.is_some() || ended.error.is_some() {
            verdict.reply_fits = wrong(expect.reply.is_some() || expect.question.is_some());
        }
        verdict.answer_fits = wrong(speaks_of_answer(expect));
    }
}

async fn say(
    runtime: &Runtime,
    user: UserId,
    conversation: Uuid,
    text: &str,
) -> anyhow::Result<TaskOutcome> {
    // A plain yes or no answers the open question of the conversation, as it does in a chat.
    if let Some(reply) = runtime.reply_to_question(user, conversation, text).await? {
        let speaker = Speaker { user, conversation };
        return Ok(speaker.replies(reply, runtime).await?);
    }
    let incoming = IncomingRequest::new(user, text).conversation(conversation);
    let task = runtime.submit(incoming).await?;
    Ok(runtime.wait_for_person(user, task).await?)
}

fn compare(verdict: &mut Verdict, app: &App, expect: &Expectation, answer: &Answer, deeds: &Deeds) {
    if let Some(wanted) = &expect.intent {
        compare_intent(verdict, wanted, deeds);
    }
    if let Some(wanted) = &expect.targets {
        compare_targets(verdict, wanted, app, deeds);
    }
    if !expect.slots.is_empty() {
        let mut right = true;
        for (slot, wanted) in &expect.slots {
            let got = slot_text(app, deeds, slot.as_str());
            if got.as_deref() != Some(wanted) {
                right = false;
                verdict
                    .wrong
                    .push(format!("slot {slot}: wanted {wanted:?}, got {got:?}"));
            }
        }
        verdict.slots = Some(right);
    }
    if let Some(wanted) = &expect.calls {
        let fits = wanted.len() == deeds.calls.len()
            && wanted.iter().zip(&deeds.calls).all(|(wanted, call)| {
                fits_call(wanted, call.server.as_str(), &call.tool, &call.arguments)
            });
        note_calls(verdict, fits, wanted.iter(), deeds);
    }
    if let Some(wanted) = &expect.reply {
        let complaints = text_complaints("reply", wanted, &answer.text);
        verdict.reply_fits = Some(complaints.is_empty());
        verdict.wrong.extend(complaints);
    }
    if speaks_of_answer(expect) {
        let complaints = answer_complaints(expect, answer);
        verdict.answer_fits = Some(complaints.is_empty());
        verdict.wrong.extend(complaints);
    }
}

fn compare_intent(verdict: &mut Verdict, wanted: &Name, deeds: &Deeds) {
    let right = deeds.is_answered_as(wanted.as_str());
    let got = if right {
        wanted.as_str()
    } else {
        &deeds.intent
    };
    verdict.intent = Some(right);
    verdict.intents = Some((wanted.to_string(), got.to_owned()));
    if !right {
        verdict
            .wrong
            .push(format!("intent: wanted {wanted}, got {got}"));
    }
}

fn compare_targets(verdict: &mut Verdict, wanted: &[Name], app: &App, deeds: &Deeds) {
    let found = &deeds.targets;
    let pairs = targets::pairs(wanted, found, app);
    let right = targets::all_right(&pairs);
    verdict.targets = Some(right);
    verdict.chosen = Some(pairs);
    if !right {
        let wanted: Vec<_> = wanted.iter().map(Name::as_str).collect();
        let got: Vec<_> = found.iter().map(|target| target.name.as_str()).collect();
        verdict
            .wrong
            .push(format!("targets: wanted {wanted:?}, got {got:?}"));
    }
}

/// Compares what was done: the calls that are no mere looking up, in their order. Where looking up is all
/// that was wanted, it must have been done and nothing else.
fn compare_effects(verdict: &mut Verdict, expect: &Expectation, deeds: &Deeds, lookups: &[String]) {
    let Some(wanted) = &expect.calls else {
        return;
    };
    let is_lookup = |tool: &str| lookups.iter().any(|lookup| lookup == bare(tool));
    let only_looks = !wanted.is_empty() && wanted.iter().all(|call| is_lookup(&call.tool));
    let wanted: Vec<_> = wanted
        .iter()
        .filter(|call| !is_lookup(&call.tool))
        .collect();
    let done: Vec<_> = deeds
        .calls
        .iter()
        .filter(|call| !is_lookup(&call.tool))
        .collect();
    let fits = wanted.len() == done.len()
        && wanted.iter().zip(&done).all(|(wanted, call)| {
            fits_call(wanted, call.server.as_str(), &call.tool, &call.arguments)
        })
        && (!only_looks || deeds.calls.iter().any(|call| is_lookup(&call.tool)));
    note_calls(verdict, fits, wanted.into_iter(), deeds);
}

/// Writes down whether the calls fit, and what they were where they do not.
fn note_calls<'a>(
    verdict: &mut Verdict,
    fits: bool,
    wanted: impl Iterator<Item = &'a ExpectedCall>,
    deeds: &Deeds,
) {
    verdict.calls = Some(fits);
    if fits {
        return;
    }
    let got = deeds.calls.iter();
    let got: Vec<_> = got
        .map(|call| format!("{}{}", call.tool, json!(call.arguments)))
        .collect();
    let wanted: Vec<_> = wanted
        .map(|call| format!("{}{}", call.tool, json!(call.arguments)))
        .collect();
    let wrong = format!("calls: wanted {wanted:?}, got {got:?}");
    verdict.wrong.push(wrong);
}

/// What a slot holds, in words: a text as it is, an item by the name that people call it by.
fn slot_text(app: &App, deeds: &Deeds, slot: &str) -> Option<String> {
    match deeds.slots.get(slot)? {
        Value::String(text) => Some(text.clone()),
        Value::Object(item) => {
            let intent = deeds.intent.as_str();
            let label = app
                .agents
                .iter()
                .flat_map(|agent| &agent.skills)
                .find(|skill| skill.name == *intent)?
                .slots
                .get(slot)?
                .refers_to
                .as_ref()
                .map(|reference| reference.label.clone())?;
            item.get(&label)?.as_str().map(str::to_owned)
        }
        other => Some(other.to_string()),
    }
}

fn fits_call(
    wanted: &ExpectedCall,
    server: &str,
    tool: &str,
    arguments: &serde_json::Map<String, Value>,
) -> bool {
    (wanted.tool == tool || wanted.tool == format!("{server}.{tool}"))
        && wanted
            .arguments
            .iter()
            .all(|(name, value)| arguments.get(name) == Some(value))
}

/// What does not fit in a text that somebody read.
fn text_complaints(name: &str, wanted: &ExpectedReply, text_read: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(text) = &wanted.equals
        && text.trim() != text_read
    {
        complaints.push(format!("{name}: wanted {text:?}, got {text_read:?}"));
    }
    for text in &wanted.contains {
        if !text_read.contains(text.as_str()) {
            complaints.push(format!("{name} lacks {text:?}: {text_read:?}"));
        }
    }
    for text in &wanted.lacks {
        if text_read.contains(text.as_str()) {
            complaints.push(format!("{name} says {text:?}: {text_read:?}"));
        }
    }
    if let Some(pattern) = &wanted.matches
        && !Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text_read))
    {
        complaints.push(format!("{name} does not match {pattern:?}: {text_read:?}"));
    }
    complaints
}

/// Whether a case says what the answer must be like beside its text.
fn speaks_of_answer(expect: &Expectation) -> bool {
    expect.sources.is_some()
        || expect.partial.is_some()
        || expect.confidence.is_some()
        || expect.suggestions.is_some()
}

fn answer_complaints(expect: &Expectation, answer: &Answer) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(wanted) = &expect.sources {
        let sorted = |texts: &[String]| {
            let mut texts = texts.to_vec();
            texts.sort();
            texts.dedup();
            texts
        };
        if sorted(wanted) != sorted(&answer.sources) {
            let got = &answer.sources;
            complaints.push(format!("sources: wanted {wanted:?}, got {got:?}"));
        }
    }
    if let Some(wanted) = expect.partial
        && wanted != answer.partial_results
    {
        let got = answer.partial_results;
        complaints.push(format!("partial: wanted {wanted}, got {got}"));
    }
    if let Some(wanted) = expect.confidence
        && wanted != answer.confidence
    {
        let (wanted, got) = (json!(wanted), json!(answer.confidence));
        complaints.push(format!("confidence: wanted {wanted}, got {got}"));
    }
    if let Some(wanted) = expect.suggestions
        && !wanted.allows(answer.suggestions.len())
    {
        let got = &answer.suggestions;
        let least = wanted.at_least.unwrap_or_default();
        let most = wanted.at_most.map(|most| format!(" and at most {most}"));
        let most = most.unwrap_or_default();
        complaints.push(format!(
            "suggestions: wanted at least {least}{most}, got {got:?}"
        ));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use convoke_model::AnswerFields;

    use super::*;

    fn complaints(expect: Value, answer: Value) -> Vec<String> {
        let expect: Expectation = serde_json::from_value(expect).unwrap();
        assert!(speaks_of_answer(&expect));
        let fields: AnswerFields = serde_json::from_value(answer).unwrap();
        answer_complaints(&expect, &Answer::new(fields).unwrap())
    }

    #[test]
    fn an_answer_is_compared_beside_its_text() {
        let answer = json!({
            "text": "So it is.", "sources": ["b.genie", "a"], "confidence": "medium", "partial": true,
            "suggestions": ["And then?"],
        });
        let right = json!({
            "sources": ["a", "b.genie"], "confidence": "medium", "partial": true,
            "suggestions": { "at_least": 1, "at_most": 1 },
        });
        assert!(complaints(right, answer.clone()).is_empty());
        let wrong = json!({
            "sources": ["a"], "confidence": "high", "partial": false,
            "suggestions": { "at_least": 2, "at_most": 3 },
        });
        assert_eq!(
            complaints(wrong, answer.clone()),
            [
                r#"sources: wanted ["a"], got ["b.genie", "a"]"#,
                "partial: wanted false, got true",
                r#"confidence: wanted "high", got "medium""#,
                r#"suggestions: wanted at least 2 and at most 3, got ["And then?"]"#,
            ]
        );
        let none = json!({ "sources": [], "suggestions": { "at_most": 0 } });
        assert_eq!(complaints(none.clone(), answer).len(), 2);
        assert!(complaints(none, json!({ "text": "So it is." })).is_empty());
    }
}
