//! The JSON Schemas of all types, for `convoke schema` and editors.

use schemars::{JsonSchema, Schema, schema_for};

/// All types with their JSON Schemas, by name.
pub fn schemas() -> Vec<(&'static str, Schema)> {
    macro_rules! nouns {
        ($($noun:ident),* $(,)?) => {
            vec![$((stringify!($noun), schema::<crate::$noun>())),*]
        };
    }
    nouns![
        Action,
        Activity,
        Agent,
        AgentLimits,
        AgentResult,
        AggregatorOptions,
        Answer,
        Answerer,
        Approval,
        ApprovalCondition,
        Budget,
        Channel,
        ChannelSpec,
        Checkpoint,
        Confidence,
        Conversation,
        DecidedBy,
        Decision,
        Destination,
        DispatchOptions,
        Domain,
        DomainTool,
        Edge,
        EmojiSettings,
        FeedbackAction,
        FormattingPreferences,
        HumanFeedback,
        HumorSettings,
        Injected,
        LlmCall,
        LlmConfig,
        MarkdownFeature,
        McpServer,
        Message,
        Name,
        Node,
        NodeKind,
        Order,
        Pattern,
        Poll,
        Prices,
        Redaction,
        Reference,
        Reliance,
        Request,
        RequestLimits,
        RetentionPolicy,
        Role,
        RouterOptions,
        SessionStatus,
        ShownItems,
        Skill,
        Slot,
        SplitStrategy,
        Stage,
        State,
        StdioConfig,
        StepRecord,
        StepStatus,
        StyleGuide,
        SubAgentSessionInfo,
        Target,
        TargetKind,
        Task,
        TaskState,
        TaskStatus,
        ToneSettings,
        ToolCall,
        ToolCallStatus,
        ToolMode,
        ToolSettings,
        Trace,
        Transport,
        UrlConfig,
        UserId,
        Workflow,
    ]
}

fn schema<T: JsonSchema>() -> Schema {
    schema_for!(T)
}
