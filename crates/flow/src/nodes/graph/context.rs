//! The names that a workflow's templates and expressions may use: the state, the request, and the item of a `map`. Values
//! are borrowed and looked up on demand.

use std::borrow::Cow;

use convoke_app::TemplateContext;
use convoke_model::Name;
use convoke_store::GrowingMap;
use serde_json::Value;
use uuid::Uuid;

use super::definition::WorkflowGraph;
use crate::effort;
use crate::turn::Turn;

/// The names of a workflow's templates. An item shadows the request, and the request shadows the state.
pub(super) struct WalkContext<'a> {
    workflow: Option<&'a WorkflowGraph>,
    state: Option<&'a GrowingMap<String, Value>>,
    request: &'a str,
    task: Uuid,
    has_model: bool,
    item: Option<(&'a Name, &'a Value)>,
    /// Whether a condition is evaluated, in which no name may be absent.
    decides: bool,
}

impl<'a> WalkContext<'a> {
    pub(super) fn of(turn: &'a Turn<'_>) -> Self {
        Self {
            workflow: super::workflow_of(turn),
            state: turn.state.walk.as_deref().map(|walk| &walk.state),
            request: turn.message(),
            task: turn.view.facts.id,
            has_model: turn.assistant.agent_with_model(None).is_some(),
            item: None,
            decides: false,
        }
    }

    /// The same for a condition. What did not run decides nothing: its name is an error, unless the condition asks for it
    /// by `is defined`, `or` or `default`.
    pub(super) fn deciding(self) -> Self {
        Self {
            decides: true,
            ..self
        }
    }

    /// Adds the item of a `map` under its name.
    pub(super) fn with(self, item: Option<(&'a Name, &'a Value)>) -> Self {
        Self { item, ..self }
    }
}

impl TemplateContext for WalkContext<'_> {
    fn value_of(&self, name: &str) -> Option<Cow<'_, Value>> {
        if let Some((item, value)) = self.item
            && item.as_str() == name
        {
            return Some(Cow::Borrowed(value));
        }
        match name {
            "request" => Some(Cow::Owned(self.request.into())),
            "task_id" => Some(Cow::Owned(self.task.to_string().into())),
            "has_model" => Some(Cow::Owned(self.has_model.into())),
            _ => {
                let value = self.state?.get(name)?;
                effort::count_value(value);
                Some(Cow::Borrowed(value))
            }
        }
    }

    /// A node that did not run has no output. A name that no node sets is a mistake.
    fn may_be_absent(&self, name: &str) -> bool {
        !self.decides && self.workflow.is_some_and(|workflow| workflow.knows(name))
    }
}
