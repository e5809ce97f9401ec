//! Generators for types that people write in an app's files.

use std::collections::{BTreeMap, BTreeSet};

use convoke_model::*;
use serde_json::json;

use super::{Draw, task_state};

fn texts(draw: &mut Draw) -> Vec<String> {
    let texts: BTreeSet<_> = draw.list(Draw::text).into_iter().collect();
    texts.into_iter().collect()
}

fn arguments(draw: &mut Draw) -> BTreeMap<String, serde_json::Value> {
    draw.map().into_iter().collect()
}

pub(crate) fn llm_config(draw: &mut Draw) -> LlmConfig {
    LlmConfig {
        endpoint: draw.text(),
        model: draw.text(),
        api_key: draw.maybe(Draw::text),
        context_tokens: draw.count(),
        images: draw.flag(),
        prices: draw.maybe(prices),
    }
}

pub(crate) fn prices(draw: &mut Draw) -> Prices {
    Prices {
        input: draw.fraction(),
        output: draw.fraction(),
    }
}

pub(crate) fn tool_mode(draw: &mut Draw) -> ToolMode {
    draw.pick(&[ToolMode::Native, ToolMode::Schema, ToolMode::Auto])
}

pub(crate) fn pattern(draw: &mut Draw) -> Pattern {
    draw.pick(&[Pattern::React, Pattern::Reflection, Pattern::PlanExecute])
}

pub(crate) fn budget(draw: &mut Draw) -> Budget {
    Budget {
        model_calls: draw.count(),
        tool_calls: draw.count(),
        tokens: draw.count().into(),
        cost: draw.maybe(|draw| draw.fraction() + 0.5),
        reflections: draw.number(),
        plan_steps: draw.count(),
    }
}

pub(crate) fn agent_limits(draw: &mut Draw) -> AgentLimits {
    AgentLimits {
        timeout_ms: Some(draw.count().into()),
        max_retries: draw.number(),
        retry_delay_ms: draw.number().into(),
        enable_telemetry: draw.flag(),
    }
}

pub(crate) fn agent(draw: &mut Draw) -> Agent {
    Agent::new(AgentFields {
        name: draw.name(),
        role: draw.text(),
        system_prompt: draw.text(),
        tools: texts(draw),
        agents: Vec::new(),
        max_iterations: draw.count(),
        llm_config: Some(llm_config(draw)),
        fallback_models: draw.maybe(llm_config).into_iter().collect(),
        tool_mode: tool_mode(draw),
        patterns: draw.maybe(pattern).into_iter().collect(),
        output_schema: draw.maybe(|_| json!({ "type": "object" })),
        budget: budget(draw),
        temperature: draw.fraction() * 2.0,
        skills: draw
            .maybe(|draw| skill(draw).into_fields())
            .into_iter()
            .collect(),
        limits: agent_limits(draw),
    })
    .unwrap()
}

pub(crate) fn reference(draw: &mut Draw) -> Reference {
    Reference {
        tool: draw.text(),
        arguments: arguments(draw),
        items: draw.text(),
        id: draw.text(),
        label: draw.text(),
        kind: draw.maybe(Draw::name),
        nouns: draw.list(Draw::text),
        none: draw.text(),
        many: draw.text(),
    }
}

pub(crate) fn slot(draw: &mut Draw) -> Slot {
    let values: BTreeMap<_, _> = texts(draw)
        .into_iter()
        .map(|value| (value, draw.list(Draw::text)))
        .collect();
    Slot {
        default: values.keys().next().cloned().filter(|_| draw.flag()),
        ask: draw.maybe(Draw::text),
        max_length: draw.maybe(Draw::count),
        carried: draw.maybe(Draw::flag),
        refers_to: if values.is_empty() {
            draw.maybe(reference)
        } else {
            None
        },
        values,
    }
}

pub(crate) fn shown(draw: &mut Draw) -> ShownItems {
    ShownItems {
        items: draw.maybe(Draw::text),
        id: draw.text(),
        label: draw.text(),
        kind: draw.maybe(Draw::name),
    }
}

pub(crate) fn action(draw: &mut Draw) -> Action {
    let of_workflow = draw.flag();
    Action {
        tool: (!of_workflow).then(|| draw.text()),
        workflow: of_workflow.then(|| draw.name()),
        arguments: arguments(draw),
        confirm: draw.maybe(Draw::text),
        approval: draw.maybe(approval_condition),
        reply: (!of_workflow).then(|| draw.text()),
        shows: draw.maybe(shown),
        failure: if of_workflow {
            None
        } else {
            draw.maybe(Draw::text)
        },
    }
}

pub(crate) fn approval_condition(draw: &mut Draw) -> ApprovalCondition {
    ApprovalCondition { when: draw.text() }
}

pub(crate) fn skill(draw: &mut Draw) -> Skill {
    Skill::new(SkillFields {
        name: draw.name(),
        description: draw.text(),
        tags: draw.list(Draw::text),
        examples: draw.list(Draw::text),
        sentences: draw.list(Draw::text),
        slots: draw
            .names()
            .into_iter()
            .map(|name| (name, slot(draw)))
            .collect(),
        action: draw.maybe(action),
    })
    .unwrap()
}

pub(crate) fn approval(draw: &mut Draw) -> Approval {
    match draw.count() % 3 {
        0 => Approval::None,
        1 => Approval::Required,
        _ => Approval::When(draw.text()),
    }
}

pub(crate) fn injected(draw: &mut Draw) -> Injected {
    use Injected::{Channel, ConversationId, TaskId, UserId};
    draw.pick(&[UserId, ConversationId, TaskId, Channel])
}

pub(crate) fn stdio_config(draw: &mut Draw) -> StdioConfig {
    StdioConfig {
        command: draw.text(),
        args: draw.list(Draw::text),
        env: draw
            .list(|draw| (draw.text(), draw.text()))
            .into_iter()
            .collect(),
        cwd: draw.maybe(Draw::name).map(|name| name.to_string()),
    }
}

pub(crate) fn url_config(draw: &mut Draw) -> UrlConfig {
    UrlConfig {
        url: format!("http://{}", draw.name()),
        headers: draw
            .list(|draw| (draw.text(), draw.text()))
            .into_iter()
            .collect(),
    }
}

pub(crate) fn transport(draw: &mut Draw) -> Transport {
    match draw.byte() % 3 {
        0 => Transport::Stdio(stdio_config(draw)),
        1 => Transport::Sse(url_config(draw)),
        _ => Transport::Http(url_config(draw)),
    }
}

pub(crate) fn tool_settings(draw: &mut Draw) -> ToolSettings {
    ToolSettings {
        timeout_seconds: draw.maybe(Draw::count),
        fallback_tools: texts(draw),
        approval: approval(draw),
        approval_question: draw.maybe(Draw::text),
        approvers: draw.maybe(|_| Approvers::default()),
        verify: draw.maybe(verify),
    }
}

fn verify(draw: &mut Draw) -> Verify {
    if draw.flag() {
        return Verify::Tool(draw.text());
    }
    Verify::Configured(VerifyFields {
        tool: draw.text(),
        arguments: draw.flag().then(serde_json::Map::new),
        done: draw.text(),
        gives: draw.text(),
    })
}

pub(crate) fn mcp_server(draw: &mut Draw) -> McpServer {
    McpServer::new(McpServerFields {
        name: draw.name(),
        transport: transport(draw),
        inject: draw
            .list(|draw| (draw.text(), injected(draw)))
            .into_iter()
            .collect(),
        tools: draw
            .list(|draw| (draw.text(), tool_settings(draw)))
            .into_iter()
            .collect(),
        honours_idempotency_key: draw.flag(),
        connect_seconds: draw.count(),
    })
    .unwrap()
}

pub(crate) fn domain(draw: &mut Draw) -> Domain {
    let name = draw.name();
    let mut related_domains = draw.names();
    related_domains.retain(|related| *related != name);
    Domain::new(DomainFields {
        name,
        display_name: draw.text(),
        description: draw.text(),
        capabilities: draw.list(Draw::text),
        examples: draw.list(Draw::text),
        keywords: draw.list(|draw| format!("word {}", draw.text())),
        mcp_tools: texts(draw).into_iter().map(DomainTool::Tool).collect(),
        suggestions: texts(draw),
        related_domains,
        enabled: draw.flag(),
    })
    .unwrap()
}

pub(crate) fn poll(draw: &mut Draw) -> Poll {
    Poll {
        tool: draw.text(),
        arguments: draw.map(),
        running: draw.text(),
        every_ms: u64::from(draw.count()),
    }
}

pub(crate) fn domain_tool(draw: &mut Draw) -> DomainTool {
    if draw.flag() {
        return DomainTool::Tool(draw.text());
    }
    DomainTool::Configured(Box::new(DomainToolFields {
        tool: draw.text(),
        arguments: draw.map(),
        needs: texts(draw),
        follows: draw.names(),
        gives: draw.text(),
        shows: draw.maybe(Draw::text),
        unused: draw.text(),
        conversation: draw.text(),
        poll: draw.maybe(poll),
    }))
}

pub(crate) fn markdown_feature(draw: &mut Draw) -> MarkdownFeature {
    draw.pick(&MarkdownFeature::ALL)
}

pub(crate) fn split_strategy(draw: &mut Draw) -> SplitStrategy {
    draw.pick(&[
        SplitStrategy::Sentence,
        SplitStrategy::Paragraph,
        SplitStrategy::Word,
    ])
}

pub(crate) fn channel_spec(draw: &mut Draw) -> ChannelSpec {
    ChannelSpec::of(draw.channel())
        .with(|spec| {
            spec.supports_emojis = draw.flag();
            spec.split_strategy = split_strategy(draw);
            if draw.flag() {
                spec.max_length = Some(MIN_MAX_LENGTH + usize::from(draw.byte()));
            }
            if spec.supports_markdown {
                spec.markdown_features = vec![markdown_feature(draw)];
            }
        })
        .unwrap()
}

pub(crate) fn tone_settings(draw: &mut Draw) -> ToneSettings {
    ToneSettings {
        default: draw.text(),
        error: draw.text(),
        success: draw.text(),
    }
}

pub(crate) fn emoji_settings(draw: &mut Draw) -> EmojiSettings {
    EmojiSettings {
        enabled: draw.flag(),
        success: draw.text(),
        warning: draw.text(),
        error: draw.text(),
        info: draw.text(),
    }
}

pub(crate) fn humor_settings(draw: &mut Draw) -> HumorSettings {
    HumorSettings {
        enabled: draw.flag(),
        style: draw.text(),
        frequency: draw.text(),
    }
}

pub(crate) fn formatting_preferences(draw: &mut Draw) -> FormattingPreferences {
    FormattingPreferences {
        greeting: draw.flag(),
        sign_off: draw.flag(),
        use_user_name: draw.flag(),
    }
}

pub(crate) fn style_guide(draw: &mut Draw) -> StyleGuide {
    StyleGuide::new(StyleGuideFields {
        version: draw.text(),
        brand_name: draw.text(),
        personality: draw.text(),
        tone: tone_settings(draw),
        emojis: emoji_settings(draw),
        humor: humor_settings(draw),
        formatting: formatting_preferences(draw),
    })
    .unwrap()
}

pub(crate) fn node_kind(draw: &mut Draw) -> NodeKind {
    use NodeKind::{Agent, Check, Compose, Condition, Deliver, Format, Human, Route, Tool};
    draw.pick(&[
        Agent, Tool, Condition, Human, Route, Compose, Check, Format, Deliver,
    ])
}

pub(crate) fn node(draw: &mut Draw) -> Node {
    let kind = node_kind(draw);
    let mut node = Node::of(kind);
    match kind {
        NodeKind::Agent => node.agent = Some(draw.name()),
        NodeKind::Tool => {
            node.tool = Some(draw.text());
            node.arguments = draw.map();
        }
        NodeKind::Human => node.prompt = draw.maybe(Draw::text),
        NodeKind::Condition => node.expression = draw.maybe(Draw::text),
        NodeKind::Check => node.criteria = vec![node_criterion(draw)],
        NodeKind::Route => node.over = draw.maybe(super::target_kind),
        _ => {}
    }
    if kind == NodeKind::Agent {
        node.pattern = draw.maybe(pattern);
        node.max_iterations = draw.maybe(Draw::count);
    }
    node
}

pub(crate) fn node_criterion(draw: &mut Draw) -> NodeCriterion {
    NodeCriterion {
        id: draw.name(),
        description: format!("{} is as it should be", draw.text()),
        expression: draw.text(),
    }
}

pub(crate) fn destination(draw: &mut Draw) -> Destination {
    if draw.flag() {
        Destination::Node(draw.name())
    } else {
        Destination::ByKey(
            draw.some(|draw| (draw.text(), draw.name()))
                .into_iter()
                .collect(),
        )
    }
}

pub(crate) fn edge(draw: &mut Draw) -> Edge {
    Edge {
        from: draw.name(),
        to: destination(draw),
        condition: draw.maybe(Draw::text),
    }
}

pub(crate) fn workflow(draw: &mut Draw) -> Workflow {
    // Every node leads to a later one and each is reached, so the graph has no cycle and no unreachable
    // node.
    let count = usize::from(draw.byte() % 5) + 1;
    let names: Vec<_> = (0..count)
        .map(|index| Name::new(format!("n{index}")).unwrap())
        .collect();
    let edges = (1..count)
        .map(|index| {
            let from = names[usize::from(draw.byte()) % index].clone();
            let to = if draw.flag() {
                Destination::Node(names[index].clone())
            } else {
                Destination::ByKey([(draw.text(), names[index].clone())].into())
            };
            Edge {
                from,
                to,
                condition: draw.maybe(Draw::text),
            }
        })
        .collect();
    Workflow::new(WorkflowFields {
        name: draw.name(),
        patterns: draw.maybe(pattern).into_iter().collect(),
        nodes: names
            .iter()
            .map(|name| (name.clone(), undelivered(node(draw))))
            .collect(),
        edges,
        entry_point: names[0].clone(),
        checkpoints: names.iter().filter(|_| draw.flag()).cloned().collect(),
        inputs: draw.names(),
        state: draw
            .list(|draw| (draw.text(), state_field(draw)))
            .into_iter()
            .collect(),
        answer: draw.maybe(Draw::text),
        max_iterations: draw.count(),
    })
    .unwrap()
}

/// Deliver nodes need checks, which random graphs rarely have.
fn undelivered(node: Node) -> Node {
    match node.kind {
        NodeKind::Deliver => Node::of(NodeKind::Compose),
        _ => node,
    }
}

fn reducer(draw: &mut Draw) -> convoke_model::Reducer {
    use convoke_model::Reducer::{Append, Max, Merge, Set, Sum};
    let all = [Set, Append, Merge, Sum, Max];
    all[usize::from(draw.byte()) % all.len()]
}

fn state_field(draw: &mut Draw) -> convoke_model::StateField {
    use convoke_model::{StateField, TypedField};
    if draw.flag() {
        return StateField::Reducer(reducer(draw));
    }
    StateField::Typed(TypedField {
        reducer: reducer(draw),
        schema: json!({ "type": "string" }),
    })
}

pub(crate) fn retention_policy(draw: &mut Draw) -> RetentionPolicy {
    let days = |draw: &mut Draw| draw.count();
    RetentionPolicy::new(RetentionPolicyFields {
        default_days: days(draw),
        by_task: draw
            .list(|draw| (draw.text(), days(draw)))
            .into_iter()
            .collect(),
        by_status: draw
            .list(|draw| (task_state(draw), days(draw)))
            .into_iter()
            .filter(|(state, _)| state.is_final())
            .collect(),
    })
    .unwrap()
}

pub(crate) fn router_options(draw: &mut Draw) -> RouterOptions {
    RouterOptions::new(RouterOptionsFields {
        model: draw.maybe(Draw::text),
        confidence_threshold: draw.confidence(),
        max_attempts: draw.count(),
        temperature: Some(draw.fraction()),
        max_output_tokens: Some(draw.count()),
        system_prompt: draw.maybe(Draw::text),
        user_prompt_template: draw.maybe(Draw::text),
        agent_catalog_header: draw.maybe(Draw::text),
        include_agent_capabilities: draw.flag(),
        include_skill_examples: draw.flag(),
        clarification_agent: draw.name(),
        clarification_prompt_template: draw.maybe(Draw::text),
        fallback_agent: draw.name(),
        fallback_reason_template: draw.maybe(Draw::text),
    })
    .unwrap()
}

pub(crate) fn aggregator_options(draw: &mut Draw) -> AggregatorOptions {
    AggregatorOptions::new(AggregatorOptionsFields {
        default_fallback_message: draw.text(),
        partial_failure_template: format!("success_message {} failure_message", draw.text()),
        enable_natural_language_joining: draw.flag(),
        model: draw.maybe(Draw::text),
    })
    .unwrap()
}

pub(crate) fn order(draw: &mut Draw) -> Order {
    draw.pick(&[Order::Parallel, Order::Sequential])
}

pub(crate) fn dispatch_options(draw: &mut Draw) -> DispatchOptions {
    DispatchOptions::new(DispatchOptionsFields {
        order: order(draw),
        context_turns: draw.count() % (MAX_CONTEXT_TURNS + 1),
    })
    .unwrap()
}
