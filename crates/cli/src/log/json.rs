//! The log as JSON: an object a line, for programs that collect it.

use std::fmt;

use serde_json::{Map, Value};
use tracing::Event;
use tracing::field::{Field, Visit};

use super::{LoggedSpan, clean, is_audit};

/// An event: when, how serious and from where, the message, its fields, and the trace and the task that it belongs to.
pub(super) fn line(time: &str, event: &Event<'_>, belongs_to: &LoggedSpan) -> Value {
    let mut fields = JsonFields {
        fields: Map::new(),
        is_clean: is_audit(event),
    };
    event.record(&mut fields);
    let mut fields = fields.fields;
    let message = fields.shift_remove("message");
    let metadata = event.metadata();
    let mut line = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            line.insert(key.to_owned(), value);
        }
    };
    put("at", Some(time.into()));
    put("level", Some(metadata.level().as_str().into()));
    put("target", Some(metadata.target().into()));
    put("message", message);
    put("trace_id", belongs_to.trace_id.clone().map(Value::from));
    put("task", belongs_to.task.clone().map(Value::from));
    put("fields", (!fields.is_empty()).then(|| fields.into()));
    line.into()
}

/// The fields of an event, without what must not be logged.
struct JsonFields {
    fields: Map<String, Value>,
    /// Whether texts stay as they are.
    is_clean: bool,
}

impl JsonFields {
    fn put(&mut self, field: &Field, value: Value) {
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for JsonFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = if self.is_clean {
            value.to_owned()
        } else {
            clean(value)
        };
        self.put(field, text.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing::Subscriber;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt};

    use super::*;

    /// Collects the lines of events.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<Value>>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
            let belongs_to = LoggedSpan {
                trace_id: None,
                task: Some("7".into()),
            };
            self.0.lock().unwrap().push(line("now", event, &belongs_to));
        }
    }

    #[test]
    fn texts_contain_no_personal_data_and_numbers_stay_numbers() {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::registry().with(lines.clone());
        tracing::subscriber::with_default(subscriber, || {
            let address = "ann@example.org";
            tracing::warn!(target: "mail", %address, to = address, count = 3, late = true, "wrote to {address}");
        });
        let expected = json!({
            "at": "now", "level": "WARN", "target": "mail", "message": "wrote to [address]", "task": "7",
            "fields": { "address": "[address]", "to": "[address]", "count": 3, "late": true },
        });
        assert_eq!(*lines.0.lock().unwrap(), [expected]);
    }
}
