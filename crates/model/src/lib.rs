//! The data types of Convoke and their rules. No I/O happens here: time and ids are parameters. Only
//! [`SystemClock`] and [`SystemIds`], for the edge of the program, read the machine's own.

// Documentation comments are the descriptions in the JSON Schemas.
#![warn(missing_docs)]

mod agent;
mod agent_result;
mod answer;
mod approvers;
mod blob_hash;
mod channel;
mod channel_spec;
mod checkpoint;
mod clock;
mod confidence;
mod conversation;
mod decision;
mod domain;
mod domain_tool;
mod failure;
mod mcp_server;
mod message;
mod name;
mod node;
mod options;
mod part;
mod placeholder;
mod reading;
mod reasoning;
mod redaction;
mod request;
mod retention;
mod schemas;
mod skill;
mod state;
mod style_guide;
mod sub_agent_session;
mod task;
mod task_state;
mod tool_call;
mod trace;
mod user;
mod valid;
mod workflow;

pub use agent::{Agent, AgentFields, AgentLimits, LlmConfig, Prices};
pub use agent_result::{AgentResult, AgentResultFields};
pub use answer::{Answer, AnswerFields, MAX_SUGGESTIONS, Reliance};
pub use approvers::{Answerer, Approvers, UserRole};
pub use blob_hash::BlobHash;
pub use channel::Channel;
pub use channel_spec::{
    ChannelSpec, ChannelSpecFields, MIN_MAX_LENGTH, MarkdownFeature, SMS_MAX_LENGTH, SplitStrategy,
};
pub use checkpoint::{
    Checkpoint, CheckpointFields, FeedbackAction, HumanFeedback, HumanFeedbackFields,
};
pub use clock::{Clock, Ids, Jitter, SystemClock, SystemIds};
pub use confidence::Confidence;
pub use conversation::{Activity, Conversation, ConversationFields, DEFAULT_ACTIVE_MS};
pub use decision::{DecidedBy, Decision, DecisionFields, MAX_TARGETS, Target, TargetKind};
pub use domain::{Domain, DomainFields};
pub use domain_tool::{DomainTool, DomainToolFields, Poll};
pub use failure::{ErrorType, Failure, FailureCode, FailureKind, split_cause};
pub use mcp_server::{
    Approval, Injected, McpServer, McpServerFields, StdioConfig, ToolSettings, Transport,
    UrlConfig, Verify, VerifyFields,
};
pub use message::{Message, MessageFields, Role};
pub use name::{MAX_NAME_LENGTH, Name};
pub use node::{Join, MapOver, Node, NodeCriterion, NodeKind, OnError};
pub use options::{
    AggregatorOptions, AggregatorOptionsFields, DispatchOptions, DispatchOptionsFields,
    MAX_CONTEXT_TURNS, Order, RouterOptions, RouterOptionsFields,
};
pub use part::{MAX_PARTS, Part};
pub use placeholder::{PARTIAL_PLACEHOLDERS, PROMPT_PLACEHOLDERS, placeholders};
pub use reasoning::{Budget, Pattern, ToolMode};
pub use redaction::{Redaction, Sensitive};
pub use request::{Request, RequestFields, RequestLimits};
pub use retention::{RetentionPolicy, RetentionPolicyFields};
pub use schemas::schemas;
pub use skill::{
    Action, ActionTarget, ApprovalCondition, Reference, ShownItems, Skill, SkillFields, Slot,
};
pub use state::State;
pub use style_guide::{
    EmojiSettings, FormattingPreferences, HumorSettings, StyleGuide, StyleGuideFields, ToneSettings,
};
pub use sub_agent_session::{SessionStatus, SubAgentSessionInfo};
pub use task::{DEFAULT_RETENTION_DAYS, Task, TaskFields, TaskStatus};
pub use task_state::{Stage, TaskState};
pub use tool_call::{ToolCall, ToolCallFields, ToolCallStatus};
pub use trace::{
    LlmCall, LlmCallFields, StepRecord, StepRecordFields, StepStatus, Trace, TraceFields,
};
pub use user::UserId;
pub use valid::{Invalid, Problem, Report, Rules, Valid};
pub use workflow::{
    Destination, Edge, FAILED, PASSED, Reducer, StateField, TypedField, Workflow, WorkflowFields,
};
