//! The names that a workflow's templates and expressions may use: the state, the request, and the item of a `map`. Values
//! are borrowed and looked up on demand.

use std::borrow::Cow;

use convoke_app::TemplateContext;
use convoke_model::Name;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::effort;
use crate::turn::Turn;

/// The names of a workflow's templates. An item shadows the request, and the request shadows the state.
pub(super) struct WalkContext<'a> {
    state: Option<&'a Map<String, Value>>,
    request: &'a str,
    task: Uuid,
    has_model: bool,
    item: Option<(&'a Name, &'a Value)>,
}

impl<'a> WalkContext<'a> {
    pub(super) fn of(turn: &'a Turn<'_>) -> Self {
        Self {
            state: turn.state.walk.as_deref().map(|walk| &walk.state),
            request: turn.said(),
            task: turn.view.facts.id,
            has_model: turn.assistant.thinker(None).is_some(),
            item: None,
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
}
