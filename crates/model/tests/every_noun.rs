//! Every type round-trips through JSON, and its schema accepts the output.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod drawing;

use std::collections::BTreeSet;

use convoke_model::schemas;
use drawing::Draw;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The compiled schema of a type.
fn validator(noun: &str) -> jsonschema::Validator {
    let (_, schema) = schemas()
        .into_iter()
        .find(|(name, _)| *name == noun)
        .unwrap();
    jsonschema::validator_for(schema.as_value()).unwrap()
}

fn survives<T>(validator: &jsonschema::Validator, value: &T) -> Result<(), TestCaseError>
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text)
        .map_err(|error| TestCaseError::fail(format!("{error} in {text}")))?;
    prop_assert_eq!(&read, value);
    let json = serde_json::from_str(&text).unwrap();
    if let Err(error) = validator.validate(&json) {
        return Err(TestCaseError::fail(format!(
            "{}: {error}",
            error.instance_path()
        )));
    }
    Ok(())
}

macro_rules! nouns {
    ($($noun:ident: $draw:path,)*) => {
        const NOUNS: &[&str] = &[$(stringify!($noun)),*];

        #[allow(non_snake_case, reason = "each module has the name of its type")]
        mod survive_json_and_match_their_schema {
            $(mod $noun {
                use super::super::*;

                #[test]
                fn always() {
                    let validator = validator(stringify!($noun));
                    let config = ProptestConfig {
                        cases: 128,
                        failure_persistence: None,
                        ..ProptestConfig::default()
                    };
                    let mut runner = proptest::test_runner::TestRunner::new(config);
                    let result = runner.run(&Draw::strategy(), |mut draw| {
                        let value: convoke_model::$noun = $draw(&mut draw);
                        survives(&validator, &value)
                    });
                    if let Err(error) = result {
                        panic!("{error}");
                    }
                }
            })*
        }
    };
}

nouns! {
    Action: drawing::action,
    Activity: drawing::activity,
    Agent: drawing::agent,
    AgentLimits: drawing::agent_limits,
    AgentResult: drawing::agent_result,
    AggregatorOptions: drawing::aggregator_options,
    Answer: drawing::answer,
    Answerer: drawing::answerer,
    Approval: drawing::approval,
    ApprovalCondition: drawing::approval_condition,
    Budget: drawing::budget,
    Channel: Draw::channel,
    ChannelSpec: drawing::channel_spec,
    Checkpoint: drawing::checkpoint,
    Confidence: Draw::confidence,
    Conversation: drawing::conversation,
    DecidedBy: drawing::decided_by,
    Decision: drawing::decision,
    Destination: drawing::destination,
    DispatchOptions: drawing::dispatch_options,
    Domain: drawing::domain,
    DomainTool: drawing::domain_tool,
    Edge: drawing::edge,
    EmojiSettings: drawing::emoji_settings,
    FeedbackAction: drawing::feedback_action,
    FormattingPreferences: drawing::formatting_preferences,
    HumanFeedback: drawing::human_feedback,
    HumorSettings: drawing::humor_settings,
    Injected: drawing::injected,
    LlmCall: drawing::llm_call,
    LlmConfig: drawing::llm_config,
    MarkdownFeature: drawing::markdown_feature,
    McpServer: drawing::mcp_server,
    Message: drawing::message,
    Name: Draw::name,
    Node: drawing::node,
    NodeKind: drawing::node_kind,
    Order: drawing::order,
    Pattern: drawing::pattern,
    Poll: drawing::poll,
    Prices: drawing::prices,
    Redaction: drawing::redaction,
    Reference: drawing::reference,
    Reliance: drawing::reliance,
    Request: drawing::request,
    RequestLimits: drawing::request_limits,
    RetentionPolicy: drawing::retention_policy,
    Role: drawing::role,
    RouterOptions: drawing::router_options,
    SessionStatus: drawing::session_status,
    ShownItems: drawing::shown,
    Skill: drawing::skill,
    Slot: drawing::slot,
    SplitStrategy: drawing::split_strategy,
    Stage: drawing::stage,
    State: drawing::state,
    StdioConfig: drawing::stdio_config,
    StepRecord: drawing::step_record,
    StepStatus: drawing::step_status,
    StyleGuide: drawing::style_guide,
    SubAgentSessionInfo: drawing::sub_agent_session_info,
    Target: drawing::target,
    TargetKind: drawing::target_kind,
    Task: drawing::task,
    TaskState: drawing::task_state,
    TaskStatus: drawing::task_status,
    ToneSettings: drawing::tone_settings,
    ToolCall: drawing::tool_call,
    ToolCallStatus: drawing::tool_call_status,
    ToolMode: drawing::tool_mode,
    ToolSettings: drawing::tool_settings,
    Trace: drawing::trace,
    Transport: drawing::transport,
    UrlConfig: drawing::url_config,
    UserId: Draw::user,
    Workflow: drawing::workflow,
}

#[test]
fn every_type_is_covered() {
    let with_schema: BTreeSet<_> = schemas().into_iter().map(|(name, _)| name).collect();
    let drawn: BTreeSet<_> = NOUNS.iter().copied().collect();
    assert_eq!(with_schema, drawn);
    assert_eq!(with_schema.len(), schemas().len(), "a noun is listed twice");
}

#[test]
fn a_schema_rejects_other_values() {
    for (name, schema) in schemas() {
        let validator = jsonschema::validator_for(schema.as_value()).unwrap();
        assert!(
            !validator.is_valid(&serde_json::json!([[]])),
            "{name} accepts a list of lists"
        );
    }
}
