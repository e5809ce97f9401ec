//! Accepts tasks: stores them, and hands them to this process's worker if it has a free permit.

use std::sync::Arc;

use convoke_model::Channel;
use convoke_store::{
    FIRST_EPOCH, Fence, NewEntry, NewMessage, NewTask, StoreError, Submission, Viewer, text_of,
};
use convoke_telemetry::{TraceContext, metrics};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::engine::{Engine, NewRequest, OUTAGE_PAUSE, TaskOutcome, WAIT_POLL};
use crate::error::EngineError;
use crate::event::Event;
use crate::journal_writer::Durable;
use crate::live::Live;
use crate::local_queue::HandOff;
use crate::machine::Machine;
use crate::program::{Facts, Program};

/// An accepted task, and a future that resolves when it is durable.
struct AcceptedTask {
    submission: Submission,
    durable: Durable,
}

/// A request as a new task, not stored yet.
struct Draft<P: Program> {
    machine: Box<Machine<P>>,
    task: NewTask,
    live: Option<Live>,
}

impl<P: Program> Engine<P> {
    /// Accepts a task. When this returns, the task is durable.
    pub async fn submit(&self, request: NewRequest) -> Result<Submission, EngineError> {
        let AcceptedTask {
            submission,
            durable,
        } = self.accept(request, None, self.full_time(), None).await?;
        let durable = durable.wait().await;
        self.read_back(submission.id(), durable.map(|()| submission))
            .await
    }

    /// Accepts a task and waits until it ends or asks a person.
    pub async fn run(&self, request: NewRequest) -> Result<TaskOutcome, EngineError> {
        self.run_until(request, None, self.full_time()).await
    }

    /// Accepts a child task, whose deadline is at most its parent's, and waits for it.
    pub(crate) async fn run_until(
        &self,
        request: NewRequest,
        parent: Option<Uuid>,
        deadline: Timestamp,
    ) -> Result<TaskOutcome, EngineError> {
        let (waiter, mut ended) = oneshot::channel();
        let accepted = self.accept(request, parent, deadline, Some(waiter)).await?;
        tokio::select! {
            biased;
            ended = &mut ended => if let Ok(ended) = ended {
                return Ok(ended);
            },
            () = self.0.closing.closed() => {}
        }
        // Another worker may run it, unless it was never stored.
        let submission = accepted.submission;
        let durable = accepted.durable.wait().await.map(|()| submission);
        let task = self.read_back(submission.id(), durable).await?.id();
        self.wait(&Viewer::System, task).await
    }

    /// Builds the task for a request.
    fn draft(&self, request: NewRequest, parent: Option<Uuid>, deadline: Timestamp) -> Draft<P> {
        let now = self.now();
        let id = self.0.ids.next();
        let begins_in = request.not_before.unwrap_or_default();
        let deadline = deadline.checked_add(begins_in).unwrap_or(Timestamp::MAX);
        let trace = trace_of(id, request.trace.as_deref());
        let facts = Facts {
            id,
            owner: request.owner,
            conversation: request.conversation,
            channel: request.channel,
            parent,
            created_at: now,
            deadline,
            trace,
        };
        // After a crash, a parent may word a child's request differently; it is still the same call.
        let fingerprint = match (&request.key, parent) {
            (Some(_), None) => Some(fingerprint(&request)),
            _ => None,
        };
        let mut machine = Box::new(Machine::new(Arc::clone(&self.0.program), facts));
        let description = request.message.content.clone();
        let mut messages = vec![NewMessage::in_conversation(&request.message)];
        machine.begin_with([request.message]);
        let event = Event::Submitted {
            input: request.input,
        };
        let (kind, text) = (event.kind(), text_of(&event));
        messages.extend(machine.apply(event, now).messages);
        let task = NewTask {
            id,
            fingerprint,
            key: request.key,
            owner: request.owner,
            conversation: request.conversation,
            refused_if_busy: request.refused_if_busy,
            channel: request.channel,
            app: self.0.app.to_string(),
            definition: Arc::clone(&self.0.definition),
            description,
            parent,
            deadline,
            not_before: request.not_before,
            trace: Some(trace.to_string()),
            retention_days: request.retention.days,
            tags: request.retention.tags,
            stage: machine.snapshot().stage,
            entry: NewEntry {
                at: now,
                kind: kind.into(),
                event: text,
                state: text_of(machine.snapshot()),
            },
            messages,
            blobs: request.blobs,
            hold: None,
        };
        Draft {
            machine,
            task,
            live: request.live,
        }
    }

    async fn accept(
        &self,
        request: NewRequest,
        parent: Option<Uuid>,
        deadline: Timestamp,
        waiter: Option<oneshot::Sender<TaskOutcome>>,
    ) -> Result<AcceptedTask, EngineError> {
        if self.is_closed() {
            return Err(self.0.closing.error());
        }
        // A task without key and conversation cannot conflict with another one, so it starts before it is stored.
        let at_once = request.key.is_none() && request.conversation.is_none();
        let local_worker = match request.not_before {
            None => self.0.local_queue.take(),
            Some(_) => None,
        };
        if local_worker.is_none() && parent.is_none() {
            self.check_backlog().await?;
        }
        let Draft {
            machine,
            mut task,
            mut live,
        } = self.draft(request, parent, deadline);
        let id = task.id;
        let lease = local_worker.as_ref().map(|(worker, _)| worker.lease());
        task.hold = lease.cloned();
        let queues = local_worker.is_none() || !at_once;
        if queues && let Some(live) = live.take() {
            // The task can be claimed as soon as it is stored, so its listener is registered first.
            self.0.listeners.add(id, live);
            if self.is_closed() {
                // The engine may have been closed since the first check; then nothing else would remove the listener.
                self.0.listeners.clear();
                return Err(self.0.closing.error());
            }
        }
        let channel = task.channel;
        let submitted = self.0.store.submit(task);
        let Some((local_worker, permit)) = local_worker else {
            return self.queued(id, channel, submitted.await).await;
        };
        let fence = Fence {
            task: id,
            epoch: FIRST_EPOCH,
            seq: machine.seq(),
        };
        let durable = if at_once {
            Durable::of(submitted)
        } else {
            let submitted = submitted.await;
            if !matches!(submitted, Ok(Submission::Created { held: true, .. })) {
                return self.queued(id, channel, submitted).await;
            }
            live = self.0.listeners.take(id);
            Durable::Now
        };
        let hand_off = HandOff {
            definition: Arc::clone(&self.0.definition),
            machine,
            fence,
            durable: durable.clone(),
            live,
            waiter,
        };
        metrics::TASKS_ACCEPTED.increment([self.app(), channel.as_str()]);
        local_worker.hand_over(hand_off, permit);
        Ok(AcceptedTask {
            submission: Submission::Created { id, held: true },
            durable,
        })
    }

    /// Removes the listener of a task that was not created, because no worker claims it.
    async fn queued(
        &self,
        id: Uuid,
        channel: Channel,
        submitted: Result<Submission, StoreError>,
    ) -> Result<AcceptedTask, EngineError> {
        let submission = self.read_back(id, submitted).await;
        if matches!(submission, Ok(Submission::Created { .. })) {
            metrics::TASKS_ACCEPTED.increment([self.app(), channel.as_str()]);
        } else {
            self.0.listeners.take(id);
        }
        Ok(AcceptedTask {
            submission: submission?,
            durable: Durable::Now,
        })
    }

    /// Reads back whether a task was created, after an uncertain write.
    async fn read_back(
        &self,
        id: Uuid,
        submitted: Result<Submission, StoreError>,
    ) -> Result<Submission, EngineError> {
        let Err(StoreError::Uncertain(cause)) = submitted else {
            return Ok(submitted?);
        };
        let mut backoff = Backoff::new(WAIT_POLL, OUTAGE_PAUSE);
        loop {
            match self.store().task(&Viewer::System, id).await {
                Ok(Some(_)) => return Ok(Submission::Created { id, held: false }),
                Ok(None) => return Err(StoreError::Unavailable(cause).into()),
                Err(error) if error.is_outage() && !self.is_closed() => backoff.pause().await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn check_backlog(&self) -> Result<(), EngineError> {
        if let Some(limit) = self.0.backlog.looks_again() {
            let waiting = self.waiting_tasks(limit).await?;
            self.0.backlog.found(waiting);
            metrics::BACKLOG.set(waiting, [self.app()]);
        }
        self.0.backlog.admit().inspect_err(|error| {
            metrics::TASKS_REFUSED.increment([self.app(), error.code()]);
        })
    }
}

/// The trace of a task. An invalid `traceparent` of the caller is ignored.
fn trace_of(task: Uuid, traceparent: Option<&str>) -> TraceContext {
    let Some(traceparent) = traceparent else {
        return TraceContext::begin(task);
    };
    TraceContext::parse(traceparent).unwrap_or_else(|| {
        tracing::warn!(%task, "the caller's traceparent is malformed; a new trace begins");
        TraceContext::begin(task)
    })
}

/// A hash of the request, as hexadecimal digits.
fn fingerprint(request: &NewRequest) -> String {
    // A repeated request may have another new conversation id.
    let mut text = text_of(&(&request.message.content, &request.input));
    if !request.message.parts.is_empty() {
        text.push_str(&text_of(&request.message.parts));
    }
    if !request.message.metadata.is_empty() {
        text.push_str(&text_of(&request.message.metadata));
    }
    let digest = Sha256::digest(text);
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}
