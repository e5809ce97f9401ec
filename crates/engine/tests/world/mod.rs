//! A program that performs the words of its request one after the other, an executor that writes down
//! what it performed, and workers that can be stopped or killed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use convoke_engine::machine::Machine;
use convoke_engine::{
    Call, CallContext, Edition, EditionError, Editions, Effect, Ending, Engine, Event, Executor,
    Facts, Failure, FailureKind, LiveUpdate, NewCall, NewChild, NewRequest, Options, Outcome,
    Program, QuestionAnswer, Snapshot, Step, TaskOutcome, UnusableAnswer, Verdict, View, Worker,
};
use convoke_model::{Answer, AnswerFields, Approvers, Channel, Message, TaskState, UserRole};
use convoke_store::{Claim, ClaimedTask, Definition, MemoryStore, Store, Viewer};
use convoke_testkit::{CountedIds, GatedStore, SimClock};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Performs one word after the other, then answers with all of them.
pub(crate) struct Words;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemainingWords {
    words: Vec<String>,
    /// Calls that have not returned.
    open: usize,
}

impl Program for Words {
    type State = RemainingWords;
    type Request = Value;
    type Reply = Value;

    /// A word such as `rest@60` is performed after so many seconds.
    fn delay(&self, request: &Value) -> Duration {
        let word = request["arguments"]["word"].as_str().unwrap_or_default();
        let seconds = word.trim_end_matches('?').split_once('@');
        seconds.map_or(Duration::ZERO, |(_, seconds)| {
            Duration::from_secs(seconds.parse().unwrap())
        })
    }

    /// A word such as `pay!?` is approved by an operator.
    fn approvers(&self, _: &RemainingWords, request: &Value) -> Approvers {
        let word = request["arguments"]["word"].as_str().unwrap_or_default();
        if word.ends_with("!?") {
            Approvers {
                roles: [UserRole::Operator].into(),
                requester: false,
            }
        } else {
            Approvers::default()
        }
    }

    fn modified(&self, _: &Self::State, _: &Value, value: Value) -> Result<Value, UnusableAnswer> {
        if value.is_object() {
            Ok(json!({ "arguments": value }))
        } else {
            Err("that is no object".into())
        }
    }

    fn manual_reply(&self, _: &Value, value: Value) -> Result<Value, String> {
        Ok(value)
    }

    fn step(
        &self,
        view: View<'_, Value>,
        state: &mut RemainingWords,
        event: Event<Value>,
    ) -> Step<Value> {
        match event {
            Event::Submitted { .. } => {
                state.words = view
                    .messages
                    .first()
                    .unwrap()
                    .content
                    .split(' ')
                    .map(str::to_owned)
                    .collect();
            }
            Event::Returned {
                outcome: Outcome::Failed(failure),
                ..
            } => {
                return fail(&failure.message);
            }
            Event::Returned { .. } => state.open -= 1,
            Event::DeadlineReached => return fail("too late"),
            _ => {}
        }
        // Words with a `&` between them are performed at once, and the last to return leads on.
        if state.open > 0 {
            return Step::default();
        }
        if state.words.is_empty() {
            let said = view.messages.first().unwrap().content.clone();
            let answer = Answer::new(AnswerFields::of(said)).unwrap();
            return Step {
                end: Some(Ending::Completed(Box::new(answer))),
                ..Step::default()
            };
        }
        let words = state.words.remove(0);
        // A word with a question mark needs an approval. A child asks for its own.
        let calls = words.split('&').map(|word| NewCall {
            label: word.to_owned(),
            request: json!({ "arguments": { "word": word } }),
            approval: (word.ends_with('?') && !word.contains(':'))
                .then(|| format!("May I do {word}")),
        });
        let calls: Vec<_> = calls.collect();
        state.open = calls.len();
        Step {
            calls,
            ..Step::default()
        }
    }
}

fn fail(text: &str) -> Step<Value> {
    let message = Box::new(Answer::new(AnswerFields::of(text)).unwrap());
    Step {
        end: Some(Ending::Failed {
            message,
            cause: text.into(),
        }),
        ..Step::default()
    }
}

/// How a word behaves when it is performed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behaviour {
    pub(crate) effect: Effect,
    pub(crate) fails: Option<FailureKind>,
    /// What a tool says when it is asked whether the word took effect.
    pub(crate) verdict: Option<bool>,
    /// Whether its time is over once it was performed.
    pub(crate) brief: bool,
    /// How often it is postponed by an hour.
    pub(crate) busy: u32,
}

impl Behaviour {
    pub(crate) fn of(effect: Effect) -> Self {
        Self {
            effect,
            fails: None,
            verdict: None,
            brief: false,
            busy: 0,
        }
    }
}

#[derive(Default)]
pub(crate) struct WordExecutor {
    behaviours: Mutex<HashMap<String, Behaviour>>,
    performed: Mutex<Vec<(String, Uuid)>>,
    arguments: Mutex<Vec<Value>>,
    changed: watch::Sender<usize>,
    hanging: watch::Sender<Option<String>>,
    /// What everybody passes who asks what a call may do to the world, or whether it did.
    pub(crate) classification: Gate,
    pub(crate) verification: Gate,
    pub(crate) at_work: Gauge,
}

impl WordExecutor {
    pub(crate) fn set(&self, word: &str, behaviour: Behaviour) {
        self.behaviours
            .lock()
            .unwrap()
            .insert(word.into(), behaviour);
    }

    pub(crate) fn hang_on(&self, word: &str) {
        self.hanging.send_replace(Some(word.into()));
    }

    pub(crate) fn release(&self) {
        self.hanging.send_replace(None);
    }

    pub(crate) fn performed(&self) -> Vec<String> {
        let performed = self.performed.lock().unwrap();
        performed.iter().map(|(word, _)| word.clone()).collect()
    }

    /// The effect ids under which a word was performed.
    pub(crate) fn calls_of(&self, word: &str) -> Vec<Uuid> {
        let performed = self.performed.lock().unwrap();
        let calls = performed.iter().filter(|(other, _)| other == word);
        calls.map(|(_, id)| *id).collect()
    }

    pub(crate) async fn until_performed(&self, word: &str) {
        let mut changed = self.changed.subscribe();
        changed
            .wait_for(|_| self.performed().iter().any(|other| other == word))
            .await
            .unwrap();
    }
}

/// How many are at work, and how many were at the most.
#[derive(Default)]
pub(crate) struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    fn enter(&self) -> impl Drop + '_ {
        struct Departure<'a>(&'a AtomicUsize);
        impl Drop for Departure<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Departure(&self.now)
    }
}

/// Holds up whoever comes to it while it is closed.
#[derive(Default)]
pub(crate) struct Gate {
    closed: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

impl Gate {
    pub(crate) fn close(&self) {
        self.arrived.send_replace(0);
        self.closed.send_replace(true);
    }

    pub(crate) fn open(&self) {
        self.closed.send_replace(false);
    }

    /// Waits until somebody has come to it since it was closed.
    pub(crate) async fn until_reached(&self) {
        let mut arrived = self.arrived.subscribe();
        arrived.wait_for(|count| *count > 0).await.unwrap();
    }

    async fn pass(&self) {
        self.arrived.send_modify(|count| *count += 1);
        let mut closed = self.closed.subscribe();
        closed.wait_for(|closed| !closed).await.unwrap();
    }
}

impl Executor<Words> for WordExecutor {
    async fn effect(&self, _: &CallContext, call: &Call<Value>) -> Result<Effect, Failure> {
        self.classification.pass().await;
        let behaviour = self.behaviours.lock().unwrap().get(&call.label).copied();
        Ok(behaviour.map_or(Effect::Repeatable, |behaviour| behaviour.effect))
    }

    fn ends(&self, call_context: &CallContext, call: &Call<Value>) -> Timestamp {
        let behaviour = self.behaviours.lock().unwrap().get(&call.label).copied();
        match behaviour {
            Some(Behaviour { brief: true, .. }) => call_context.facts.created_at,
            _ => call_context.deadline,
        }
    }

    async fn verify(&self, _: &CallContext, call: &Call<Value>) -> Verdict<Value> {
        self.verification.pass().await;
        let behaviour = self.behaviours.lock().unwrap().get(&call.label).copied();
        match behaviour.and_then(|behaviour| behaviour.verdict) {
            Some(true) => Verdict::Done(json!("found")),
            Some(false) => Verdict::NotDone,
            None => Verdict::Unknown,
        }
    }

    async fn perform(&self, call_context: &CallContext, call: &Call<Value>) -> Outcome<Value> {
        // A word with a colon is a task of its own: the words behind it.
        if let Some((_, words)) = call.label.split_once(':') {
            let text = words.replace('+', " ");
            let child = NewChild {
                key: call.id.to_string(),
                message: Message::user(text, Timestamp::UNIX_EPOCH).unwrap(),
                input: json!({}),
                trace: call_context.trace,
            };
            let ended = call_context
                .children
                .run(child, call_context.deadline)
                .await;
            return Outcome::Done(json!(ended.unwrap().status));
        }
        let _working = self.at_work.enter();
        if let Some(live) = &call_context.live {
            live.say(LiveUpdate::Text(&call.label));
        }
        {
            self.performed
                .lock()
                .unwrap()
                .push((call.label.clone(), call.id));
            self.arguments
                .lock()
                .unwrap()
                .push(call.request["arguments"].clone());
            self.changed.send_modify(|count| *count += 1);
            if call.label == "slow" {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let mut hanging = self.hanging.subscribe();
            hanging
                .wait_for(|word| word.as_deref() != Some(&call.label))
                .await
                .unwrap();
            let behaviour = self.behaviours.lock().unwrap().get(&call.label).copied();
            if behaviour.is_some_and(|behaviour| call.postponed < behaviour.busy) {
                let busy = Failure::no_effect("word.busy", "try again in an hour");
                return Outcome::Failed(busy.retry_in(Duration::from_hours(1)));
            }
            let fails = self
                .behaviours
                .lock()
                .unwrap()
                .get(&call.label)
                .and_then(|word| word.fails);
            match fails {
                None => Outcome::Done(json!(call.label)),
                Some(kind) => Outcome::Failed(Failure::new(kind, "word.failed", "it failed")),
            }
        }
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<GatedStore<MemoryStore>>,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) ids: Arc<CountedIds>,
    pub(crate) engine: Engine<Words>,
    pub(crate) hands: Arc<WordExecutor>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_task_time(Duration::from_secs(30))
    }

    pub(crate) fn with_task_time(task_time: Duration) -> Self {
        let clock = Arc::new(SimClock::new());
        let store = Arc::new(GatedStore::new(MemoryStore::new(clock.clone())));
        let ids = Arc::default();
        let engine = engine(&store, &clock, &ids, "d1", task_time);
        Self {
            store,
            clock,
            ids,
            engine,
            hands: Arc::default(),
        }
    }

    pub(crate) fn set(&self, word: &str, behaviour: Behaviour) {
        self.hands.set(word, behaviour);
    }

    /// Makes a word hang once it is performed, until [`Self::release`].
    pub(crate) fn hang_on(&self, word: &str) {
        self.hands.hang_on(word);
    }

    pub(crate) fn release(&self) {
        self.hands.release();
    }

    pub(crate) fn close_gate(&self) {
        self.store.close();
    }

    pub(crate) fn open_gate(&self) {
        self.store.open();
    }

    pub(crate) async fn until_appended(&self, count: usize) {
        self.store.until_appended(count).await;
    }

    pub(crate) fn performed(&self) -> Vec<String> {
        self.hands.performed()
    }

    /// The arguments of the last call.
    pub(crate) fn last_arguments(&self) -> Value {
        self.hands
            .arguments
            .lock()
            .unwrap()
            .last()
            .cloned()
            .unwrap_or_default()
    }

    /// Waits for a task's question and answers it.
    pub(crate) async fn answer(&self, task: Uuid, answer: QuestionAnswer) {
        let waiting = self.engine.wait(&Viewer::System, task).await.unwrap();
        assert_eq!(waiting.status, TaskState::InputRequired);
        let question = Some(waiting.questions[0].id);
        self.engine
            .answer(&Viewer::System, task, question, answer)
            .await
            .unwrap();
    }

    pub(crate) fn ids_of(&self, word: &str) -> Vec<Uuid> {
        let performed = self.hands.performed.lock().unwrap();
        performed
            .iter()
            .filter(|(other, _)| other == word)
            .map(|(_, id)| *id)
            .collect()
    }

    pub(crate) async fn until_performed(&self, word: &str) {
        self.hands.until_performed(word).await;
    }

    pub(crate) async fn submit(&self, text: &str) -> Uuid {
        let request = self.request(text);
        self.engine.submit(request).await.unwrap().id()
    }

    #[expect(clippy::unused_self, reason = "reads as what this world is asked")]
    pub(crate) fn request(&self, text: &str) -> NewRequest {
        Self::request_of(text)
    }

    pub(crate) fn request_of(text: &str) -> NewRequest {
        let message = Message::user(text, jiff::Timestamp::UNIX_EPOCH).unwrap();
        NewRequest {
            owner: Uuid::from_u128(7),
            conversation: None,
            refused_if_busy: false,
            channel: Channel::Terminal,
            key: None,
            message,
            blobs: Vec::new(),
            input: json!({}),
            live: None,
            retention: convoke_engine::Retention::default(),
            not_before: None,
            trace: None,
        }
    }

    pub(crate) fn worker(&self) -> RunningWorker {
        self.worker_of(&self.engine, None)
    }

    /// A worker that works on so many tasks at once.
    pub(crate) fn worker_with_room_for(&self, tasks: usize) -> RunningWorker {
        let options = Options {
            concurrent_tasks: tasks,
            ..worker_options()
        };
        RunningWorker::start(Worker::new(
            self.engine.clone(),
            Arc::clone(&self.hands),
            options,
        ))
    }

    /// An engine for another edition of the app, over the same store.
    pub(crate) fn edition(&self, definition: &str) -> Engine<Words> {
        let (clock, ids) = (&self.clock, &self.ids);
        engine(&self.store, clock, ids, definition, Duration::from_secs(30))
    }

    pub(crate) fn worker_of(
        &self,
        engine: &Engine<Words>,
        editions: Option<Arc<dyn Editions<Words, WordExecutor>>>,
    ) -> RunningWorker {
        let hands = Arc::clone(&self.hands);
        let mut worker = Worker::new(engine.clone(), hands, worker_options());
        if let Some(editions) = editions {
            worker = worker.with_editions(editions);
        }
        RunningWorker::start(worker)
    }

    /// A worker that claims whatever there is and is never heard of again.
    pub(crate) async fn claim_and_forget(&self) -> Vec<ClaimedTask> {
        let claim = Claim {
            worker: "lost".into(),
            apps: vec!["words".into()],
            except: Vec::new(),
            lease: Duration::from_secs(10),
            limit: 10,
        };
        let claimed = self.store.claim(claim).await.unwrap().tasks;
        assert!(!claimed.is_empty());
        claimed
    }

    pub(crate) async fn until_ended(&self, task: Uuid) -> TaskOutcome {
        loop {
            let ended = self.engine.wait(&Viewer::System, task).await.unwrap();
            if ended.status.is_final() {
                return ended;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Applies every event of the journal anew and compares each state with the one written.
    pub(crate) async fn assert_replays(&self, task: Uuid) {
        let journal = self
            .store
            .load(&Viewer::System, task, 1)
            .await
            .unwrap()
            .unwrap();
        let facts = Facts::from(&journal.record);
        let mut machine = Machine::new(Arc::new(Words), facts);
        machine.begin_with(journal.messages.iter().map(|stored| stored.message.clone()));
        for entry in &journal.entries {
            let event: Event<Value> = serde_json::from_value(entry.event.clone()).unwrap();
            machine.apply(event, entry.at);
            let written: Snapshot<RemainingWords, Value> = entry.state.read().unwrap();
            assert_eq!(machine.snapshot(), &written, "after entry {}", entry.seq);
        }
    }
}

pub(crate) fn engine(
    store: &Arc<GatedStore<MemoryStore>>,
    clock: &Arc<SimClock>,
    ids: &Arc<CountedIds>,
    definition: &str,
    task_time: Duration,
) -> Engine<Words> {
    Engine::new(
        Arc::new(Words),
        store.clone(),
        clock.clone(),
        ids.clone(),
        "words",
        Arc::new(Definition {
            hash: definition.into(),
            ..Definition::default()
        }),
        task_time,
    )
}

/// Opens every definition but those that are called broken, and notes which.
#[derive(Default)]
pub(crate) struct WordEditions {
    pub(crate) hands: Arc<WordExecutor>,
    pub(crate) opened: Mutex<Vec<String>>,
}

impl Editions<Words, WordExecutor> for WordEditions {
    fn open(
        &self,
        definition: Definition,
    ) -> BoxFuture<'static, Result<Edition<Words, WordExecutor>, EditionError>> {
        let opened = if definition.hash == "elsewhere" {
            Err(EditionError::Unavailable("a secret is missing".into()))
        } else if definition.hash == "broken" {
            Err(EditionError::Invalid("it is broken".into()))
        } else if definition.hash == "panics" {
            return async { panic!("a definition nobody thought of") }.boxed();
        } else {
            Ok(Edition {
                program: Arc::new(Words),
                executor: Arc::clone(&self.hands),
                task_time: Duration::from_secs(30),
            })
        };
        self.opened.lock().unwrap().push(definition.hash);
        std::future::ready(opened).boxed()
    }
}

/// What a worker of the tests may do, under a name of its own.
pub(crate) fn worker_options() -> Options {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::SeqCst);
    Options {
        poll: Duration::from_millis(5),
        repeat_pause: Duration::from_millis(1),
        ..Options::for_worker(format!("worker-{number}"))
    }
}

/// A worker under way.
pub(crate) struct RunningWorker {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RunningWorker {
    pub(crate) fn start(worker: Worker<Words, WordExecutor>) -> Self {
        let stop = CancellationToken::new();
        let runtime = tokio::runtime::Handle::current();
        Self {
            stop: stop.clone(),
            task: runtime.spawn(async move { worker.run(stop).await.unwrap() }),
        }
    }

    /// Ends it as SIGKILL would: at once, with nothing tidied up.
    pub(crate) fn kill(self) {
        self.task.abort();
    }

    pub(crate) async fn stop(self) {
        self.begin_to_stop().await;
    }

    pub(crate) fn begin_to_stop(self) -> impl Future<Output = ()> {
        self.stop.cancel();
        async move { self.task.await.unwrap() }
    }
}
