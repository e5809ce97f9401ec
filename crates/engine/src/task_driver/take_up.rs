//! Resumes a claimed task.

use std::sync::Arc;

use futures::FutureExt;
use jiff::Timestamp;
use uuid::Uuid;

use super::{Phase, Report, TaskDriver};
use crate::call::Executor;
use crate::event::{Event, QuestionAnswer};
use crate::program::Program;
use crate::snapshot::Rest;

impl<P: Program, X: Executor<P>> TaskDriver<P, X> {
    /// Applies signals and expired deadlines from before the claim, and starts due calls.
    pub(super) fn take_up(&mut self) {
        let now = self.context.engine.now();
        self.renew_time(now);
        for signal in std::mem::take(&mut self.signals) {
            self.take_signal(signal);
        }
        let due: Vec<(Uuid, bool)> = (self.machine.snapshot().questions.iter())
            .filter(|question| question.timer() <= now)
            .map(|question| (question.id, question.expires_at <= now))
            .collect();
        for (question, expired) in due {
            let event = if expired {
                Event::Answered {
                    question,
                    answer: QuestionAnswer::Expired,
                    by: None,
                }
            } else {
                Event::Reminded { question }
            };
            self.record(event, None);
        }
        self.begin_open(now);
        self.phase = Phase::AtWork;
        if self.under_way.is_empty() && self.gives_up(now).is_some() {
            // Only waiting remains: the same entry releases the task.
            let deadline = self.machine.deadline();
            self.record(Event::Resumed { deadline }, None);
        }
    }

    /// The time limit starts again for a task whose worker was lost, or that waited for a person beyond its deadline.
    /// Time spent waiting for a timer does not count.
    fn renew_time(&mut self, now: Timestamp) {
        let snapshot = self.machine.snapshot();
        let deadline = self.machine.deadline();
        let interrupted = snapshot.open.iter().any(|call| call.started);
        let on_timer = matches!(snapshot.rest(), Some(Rest::Until { asks: false, .. }));
        let deadline = match self.rested_at {
            Some(rested_at) if on_timer && rested_at < deadline => {
                deadline.checked_add(now.duration_since(rested_at))
            }
            _ if interrupted || now >= deadline => now.checked_add(self.context.engine.0.task_time),
            _ => return,
        };
        let deadline = deadline.unwrap_or(Timestamp::MAX);
        self.record(Event::Resumed { deadline }, None);
    }

    /// Starts the open calls that are due and have no open question.
    fn begin_open(&mut self, now: Timestamp) {
        let snapshot = self.machine.snapshot();
        let has_question = |id: Uuid| snapshot.questions.iter().any(|question| question.id == id);
        let open: Vec<_> = snapshot
            .open
            .iter()
            .filter(|call| !has_question(call.id) && call.due_at.is_none_or(|due| due <= now))
            // A signal may just have approved it.
            .filter(|call| !self.started_calls.contains(&call.id))
            .cloned()
            .collect();
        for call in open {
            // While its effect is classified, another timer may become due; the call must not start twice.
            self.started_calls.insert(call.id);
            let context = Arc::clone(&self.context);
            let call_context = self.call_context(&call);
            self.under_way.push(
                async move {
                    let effect = context.executor.effect(&call_context, &call).await;
                    Report::Classified { call, effect }
                }
                .boxed(),
            );
        }
    }

    /// Starts the calls whose timers are due.
    pub(super) fn begin_due(&mut self) {
        self.notice_stop();
        if !self.stopping {
            self.begin_open(self.context.engine.now());
        }
    }
}
