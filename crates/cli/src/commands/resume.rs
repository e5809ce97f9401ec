//! `convoke resume`: finishes the tasks that an earlier process left unfinished.

use std::time::Duration;

use convoke::StoreChoice;
use convoke_engine::EngineError;
use convoke_model::{Clock, SystemClock, TaskState};
use convoke_store::{Filter, Page, Store, StoreError, TaskSummary, Viewer};
use serde_json::json;

use super::tasks::questions;
use crate::cli::AppArgs;
use crate::exit::Exit;
use crate::output::{self, Text};
use crate::progress::Spinner;
use crate::start;
use crate::stopping::StopSignals;

/// Poll interval for unfinished tasks.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) async fn run(args: &AppArgs, json: bool) -> anyhow::Result<Exit> {
    let mut stop = StopSignals::new()?;
    let app = start::load_app(&args.app, &args.store.data, &args.model, json)?;
    let store = start::store_for(&args.store, &app)?.open()?;
    let filter = Filter {
        states: vec![
            TaskState::Submitted,
            TaskState::Working,
            TaskState::InputRequired,
        ],
        app: Some(app.config.name.to_string()),
        ..Filter::default()
    };
    let found = unfinished(&*store, &filter).await?;
    if found.is_empty() {
        if json {
            output::json_line(&json!({ "resumed": 0 }));
        } else {
            output::line("Nothing is unfinished.");
        }
        return Ok(Exit::Done);
    }
    let opened = StoreChoice::Opened(std::sync::Arc::clone(&store));
    let runtime = start::runtime(app, opened, &args.store.data, &args.model).await?;
    let spinner = Spinner::new("finishing what was left");
    let finished = async {
        loop {
            let left = runtime.engine().unrunnable();
            let mut open = unfinished(&*store, &filter).await?;
            open.retain(|task| !left.contains_key(&task.definition));
            if open.is_empty() {
                return Ok::<_, EngineError>(());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    let interrupted = tokio::select! {
        done = spinner.wait(runtime.while_working(finished)) => { done?; false }
        () = stop.asked() => true,
    };
    drop(spinner);
    for (definition, why) in runtime.engine().unrunnable() {
        let definition = definition.get(..12).unwrap_or(&definition);
        output::note(format!(
            "tasks that were begun with {definition} of the app are left as they are: {why}"
        ));
    }
    match stop.unless_again(runtime.shutdown()).await {
        Some(stopped) => stopped?,
        None => return Ok(Exit::Interrupted),
    }
    if interrupted {
        return Ok(Exit::Interrupted);
    }
    let mut exit = Exit::Done;
    for task in found {
        let Some((record, newest)) = store.newest(&Viewer::System, task.id).await? else {
            continue;
        };
        let questions = questions(&newest.state.value());
        let waits_until = record
            .ready_at
            .filter(|ready| record.worker.is_none() && *ready > SystemClock.now())
            .filter(|_| !record.status.is_final() && !record.status.awaits_person());
        if json {
            output::json_line(&json!({
                "task": record.id, "state": record.status, "result": record.result, "error": record.error,
                "questions": questions, "waits_until": waits_until,
            }));
        } else {
            let line = Text::from(format!("{}  {}  ", record.id, record.status));
            let canceled = match record.status {
                TaskState::Canceled => Some(runtime.words_of_end(record.status)),
                _ => None,
            };
            let came = canceled.as_ref().or(record.result.as_ref());
            let came = came.or(record.error.as_ref());
            output::line(match (questions.first(), waits_until) {
                (Some(question), _) => line.revealed(&question.prompt),
                (None, Some(until)) => line.plain(format!("waits until {until}")),
                (None, None) => line.plain(came.map_or("", String::as_str)),
            });
        }
        match record.status {
            TaskState::Completed => {}
            status if status.awaits_person() => exit = Exit::Waiting,
            // A later process continues it when its timer is due.
            _ if waits_until.is_some() => exit = exit.or_worse(Exit::Waiting),
            _ => exit = Exit::NotDone,
        }
    }
    Ok(exit)
}

/// All tasks that are ready now. A task that waits for a person is ready after an answer, one that waits for a timer
/// when the timer is due.
async fn unfinished(store: &dyn Store, filter: &Filter) -> Result<Vec<TaskSummary>, StoreError> {
    let now = SystemClock.now();
    let mut tasks = Vec::new();
    let mut page = Page {
        after: None,
        limit: 500,
    };
    loop {
        let found = store.query(&Viewer::System, filter.clone(), page).await?;
        tasks.extend(found.tasks.into_iter().filter(|task| {
            task.worker.is_some() || task.ready_at.is_some_and(|ready| ready <= now)
        }));
        match found.next {
            Some(next) => page.after = Some(next),
            None => return Ok(tasks),
        }
    }
}
