//! Following a task: a stream that is cut after any event, and taken up from its cursor anywhere, joins to the uncut one.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use std::sync::Arc;
use std::time::Duration;

use convoke_engine::{Engine, EventCursor, LiveText, QuestionAnswer};
use convoke_flow::{Assistant, FollowedTask, TaskEvent, TaskEventKind, TaskUpdate, follow};
use convoke_model::TaskState;
use convoke_store::{MemoryStore, Store, Viewer};
use convoke_testkit::{Reply, Script, SimClock};
use futures::StreamExt;
use office::crash::{Crash, Side};
use office::{Office, Setting};
use serde_json::json;
use tokio::sync::Semaphore;
use uuid::Uuid;

const SYSTEM: &Viewer = &Viewer::System;

/// A thought, a tool, another agent, a question to a person, and an answer.
fn busy() -> Script {
    Script::by(|asked| {
        let messages = asked.body["messages"].as_array().unwrap();
        if messages[0]["content"]
            .as_str()
            .unwrap()
            .contains("researcher")
        {
            return Reply::text("The moon is far.");
        }
        let results = messages
            .iter()
            .filter(|message| message["role"] == "tool")
            .count();
        match results {
            0 => Reply::tool_calls([
                ("get_time", json!({})),
                ("ask_researcher", json!({"task": "How far is the moon?"})),
            ]),
            1 | 2 => Reply::tool_calls([("sign", json!({"title": "look up"}))]),
            _ => Reply::text("It is noon, the moon is far, and it is noted."),
        }
    })
}

fn setting() -> Setting {
    Setting {
        agent: json!({
            "agents": ["researcher"], "tools": ["desk.get_time", "desk.sign"],
        }),
        others: vec![json!({
            "name": "researcher", "role": "Looks things up.", "system_prompt": "You are a researcher.",
        })],
        ..Setting::default()
    }
}

async fn join(
    engine: &Engine<Assistant>,
    task: Uuid,
    after: EventCursor,
    mut so_far: FollowedTask,
) -> FollowedTask {
    let following = follow(engine, SYSTEM, task, after).await.unwrap();
    let mut updates = Box::pin(following.into_stream());
    while let Some(update) = updates.next().await {
        so_far.apply(update.unwrap());
    }
    so_far
}

async fn whole(engine: &Engine<Assistant>, task: Uuid) -> FollowedTask {
    join(engine, task, EventCursor::START, FollowedTask::default()).await
}

fn names(events: &[TaskEvent]) -> Vec<String> {
    let name = |event: &TaskEvent| json!(event)["type"].as_str().unwrap().to_owned();
    events.iter().map(name).collect()
}

async fn approve(office: &Office, task: Uuid) {
    let waiting = office.engine.wait(SYSTEM, task).await.unwrap();
    assert_eq!(
        waiting.status,
        TaskState::InputRequired,
        "{:?}",
        waiting.error
    );
    let answered = office
        .engine
        .answer(SYSTEM, task, None, QuestionAnswer::approve())
        .await;
    answered.unwrap();
}

async fn until_ended(office: &Office, task: Uuid) {
    while !office
        .engine
        .wait(SYSTEM, task)
        .await
        .unwrap()
        .status
        .is_final()
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn all_kinds_of_events_come_in_order() {
    let office = Office::set_up(setting(), busy()).await;
    let task = office
        .submit("What time is it, how far is the moon, and note it.")
        .await;
    approve(&office, task).await;
    until_ended(&office, task).await;
    let followed = whole(&office.engine, task).await;
    let names = names(&followed.events);
    let expected = [
        "accepted",
        "thought_begun",
        "tool_call_begun",
        "sub_task_begun",
        "tool_call_ended",
        "sub_task_ended",
        "question_asked",
        "question_answered",
        "text",
        "answer",
        "ended",
    ];
    for expected in expected {
        assert!(
            names.iter().any(|name| name == expected),
            "{expected} is missing: {names:?}"
        );
    }
    let place = |name: &str| names.iter().position(|other| other == name).unwrap();
    assert!(place("tool_call_begun") < place("tool_call_ended"));
    assert!(place("question_asked") < place("question_answered"));
    assert_eq!(names.last().unwrap(), "ended");
    assert!(
        followed.events.is_sorted_by_key(|event| event.cursor),
        "cursors are ordered"
    );
    let read_back: Vec<TaskEvent> = serde_json::from_value(json!(followed.events)).unwrap();
    assert_eq!(read_back, followed.events);
}

#[tokio::test]
async fn a_stream_cut_after_every_event_and_taken_up_elsewhere_equals_the_uncut_one() {
    let office = Office::set_up(setting(), busy()).await;
    let task = office
        .submit("What time is it, how far is the moon, and note it.")
        .await;
    // From the start, while it is worked on.
    let engine = office.engine.clone();
    let uncut = async { whole(&engine, task).await };
    let work = async {
        approve(&office, task).await;
        until_ended(&office, task).await;
    };
    let (uncut, ()) = tokio::join!(uncut, work);
    assert!(uncut.live.is_empty());
    let assistant = Arc::new(Assistant::new(Arc::clone(&office.app)).unwrap());
    let elsewhere = office.setting.engine(assistant, Arc::clone(&office.store));
    for (index, event) in uncut.events.iter().enumerate() {
        let cursor: EventCursor = event.cursor.to_string().parse().unwrap();
        let so_far = FollowedTask {
            events: uncut.events[..=index].to_vec(),
            ..FollowedTask::default()
        };
        for engine in [&office.engine, &elsewhere] {
            let joined = join(engine, task, cursor, so_far.clone()).await;
            assert_eq!(joined, uncut, "cut after {cursor}");
        }
    }
}

#[tokio::test]
async fn a_stream_goes_on_in_another_process_after_its_worker_was_killed_at_any_entry() {
    for fatal in 0..40 {
        let clock = Arc::new(SimClock::running());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        let setting = Setting {
            store: Some(Arc::clone(&store)),
            clock: clock.clone(),
            ..setting()
        };
        let office = Office::without_worker(setting, busy()).await;
        let task = office
            .submit_alone("What time is it, how far is the moon, and note it.")
            .await;
        let crash = Arc::new(Crash::at(Arc::clone(&store), fatal, Side::After));
        office.start_worker(crash.clone());
        let mut so_far = FollowedTask::default();
        let following = follow(&office.engine, SYSTEM, task, EventCursor::START)
            .await
            .unwrap();
        let mut updates = Box::pin(following.into_stream());
        let survived = tokio::select! {
            () = async {
                approve(&office, task).await;
                until_ended(&office, task).await;
            } => true,
            () = crash.reached() => false,
            () = async {
                while let Some(update) = updates.next().await {
                    so_far.apply(update.unwrap());
                }
                std::future::pending::<()>().await;
            } => unreachable!(),
        };
        drop(updates);
        office.kill_worker().await;
        let cursor = so_far
            .events
            .last()
            .map_or(EventCursor::START, |event| event.cursor);
        clock.advance(Duration::from_mins(1));
        office.start_worker(Arc::clone(&store));
        let assistant = Arc::new(Assistant::new(Arc::clone(&office.app)).unwrap());
        let elsewhere = office.setting.engine(assistant, Arc::clone(&store));
        let work = office.see_through(task, |_| json!({ "action": "approve" }));
        let (joined, _) = tokio::join!(join(&elsewhere, task, cursor, so_far), work);
        assert_eq!(
            joined,
            whole(&office.engine, task).await,
            "killed at {fatal}"
        );
        assert_eq!(
            names(&joined.events).last().unwrap(),
            "ended",
            "killed at {fatal}"
        );
        if survived {
            return;
        }
    }
    panic!("the task has more entries than were tried");
}

#[tokio::test]
async fn text_is_live_until_it_is_journaled_and_reset_when_it_is_repeated() {
    let gate = Arc::new(Semaphore::new(0));
    let text = "It is noon, and time for lunch.";
    let replies = vec![Reply::text(text).cut(400), Reply::text(text).gated(&gate)];
    let setting = Setting::default();
    let office = Office::without_worker(setting, replies).await;
    let task = office.submit("What time is it?").await;
    let following = follow(&office.engine, SYSTEM, task, EventCursor::START)
        .await
        .unwrap();
    let mut updates = Box::pin(following.into_stream());
    office.start_worker(Arc::clone(&office.store));
    let mut followed = FollowedTask::default();
    let mut heard = String::new();
    let mut resets = 0;
    while let Some(update) = updates.next().await {
        let update = update.unwrap();
        match &update {
            TaskUpdate::Live(LiveText::Text { text, offset, .. }) => {
                heard.truncate(*offset);
                heard.push_str(text);
                // The first attempt has been heard; the second may begin.
                gate.add_permits(1);
            }
            TaskUpdate::Live(LiveText::Reset { .. }) => {
                resets += 1;
                heard.clear();
            }
            TaskUpdate::Event(_) => {}
        }
        followed.apply(update);
    }
    let said = followed.events.iter().find_map(|event| match &event.kind {
        TaskEventKind::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!((said, heard.as_str()), (Some(text), text));
    assert_eq!(resets, 1, "what the first attempt said was taken back");
    assert!(
        followed.live.is_empty(),
        "what is journaled is not live any more"
    );
}

#[tokio::test]
async fn nothing_is_live_in_an_app_that_checks_before_it_delivers() {
    let workflow = json!({
        "name": "checked", "entry_point": "write",
        "nodes": {
            "write": { "type": "agent", "agent": "clerk" },
            "look": { "type": "check", "criteria": [
                { "id": "short", "description": "the text is short",
                  "expression": "write | length <= 1000" },
            ] },
            "send": { "type": "deliver", "prompt": "{{ write }}" },
        },
        "edges": [
            { "from": "write", "to": "look" },
            { "from": "look", "to": { "passed": "send" } },
        ],
    });
    for (workflows, is_live) in [(Vec::new(), true), (vec![workflow], false)] {
        let setting = Setting {
            workflows,
            ..Setting::default()
        };
        let office = Office::without_worker(setting, Reply::text("It is noon.")).await;
        let task = office.submit("What time is it?").await;
        let following = follow(&office.engine, SYSTEM, task, EventCursor::START)
            .await
            .unwrap();
        let updates = following.into_stream().map(Result::unwrap);
        office.start_worker(Arc::clone(&office.store));
        let updates: Vec<TaskUpdate> = updates.collect().await;
        let live = updates
            .iter()
            .any(|update| matches!(update, TaskUpdate::Live(_)));
        assert_eq!(live, is_live, "{updates:?}");
    }
}

#[tokio::test]
async fn who_does_not_see_a_task_cannot_follow_it() {
    let office = Office::open(json!({}), Reply::text("It is noon.")).await;
    let task = office.submit("What time is it?").await;
    let own = Viewer::user(Uuid::from_u128(7), "office");
    assert!(
        follow(&office.engine, &own, task, EventCursor::START)
            .await
            .is_ok()
    );
    for viewer in [
        Viewer::user(Uuid::from_u128(8), "office"),
        Viewer::operator("home"),
    ] {
        let refused = follow(&office.engine, &viewer, task, EventCursor::START).await;
        assert_eq!(refused.err().unwrap().code(), "task.not_found");
    }
}
