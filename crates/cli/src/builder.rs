//! How a runtime comes to be: what it runs, with which tools, over which store.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_app::App;
use convoke_flow::toolbox::{RustTool, Toolbox};
use convoke_model::{Agent, AgentFields, Invalid, Name};

use crate::error::RuntimeError;
use crate::runtime::Runtime;
use crate::wire::{self, Parts, StoreChoice};

/// The variable by which an app's files know the data folder.
const DATA_VARIABLE: &str = "CONVOKE_DATA";

type Environment = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Collects what a [`Runtime`] is made of.
#[derive(Default)]
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
    model_options: convoke_llm::Options,
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
        self.environment = Some(Box::new(environment));
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

    /// How models are asked: retries, pauses, requests at once.
    pub fn model_options(mut self, options: convoke_llm::Options) -> Self {
        self.model_options = options;
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
        let servers = wire::tool_servers(&app, self.program.take());
        let mut toolbox = Toolbox::new(Arc::new(servers.clone()), Arc::clone(&clock))?;
        for tool in std::mem::take(&mut self.tools) {
            toolbox.add(tool)?;
        }
        check_tools(&app, &toolbox)?;
        let store = self.store_for(&app)?.open()?;
        let ids = wire::ids();
        let (engine, worker) = wire::assemble(Parts {
            app: Arc::clone(&app),
            store,
            toolbox,
            clock: Arc::clone(&clock),
            ids: Arc::clone(&ids),
            concurrent_tasks: self.concurrent_tasks,
            model_options: self.model_options,
        })?;
        Ok(Runtime::start(
            app, engine, worker, servers, clock, ids, &executor,
        ))
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
        let data = self.data.as_deref().map(absolute);
        let environment = |name: &str| match (&data, &self.environment) {
            (Some(data), _) if name == DATA_VARIABLE => Some(data.to_string_lossy().into_owned()),
            (_, Some(environment)) => environment(name),
            (_, None) => wire::process_environment(name),
        };
        let own: BTreeSet<String> = self
            .tools
            .iter()
            .filter_map(|tool| Name::new(tool.server_name()).ok())
            .map(String::from)
            .collect();
        let loaded =
            App::load_for_program(folder, &environment, &own).map_err(RuntimeError::App)?;
        Ok(Arc::new(loaded.app))
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

/// Tool servers run in folders of their own, so every path handed to them is absolute.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
