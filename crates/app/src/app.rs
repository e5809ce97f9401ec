//! A whole app, known to be right.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_model::{
    Agent, AgentFields, Channel, ChannelSpec, Domain, Invalid, LlmConfig, McpServer, Name, Report,
    RetentionPolicy, RetentionPolicyFields, Rules, StyleGuide, Valid, Workflow,
};

use crate::builtin::{BUILTIN_SERVER, BUILTIN_TOOLS};
use crate::config::AppConfig;
use crate::contents::{Contents, Purpose};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::ParsedList;
use crate::environment::Secrets;
use crate::evals::EvalCase;
use crate::hash;
use crate::kept::KeptApp;
use crate::origin::{AppFiles, Origin};
use crate::references::{self, is_same_tool};
use crate::spelling::one_of;

/// An app whose every file and mention has been checked. Values from the environment are filled in;
/// its `Debug` form shows none of them.
#[derive(Clone)]
pub struct App {
    /// The folder it was read from.
    pub folder: PathBuf,
    /// What `convoke.yaml` says.
    pub config: AppConfig,
    /// The agents, in the order of their files.
    pub agents: Vec<Agent>,
    /// The tool servers.
    pub servers: Vec<McpServer>,
    /// The data domains.
    pub domains: Vec<Domain>,
    /// The channels of which the app says what they carry.
    pub channels: Vec<ChannelSpec>,
    /// The voice, if the app has one.
    pub style_guide: Option<StyleGuide>,
    /// How long things are kept. Without a file of its own, `limits.retention_days` for everything.
    pub retention: RetentionPolicy,
    /// The workflows, in the order of their files.
    pub workflows: Vec<Workflow>,
    /// The eval cases, file by file.
    pub evals: Vec<EvalSet>,
    /// SHA-256 in hexadecimal over everything that matters for running: the same for another
    /// formatting, other evals or another value of a secret, and different for anything else.
    pub hash: String,
    /// What came from the environment, to be kept out of logs.
    pub secrets: Secrets,
    /// The files as they are written, without what the environment fills in and without the evals.
    pub files: Arc<AppFiles>,
}

/// The cases of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalSet {
    /// The file, relative to the app folder.
    pub file: String,
    /// Its cases, in order.
    pub cases: Vec<EvalCase>,
}

/// An app with what its author should still look at.
#[derive(Debug, Clone)]
pub struct LoadedApp {
    /// The app.
    pub app: App,
    /// Warnings only.
    pub warnings: Diagnostics,
}

impl App {
    /// Reads an app folder. If anything is wrong with it, everything that is wrong is returned.
    pub fn load(
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<LoadedApp, Diagnostics> {
        Self::read(
            folder,
            Origin::Folder(folder),
            environment,
            Purpose::Check,
            &BTreeSet::new(),
        )
    }

    /// Reads an app folder to run it. Its evals are left out.
    pub fn load_to_run(
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<LoadedApp, Diagnostics> {
        Self::load_for_program(folder, environment, &BTreeSet::new())
    }

    /// Reads an app folder to run it in a program that brings tools of its own, under the names of
    /// these servers.
    pub fn load_for_program(
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
        program_servers: &BTreeSet<String>,
    ) -> Result<LoadedApp, Diagnostics> {
        Self::read(
            folder,
            Origin::Folder(folder),
            environment,
            Purpose::Run,
            program_servers,
        )
    }

    /// Reads an app as it once was, from the files that were kept of it. What is relative in it is
    /// relative to `folder`. Files that do not give the hash are refused with `app.definition_changed`:
    /// tasks go by the hash, and would go on with something else.
    pub fn load_kept(
        files: &AppFiles,
        hash: &str,
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
        program_servers: &BTreeSet<String>,
    ) -> Result<Self, Diagnostics> {
        if !KeptApp::read(files)?.has_hash(hash) {
            let message = format!("the files that were kept are not those with the hash {hash}");
            let mut problems = Diagnostics::default();
            let code = "app.definition_changed";
            problems.add(Diagnostic::of_file(Severity::Error, ".", code, message));
            return Err(problems);
        }
        let origin = Origin::Kept(files);
        let loaded = Self::read(folder, origin, environment, Purpose::Run, program_servers)?;
        Ok(Self {
            hash: hash.to_owned(),
            ..loaded.app
        })
    }

    /// An app that is made of agents alone, without a folder. Everything else is as is usual.
    pub fn of_agents(name: impl AsRef<str>, agents: Vec<Agent>) -> Result<Self, Invalid> {
        let name = Name::new(name)?;
        agent_rules(&agents)?;
        let config = AppConfig::named(name);
        let retention = Valid::new(RetentionPolicyFields {
            default_days: config.limits.retention_days,
            ..RetentionPolicyFields::default()
        })?;
        Ok(Self {
            folder: PathBuf::new(),
            hash: hash::of_agents(&config, &agents),
            files: Arc::new(hash::agent_files(&config, &agents)),
            config,
            agents,
            servers: Vec::new(),
            domains: Vec::new(),
            channels: Vec::new(),
            style_guide: None,
            retention,
            workflows: Vec::new(),
            evals: Vec::new(),
            secrets: Secrets::default(),
        })
    }

    pub(crate) fn read(
        folder: &Path,
        origin: Origin<'_>,
        environment: &dyn Fn(&str) -> Option<String>,
        purpose: Purpose,
        program_servers: &BTreeSet<String>,
    ) -> Result<LoadedApp, Diagnostics> {
        let mut problems = Diagnostics::default();
        let contents = Contents::read(origin, environment, purpose, program_servers, &mut problems);
        if problems.has_errors() {
            return Err(problems.sorted());
        }
        let hash = hash::of(&contents.covered());
        if let Some(app) = Self::assemble(folder, contents, hash) {
            return Ok(LoadedApp {
                app,
                warnings: problems.sorted(),
            });
        }
        // Every part was checked one by one; this is only reached if a check is missing.
        let message = "the app does not hold together, and no check says why";
        problems.add(Diagnostic::of_file(
            Severity::Error,
            ".",
            "app.incomplete",
            message,
        ));
        Err(problems.sorted())
    }

    fn assemble(folder: &Path, contents: Contents, hash: String) -> Option<Self> {
        let files = Arc::new(contents.as_written());
        let config = contents.config?.fields?;
        let retention = match contents.retention {
            Some(policy) => policy.fields?,
            None => RetentionPolicyFields {
                default_days: config.limits.retention_days,
                ..RetentionPolicyFields::default()
            },
        };
        Some(Self {
            folder: folder.to_owned(),
            config,
            agents: valid(contents.agents.into_iter().map(|agent| agent.fields))?,
            servers: valid_list(contents.servers)?,
            domains: valid_list(contents.domains)?,
            channels: valid_list(contents.channels)?,
            style_guide: match contents.style_guide {
                Some(guide) => Some(Valid::new(guide.fields?).ok()?),
                None => None,
            },
            retention: Valid::new(retention).ok()?,
            workflows: valid(
                contents
                    .workflows
                    .into_iter()
                    .map(|workflow| workflow.fields),
            )?,
            evals: contents
                .evals
                .into_iter()
                .map(|list| EvalSet {
                    file: list.document.source.file().to_owned(),
                    cases: list.items.into_iter().map(|item| item.fields).collect(),
                })
                .collect(),
            hash,
            secrets: contents.secrets,
            files,
        })
    }

    /// An agent by its name, in either spelling.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name.is_spelt(name))
    }

    /// A workflow by its name, in either spelling.
    pub fn workflow(&self, name: &str) -> Option<&Workflow> {
        self.workflows
            .iter()
            .find(|workflow| workflow.name.is_spelt(name))
    }

    /// The workflow that requests go through: the one called `main`, else the only one.
    pub fn main_workflow(&self) -> Option<&Workflow> {
        match self.workflows.as_slice() {
            [only] => Some(only),
            _ => self.workflow("main"),
        }
    }

    /// Milliseconds that one attempt at an agent's run may take: the agent's own limit, else the app's.
    pub fn agent_time_ms(&self, agent: &AgentFields) -> u64 {
        let own = agent.limits.timeout_ms;
        own.unwrap_or_else(|| u64::from(self.config.limits.agent_seconds) * 1_000)
    }

    /// A model that agents and decisions share, by its name, in either spelling.
    pub fn model(&self, name: &str) -> Option<&LlmConfig> {
        let mut models = self.config.models.iter();
        let found = models.find(|(known, _)| known.is_spelt(name));
        found.map(|(_, model)| model)
    }

    /// A tool server by its name, in either spelling.
    pub fn server(&self, name: &str) -> Option<&McpServer> {
        self.servers
            .iter()
            .find(|server| server.name.is_spelt(name))
    }

    /// What a channel can carry: as the app says, or as is usual.
    pub fn channel(&self, channel: Channel) -> ChannelSpec {
        let own = self.channels.iter().find(|spec| spec.channel == channel);
        own.cloned().unwrap_or_else(|| ChannelSpec::of(channel))
    }

    /// The text with every value that came from the environment replaced by its `${NAME}`.
    pub fn redact(&self, text: &str) -> String {
        self.secrets.redact(text)
    }
}

/// What must hold between agents that stand in no file.
fn agent_rules(agents: &[Agent]) -> Result<(), Invalid> {
    let mut report = Report::default();
    if agents.is_empty() {
        report.add("app.no_agents", "the app has no agent");
    }
    let mut names = BTreeSet::new();
    for agent in agents {
        report.within(&agent.name, |report| {
            if !names.insert(&agent.name) {
                let message = format!("another agent is called `{}`", agent.name);
                report.add("app.duplicate_name", message);
            }
            for (index, skill) in agent.skills.iter().enumerate() {
                for tool in references::tools_of(skill) {
                    let listed = agent.tools.iter().any(|one| is_same_tool(one, tool));
                    let message = format!("`{tool}` is not among the agent's tools");
                    report.within("skills", |report| {
                        report.require(listed, index, "app.tool_not_listed", message);
                    });
                }
            }
            for (index, tool) in agent.tools.iter().enumerate() {
                let Some((BUILTIN_SERVER, name)) = tool.split_once('.') else {
                    continue;
                };
                let message = format!(
                    "there is no built-in tool `{name}`; use {}",
                    one_of(&BUILTIN_TOOLS)
                );
                report.within("tools", |report| {
                    let known = BUILTIN_TOOLS.contains(&name);
                    report.require(known, index, "app.builtin_unknown", message);
                });
            }
        });
    }
    report.finish()
}

fn valid<T: Rules>(fields: impl Iterator<Item = Option<T>>) -> Option<Vec<Valid<T>>> {
    let checked = fields.collect::<Option<Vec<T>>>()?;
    checked
        .into_iter()
        .map(Valid::new)
        .collect::<Result<_, Invalid>>()
        .ok()
}

fn valid_list<T: Rules>(list: Option<ParsedList<T>>) -> Option<Vec<Valid<T>>> {
    let items = list.map(|list| list.items).unwrap_or_default();
    valid(items.into_iter().map(|item| Some(item.fields)))
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("folder", &self.folder)
            .field("name", &self.config.name)
            .field("hash", &self.hash)
            .field(
                "agents",
                &self
                    .agents
                    .iter()
                    .map(|agent| &agent.name)
                    .collect::<Vec<_>>(),
            )
            .field(
                "servers",
                &self
                    .servers
                    .iter()
                    .map(|server| &server.name)
                    .collect::<Vec<_>>(),
            )
            .field("secrets", &self.secrets)
            .finish_non_exhaustive()
    }
}
