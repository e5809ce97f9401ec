//! The log: printed to standard error, with secrets redacted, as lines for people or as JSON.

mod json;

use std::fmt;
use std::sync::{LazyLock, PoisonError, RwLock};

use convoke_app::{App, Secrets};
use convoke_model::Redaction;
use convoke_server::AUDIT_TARGET;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::output::{self, TextStyle};

/// Redaction rules of the apps in this process. Until one is loaded, everything that may be secret is redacted.
static WANTED: LazyLock<RwLock<Vec<RedactionRules>>> = LazyLock::new(RwLock::default);

#[derive(Clone, Default, PartialEq)]
struct RedactionRules {
    redaction: Redaction,
    /// Values from the environment.
    secrets: Secrets,
}

/// The form of the log: lines for people, or a JSON object a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Starts logging.
pub(crate) fn init(verbose: u8, format: LogFormat) {
    // The MCP library logs arguments and results of tools, which may be private, and what becomes an error here anyway.
    let default = match verbose {
        0 => "error,rmcp=off",
        1 => "info,rmcp=warn",
        2 => "debug,rmcp=warn",
        _ => "trace,rmcp=warn",
    };
    let filter = EnvFilter::try_from_env("CONVOKE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // Audit lines are written whatever the verbosity.
    let audit = format!("{AUDIT_TARGET}=info").parse();
    let filter = audit.into_iter().fold(filter, EnvFilter::add_directive);
    tracing_subscriber::registry()
        .with(filter)
        .with(LogLines { format })
        .init();
}

/// Adds an app's redaction rules to those of other apps and earlier editions, whose tasks may still run.
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

/// Redacts a log line by the rules of all apps.
fn clean(line: &str) -> String {
    let wanted = WANTED.read().unwrap_or_else(PoisonError::into_inner);
    if wanted.is_empty() {
        return RedactionRules::default().clean(line);
    }
    let cleaned = wanted.iter();
    cleaned.fold(line.to_owned(), |line, rules| rules.clean(&line))
}

/// Prints each event as a line, with the task and the trace that it belongs to.
struct LogLines {
    format: LogFormat,
}

/// What a span belongs to.
#[derive(Clone, Default)]
struct LoggedSpan {
    trace_id: Option<String>,
    task: Option<String>,
}

impl<S> Layer<S> for LogLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut found = LoggedSpan::default();
        attributes.record(&mut found);
        if let (Some(_), Some(span)) = (&found.trace_id, context.span(id)) {
            span.extensions_mut().insert(found);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut time = String::new();
        if SystemTime.format_time(&mut Writer::new(&mut time)).is_err() {
            return;
        }
        let spans = context.event_scope(event).into_iter().flatten();
        let mut belongs_to = LoggedSpan::default();
        for span in spans {
            if let Some(logged) = span.extensions().get::<LoggedSpan>() {
                belongs_to.trace_id = belongs_to.trace_id.or_else(|| logged.trace_id.clone());
                belongs_to.task = belongs_to.task.or_else(|| logged.task.clone());
            }
        }
        match self.format {
            LogFormat::Text => print_text(&time, event, &belongs_to),
            LogFormat::Json => output::log_json(&json::line(&time, event, &belongs_to)),
        }
    }
}

fn print_text(time: &str, event: &Event<'_>, belongs_to: &LoggedSpan) {
    let mut words = String::new();
    let written = DefaultFields::new().format_fields(Writer::new(&mut words), event);
    if written.is_err() {
        return;
    }
    let mut words = if is_audit(event) {
        format!("{AUDIT_TARGET} {}", words.trim())
    } else {
        clean(words.trim())
    };
    if let Some(trace) = &belongs_to.trace_id {
        words.push_str(" trace=");
        words.push_str(trace);
    }
    let level = *event.metadata().level();
    let look = match level {
        Level::ERROR => TextStyle::Red,
        Level::WARN => TextStyle::Yellow,
        Level::INFO => TextStyle::Green,
        _ => TextStyle::Dimmed,
    };
    output::log_line(time, (look, level.as_str()), &words);
}

/// Whether it is a line of the audit log. Those are not redacted: they name things by their ids, which may look like numbers
/// and keys.
fn is_audit(event: &Event<'_>) -> bool {
    event.metadata().target() == AUDIT_TARGET
}

impl Visit for LoggedSpan {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let found = match field.name() {
            "trace_id" => &mut self.trace_id,
            "convoke.task.id" => &mut self.task,
            _ => return,
        };
        *found = Some(format!("{value:?}"));
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
    fn log_lines_contain_no_personal_data_and_no_keys() {
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
        let hash = convoke_app::StoredApp::read(&files).unwrap().hash;
        let app = App::load_stored(&files, &hash, "".as_ref(), &environment, &none).unwrap();
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
