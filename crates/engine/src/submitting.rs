//! Accepts tasks: writes them down, and hands them to the worker of this process where that has a permit for them.

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

/// A task that was accepted, and when it is on disk.
struct Accepted {
    submission: Submission,
    durable: Durable,
}

/// A request as the first state of a task, not written down yet.
struct Draft<P: Program> {
    machine: Machine<P>,
    task: NewTask,
    live: Option<Live>,
}

impl<P: Program> Engine<P> {
    /// Accepts a task. Once this returns, the task is on disk and will be carried out.
    pub async fn submit(&self, request: NewRequest) -> Result<Submission, EngineError> {
        let Accepted {
            submission,
            durable,
        } = self.accept(request, None, self.full_time(), None).await?;
        let durable = durable.wait().await;
        self.read_back(submission.id(), durable.map(|()| submission))
            .await
    }

    /// Accepts a task and waits until it has ended or waits for a person.
    pub async fn run(&self, request: NewRequest) -> Result<TaskOutcome, EngineError> {
        self.run_until(request, None, self.full_time()).await
    }

    /// The same for a child of another task, which has no more time than its parent.
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
        // Somebody else works on it, unless it was never written down.
        let submission = accepted.submission;
        let durable = accepted.durable.wait().await.map(|()| submission);
        let task = self.read_back(submission.id(), durable).await?.id();
        self.wait(&Viewer::System, task).await
    }

    /// The task that a request becomes.
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
        // What a parent asks of a child may be worded otherwise after a crash, and is still the same call.
        let fingerprint = match (&request.key, parent) {
            (Some(_), None) => Some(fingerprint(&request)),
            _ => None,
        };
        let mut machine = Machine::new(Arc::clone(&self.0.program), facts);
        let description = request.message.content.clone();
        let mut messages = vec![NewMessage::spoken(&request.message)];
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
            channel: request.channel,
            app: self.0.app.to_string(),
            definition: Arc::clone(&self.0.definition),
            description,
            parent,
            deadline,
            not_before: request.not_before,
            trace: Some(trace.to_string()),
            retention_days: request.keeping.days,
            tags: request.keeping.tags,
            stage: machine.snapshot().stage,
            entry: NewEntry {
                at: now,
                kind: kind.into(),
                event: text,
                state: text_of(machine.snapshot()),
            },
            messages,
            blobs: Vec::new(),
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
    ) -> Result<Accepted, EngineError> {
        if self.is_closed() {
            return Err(self.0.closing.error());
        }
        // A task with neither a key nor a conversation can meet no other, so that work on it begins
        // while the store still writes it down.
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
            // A task can be claimed as soon as it is in the store, so its listener is there first.
            self.0.listeners.add(id, live);
            if self.is_closed() {
                // It may have been closed since the first look, and then this came too late to be let go of.
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
        Ok(Accepted {
            submission: Submission::Created { id, held: true },
            durable,
        })
    }

    /// What became of a task that is left to be claimed. Nobody claims one that was not created.
    async fn queued(
        &self,
        id: Uuid,
        channel: Channel,
        submitted: Result<Submission, StoreError>,
    ) -> Result<Accepted, EngineError> {
        let submission = self.read_back(id, submitted).await;
        if matches!(submission, Ok(Submission::Created { .. })) {
            metrics::TASKS_ACCEPTED.increment([self.app(), channel.as_str()]);
        } else {
            self.0.listeners.take(id);
        }
        Ok(Accepted {
            submission: submission?,
            durable: Durable::Now,
        })
    }

    /// Finds out whether a task was created where the store could not say so.
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

/// The trace that a task belongs to. A caller's `traceparent` that breaks the format counts as none.
fn trace_of(task: Uuid, traceparent: Option<&str>) -> TraceContext {
    let Some(traceparent) = traceparent else {
        return TraceContext::begin(task);
    };
    TraceContext::parse(traceparent).unwrap_or_else(|| {
        tracing::warn!(%task, "the caller's traceparent is malformed; a new trace begins");
        TraceContext::begin(task)
    })
}

/// A hash of what is asked, as hexadecimal digits.
fn fingerprint(request: &NewRequest) -> String {
    // Whoever repeats a request may mint another conversation for it.
    let asked = (&request.message.content, &request.input);
    let digest = Sha256::digest(text_of(&asked));
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}
