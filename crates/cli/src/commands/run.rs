//! `convoke run`: one message, or many from standard input, and what the app says to them.

use convoke_engine::{Ended, Engine};
use convoke_flow::{Assistant, receive};
use convoke_model::TaskState;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use owo_colors::OwoColorize;
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt;
use uuid::Uuid;

use super::speaker::Speaker;
use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::output;
use crate::progress::Spinner;
use crate::wire::{self, Running};

pub(crate) async fn run(args: &RunArgs, json: bool) -> anyhow::Result<Exit> {
    let app = wire::load_app(&args.app, &args.store.data, json)?;
    let store = wire::open_store(&args.store, Some(&app))?;
    let mut running = Running::start(app, store)?;
    let exit = tokio::select! {
        exit = answer(args, json, &mut running) => exit,
        _ = tokio::signal::ctrl_c() => {
            output::note("stopping; what is unfinished stays in the journal and goes on with `convoke resume`");
            Ok(Exit::Interrupted)
        }
    };
    running.stop().await?;
    exit
}

async fn answer(args: &RunArgs, json: bool, running: &mut Running) -> anyhow::Result<Exit> {
    if args.message == "-" {
        return answer_lines(args, json, running).await;
    }
    let task = submit(args, args.message.clone(), args.key.clone(), running, None).await?;
    let engine = running.engine.clone();
    let spinner = Spinner::new("working");
    let ended = spinner
        .wait(running.while_working(engine.wait(task)))
        .await?;
    drop(spinner);
    Ok(show(&ended, running, json))
}

/// One task a line. Each is acknowledged once it is on disk; answers come in the order of the lines.
async fn answer_lines(args: &RunArgs, json: bool, running: &mut Running) -> anyhow::Result<Exit> {
    let mut lines = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    let mut waiting = FuturesOrdered::new();
    let mut reading = true;
    let mut worst = Exit::Done;
    let mut number = 0_usize;
    while reading || !waiting.is_empty() {
        tokio::select! {
            line = lines.next_line(), if reading => match line? {
                None => reading = false,
                Some(line) if line.trim().is_empty() => {}
                Some(line) => {
                    number += 1;
                    let key = args.key.as_ref().map(|key| format!("{key}-{number}"));
                    let own = args.speaker.conversation.is_none() && !args.speaker.r#continue;
                    let conversation = own.then(|| running.ids.next());
                    let task = submit(args, line, key, running, conversation).await?;
                    if json {
                        output::json_line(&json!({ "task": task, "state": TaskState::Submitted }));
                    }
                    waiting.push_back(wait(running.engine.clone(), task));
                }
            },
            Some(ended) = waiting.next() => {
                let exit = show(&ended?, running, json);
                if exit != Exit::Done {
                    worst = exit;
                }
            }
        }
    }
    Ok(worst)
}

async fn wait(engine: Engine<Assistant>, task: Uuid) -> anyhow::Result<Ended> {
    Ok(engine.wait(task).await?)
}

async fn submit(
    args: &RunArgs,
    text: String,
    key: Option<String>,
    running: &Running,
    conversation: Option<Uuid>,
) -> anyhow::Result<Uuid> {
    let mut speaker = Speaker::find(&args.speaker, running).await?;
    if let Some(conversation) = conversation {
        speaker.conversation = conversation;
    }
    let incoming = speaker.says(text, &args.speaker, key);
    let request = receive(incoming, &running.app.config.limits, running.clock.now())?;
    Ok(running.engine.submit(request).await?.id())
}

/// Prints what came of a task.
pub(crate) fn show(ended: &Ended, running: &Running, json: bool) -> Exit {
    if json {
        output::json_line(&as_json(ended));
    } else if ended.record.status.awaits_person() {
        for question in &ended.questions {
            output::line(&question.prompt);
        }
        output::note(format!(
            "answer with `convoke tasks answer {} approve`",
            ended.record.id
        ));
    } else {
        output::line(text_of(ended, running));
        if output::is_watched() {
            let took = ended.answer.as_ref().map_or(0, |answer| answer.total_ms);
            output::note(
                format!("{took} ms · convoke tasks trace {}", ended.record.id)
                    .dimmed()
                    .to_string(),
            );
        }
        if let Some(cause) = &ended.record.error {
            output::note(format!("error[task.failed]: {cause}"));
        }
    }
    match ended.record.status {
        TaskState::Completed => Exit::Done,
        status if status.awaits_person() => Exit::Waiting,
        _ => Exit::NotDone,
    }
}

fn text_of<'a>(ended: &'a Ended, running: &'a Running) -> &'a str {
    match &ended.answer {
        Some(answer) => &answer.text,
        None if ended.record.status == TaskState::Canceled => &running.app.config.messages.canceled,
        None => &running.app.config.messages.failure,
    }
}

pub(crate) fn as_json(ended: &Ended) -> Value {
    json!({
        "task": ended.record.id,
        "conversation": ended.record.conversation,
        "state": ended.record.status,
        "answer": ended.answer,
        "questions": ended.questions,
        "error": ended.record.error,
    })
}
