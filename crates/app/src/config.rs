//! `convoke.yaml`: settings of the whole app. Only the name is required.

use std::collections::BTreeMap;
use std::fmt;

use convoke_model::{
    AggregatorOptionsFields, Approvers, DispatchOptionsFields, LlmConfig, Name, Redaction, Report,
    RouterOptionsFields, Rules,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the whole app.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppConfig {
    /// The app's name.
    pub name: Name,
    /// The app's purpose, in a sentence, shown on its agent card.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The app's own version.
    #[serde(default = "default_version")]
    pub version: String,
    /// How the target of a request is chosen.
    #[serde(default)]
    pub decide: DecideConfig,
    /// How several requests in one message are executed.
    #[serde(default)]
    pub dispatch: DispatchOptionsFields,
    /// How results of several agents become one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregator: Option<AggregatorOptionsFields>,
    /// The app's limits.
    #[serde(default)]
    pub limits: Limits,
    /// Where tasks are stored; a file in the app's data folder if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreConfig>,
    /// Models by name, shared by agents and decisions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<Name, LlmConfig>,
    /// The minimum results of the app's evals.
    #[serde(default)]
    pub evals: EvalBar,
    /// Fixed texts of the app.
    #[serde(default)]
    pub messages: Messages,
    /// What is removed from logs and traces.
    #[serde(default)]
    pub redaction: Redaction,
    /// Who may answer the questions of tasks, where a tool or a node does not say otherwise.
    #[serde(default)]
    pub approvers: Approvers,
}

impl AppConfig {
    /// A configuration with defaults for everything but the name.
    pub fn named(name: Name) -> Self {
        Self {
            name,
            description: String::new(),
            version: default_version(),
            decide: DecideConfig::default(),
            dispatch: DispatchOptionsFields::default(),
            aggregator: None,
            limits: Limits::default(),
            store: None,
            models: BTreeMap::new(),
            evals: EvalBar::default(),
            messages: Messages::default(),
            redaction: Redaction::default(),
            approvers: Approvers::default(),
        }
    }
}

impl fmt::Debug for AppConfig {
    /// Hides fields that may contain keys and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppConfig")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("decide", &self.decide)
            .field("limits", &self.limits)
            .field("models", &self.models.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// How the target of a request is chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DecideConfig {
    /// Minimum confidence of a local decision, from 0 to 1.
    pub threshold: f64,
    /// Whether one message may contain several requests.
    pub several: Several,
    /// Requests that the app does not support. The classifier learns to reject them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub out_of_scope: Vec<String>,
    /// Polite phrases around a request, in addition to the built-in ones.
    #[serde(skip_serializing_if = "PolitenessConfig::is_empty")]
    pub politeness: PolitenessConfig,
    /// Named parts of sentences. The phrase `list` is used as `<list>` in sentences and other phrases.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub phrases: BTreeMap<Name, String>,
    /// How a model decides, if one is configured and the local decision is uncertain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterOptionsFields>,
    /// Template of the question when several targets are possible, over `message` and `candidates` (each
    /// with `name` and `description`).
    pub clarify: String,
    /// Template of the reply when nothing matches, over `message` and `skills` (each with `name`,
    /// `description` and `examples`).
    pub unknown: String,
}

/// Whether one message may contain several requests, as in "turn on the lights and play jazz".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Several {
    /// A message is one request.
    Never,
    /// If the message as a whole matches no sentence, and each part matches one.
    #[default]
    Careful,
    /// If each part matches a sentence, even if a slot could match the whole message.
    Eager,
}

impl Default for DecideConfig {
    fn default() -> Self {
        Self {
            threshold: 0.7,
            several: Several::default(),
            out_of_scope: Vec::new(),
            politeness: PolitenessConfig::default(),
            phrases: BTreeMap::new(),
            router: None,
            clarify: "{% if candidates | length == 1 %}Do you mean this: {{ candidates[0].description }}?{% else %}\
                      I am not sure which of these you mean:\
                      {% for candidate in candidates %}\n- {{ candidate.description }}{% endfor %}{% endif %}"
                .to_owned(),
            unknown: "That is not something I can help with. What I can do:\
                      {% for skill in skills %}\n- {{ skill.description }}{% endfor %}"
                .to_owned(),
        }
    }
}

/// Polite phrases around a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolitenessConfig {
    /// Phrases before a request, such as `would you be so kind and`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Phrases after a request, such as `when you get a minute`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

impl PolitenessConfig {
    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

/// The app's limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Limit of a user's message, in characters.
    pub message_characters: u32,
    /// Limit of earlier messages passed with a request.
    pub history_messages: u32,
    /// Seconds for a whole task.
    pub task_seconds: u32,
    /// Seconds for one tool call.
    pub tool_seconds: u32,
    /// Seconds after the first failure to reach a tool server, within which it is tried again.
    pub tool_reach_seconds: u32,
    /// Seconds for one run of an agent.
    pub agent_seconds: u32,
    /// Limit of data domains queried for one question.
    pub domains_per_question: u32,
    /// Limit of candidates listed in a clarifying question.
    pub reference_candidates: u32,
    /// Limit of tasks processed at a time by one process.
    pub concurrent_tasks: u32,
    /// Seconds without a message after which a conversation is idle.
    pub conversation_idle_seconds: u32,
    /// Seconds that a question to a person stays open.
    pub question_seconds: u32,
    /// Claims of a task without progress after which it is set aside.
    pub max_claims: u32,
    /// Seconds that a worker owns a task without renewing its lease.
    pub lease_seconds: u32,
    /// Limit of waiting tasks, above which new ones are rejected.
    pub backlog: u32,
    /// Seconds for which stopping waits for calls under way.
    pub shutdown_seconds: u32,
    /// Seconds after which an earlier edition of the app that no task uses is closed, with its tool servers.
    pub edition_idle_seconds: u32,
    /// Days that an ended task is stored.
    pub retention_days: u32,
    /// Seconds between two sweeps of expired tasks, while the app is served.
    pub prune_seconds: u32,
    /// Larger values in a task's journal, in bytes, are stored beside it, once each.
    pub inline_bytes: u32,
    /// Limit of changes that wait to be written to the store, above which a change fails as `store.unavailable`.
    pub queued_writes: u32,
    /// Limit of one attachment of a message, in bytes.
    pub attachment_bytes: u32,
    /// Characters of an attached text that a model is shown.
    pub attachment_characters: u32,
    /// Limit of one message from a tool server and of one tool result, in bytes.
    pub tool_message_bytes: u32,
    /// Limit of JSON values in one such message or result.
    pub tool_message_values: u32,
    /// Limit of the work of checking a tool's arguments, in steps. A step is one schema applied to one
    /// value.
    pub schema_steps: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_characters: 2_000,
            history_messages: 50,
            task_seconds: 60,
            tool_seconds: 50,
            tool_reach_seconds: 5,
            agent_seconds: 30,
            domains_per_question: 5,
            reference_candidates: 5,
            concurrent_tasks: 64,
            conversation_idle_seconds: 3_600,
            question_seconds: 86_400,
            max_claims: 5,
            lease_seconds: 10,
            backlog: 10_000,
            shutdown_seconds: 5,
            edition_idle_seconds: 60,
            retention_days: 7,
            prune_seconds: 3_600,
            inline_bytes: 64 * 1024,
            queued_writes: 100_000,
            attachment_bytes: 16 * 1024 * 1024,
            attachment_characters: 20_000,
            tool_message_bytes: 16 * 1024 * 1024,
            tool_message_values: 250_000,
            schema_steps: 500_000,
        }
    }
}

/// Where tasks are stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Path of an SQLite file, relative to the app folder, or `memory` to keep nothing.
    pub url: String,
}

impl fmt::Debug for StoreConfig {
    /// Hides the address, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreConfig").finish_non_exhaustive()
    }
}

/// The share of eval cases, from 0 to 1, that must pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvalBar {
    /// Cases with the right intent.
    pub intents: f64,
    /// Cases with the right agents, domains or skills.
    pub targets: f64,
    /// Cases with the right slots.
    pub slots: f64,
    /// Cases with the right tool calls.
    pub calls: f64,
    /// Cases with the right reply.
    pub replies: f64,
    /// Cases whose answer has the right sources, confidence and suggestions, and is partial or not as
    /// expected.
    pub answers: f64,
}

impl Default for EvalBar {
    fn default() -> Self {
        Self {
            intents: 0.95,
            targets: 0.95,
            slots: 0.95,
            calls: 0.95,
            replies: 0.95,
            answers: 0.95,
        }
    }
}

/// Fixed texts of the app. All are templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Messages {
    /// An internal error.
    pub failure: String,
    /// A tool refused or could not be reached; over `error` and `code`.
    pub tool_failure: String,
    /// Everything was done, but the reply could not be written; over `tools`, the tools that did it.
    pub done: String,
    /// An error after something was done; over `tools`, the tools that did it.
    pub unfinished: String,
    /// The time limit was reached without a result.
    pub deadline: String,
    /// Appended to an incomplete answer; over `missing`, what did not answer.
    pub partial: String,
    /// Appended to an answer that does not use all of the question; over `unused`, the parts that it does not use.
    pub unused: String,
    /// The answer failed the app's check, even after a refinement.
    pub check_failed: String,
    /// The message was empty.
    pub empty: String,
    /// The message was too long; over `limit`.
    pub too_long: String,
    /// Too many requests at once.
    pub busy: String,
    /// A tool call needs approval; over `tool`, `arguments` and `details`, the arguments in words.
    pub approval: String,
    /// A person rejected the call.
    pub rejected: String,
    /// A question was not answered in time.
    pub expired: String,
    /// The task was canceled.
    pub canceled: String,
}

impl Default for Messages {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            failure: text("Sorry, something went wrong on my side. Please try again in a moment."),
            tool_failure: text("Sorry, I could not do that: {{ error }}"),
            done: text("Done: {{ tools | join(', ') }}."),
            unfinished: text(
                "This was done: {{ tools | join(', ') }}. Then something went wrong on my side, and the rest was not done.",
            ),
            deadline: text(
                "Sorry, this is taking longer than it should. Please try again in a moment.",
            ),
            partial: text(
                "I got no answer from {{ missing | join(' and ') }}, so this is not complete.",
            ),
            unused: text("I could not take this into account: “{{ unused | join('”, “') }}”."),
            check_failed: text(
                "I could not put together an answer that I am sure of. Could you ask in other words?",
            ),
            empty: text("I did not get any text. What can I do for you?"),
            too_long: text(
                "That is more than I can read at once. Please keep it to {{ limit }} characters.",
            ),
            busy: text("I have a lot to do right now. Please try again in a moment."),
            approval: text("May I call {{ tool }}{% if details %} with {{ details }}{% endif %}?"),
            rejected: text("All right, I have left everything as it was."),
            expired: text("I did not hear back in time, so I have left everything as it was."),
            canceled: text("Stopped, as you asked."),
        }
    }
}

impl Messages {
    /// Every message with its key.
    pub(crate) fn all(&self) -> [(&'static str, &str); 15] {
        [
            ("failure", &self.failure),
            ("tool_failure", &self.tool_failure),
            ("done", &self.done),
            ("unfinished", &self.unfinished),
            ("deadline", &self.deadline),
            ("partial", &self.partial),
            ("unused", &self.unused),
            ("check_failed", &self.check_failed),
            ("empty", &self.empty),
            ("too_long", &self.too_long),
            ("busy", &self.busy),
            ("approval", &self.approval),
            ("rejected", &self.rejected),
            ("expired", &self.expired),
            ("canceled", &self.canceled),
        ]
    }
}

fn default_version() -> String {
    "0.1.0".to_owned()
}

impl Limits {
    fn all(&self) -> [(&'static str, u32); 25] {
        [
            ("message_characters", self.message_characters),
            ("history_messages", self.history_messages),
            ("task_seconds", self.task_seconds),
            ("tool_seconds", self.tool_seconds),
            ("tool_reach_seconds", self.tool_reach_seconds),
            ("agent_seconds", self.agent_seconds),
            ("domains_per_question", self.domains_per_question),
            ("reference_candidates", self.reference_candidates),
            ("concurrent_tasks", self.concurrent_tasks),
            ("conversation_idle_seconds", self.conversation_idle_seconds),
            ("question_seconds", self.question_seconds),
            ("max_claims", self.max_claims),
            ("lease_seconds", self.lease_seconds),
            ("backlog", self.backlog),
            ("shutdown_seconds", self.shutdown_seconds),
            ("edition_idle_seconds", self.edition_idle_seconds),
            ("retention_days", self.retention_days),
            ("prune_seconds", self.prune_seconds),
            ("inline_bytes", self.inline_bytes),
            ("queued_writes", self.queued_writes),
            ("attachment_bytes", self.attachment_bytes),
            ("attachment_characters", self.attachment_characters),
            ("tool_message_bytes", self.tool_message_bytes),
            ("tool_message_values", self.tool_message_values),
            ("schema_steps", self.schema_steps),
        ]
    }
}

fn check_share(report: &mut Report, field: &str, code: &'static str, value: f64) {
    let message = format!("{field} must lie between 0 and 1, not {value}");
    report.require((0.0..=1.0).contains(&value), field, code, message);
}

impl Rules for AppConfig {
    fn rules(&self, report: &mut Report) {
        report.within("approvers", |report| self.approvers.rules(report));
        report.within("decide", |report| {
            check_share(
                report,
                "threshold",
                "config.threshold_range",
                self.decide.threshold,
            );
            report.within("out_of_scope", |report| {
                for (index, text) in self.decide.out_of_scope.iter().enumerate() {
                    let message = "the text is empty; write what a user would say";
                    report.require(!text.trim().is_empty(), index, "config.text_empty", message);
                }
            });
            report.within("politeness", |report| {
                let politeness = &self.decide.politeness;
                for (field, texts) in [("before", &politeness.before), ("after", &politeness.after)]
                {
                    report.within(field, |report| {
                        for (index, text) in texts.iter().enumerate() {
                            let message = "the text is empty; write one or more words";
                            let says = text.chars().any(char::is_alphanumeric);
                            report.require(says, index, "config.text_empty", message);
                        }
                    });
                }
            });
            if let Some(router) = &self.decide.router {
                report.within("router", |report| router.rules(report));
            }
            for (field, text) in [
                ("clarify", &self.decide.clarify),
                ("unknown", &self.decide.unknown),
            ] {
                let message =
                    format!("{field} is empty; leave the key out to use the default text");
                report.require(!text.trim().is_empty(), field, "config.text_empty", message);
            }
        });
        report.within("dispatch", |report| self.dispatch.rules(report));
        if let Some(aggregator) = &self.aggregator {
            report.within("aggregator", |report| aggregator.rules(report));
        }
        report.within("limits", |report| {
            for (field, value) in self.limits.all() {
                let message = format!("{field} must be at least 1");
                report.require(value > 0, field, "config.limit_zero", message);
            }
        });
        report.within("evals", |report| {
            let bar = &self.evals;
            check_share(report, "intents", "config.bar_range", bar.intents);
            check_share(report, "targets", "config.bar_range", bar.targets);
            check_share(report, "slots", "config.bar_range", bar.slots);
            check_share(report, "calls", "config.bar_range", bar.calls);
            check_share(report, "replies", "config.bar_range", bar.replies);
            check_share(report, "answers", "config.bar_range", bar.answers);
        });
        report.within("messages", |report| {
            for (field, text) in self.messages.all() {
                let message =
                    format!("{field} is empty; leave the key out to use the default text");
                report.require(!text.trim().is_empty(), field, "config.text_empty", message);
            }
        });
        if let Some(store) = &self.store {
            report.within("store", |report| {
                report.require(
                    !store.url.trim().is_empty(),
                    "url",
                    "config.store_url",
                    "url is empty; write a path such as `.convoke/store.db`, or `memory`",
                );
                let scheme = store.url.split_once("://").map(|(scheme, _)| scheme);
                report.require(
                    scheme.is_none_or(|scheme| scheme == STORE_SCHEME),
                    "url",
                    "config.store_url",
                    format!(
                        "`{}://` is not a supported store; write the path of an SQLite file, with or \
                         without `{STORE_SCHEME}://`, or `memory`",
                        scheme.unwrap_or_default(),
                    ),
                );
            });
        }
    }
}

/// The URL scheme of a store.
const STORE_SCHEME: &str = "sqlite";

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_model::Valid;
    use serde_json::json;

    fn config(value: serde_json::Value) -> Result<AppConfig, convoke_model::Invalid> {
        Valid::new(serde_json::from_value::<AppConfig>(value).unwrap()).map(Valid::into_fields)
    }

    #[test]
    fn a_name_is_enough() {
        let config = config(json!({"name": "todo"})).unwrap();
        assert_eq!(config.limits.task_seconds, 60);
        assert!((config.decide.threshold - 0.7).abs() < f64::EPSILON);
        assert_eq!(config.store, None);
    }

    #[test]
    fn every_rule_names_the_key_that_breaks_it() {
        for (value, path, code) in [
            (
                json!({"decide": {"threshold": 1.1}}),
                "/decide/threshold",
                "config.threshold_range",
            ),
            (
                json!({"decide": {"clarify": " "}}),
                "/decide/clarify",
                "config.text_empty",
            ),
            (
                json!({"decide": {"politeness": {"before": ["hey", "!"]}}}),
                "/decide/politeness/before/1",
                "config.text_empty",
            ),
            (
                json!({"decide": {"out_of_scope": [""]}}),
                "/decide/out_of_scope/0",
                "config.text_empty",
            ),
            (
                json!({"decide": {"router": {"max_attempts": 0}}}),
                "/decide/router/max_attempts",
                "router.attempts_zero",
            ),
            (
                json!({"dispatch": {"context_turns": 1000}}),
                "/dispatch/context_turns",
                "dispatch.context_turns",
            ),
            (
                json!({"aggregator": {"default_fallback_message": ""}}),
                "/aggregator/default_fallback_message",
                "aggregator.message_empty",
            ),
            (
                json!({"limits": {"task_seconds": 0}}),
                "/limits/task_seconds",
                "config.limit_zero",
            ),
            (
                json!({"evals": {"slots": -1}}),
                "/evals/slots",
                "config.bar_range",
            ),
            (
                json!({"messages": {"busy": ""}}),
                "/messages/busy",
                "config.text_empty",
            ),
            (
                json!({"store": {"url": ""}}),
                "/store/url",
                "config.store_url",
            ),
            (
                json!({"store": {"url": "mongo://x"}}),
                "/store/url",
                "config.store_url",
            ),
        ] {
            let mut whole = json!({"name": "todo"});
            whole
                .as_object_mut()
                .unwrap()
                .extend(value.as_object().unwrap().clone());
            let problems = config(whole).unwrap_err().problems;
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert_eq!((problems[0].path.as_str(), problems[0].code), (path, code));
        }
    }

    #[test]
    fn the_debug_form_shows_no_key_and_no_password() {
        let config = config(json!({
            "name": "todo",
            "store": {"url": "sqlite://me:hunter2@db/x"},
            "models": {"m": {"endpoint": "http://x", "model": "y", "api_key": "sk-secret"}},
        }));
        let shown = format!("{:?}", config.unwrap());
        assert!(
            !shown.contains("sk-secret") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}
