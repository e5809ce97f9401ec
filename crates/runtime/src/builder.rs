//! Builds a runtime: its apps, tools and store.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use convoke_app::App;
use convoke_engine::Permits;
use convoke_flow::toolbox::RustTool;
use convoke_llm::ModelClient;
use convoke_mcp::StartFailure;
use convoke_model::{Agent, AgentFields, Name};
use convoke_store::SqliteOptions;
use tokio::runtime::Handle;

use crate::error::RuntimeError;
use crate::loader::AppLoader;
use crate::registry::Registry;
use crate::runtime::Runtime;
use crate::shared_parts::SharedParts;
use crate::wire::{self, FailedStartObserver, StoreChoice};

/// Collects what a [`Runtime`] is made of.
#[must_use = "nothing happens before `build`"]
pub struct RuntimeBuilder {
    folders: Vec<PathBuf>,
    loaded: Vec<Arc<App>>,
    name: Option<String>,
    agents: Vec<AgentFields>,
    tools: Vec<RustTool>,
    store: Option<StoreChoice>,
    loader: AppLoader,
    concurrent_tasks: Option<u32>,
    program: Option<PathBuf>,
    model_options: convoke_llm::Options,
    train_at_start: bool,
    on_failed_start: Option<Arc<FailedStartObserver>>,
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        Self {
            folders: Vec::new(),
            loaded: Vec::new(),
            name: None,
            agents: Vec::new(),
            tools: Vec::new(),
            store: None,
            loader: AppLoader::new(),
            concurrent_tasks: None,
            program: None,
            model_options: convoke_llm::Options::default(),
            train_at_start: true,
            on_failed_start: None,
        }
    }
}

impl RuntimeBuilder {
    /// Runs the app in this folder. A [`Registry`] runs several.
    pub fn app(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push(folder.into());
        self
    }

    /// Runs an app that was loaded already. A [`Registry`] runs several.
    pub fn loaded_app(mut self, app: Arc<App>) -> Self {
        self.loaded.push(app);
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

    /// Where tasks are stored. Otherwise it is where the app says, else in `store.db` of the data folder, else in
    /// memory.
    pub fn store(mut self, store: StoreChoice) -> Self {
        self.store = Some(store);
        self
    }

    /// The folder for the store and for what tool servers keep; the app's files know it as
    /// `${CONVOKE_DATA}`.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.loader = self.loader.data(folder);
        self
    }

    /// The variables for `${NAME}` in the app's files. The default is the environment of the process.
    pub fn environment(
        mut self,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.loader = self.loader.environment(environment);
        self
    }

    /// Tasks that run at once in this process, of all its apps together. Otherwise it is `limits.concurrent_tasks` of the
    /// app, and of several apps the largest.
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

    /// The loader of the app and its older editions. It replaces what [`data`](Self::data) and
    /// [`environment`](Self::environment) set before.
    pub fn loader(mut self, loader: AppLoader) -> Self {
        self.loader = loader;
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

    /// Tells of each attempt to start a tool server that failed, with the last lines of its error output, which may
    /// contain anything. Tasks that need the server are told no more than the reason.
    pub fn on_failed_start(
        mut self,
        observer: impl Fn(&App, &StartFailure) + Send + Sync + 'static,
    ) -> Self {
        self.on_failed_start = Some(Arc::new(observer));
        self
    }

    /// Checks everything, opens the store and begins to work on its tasks, also on those that an
    /// earlier runtime left.
    #[expect(
        clippy::unused_async,
        reason = "the worker needs a Tokio runtime to live in, and stores may come to need one"
    )]
    pub async fn build(mut self) -> Result<Runtime, RuntimeError> {
        let executor = Handle::try_current().map_err(|_| RuntimeError::NoExecutor)?;
        let app = self.find_app()?;
        let parts = self.open(std::slice::from_ref(&app), executor)?;
        let permits = Permits::new(parts.concurrent_tasks);
        Runtime::start(app, parts, permits)
    }

    /// The same for every app that was named, over one store.
    #[expect(clippy::unused_async, reason = "as with `build`")]
    pub async fn build_registry(mut self) -> Result<Registry, RuntimeError> {
        let executor = Handle::try_current().map_err(|_| RuntimeError::NoExecutor)?;
        if !self.agents.is_empty() {
            return Err(RuntimeError::AppAndAgents);
        }
        self.know_own_servers();
        let mut apps = std::mem::take(&mut self.loaded);
        for folder in std::mem::take(&mut self.folders) {
            apps.push(Arc::new(self.loader.load(&folder)?));
        }
        if apps.is_empty() {
            return Err(RuntimeError::NothingToRun);
        }
        for (index, app) in apps.iter().enumerate() {
            let name = &app.config.name;
            if apps[..index].iter().any(|other| other.config.name == *name) {
                let name = name.to_string();
                return Err(RuntimeError::SameName { name });
            }
        }
        let fixed_store = self.store.is_some();
        let parts = self.open(&apps, executor)?;
        Registry::start(apps, parts, fixed_store)
    }

    /// Opens what all apps share.
    fn open(self, apps: &[Arc<App>], executor: Handle) -> Result<Arc<SharedParts>, RuntimeError> {
        let store = match self.store {
            Some(store) => store,
            None => StoreChoice::of_apps(apps, self.loader.data_folder())?,
        };
        let limits = apps.iter().map(|app| &app.config.limits);
        let most = limits.clone().map(|limits| limits.concurrent_tasks).max();
        let concurrent_tasks = self.concurrent_tasks.or(most);
        let queued_writes = limits.map(|limits| limits.queued_writes as usize).max();
        let default = SqliteOptions::default();
        let options = SqliteOptions {
            queued_writes: queued_writes.unwrap_or(default.queued_writes),
        };
        Ok(Arc::new(SharedParts {
            loader: self.loader,
            store: store.open_with(options)?,
            clock: wire::clock(),
            ids: wire::ids(),
            models: ModelClient::new(self.model_options),
            tools: self.tools,
            program: self.program,
            concurrent_tasks: concurrent_tasks.unwrap_or(1) as usize,
            train_at_start: self.train_at_start,
            on_failed_start: self.on_failed_start,
            executor,
        }))
    }

    fn find_app(&mut self) -> Result<Arc<App>, RuntimeError> {
        self.know_own_servers();
        let agents = std::mem::take(&mut self.agents);
        let (loaded, folders) = (&self.loaded[..], &self.folders[..]);
        match (loaded, folders, agents.first()) {
            ([], [], None) => Err(RuntimeError::NothingToRun),
            ([app], [], None) => Ok(Arc::clone(app)),
            ([], [folder], None) => Ok(Arc::new(self.loader.load(folder)?)),
            ([], [], Some(first)) => {
                let name = self.name.take();
                let name = name.unwrap_or_else(|| first.name.to_string());
                let agents = agents.into_iter().map(Agent::new);
                let app = App::of_agents(name, agents.collect::<Result<_, _>>()?)?;
                Ok(Arc::new(app))
            }
            (_, _, None) => Err(RuntimeError::SeveralApps),
            _ => Err(RuntimeError::AppAndAgents),
        }
    }

    /// Lets apps list the program's own tools.
    fn know_own_servers(&mut self) {
        let servers = self.own_servers();
        self.loader = std::mem::take(&mut self.loader).program_servers(servers);
    }

    /// The servers that the program's own tools are listed under.
    fn own_servers(&self) -> BTreeSet<String> {
        self.tools
            .iter()
            .filter_map(|tool| Name::new(tool.server_name()).ok())
            .map(String::from)
            .collect()
    }
}
