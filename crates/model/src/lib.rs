//! The data types of Convoke and their rules. No I/O happens here: time and ids are parameters. Only
//! [`SystemClock`] and [`SystemIds`], for the edge of the program, read the machine's own.

// Documentation comments are the descriptions in the JSON Schemas.
#![warn(missing_docs)]

mod agent;
mod agent_result;
mod answer;
mod artifact;
mod catalogue;
mod channel;
mod channel_spec;
mod checkpoint;
mod clock;
mod confidence;
mod conversation;
mod decision;
mod domain;
mod domain_tool;
mod execution_plan;
mod failure;
mod formatted_response;
mod markup;
mod mcp_server;
mod message;
mod name;
mod node;
mod options;
mod reading;
mod reasoning;
mod redaction;
mod refinement;
mod request;
mod retention;
mod schemas;
mod scorecard;
mod skill;
mod state;
mod style_guide;
mod sub_agent_session;
mod task;
mod task_state;
mod tool;
mod tool_call;
mod trace;
mod user;
mod valid;
mod validation_failure;
mod validation_result;
mod work;
mod workflow;

pub use agent::{Agent, AgentFields, AgentLimits, LlmConfig, Prices};
pub use agent_result::{AgentResult, AgentResultFields};
pub use answer::{Answer, AnswerFields, MAX_SUGGESTIONS, Reliance};
pub use artifact::{Artifact, ArtifactFields, ArtifactPart};
pub use catalogue::{Catalogue, check_unique_names};
pub use channel::Channel;
pub use channel_spec::{
    ChannelSpec, ChannelSpecFields, MIN_MAX_LENGTH, MarkdownFeature, SMS_MAX_LENGTH, SplitStrategy,
};
pub use checkpoint::{
    Checkpoint, CheckpointFields, CheckpointPhase, FeedbackAction, HumanFeedback,
    HumanFeedbackFields,
};
pub use clock::{Clock, Ids, Jitter, SystemClock, SystemIds};
pub use confidence::Confidence;
pub use conversation::{Activity, Conversation, ConversationFields, DEFAULT_ACTIVE_MS};
pub use decision::{DecidedBy, Decision, DecisionFields, MAX_TARGETS, Target, TargetKind};
pub use domain::{Domain, DomainFields};
pub use domain_tool::{DomainTool, DomainToolFields, Poll};
pub use execution_plan::{ExecutionPlan, ExecutionPlanFields, ExecutionStep, PlanStatus};
pub use failure::{Failure, FailureCode, FailureKind};
pub use formatted_response::{FormattedResponse, FormattedResponseFields, MessagePart};
pub use mcp_server::{
    Approval, Injected, McpServer, McpServerFields, StdioConfig, ToolSettings, Transport,
    UrlConfig, Verify, VerifyFields,
};
pub use message::{Message, MessageFields, Role};
pub use name::{MAX_NAME_LENGTH, Name};
pub use node::{Join, MapOver, Node, NodeCriterion, NodeKind, OnError};
pub use options::{
    AggregatorOptions, AggregatorOptionsFields, Deadlines, DeadlinesFields, DispatchOptions,
    DispatchOptionsFields, MAX_CONTEXT_TURNS, Order, RouterOptions, RouterOptionsFields,
};
pub use reasoning::{Budget, Pattern, ToolMode};
pub use redaction::{Redaction, Sensitive};
pub use refinement::{MAX_REFINEMENTS, Refinement, RefinementFields};
pub use request::{Request, RequestFields, RequestLimits};
pub use retention::{RetentionPolicy, RetentionPolicyFields};
pub use schemas::schemas;
pub use scorecard::{
    Criterion, CriterionFields, MIN_CRITERION_DESCRIPTION, Scorecard, ScorecardFields,
};
pub use skill::{Action, Reference, ShownItems, Skill, SkillFields, Slot};
pub use state::{State, StateUpdate};
pub use style_guide::{
    EmojiSettings, FormattingPreferences, HumorSettings, StyleGuide, StyleGuideFields, ToneSettings,
};
pub use sub_agent_session::{
    SessionStatus, SubAgentSession, SubAgentSessionFields, SubAgentSessionInfo,
};
pub use task::{DEFAULT_RETENTION_DAYS, Task, TaskFields, TaskStatus};
pub use task_state::{Stage, TaskState};
pub use tool::{DEFAULT_TOOL_TIMEOUT_SECONDS, Tool, ToolFields};
pub use tool_call::{ToolCall, ToolCallFields, ToolCallStatus};
pub use trace::{
    LlmCall, LlmCallFields, StepRecord, StepRecordFields, StepStatus, Trace, TraceFields,
};
pub use user::UserId;
pub use valid::{Invalid, Problem, Report, Rules, Valid};
pub use validation_failure::{ValidationFailure, ValidationFailureFields};
pub use validation_result::{ValidationResult, ValidationResultFields};
pub use work::Work;
pub use workflow::{Destination, Edge, FAILED, PASSED, Reducer, Workflow, WorkflowFields};
