//! How a command comes to its app and its store: by the command line, over what the app says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke::{
    AgentFields, App, Definition, Diagnostics, EditionError, LlmConfig, Runtime, RuntimeBuilder,
    RuntimeError, Store, StoreChoice,
};
use convoke::{Assistant, Engine};
use convoke_app::LoadedApp;
use convoke_model::{SkillFields, ToolMode};
use convoke_store::TaskRecord;

use crate::cli::{ModelArgs, StoreArgs};
use crate::exit::{BrokenApp, UsageError};
use crate::{log, output};

/// Runs a loaded app over a store, for as long as it takes to do a few things.
pub(crate) async fn runtime(
    app: Arc<App>,
    store: StoreChoice,
    data: &Path,
    model: &ModelArgs,
) -> Result<Runtime, RuntimeError> {
    let builder = builder(app, store, data, model);
    builder.train_at_start(false).build().await
}

/// The same, until it is told to stop.
pub(crate) async fn lasting_runtime(
    app: Arc<App>,
    store: StoreChoice,
    data: &Path,
    model: &ModelArgs,
) -> Result<Runtime, RuntimeError> {
    builder(app, store, data, model).build().await
}

fn builder(app: Arc<App>, store: StoreChoice, data: &Path, model: &ModelArgs) -> RuntimeBuilder {
    let (folder, data, model) = (app.folder.clone(), data.to_owned(), model.clone());
    let mut builder = Runtime::builder()
        .loaded_app(app)
        .store(store)
        .read_kept(move |definition| read_kept(definition, &folder, &data, &model));
    // The built-in tool servers are this very program.
    if let Ok(program) = std::env::current_exe() {
        builder = builder.convoke_program(program);
    }
    builder
}

/// How an app folder is read, given the environment.
type Read = fn(&Path, &dyn Fn(&str) -> Option<String>) -> Result<LoadedApp, Diagnostics>;

/// Loads an app to run it, or shows everything that is wrong with it.
pub(crate) fn load_app(
    folder: &Path,
    data: &Path,
    model: &ModelArgs,
    json: bool,
) -> anyhow::Result<Arc<App>> {
    load(App::load_to_run, folder, data, model, json)
}

/// Loads an app as its files have it, or shows everything that is wrong with it.
pub(crate) fn load_app_as_written(
    folder: &Path,
    data: &Path,
    json: bool,
) -> anyhow::Result<Arc<App>> {
    load(App::load_to_run, folder, data, &ModelArgs::default(), json)
}

/// Loads an app with its evals, or shows everything that is wrong with it.
pub(crate) fn load_app_to_eval(
    folder: &Path,
    data: &Path,
    model: &ModelArgs,
    json: bool,
) -> anyhow::Result<Arc<App>> {
    load(App::load, folder, data, model, json)
}

/// Loads an app as it was when a task was begun.
pub(crate) fn read_kept(
    definition: &Definition,
    folder: &Path,
    data: &Path,
    model: &ModelArgs,
) -> Result<App, EditionError> {
    let environment = environment(data);
    let (files, hash) = (&definition.files, &definition.hash);
    let app = App::load_kept(files, hash, folder, &environment, &BTreeSet::new());
    let mut app = app.map_err(|problems| convoke::edition_error(&problems))?;
    adjust(&mut app, model, &environment)
        .map_err(|error| EditionError::Unavailable(error.to_string()))?;
    Ok(app)
}

/// What the command line says over what the app's files say.
fn adjust(
    app: &mut App,
    model: &ModelArgs,
    environment: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<()> {
    if let Some(text) = &model.model {
        give_model(app, &read_model(text, environment)?, model.tool_mode)?;
    }
    if let Some(seconds) = model.patience {
        be_patient(app, seconds)?;
    }
    Ok(())
}

fn load(
    read: Read,
    folder: &Path,
    data: &Path,
    model: &ModelArgs,
    json: bool,
) -> anyhow::Result<Arc<App>> {
    let environment = environment(data);
    match read(folder, &environment) {
        Ok(loaded) => {
            let mut app = loaded.app;
            adjust(&mut app, model, &environment)?;
            log::follow(&app);
            Ok(Arc::new(app))
        }
        Err(diagnostics) => {
            crate::commands::check::show(folder, &diagnostics, json);
            Err(BrokenApp.into())
        }
    }
}

/// Reads `URL#MODEL`.
pub(crate) fn read_model(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<LlmConfig, UsageError> {
    let malformed = || {
        UsageError::new(
            "model.malformed",
            format!("`{text}` names no model; write http://host/v1#model"),
        )
    };
    let (endpoint, model) = text.rsplit_once('#').ok_or_else(malformed)?;
    if !endpoint.starts_with("http") || model.trim().is_empty() {
        return Err(malformed());
    }
    let config = serde_json::json!({
        "endpoint": endpoint, "model": model, "api_key": environment("CONVOKE_API_KEY"),
    });
    serde_json::from_value(config)
        .map_err(|error| UsageError::new("model.malformed", error.to_string()))
}

/// Gives a model to every agent that names none itself.
fn give_model(app: &mut App, model: &LlmConfig, mode: Option<ToolMode>) -> anyhow::Result<()> {
    change_agents(app, |agent| {
        if agent.llm_config.is_none() {
            agent.llm_config = Some(model.clone());
            agent.tool_mode = mode.unwrap_or(agent.tool_mode);
        }
    })
}

/// Gives agents and tasks at least so much time.
fn be_patient(app: &mut App, seconds: u32) -> anyhow::Result<()> {
    let limits = &mut app.config.limits;
    limits.task_seconds = limits.task_seconds.max(seconds);
    limits.agent_seconds = limits.agent_seconds.max(seconds);
    change_agents(app, |agent| {
        if let Some(limit) = &mut agent.limits.timeout_ms {
            *limit = (*limit).max(u64::from(seconds) * 1_000);
        }
    })
}

/// Leaves every decision to the agents' models.
pub(crate) fn put_skills_away(app: &Arc<App>) -> anyhow::Result<Arc<App>> {
    let mut app = App::clone(app);
    change_agents(&mut app, |agent| {
        let skills = std::mem::take(&mut agent.skills);
        agent.system_prompt.push_str(&in_words(&skills));
    })?;
    if app.agents.iter().all(|agent| agent.llm_config.is_none()) {
        let message = "no agent has a model; give one with --model URL#MODEL";
        return Err(UsageError::new("eval.no_model", message).into());
    }
    Ok(Arc::new(app))
}

/// What skills are for, as an instruction: the tool of each, and a few things that people say.
fn in_words(skills: &[SkillFields]) -> String {
    const EXAMPLES: usize = 3;
    let lines = skills.iter().filter_map(|skill| {
        let tool = &skill.action.as_ref()?.tool;
        let examples: Vec<_> = skill.examples.iter().take(EXAMPLES).collect();
        Some(format!("- {tool}: {}. {examples:?}\n", skill.description))
    });
    let lines: String = lines.collect();
    format!("\nWhich tool does what, and what people say when they want it:\n{lines}")
}

fn change_agents(app: &mut App, change: impl Fn(&mut AgentFields)) -> anyhow::Result<()> {
    for agent in &mut app.agents {
        *agent = agent.clone().with(&change)?;
    }
    Ok(())
}

/// The environment as an app sees it: the process's own, and where its data goes.
pub(crate) fn environment(data: &Path) -> impl Fn(&str) -> Option<String> {
    let data = absolute(data).to_string_lossy().into_owned();
    move |name| {
        if name == "CONVOKE_DATA" {
            return Some(data.clone());
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "this is where an app's environment is read"
        )]
        std::env::var(name).ok()
    }
}

/// The store that the command line, else the app, else the data folder names.
pub(crate) fn store_for(args: &StoreArgs, app: &App) -> Result<StoreChoice, RuntimeError> {
    match (&args.store, &app.config.store) {
        (Some(url), _) => StoreChoice::of_url(url, &absolute(Path::new(""))),
        (None, Some(store)) => StoreChoice::of_url(&store.url, &absolute(&app.folder)),
        (None, None) => Ok(StoreChoice::Sqlite(default_file(args))),
    }
}

/// Opens a store that must be there already.
pub(crate) fn open_existing_store(args: &StoreArgs) -> anyhow::Result<Arc<dyn Store>> {
    Ok(existing_store(args)?.open()?)
}

/// Opens a store that must be there already, for looking at it: also where nobody may write to it.
pub(crate) fn open_store_to_read(args: &StoreArgs) -> anyhow::Result<Arc<dyn Store>> {
    Ok(existing_store(args)?.open_to_read()?)
}

fn existing_store(args: &StoreArgs) -> anyhow::Result<StoreChoice> {
    let choice = match &args.store {
        Some(url) => StoreChoice::of_url(url, &absolute(Path::new("")))?,
        None => StoreChoice::Sqlite(default_file(args)),
    };
    match &choice {
        StoreChoice::Sqlite(path) if !path.exists() => Err(UsageError::new(
            "store.not_found",
            format!(
                "there is no store at {}; run an app first, or name one with --store or --data",
                path.display()
            ),
        )
        .into()),
        StoreChoice::Memory => Err(UsageError::new(
            "store.memory",
            "a store in memory holds nothing once its process is gone; name a file",
        )
        .into()),
        _ => Ok(choice),
    }
}

/// The app that a task was begun with, as the store kept it; or the one in a folder, where one is named.
pub(crate) async fn app_of(
    store: &dyn Store,
    record: &TaskRecord,
    folder: Option<&Path>,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Arc<App>> {
    if let Some(folder) = folder {
        let app = load_app_as_written(folder, &args.data, json)?;
        if app.config.name.as_str() != record.app {
            let message = format!("the task is one of the app `{}`", record.app);
            return Err(UsageError::new("task.other_app", message).into());
        }
        return Ok(app);
    }
    let (app, _) = kept_app(store, record, args).await?;
    Ok(app)
}

/// The app that a task was begun with, as the store kept it. Nothing of it is started.
async fn kept_app(
    store: &dyn Store,
    record: &TaskRecord,
    args: &StoreArgs,
) -> anyhow::Result<(Arc<App>, Definition)> {
    let unreadable = |why: String| {
        let message = format!("the app as it was when the task was begun cannot be read: {why}");
        UsageError::new("task.definition", message)
    };
    let kept = store.definition(&record.definition).await?;
    let kept = kept.ok_or_else(|| unreadable("it is not in the store".into()))?;
    let folder = Path::new("");
    let app = read_kept(&kept, folder, &args.data, &ModelArgs::default())
        .map_err(|error| unreadable(error.to_string()))?;
    Ok((Arc::new(app), kept))
}

/// An engine for the app that a task was begun with, or the one in a folder. Nobody works for it.
pub(crate) async fn engine_of(
    store: Arc<dyn Store>,
    record: &TaskRecord,
    folder: Option<&Path>,
    args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Engine<Assistant>> {
    if folder.is_some() {
        let app = app_of(&*store, record, folder, args, json).await?;
        return Ok(convoke::engine(&app, store)?);
    }
    let (app, kept) = kept_app(&*store, record, args).await?;
    Ok(convoke::engine_of_kept(&app, kept, store)?)
}

fn default_file(args: &StoreArgs) -> PathBuf {
    absolute(&args.data).join("store.db")
}

/// Tool servers run in folders of their own, so every path handed to them is absolute.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    std::path::absolute(path).unwrap_or_else(|error| {
        output::note(format!("{} stays relative: {error}", path.display()));
        path.to_owned()
    })
}
