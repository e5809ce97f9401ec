//! How a runtime comes to be: what it runs, with which tools, over which store.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_app::App;
use convoke_engine::EditionError;
use convoke_flow::toolbox::RustTool;
use convoke_llm::ModelClient;
use convoke_model::{Agent, AgentFields, LlmConfig, Name};
use convoke_store::Definition;

use crate::error::RuntimeError;
use crate::runtime::Runtime;
use crate::wire::{self, AppEditions, EditionParts, ReadKept, StoreChoice};

/// The variable by which an app's files know the data folder.
const DATA_VARIABLE: &str = "CONVOKE_DATA";

type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Collects what a [`Runtime`] is made of.
#[must_use = "nothing happens before `build`"]
pub struct RuntimeBuilder {
    folder: Option<PathBuf>,
    loaded: Option<Arc<App>>,
    name: Option<String>,
    agents: Vec<AgentFields>,
    tools: Vec<RustTool>,
    store: Option<StoreChoice>,
    data: Option<PathBuf>,
    environment: Option<Environment>,
    concurrent_tasks: Option<u32>,
    program: Option<PathBuf>,
    read_kept: Option<ReadKept>,
    model_options: convoke_llm::Options,
    train_at_start: bool,
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        Self {
            folder: None,
            loaded: None,
            name: None,
            agents: Vec::new(),
            tools: Vec::new(),
            store: None,
            data: None,
            environment: None,
            concurrent_tasks: None,
            program: None,
            read_kept: None,
            model_options: convoke_llm::Options::default(),
            train_at_start: true,
        }
    }
}

impl RuntimeBuilder {
    /// Runs the app in this folder.
    pub fn app(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Runs an app that was loaded already.
    pub fn loaded_app(mut self, app: Arc<App>) -> Self {
        self.loaded = Some(app);
        self
    }

    /// Runs this agent, and every other that is given, without a folder.
    pub fn agent(mut self, agent: AgentFields) -> Self {
        self.agents.push(agent);
        self
    }

    /// What an app made of agents is called; the first agent's name otherwise. Tasks in a store
    /// belong to an app by its name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Gives agents a function of the program's as a tool. An agent calls it if it lists it, as
    /// `rust.NAME`.
    pub fn tool(mut self, tool: RustTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Where tasks are kept. Otherwise it is where the app says, else in `store.db` of the data
    /// folder, else in memory.
    pub fn store(mut self, store: StoreChoice) -> Self {
        self.store = Some(store);
        self
    }

    /// The folder for the store and for what tool servers keep; the app's files know it as
    /// `${CONVOKE_DATA}`.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// What `${NAME}` stands for in the app's files. Otherwise it is the environment of the process.
    pub fn environment(
        mut self,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.environment = Some(Arc::new(environment));
        self
    }

    /// Tasks worked on at once, over what the app says.
    pub fn concurrent_tasks(mut self, number: u32) -> Self {
        self.concurrent_tasks = Some(number.max(1));
        self
    }

    /// What `convoke` means as the command of a tool server. Otherwise it is looked for on the path,
    /// like any other program.
    pub fn convoke_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// How an app is read again from what was kept of it when a task was begun. Otherwise as it is read
    /// from its folder.
    pub fn read_kept(
        mut self,
        read: impl Fn(&Definition) -> Result<App, EditionError> + Send + Sync + 'static,
    ) -> Self {
        self.read_kept = Some(Arc::new(read));
        self
    }

    /// How models are asked: retries, pauses, requests at once.
    pub fn model_options(mut self, options: convoke_llm::Options) -> Self {
        self.model_options = options;
        self
    }

    /// Whether what understands requests that fit no sentence is trained as soon as the app runs, on a thread of its
    /// own. It is, unless this says `false`; it is then trained when the first such request comes, as is right for a
    /// program that ends after one.
    pub fn train_at_start(mut self, train: bool) -> Self {
        self.train_at_start = train;
        self
    }

    /// Checks everything, opens the store and begins to work on its tasks, also on those that an
    /// earlier runtime left.
    #[expect(
        clippy::unused_async,
        reason = "the worker needs a Tokio runtime to live in, and stores may come to need one"
    )]
    pub async fn build(mut self) -> Result<Runtime, RuntimeError> {
        let executor =
            tokio::runtime::Handle::try_current().map_err(|_| RuntimeError::NoExecutor)?;
        let app = self.find_app()?;
        let clock = wire::clock();
        let store = self.store_for(&app)?;
        let ids = wire::ids();
        let given = self.read_kept.take();
        let read_kept = given.unwrap_or_else(|| self.reader(&app));
        let editions = AppEditions::new(EditionParts {
            store: store.open()?,
            clock: Arc::clone(&clock),
            ids: Arc::clone(&ids),
            models: ModelClient::new(self.model_options),
            tools: self.tools,
            program: self.program,
            concurrent_tasks: self.concurrent_tasks,
            train_at_start: self.train_at_start,
            read_kept,
        });
        let (engine, worker) = editions.assemble(&app)?;
        Ok(Runtime::start(
            app, engine, worker, editions, clock, ids, &executor,
        ))
    }

    /// Reads what was kept of an app as its folder is read. Keys that were given by the program, and so
    /// were never kept, are those that the same agents have now.
    fn reader(&self, app: &Arc<App>) -> ReadKept {
        let (environment, own) = (self.variables(), self.own_servers());
        let now = Arc::clone(app);
        Arc::new(move |definition| {
            let folder = &now.folder;
            let files = &definition.files;
            let mut app = App::load_kept(files, &definition.hash, folder, &*environment, &own)
                .map_err(|problems| wire::edition_error(&problems))?;
            for agent in &mut app.agents {
                if let Some(same) = now.agent(agent.name.as_str()) {
                    let changed = agent.clone().with(|agent| give_keys(agent, same));
                    *agent =
                        changed.map_err(|invalid| EditionError::Invalid(invalid.to_string()))?;
                }
            }
            Ok(app)
        })
    }

    fn find_app(&mut self) -> Result<Arc<App>, RuntimeError> {
        let agents = std::mem::take(&mut self.agents);
        match (self.loaded.take(), self.folder.take(), agents.first()) {
            (None, None, None) => Err(RuntimeError::NothingToRun),
            (Some(app), None, None) => Ok(app),
            (None, Some(folder), None) => self.load(&folder),
            (None, None, Some(first)) => {
                let name = self.name.take();
                let name = name.unwrap_or_else(|| first.name.to_string());
                let agents = agents.into_iter().map(Agent::new);
                let app = App::of_agents(name, agents.collect::<Result<_, _>>()?)?;
                Ok(Arc::new(app))
            }
            _ => Err(RuntimeError::AppAndAgents),
        }
    }

    fn load(&self, folder: &Path) -> Result<Arc<App>, RuntimeError> {
        let loaded = App::load_for_program(folder, &*self.variables(), &self.own_servers());
        Ok(Arc::new(loaded.map_err(RuntimeError::App)?.app))
    }

    /// What `${NAME}` stands for.
    fn variables(&self) -> Environment {
        let data = self.data.as_deref().map(absolute);
        let given = self.environment.clone();
        Arc::new(move |name| match (&data, &given) {
            (Some(data), _) if name == DATA_VARIABLE => Some(data.to_string_lossy().into_owned()),
            (_, Some(environment)) => environment(name),
            (_, None) => wire::process_environment(name),
        })
    }

    /// The servers that the program's own tools are listed under.
    fn own_servers(&self) -> BTreeSet<String> {
        self.tools
            .iter()
            .filter_map(|tool| Name::new(tool.server_name()).ok())
            .map(String::from)
            .collect()
    }

    fn store_for(&mut self, app: &App) -> Result<StoreChoice, RuntimeError> {
        if let Some(store) = self.store.take() {
            return Ok(store);
        }
        if let Some(store) = &app.config.store {
            return StoreChoice::of_url(&store.url, &absolute(&app.folder));
        }
        Ok(match &self.data {
            Some(data) => StoreChoice::Sqlite(absolute(data).join("store.db")),
            None => StoreChoice::Memory,
        })
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

/// Tool servers run in folders of their own, so every path handed to them is absolute.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
