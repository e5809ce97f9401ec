//! Puts an app together: as it is, and as it was when older tasks were begun.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_app::App;
use convoke_engine::{Edition, EditionError, Editions, Engine, Options, Worker};
use convoke_flow::toolbox::{Approvals, RustTool, Toolbox};
use convoke_flow::{Assistant, Classifiers, Performer, PerformerOptions};
use convoke_llm::ModelClient;
use convoke_mcp::ToolServers;
use convoke_model::{AgentFields, Clock, Ids, Invalid, LlmConfig};
use convoke_store::{Definition, Store};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::error::RuntimeError;
use crate::loader::{AppLoader, kept_definition};
use crate::wire::{clock, ids, tool_limits, tool_servers};

/// What works on an app's tasks.
pub(crate) type AppWorker = Worker<Assistant, Performer>;

/// What all editions of an app are put together from.
pub(crate) struct EditionParts {
    /// The app that new tasks are begun with.
    pub(crate) app: Arc<App>,
    /// What reads the app as it was.
    pub(crate) loader: AppLoader,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) models: ModelClient,
    /// Tools of the program that runs the app.
    pub(crate) tools: Vec<RustTool>,
    /// What `convoke` means as a tool server's command; without one it is looked for like any other.
    pub(crate) program: Option<PathBuf>,
    pub(crate) concurrent_tasks: Option<u32>,
    /// Whether the classifier is trained before a request needs it.
    pub(crate) train_at_start: bool,
}

/// Puts together the app as it is, and as it was when older tasks were begun.
#[derive(Clone)]
pub(crate) struct AppEditions(Arc<Shared>);

struct Shared {
    parts: EditionParts,
    approvals: Approvals,
    /// The tool servers of every edition that was put together.
    servers: Mutex<Vec<ToolServers>>,
    /// What editions with the same skills and domains share.
    classifiers: Classifiers,
}

impl AppEditions {
    pub(crate) fn new(parts: EditionParts) -> Self {
        Self(Arc::new(Shared {
            approvals: parts.tools.iter().collect(),
            parts,
            servers: Mutex::default(),
            classifiers: Classifiers::default(),
        }))
    }

    /// The engine that accepts tasks for the app, and the worker that carries them out.
    pub(crate) fn assemble(&self) -> Result<(Engine<Assistant>, AppWorker), RuntimeError> {
        let parts = &self.0.parts;
        let app = &parts.app;
        let edition = self.edition(app)?;
        if parts.train_at_start {
            edition.program.train_in_background();
        }
        let engine = engine_over(
            edition.program,
            app,
            definition(app),
            Arc::clone(&parts.store),
            Arc::clone(&parts.clock),
            Arc::clone(&parts.ids),
        );
        let limits = &app.config.limits;
        let options = Options {
            concurrent_tasks: parts.concurrent_tasks.unwrap_or(limits.concurrent_tasks) as usize,
            lease: Duration::from_secs(limits.lease_seconds.into()),
            inline_bytes: limits.inline_bytes as usize,
            max_claims: limits.max_claims,
            question_time: Duration::from_secs(limits.question_seconds.into()),
            ..Options::for_worker(parts.ids.next().to_string())
        };
        let worker = Worker::new(engine.clone(), edition.executor, options);
        Ok((engine, worker.with_editions(Arc::new(self.clone()))))
    }

    /// An app with what carries out its calls. Its tool servers are started once they are used.
    fn edition(&self, app: &Arc<App>) -> Result<Edition<Assistant, Performer>, RuntimeError> {
        let parts = &self.0.parts;
        let servers = tool_servers(app, parts.program.clone());
        let mut toolbox = Toolbox::within(
            Arc::new(servers.clone()),
            Arc::clone(&parts.clock),
            tool_limits(app),
        )?;
        for tool in &parts.tools {
            toolbox.add(tool.clone())?;
        }
        check_tools(app, &toolbox)?;
        self.lock_servers().push(servers);
        let assistant = self.assistant(app)?;
        let performer = Performer::new(
            Arc::clone(&assistant),
            Arc::new(toolbox),
            parts.models.clone(),
            Arc::clone(&parts.store),
            Arc::clone(&parts.clock),
            PerformerOptions::default(),
        );
        Ok(Edition {
            program: assistant,
            executor: Arc::new(performer),
            task_time: task_time(app),
        })
    }

    fn assistant(&self, app: &Arc<App>) -> Result<Arc<Assistant>, RuntimeError> {
        let assistant = Assistant::sharing(Arc::clone(app), &self.0.classifiers)?;
        Ok(Arc::new(assistant.with_approvals(self.0.approvals.clone())))
    }

    /// The engine for the edition that a task was begun with. Where that is not the `current` one, it has no
    /// worker of its own.
    pub(crate) async fn engine_of(
        &self,
        current: &Engine<Assistant>,
        definition: &str,
    ) -> Result<Engine<Assistant>, RuntimeError> {
        if current.definition() == definition {
            return Ok(current.clone());
        }
        let parts = &self.0.parts;
        let kept = kept_definition(&*parts.store, definition).await?;
        let app = self.read(&kept)?;
        let (clock, ids) = (Arc::clone(&parts.clock), Arc::clone(&parts.ids));
        let store = Arc::clone(&parts.store);
        let assistant = self.assistant(&app)?;
        Ok(engine_over(assistant, &app, kept, store, clock, ids))
    }

    /// Reads the app as it was when older tasks were begun. Keys that the program set, which are not kept, are taken
    /// from the same models of the app as it is.
    fn read(&self, kept: &Definition) -> Result<Arc<App>, EditionError> {
        if !kept.trusted {
            return Err(EditionError::Unavailable(untrusted(&kept.hash)));
        }
        let EditionParts {
            app: now, loader, ..
        } = &self.0.parts;
        let mut app = loader.load_kept(kept, &now.folder)?;
        for agent in &mut app.agents {
            if let Some(same) = now.agent(agent.name.as_str()) {
                let changed = agent.clone().with(|agent| give_keys(agent, same));
                *agent = changed.map_err(|invalid| EditionError::Invalid(invalid.to_string()))?;
            }
        }
        Ok(Arc::new(app))
    }

    /// Ends the tool servers of all editions.
    pub(crate) async fn shutdown(&self) {
        let servers = std::mem::take(&mut *self.lock_servers());
        for servers in servers {
            servers.shutdown().await;
        }
    }

    fn lock_servers(&self) -> std::sync::MutexGuard<'_, Vec<ToolServers>> {
        let servers = self.0.servers.lock();
        servers.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Editions<Assistant, Performer> for AppEditions {
    fn open(
        &self,
        definition: Definition,
    ) -> BoxFuture<'static, Result<Edition<Assistant, Performer>, EditionError>> {
        let editions = self.clone();
        async move {
            let app = editions.read(&definition)?;
            editions.edition(&app).map_err(|error| match error {
                // Another program may bring the tool.
                RuntimeError::UnknownTool { .. } => EditionError::Unavailable(error.to_string()),
                error => EditionError::Invalid(error.to_string()),
            })
        }
        .boxed()
    }
}

/// Gives an agent's models the keys of the same models of another.
fn give_keys(agent: &mut AgentFields, same: &AgentFields) {
    let known: Vec<&LlmConfig> = same.models().collect();
    for model in agent
        .llm_config
        .iter_mut()
        .chain(&mut agent.fallback_models)
    {
        let found = known
            .iter()
            .find(|known| known.endpoint == model.endpoint && known.model == model.model);
        if let (None, Some(found)) = (&model.api_key, found) {
            model.api_key.clone_from(&found.api_key);
        }
    }
}

/// Why what somebody else wrote is not run, and what its user can do.
fn untrusted(hash: &str) -> String {
    format!(
        "it came with tasks from another store and is not trusted yet; `convoke tasks trust {hash}` \
         shows what it would run, and lets it"
    )
}

/// An engine for an app that accepts tasks and what is said to them, and leaves the work to others.
pub fn engine(app: &Arc<App>, store: Arc<dyn Store>) -> Result<Engine<Assistant>, RuntimeError> {
    engine_of_kept(app, definition(app), store)
}

/// The same for an app that was read from this definition. Its tasks are trusted as far as the definition
/// is.
pub fn engine_of_kept(
    app: &Arc<App>,
    definition: Definition,
    store: Arc<dyn Store>,
) -> Result<Engine<Assistant>, RuntimeError> {
    let assistant = Arc::new(Assistant::new(Arc::clone(app))?);
    Ok(engine_over(
        assistant,
        app,
        definition,
        store,
        clock(),
        ids(),
    ))
}

fn engine_over(
    assistant: Arc<Assistant>,
    app: &App,
    definition: Definition,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> Engine<Assistant> {
    let name = app.config.name.as_str();
    let definition = Arc::new(definition);
    Engine::new(
        assistant,
        store,
        clock,
        ids,
        name,
        definition,
        task_time(app),
    )
}

/// What is kept of an app with its tasks. Whoever runs an app trusts it.
fn definition(app: &App) -> Definition {
    Definition {
        hash: app.hash.clone(),
        files: (*app.files).clone(),
        trusted: true,
    }
}

fn task_time(app: &App) -> Duration {
    Duration::from_secs(app.config.limits.task_seconds.into())
}

/// Every tool that an agent lists must be able to exist. What a server has is known once it runs.
fn check_tools(app: &App, toolbox: &Toolbox) -> Result<(), RuntimeError> {
    if let Some(both) = toolbox.servers().find(|own| app.server(own).is_some()) {
        let message = format!("the app has a tool server `{both}` too; name one of them otherwise");
        return Err(Invalid::one("app.server_reserved", message).into());
    }
    for agent in &app.agents {
        if let Some(tool) = agent
            .tools
            .iter()
            .find(|tool| !may_exist(tool, app, toolbox))
        {
            let known: Vec<String> = toolbox.names().collect();
            return Err(RuntimeError::UnknownTool {
                agent: agent.name.to_string(),
                tool: tool.clone(),
                known: known.join(", "),
            });
        }
    }
    Ok(())
}

fn may_exist(tool: &str, app: &App, toolbox: &Toolbox) -> bool {
    let Some((server, name)) = tool.split_once('.') else {
        return !app.servers.is_empty()
            || toolbox
                .names()
                .any(|own| own.ends_with(&format!(".{tool}")));
    };
    let server = server.replace('-', "_");
    if toolbox.servers().any(|own| own == server) {
        let wanted = format!("{server}.{name}");
        return toolbox.names().any(|own| own == wanted);
    }
    app.server(&server).is_some()
}

#[cfg(test)]
mod tests {
    use convoke_model::SkillFields;
    use serde_json::json;

    use super::*;
    use crate::wire::StoreChoice;

    /// An app that understands requests to buy something, and answers in these words.
    fn app(reply: &str, example: &str) -> Arc<App> {
        let skill: SkillFields = serde_json::from_value(json!({
            "name": "buy", "description": "buys", "examples": [example, "get me some bread"],
            "action": { "tool": "builtin.current_time", "reply": reply },
        }))
        .unwrap();
        let agent: AgentFields = serde_json::from_value(json!({
            "name": "clerk", "role": "Buys.", "system_prompt": "Buy.",
            "tools": ["builtin.current_time"], "skills": [skill],
        }))
        .unwrap();
        let agent = convoke_model::Agent::new(agent).unwrap();
        Arc::new(App::of_agents("shop", [agent].into()).unwrap())
    }

    fn editions(app: Arc<App>, train_at_start: bool) -> AppEditions {
        AppEditions::new(EditionParts {
            app,
            loader: AppLoader::new(),
            store: StoreChoice::Memory.open().unwrap(),
            clock: clock(),
            ids: ids(),
            models: ModelClient::new(convoke_llm::Options::default()),
            tools: Vec::new(),
            program: None,
            concurrent_tasks: None,
            train_at_start,
        })
    }

    #[test]
    fn editions_with_the_same_skills_share_what_was_trained_at_the_start() {
        let editions = editions(app("Bought.", "buy some milk"), true);
        let (_engine, _worker) = editions.assemble().unwrap();
        let program = |app: &Arc<App>| editions.edition(app).unwrap().program;
        // What is said to it does not change what is understood.
        let reworded = program(&app("It is bought.", "buy some milk"));
        while !reworded.is_trained() {
            std::thread::yield_now();
        }
        assert!(!program(&app("Bought.", "buy some tea")).is_trained());
    }

    #[test]
    fn nothing_is_trained_where_one_request_may_not_need_it() {
        let app = app("Bought.", "buy some milk");
        let editions = editions(Arc::clone(&app), false);
        let (_engine, _worker) = editions.assemble().unwrap();
        assert!(!editions.edition(&app).unwrap().program.is_trained());
    }
}
