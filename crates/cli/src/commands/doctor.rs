//! `convoke doctor`: looks for what keeps Convoke or an app from working here, and says what to do about it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use convoke::{App, RuntimeError, StoreChoice, StoreError, tool_servers};
use convoke_app::ENV_FILE;
use convoke_model::{LlmConfig, Transport};
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpStream;

use crate::cli::DoctorArgs;
use crate::exit::Exit;
use crate::output::{self, FailureReport, Text, TextStyle};
use crate::progress::Spinner;
use crate::start;

/// Time limit of a connection to a model's server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Programs that tool servers are commonly written for, and what they are needed for.
const PROGRAMS: [(&str, &str); 4] = [
    ("python3", "tool servers in Python"),
    ("npx", "tool servers in JavaScript"),
    ("cargo", "building Convoke"),
    ("cc", "building Convoke"),
];

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Ok,
    /// It works, but not as well as it could.
    Warning,
    Problem,
}

/// What was looked at, and what came of it.
#[derive(Debug, Serialize)]
struct Finding {
    /// What it belongs to: `program`, `toolchain`, `data`, `store`, `app`, `server` or `model`.
    area: &'static str,
    health: Health,
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    fn ok(area: &'static str, message: impl Into<String>) -> Self {
        Self {
            area,
            health: Health::Ok,
            message: message.into(),
            advice: None,
        }
    }

    fn warning(area: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            health: Health::Warning,
            advice: Some(advice.into()),
            ..Self::ok(area, message)
        }
    }

    fn problem(area: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            health: Health::Problem,
            ..Self::warning(area, message, advice)
        }
    }
}

pub(crate) async fn run(args: &DoctorArgs, json: bool) -> anyhow::Result<Exit> {
    let mut findings = vec![program()];
    let app = match &args.app {
        Some(folder) => app(args, folder, &mut findings)?,
        None => None,
    };
    findings.extend(toolchain(app.as_ref()));
    let data = data(&args.store.data);
    let has_data = data.health == Health::Ok;
    findings.push(data);
    findings.push(store(args, app.as_ref()));
    if let Some(app) = &app {
        let spinner = Spinner::new("asking tool servers and models");
        if has_data {
            start::loader(&args.store.data).make_data_folder(app);
        }
        findings.extend(spinner.wait(servers(app)).await);
        findings.extend(spinner.wait(models(app)).await);
    }
    let problems = of_health(&findings, Health::Problem);
    if json {
        output::json_line(&json!({ "problems": problems, "findings": findings }));
    } else {
        findings.iter().for_each(show);
        let warnings = of_health(&findings, Health::Warning);
        output::line(format!("problems: {problems}, warnings: {warnings}"));
    }
    Ok(if problems == 0 {
        Exit::Done
    } else {
        Exit::NotDone
    })
}

fn of_health(findings: &[Finding], health: Health) -> usize {
    let of = findings.iter().filter(|finding| finding.health == health);
    of.count()
}

fn show(finding: &Finding) {
    let (style, word) = match finding.health {
        Health::Ok => (TextStyle::Green, "ok"),
        Health::Warning => (TextStyle::Yellow, "warning"),
        Health::Problem => (TextStyle::Red, "problem"),
    };
    let text = Text::new()
        .add(style, format!("{word:<8}"))
        .plain(format!("{:<10}", finding.area))
        .revealed(&finding.message);
    output::line(text);
    if let Some(advice) = &finding.advice {
        output::line(Text::from(format!("{:18}-> ", "")).revealed(advice));
    }
}

fn program() -> Finding {
    let version = env!("CARGO_PKG_VERSION");
    match std::env::current_exe() {
        Ok(path) => Finding::ok("program", format!("convoke {version}, {}", path.display())),
        Err(error) => Finding::warning(
            "program",
            format!("convoke {version} does not know its own path: {error}"),
            "tool servers with the command `convoke` are looked for in PATH",
        ),
    }
}

/// Reads the app, and tells of problems with its files.
fn app(
    args: &DoctorArgs,
    folder: &Path,
    findings: &mut Vec<Finding>,
) -> anyhow::Result<Option<App>> {
    if let Some(finding) = env_file(folder) {
        findings.push(finding);
    }
    let read = start::adjusting_loader(&args.store.data, &args.model)?.load_with_evals(folder);
    let shown = folder.display();
    match read {
        Ok(loaded) => {
            let app = loaded.app;
            let name = &app.config.name;
            findings.push(match loaded.warnings.len() {
                0 => Finding::ok("app", format!("{name} has no errors")),
                number => Finding::warning(
                    "app",
                    format!("{name} has {number} warnings"),
                    format!("`convoke check {shown}` shows them"),
                ),
            });
            Ok(Some(app))
        }
        Err(RuntimeError::App(problems)) => {
            let first = problems.iter().next().map(ToString::to_string);
            findings.push(Finding::problem(
                "app",
                format!(
                    "{shown} cannot be read ({}): {}",
                    problems.summary(),
                    first.unwrap_or_default()
                ),
                format!("`convoke check --connect {shown}` shows all problems"),
            ));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// A file of secrets that others can read.
fn env_file(folder: &Path) -> Option<Finding> {
    let path = folder.join(ENV_FILE);
    let mode = fs::metadata(&path).ok()?.permissions().mode();
    let shown = path.display();
    let of_others = mode & 0o077;
    Some(if of_others == 0 {
        Finding::ok("app", format!("{shown} is read, and only by its owner"))
    } else {
        Finding::warning(
            "app",
            format!("{shown} can be read by others"),
            format!("`chmod 600 {shown}`"),
        )
    })
}

/// The programs that the app's tool servers need; without an app, those that any may need.
fn toolchain(app: Option<&App>) -> Vec<Finding> {
    let used: BTreeSet<&str> = app
        .into_iter()
        .flat_map(|app| &app.servers)
        .filter_map(|server| match &server.transport {
            Transport::Stdio(config) => Some(config.command.as_str()),
            Transport::Sse(_) | Transport::Http(_) => None,
        })
        .collect();
    let findings = PROGRAMS.iter().filter_map(|(program, purpose)| {
        if app.is_some() && !used.contains(program) {
            return None;
        }
        Some(match (find_program(program), app) {
            (Some(path), _) => Finding::ok("toolchain", format!("{program} is {path}")),
            (None, Some(_)) => Finding::problem(
                "toolchain",
                format!("{program} is not in PATH; a tool server of the app needs it"),
                format!("install {program}, or name its full path as the server's `command`"),
            ),
            (None, None) => Finding::warning(
                "toolchain",
                format!("{program} is not in PATH"),
                format!("it is needed for {purpose} only"),
            ),
        })
    });
    findings.collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is what tool servers are looked for in"
)]
fn find_program(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let mut folders = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = folders.find(|program| {
        fs::metadata(program)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    });
    found.map(|program| program.display().to_string())
}

/// Whether the data folder can be written.
fn data(folder: &Path) -> Finding {
    let shown = folder.display();
    let advice = "make the folder writable, or name another with --data or CONVOKE_DATA";
    let is_new = !folder.exists();
    let written = fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    if is_new {
        // Looking leaves nothing behind; whoever needs the folder makes it.
        let _ = fs::remove_dir(folder);
    }
    match written {
        Ok(_) => Finding::ok("data", format!("{shown} can be written")),
        Err(error) => Finding::problem(
            "data",
            format!("{shown} cannot be written: {error}"),
            advice,
        ),
    }
}

/// Whether the store can be opened. One that is not there yet is not made.
fn store(args: &DoctorArgs, app: Option<&App>) -> Finding {
    let choice = match app {
        Some(app) => start::store_for(&args.store, app),
        None => match &args.store.store {
            Some(url) => StoreChoice::of_url(url, Path::new("")),
            None => Ok(StoreChoice::in_folder(&args.store.data)),
        },
    };
    let choice = match choice {
        Ok(choice) => choice,
        Err(error) => {
            let advice = "name an SQLite file with --store, or in the app's `store`";
            return Finding::problem("store", reported(error), advice);
        }
    };
    let StoreChoice::Sqlite(path) = &choice else {
        return Finding::ok("store", "tasks are stored in memory only");
    };
    let shown = path.display();
    if !path.exists() {
        let message = format!("{shown} is not there yet; the first task makes it");
        return Finding::ok("store", message);
    }
    match choice.open() {
        Ok(_) => Finding::ok("store", format!("{shown} can be opened")),
        Err(error) => {
            let advice = match &error {
                RuntimeError::Open {
                    source: StoreError::ReadOnly,
                    ..
                } => "make the file and its folder writable".to_owned(),
                RuntimeError::Open {
                    source: StoreError::Full(_),
                    ..
                } => "free space on its disk".to_owned(),
                RuntimeError::Open {
                    source: StoreError::TooNew { .. },
                    ..
                } => "use the Convoke that wrote it, or a newer one".to_owned(),
                RuntimeError::Open {
                    source: StoreError::Unavailable(_),
                    ..
                } => {
                    "it may be used by another program, or its disk may have failed: try again; the file is left as it is"
                        .to_owned()
                }
                _ => format!(
                    "restore it from a copy, or move {shown} away: the next run begins with an empty one"
                ),
            };
            Finding::problem("store", reported(error), advice)
        }
    }
}

fn reported(error: RuntimeError) -> String {
    FailureReport::of(&error.into()).message
}

/// Whether every tool server of the app starts and lists its tools.
async fn servers(app: &App) -> Vec<Finding> {
    let servers = tool_servers(app, std::env::current_exe().ok());
    let asked = servers.names().map(|name| {
        let servers = &servers;
        async move {
            match servers.tools(name).await {
                Ok(tools) => Finding::ok(
                    "server",
                    format!("{name} works, with {} tools", tools.len()),
                ),
                Err(error) => {
                    let failure = servers.last_failure(name);
                    let last = failure.and_then(|failure| failure.error_output.last().cloned());
                    let said = last.map(|line| format!(": {line}")).unwrap_or_default();
                    let message = app.redact(&format!("{error}{said}"));
                    let advice = format!(
                        "`convoke check --connect {}` shows where it is named and all that it said",
                        app.folder.display()
                    );
                    Finding::problem("server", message, advice)
                }
            }
        }
    });
    let findings = futures::future::join_all(asked).await;
    servers.shutdown().await;
    findings
}

/// Whether the servers of the app's models accept connections. No model is asked anything.
async fn models(app: &App) -> Vec<Finding> {
    let of_agents = app
        .agents
        .iter()
        .flat_map(|agent| agent.llm_config.iter().chain(&agent.fallback_models));
    let models = app.config.models.values().chain(of_agents);
    let endpoints: BTreeSet<&str> = models.map(|model: &LlmConfig| &*model.endpoint).collect();
    let asked = endpoints.into_iter().map(|endpoint| async move {
        let Some((host, port)) = host_and_port(endpoint) else {
            let message = app.redact(&format!("{endpoint} is no address"));
            let advice = "write http://HOST:PORT/v1";
            return Finding::problem("model", message, advice);
        };
        let place = app.redact(&format!("{host}:{port}"));
        let connecting = TcpStream::connect((host.as_str(), port));
        match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok(_)) => Finding::ok("model", format!("{place} accepts connections")),
            failed => {
                let why = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("no answer within {CONNECT_TIMEOUT:?}"),
                };
                Finding::problem(
                    "model",
                    format!("{place} cannot be reached: {why}"),
                    "start the model's server, or change its `endpoint`; requests that a skill covers need no model",
                )
            }
        }
    });
    futures::future::join_all(asked).await
}

/// The host and the port of a URL.
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let place = rest.split(['/', '?', '#']).next()?;
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    if let Some(rest) = place.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None => default,
        };
        return Some((host.to_owned(), port));
    }
    match place.rsplit_once(':') {
        Some((host, port)) => Some((host.to_owned(), port.parse().ok()?)),
        None => Some((place.to_owned(), default)).filter(|(host, _)| !host.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_an_endpoint_is_read_as_http_clients_read_it() {
        let place = |url| host_and_port(url).map(|(host, port)| format!("{host} {port}"));
        for (url, expected) in [
            ("http://127.0.0.1:11434/v1", Some("127.0.0.1 11434")),
            (
                "https://me:key@models.example/v1",
                Some("models.example 443"),
            ),
            ("http://[::1]:8080", Some("::1 8080")),
            ("http://[::1]/v1", Some("::1 80")),
            ("http:///v1", None),
            ("ftp://host", None),
            ("host", None),
        ] {
            assert_eq!(place(url).as_deref(), expected, "{url}");
        }
    }
}
