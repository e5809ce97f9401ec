//! A store with a clock that the test moves, and short ways to say common things.

use std::sync::Arc;
use std::time::Duration;

use convoke_model::{Channel, Clock, Message, TaskState};
use convoke_store::{
    Batch, Claim, ClaimedTask, Definition, LeaseAction, MemoryStore, NewEntry, NewMessage, NewTask,
    SqliteStore, StatusUpdate, Store, Submission,
};
use convoke_testkit::SimClock;
use uuid::Uuid;

pub(crate) const LEASE: Duration = Duration::from_secs(10);
pub(crate) const ANN: Uuid = Uuid::from_u128(0xA);
pub(crate) const BEN: Uuid = Uuid::from_u128(0xB);

pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<SimClock>,
    _folder: Option<tempfile::TempDir>,
}

impl World {
    pub(crate) fn memory() -> Self {
        let clock = Arc::new(SimClock::new());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Self {
            store,
            clock,
            _folder: None,
        }
    }

    pub(crate) fn sqlite() -> Self {
        let clock = Arc::new(SimClock::new());
        let folder = tempfile::tempdir().unwrap();
        let store =
            Arc::new(SqliteStore::open(&folder.path().join("store.db"), clock.clone()).unwrap());
        Self {
            store,
            clock,
            _folder: Some(folder),
        }
    }

    pub(crate) fn task(&self, id: u128) -> NewTask {
        let at = self.clock.now();
        NewTask {
            id: Uuid::from_u128(id),
            key: None,
            fingerprint: None,
            owner: ANN,
            conversation: None,
            refused_if_busy: false,
            channel: Channel::Terminal,
            app: "todo".into(),
            definition: definition("d1"),
            description: format!("task {id}"),
            parent: None,
            deadline: at + Duration::from_mins(1),
            retention_days: None,
            tags: Vec::new(),
            stage: None,
            entry: entry("submitted", at),
            messages: vec![said(&format!("hello {id}"), at)],
            hold: None,
            not_before: None,
            trace: None,
            blobs: Vec::new(),
        }
    }

    pub(crate) async fn submit(&self, task: NewTask) -> Uuid {
        match self.store.submit(task).await.unwrap() {
            Submission::Created { id, .. } => id,
            Submission::Existing(id) => panic!("{id} was there already"),
        }
    }

    pub(crate) async fn claim(&self, worker: &str, limit: usize) -> Vec<ClaimedTask> {
        self.store
            .claim(Claim {
                worker: worker.into(),
                apps: vec!["todo".into()],
                except: Vec::new(),
                lease: LEASE,
                limit,
            })
            .await
            .unwrap()
            .tasks
    }

    pub(crate) async fn claim_one(&self, worker: &str) -> ClaimedTask {
        let mut claimed = self.claim(worker, 1).await;
        assert_eq!(claimed.len(), 1, "nothing to claim");
        claimed.remove(0)
    }

    pub(crate) fn batch(&self, status: TaskState) -> Batch {
        Batch {
            inline_bytes: convoke_store::INLINE_BYTES,
            entries: vec![entry("step", self.clock.now())],
            messages: Vec::new(),
            consumed: Vec::new(),
            standing: Some(StatusUpdate {
                status,
                stage: None,
                hold: LeaseAction::Keep,
                result: None,
                error: None,
                progress: true,
            }),
        }
    }

    pub(crate) fn pause(&self, wake_after: Option<Duration>) -> Batch {
        let wake_in = wake_after;
        let mut batch = self.batch(TaskState::InputRequired);
        standing(&mut batch).hold = LeaseAction::Release { wake_in };
        batch
    }
}

/// An app of one file, whose text is its hash.
pub(crate) fn definition(hash: &str) -> Arc<Definition> {
    Arc::new(Definition {
        hash: hash.into(),
        files: [("convoke.yaml".to_owned(), hash.to_owned())].into(),
        trusted: true,
    })
}

/// Where a batch says that the task stands.
pub(crate) fn standing(batch: &mut Batch) -> &mut StatusUpdate {
    batch.standing.as_mut().unwrap()
}

pub(crate) fn entry(kind: &'static str, at: jiff::Timestamp) -> NewEntry {
    NewEntry {
        at,
        kind: kind.into(),
        event: format!(r#"{{"type":"{kind}"}}"#),
        state: r#"{"n":1}"#.into(),
    }
}

pub(crate) fn said(text: &str, at: jiff::Timestamp) -> NewMessage {
    NewMessage::in_conversation(&Message::user(text, at).unwrap())
}
