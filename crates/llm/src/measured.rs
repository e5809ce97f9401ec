//! What is told of a call of a model while it is made: its span, and the metrics of its outcome. Nothing of what was
//! said is among it.

use convoke_model::LlmConfig;
use convoke_telemetry::{TraceContext, metrics};
use tokio::time::Instant;
use tracing::Span;
use tracing::field::{self, Empty};

use crate::error::LlmProblem;
use crate::reply::{ChatReply, Finish};

/// What is done, as OpenTelemetry names it.
const OPERATION: &str = "chat";

/// The form of the requests, which OpenTelemetry takes for the provider.
const PROVIDER: &str = "openai";

/// A call of one model, with all its attempts.
pub(crate) struct MeasuredCall<'a> {
    config: &'a LlmConfig,
    pub(crate) span: Span,
    began: Instant,
    /// Whether its outcome is told.
    told: bool,
}

impl<'a> MeasuredCall<'a> {
    /// Begins a call in the span `trace`, below `parent`.
    pub(crate) fn begin(
        config: &'a LlmConfig,
        server: &str,
        trace: Option<TraceContext>,
        parent: Option<TraceContext>,
    ) -> Self {
        let model = config.model.as_str();
        let span = tracing::info_span!(
            "chat",
            otel.name = %format_args!("{OPERATION} {model}"),
            otel.kind = "client",
            gen_ai.operation.name = OPERATION,
            gen_ai.provider.name = PROVIDER,
            gen_ai.request.model = model,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.response.finish_reasons = Empty,
            server.address = server,
            error.type = Empty,
            convoke.attempts = Empty,
            trace_id = trace.map(|trace| field::display(trace.trace_id())),
            span_id = trace.map(|trace| field::display(trace.span_id())),
            parent_span_id = parent.map(|parent| field::display(parent.span_id())),
        );
        Self {
            config,
            span,
            began: Instant::now(),
            told: true,
        }
    }

    /// A call of which nothing is told.
    pub(crate) fn unmeasured(config: &'a LlmConfig) -> Self {
        Self {
            config,
            span: Span::none(),
            began: Instant::now(),
            told: false,
        }
    }

    /// The model answered.
    pub(crate) fn answered(self, reply: &ChatReply, attempts: u32) {
        if !self.told {
            return;
        }
        let usage = reply.usage;
        self.span
            .record("gen_ai.usage.input_tokens", usage.input_tokens)
            .record("gen_ai.usage.output_tokens", usage.output_tokens)
            .record("gen_ai.response.finish_reasons", finish_word(reply.finish))
            .record("convoke.attempts", attempts);
        for (tokens, kind) in [
            (usage.input_tokens, "input"),
            (usage.output_tokens, "output"),
        ] {
            let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
            metrics::MODEL_TOKENS
                .observe_number(tokens, [OPERATION, PROVIDER, &self.config.model, kind]);
        }
        if let Some(prices) = &self.config.prices {
            let cost = prices.cost(usage.input_tokens, usage.output_tokens);
            metrics::MODEL_COST.add(cost, [&self.config.model]);
        }
        self.ended("");
    }

    /// The model gave no answer.
    pub(crate) fn failed(self, problem: &LlmProblem, attempts: u32) {
        if !self.told {
            return;
        }
        let code = problem.code();
        self.span
            .record("error.type", code)
            .record("convoke.attempts", attempts);
        self.ended(code);
    }

    fn ended(&self, code: &str) {
        let labels = [OPERATION, PROVIDER, &self.config.model, code];
        metrics::MODEL_DURATION.observe_time(self.began.elapsed(), labels);
    }
}

fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
    }
}
