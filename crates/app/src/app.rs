//! A loaded and validated app.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_model::{
    Agent, AgentFields, Channel, ChannelSpec, Domain, Invalid, LlmConfig, McpServer, Name, Report,
    RetentionPolicy, RetentionPolicyFields, Rules, StyleGuide, Valid, Workflow,
};

use crate::builtin::{BUILTIN_SERVER, BUILTIN_TOOLS};
use crate::causes;
use crate::config::AppConfig;
use crate::contents::{Contents, Purpose};
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::document::ParsedList;
use crate::environment::{self, APP_FOLDER_VARIABLE, Secrets};
use crate::evals::EvalCase;
use crate::hash;
use crate::origin::{AppFiles, Origin};
use crate::references::{self, is_same_tool};
use crate::spelling::one_of;
use crate::stored::StoredApp;

/// An app whose files and references have all been checked. Environment variables are filled in; the
/// `Debug` form shows none of their values.
#[derive(Clone)]
pub struct App {
    /// The folder it was read from; empty for an app without one.
    pub folder: PathBuf,
    /// The contents of `convoke.yaml`.
    pub config: AppConfig,
    /// The agents, in the order of their files.
    pub agents: Vec<Agent>,
    /// The tool servers.
    pub servers: Vec<McpServer>,
    /// The data domains.
    pub domains: Vec<Domain>,
    /// Channels with settings of the app's own.
    pub channels: Vec<ChannelSpec>,
    /// The voice, if the app has one.
    pub style_guide: Option<StyleGuide>,
    /// How long ended tasks are stored; `limits.retention_days` for all if there is no policy file.
    pub retention: RetentionPolicy,
    /// The workflows, in the order of their files.
    pub workflows: Vec<Workflow>,
    /// The eval cases, by file.
    pub evals: Vec<EvalSet>,
    /// SHA-256 in hexadecimal over everything that affects how the app runs. Formatting, evals and
    /// values of secrets do not change it.
    pub hash: String,
    /// Values from the environment, to be kept out of logs.
    pub secrets: Secrets,
    /// The files as written: without values from the environment and without the evals.
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

/// An app and its warnings.
#[derive(Debug, Clone)]
pub struct LoadedApp {
    /// The app.
    pub app: App,
    /// Warnings only.
    pub warnings: Diagnostics,
}

impl App {
    /// Reads an app folder. If anything is wrong, returns all errors.
    pub fn load(
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<LoadedApp, Diagnostics> {
        Self::read_folder(folder, environment, Purpose::Check, &BTreeSet::new())
    }

    /// Reads an app folder to check its files alone: variables that are not set count as texts that fit, and are told in
    /// warnings.
    pub fn load_to_check(
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<LoadedApp, Diagnostics> {
        Self::read_folder(folder, environment, Purpose::CheckFiles, &BTreeSet::new())
    }

    fn read_folder(
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
        purpose: Purpose,
        program_servers: &BTreeSet<String>,
    ) -> Result<LoadedApp, Diagnostics> {
        let origin = Origin::Folder(folder);
        Self::read(folder, origin, environment, purpose, program_servers)
    }

    /// Reads an app folder to run it, without its evals.
    pub fn load_to_run(
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<LoadedApp, Diagnostics> {
        Self::load_for_program(folder, environment, &BTreeSet::new())
    }

    /// Reads an app folder for a program that has tools of its own, under these server names.
    pub fn load_for_program(
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
        program_servers: &BTreeSet<String>,
    ) -> Result<LoadedApp, Diagnostics> {
        Self::read_folder(folder, environment, Purpose::Run, program_servers)
    }

    /// Reads an app from the files stored with a task. Relative paths in it are relative to `folder`.
    /// Files that do not have the hash are rejected with `app.definition_changed`, because a task would
    /// continue with another app.
    pub fn load_stored(
        files: &AppFiles,
        hash: &str,
        folder: &Path,
        environment: &dyn Fn(&str) -> Option<String>,
        program_servers: &BTreeSet<String>,
    ) -> Result<Self, Diagnostics> {
        if !StoredApp::read(files)?.has_hash(hash) {
            let message = format!("the stored files do not have the hash {hash}");
            let mut problems = Diagnostics::default();
            let code = "app.definition_changed";
            problems.add(Diagnostic::of_file(Severity::Error, ".", code, message));
            return Err(problems);
        }
        let origin = Origin::Stored(files);
        let loaded = Self::read(folder, origin, environment, Purpose::Run, program_servers)?;
        Ok(Self {
            hash: hash.to_owned(),
            ..loaded.app
        })
    }

    /// An app that consists of agents alone, without a folder. Everything else is default.
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
        let own_folder = environment::app_folder(folder);
        let environment = &|name: &str| match name {
            APP_FOLDER_VARIABLE => Some(own_folder.clone()),
            _ => environment(name),
        };
        let contents = Contents::read(origin, environment, purpose, program_servers, &mut problems);
        if problems.has_errors() {
            return Err(causes::reduced(problems));
        }
        let hash = hash::of(&contents.hashed_files());
        if let Some(app) = Self::assemble(folder, contents, hash) {
            return Ok(LoadedApp {
                app,
                warnings: causes::reduced(problems),
            });
        }
        // Only reached if a check is missing, because every part was checked separately.
        let message = "the app is inconsistent, but no check found the reason; please report this";
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
        self.agents.iter().find(|agent| agent.name.matches(name))
    }

    /// A workflow by its name, in either spelling.
    pub fn workflow(&self, name: &str) -> Option<&Workflow> {
        self.workflows
            .iter()
            .find(|workflow| workflow.name.matches(name))
    }

    /// The workflow that requests go through: `main`, else the only one.
    pub fn main_workflow(&self) -> Option<&Workflow> {
        match self.workflows.as_slice() {
            [only] => Some(only),
            _ => self.workflow("main"),
        }
    }

    /// Time limit of one attempt at an agent's run in milliseconds: the agent's own, else the app's.
    pub fn agent_time_ms(&self, agent: &AgentFields) -> u64 {
        let own = agent.limits.timeout_ms;
        own.unwrap_or_else(|| u64::from(self.config.limits.agent_seconds) * 1_000)
    }

    /// A model shared by agents and decisions, by its name, in either spelling.
    pub fn model(&self, name: &str) -> Option<&LlmConfig> {
        let mut models = self.config.models.iter();
        let found = models.find(|(known, _)| known.matches(name));
        found.map(|(_, model)| model)
    }

    /// A tool server by its name, in either spelling.
    pub fn server(&self, name: &str) -> Option<&McpServer> {
        self.servers.iter().find(|server| server.name.matches(name))
    }

    /// The specification of a channel: the app's, else the default.
    pub fn channel(&self, channel: Channel) -> ChannelSpec {
        let own = self.channels.iter().find(|spec| spec.channel == channel);
        own.cloned().unwrap_or_else(|| ChannelSpec::of(channel))
    }

    /// Replaces every value from the environment by its `${NAME}`.
    pub fn redact(&self, text: &str) -> String {
        self.secrets.redact(text)
    }
}

/// Rules between agents that are not read from files.
fn agent_rules(agents: &[Agent]) -> Result<(), Invalid> {
    let mut report = Report::default();
    if agents.is_empty() {
        report.add("app.no_agents", "the app has no agent");
    }
    let mut names = BTreeSet::new();
    for agent in agents {
        report.within(&agent.name, |report| {
            if !names.insert(&agent.name) {
                let message = format!("another agent is named `{}`", agent.name);
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
