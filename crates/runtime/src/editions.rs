//! Assembles the editions of an app: the current one, and those of older tasks.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use convoke_app::App;
use convoke_engine::{Edition, EditionError, Editions, Engine, Options, Permits, Reloader, Worker};
use convoke_flow::ports::Tools;
use convoke_flow::toolbox::{Approvals, Toolbox};
use convoke_flow::{Assistant, Classifiers, Performer, PerformerOptions, ToolChangeCheck};
use convoke_mcp::ToolServers;
use convoke_model::{AgentFields, Clock, Ids, Invalid, LlmConfig};
use convoke_store::{Definition, Store};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::edition_tools::OpenTools;
use crate::error::RuntimeError;
use crate::loader::stored_definition;
use crate::shared_parts::SharedParts;
use crate::wire::{clock, ids, observed_tool_servers, tool_limits};

/// What works on an app's tasks.
pub(crate) type AppWorker = Worker<Assistant, Performer>;

/// What gives that worker another edition.
pub(crate) type AppReloader = Reloader<Assistant, Performer>;

/// Assembles the current edition of an app, and those of older tasks.
#[derive(Clone)]
pub(crate) struct AppEditions(Arc<Inner>);

struct Inner {
    parts: Arc<SharedParts>,
    /// The app that new tasks start with.
    app: RwLock<Arc<App>>,
    approvals: Approvals,
    tools: OpenTools,
    /// What editions with the same skills and domains share.
    classifiers: Classifiers,
}

impl AppEditions {
    pub(crate) fn new(app: Arc<App>, parts: Arc<SharedParts>) -> Self {
        Self(Arc::new(Inner {
            app: RwLock::new(app),
            approvals: parts.tools.iter().collect(),
            tools: OpenTools::new(parts.executor.clone()),
            parts,
            classifiers: Classifiers::default(),
        }))
    }

    /// The engine that accepts tasks for the app, and the worker that carries them out.
    pub(crate) fn assemble(
        &self,
        permits: Permits,
    ) -> Result<(Engine<Assistant>, AppWorker), RuntimeError> {
        let parts = &self.0.parts;
        let app = &self.app();
        let OpenEdition { edition, check } = self.begin_edition(app)?;
        let engine = engine_over(
            edition.program,
            app,
            definition(app),
            Arc::clone(&parts.store),
            Arc::clone(&parts.clock),
            Arc::clone(&parts.ids),
        )
        .with_change_check(check);
        engine.bound_backlog(app.config.limits.backlog as usize);
        let options = worker_options(app, parts.ids.next().to_string());
        let worker = Worker::sharing(permits, engine.clone(), edition.executor, options);
        Ok((engine, worker.with_editions(Arc::new(self.clone()))))
    }

    /// Makes another edition the current one. If it cannot be assembled, nothing changes.
    pub(crate) fn reload(
        &self,
        app: &Arc<App>,
        engine: &Engine<Assistant>,
        reloader: &AppReloader,
    ) -> Result<Engine<Assistant>, RuntimeError> {
        let OpenEdition { edition, check } = self.begin_edition(app)?;
        let definition = Arc::new(definition(app));
        let engine = engine.of_edition(edition.program, definition, edition.task_time);
        let engine = engine.with_change_check(check);
        engine.bound_backlog(app.config.limits.backlog as usize);
        let options = worker_options(app, String::new());
        reloader.reload(engine.clone(), edition.executor, options);
        let current = self.0.app.write();
        *current.unwrap_or_else(PoisonError::into_inner) = Arc::clone(app);
        Ok(engine)
    }

    fn app(&self) -> Arc<App> {
        let app = self.0.app.read();
        Arc::clone(&app.unwrap_or_else(PoisonError::into_inner))
    }

    /// An edition that new tasks start with.
    fn begin_edition(&self, app: &Arc<App>) -> Result<OpenEdition, RuntimeError> {
        let open = self.edition(app)?;
        if self.0.parts.train_at_start {
            open.edition.program.train_in_background();
        }
        Ok(open)
    }

    /// An app with what carries out its calls. Its tool servers are started once they are used.
    fn edition(&self, app: &Arc<App>) -> Result<OpenEdition, RuntimeError> {
        let parts = &self.0.parts;
        parts.loader.make_data_folder(app);
        let observer = parts.on_failed_start.clone();
        let servers = observed_tool_servers(app, parts.program.clone(), observer);
        let mut toolbox = Toolbox::within(
            self.0.tools.own(servers),
            Arc::clone(&parts.clock),
            tool_limits(app),
        )?;
        for tool in &parts.tools {
            toolbox.add(tool.clone())?;
        }
        check_tools(app, &toolbox)?;
        let toolbox: Arc<dyn Tools> = Arc::new(toolbox);
        let assistant = self.assistant(app)?;
        let check = change_check(&assistant, app, Arc::clone(&toolbox));
        let performer = Performer::new(
            Arc::clone(&assistant),
            toolbox,
            parts.models.clone(),
            Arc::clone(&parts.store),
            Arc::clone(&parts.clock),
            PerformerOptions::default(),
        );
        let edition = Edition {
            program: assistant,
            executor: Arc::new(performer),
            task_time: task_time(app),
        };
        Ok(OpenEdition { edition, check })
    }

    fn assistant(&self, app: &Arc<App>) -> Result<Arc<Assistant>, RuntimeError> {
        let assistant = Assistant::sharing(Arc::clone(app), &self.0.classifiers)?;
        Ok(Arc::new(assistant.with_approvals(self.0.approvals.clone())))
    }

    /// The engine for the edition that a task started with. Where that is not the `current` one, it has no worker of
    /// its own.
    pub(crate) async fn engine_of(
        &self,
        current: &Engine<Assistant>,
        definition: &str,
    ) -> Result<Engine<Assistant>, RuntimeError> {
        if current.definition() == definition {
            return Ok(current.clone());
        }
        let parts = &self.0.parts;
        let stored = stored_definition(&*parts.store, definition).await?;
        let app = self.read(&stored)?;
        let (clock, ids) = (Arc::clone(&parts.clock), Arc::clone(&parts.ids));
        let store = Arc::clone(&parts.store);
        let assistant = self.assistant(&app)?;
        Ok(engine_over(assistant, &app, stored, store, clock, ids))
    }

    /// The same engine for answers, which are checked against that edition's tools.
    pub(crate) async fn answering_engine(
        &self,
        current: &Engine<Assistant>,
        hash: &str,
    ) -> Result<Engine<Assistant>, RuntimeError> {
        if current.definition() == hash {
            return Ok(current.clone());
        }
        let stored = stored_definition(&*self.0.parts.store, hash).await?;
        let app = self.read(&stored)?;
        let OpenEdition { edition, check } = self.edition(&app)?;
        let engine = current.of_edition(edition.program, Arc::new(stored), edition.task_time);
        Ok(engine.with_change_check(check))
    }

    /// Reads the app as it was when older tasks started. Keys that the program set, which are not stored, are taken
    /// from the same models of the app as it is.
    fn read(&self, stored: &Definition) -> Result<Arc<App>, EditionError> {
        if !stored.trusted {
            return Err(EditionError::Unavailable(untrusted(&stored.hash)));
        }
        let now = self.app();
        let loader = &self.0.parts.loader;
        let mut app = loader.load_stored(stored, &now.folder)?;
        for agent in &mut app.agents {
            if let Some(same) = now.agent(agent.name.as_str()) {
                let changed = agent.clone().with(|agent| give_keys(agent, same));
                *agent = changed.map_err(|invalid| EditionError::Invalid(invalid.to_string()))?;
            }
        }
        Ok(Arc::new(app))
    }

    /// Begins to start the tool servers of the newest edition, before anything uses them.
    pub(crate) fn start_tool_servers(&self) {
        self.0.tools.start_newest();
    }

    /// Ends the tool servers of all editions.
    pub(crate) async fn shutdown(&self) {
        self.0.tools.shutdown().await;
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
            let open = editions.edition(&app);
            open.map(|open| open.edition).map_err(|error| match error {
                // Another program may bring the tool.
                RuntimeError::UnknownTool { .. } => EditionError::Unavailable(error.to_string()),
                error => EditionError::Invalid(error.to_string()),
            })
        }
        .boxed()
    }
}

/// An edition that was opened, and what checks people's changes for it.
struct OpenEdition {
    edition: Edition<Assistant, Performer>,
    check: Arc<ToolChangeCheck>,
}

fn change_check(
    assistant: &Arc<Assistant>,
    app: &App,
    tools: Arc<dyn Tools>,
) -> Arc<ToolChangeCheck> {
    let limits = tool_limits(app).schema;
    Arc::new(ToolChangeCheck::new(Arc::clone(assistant), tools, limits))
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

/// The error for an untrusted definition, with what its user can do.
fn untrusted(hash: &str) -> String {
    format!(
        "it came with tasks from another store and is not trusted yet; `convoke tasks trust {hash}` \
         shows what it would run, and lets it"
    )
}

/// An engine that accepts tasks and signals for an app, without a worker.
pub fn engine(app: &Arc<App>, store: Arc<dyn Store>) -> Result<Engine<Assistant>, RuntimeError> {
    engine_of_stored(app, definition(app), store)
}

/// The same for answers to tasks of an app that was read from this definition. Arguments that a person changes are checked
/// against these tool servers.
pub fn answering_engine(
    app: &Arc<App>,
    definition: Definition,
    store: Arc<dyn Store>,
    servers: ToolServers,
) -> Result<Engine<Assistant>, RuntimeError> {
    let assistant = Arc::new(Assistant::new(Arc::clone(app))?);
    let toolbox = Toolbox::within(Arc::new(servers), clock(), tool_limits(app))?;
    let check = change_check(&assistant, app, Arc::new(toolbox));
    let engine = engine_over(assistant, app, definition, store, clock(), ids());
    Ok(engine.with_change_check(check))
}

/// The same for an app that was read from this definition. Its tasks are trusted as far as the definition
/// is.
pub fn engine_of_stored(
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

/// The definition of an app, stored with its tasks. An app that its user runs is trusted.
fn definition(app: &App) -> Definition {
    Definition {
        hash: app.hash.clone(),
        files: (*app.files).clone(),
        trusted: true,
    }
}

/// What an app says of its worker. How many tasks run at once is the matter of all apps of the process.
fn worker_options(app: &App, worker: String) -> Options {
    let limits = &app.config.limits;
    Options {
        lease: Duration::from_secs(limits.lease_seconds.into()),
        inline_bytes: limits.inline_bytes as usize,
        max_claims: limits.max_claims,
        question_time: Duration::from_secs(limits.question_seconds.into()),
        grace: Duration::from_secs(limits.shutdown_seconds.into()),
        edition_idle: Duration::from_secs(limits.edition_idle_seconds.into()),
        ..Options::for_worker(worker)
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
    use convoke_llm::ModelClient;
    use convoke_model::SkillFields;
    use serde_json::json;
    use tokio::runtime::Handle;

    use super::*;
    use crate::loader::AppLoader;
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
        let parts = SharedParts {
            on_failed_start: None,
            loader: AppLoader::new(),
            store: StoreChoice::Memory.open().unwrap(),
            clock: clock(),
            ids: ids(),
            models: ModelClient::new(convoke_llm::Options::default()),
            tools: Vec::new(),
            program: None,
            concurrent_tasks: 1,
            train_at_start,
            executor: Handle::current(),
        };
        AppEditions::new(app, Arc::new(parts))
    }

    #[tokio::test]
    async fn editions_with_the_same_skills_share_what_was_trained_at_the_start() {
        let editions = editions(app("Bought.", "buy some milk"), true);
        let (_engine, _worker) = editions.assemble(Permits::new(1)).unwrap();
        let program = |app: &Arc<App>| editions.edition(app).unwrap().edition.program;
        // What is said to it does not change what is understood.
        let reworded = program(&app("It is bought.", "buy some milk"));
        while !reworded.is_trained() {
            std::thread::yield_now();
        }
        assert!(!program(&app("Bought.", "buy some tea")).is_trained());
    }

    #[tokio::test]
    async fn nothing_is_trained_where_one_request_may_not_need_it() {
        let app = app("Bought.", "buy some milk");
        let editions = editions(Arc::clone(&app), false);
        let (_engine, _worker) = editions.assemble(Permits::new(1)).unwrap();
        assert!(!editions.edition(&app).unwrap().edition.program.is_trained());
    }
}
