//! The bodies of the fuzz targets `template` and `checkpoint`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use convoke_app::{App, AppFiles, Diagnostics, MAX_RENDERED_BYTES, MAX_TEMPLATE_MEMORY, StoredApp};
use convoke_engine::machine::Machine;
use convoke_engine::{Event, Facts, Messages, Program, Snapshot, View};
use convoke_model::{Channel, Message};
use convoke_store::StateWriter;
use convoke_telemetry::TraceContext;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::assistant::{Assistant, Progress};
use crate::calls::{Reply, Request};
use crate::template::Templates;

/// The line between what a template speaks of and the template.
const BETWEEN: &str = "\n===\n";

/// The most bytes of a value that a template gives, as JSON: each of its bytes may have to be escaped.
const MAX_VALUE: usize = MAX_TEMPLATE_MEMORY * "\\u0000".len();

/// Writes a template into every place of an app that takes one, loads the app, and renders what it was loaded with. What
/// the loader accepts is understood afterwards, and what it gives is bounded. Says whether anything was rendered.
pub fn template(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let (context, template) = text.split_once(BETWEEN).unwrap_or(("{}", &text));
    let Ok(Value::Object(context)) = serde_json::from_str(context) else {
        return false;
    };
    let mut rendered = false;
    if let Ok(app) = app_with(template, &context, TemplatePosition::Answer) {
        let text = Templates::new().text(template, &context);
        rendered |= assert_renders(&text, MAX_RENDERED_BYTES, String::len);
        walk(app, template);
    }
    if app_with(template, &context, TemplatePosition::Arguments).is_ok() {
        let arguments = json!({ "text": template });
        let value = Templates::new().value(&arguments, &context);
        rendered |= assert_renders(&value, MAX_VALUE, |value| value.to_string().len());
    }
    if app_with(template, &context, TemplatePosition::Condition).is_ok() {
        let value = Templates::new().expression(template, &context);
        rendered |= assert_renders(&value, MAX_VALUE, |value| value.to_string().len());
    }
    rendered
}

fn assert_renders<T>(
    rendered: &Result<T, String>,
    most: usize,
    size: impl Fn(&T) -> usize,
) -> bool {
    match rendered {
        Ok(rendered) => assert!(size(rendered) <= most, "{} bytes", size(rendered)),
        // What is wrong with a template before it is rendered has other codes.
        Err(problem) => assert!(
            ["template.failed: ", "template.undefined: "]
                .iter()
                .any(|code| problem.starts_with(code))
                && !problem.contains("the template engine failed"),
            "the loader accepted it: {problem}"
        ),
    }
    rendered.is_ok()
}

#[derive(Debug, Clone, Copy)]
enum TemplatePosition {
    Answer,
    Arguments,
    Condition,
}

/// An app whose workflow has the template in one place, if the loader accepts it.
fn app_with(
    template: &str,
    context: &Map<String, Value>,
    place: TemplatePosition,
) -> Result<App, Diagnostics> {
    let mut workflow = json!({
        "name": "main",
        "entry_point": "say",
        "state": context.keys().map(|name| (name, "set")).collect::<BTreeMap<_, _>>(),
        "nodes": {
            "say": { "type": "compose", "prompt": "Said." },
            "sum": { "type": "tool", "tool": "builtin.calculate", "arguments": { "expression": "1" } },
        },
        "edges": [{ "from": "say", "to": "sum" }],
    });
    match place {
        TemplatePosition::Answer => workflow["nodes"]["say"]["prompt"] = json!(template),
        TemplatePosition::Arguments => {
            workflow["nodes"]["sum"]["arguments"]["expression"] = json!(template);
        }
        TemplatePosition::Condition => workflow["edges"][0]["condition"] = json!(template),
    }
    let agent = json!({ "name": "clerk", "role": "Answers.", "system_prompt": "Answer." });
    let files: AppFiles = [
        ("convoke.json", json!({ "name": "desk" })),
        ("agents/clerk.json", agent),
        ("workflows/main.json", workflow),
    ]
    .map(|(file, text)| (file.to_owned(), text.to_string()))
    .into();
    let hash = StoredApp::read(&files)?.hash;
    App::load_stored(&files, &hash, Path::new("app"), &|_| None, &BTreeSet::new())
}

/// Takes the first step of a task, in which the template is rendered.
fn walk(app: App, message: &str) {
    let Ok(assistant) = Assistant::new(Arc::new(app)) else {
        return;
    };
    let at = Timestamp::UNIX_EPOCH;
    let facts = facts();
    let messages: Messages = Message::user(message, at).into_iter().collect();
    let view = View {
        facts: &facts,
        messages: &messages,
        at,
        deadline: at,
        returned: None,
        seq: 1,
    };
    let mut progress = Progress::default();
    let step = assistant.step(view, &mut progress, Event::Submitted { input: json!({}) });
    assert!(
        step.end.is_some() || !step.calls.is_empty(),
        "the task stands still"
    );
    let stored = serde_json::to_value(&progress).map(serde_json::from_value::<Progress>);
    assert!(
        matches!(stored, Ok(Ok(stored)) if stored == progress),
        "the state cannot be kept"
    );
}

fn facts() -> Facts {
    let at = Timestamp::UNIX_EPOCH;
    Facts {
        id: Uuid::nil(),
        owner: Uuid::nil(),
        conversation: None,
        channel: Channel::Terminal,
        parent: None,
        created_at: at,
        deadline: at,
        trace: TraceContext::begin(Uuid::nil()),
    }
}

/// The apps whose tasks a checkpoint can be of.
static ASSISTANTS: LazyLock<BTreeMap<&str, Arc<Assistant>>> = LazyLock::new(|| {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    let assistant = |name: &'static str| {
        let folder: PathBuf = apps.join(name);
        let loaded = App::load(&folder, &|_| None).ok()?;
        let assistant = Assistant::new(Arc::new(loaded.app)).ok()?;
        Some((name, Arc::new(assistant)))
    };
    let names = ["home", "operations", "retail", "todo"];
    names.into_iter().filter_map(assistant).collect()
});

/// Loads the apps whose tasks a checkpoint can be of, which takes longer than one input may.
pub fn load_apps() {
    LazyLock::force(&ASSISTANTS);
}

/// Restores a task from a checkpoint, as an import brings one in, and goes on with it. The input's lines are the app, the
/// state, the messages, and the events that come next. Every state that it comes to can be kept, and the deadline ends it.
/// Says whether an event was applied.
pub fn checkpoint(input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or_default();
    let Some(assistant) = ASSISTANTS.get(next()) else {
        return false;
    };
    let (Ok(snapshot), Ok(messages)) = (
        serde_json::from_str::<Snapshot<Progress, Request>>(next()),
        serde_json::from_str::<Vec<Message>>(next()),
    ) else {
        return false;
    };
    let at = Timestamp::UNIX_EPOCH;
    let assistant = Arc::clone(assistant);
    let mut machine = Machine::restore(assistant, facts(), snapshot, messages, 1);
    let mut writer = StateWriter::default();
    let mut is_applied = false;
    for line in lines {
        let Ok(event) = serde_json::from_str::<Event<Reply>>(line) else {
            continue;
        };
        machine.apply(event, at);
        assert_is_kept(machine.snapshot(), &mut writer);
        is_applied = true;
    }
    machine.apply(Event::DeadlineReached, at);
    assert!(machine.snapshot().status.is_final(), "the task has no end");
    assert_is_kept(machine.snapshot(), &mut writer);
    is_applied
}

fn assert_is_kept(snapshot: &Snapshot<Progress, Request>, writer: &mut StateWriter) {
    let stored = serde_json::to_value(snapshot);
    let read = stored
        .as_ref()
        .map(|stored| serde_json::from_value::<Snapshot<Progress, Request>>(stored.clone()));
    assert!(
        matches!(&read, Ok(Ok(read)) if read == snapshot),
        "the state cannot be kept: {stored:?}"
    );
    // A delta begins with another character than a state in full.
    let written = writer.write(snapshot);
    if written.starts_with('{') {
        let written = serde_json::from_str::<Value>(&written).ok();
        assert_eq!(written, stored.ok(), "another state is written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_loaded_and_rendered_in_every_place() {
        let Value::Object(context) = json!({ "n": 2 }) else {
            unreachable!()
        };
        for (place, template) in [
            (TemplatePosition::Answer, "{{ n }}"),
            (TemplatePosition::Arguments, "{{ n }}"),
            (TemplatePosition::Condition, "n == 2"),
        ] {
            if let Err(problems) = app_with(template, &context, place) {
                panic!("{place:?}: {problems}");
            }
        }
        assert!(template(b"{\"n\": 2}\n===\n{{ n }}"));
        assert!(!template(b"{\"n\": 2}\n===\n{{ n"));
    }

    #[test]
    fn a_task_goes_on_from_a_checkpoint_of_every_app() {
        assert_eq!(ASSISTANTS.len(), 4);
    }

    #[test]
    fn every_kept_checkpoint_and_changes_of_it_are_refused_or_gone_on_with() {
        convoke_testkit::replay("checkpoint", checkpoint);
    }

    #[test]
    fn every_kept_template_and_changes_of_it_are_refused_at_loading_or_rendered_within_bounds() {
        convoke_testkit::replay("template", template);
    }
}
