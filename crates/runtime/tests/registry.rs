//! Several apps in one process, and apps that change while they run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use convoke::{
    EngineError, IncomingRequest, Registry, ReloadOutcome, Runtime, RuntimeBuilder, RuntimeError,
    StoreChoice, TaskState, Value, json, local_user,
};

/// A folder with apps, each of which calls the tool of a server of its own and says what that answers.
struct Apps(tempfile::TempDir);

impl Apps {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, name: &str, server: &str, config: &Value) -> PathBuf {
        let app = self.path(name);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/patient.py");
        let mut settings = json!({ "name": name });
        let fields = settings.as_object_mut().unwrap();
        fields.extend(config.as_object().unwrap().clone());
        let stdio = json!({ "command": "python3", "args": [script, self.0.path(), server] });
        let files = [
            ("convoke.json", settings),
            (
                "agents/clerk.json",
                json!({ "name": "clerk", "role": "Works.", "system_prompt": "Work.", "tools": ["desk.work"] }),
            ),
            (
                "config/mcp_servers.json",
                json!({ "servers": [{ "name": "desk", "transport": { "stdio": stdio } }] }),
            ),
            (
                "workflows/main.json",
                json!({
                    "name": "main", "entry_point": "work",
                    "nodes": { "work": { "type": "tool", "tool": "desk.work" } },
                    "answer": "{{ work.name }}",
                }),
            ),
        ];
        for (file, content) in files {
            let path = app.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content.to_string()).unwrap();
        }
        app
    }

    /// Lets a server answer.
    fn go(&self, server: &str) {
        std::fs::write(self.path(&format!("{server}.go")), "").unwrap();
    }

    async fn until_begun(&self, server: &str) {
        until(|| self.path(&format!("{server}.begun")).exists()).await;
    }

    /// Whether the process of a server runs.
    fn runs(&self, server: &str) -> bool {
        let pid = std::fs::read_to_string(self.path(&format!("{server}.pid"))).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    fn builder(&self, names: &[&str]) -> RuntimeBuilder {
        let builder = Runtime::builder().data(self.path("data"));
        let names = names.iter();
        names.fold(builder, |builder, name| builder.app(self.path(name)))
    }
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn said() -> IncomingRequest {
    IncomingRequest::new(local_user(), "Work.")
}

async fn answer(runtime: &Runtime) -> String {
    runtime.run("Work.").await.unwrap().text.clone()
}

async fn refusal(builder: RuntimeBuilder) -> RuntimeError {
    builder.build_registry().await.unwrap_err()
}

#[tokio::test]
async fn apps_of_one_registry_share_the_number_of_tasks_that_run_at_once() {
    let apps = Apps::new();
    for name in ["one", "two"] {
        apps.write(name, name, &json!({}));
    }
    let builder = apps.builder(&["one", "two"]).concurrent_tasks(1);
    let registry = builder.build_registry().await.unwrap();
    let (one, two) = (registry.app("one").unwrap(), registry.app("two").unwrap());
    let first = one.submit(said()).await.unwrap();
    apps.until_begun("one").await;
    apps.go("two");
    let second = two.submit(said()).await.unwrap();
    let waiting = two.task(local_user(), second).await.unwrap();
    assert_eq!(waiting.info.state, TaskState::Submitted);
    assert!(!apps.path("two.begun").exists());
    apps.go("one");
    for (runtime, task) in [(one, first), (two, second)] {
        let ended = runtime.wait(local_user(), task).await.unwrap();
        assert_eq!(ended.status, TaskState::Completed);
    }
    registry.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_app_with_many_tasks_leaves_one_permit_to_each_other_app() {
    let apps = Apps::new();
    for name in ["one", "two"] {
        apps.write(name, name, &json!({}));
    }
    let builder = apps.builder(&["one", "two"]).concurrent_tasks(3);
    let registry = builder.build_registry().await.unwrap();
    let (one, two) = (registry.app("one").unwrap(), registry.app("two").unwrap());
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(one.submit(said()).await.unwrap());
    }
    let third = one.task(local_user(), tasks[2]).await.unwrap();
    assert_eq!(third.info.state, TaskState::Submitted);
    // None of the first app's tasks ends before the second app has answered.
    apps.go("two");
    assert_eq!(answer(&two).await, "two");
    apps.go("one");
    for task in tasks {
        let ended = one.wait(local_user(), task).await.unwrap();
        assert_eq!(ended.status, TaskState::Completed);
    }
    registry.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_reloaded_app_starts_new_tasks_while_a_running_one_keeps_what_it_started_with() {
    let apps = Apps::new();
    let config = json!({ "limits": { "edition_idle_seconds": 1, "lease_seconds": 1 } });
    apps.write("shop", "old", &config);
    let registry = apps.builder(&["shop"]).build_registry().await.unwrap();
    let before = registry.app("shop").unwrap();
    let task = before.submit(said()).await.unwrap();
    apps.until_begun("old").await;

    apps.write("shop", "new", &config);
    apps.go("new");
    assert_eq!(
        registry.reload("shop").await.unwrap(),
        ReloadOutcome::Reloaded
    );
    // A runtime that was taken before starts new tasks with the new edition, too.
    assert_eq!(answer(&before).await, "new");
    let after = registry.app("shop").unwrap();
    assert_eq!(answer(&after).await, "new");
    assert!(apps.runs("old") && apps.runs("new"));

    apps.go("old");
    let ended = after.wait(local_user(), task).await.unwrap();
    assert_eq!(ended.answer.unwrap().text, "old");
    // Nobody needs the first edition any more.
    until(|| !apps.runs("old")).await;
    assert!(apps.runs("new"));
    assert_eq!(answer(&after).await, "new");
    assert_eq!(
        registry.reload("shop").await.unwrap(),
        ReloadOutcome::Unchanged
    );
    registry.shutdown().await.unwrap();
    assert!(!apps.runs("old") && !apps.runs("new"));
}

#[tokio::test]
async fn a_shutdown_ends_the_tool_servers_of_every_edition() {
    let apps = Apps::new();
    apps.write("shop", "old", &json!({}));
    let registry = apps.builder(&["shop"]).build_registry().await.unwrap();
    apps.go("old");
    assert_eq!(answer(&registry.app("shop").unwrap()).await, "old");
    apps.write("shop", "new", &json!({}));
    apps.go("new");
    registry.reload("shop").await.unwrap();
    assert_eq!(answer(&registry.app("shop").unwrap()).await, "new");
    assert!(
        apps.runs("old") && apps.runs("new"),
        "an edition stays open for a while"
    );
    registry.shutdown().await.unwrap();
    assert!(!apps.runs("old") && !apps.runs("new"));
}

#[tokio::test]
async fn a_broken_app_is_refused_with_its_problems_and_runs_on_as_it_was() {
    let apps = Apps::new();
    let app = apps.write("shop", "old", &json!({}));
    apps.go("old");
    let registry = apps.builder(&["shop"]).build_registry().await.unwrap();
    let workflow = json!({ "name": "main", "entry_point": "nowhere", "nodes": {} });
    std::fs::write(app.join("workflows/main.json"), workflow.to_string()).unwrap();
    let error = registry.reload("shop").await.unwrap_err();
    assert_eq!(error.code(), "app.errors");
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert_eq!(answer(&registry.app("shop").unwrap()).await, "old");
    // A tool that nobody has is found when the app is assembled.
    apps.write("shop", "new", &json!({}));
    let agent = json!({
        "name": "clerk", "role": "Works.", "system_prompt": "Work.", "tools": ["rust.missing"],
    });
    std::fs::write(app.join("agents/clerk.json"), agent.to_string()).unwrap();
    assert!(registry.reload("shop").await.is_err());
    assert_eq!(answer(&registry.app("shop").unwrap()).await, "old");
    registry.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_app_keeps_its_name_and_its_store_while_it_runs() {
    let apps = Apps::new();
    let app = apps.write("shop", "old", &json!({}));
    let registry = apps.builder(&["shop"]).build_registry().await.unwrap();
    for changed in [
        json!({ "name": "store" }),
        json!({ "name": "shop", "store": { "url": "elsewhere.db" } }),
    ] {
        std::fs::write(app.join("convoke.json"), changed.to_string()).unwrap();
        let error = registry.reload("shop").await.unwrap_err();
        assert_eq!(error.code(), "registry.not_reloadable", "{error}");
    }
    let error = registry.reload("store").await.unwrap_err();
    assert_eq!(error.code(), "registry.unknown_app");
    registry.shutdown().await.unwrap();
    let error = registry.reload("shop").await.unwrap_err();
    assert!(!error.to_string().is_empty());
}

#[tokio::test]
async fn apps_that_cannot_run_together_are_refused() {
    let apps = Apps::new();
    apps.write("one", "one", &json!({}));
    apps.write("two", "two", &json!({ "store": { "url": "two.db" } }));
    apps.write("again", "again", &json!({ "name": "one" }));
    let both = || apps.builder(&["one", "two"]);
    let differ = refusal(both()).await;
    assert_eq!(differ.code(), "registry.stores_differ");
    let same = refusal(apps.builder(&["one", "again"])).await;
    assert_eq!(same.code(), "registry.same_name");
    let none = refusal(Runtime::builder()).await;
    assert_eq!(none.code(), "runtime.nothing_to_run");
    let several = both().build().await.unwrap_err();
    assert_eq!(several.code(), "runtime.several_apps");
    // A store for all settles it.
    let registry: Registry = both()
        .store(StoreChoice::Memory)
        .build_registry()
        .await
        .unwrap();
    assert_eq!(registry.apps().len(), 2);
    registry.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_full_backlog_refuses_new_tasks_until_there_is_room() {
    let apps = Apps::new();
    let limits = json!({ "limits": { "backlog": 2, "concurrent_tasks": 1 } });
    apps.write("shop", "desk", &limits);
    let runtime = Arc::new(apps.builder(&["shop"]).build().await.unwrap());
    let mut tasks = vec![runtime.submit(said()).await.unwrap()];
    apps.until_begun("desk").await;
    for _ in 0..2 {
        tasks.push(runtime.submit(said()).await.unwrap());
    }
    let error = runtime.submit(said()).await.unwrap_err();
    assert_eq!(error.code(), "engine.busy");
    let RuntimeError::Engine(EngineError::Busy { retry_after, .. }) = error else {
        panic!("{error}");
    };
    apps.go("desk");
    for task in tasks {
        let ended = runtime.wait(local_user(), task).await.unwrap();
        assert_eq!(ended.status, TaskState::Completed);
    }
    tokio::time::sleep(retry_after).await;
    assert_eq!(answer(&runtime).await, "desk");
    runtime.shutdown().await.unwrap();
}

#[tokio::test]
async fn stopping_waits_for_calls_under_way_as_long_as_the_app_says() {
    let apps = Apps::new();
    let limits = json!({ "limits": { "shutdown_seconds": 1 } });
    apps.write("shop", "desk", &limits);
    let runtime = apps.builder(&["shop"]).build().await.unwrap();
    let task = runtime.submit(said()).await.unwrap();
    apps.until_begun("desk").await;
    // The call never ends, so that only the limit does.
    runtime.shutdown().await.unwrap();
    let standing = runtime.task(local_user(), task).await.unwrap();
    assert_eq!(standing.info.state, TaskState::Working);

    let patient = json!({ "limits": { "shutdown_seconds": 100_000 } });
    apps.write("bank", "counter", &patient);
    let runtime = apps.builder(&["bank"]).build().await.unwrap();
    let task = runtime.submit(said()).await.unwrap();
    apps.until_begun("counter").await;
    let (stopped, ()) = tokio::join!(runtime.shutdown(), async { apps.go("counter") });
    stopped.unwrap();
    let done = std::fs::read_to_string(apps.path("counter.done")).unwrap();
    assert_eq!(done.lines().count(), 1);
    let view = runtime.task(local_user(), task).await.unwrap();
    assert_eq!(view.info.state, TaskState::Completed);
}
