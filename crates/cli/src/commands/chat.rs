//! `convoke chat`: a conversation at the terminal, with line editing and history; from a pipe, one
//! message a line.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use convoke::{EngineError, QuestionAnswer, Runtime, RuntimeError, TaskOutcome, UserId};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use serde_json::json;
use uuid::Uuid;

use super::progress::TaskProgress;
use super::refusal;
use super::run::{as_json, show, tell_around};
use super::speaker::Speaker;
use super::tasks::fields;
use crate::cli::ChatArgs;
use crate::exit::{Exit, UsageError};
use crate::lines::{Line, LineBuffer};
use crate::output::{self, Text};
use crate::start;
use crate::stopping::StopSignals;
use crate::times::{parse_duration, second};

/// Limit of the animation of an answer.
const APPEARING: Duration = Duration::from_millis(400);

/// Limit of lines in the history file.
const HISTORY_LINES: usize = 1_000;

const HELP: &str = "\
/approve [MESSAGE]   agree to what you are asked
/reject [MESSAGE]    do not agree
/snooze TIME         be asked again later, such as after 2h
/set FIELD=VALUE     agree, with a change to the state of the workflow
/new                 begin a new conversation
/trace               show how the last answer came about
/quit                leave (so does Ctrl-D)";

pub(crate) async fn run(args: &ChatArgs, json: bool) -> anyhow::Result<Exit> {
    let mut stop = StopSignals::new()?;
    let app = start::load_app(&args.app, &args.store.data, &args.model, json)?;
    let store = start::store_for(&args.store, &app)?;
    let runtime = start::lasting_runtime(app, store, &args.store.data, &args.model).await?;
    let runtime = Arc::new(runtime);
    runtime.start_tool_servers();
    let talked = tokio::select! {
        talked = talk(args, json, async || Arc::clone(&runtime)) => talked,
        () = stop.asked() => Ok(Exit::Interrupted),
    };
    match stop.unless_again(runtime.shutdown()).await {
        Some(stopped) => stopped?,
        None => return Ok(Exit::Interrupted),
    }
    talked
}

/// A conversation, each message with the app as it is `current` then.
pub(super) async fn talk(
    args: &ChatArgs,
    json: bool,
    current: impl AsyncFn() -> Arc<Runtime>,
) -> anyhow::Result<Exit> {
    let (mut speaker, mut input) = begin(args, json, &*current().await).await?;
    let mut last: Option<Uuid> = None;
    loop {
        let (line, back) = tokio::task::spawn_blocking(move || {
            let line = input.next_line();
            (line, input)
        })
        .await
        .context("the terminal cannot be read")?;
        input = back;
        let Some(line) = line? else {
            return Ok(Exit::Done);
        };
        let current = current().await;
        let runtime = &*current;
        let line = match line.message() {
            Ok(line) => line,
            Err(error) => {
                output::report(json, &refusal::in_words_of(runtime, error), Exit::Usage);
                continue;
            }
        };
        match line.trim() {
            "" => continue,
            "/quit" | "/exit" => return Ok(Exit::Done),
            "/help" => {
                output::note(HELP);
                continue;
            }
            "/new" => {
                speaker.conversation = runtime.ids().next();
                output::note("A new conversation.");
                continue;
            }
            "/trace" => {
                match last {
                    Some(task) => {
                        super::tasks::trace(&**runtime.store(), task, &args.store, json).await?;
                    }
                    None => output::note("Nothing was said yet."),
                }
                continue;
            }
            command if command.starts_with('/') => {
                match (answer_of(command), last) {
                    (None, _) => output::note(format!("There is no command {command}.\n{HELP}")),
                    (Some(_), None) => output::note("Nobody asks you anything."),
                    (Some(answer), Some(task)) => {
                        let progress = TaskProgress::new(json);
                        let asked = (speaker.user, task);
                        let heard = heard(answer, asked, runtime, progress, &input, json).await;
                        if let Err(error) = heard {
                            output::report(json, &error, Exit::Usage);
                        }
                    }
                }
                continue;
            }
            _ => {}
        }
        let mut progress = TaskProgress::new(json);
        let reply = runtime.reply_to_question(speaker.user, speaker.conversation, &line);
        match reply.await {
            Ok(Some(reply)) => {
                last = Some(reply.whole);
                let ended = progress.follow(speaker.replies(reply, runtime)).await;
                match ended {
                    Ok(ended) => tell(&ended, progress, runtime, &input, json).await,
                    Err(error) => _ = output::report(json, &error.into(), Exit::Usage),
                }
                continue;
            }
            Ok(None) => {}
            Err(error) => {
                output::report(json, &error.into(), Exit::Usage);
                continue;
            }
        }
        let incoming = (speaker.says(line, &args.speaker, None)).live(progress.live());
        let task = match runtime.submit(incoming).await {
            // A rejected message does not end the conversation.
            Err(
                error @ (RuntimeError::Invalid(_) | RuntimeError::Engine(EngineError::Busy { .. })),
            ) => {
                output::report(json, &refusal::in_words_of(runtime, error), Exit::Usage);
                continue;
            }
            outcome => outcome?,
        };
        last = Some(task);
        let waited = runtime.wait_for_person(speaker.user, task);
        let ended = progress.follow(waited).await?;
        tell(&ended, progress, runtime, &input, json).await;
    }
}

/// Finds who speaks, and where their lines come from.
async fn begin(args: &ChatArgs, json: bool, runtime: &Runtime) -> anyhow::Result<(Speaker, Input)> {
    let speaker = Speaker::find(&args.speaker, runtime).await?;
    let input = Input::open(&args.store.data, runtime)?;
    if input.is_terminal() && !json {
        let app = &runtime.app().config;
        let about = format!(
            " {}: {}\nType /help for commands, Ctrl-D to leave.",
            app.version, app.description
        );
        output::note(Text::new().bold(&app.name).plain(about));
    }
    Ok((speaker, input))
}

/// Prints the outcome of a task.
async fn tell(
    ended: &TaskOutcome,
    progress: TaskProgress,
    runtime: &Runtime,
    input: &Input,
    json: bool,
) {
    let told = progress.end(ended);
    if json {
        output::json_line(&as_json(ended));
    } else if ended.status.awaits_person() {
        let (snoozed, asked): (Vec<_>, Vec<_>) =
            (ended.questions.iter()).partition(|question| question.snoozed_until.is_some());
        for question in &asked {
            output::question(&question.prompt);
        }
        if !asked.is_empty() {
            output::note(
                "answer with yes or no, or with /approve, /reject, /snooze TIME or /set FIELD=VALUE",
            );
        }
        for until in snoozed.iter().filter_map(|question| question.snoozed_until) {
            output::note(format!("You are asked again at {}.", second(until)));
        }
    } else if input.is_terminal() && !told {
        appear(ended, runtime).await;
    } else if !input.is_terminal() {
        show(ended, runtime, false, told);
    }
}

/// The answer that a chat command gives, if it is one.
fn answer_of(command: &str) -> Option<anyhow::Result<QuestionAnswer>> {
    let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
    let message = Some(rest.trim().to_owned()).filter(|message| !message.is_empty());
    match word {
        "/approve" => Some(Ok(QuestionAnswer::Approve { message })),
        "/reject" => Some(Ok(QuestionAnswer::Reject { message })),
        "/snooze" => Some(match parse_duration(rest.trim()) {
            Ok(pause) => Ok(QuestionAnswer::snooze(pause)),
            Err(why) => Err(UsageError::new("answer.pause_missing", why).into()),
        }),
        "/set" => {
            // Without a field, the task reports that nothing is changed.
            let set: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
            let updates = fields(&set).map_err(anyhow::Error::from);
            Some(updates.map(|updates| QuestionAnswer::Modify {
                value: json!({ "state_updates": updates }),
            }))
        }
        _ => None,
    }
}

/// Answers the first question of a task or of a part of it, and prints the outcome.
async fn heard(
    answer: anyhow::Result<QuestionAnswer>,
    (user, task): (UserId, Uuid),
    runtime: &Runtime,
    mut progress: TaskProgress,
    input: &Input,
    json: bool,
) -> anyhow::Result<()> {
    let answer = answer?;
    let standing = runtime.wait_for_person(user, task).await?;
    let question = standing.questions.first().map(|question| question.id);
    let asking = standing.facts.id;
    let answered = async {
        let answered = runtime.answer(user, asking, question, answer).await?;
        if asking == task {
            return Ok(answered);
        }
        runtime.wait_for_person(user, task).await
    };
    let ended = progress.follow(answered).await?;
    tell(&ended, progress, runtime, input, json).await;
    Ok(())
}

/// Prints an answer word by word.
async fn appear(ended: &TaskOutcome, runtime: &Runtime) {
    let Some(answer) = &ended.answer else {
        show(ended, runtime, false, false);
        return;
    };
    let words: Vec<&str> = answer.text.split_inclusive(' ').collect();
    let pause = APPEARING / u32::try_from(words.len().max(20)).unwrap_or(u32::MAX);
    for word in words {
        output::part(word);
        tokio::time::sleep(pause).await;
    }
    output::line("");
    tell_around(ended);
}

/// The source of lines.
enum Input {
    Terminal {
        editor: Box<Editor<(), FileHistory>>,
        history: PathBuf,
    },
    Pipe(LineBuffer),
}

impl Input {
    fn open(data: &Path, runtime: &Runtime) -> anyhow::Result<Self> {
        if !std::io::stdin().is_terminal() {
            let most = runtime.app().config.limits.message_characters;
            return Ok(Self::Pipe(LineBuffer::new(most as usize)));
        }
        let config = Config::builder()
            .max_history_size(HISTORY_LINES)?
            .auto_add_history(true)
            .build();
        let mut editor = Editor::with_config(config)?;
        let history = data.join("chat_history");
        // The first conversation has no history to load.
        let _ = editor.load_history(&history);
        Ok(Self::Terminal {
            editor: Box::new(editor),
            history,
        })
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    /// The next line. `None` at the end of the input.
    fn next_line(&mut self) -> anyhow::Result<Option<Line>> {
        match self {
            Self::Pipe(buffer) => Ok(buffer.next(&mut std::io::stdin().lock())?),
            Self::Terminal { editor, history } => match editor.readline("> ") {
                Ok(line) => {
                    let _ = editor.save_history(history);
                    Ok(Some(Line::Text(line)))
                }
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }
}
