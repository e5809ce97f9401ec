//! The spans of a task and of its steps. They contain ids, names and codes, and no message text.

use convoke_store::FIRST_EPOCH;
use convoke_telemetry::TraceContext;
use tracing::Span;
use tracing::field::Empty;
use uuid::Uuid;

use crate::program::Facts;

/// The span of a task in one worker. The first is the task's own span; those of later claims are its children.
pub(crate) fn of_task(app: &str, facts: &Facts, epoch: u64) -> Span {
    let (own, span) = (facts.span(), context(facts, epoch));
    let above = if span == own { facts.trace } else { own };
    let parent = (above != span).then_some(above);
    // At level error, so that every log line about the task can include its trace.
    tracing::error_span!(
        "invoke_agent",
        otel.name = %format_args!("invoke_agent {app}"),
        otel.kind = "internal",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = app,
        gen_ai.conversation.id = facts.conversation.map(tracing::field::display),
        convoke.task.id = %facts.id,
        convoke.task.state = Empty,
        error.type = Empty,
        trace_id = %span.trace_id(),
        span_id = %span.span_id(),
        parent_span_id = parent.map(|parent| tracing::field::display(parent.span_id())),
    )
}

/// The trace context of a task in one worker.
pub(crate) fn context(facts: &Facts, epoch: u64) -> TraceContext {
    let own = facts.span();
    if epoch > FIRST_EPOCH {
        own.child(epoch)
    } else {
        own
    }
}

/// The span of a call, including all its attempts.
pub(crate) fn of_call(label: &str, call: Uuid, trace: TraceContext, parent: TraceContext) -> Span {
    tracing::info_span!(
        "step",
        otel.name = %format_args!("step {label}"),
        otel.kind = "internal",
        convoke.step.name = label,
        convoke.call.id = %call,
        error.type = Empty,
        trace_id = %trace.trace_id(),
        span_id = %trace.span_id(),
        parent_span_id = %parent.span_id(),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use convoke_model::Channel;
    use jiff::Timestamp;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// Remembers the fields of the newest span.
    #[derive(Default, Clone)]
    struct NewestSpan(Arc<Mutex<HashMap<&'static str, String>>>);

    impl Visit for NewestSpan {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            let mut fields = self.0.lock().unwrap();
            fields.insert(field.name(), format!("{value:?}"));
        }
    }

    impl Subscriber for NewestSpan {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.0.lock().unwrap().clear();
            span.record(&mut self.clone());
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    fn facts(trace: TraceContext) -> Facts {
        Facts {
            id: Uuid::from_u128(7),
            owner: Uuid::nil(),
            conversation: None,
            channel: Channel::Terminal,
            parent: None,
            created_at: Timestamp::UNIX_EPOCH,
            deadline: Timestamp::UNIX_EPOCH,
            trace,
        }
    }

    #[test]
    fn the_first_span_of_a_task_is_its_own_and_every_later_one_is_below_it() {
        let facts = facts(TraceContext::begin(Uuid::from_u128(7)));
        assert_eq!(context(&facts, FIRST_EPOCH), facts.span());
        let later = context(&facts, FIRST_EPOCH + 1);
        assert_eq!(later, facts.span().child(FIRST_EPOCH + 1));
        assert_ne!(later, facts.span());
    }

    #[test]
    fn a_span_names_the_one_above_it_if_there_is_one() {
        let newest = NewestSpan::default();
        let parent_of = |trace, epoch| {
            tracing::subscriber::with_default(newest.clone(), || {
                let _ = of_task("desk", &facts(trace), epoch);
            });
            let fields = newest.0.lock().unwrap();
            fields.get("parent_span_id").cloned()
        };
        let own = TraceContext::begin(Uuid::from_u128(7));
        let caller = TraceContext::begin(Uuid::from_u128(8));
        let id = |span: TraceContext| Some(span.span_id().to_string());
        assert_eq!(parent_of(own, FIRST_EPOCH), None);
        assert_eq!(parent_of(caller, FIRST_EPOCH), id(caller));
        assert_eq!(parent_of(own, FIRST_EPOCH + 1), id(own));
        let own = caller.at(Uuid::from_u128(7));
        assert_eq!(parent_of(caller, FIRST_EPOCH + 1), id(own));
    }
}
