//! How a command comes to its app and its store: by the command line, over what the app says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke::{
    AgentFields, App, Diagnostics, LlmConfig, Runtime, RuntimeError, Store, StoreChoice,
};
use convoke_app::Loaded;
use convoke_model::{SkillFields, ToolMode};

use crate::cli::{ModelArgs, StoreArgs};
use crate::exit::{BrokenApp, UsageError};
use crate::output;

/// Runs a loaded app over a store.
pub(crate) async fn runtime(app: Arc<App>, store: StoreChoice) -> Result<Runtime, RuntimeError> {
    let mut builder = Runtime::builder().loaded_app(app).store(store);
    // The built-in tool servers are this very program.
    if let Ok(program) = std::env::current_exe() {
        builder = builder.convoke_program(program);
    }
    builder.build().await
}

/// How an app folder is read, given the environment.
type Read = fn(&Path, &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Diagnostics>;

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
            if let Some(text) = &model.model {
                give_model(&mut app, &read_model(text, &environment)?, model.tool_mode)?;
            }
            if let Some(seconds) = model.patience {
                be_patient(&mut app, seconds)?;
            }
            Ok(Arc::new(app))
        }
        Err(diagnostics) => {
            crate::commands::check::show(folder, &diagnostics, json);
            Err(BrokenApp.into())
        }
    }
}

/// Reads `URL#MODEL`.
fn read_model(
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

/// Opens a store that must be there already, for looking at it.
pub(crate) fn open_existing_store(args: &StoreArgs) -> anyhow::Result<Arc<dyn Store>> {
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
        _ => Ok(choice.open()?),
    }
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
