//! `convoke eval`: says every eval case to the app, through the real engine and the real tool
//! servers, and compares what comes out. Each case is a user of its own, so that none sees another's
//! data.

mod junit;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use convoke::{Answer, App, Channel, Ended, Incoming, Runtime, StoreChoice, UserId};
use convoke_app::{EvalBar, EvalCase, ExpectedCall, ExpectedReply};
use futures::StreamExt;
use futures::stream;
use owo_colors::OwoColorize;
use regex::Regex;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::EvalArgs;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::progress;
use crate::start;

/// What came of one case. A measure that the case does not speak of is left out.
#[derive(Debug, Serialize)]
struct Verdict {
    file: String,
    case: String,
    said: String,
    reply: String,
    intent: Option<bool>,
    slots: Option<bool>,
    calls: Option<bool>,
    reply_fits: Option<bool>,
    /// The intent that was wanted, and the one that was found.
    intents: Option<(String, String)>,
    /// What was wanted and what came instead.
    wrong: Vec<String>,
}

impl Verdict {
    /// Of a case that nothing was compared of yet.
    fn of(file: &str, said: &str) -> Self {
        Self {
            file: file.to_owned(),
            case: said.to_owned(),
            said: said.to_owned(),
            reply: String::new(),
            intent: None,
            slots: None,
            calls: None,
            reply_fits: None,
            intents: None,
            wrong: Vec::new(),
        }
    }
}

pub(crate) async fn run(args: &EvalArgs, json: bool) -> anyhow::Result<Exit> {
    let data = tempfile::tempdir().context("no folder for the cases' data can be made")?;
    let app = start::load_app_to_eval(&args.app, data.path(), &args.model, json)?;
    let judge = Judge {
        lookups: args.by_model.then(|| lookups(&app)),
    };
    let mut cases = chosen(&app, args.only.as_deref());
    if let Some(sample) = args.sample {
        cases = spread(cases, sample.into());
    }
    if cases.is_empty() {
        return Err(UsageError::new("eval.no_cases", "there are no eval cases to run").into());
    }
    let running = if args.by_model {
        start::put_skills_away(&app)?
    } else {
        Arc::clone(&app)
    };
    let runtime = start::runtime(running, StoreChoice::Memory, data.path(), &args.model).await?;
    let bar = progress::bar(cases.len(), "cases");
    let verdicts: Vec<anyhow::Result<Verdict>> = stream::iter(cases)
        .map(|(file, case)| {
            let (runtime, bar, judge) = (&runtime, &bar, &judge);
            async move {
                let verdict = judge.hear(runtime, file, case).await;
                bar.inc(1);
                verdict
            }
        })
        .buffered(args.concurrent.into())
        .collect()
        .await;
    bar.finish_and_clear();
    runtime.shutdown().await?;
    let verdicts = verdicts.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(file) = &args.junit {
        let report = junit::report(app.config.name.as_str(), &verdicts);
        std::fs::write(file, report)
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    if args.confusion && !json {
        output::line(confusion(&verdicts));
    }
    Ok(report(&verdicts, &app.config.evals, args.by_model, json))
}

/// Which intents were taken for which, and how often; the right ones in one line each.
fn confusion(verdicts: &[Verdict]) -> String {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (wanted, got) in verdicts
        .iter()
        .filter_map(|verdict| verdict.intents.as_ref())
    {
        *counts.entry((wanted, got)).or_default() += 1;
    }
    let rows: Vec<_> = counts
        .into_iter()
        .map(|((wanted, got), count)| {
            let note = if wanted == got { "" } else { "wrong" };
            [
                wanted.to_owned(),
                got.to_owned(),
                count.to_string(),
                note.to_owned(),
            ]
        })
        .collect();
    output::table(["WANTED", "FOUND", "CASES", ""], &rows, &[2])
}

/// How cases are judged.
struct Judge {
    /// Tools that only look things up, where the way to a call is the model's own.
    lookups: Option<Vec<String>>,
}

/// The tools by which the app's skills find what words point at.
fn lookups(app: &App) -> Vec<String> {
    let skills = app.agents.iter().flat_map(|agent| &agent.skills);
    let slots = skills.flat_map(|skill| skill.slots.values());
    let references = slots.filter_map(|slot| slot.refers_to.as_ref());
    references
        .map(|reference| bare(&reference.tool).to_owned())
        .collect()
}

/// A tool's name without its server's.
fn bare(tool: &str) -> &str {
    tool.rsplit('.').next().unwrap_or(tool)
}

fn chosen<'a>(app: &'a App, only: Option<&str>) -> Vec<(&'a str, &'a EvalCase)> {
    app.evals
        .iter()
        .flat_map(|set| set.cases.iter().map(|case| (set.file.as_str(), case)))
        .filter(|(file, case)| {
            only.is_none_or(|text| file.contains(text) || case.title().contains(text))
        })
        .collect()
}

impl Judge {
    async fn hear(
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
            reply: ended
                .answer
                .as_ref()
                .map(|answer| answer.text.clone())
                .unwrap_or_default(),
            ..Verdict::of(file, &case.say)
        };
        let Some(answer) = &ended.answer else {
            verdict
                .wrong
                .push(format!("no answer: {}", ended.error.unwrap_or_default()));
            verdict.intent = Some(false);
            return Ok(verdict);
        };
        match &self.lookups {
            Some(lookups) => compare_effects(&mut verdict, case, answer, lookups),
            None => compare(&mut verdict, runtime, case, answer),
        }
        Ok(verdict)
    }
}

/// So many of the cases, from the first to the last in equal steps.
fn spread<T>(cases: Vec<T>, number: usize) -> Vec<T> {
    let all = cases.len().max(1);
    let number = number.min(all);
    let taken = |index: &usize| index * number / all != (index + 1) * number / all;
    let cases = cases.into_iter().enumerate();
    cases
        .filter(|(index, _)| taken(index))
        .map(|(_, case)| case)
        .collect()
}

async fn say(
    runtime: &Runtime,
    user: UserId,
    conversation: Uuid,
    text: &str,
) -> anyhow::Result<Ended> {
    let incoming = Incoming {
        user,
        conversation: Some(conversation),
        channel: Channel::Terminal,
        text: text.to_owned(),
        key: None,
        live: None,
        keeping: convoke_engine::Keeping::default(),
    };
    Ok(runtime.ask(incoming).await?)
}

fn compare(verdict: &mut Verdict, runtime: &Runtime, case: &EvalCase, answer: &Answer) {
    let expect = &case.expect;
    if let Some(wanted) = &expect.intent {
        let got = answer
            .metadata
            .get("intent")
            .and_then(Value::as_str)
            .unwrap_or_default();
        verdict.intent = Some(*wanted == *got);
        verdict.intents = Some((wanted.to_string(), got.to_owned()));
        if got != wanted.as_str() {
            verdict
                .wrong
                .push(format!("intent: wanted {wanted}, got {got}"));
        }
    }
    if !expect.slots.is_empty() {
        let slots = answer.metadata.get("slots").cloned().unwrap_or_default();
        let mut right = true;
        for (slot, wanted) in &expect.slots {
            let got = slot_text(runtime, answer, slot.as_str(), &slots);
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
        let fits = wanted.len() == answer.tool_calls.len()
            && wanted.iter().zip(&answer.tool_calls).all(|(wanted, call)| {
                fits_call(wanted, call.server.as_str(), &call.tool, &call.arguments)
            });
        note_calls(verdict, fits, wanted.iter(), answer);
    }
    if let Some(wanted) = &expect.reply {
        let complaints = reply_complaints(wanted, &answer.text);
        verdict.reply_fits = Some(complaints.is_empty());
        verdict.wrong.extend(complaints);
    }
}

/// Compares what was done: the calls that are no mere looking up, in their order. Where looking up is all
/// that was wanted, it must have been done and nothing else.
fn compare_effects(verdict: &mut Verdict, case: &EvalCase, answer: &Answer, lookups: &[String]) {
    let Some(wanted) = &case.expect.calls else {
        return;
    };
    let is_lookup = |tool: &str| lookups.iter().any(|lookup| lookup == bare(tool));
    let only_looks = !wanted.is_empty() && wanted.iter().all(|call| is_lookup(&call.tool));
    let wanted: Vec<_> = wanted
        .iter()
        .filter(|call| !is_lookup(&call.tool))
        .collect();
    let done: Vec<_> = answer
        .tool_calls
        .iter()
        .filter(|call| !is_lookup(&call.tool))
        .collect();
    let fits = wanted.len() == done.len()
        && wanted.iter().zip(&done).all(|(wanted, call)| {
            fits_call(wanted, call.server.as_str(), &call.tool, &call.arguments)
        })
        && (!only_looks || answer.tool_calls.iter().any(|call| is_lookup(&call.tool)));
    note_calls(verdict, fits, wanted.into_iter(), answer);
}

/// Writes down whether the calls fit, and what they were where they do not.
fn note_calls<'a>(
    verdict: &mut Verdict,
    fits: bool,
    wanted: impl Iterator<Item = &'a ExpectedCall>,
    answer: &Answer,
) {
    verdict.calls = Some(fits);
    if fits {
        return;
    }
    let got = answer.tool_calls.iter();
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
fn slot_text(runtime: &Runtime, answer: &Answer, slot: &str, slots: &Value) -> Option<String> {
    match slots.get(slot)? {
        Value::String(text) => Some(text.clone()),
        Value::Object(item) => {
            let intent = answer.metadata.get("intent")?.as_str()?;
            let label = runtime
                .app()
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

fn reply_complaints(wanted: &ExpectedReply, reply: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(text) = &wanted.equals
        && text.trim() != reply
    {
        complaints.push(format!("reply: wanted {text:?}, got {reply:?}"));
    }
    for text in &wanted.contains {
        if !reply.contains(text.as_str()) {
            complaints.push(format!("reply lacks {text:?}: {reply:?}"));
        }
    }
    for text in &wanted.lacks {
        if reply.contains(text.as_str()) {
            complaints.push(format!("reply says {text:?}: {reply:?}"));
        }
    }
    if let Some(pattern) = &wanted.matches
        && !Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(reply))
    {
        complaints.push(format!("reply does not match {pattern:?}: {reply:?}"));
    }
    complaints
}

/// One measure over all cases that speak of it.
#[derive(Debug, Serialize)]
struct Measure {
    name: &'static str,
    cases: usize,
    right: usize,
    share: f64,
    bar: f64,
    passed: bool,
}

#[expect(clippy::cast_precision_loss, reason = "nobody writes that many cases")]
fn measure(name: &'static str, results: impl Iterator<Item = bool>, bar: f64) -> Measure {
    let results: Vec<bool> = results.collect();
    let right = results.iter().filter(|right| **right).count();
    let share = if results.is_empty() {
        1.0
    } else {
        right as f64 / results.len() as f64
    };
    Measure {
        name,
        cases: results.len(),
        right,
        share,
        bar,
        passed: share >= bar,
    }
}

fn report(verdicts: &[Verdict], bar: &EvalBar, by_model: bool, json: bool) -> Exit {
    let mut measures = vec![
        measure(
            "intents",
            verdicts.iter().filter_map(|one| one.intent),
            bar.intents,
        ),
        measure(
            "slots",
            verdicts.iter().filter_map(|one| one.slots),
            bar.slots,
        ),
        measure(
            "calls",
            verdicts.iter().filter_map(|one| one.calls),
            bar.calls,
        ),
        measure(
            "replies",
            verdicts.iter().filter_map(|one| one.reply_fits),
            bar.replies,
        ),
    ];
    if by_model {
        measures.retain(|measure| measure.name == "calls");
    }
    let passed = measures.iter().all(|measure| measure.passed);
    if json {
        output::json_line(&json!({ "passed": passed, "measures": measures, "cases": verdicts }));
    } else {
        for verdict in verdicts.iter().filter(|verdict| !verdict.wrong.is_empty()) {
            output::line(format!(
                "{} {} {:?}",
                "wrong".red(),
                verdict.file,
                verdict.case
            ));
            for wrong in &verdict.wrong {
                output::line(format!("      {wrong}"));
            }
        }
        output::line(table(&measures));
        let right = verdicts
            .iter()
            .filter(|verdict| verdict.wrong.is_empty())
            .count();
        output::line(format!(
            "{right} of {} cases are right in everything",
            verdicts.len()
        ));
    }
    if passed { Exit::Done } else { Exit::NotDone }
}

fn table(measures: &[Measure]) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let rows: Vec<_> = measures
        .iter()
        .map(|measure| {
            [
                measure.name.to_owned(),
                measure.cases.to_string(),
                measure.right.to_string(),
                percent(measure.share),
                percent(measure.bar),
                if measure.passed {
                    "passed"
                } else {
                    "below the bar"
                }
                .to_owned(),
            ]
        })
        .collect();
    output::table(
        ["MEASURE", "CASES", "RIGHT", "SHARE", "BAR", ""],
        &rows,
        &[1, 2, 3, 4],
    )
}
