//! The body of the fuzz target `template`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use convoke_app::{App, AppFiles, MAX_RENDERED_BYTES, MAX_TEMPLATE_MEMORY};
use convoke_engine::{Event, Facts, Program, View};
use convoke_model::{Channel, Message};
use convoke_telemetry::TraceContext;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::assistant::{Assistant, Progress};
use crate::template::Templates;

/// The line between what a template speaks of and the template.
const BETWEEN: &str = "\n===\n";

/// The most bytes of a value that a template gives, as JSON: each of its bytes may have to be escaped.
const MAX_VALUE: usize = MAX_TEMPLATE_MEMORY * "\\u0000".len();

/// Writes a template into every place of an app that takes one, loads the app, and renders what it was loaded with. What
/// the loader accepts is understood afterwards, and what it gives is bounded.
pub fn template(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (context, template) = text.split_once(BETWEEN).unwrap_or(("{}", &text));
    let Ok(Value::Object(context)) = serde_json::from_str(context) else {
        return;
    };
    if let Some(app) = app_with(template, &context, Place::Answer) {
        let text = Templates::new().text(template, &context);
        assert_renders(&text, MAX_RENDERED_BYTES, String::len);
        walk(app, template);
    }
    if app_with(template, &context, Place::Arguments).is_some() {
        let arguments = json!({ "text": template });
        let value = Templates::new().value(&arguments, &context);
        assert_renders(&value, MAX_VALUE, |value| value.to_string().len());
    }
    if app_with(template, &context, Place::Condition).is_some() {
        let value = Templates::new().expression(template, &context);
        assert_renders(&value, MAX_VALUE, |value| value.to_string().len());
    }
}

fn assert_renders<T>(rendered: &Result<T, String>, most: usize, size: impl Fn(&T) -> usize) {
    match rendered {
        Ok(rendered) => assert!(size(rendered) <= most, "{} bytes", size(rendered)),
        // All that is wrong with a template before it is rendered has a code that begins like this.
        Err(problem) => assert!(
            problem.starts_with("template.failed: ") && !problem.contains("gave up"),
            "the loader accepted it: {problem}"
        ),
    }
}

#[derive(Clone, Copy)]
enum Place {
    Answer,
    Arguments,
    Condition,
}

/// An app whose workflow has the template in one place, if the loader accepts it.
fn app_with(template: &str, context: &Map<String, Value>, place: Place) -> Option<App> {
    let mut workflow = json!({
        "name": "main",
        "entry_point": "say",
        "state": context.keys().collect::<Vec<_>>(),
        "nodes": {
            "say": { "type": "compose", "prompt": "Said." },
            "sum": { "type": "tool", "tool": "builtin.calculate", "arguments": { "expression": "1" } },
        },
        "edges": [{ "from": "say", "to": "sum" }],
    });
    match place {
        Place::Answer => workflow["nodes"]["say"]["prompt"] = json!(template),
        Place::Arguments => workflow["nodes"]["sum"]["arguments"]["expression"] = json!(template),
        Place::Condition => workflow["edges"][0]["condition"] = json!(template),
    }
    let agent = json!({ "name": "clerk", "role": "Answers.", "system_prompt": "Answer." });
    let files: AppFiles = [
        ("convoke.json", json!({ "name": "desk" })),
        ("agents/clerk.json", agent),
        ("workflows/main.json", workflow),
    ]
    .map(|(file, text)| (file.to_owned(), text.to_string()))
    .into();
    App::load_kept(&files, "1", Path::new("app"), &|_| None, &BTreeSet::new()).ok()
}

/// Takes the first step of a task, in which the template is rendered.
fn walk(app: App, said: &str) {
    let Ok(assistant) = Assistant::new(Arc::new(app)) else {
        return;
    };
    let at = Timestamp::UNIX_EPOCH;
    let facts = Facts {
        id: Uuid::nil(),
        owner: Uuid::nil(),
        conversation: None,
        channel: Channel::Terminal,
        parent: None,
        created_at: at,
        deadline: at,
        trace: TraceContext::begin(Uuid::nil()),
    };
    let messages: Vec<Message> = Message::user(said, at).into_iter().collect();
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
    let kept = serde_json::to_value(&progress).map(serde_json::from_value::<Progress>);
    assert!(
        matches!(kept, Ok(Ok(kept)) if kept == progress),
        "the state cannot be kept"
    );
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kept_template_and_changes_of_it_are_refused_at_loading_or_rendered_within_bounds() {
        convoke_testkit::replay("template", super::template);
    }
}
