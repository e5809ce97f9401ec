//! What the service sends and takes, beside the types of the model.

use convoke::{ConversationRecord, Question, TaskInfo, TaskView, WhileBusy};
use convoke_model::{Answer, Channel, Message, TaskState, UserId};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A task in a list: long texts are cut.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskListItem {
    pub(crate) id: Uuid,
    pub(crate) app: String,
    pub(crate) user: UserId,
    pub(crate) conversation: Option<Uuid>,
    /// The task that it is a part of.
    pub(crate) parent: Option<Uuid>,
    pub(crate) channel: Channel,
    pub(crate) state: TaskState,
    /// What was asked.
    pub(crate) description: String,
    pub(crate) tags: Vec<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) completed_at: Option<Timestamp>,
    /// The text of the answer.
    pub(crate) result: Option<String>,
    /// What went wrong, for an operator.
    pub(crate) error: Option<String>,
}

impl From<TaskInfo> for TaskListItem {
    fn from(info: TaskInfo) -> Self {
        Self {
            id: info.id,
            app: info.app,
            user: info.user,
            conversation: info.conversation,
            parent: info.parent,
            channel: info.channel,
            state: info.state,
            description: info.description,
            tags: info.tags,
            created_at: info.created_at,
            completed_at: info.completed_at,
            result: info.result,
            error: info.error,
        }
    }
}

/// A page of tasks, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskList {
    pub(crate) tasks: Vec<TaskListItem>,
    /// The `cursor` of the next page. `null` on the last one.
    pub(crate) next: Option<String>,
}

/// A task as it stands.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskResource {
    #[serde(flatten)]
    pub(crate) task: TaskListItem,
    /// The position after its newest event: `after` of its events.
    pub(crate) cursor: String,
    /// The whole answer, once there is one.
    #[schemars(with = "Option<Answer>")]
    pub(crate) answer: Option<Answer>,
    /// What people are asked. While there are any, and nothing else is open, the task waits.
    pub(crate) questions: Vec<QuestionResource>,
}

impl From<TaskView> for TaskResource {
    fn from(view: TaskView) -> Self {
        Self {
            task: view.info.into(),
            cursor: view.cursor.to_string(),
            answer: view.answer,
            questions: view.questions.into_iter().map(Into::into).collect(),
        }
    }
}

/// A question to a person.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QuestionResource {
    pub(crate) id: Uuid,
    /// `approval`: whether a call is made. `outcome_unknown`: what became of a call that may have taken effect.
    pub(crate) about: String,
    /// The question, in a sentence.
    pub(crate) prompt: String,
    pub(crate) expires_at: Timestamp,
    /// When it is asked again, if it was put off.
    pub(crate) snoozed_until: Option<Timestamp>,
}

impl From<Question> for QuestionResource {
    fn from(question: Question) -> Self {
        let about = serde_json::to_value(question.about).ok();
        let about = about.as_ref().and_then(Value::as_str).unwrap_or_default();
        Self {
            id: question.id,
            about: about.to_owned(),
            prompt: question.prompt,
            expires_at: question.expires_at,
            snoozed_until: question.snoozed_until,
        }
    }
}

/// A request to an app.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTask {
    /// What the user says.
    #[schemars(length(min = 1))]
    pub(crate) message: String,
    /// The conversation that it belongs to. The first request with an id begins it.
    #[serde(default)]
    pub(crate) conversation: Option<Uuid>,
    /// `wait` for the end, or for a question; return at once (`background`); or send the events (`stream`).
    #[serde(default)]
    pub(crate) mode: SubmitMode,
    /// Begins the task this many milliseconds from now.
    #[serde(default)]
    pub(crate) delay_ms: Option<u64>,
    /// Begins the task at this time, instead of `delay_ms`.
    #[serde(default)]
    pub(crate) not_before: Option<Timestamp>,
    /// What becomes of it while an earlier request of its conversation is worked on.
    #[serde(default)]
    pub(crate) while_busy: WhileBusy,
    /// Words to find it by, and for the retention policy.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    /// Days that the task is kept after its end.
    #[serde(default)]
    pub(crate) keep_days: Option<u32>,
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SubmitMode {
    #[default]
    Wait,
    Background,
    Stream,
}

/// An answer to a question of a task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAnswer {
    /// The question. Not needed where there is only one.
    #[serde(default)]
    pub(crate) question: Option<Uuid>,
    pub(crate) action: AnswerAction,
    /// A comment, with `approve` and `reject`.
    #[serde(default)]
    pub(crate) message: Option<String>,
    /// The new arguments, or the result of the call, with `modify`.
    #[serde(default)]
    pub(crate) value: Option<Value>,
    /// How long to put it off, in milliseconds, with `snooze`.
    #[serde(default)]
    pub(crate) pause_ms: Option<u64>,
}

/// What an answer decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerAction {
    Approve,
    Reject,
    Modify,
    Snooze,
}

/// Why a task is cancelled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancellation {
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// Where a fork begins, and with what.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFork {
    /// The position right after an event, as its `cursor` names it.
    pub(crate) at: String,
    /// Other values of fields of the state.
    #[serde(default)]
    pub(crate) set: Map<String, Value>,
}

/// A task that was made.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskReference {
    pub(crate) id: Uuid,
}

/// A user's conversations.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConversationList {
    pub(crate) conversations: Vec<ConversationResource>,
    /// The `cursor` of the next page. `null` on the last one. A page of a search may have few and be followed by another.
    pub(crate) next: Option<String>,
}

/// A conversation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConversationResource {
    pub(crate) id: Uuid,
    /// The channel it began on.
    pub(crate) channel: Channel,
    pub(crate) created_at: Timestamp,
    /// When the last message came.
    pub(crate) updated_at: Timestamp,
    /// The newest messages, oldest first.
    pub(crate) messages: Vec<Message>,
    /// The number of older messages.
    pub(crate) older: usize,
}

impl From<ConversationRecord> for ConversationResource {
    fn from(conversation: ConversationRecord) -> Self {
        Self {
            id: conversation.id,
            channel: conversation.channel,
            created_at: conversation.created_at,
            updated_at: conversation.updated_at,
            messages: conversation.messages,
            older: conversation.older,
        }
    }
}

/// An app that runs here.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AppResource {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) version: String,
    /// The path of its endpoints, before `/api/v1`.
    pub(crate) path: String,
    pub(crate) agents: Vec<AgentResource>,
    pub(crate) workflows: Vec<String>,
}

/// An agent of an app.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgentResource {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) skills: Vec<SkillResource>,
}

/// Something that an agent can do.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkillResource {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) examples: Vec<String>,
}

/// The apps that run here.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AppList {
    pub(crate) apps: Vec<AppResource>,
}

/// Whether the service works.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`, `stopping`, or what is wrong.
    pub(crate) status: String,
}
