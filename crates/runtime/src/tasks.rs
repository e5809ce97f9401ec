//! What a user may do with their tasks besides handing them in: look, list, follow, cancel, fork.

use convoke_app::INTENT_CLARIFY;
use convoke_engine::{
    EngineError, EventCursor, Question, QuestionAnswer, QuestionKind, TaskOutcome,
};
use convoke_flow::plain_answer;
use convoke_model::{Answer, Channel, Invalid, TaskState, UserId};
use convoke_store::{Filter, Page, PageCursor, TaskRecord, TaskSummary};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::RuntimeError;
use crate::onlooker::Onlooker;
use crate::parts::asking_parts;
use crate::runtime::Runtime;
use crate::task_events::TaskEvents;

/// Tasks in one page of a list, where [`TaskQuery::limit`] does not say otherwise.
pub const DEFAULT_TASKS_PER_PAGE: usize = 50;

/// Tasks that one page of a list may have.
pub const MAX_TASKS_PER_PAGE: usize = 1_000;

/// Why a task is cancelled that a newer message interrupts.
const INTERRUPTED: &str = "interrupted by a newer message";

/// A task without its messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskInfo {
    /// Its id.
    pub id: Uuid,
    /// The user that it belongs to.
    pub user: UserId,
    /// The app that it is one of.
    pub app: String,
    /// The conversation that it belongs to.
    pub conversation: Option<Uuid>,
    /// The parent task, if it is a child.
    pub parent: Option<Uuid>,
    /// Where the request came in.
    pub channel: Channel,
    /// Where it stands.
    pub state: TaskState,
    /// What was asked; in a list, its beginning.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// The text of the answer, once it has ended with one; in a list, its beginning.
    pub result: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

impl From<&TaskRecord> for TaskInfo {
    fn from(record: &TaskRecord) -> Self {
        Self {
            description: record.description.clone(),
            result: record.result.clone(),
            error: record.error.clone(),
            ..TaskSummary::from(record).into()
        }
    }
}

impl From<TaskSummary> for TaskInfo {
    fn from(record: TaskSummary) -> Self {
        Self {
            id: record.id,
            user: record.owner.into(),
            app: record.app,
            conversation: record.conversation,
            parent: record.parent,
            channel: record.channel,
            state: record.status,
            description: record.description,
            tags: record.tags,
            created_at: record.created_at,
            completed_at: record.completed_at,
            result: record.result,
            error: record.error,
        }
    }
}

/// One task as it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskView {
    /// The task.
    pub info: TaskInfo,
    /// The place after its newest step.
    pub cursor: EventCursor,
    /// The whole answer, once there is one.
    pub answer: Option<Answer>,
    /// What people are asked.
    pub questions: Vec<Question>,
}

/// A part of a user's list of tasks, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<TaskInfo>,
    /// Where the next page begins, if there is more.
    pub next: Option<PageCursor>,
}

/// Tasks that were canceled together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CanceledTasks {
    /// Their ids.
    pub tasks: Vec<Uuid>,
    /// Whether there may be more that the query means.
    pub more: bool,
}

/// A filter of a user's tasks, and the size of a page. Every set part must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a query does nothing by itself"]
pub struct TaskQuery {
    states: Vec<TaskState>,
    user: Option<UserId>,
    conversation: Option<Uuid>,
    parent: Option<Uuid>,
    tag: Option<String>,
    limit: Option<usize>,
    after: Option<PageCursor>,
}

impl TaskQuery {
    /// All of them, [`DEFAULT_TASKS_PER_PAGE`] at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// In this state; called several times, in one of them.
    pub fn state(mut self, state: TaskState) -> Self {
        self.states.push(state);
        self
    }

    /// Of this user, for whoever sees those of others.
    pub fn user(mut self, user: UserId) -> Self {
        self.user = Some(user);
        self
    }

    /// That are parts of this task.
    pub fn parent(mut self, parent: Uuid) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Of this conversation.
    pub fn conversation(mut self, conversation: Uuid) -> Self {
        self.conversation = Some(conversation);
        self
    }

    /// With this tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// So many at once: 1 to [`MAX_TASKS_PER_PAGE`].
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Those after the ones of an earlier page.
    pub fn after(mut self, cursor: PageCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Whether it leaves nothing out.
    pub fn is_unfiltered(&self) -> bool {
        let Self {
            states,
            user,
            conversation,
            parent,
            tag,
            ..
        } = self;
        let has_relation = user.is_some() || conversation.is_some() || parent.is_some();
        states.is_empty() && !has_relation && tag.is_none()
    }

    fn filter(&self) -> Filter {
        Filter {
            states: self.states.clone(),
            owner: self.user.map(UserId::uuid),
            conversation: self.conversation,
            parent: self.parent,
            tag: self.tag.clone(),
            ..Filter::default()
        }
    }

    fn page(&self) -> Result<Page, Invalid> {
        let limit = self.limit.unwrap_or(DEFAULT_TASKS_PER_PAGE);
        if !(1..=MAX_TASKS_PER_PAGE).contains(&limit) {
            let message = format!("a page has 1 to {MAX_TASKS_PER_PAGE} tasks, not {limit}");
            return Err(Invalid::one("tasks.limit", message));
        }
        Ok(Page {
            after: self.after,
            limit,
        })
    }
}

/// Where a fork begins, and with what.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a point does nothing by itself"]
pub struct ForkPoint {
    at: EventCursor,
    set: Map<String, Value>,
}

impl ForkPoint {
    /// Right after a step, as [`TaskEvent::cursor`](convoke_flow::TaskEvent::cursor) names it. The task must
    /// not have ended with it.
    pub fn at(cursor: EventCursor) -> Self {
        Self {
            at: cursor,
            set: Map::new(),
        }
    }

    /// With another value of a field: of a workflow's state, or of what a skill was given.
    pub fn set(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set.insert(field.into(), value.into());
        self
    }
}

/// What a message says to the open question of a conversation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QuestionReply {
    /// The task that asks.
    pub task: Uuid,
    /// The task of the conversation: the one that asks, or the one that it is a part of.
    pub whole: Uuid,
    /// The question.
    pub question: Uuid,
    /// The answer, for [`Runtime::answer`].
    pub answer: QuestionAnswer,
}

/// Tasks of a conversation that are searched for open questions.
const ASKING_TASKS: usize = 20;

impl Runtime {
    /// Takes a plain yes or no for an answer to the question that is open in a conversation. `None` if the message says
    /// anything else, if nothing is open, or if the app has asked something else since. With several open questions,
    /// the message is refused (`question.several`), because it names none of them.
    pub async fn reply_to_question(
        &self,
        user: UserId,
        conversation: Uuid,
        message: &str,
    ) -> Result<Option<QuestionReply>, RuntimeError> {
        let Some(agrees) = plain_answer(message) else {
            return Ok(None);
        };
        let newest = TaskQuery::new().conversation(conversation);
        let viewer = self.viewer(user);
        let mut asking = Vec::new();
        let said = newest.clone().limit(ASKING_TASKS);
        for said in self.tasks(user, said).await?.tasks {
            if said.state.awaits_person() {
                asking.push((said.id, said.id));
            } else if !said.state.is_final() {
                let parts = asking_parts(self, &viewer, said.id).await?;
                asking.extend(parts.into_iter().map(|part| (part, said.id)));
            }
        }
        let mut open = Vec::new();
        for (task, whole) in asking {
            let questions = self.task(user, task).await?.questions;
            let approvals = questions
                .into_iter()
                .filter(|question| question.about == QuestionKind::Approval);
            open.extend(approvals.map(|question| (task, whole, question)));
        }
        let (task, whole, question) = match open.as_slice() {
            [] => return Ok(None),
            [(task, whole, question)] => (*task, *whole, question.id),
            several => {
                let prompts = several.iter().map(|(task, _, question)| {
                    format!("{task} {} {}", question.id, question.prompt)
                });
                let prompts: Vec<_> = prompts.collect();
                let message = format!(
                    "several questions are open; answer one by its task and id:\n{}",
                    prompts.join("\n")
                );
                let code = "question.several";
                return Err(EngineError::Refused { code, message }.into());
            }
        };
        let newest = self.tasks(user, newest.limit(1)).await?.tasks;
        if let Some(newest) = newest.iter().find(|newest| newest.id != whole) {
            let answer = self.task(user, newest.id).await?.answer;
            let intent = answer.and_then(|answer| answer.metadata.get("intent").cloned());
            if intent.is_some_and(|intent| intent == INTENT_CLARIFY) {
                return Ok(None);
            }
        }
        let message = None;
        let answer = if agrees {
            QuestionAnswer::Approve { message }
        } else {
            QuestionAnswer::Reject { message }
        };
        Ok(Some(QuestionReply {
            task,
            whole,
            question,
            answer,
        }))
    }

    /// A user's task as it stands.
    pub async fn task(
        &self,
        who: impl Into<Onlooker>,
        task: Uuid,
    ) -> Result<TaskView, RuntimeError> {
        let viewer = who.into().viewer(self);
        let newest = self.store().newest(&viewer, task).await?;
        let (record, newest) = newest.ok_or(EngineError::UnknownTask(task))?;
        let (info, cursor) = (TaskInfo::from(&record), EventCursor::after(record.seq));
        let stands = TaskOutcome::read(record, &newest)?;
        Ok(TaskView {
            info,
            cursor,
            answer: stands.answer,
            questions: stands.questions,
        })
    }

    /// A user's tasks, newest first, also those that are parts of others.
    pub async fn tasks(
        &self,
        who: impl Into<Onlooker>,
        query: TaskQuery,
    ) -> Result<TaskPage, RuntimeError> {
        let viewer = who.into().viewer(self);
        let (filter, page) = (query.filter(), query.page()?);
        let found = self.store().query(&viewer, filter, page).await?;
        Ok(TaskPage {
            tasks: found.tasks.into_iter().map(TaskInfo::from).collect(),
            next: found.next,
        })
    }

    /// What happened to a user's task after a cursor, and what happens from now on, each event once and in order, and
    /// between them the live text of this process. Ends when the task has ended.
    pub async fn follow(
        &self,
        who: impl Into<Onlooker>,
        task: Uuid,
        after: EventCursor,
    ) -> Result<TaskEvents, RuntimeError> {
        let viewer = who.into().viewer(self);
        let following = convoke_flow::follow(&self.engine(), &viewer, task, after).await?;
        Ok(TaskEvents::new(following))
    }

    /// Cancels a user's task. Returns once that is on disk: the task makes no further call and ends as
    /// canceled, unless it ends otherwise in the same moment. A task that has ended otherwise is refused
    /// (`task.ended`), and so is a reason longer than a message may be (`cancel.reason_long`).
    pub async fn cancel(
        &self,
        who: impl Into<Onlooker>,
        task: Uuid,
        reason: Option<&str>,
    ) -> Result<(), RuntimeError> {
        let viewer = who.into().viewer(self);
        self.check_reason(reason)?;
        Ok(self.engine().cancel(&viewer, task, reason).await?)
    }

    /// Cancels the tasks of a query that have not ended, the newest first, and at most as many as its page has. What ends
    /// meanwhile is left as it is.
    pub async fn cancel_all(
        &self,
        who: impl Into<Onlooker>,
        mut query: TaskQuery,
        reason: Option<&str>,
    ) -> Result<CanceledTasks, RuntimeError> {
        let viewer = who.into().viewer(self);
        self.check_reason(reason)?;
        if query.states.is_empty() {
            query.states = TaskState::ALL.into();
        }
        query.states.retain(|state| !state.is_final());
        let mut canceled = CanceledTasks::default();
        if query.states.is_empty() {
            return Ok(canceled);
        }
        let found = self.tasks(viewer.clone(), query).await?;
        canceled.more = found.next.is_some();
        for task in found.tasks {
            match self.engine().cancel(&viewer, task.id, reason).await {
                Ok(()) => canceled.tasks.push(task.id),
                Err(EngineError::Refused { .. } | EngineError::UnknownTask(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(canceled)
    }

    /// Cancels the tasks of a conversation that are at work or ready to and came before a task. The same request submitted
    /// again cancels no more than that.
    pub(crate) async fn cancel_before(
        &self,
        user: UserId,
        conversation: Uuid,
        task: Uuid,
    ) -> Result<(), RuntimeError> {
        let viewer = self.viewer(user);
        let newest = self.owned(user, task).await?;
        let filter = Filter {
            states: vec![TaskState::Submitted, TaskState::Working],
            conversation: Some(conversation),
            ..Filter::default()
        };
        let page = Page {
            after: None,
            limit: MAX_TASKS_PER_PAGE,
        };
        let now = self.store().now().await?;
        let found = self.store().query(&viewer, filter, page).await?.tasks;
        let is_due = |it: &TaskSummary| it.ready_at.is_some_and(|ready| ready <= now);
        let earlier = found
            .iter()
            .filter(|it| it.ordinal < newest.ordinal && (it.worker.is_some() || is_due(it)));
        for earlier in earlier {
            let reason = Some(INTERRUPTED);
            match self.engine().cancel(&viewer, earlier.id, reason).await {
                Ok(()) | Err(EngineError::Refused { .. } | EngineError::UnknownTask(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn check_reason(&self, reason: Option<&str>) -> Result<(), Invalid> {
        let most = self.app().config.limits.message_characters as usize;
        if reason.is_some_and(|reason| reason.chars().count() > most) {
            let message = format!("the reason has more than {most} characters");
            return Err(Invalid::one("cancel.reason_long", message));
        }
        Ok(())
    }

    /// Begins a task where a user's other one stood, with the app that the other was begun with. It is a task
    /// of its own: what was done until then is not done again, what was under way is made anew, what was asked
    /// is asked again. It belongs to no conversation.
    pub async fn fork(
        &self,
        user: UserId,
        task: Uuid,
        point: ForkPoint,
    ) -> Result<Uuid, RuntimeError> {
        self.check_accepting()?;
        let record = self.owned(user, task).await?;
        let engine = self
            .editions()
            .engine_of(&self.engine(), &record.definition)
            .await?;
        let (viewer, step) = (self.viewer(user), point.at.step());
        Ok(engine.fork(&viewer, task, step, point.set).await?)
    }
}
