//! The worker: claims tasks, drives many at once, and keeps their leases.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_store::{Claim, Claimed, Fence, Scope};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::call::Executor;
use crate::drive::Drive;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::program::Program;

/// What a worker may do, and how long things may take.
#[derive(Debug, Clone)]
pub struct Options {
    /// The worker's id, unlike any other's.
    pub worker: String,
    /// Tasks worked on at once.
    pub concurrent_tasks: usize,
    /// How long a claim holds unless renewed.
    pub lease: Duration,
    /// How often to look for work where no hint comes.
    pub poll: Duration,
    /// Claims without progress after which a task is set aside.
    pub max_claims: u32,
    /// How long a question waits for its answer.
    pub question_time: Duration,
    /// How often a repeatable call whose outcome is unknown is made again.
    pub repeats: u32,
    /// The pause before each repetition, times its number.
    pub repeat_pause: Duration,
    /// How long stopping waits for calls under way.
    pub grace: Duration,
}

impl Options {
    /// The defaults, for a worker of this name.
    pub fn for_worker(worker: impl Into<String>) -> Self {
        Self {
            worker: worker.into(),
            concurrent_tasks: 64,
            lease: Duration::from_secs(10),
            poll: Duration::from_millis(500),
            max_claims: 5,
            question_time: Duration::from_hours(24),
            repeats: 3,
            repeat_pause: Duration::from_millis(200),
            grace: Duration::from_secs(5),
        }
    }
}

/// Works on tasks of one app.
pub struct Worker<P: Program, X: Executor> {
    engine: Engine<P>,
    executor: Arc<X>,
    options: Arc<Options>,
    /// Tasks that only wait for their children, and so take up no place.
    waiting: Arc<AtomicUsize>,
}

/// A task in the worker's hands: under which epoch, and how to reach its driver.
struct Held {
    epoch: u64,
    driver: AbortHandle,
    signalled: Arc<Notify>,
}

impl<P: Program, X: Executor> Worker<P, X> {
    /// A worker for an engine's app.
    pub fn new(engine: Engine<P>, executor: Arc<X>, options: Options) -> Self {
        Self {
            engine,
            executor,
            options: Arc::new(options),
            waiting: Arc::default(),
        }
    }

    /// Works until told to stop. Then it claims nothing more, waits for calls under way as long as
    /// the grace lasts, and puts the rest down for the next worker.
    pub async fn run(self, stop: CancellationToken) -> Result<(), EngineError> {
        let mut running: JoinSet<(Uuid, u64)> = JoinSet::new();
        let mut held: HashMap<Uuid, Held> = HashMap::new();
        let mut work = self.engine.store.watch(Scope::Work);
        let mut renew = tokio::time::interval(self.options.lease / 3);
        renew.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let busy = running
                .len()
                .saturating_sub(self.waiting.load(Ordering::Relaxed));
            let room = self.options.concurrent_tasks.saturating_sub(busy);
            if room > 0 && !stop.is_cancelled() {
                for claimed in self.claim(room).await? {
                    self.start(claimed, &stop, &mut running, &mut held);
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = running.join_next() => forget(&mut held, ended),
                _ = renew.tick() => self.renew(&mut held).await?,
                () = work.changed() => {}
                () = tokio::time::sleep(self.options.poll) => {}
            }
        }
        let finish = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(self.options.grace, finish)
            .await
            .is_err()
        {
            tracing::warn!(
                "some calls did not finish in time; their tasks go on when they are claimed again"
            );
        }
        Ok(())
    }

    async fn claim(&self, limit: usize) -> Result<Vec<Claimed>, EngineError> {
        let claim = Claim {
            worker: self.options.worker.clone(),
            apps: vec![self.engine.app().to_owned()],
            lease: self.options.lease,
            limit,
        };
        Ok(self.engine.store.claim(claim).await?)
    }

    fn start(
        &self,
        claimed: Claimed,
        stop: &CancellationToken,
        running: &mut JoinSet<(Uuid, u64)>,
        held: &mut HashMap<Uuid, Held>,
    ) {
        let (task, epoch) = (claimed.record.id, claimed.record.epoch);
        let drive = Drive::new(
            self.engine.clone(),
            Arc::clone(&self.executor),
            Arc::clone(&self.options),
            stop.clone(),
            Arc::clone(&self.waiting),
            &claimed,
        );
        let signalled = Arc::new(Notify::new());
        let inbox = Arc::clone(&signalled);
        let driver = running.spawn(async move {
            let outcome = match drive {
                Ok(drive) => drive.run(claimed, &inbox).await,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                // The task stays in the store as its journal has it, and is claimed again.
                tracing::warn!(%task, %error, code = error.code(), "a task was dropped by its worker");
            }
            (task, epoch)
        });
        held.insert(
            task,
            Held {
                epoch,
                driver,
                signalled,
            },
        );
    }

    /// Prolongs every lease. A task that is no longer ours is dropped at once.
    async fn renew(&self, held: &mut HashMap<Uuid, Held>) -> Result<(), EngineError> {
        if held.is_empty() {
            return Ok(());
        }
        let fences = held
            .iter()
            .map(|(task, held)| Fence {
                task: *task,
                epoch: held.epoch,
                seq: 0,
            })
            .collect();
        for renewed in self.engine.store.renew(fences, self.options.lease).await? {
            if renewed.held {
                if renewed.signalled
                    && let Some(held) = held.get(&renewed.task)
                {
                    held.signalled.notify_one();
                }
            } else if let Some(lost) = held.remove(&renewed.task) {
                lost.driver.abort();
            }
        }
        Ok(())
    }
}

/// The same task may have been claimed again already; only the claim that ended is forgotten.
fn forget(held: &mut HashMap<Uuid, Held>, ended: Result<(Uuid, u64), JoinError>) {
    match ended {
        Ok((task, epoch)) => held.retain(|id, held| *id != task || held.epoch != epoch),
        Err(error) => {
            if error.is_panic() {
                tracing::error!(%error, "a task's driver panicked; the task is claimed again");
            }
            held.retain(|_, held| !held.driver.is_finished());
        }
    }
}
