//! `convoke tasks`: inspects and manages the tasks in the store.

mod answer;
mod archive;
mod archive_checkpoint;
mod diff;
mod export;
mod export_folder;
mod follow;
mod fork;
#[cfg(any(test, fuzzing))]
#[cfg_attr(
    test,
    expect(unreachable_pub, reason = "reached from a fuzz target alone")
)]
pub mod fuzzing;
mod history;
mod import;
mod import_definition;
mod import_folder;
mod import_limits;
mod import_source;
mod list;
mod prune;
mod record;
mod replay;
mod show;
mod trace;
mod trust;

use std::sync::Arc;

use convoke_model::TaskState;
use convoke_store::{Filter, Page, Store, Viewer};
use uuid::Uuid;

pub(crate) use fork::fields;
pub(crate) use import_limits::ImportLimits;
pub(crate) use show::questions;
pub(crate) use trace::trace;

use crate::cli::{StoreArgs, TasksCommand};
use crate::exit::{Exit, UsageError};
use crate::start;

pub(crate) async fn run(command: &TasksCommand, json: bool) -> anyhow::Result<Exit> {
    match command {
        TasksCommand::List {
            state,
            user,
            conversation,
            limit,
            store,
        } => {
            let store = start::open_store_to_read(store)?;
            let filter = list::filter(state, user.as_deref(), conversation.as_deref())?;
            list::list(&*store, filter, *limit, json).await?;
        }
        TasksCommand::Show { id, at, store } => {
            let (store, task) = open_to_read(store, id).await?;
            match at {
                Some(seq) => show::show_at(&*store, task, *seq, json).await?,
                None => show::show(&*store, task, json).await?,
            }
        }
        TasksCommand::History { id, store: args } => {
            let (store, task) = open_to_read(args, id).await?;
            history::history(&*store, task, args, json).await?;
        }
        TasksCommand::Replay {
            id,
            app,
            store: args,
        } => {
            let (store, task) = open_to_read(args, id).await?;
            return replay::replay(&*store, task, app.as_deref(), args, json).await;
        }
        TasksCommand::Record { id, store } => {
            let (store, task) = open_to_read(store, id).await?;
            record::record(&*store, task, json).await?;
        }
        TasksCommand::Trace { id, store: args } => {
            let (store, task) = open_to_read(args, id).await?;
            trace(&*store, task, args, json).await?;
        }
        TasksCommand::Follow {
            id,
            after,
            store: args,
        } => {
            let (store, task) = open_to_read(args, id).await?;
            return follow::follow(store, task, after.as_deref(), json).await;
        }
        TasksCommand::Answer(args) => {
            let store = start::open_existing_store(&args.store)?;
            let task = match args.id.as_str() {
                "last" => last_asking(&*store).await?,
                id => find(&*store, id).await?,
            };
            return answer::answer(store, task, args, json).await;
        }
        TasksCommand::Fork {
            id,
            at,
            set,
            app,
            store: args,
        } => {
            let (store, task) = open(args, id).await?;
            let app = app.as_deref();
            let fork = fork::Fork { at: *at, set, app };
            return fork::fork(store, task, &fork, args, json).await;
        }
        TasksCommand::Diff { one, other, store } => {
            let store = start::open_store_to_read(store)?;
            return diff::diff(&*store, one, other, json).await;
        }
        TasksCommand::Export { dir, task, store } => {
            return export::export(dir, task, store, json).await;
        }
        TasksCommand::Import(args) => return import::import(args, json).await,
        TasksCommand::Trust { hash, yes, store } => {
            return trust::trust(hash, *yes, store, json).await;
        }
        TasksCommand::Prune {
            app,
            dry_run,
            store,
        } => prune::prune(app, *dry_run, store, json).await?,
        TasksCommand::Cancel { id, reason, store } => {
            let (store, task) = open(store, id).await?;
            return answer::cancel(&*store, task, reason.as_deref(), json).await;
        }
    }
    Ok(Exit::Done)
}

/// Opens a store for reading, and finds a task.
async fn open_to_read(args: &StoreArgs, id: &str) -> anyhow::Result<(Arc<dyn Store>, Uuid)> {
    let store = start::open_store_to_read(args)?;
    let task = find(&*store, id).await?;
    Ok((store, task))
}

/// Opens a store for writing, and finds a task.
async fn open(args: &StoreArgs, id: &str) -> anyhow::Result<(Arc<dyn Store>, Uuid)> {
    let store = start::open_existing_store(args)?;
    let task = find(&*store, id).await?;
    Ok((store, task))
}

/// Limit of tasks searched for an id prefix.
const LOOK_BACK: usize = 10_000;

/// The shortest accepted id prefix.
const MIN_PREFIX: usize = 4;

/// The task for an id, an id prefix, or `last`.
async fn find(store: &dyn Store, text: &str) -> anyhow::Result<Uuid> {
    if let Ok(id) = Uuid::parse_str(text) {
        return Ok(id);
    }
    if text == "last" {
        return last(store).await;
    }
    let page = Page {
        after: None,
        limit: LOOK_BACK,
    };
    let page = store
        .query(&Viewer::System, Filter::default(), page)
        .await?;
    let ids: Vec<Uuid> = page.tasks.iter().map(|task| task.id).collect();
    let wanted = text.to_lowercase();
    let fitting: Vec<Uuid> = ids
        .into_iter()
        .filter(|id| id.to_string().starts_with(&wanted))
        .collect();
    match fitting.as_slice() {
        [only] if wanted.len() >= MIN_PREFIX => Ok(*only),
        [] => Err(UsageError::new("task.not_found", format!("there is no task `{text}`")).into()),
        _ => Err(UsageError::new(
            "task.ambiguous",
            format!("`{text}` is too short to name one task; write more of its id"),
        )
        .into()),
    }
}

/// The newest task that waits for an answer.
async fn last_asking(store: &dyn Store) -> anyhow::Result<Uuid> {
    let asking = Filter {
        states: vec![TaskState::InputRequired, TaskState::AuthRequired],
        ..Filter::default()
    };
    let page = Page {
        after: None,
        limit: 1,
    };
    let found = store.query(&Viewer::System, asking, page).await?;
    match found.tasks.first() {
        Some(task) => Ok(task.id),
        None => Err(UsageError::new("question.none", "no task waits for an answer").into()),
    }
}

/// The newest task without a parent. Its children are newer, and not meant.
async fn last(store: &dyn Store) -> anyhow::Result<Uuid> {
    let mut page = Page::default();
    loop {
        let found = store
            .query(&Viewer::System, Filter::default(), page)
            .await?;
        if let Some(task) = found.tasks.iter().find(|task| task.parent.is_none()) {
            return Ok(task.id);
        }
        let Some(next) = found.next else {
            return Err(UsageError::new("task.not_found", "there are no tasks yet").into());
        };
        page.after = Some(next);
    }
}

/// An existing task.
fn not_found(task: Uuid) -> UsageError {
    UsageError::new("task.not_found", format!("there is no task {task}"))
}
