//! `convoke run`: one message, or many from standard input, and what the app says to them.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::time::Duration;

use convoke::{App, EngineError, IncomingRequest, Runtime, RuntimeError, TaskOutcome, TaskState};
use convoke_model::{Clock as _, SystemClock};
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::BufReader;
use uuid::Uuid;

use super::progress::TaskProgress;
use super::refusal;
use super::speaker::Speaker;
use crate::attachments;
use crate::cli::RunArgs;
use crate::exit::{Exit, UsageError};
use crate::history;
use crate::lines::{Line, LineBuffer};
use crate::output::{self, FailureReport, Text};
use crate::start;
use crate::stopping::StopSignals;
use crate::times::second;

/// Bytes of standard input that are read at once, where a message is a line.
const READ_AT_ONCE: usize = 64 * 1024;

pub(crate) async fn run(args: &RunArgs, json: bool) -> anyhow::Result<Exit> {
    let mut stop = StopSignals::new()?;
    let app = start::load_app(&args.app, &args.store.data, &args.model, json)?;
    let store = start::store_for(&args.store, &app)?;
    let runtime = start::runtime(app, store, &args.store.data, &args.model).await?;
    let exit = tokio::select! {
        exit = answer(args, json, &runtime) => exit,
        () = stop.asked() => Ok(Exit::Interrupted),
    };
    match stop.unless_again(runtime.shutdown()).await {
        Some(stopped) => stopped?,
        None => return Ok(Exit::Interrupted),
    }
    exit
}

async fn answer(args: &RunArgs, json: bool, runtime: &Runtime) -> anyhow::Result<Exit> {
    let attachments =
        attachments::read(&args.attach, runtime.app().config.limits.attachment_bytes)?;
    if args.message == "-" {
        if !attachments.is_empty() {
            let message = "--attach goes with one message, not with lines from standard input";
            return Err(UsageError::new("attachment.lines", message).into());
        }
        if args.history.is_some() {
            let message = "--history goes with one message, not with lines from standard input";
            return Err(UsageError::new("history.lines", message).into());
        }
        return answer_lines(args, json, runtime).await;
    }
    let mut progress = TaskProgress::new(json);
    let speaker = Speaker::find(&args.speaker, runtime).await?;
    let goes_on = args.speaker.r#continue || args.speaker.conversation.is_some();
    if goes_on
        && attachments.is_empty()
        && args.not_before.is_none()
        && let Some(reply) = runtime
            .reply_to_question(speaker.user, speaker.conversation, &args.message)
            .await?
    {
        let ended = progress.follow(speaker.replies(reply, runtime)).await?;
        let told = progress.end(&ended);
        return Ok(show(&ended, runtime, json, told));
    }
    let (text, key) = (args.message.clone(), args.key.clone());
    let incoming = match &args.history {
        Some(file) => speaker.says_after(history::read(file)?, text, &args.speaker, key),
        None => speaker.says(text, &args.speaker, key),
    };
    let incoming = with_retention(incoming, args)
        .attach(attachments)
        .live(progress.live());
    let submitted = runtime.submit(incoming).await;
    let task = submitted.map_err(|error| refusal::in_words_of(runtime, error))?;
    if let Some(delay) = args.not_before {
        return Ok(tell_delayed(task, delay, json));
    }
    let waited = runtime.wait_for_person(speaker.user, task);
    let ended = progress.follow(waited).await?;
    let told = progress.end(&ended);
    Ok(show(&ended, runtime, json, told))
}

/// Tells of a task that is begun later. Nobody waits for it here.
fn tell_delayed(task: Uuid, delay: Duration, json: bool) -> Exit {
    let until = SystemClock.now().checked_add(delay);
    let until = until.unwrap_or(Timestamp::MAX);
    if json {
        output::json_line(&json!({
            "task": task, "state": TaskState::Submitted, "waits_until": until,
        }));
    } else {
        let until = second(until);
        output::line(format!(
            "{task} begins at {until}, where its app is served or resumed then"
        ));
    }
    Exit::Waiting
}

/// One task a line. Each is acknowledged once it is on disk; what comes of them is told in the order of the lines. A
/// line that is refused, or fails, has that as its result, and the others theirs.
async fn answer_lines(args: &RunArgs, json: bool, runtime: &Runtime) -> anyhow::Result<Exit> {
    let own = args.speaker.conversation.is_none() && !args.speaker.r#continue;
    let speaker = Speaker::find(&args.speaker, runtime).await?;
    let mut input = BufReader::with_capacity(READ_AT_ONCE, tokio::io::stdin());
    let mut buffer = LineBuffer::new(runtime.app().config.limits.message_characters as usize);
    let mut waiting = FuturesOrdered::new();
    let mut reading = true;
    let mut worst = Exit::Done;
    let (mut place, mut number) = (0_usize, 0_usize);
    while reading || !waiting.is_empty() {
        tokio::select! {
            line = buffer.next_from(&mut input), if reading => {
                let line = match line {
                    Ok(Some(line)) => line,
                    Ok(None) => {
                        reading = false;
                        continue;
                    }
                    Err(error) => {
                        let error = anyhow::Error::from(error).context("the input cannot be read");
                        output::report(json, &error, Exit::Broken);
                        worst = worst.or_worse(Exit::Broken);
                        reading = false;
                        continue;
                    }
                };
                place += 1;
                if line.is_blank() {
                    continue;
                }
                number += 1;
                let mut speaker = speaker;
                if own {
                    speaker.conversation = runtime.ids().next();
                }
                let key = args.key.as_ref().map(|key| format!("{key}-{number}"));
                let task = submit(args, speaker, line, key, runtime).await;
                if json && let Ok(task) = &task {
                    output::json_line(&json!({
                        "line": place, "task": task, "state": TaskState::Submitted,
                    }));
                }
                if let (Ok(task), Some(delay)) = (&task, args.not_before) {
                    if !json {
                        tell_delayed(*task, delay, json);
                    }
                    worst = worst.or_worse(Exit::Waiting);
                    continue;
                }
                waiting.push_back(async move {
                    let ended = match task {
                        Ok(task) => {
                            let ended = runtime.wait(speaker.user, task).await;
                            ended.map_err(anyhow::Error::from)
                        }
                        Err(error) => Err(error),
                    };
                    (place, ended)
                });
            },
            Some((place, ended)) = waiting.next() => {
                let exit = match ended {
                    Ok(ended) => show_line(place, &ended, runtime, json),
                    Err(error) => {
                        let error = refusal::in_words_of(runtime, error);
                        // Nobody would work on what is still to come.
                        let stopped = error.downcast_ref::<RuntimeError>();
                        reading &= !matches!(stopped, Some(RuntimeError::Stopped { .. }));
                        refuse_line(place, &error, json)
                    }
                };
                worst = worst.or_worse(exit);
            }
        }
    }
    Ok(worst)
}

/// Prints what came of the task of a line.
fn show_line(place: usize, ended: &TaskOutcome, runtime: &Runtime, json: bool) -> Exit {
    if !json {
        return show(ended, runtime, json, false);
    }
    let mut object = as_json(ended);
    object["line"] = place.into();
    output::json_line(&object);
    exit_of(ended)
}

/// Prints why nothing came of a line.
fn refuse_line(place: usize, error: &anyhow::Error, json: bool) -> Exit {
    let failure = FailureReport::of(error);
    if json {
        output::json_line(&json!({ "line": place, "error": failure }));
    } else {
        output::note(failure.in_words(&format!("line {place}: ")));
    }
    Exit::of(error)
}

async fn submit(
    args: &RunArgs,
    speaker: Speaker,
    line: Line,
    key: Option<String>,
    runtime: &Runtime,
) -> anyhow::Result<Uuid> {
    let incoming = with_retention(speaker.says(line.message()?, &args.speaker, key), args);
    loop {
        match runtime.submit(incoming.clone()).await {
            // The line waits for the others, and no more lines are read meanwhile.
            Err(RuntimeError::Engine(EngineError::Busy { retry_after, .. })) => {
                tokio::time::sleep(retry_after).await;
            }
            submitted => return Ok(submitted?),
        }
    }
}

/// As long as the command line says, under its tags and in its trace.
fn with_retention(incoming: IncomingRequest, args: &RunArgs) -> IncomingRequest {
    let trace = args.trace_parent.as_deref().map(OsStr::to_string_lossy);
    incoming
        .keep_days(args.keep_days)
        .not_before(args.not_before)
        .tags(args.tag.clone())
        .trace(trace.map(Cow::into_owned))
}

/// Prints what came of a task; the answer only if it was not told already.
pub(crate) fn show(ended: &TaskOutcome, runtime: &Runtime, json: bool, told: bool) -> Exit {
    if json {
        output::json_line(&as_json(ended));
    } else if ended.status.awaits_person() {
        for question in &ended.questions {
            output::question(&question.prompt);
        }
        output::note(format!(
            "answer with `convoke tasks answer {} approve`",
            ended.facts.id
        ));
    } else {
        if !told {
            output::line(text_of(ended, &runtime.app()));
        }
        tell_around(ended);
        if output::is_watched() {
            let took = ended
                .answer
                .as_ref()
                .map_or(0, |answer| answer.total_execution_time_ms);
            let trace = format!("{took} ms · convoke tasks trace {}", ended.facts.id);
            output::note(Text::new().dimmed(trace));
        }
        if let Some(cause) = &ended.error {
            output::note(output::failed_task(cause));
        }
    }
    exit_of(ended)
}

fn exit_of(ended: &TaskOutcome) -> Exit {
    match ended.status {
        TaskState::Completed => Exit::Done,
        status if status.awaits_person() => Exit::Waiting,
        _ => Exit::NotDone,
    }
}

/// What stands around an answer: what it rests on, and what may be asked next.
pub(crate) fn tell_around(ended: &TaskOutcome) {
    let Some(answer) = &ended.answer else {
        return;
    };
    for key in ["reply_failed", "shows_failed"] {
        if let Some(cause) = answer.metadata.get(key).and_then(Value::as_str) {
            output::note(output::warning(cause));
        }
    }
    if let Some(seconds) = answer.metadata.get("conversation_idle_seconds") {
        let idle = format!("the conversation goes on after {seconds} s of silence");
        output::note(Text::new().dimmed(idle));
    }
    if !answer.sources.is_empty() {
        let sources = format!("sources: {}", answer.sources.join(", "));
        output::note(Text::new().dimmed(sources));
    }
    for suggestion in &answer.suggestions {
        let suggestion = format!("you may also ask: {suggestion}");
        output::note(Text::new().dimmed(suggestion));
    }
}

fn text_of(ended: &TaskOutcome, app: &App) -> String {
    match &ended.answer {
        Some(answer) => answer.text.clone(),
        None => convoke_flow::words_of_end(&app.config, ended.status),
    }
}

pub(crate) fn as_json(ended: &TaskOutcome) -> Value {
    json!({
        "task": ended.facts.id,
        "conversation": ended.facts.conversation,
        "state": ended.status,
        "answer": ended.answer,
        "questions": ended.questions,
        "error": ended.error,
    })
}
