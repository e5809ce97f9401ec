//! An app with one agent, a scripted model to think with, and tools that write down what they were
//! asked.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test file uses its own part of the office"
)]

pub(crate) mod crash;
mod setting;
mod tool_server;
mod wire;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use convoke_app::App;
use convoke_engine::{
    Engine, EngineError, Failure, Live, NewRequest, Question, TaskOutcome, Worker,
};
use convoke_flow::{Assistant, IncomingRequest, Performer, PerformerOptions, receive};
use convoke_llm::ModelClient;
use convoke_model::UserId;
use convoke_store::{Entry, Scope, Store, Viewer};
use convoke_testkit::{Script, ScriptedModel};
use futures::FutureExt;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use crash::{Crash, Side, kill_everywhere};
pub(crate) use setting::Setting;
pub(crate) use tool_server::{FakeToolServer, failure, lost};
pub(crate) use wire::assert_valid;

pub(crate) struct Office {
    pub(crate) engine: Engine<Assistant>,
    pub(crate) model: ScriptedModel,
    pub(crate) tool_server: Arc<FakeToolServer>,
    pub(crate) app: Arc<App>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) setting: Setting,
    models: ModelClient,
    stop: CancellationToken,
    worker: Mutex<Option<JoinHandle<()>>>,
    _folder: tempfile::TempDir,
}

impl Office {
    /// An office whose agent has these keys besides the usual ones, and a model with this script.
    pub(crate) async fn open(agent: Value, script: impl Into<Script>) -> Self {
        Self::open_with_window(agent, script, 16_384).await
    }

    /// The same, with a model whose window holds so many tokens.
    pub(crate) async fn open_with_window(
        agent: Value,
        script: impl Into<Script>,
        window: u32,
    ) -> Self {
        Self::open_whole(agent, Vec::new(), script, window).await
    }

    /// The same, with other agents that think with the same model.
    pub(crate) async fn open_with_others(
        agent: Value,
        others: Vec<Value>,
        script: impl Into<Script>,
    ) -> Self {
        Self::open_whole(agent, others, script, 16_384).await
    }

    async fn open_whole(
        agent: Value,
        others: Vec<Value>,
        script: impl Into<Script>,
        window: u32,
    ) -> Self {
        let setting = Setting {
            agent,
            others,
            window,
            ..Setting::default()
        };
        Self::set_up(setting, script).await
    }

    /// An office set up in every detail.
    pub(crate) async fn set_up(setting: Setting, script: impl Into<Script>) -> Self {
        let office = Self::without_worker(setting, script).await;
        office.start_worker(Arc::clone(&office.store));
        office
    }

    /// The same, where nobody works yet.
    pub(crate) async fn without_worker(setting: Setting, script: impl Into<Script>) -> Self {
        let model = ScriptedModel::start(script).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        setting.write(folder.path(), &model.endpoint());
        let app = match App::load(folder.path(), &|_| None) {
            Ok(loaded) => Arc::new(loaded.app),
            Err(problems) => panic!("{}", problems.pretty()),
        };
        let assistant = Arc::new(Assistant::new(Arc::clone(&app)).unwrap());
        let store = setting.store();
        let engine = setting.engine(assistant, Arc::clone(&store));
        let models = ModelClient::new(setting.models.clone());
        Self {
            engine,
            model,
            tool_server: Arc::new(FakeToolServer::default()),
            app,
            store,
            setting,
            models,
            stop: CancellationToken::new(),
            worker: Mutex::default(),
            _folder: folder,
        }
    }

    /// Puts a worker to work, over the office's store or over a view of it.
    pub(crate) fn start_worker(&self, store: Arc<dyn Store>) {
        let assistant = Arc::new(Assistant::new(Arc::clone(&self.app)).unwrap());
        let performer = Performer::new(
            Arc::clone(&assistant),
            self.tool_server.clone(),
            self.models.clone(),
            Arc::clone(&store),
            Arc::clone(&self.setting.clock),
            PerformerOptions {
                attempts: 2,
                pause: Duration::from_millis(1),
            },
        );
        // Over the office's own store it takes tasks over the desk, as in one process; over another it
        // claims them, as in two.
        let engine = if Arc::ptr_eq(&store, &self.store) {
            self.engine.clone()
        } else {
            self.setting.engine(assistant, store)
        };
        let worker = Worker::new(engine, Arc::new(performer), self.setting.worker.clone());
        let stop = self.stop.clone();
        let running =
            tokio::runtime::Handle::current().spawn(async move { worker.run(stop).await.unwrap() });
        *self.worker.lock().unwrap() = Some(running);
    }

    /// Ends the worker as a kill would: nothing is finished, nothing is put down.
    pub(crate) async fn kill_worker(&self) {
        let running = self.worker.lock().unwrap().take().unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
    }

    /// Makes a tool behave.
    pub(crate) fn tool<F>(&self, name: &str, behaviour: F)
    where
        F: Fn(&Value) -> Result<Value, Failure> + Send + Sync + 'static,
    {
        self.tool_server.behave(name, move |arguments| {
            std::future::ready(behaviour(&arguments)).boxed()
        });
    }

    /// The calls that reached the tools.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        self.tool_server.calls()
    }

    pub(crate) async fn submit(&self, text: &str) -> Uuid {
        self.submit_for(7, Some(8), text).await.unwrap()
    }

    /// Submits a request of this user in this conversation.
    pub(crate) async fn submit_for(
        &self,
        user: u128,
        conversation: Option<u128>,
        text: &str,
    ) -> Result<Uuid, EngineError> {
        let request = self.request(user, conversation, text, None);
        Ok(self.engine.submit(request).await?.id())
    }

    fn request(
        &self,
        user: u128,
        conversation: Option<u128>,
        text: &str,
        live: Option<Live>,
    ) -> NewRequest {
        let mut incoming =
            IncomingRequest::new(UserId::from(Uuid::from_u128(user)), text).live(live);
        if let Some(conversation) = conversation {
            incoming = incoming.conversation(Uuid::from_u128(conversation));
        }
        let now = self.setting.clock.now();
        receive(incoming, &self.app.config.limits, now).unwrap()
    }

    /// Asks something, and listens to the answer.
    pub(crate) async fn ask_live(&self, text: &str, live: Live) -> TaskOutcome {
        let request = self.request(7, Some(8), text, Some(live));
        self.engine.run(request).await.unwrap()
    }

    /// Submits a request that belongs to no conversation.
    pub(crate) async fn submit_alone(&self, text: &str) -> Uuid {
        self.submit_for(7, None, text).await.unwrap()
    }

    pub(crate) async fn cancel(&self, task: Uuid) {
        self.engine
            .cancel(&Viewer::System, task, None)
            .await
            .unwrap();
    }

    pub(crate) async fn ask(&self, text: &str) -> TaskOutcome {
        let task = self.submit(text).await;
        self.engine.wait(&Viewer::System, task).await.unwrap()
    }

    pub(crate) async fn answer(&self, waiting: &TaskOutcome, answer: Value) -> TaskOutcome {
        let task = waiting.facts.id;
        let question = Some(waiting.questions[0].id);
        let answer = serde_json::from_value(answer).unwrap();
        self.engine
            .answer(&Viewer::System, task, question, answer)
            .await
            .unwrap();
        loop {
            let ended = self.engine.wait(&Viewer::System, task).await.unwrap();
            if ended.status.is_final() {
                return ended;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until a task has ended, answering whatever it asks on the way.
    pub(crate) async fn see_through(
        &self,
        task: Uuid,
        answer: impl Fn(&Question) -> Value,
    ) -> TaskOutcome {
        let mut answered = HashSet::new();
        let mut hint = self.store.watch(Scope::Task(task));
        loop {
            let ended = self.engine.wait(&Viewer::System, task).await.unwrap();
            if ended.status.is_final() {
                return ended;
            }
            for question in &ended.questions {
                // One call may be asked about again: whether to make it, then what came of it.
                let key = format!("{} of {}", question.id, question.seq);
                if answered.insert(key) {
                    let answer = serde_json::from_value(answer(question)).unwrap();
                    let said = self
                        .engine
                        .answer(&Viewer::System, task, Some(question.id), answer)
                        .await;
                    // Somebody else may have answered since.
                    if let Err(error) = said {
                        assert_eq!(error.code(), "question.answered", "{error}");
                    }
                }
            }
            let _ = tokio::time::timeout(Duration::from_millis(20), hint.changed()).await;
        }
    }

    /// A task's entries.
    pub(crate) async fn entries(&self, task: Uuid) -> Vec<Entry> {
        let loaded = self.store.load(&Viewer::System, task, 1).await.unwrap();
        loaded.unwrap().entries
    }

    /// The messages of the nth request to the model, as they went over the wire.
    pub(crate) fn shown(&self, request: usize) -> Vec<Value> {
        self.model.requests()[request].body["messages"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// Waits until so many entries are in a task's journal.
    pub(crate) async fn until_journaled(&self, task: Uuid, entries: usize) {
        let mut hint = self.store.watch(Scope::Task(task));
        while self.journal(task).await.len() < entries {
            let _ = tokio::time::timeout(Duration::from_millis(50), hint.changed()).await;
        }
    }

    /// The kinds of a task's entries.
    pub(crate) async fn journal(&self, task: Uuid) -> Vec<String> {
        let loaded = self
            .store
            .load(&Viewer::System, task, 1)
            .await
            .unwrap()
            .unwrap();
        loaded
            .entries
            .iter()
            .map(|entry| entry.kind.clone())
            .collect()
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
