//! Opens the app and the store of a command. The command line overrides the app's settings.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use convoke::{
    AgentFields, App, AppLoader, Assistant, Definition, Engine, Invalid, LlmConfig, Registry,
    Runtime, RuntimeBuilder, RuntimeError, StartFailure, Store, StoreChoice, ToolServers,
};
use convoke_app::Diagnostic;
use convoke_model::{SkillFields, ToolMode};
use convoke_server::ServerConfig;
use convoke_store::TaskRecord;

use crate::cli::{ModelArgs, ServeArgs, StoreArgs};
use crate::exit::{BrokenApp, BrokenSettings, UsageError};
use crate::log;
use crate::output::{self, Text};

/// Runs a loaded app over a store, while `work` runs.
pub(crate) async fn runtime(
    app: Arc<App>,
    store: StoreChoice,
    data: &Path,
    model: &ModelArgs,
) -> anyhow::Result<Runtime> {
    let builder = builder(app, store, data, model)?;
    Ok(builder.train_at_start(false).build().await?)
}

/// Runs a loaded app over a store until stopped.
pub(crate) async fn lasting_runtime(
    app: Arc<App>,
    store: StoreChoice,
    data: &Path,
    model: &ModelArgs,
) -> anyhow::Result<Runtime> {
    Ok(builder(app, store, data, model)?.build().await?)
}

/// Runs several apps over one store until stopped.
pub(crate) async fn registry(args: &ServeArgs, json: bool) -> anyhow::Result<Registry> {
    let mut builder = app_builder(&args.store.data, &args.model)?;
    for folder in &args.apps {
        builder = builder.loaded_app(load_app(folder, &args.store.data, &args.model, json)?);
    }
    if let Some(url) = &args.store.store {
        builder = builder.store(StoreChoice::of_url(url, Path::new(""))?);
    }
    if let Some(number) = args.concurrent_tasks {
        builder = builder.concurrent_tasks(number);
    }
    Ok(builder.build_registry().await?)
}

/// The settings of the HTTP service, or all their problems.
pub(crate) fn server_settings(
    file: &Path,
    loader: &AppLoader,
    json: bool,
) -> anyhow::Result<ServerConfig> {
    match loader.settings(file) {
        Ok(settings) => Ok(settings),
        Err(RuntimeError::App(diagnostics)) => {
            crate::commands::check::show(file, &diagnostics, json);
            Err(BrokenSettings.into())
        }
        Err(error) => Err(error.into()),
    }
}

fn builder(
    app: Arc<App>,
    store: StoreChoice,
    data: &Path,
    model: &ModelArgs,
) -> Result<RuntimeBuilder, UsageError> {
    let builder = app_builder(data, model)?;
    Ok(builder.loaded_app(app).store(store))
}

fn app_builder(data: &Path, model: &ModelArgs) -> Result<RuntimeBuilder, UsageError> {
    let mut builder = Runtime::builder().loader(adjusting_loader(data, model)?);
    // The built-in tool servers are this program.
    if let Ok(program) = std::env::current_exe() {
        builder = builder.convoke_program(program);
    }
    Ok(builder.on_failed_start(server_failures()))
}

/// Tells of each tool server that could not be started, once for each reason.
fn server_failures() -> impl Fn(&App, &StartFailure) + Send + Sync {
    let told = Mutex::new(HashSet::new());
    move |app, failure| {
        let problem = unreachable_server(app, failure);
        let line = problem.to_string();
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert((app.config.name.clone(), line)) {
            output::note(Text::new().revealed(problem.pretty().trim_end()));
        }
    }
}

/// The problem of a tool server that could not be started.
fn unreachable_server(app: &App, failure: &StartFailure) -> Diagnostic {
    let StartFailure {
        server,
        reason,
        error_output,
    } = failure;
    let message = format!("the tool server `{server}` could not be started: {reason}");
    app.server_unreachable(server, message, error_output)
}

/// A loader for apps as written in their files.
pub(crate) fn loader(data: &Path) -> AppLoader {
    AppLoader::new().data(data).env_files(true)
}

/// A loader that applies the command line's overrides.
pub(crate) fn adjusting_loader(data: &Path, args: &ModelArgs) -> Result<AppLoader, UsageError> {
    let loader = loader(data);
    let model = args
        .model
        .as_deref()
        .map(|text| read_model(text, &|name| loader.variable(name)))
        .transpose()?;
    let (mode, patience) = (args.tool_mode, args.patience);
    Ok(loader.adjust(move |app| {
        if let Some(model) = &model {
            give_model(app, model, mode)?;
        }
        patience.map_or(Ok(()), |seconds| be_patient(app, seconds))
    }))
}

/// Loads an app to run it, or prints all its problems.
pub(crate) fn load_app(
    folder: &Path,
    data: &Path,
    model: &ModelArgs,
    json: bool,
) -> anyhow::Result<Arc<App>> {
    let loader = adjusting_loader(data, model)?;
    loaded(loader.load(folder), folder, json)
}

/// Loads an app as written in its files, or prints all its problems.
pub(crate) fn load_app_as_written(
    folder: &Path,
    data: &Path,
    json: bool,
) -> anyhow::Result<Arc<App>> {
    loaded(loader(data).load(folder), folder, json)
}

/// Loads an app with its evals, or prints all its problems.
pub(crate) fn load_app_to_eval(
    folder: &Path,
    data: &Path,
    model: &ModelArgs,
    json: bool,
) -> anyhow::Result<Arc<App>> {
    let read = adjusting_loader(data, model)?.load_with_evals(folder);
    loaded(read.map(|loaded| loaded.app), folder, json)
}

fn loaded(read: Result<App, RuntimeError>, folder: &Path, json: bool) -> anyhow::Result<Arc<App>> {
    match read {
        Ok(app) => {
            log::follow(&app);
            Ok(Arc::new(app))
        }
        Err(RuntimeError::App(diagnostics)) => {
            crate::commands::check::show(folder, &diagnostics, json);
            Err(BrokenApp.into())
        }
        Err(error) => Err(error.into()),
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

/// Sets the model of every agent that names none.
fn give_model(app: &mut App, model: &LlmConfig, mode: Option<ToolMode>) -> Result<(), Invalid> {
    change_agents(app, |agent| {
        if agent.llm_config.is_none() {
            agent.llm_config = Some(model.clone());
            agent.tool_mode = mode.unwrap_or(agent.tool_mode);
        }
    })
}

/// Raises the time limits of agents and tasks to at least this.
fn be_patient(app: &mut App, seconds: u32) -> Result<(), Invalid> {
    let limits = &mut app.config.limits;
    limits.task_seconds = limits.task_seconds.max(seconds);
    limits.agent_seconds = limits.agent_seconds.max(seconds);
    change_agents(app, |agent| {
        if let Some(limit) = &mut agent.limits.timeout_ms {
            *limit = (*limit).max(u64::from(seconds) * 1_000);
        }
    })
}

/// Removes skills, so that the agents' models decide everything.
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

/// Describes skills as an instruction: the tool of each, and some examples.
fn in_words(skills: &[SkillFields]) -> String {
    const EXAMPLES: usize = 3;
    let lines = skills.iter().filter_map(|skill| {
        let tool = skill.action.as_ref()?.tool.as_ref()?;
        let examples: Vec<_> = skill.examples.iter().take(EXAMPLES).collect();
        Some(format!("- {tool}: {}. {examples:?}\n", skill.description))
    });
    let lines: String = lines.collect();
    format!("\nWhich tool does what, and what people say when they want it:\n{lines}")
}

fn change_agents(app: &mut App, change: impl Fn(&mut AgentFields)) -> Result<(), Invalid> {
    for agent in &mut app.agents {
        *agent = agent.clone().with(&change)?;
    }
    Ok(())
}

/// The store: from the command line, else the app, else the data folder.
pub(crate) fn store_for(args: &StoreArgs, app: &App) -> Result<StoreChoice, RuntimeError> {
    match &args.store {
        Some(url) => StoreChoice::of_url(url, Path::new("")),
        None => StoreChoice::of_app(app, Some(&args.data)),
    }
}

/// The store: from the command line, else the data folder. It must be persistent.
pub(crate) fn named_store(args: &StoreArgs) -> anyhow::Result<StoreChoice> {
    let choice = match &args.store {
        Some(url) => StoreChoice::of_url(url, Path::new(""))?,
        None => StoreChoice::in_folder(&args.data),
    };
    if matches!(choice, StoreChoice::Memory) {
        let message = "a store in memory holds nothing once its process is gone; name a file";
        return Err(UsageError::new("store.memory", message).into());
    }
    Ok(choice)
}

/// Opens an existing store.
pub(crate) fn open_existing_store(args: &StoreArgs) -> anyhow::Result<Arc<dyn Store>> {
    Ok(existing_store(args)?.open()?)
}

/// Opens an existing store for reading, even if it is not writable.
pub(crate) fn open_store_to_read(args: &StoreArgs) -> anyhow::Result<Arc<dyn Store>> {
    Ok(existing_store(args)?.open_to_read()?)
}

fn existing_store(args: &StoreArgs) -> anyhow::Result<StoreChoice> {
    let choice = named_store(args)?;
    match &choice {
        StoreChoice::Sqlite(path) if !path.exists() => {
            let path = path.display();
            let message = format!(
                "there is no store at {path}; run an app first, or name one with --store or --data"
            );
            Err(UsageError::new("store.not_found", message).into())
        }
        _ => Ok(choice),
    }
}

/// The app that a task started with, from the store; or the one in a folder, if given.
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
    let (app, _) = stored_app(store, record, args).await?;
    Ok(app)
}

/// The app that a task started with, from the store. Its tool servers are not started.
async fn stored_app(
    store: &dyn Store,
    record: &TaskRecord,
    args: &StoreArgs,
) -> Result<(Arc<App>, Definition), RuntimeError> {
    let definition = convoke::stored_definition(store, &record.definition).await?;
    let app = loader(&args.data).load_stored(&definition, Path::new(""))?;
    Ok((Arc::new(app), definition))
}

/// Builds an engine for answers to a task, over the edition that the task started with, and the tool servers that changes are
/// checked against. A server is started only if a change needs it; whoever calls this ends them.
pub(crate) async fn answering_engine_of(
    store: Arc<dyn Store>,
    record: &TaskRecord,
    args: &StoreArgs,
) -> anyhow::Result<(Engine<Assistant>, ToolServers)> {
    let (app, definition) = stored_app(&*store, record, args).await?;
    let servers = convoke::tool_servers(&app, std::env::current_exe().ok());
    let engine = convoke::answering_engine(&app, definition, store, servers.clone())?;
    Ok((engine, servers))
}

/// Builds an engine for the edition a task started with, or for the app in a folder. It has no worker.
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
    let (app, definition) = stored_app(&*store, record, args).await?;
    Ok(convoke::engine_of_stored(&app, definition, store)?)
}
