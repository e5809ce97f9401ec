//! Runs multi-agent assistants inside a program. The binary `convoke` is a user of this library.
#![doc = ""]
#![doc = include_str!("../../../docs/library.md")]

mod builder;
mod compare;
mod conversations;
mod edition_tools;
mod editions;
mod error;
mod journal_views;
mod loader;
mod onlooker;
mod parts;
mod registry;
mod runtime;
mod shared_parts;
mod task_diff;
mod task_events;
mod task_history;
mod task_tree;
mod tasks;
mod wire;

pub use builder::RuntimeBuilder;
pub use compare::{Difference, differences};
pub use conversations::{ConversationPage, MAX_CONVERSATIONS_PER_PAGE};
pub use editions::{answering_engine, engine, engine_of_stored};
pub use error::RuntimeError;
pub use journal_views::{MAX_HISTORY_ENTRIES, MAX_TRACED_STEPS, StatePoint};
pub use loader::{AppLoader, stored_definition};
pub use onlooker::Onlooker;
pub use registry::{Registry, ReloadOutcome};
pub use runtime::{GivenAnswer, Runtime, local_user};
pub use task_diff::{TaskDiff, TaskPoint, differs_always};
pub use task_events::TaskEvents;
pub use task_history::{HistoryEntry, TaskHistory};
pub use task_tree::TaskTree;
pub use tasks::{
    CanceledTasks, DEFAULT_TASKS_PER_PAGE, ForkPoint, MAX_TASKS_PER_PAGE, QuestionReply, TaskInfo,
    TaskPage, TaskQuery, TaskView,
};
pub use wire::{StoreChoice, tool_servers};

pub use convoke_app::{App, Bounds, Diagnostics, LoadedApp};
pub use convoke_engine::{
    EditionError, Engine, EngineError, EventCursor, Facts, Failure, FailureKind, InvalidCursor,
    Live, LiveText, LiveUpdate, Question, QuestionAnswer, QuestionKind, TaskOutcome,
};
pub use convoke_flow::ports::Caller;
pub use convoke_flow::toolbox::{RustTool, ToolContext, ToolEffect, ToolError};
pub use convoke_flow::{
    Assistant, Attachment, DecisionCandidate, FlowError, FollowedTask, IncomingRequest,
    MAX_ANSWER_BYTES, MAX_HISTORY_BYTES, MAX_KEY_CHARACTERS, MAX_TAG_CHARACTERS, MAX_TAGS,
    TaskEvent, TaskEventKind, TaskUpdate, WhileBusy,
};
pub use convoke_llm::Options as ModelOptions;
pub use convoke_mcp::{StartFailure, ToolServers};
pub use convoke_model::{
    Agent, AgentFields, AgentLimits, Answer, AnswerFields, Answerer, Channel, Clock, Ids, Invalid,
    LlmConfig, Message, MessageFields, Name, Redaction, Reliance, Role, TaskState, ToolCall,
    ToolCallFields, ToolCallStatus, Trace, UserId, UserRole,
};
pub use convoke_store::{
    BlobInfo, BlobRange, ConversationCursor, ConversationRecord, Definition, PageCursor, Store,
    StoreError, Viewer,
};

// What the signatures speak of, and what the arguments of a tool are derived with.
pub use jiff::Timestamp;
pub use serde_json::{Map, Value, json};
pub use uuid::Uuid;
pub use {schemars, serde, serde_json};
