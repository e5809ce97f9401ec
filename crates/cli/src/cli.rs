//! The command line, as `--help` tells it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use convoke_model::{Channel, TaskState, ToolMode, UserRole};

use crate::commands::tasks::ImportLimits;
use crate::log::LogFormat;
use crate::times::{parse_delay, parse_duration};

/// Runs assistants described in a folder of YAML. Every step is journaled: kill it anywhere, and it
/// resumes with nothing lost and no effect repeated.
#[derive(Debug, Parser)]
#[command(name = "convoke", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Print JSON instead of text, one value a line
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Say more about what happens; twice and thrice for yet more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// The form of the log
    #[arg(
        long,
        global = true,
        value_enum,
        env = "CONVOKE_LOG_FORMAT",
        hide_env_values = true,
        value_name = "FORMAT",
        default_value_t
    )]
    pub(crate) log_format: LogFormat,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    not done: the task failed, the app has errors, an eval is below its bar
  2    the command line or a request is wrong; it changed nothing
  3    the store, a tool server or the machine failed
  4    the task waits for a person, or for a timer
  130  interrupted; unfinished tasks stay in the journal and go on with `convoke resume`";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send an app one message, or one a line from standard input, and print the answer
    Run(RunArgs),
    /// Talk with an app
    Chat(ChatArgs),
    /// Finish what an earlier run left unfinished
    Resume(AppArgs),
    /// Serve apps over HTTP, and run their tasks until stopped. SIGHUP reloads the apps
    Serve(ServeArgs),
    /// Make a token for a service, for development
    Token(TokenArgs),
    /// Make, list and revoke the API keys of a service
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Look at tasks and their journals
    #[command(subcommand)]
    Tasks(TasksCommand),
    /// Look at conversations
    #[command(subcommand)]
    Conversations(ConversationsCommand),
    /// Check an app folder and report everything that is wrong with it
    Check(CheckArgs),
    /// Measure an app against its eval cases
    Eval(EvalArgs),
    /// Print the JSON Schema of a type, or list the types
    Schema {
        /// The type, such as Task or Agent
        name: Option<String>,
        /// Write the schemas of an app's files into this app folder, where editors find them
        #[arg(long, value_name = "APP", conflicts_with = "name")]
        into: Option<PathBuf>,
    },
    /// Make a new app folder
    New(NewArgs),
    /// Talk with an app while it is written: every change of its files applies from the next message on
    Dev(ChatArgs),
    /// Look for what keeps Convoke or an app from working here, and say what to do about it
    Doctor(DoctorArgs),
    /// Print what a shell reads to complete commands and options
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Serve one of the built-in tool servers over MCP
    #[command(subcommand)]
    Tools(ToolsCommand),
}

/// What is done with conversations.
#[derive(Debug, Subcommand)]
pub(crate) enum ConversationsCommand {
    /// List conversations, most recently updated first, and whether they are active or idle
    List {
        /// How many at most
        #[arg(long, default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show the messages of one conversation, its state, and the data domains that it queried
    Show {
        /// The conversation's id, or `last`
        id: String,
        /// How many of the newest messages at most
        #[arg(long, default_value_t = 1_000)]
        messages: usize,
        #[command(flatten)]
        store: StoreArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The folder to make; its name becomes the app's
    pub(crate) dir: Option<PathBuf>,

    /// The starter to make it from; --list tells them [default: todo]
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    pub(crate) starter: Option<String>,

    /// An app to copy, instead of a starter
    #[arg(long, value_name = "APP")]
    pub(crate) from: Option<PathBuf>,

    /// List the starters
    #[arg(long, conflicts_with_all = ["dir", "starter", "from"])]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The app folder; without one, only the machine and the store are looked at
    pub(crate) app: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// Where an app's tasks are kept.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The folder for the store and the built-in tool servers' data
    #[arg(
        long,
        value_name = "DIR",
        env = "CONVOKE_DATA",
        hide_env_values = true,
        default_value = ".convoke"
    )]
    pub(crate) data: PathBuf,

    /// The store: an SQLite file, or `memory` to keep nothing [default: the app's, else store.db in
    /// the data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<String>,
}

/// The model that agents think with.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ModelArgs {
    /// A model for every agent that names none itself: an OpenAI-compatible endpoint and the model's
    /// name there, such as `http://127.0.0.1:11434/v1#qwen3`. A key is taken from `CONVOKE_API_KEY`
    #[arg(
        long,
        value_name = "URL#MODEL",
        env = "CONVOKE_MODEL",
        hide_env_values = true
    )]
    pub(crate) model: Option<String>,

    /// How that model calls tools: natively, by structured output, or either (`auto`). Small local
    /// models do best with `schema`
    #[arg(long, value_name = "MODE", value_parser = tool_mode, requires = "model")]
    pub(crate) tool_mode: Option<ToolMode>,

    /// Seconds that an agent may think, and a task take, where the model is slow
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) patience: Option<u32>,
}

/// Who speaks, and where.
#[derive(Debug, Args)]
pub(crate) struct SpeakerArgs {
    /// The user, as a UUID [default: the user of this machine]
    #[arg(long, value_name = "UUID")]
    pub(crate) user: Option<String>,

    /// The conversation, as a UUID, to go on with or to begin
    #[arg(long, value_name = "UUID", conflicts_with = "continue")]
    pub(crate) conversation: Option<String>,

    /// Go on with the user's last conversation
    #[arg(short, long)]
    pub(crate) r#continue: bool,

    /// The channel that the message counts as coming from
    #[arg(long, value_name = "CHANNEL", default_value = "terminal", value_parser = channel)]
    pub(crate) channel: Channel,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The app folder
    pub(crate) app: PathBuf,

    /// What to say, or `-` to read one message a line from standard input
    pub(crate) message: String,

    /// A key for this request; sent again with the same key, it is the same task
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,

    /// A file or an image that comes with the message; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,

    /// The messages before this one, as a JSON list of `{"role": …, "content": …}`, from a file or with `-` from standard
    /// input. No stored conversation is read or written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["conversation", "continue"])]
    pub(crate) history: Option<PathBuf>,

    /// A word that the retention policy and `tasks list` find the task by; may be given several times
    #[arg(long, value_name = "WORD")]
    pub(crate) tag: Vec<String>,

    /// Days to keep the task once it has ended, whatever the retention policy says
    #[arg(long, value_name = "DAYS")]
    pub(crate) keep_days: Option<u32>,

    /// Begin the task at this time, such as 2026-03-01T09:00:00Z, or after this long, such as 2h, and do not wait for it.
    /// `convoke serve` and `convoke resume` work on it then
    #[arg(long, value_name = "TIME", value_parser = parse_delay, allow_hyphen_values = true)]
    pub(crate) not_before: Option<Duration>,

    /// The distributed trace that the task continues, as W3C trace context writes it
    #[arg(
        long,
        value_name = "TRACEPARENT",
        env = "TRACEPARENT",
        hide_env_values = true
    )]
    pub(crate) trace_parent: Option<OsString>,

    #[command(flatten)]
    pub(crate) speaker: SpeakerArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The app folder
    pub(crate) app: PathBuf,

    #[command(flatten)]
    pub(crate) speaker: SpeakerArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// An app, the model that it thinks with, and where its tasks are kept.
#[derive(Debug, Args)]
pub(crate) struct AppArgs {
    /// The app folder
    pub(crate) app: PathBuf,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The app folders; all share one store
    #[arg(required = true, value_name = "APP")]
    pub(crate) apps: Vec<PathBuf>,

    /// Tasks that run at once, of all apps together [default: the largest `limits.concurrent_tasks` of the apps]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrent_tasks: Option<u32>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Listen on no address: only run the tasks that other processes submit
    #[arg(long, conflicts_with_all = ["listen", "settings"])]
    pub(crate) no_listen: bool,

    /// Serve an address that others can reach without tokens. The settings must also say `auth.required: false`
    #[arg(long)]
    pub(crate) without_auth: bool,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// The settings of the HTTP service.
/// An address to listen on.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no address; write one such as 127.0.0.1:8080"))
}

#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The service's settings: its address, who may call, and its limits [default: an open service on loopback]
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,

    /// The address to listen on, instead of the settings' one; port 0 takes a free port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) listen: Option<SocketAddr>,
}

/// A token of a service.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The service's settings, with `auth.jwt.secret`
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: PathBuf,

    /// The user: a UUID, or any name
    #[arg(long)]
    pub(crate) user: String,

    /// The user's role
    #[arg(long, value_enum, default_value_t = RoleArg::User)]
    pub(crate) role: RoleArg,

    /// An app that it is good for; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) app: Vec<String>,

    /// How long it is valid, such as 30m, 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub(crate) expires: Duration,
}

/// What is done with API keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key, and print it once: it is not stored
    Create {
        /// The service's settings, with `auth.keys_file`
        #[arg(long, value_name = "FILE")]
        settings: PathBuf,
        /// The user: a UUID, or any name
        #[arg(long)]
        user: String,
        /// The user's role
        #[arg(long, value_enum, default_value_t = RoleArg::User)]
        role: RoleArg,
        /// An app that it is good for; may be given several times [default: all]
        #[arg(long, value_name = "NAME")]
        app: Vec<String>,
        /// What it is for
        #[arg(long)]
        name: Option<String>,
        /// How long it is valid, such as 12h, 7d or 365d
        #[arg(long, value_name = "TIME", default_value = "90d", value_parser = parse_duration)]
        expires: Duration,
    },
    /// List all keys, oldest first
    List {
        /// The service's settings, with `auth.keys_file`
        #[arg(long, value_name = "FILE")]
        settings: PathBuf,
    },
    /// End a key from now on
    Revoke {
        /// The key's id, as it is listed
        id: String,
        /// The service's settings, with `auth.keys_file`
        #[arg(long, value_name = "FILE")]
        settings: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The app folder
    pub(crate) app: PathBuf,

    /// Also start the tool servers, and hold what the app says of tools and their arguments against them. Variables that
    /// the app reads must be set then
    #[arg(long)]
    pub(crate) connect: bool,

    /// The folder for the tool servers' data
    #[arg(
        long,
        value_name = "DIR",
        env = "CONVOKE_DATA",
        hide_env_values = true,
        default_value = ".convoke"
    )]
    pub(crate) data: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// The app folder
    pub(crate) app: PathBuf,

    /// Only cases whose title or file contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// At most so many cases, spread evenly over all of them, where a model is slow
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) sample: Option<u16>,

    /// Let the agents' models decide everything: skills are put away but for their examples, and what is judged is what was
    /// done, not in which words
    #[arg(long)]
    pub(crate) by_model: bool,

    /// Also write what came of the cases to this file, as `JUnit` XML for a build server
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Also show which intents were taken for which, and which agents, domains or skills
    #[arg(long)]
    pub(crate) confusion: bool,

    /// Say the same cases to a second configuration and show both side by side: `none` for no model but
    /// those that the app names itself, `URL#MODEL` for another model, or the folder of another app
    #[arg(long, value_name = "OTHER")]
    pub(crate) against: Option<String>,

    /// Cases under way at once
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent: u16,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List tasks, newest first
    List {
        /// Only tasks in this state; may be given several times
        #[arg(long, value_parser = task_state)]
        state: Vec<TaskState>,
        /// Only tasks of this user
        #[arg(long, value_name = "UUID")]
        user: Option<String>,
        /// Only tasks of this conversation
        #[arg(long, value_name = "UUID")]
        conversation: Option<String>,
        /// How many at most
        #[arg(long, default_value_t = 20)]
        limit: usize,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show one task: what was asked, where it stands, what came of it
    Show {
        /// The task's id, the beginning of it, or `last`
        id: String,
        /// As it stood after this step
        #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
        at: Option<u64>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// List every point of a task's journal, and where the task stood there
    History {
        /// The task's id, the beginning of it, or `last`
        id: String,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Take a task through its journal once more, without a model or a tool, and tell the first
    /// difference
    Replay {
        /// The task's id, the beginning of it, or `last`
        id: String,
        /// An app folder to replay it with [default: the app as it was when the task was begun]
        #[arg(long, value_name = "FOLDER")]
        app: Option<PathBuf>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Begin a new task at a point of another, with changes to its state if wanted
    Fork {
        /// The task's id, the beginning of it, or `last`
        id: String,
        /// After which step of the journal to begin
        #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
        at: u64,
        /// A field of the state to change; the value is JSON, or else a text. May be given several times
        #[arg(long, value_name = "FIELD=VALUE")]
        set: Vec<String>,
        /// An app folder to go on with [default: the app as it was when the task was begun]
        #[arg(long, value_name = "FOLDER")]
        app: Option<PathBuf>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Tell where two tasks, or two points of one, part
    Diff {
        /// A task, or a point of it: ID or ID@SEQ
        one: String,
        /// Another: ID or ID@SEQ
        other: String,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show every step of a task with its times
    Trace {
        /// The task's id, the beginning of it, or `last`
        id: String,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Follow a task: print what happens to it, event by event, until it ends
    Follow {
        /// The task's id, the beginning of it, or `last`
        id: String,
        /// Only events after this cursor, such as 7.2: the cursor of the last event that was seen
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Answer what a paused task asks
    Answer(AnswerArgs),
    /// Write tasks into a folder, to keep them or to move them to another store: those that have ended
    /// or wait for a person
    Export {
        /// The folder, which is empty, not there yet, or holds an export already
        dir: PathBuf,
        /// Only this task, and those that it started: its id, the beginning of it, or `last`. May be given
        /// several times
        #[arg(long, value_name = "ID")]
        task: Vec<String>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Bring in tasks that were exported from another store
    Import(ImportArgs),
    /// Let an app run that came with imported tasks, once it is shown what it would start, call and read
    Trust {
        /// The hash of its definition, or the beginning of it
        hash: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Remove ended tasks of an app whose time is over
    Prune {
        /// The app whose tasks are looked at, and whose retention policy holds for them
        #[arg(long, value_name = "FOLDER")]
        app: PathBuf,
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Print a task as a case of its app's evals: `convoke tasks record last >> my-app/evals/recorded.yaml`
    Record {
        /// The task's id, the beginning of it, or `last`
        id: String,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Call a task off
    Cancel {
        /// The task's id, the beginning of it, or `last`
        id: String,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// An export, and what of it is brought in.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The folder that `convoke tasks export` wrote
    pub(crate) dir: PathBuf,

    /// Unfinished tasks too, which go on here; the store that they come from must not go on with them
    #[arg(long)]
    pub(crate) take_over: bool,

    /// Let this definition run here, too: its hash, or the beginning of it. May be given several times
    #[arg(long, value_name = "HASH")]
    pub(crate) trust: Vec<String>,

    #[command(flatten)]
    pub(crate) limits: ImportLimits,

    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The task's id, the beginning of it, or `last`
    pub(crate) id: String,
    /// What to say to its question
    pub(crate) action: AnswerAction,
    /// The question's id, where there are several
    #[arg(long, value_name = "UUID")]
    pub(crate) question: Option<String>,
    /// Who answers; the user of this machine by default
    #[arg(long, value_name = "UUID")]
    pub(crate) user: Option<String>,
    /// In which role; the app says which roles may answer (`approvers`)
    #[arg(long, value_enum, default_value_t = RoleArg::Operator)]
    pub(crate) role: RoleArg,
    /// Why, or what else to mind; with `modify` and no --set, the arguments or the result to go on
    /// with, as JSON
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// With `modify`: a field of the workflow's state to change; the value is JSON, or else a text.
    /// May be given several times
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    /// With `snooze`: after which time to ask again, such as 90m or 2h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) pause: Option<Duration>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// The role in which somebody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// A user, who sees their own tasks
    User,
    /// An operator of the app
    Operator,
    /// An administrator
    Admin,
}

impl From<RoleArg> for UserRole {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::User => Self::User,
            RoleArg::Operator => Self::Operator,
            RoleArg::Admin => Self::Admin,
        }
    }
}

/// What can be said to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerAction {
    /// Go ahead
    Approve,
    /// Do not
    Reject,
    /// Go on with another value
    Modify,
    /// Ask again later, after the time given with --for
    Snooze,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// A to-do list for each user
    Todo {
        /// The SQLite file that holds the tasks [default: todo.db in the data folder]
        #[arg(long, value_name = "FILE")]
        db: Option<PathBuf>,
        #[command(flatten)]
        listen: ListenArgs,
    },
    /// Services in trouble, what was deployed, and what can be done about them
    Operations {
        /// The folder that holds the services' state and logs; a new one is filled with examples
        /// [default: operations in the data folder]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        #[command(flatten)]
        listen: ListenArgs,
    },
    /// A house: lights, heating, music, scenes, doors, an alarm and sensors
    Home {
        /// The SQLite file that holds the state of the house; a new one is furnished [default:
        /// home.db in the data folder]
        #[arg(long, value_name = "FILE")]
        db: Option<PathBuf>,
        #[command(flatten)]
        listen: ListenArgs,
    },
    /// A year of a shop: customer behavior, inventory, pricing, marketing and sales, to be asked
    Retail {
        /// The SQLite file that holds the shop's data; a new one is filled [default: retail.db in the
        /// data folder]
        #[arg(long, value_name = "FILE")]
        db: Option<PathBuf>,
        /// How long a question waits for its query; one that takes longer is polled for, with 0 each
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 1_500)]
        answer_within_ms: u64,
        #[command(flatten)]
        listen: ListenArgs,
    },
}

/// How a built-in tool server is reached, and where its data is if nothing else is said.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Listen on this address over streamable HTTP instead of standard input and output
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) http: Option<SocketAddr>,

    /// The folder for data
    #[arg(
        long,
        value_name = "DIR",
        env = "CONVOKE_DATA",
        hide_env_values = true,
        default_value = ".convoke"
    )]
    pub(crate) data: PathBuf,
}

/// Reads a word as one of the model's own values, so that the command line spells them as YAML does.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
        .map_err(|error| error.to_string())
}

fn channel(text: &str) -> Result<Channel, String> {
    word(text)
}

fn tool_mode(text: &str) -> Result<ToolMode, String> {
    word(text)
}

fn task_state(text: &str) -> Result<TaskState, String> {
    word(text)
}
