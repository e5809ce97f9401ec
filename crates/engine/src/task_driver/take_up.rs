//! Picks up where the journal left off.

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
    /// Takes in what happened while nobody worked on the task, and begins what is to be done now.
    pub(super) fn take_up(&mut self) {
        let now = self.context.engine.now();
        self.renew_time(now);
        for signal in std::mem::take(&mut self.signals) {
            self.take_signal(signal);
        }
        let expired: Vec<Uuid> = (self.machine.snapshot().questions.iter())
            .filter(|question| question.expires_at <= now)
            .map(|question| question.id)
            .collect();
        for question in expired {
            let answer = QuestionAnswer::Expired;
            self.record(Event::Answered { question, answer }, None);
        }
        self.begin_open(now);
        self.phase = Phase::AtWork;
        if self.under_way.is_empty() && self.gives_up(now).is_some() {
            // Nothing to do but wait: the entry that says so also gives the task up.
            let deadline = self.machine.deadline();
            self.record(Event::Resumed { deadline }, None);
        }
    }

    /// A task whose worker was gone has its full time again, and so has one that waited for a person beyond its
    /// deadline. Time that a task spent waiting for a timer is not its own.
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

    /// Begins the open calls that nobody is asked about and that are due.
    fn begin_open(&mut self, now: Timestamp) {
        let snapshot = self.machine.snapshot();
        let asked = |id: Uuid| snapshot.questions.iter().any(|question| question.id == id);
        let open: Vec<_> = snapshot
            .open
            .iter()
            .filter(|call| !asked(call.id) && call.due_at.is_none_or(|due| due <= now))
            // A waiting signal may just have approved it.
            .filter(|call| !self.begun.contains(&call.id))
            .cloned()
            .collect();
        for call in open {
            // While its effect is being classified, another timer may become due; the call must not begin twice.
            self.begun.push(call.id);
            let context = Arc::clone(&self.context);
            let call_context = self.call_context(call.id);
            self.under_way.push(
                async move {
                    let effect = context.executor.effect(&call_context, &call).await;
                    Report::Classified { call, effect }
                }
                .boxed(),
            );
        }
    }

    /// Begins the calls whose timers have run out.
    pub(super) fn begin_due(&mut self) {
        self.notice_stop();
        if !self.stopping {
            self.begin_open(self.context.engine.now());
        }
    }
}
