//! The log: to standard error, so that standard output stays what was asked for, and without what a log
//! should not tell.

use std::io::{self, Write};
use std::sync::{LazyLock, PoisonError, RwLock};

use convoke_app::{App, Secrets};
use convoke_model::Redaction;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::output::{self, TextStyle};

/// What the apps that run in this process want taken out. Until one is known, everything is that may be.
static WANTED: LazyLock<RwLock<Vec<RedactionRules>>> = LazyLock::new(RwLock::default);

#[derive(Clone, Default, PartialEq)]
struct RedactionRules {
    redaction: Redaction,
    /// Values that came from the environment.
    secrets: Secrets,
}

/// Begins to log.
pub(crate) fn init(verbose: u8) {
    // The MCP library logs what tools are given and say, which may be anybody's data.
    let default = match verbose {
        0 => "error",
        1 => "info,rmcp=warn",
        2 => "debug,rmcp=warn",
        _ => "trace,rmcp=warn",
    };
    let filter = EnvFilter::try_from_env("CONVOKE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines)
        .with_target(false)
        // What is ours in a line is coloured where it is printed, and only there.
        .with_ansi(false)
        .with_level(false)
        .init();
}

/// Takes out of the log what this app wants, beside what other apps and earlier editions of it do: their tasks may still
/// run.
pub(crate) fn follow(app: &App) {
    let rules = RedactionRules {
        redaction: app.config.redaction.clone(),
        secrets: app.secrets.clone(),
    };
    let mut wanted = WANTED.write().unwrap_or_else(PoisonError::into_inner);
    if !wanted.contains(&rules) {
        wanted.push(rules);
    }
}

/// A line of the log as all apps want it.
fn clean(line: &str) -> String {
    let wanted = WANTED.read().unwrap_or_else(PoisonError::into_inner);
    if wanted.is_empty() {
        return RedactionRules::default().clean(line);
    }
    let cleaned = wanted.iter();
    cleaned.fold(line.to_owned(), |line, rules| rules.clean(&line))
}

/// Makes a writer for each line.
struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line::new(Level::ERROR)
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line {
        Line::new(*metadata.level())
    }
}

/// A line that is written once it is whole.
struct Line {
    level: Level,
    bytes: Vec<u8>,
}

impl Line {
    fn new(level: Level) -> Self {
        Self {
            level,
            bytes: Vec::new(),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let line = String::from_utf8_lossy(&self.bytes);
        let (time, words) = line.trim_end().split_once(' ').unwrap_or(("", &line));
        let words = clean(words.trim_start());
        let look = match self.level {
            Level::ERROR => TextStyle::Red,
            Level::WARN => TextStyle::Yellow,
            Level::INFO => TextStyle::Green,
            _ => TextStyle::Dimmed,
        };
        output::log_line(time, (look, self.level.as_str()), &words);
    }
}

impl RedactionRules {
    fn clean(&self, line: &str) -> String {
        self.redaction.text(&self.secrets.redact(line))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_line_of_the_log_tells_neither_of_people_nor_of_keys() {
        let agent = "name: a\nrole: R.\nsystem_prompt: P.\nllm_config:\n  endpoint: http://127.0.0.1/v1\n  \
                     model: m\n  api_key: ${KEY}\n";
        let files = [
            (
                "convoke.yaml".to_owned(),
                "name: app\nredaction: {remove: [email_addresses]}\n".to_owned(),
            ),
            ("agents/a.yaml".to_owned(), agent.to_owned()),
        ]
        .into();
        let environment = |_: &str| Some("hush-hush".to_owned());
        let none = BTreeSet::new();
        let hash = convoke_app::KeptApp::read(&files).unwrap().hash;
        let app = App::load_kept(&files, &hash, "".as_ref(), &environment, &none).unwrap();
        let line = "wrote to ann@example.org and +49 170 1234567 with hush-hush\n";
        assert_eq!(
            RedactionRules::default().clean(line),
            "wrote to [address] and [number] with hush-hush\n"
        );
        let wanted = RedactionRules {
            redaction: app.config.redaction,
            secrets: app.secrets,
        };
        assert_eq!(
            wanted.clean(line),
            "wrote to [address] and +49 170 1234567 with ${KEY}\n"
        );
    }
}
