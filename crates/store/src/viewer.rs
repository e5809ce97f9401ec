//! Viewers, and which tasks and conversations each can see.

use std::sync::Arc;

use uuid::Uuid;

use crate::conversation::ConversationRecord;
use crate::task::TaskRecord;

/// The caller of a read or a signal. Backends make it part of the query: what a viewer cannot see is missing, with the
/// same result and the same work as what does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Viewer {
    /// A user of one app, as the verified token names them: sees their own tasks and conversations in that app.
    User {
        /// The user's id.
        id: Uuid,
        /// The app's name.
        app: Arc<str>,
    },
    /// The operator of an app: sees everything of that app.
    Operator {
        /// The app's name.
        app: Arc<str>,
    },
    /// The engine itself, and the owner of the store: sees everything.
    System,
}

impl Viewer {
    /// A user of an app.
    pub fn user(id: Uuid, app: &str) -> Self {
        Self::User {
            id,
            app: app.into(),
        }
    }

    /// The operator of an app.
    pub fn operator(app: &str) -> Self {
        Self::Operator { app: app.into() }
    }

    /// The owner and the app outside of which nothing is visible.
    pub(crate) fn bounds(&self) -> (Option<Uuid>, Option<&str>) {
        match self {
            Self::User { id, app } => (Some(*id), Some(app)),
            Self::Operator { app } => (None, Some(app)),
            Self::System => (None, None),
        }
    }

    fn sees(&self, owner: Uuid, app: &str) -> bool {
        let (only_owner, only_app) = self.bounds();
        only_owner.is_none_or(|only| only == owner) && only_app.is_none_or(|only| only == app)
    }

    /// Whether the viewer sees a task.
    pub fn sees_task(&self, task: &TaskRecord) -> bool {
        self.sees(task.owner, &task.app)
    }

    /// Whether the viewer sees a conversation.
    pub fn sees_conversation(&self, conversation: &ConversationRecord) -> bool {
        self.sees(conversation.owner, &conversation.app)
    }
}
