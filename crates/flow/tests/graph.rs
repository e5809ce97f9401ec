//! Workflows: how ways part and meet, what goes into the state, and what happens when something fails or a
//! person is asked.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_engine::{Options, Question, TaskOutcome};
use convoke_model::TaskState;
use convoke_store::{Filter, MemoryStore, Page, Store, Viewer};
use convoke_testkit::{Reply, Script, SimClock};
use futures::FutureExt;
use office::{Crash, Office, Setting, Side, failure, lost};
use serde_json::{Value, json};
use tokio::sync::watch;

/// An office whose requests go through a workflow.
async fn office(workflow: Value) -> Office {
    office_with(vec![workflow]).await
}

async fn office_with(workflows: Vec<Value>) -> Office {
    let setting = Setting {
        workflows,
        ..Setting::default()
    };
    Office::set_up(setting, Reply::text("The clerk says so.")).await
}

fn tool(name: &str) -> Value {
    json!({ "type": "tool", "tool": format!("desk.{name}") })
}

fn edge(from: &str, to: &str) -> Value {
    json!({ "from": from, "to": to })
}

fn state(ended: &TaskOutcome) -> Value {
    ended.answer.as_ref().unwrap().metadata["output"].clone()
}

fn text(ended: &TaskOutcome) -> &str {
    &ended.answer.as_ref().unwrap().text
}

fn called(office: &Office) -> Vec<String> {
    office.calls().into_iter().map(|(tool, _)| tool).collect()
}

#[tokio::test]
async fn a_tool_is_described_once_for_a_call() {
    let workflow = json!({
        "name": "facts",
        "nodes": { "pay": tool("pay") },
        "entry_point": "pay",
        "answer": "Paid.",
    });
    let office = office(workflow).await;
    assert_eq!(text(&office.ask("go").await), "Paid.");
    assert_eq!(called(&office), ["pay"]);
    assert_eq!(office.tool_server.described(), ["desk.pay"]);
}

#[tokio::test]
async fn ways_part_run_at_once_and_meet_again() {
    let workflow = json!({
        "name": "facts",
        "nodes": {
            "begin": tool("get_begin"), "left": tool("get_left"), "right": tool("get_right"),
            "together": { "type": "tool", "tool": "desk.put",
                "arguments": { "sum": "{{ left.n + right.n }}", "said": "{{ request }}" } },
        },
        "edges": [edge("begin", "left"), edge("begin", "right"), edge("left", "together"), edge("right", "together")],
        "entry_point": "begin",
        "answer": "It is {{ together.sum }}.",
    });
    let office = office(workflow).await;
    // Each side answers only once the other has been asked.
    let asked = watch::Sender::new(0);
    for (side, n) in [("get_left", 1), ("get_right", 2)] {
        let asked = asked.clone();
        office.tool_server.behave(side, move |_| {
            let asked = asked.clone();
            async move {
                asked.send_modify(|count| *count += 1);
                let _ = asked.subscribe().wait_for(|count| *count == 2).await;
                Ok(json!({ "n": n }))
            }
            .boxed()
        });
    }
    office.tool("put", |arguments| Ok(arguments.clone()));
    let ended = office.ask("Add them.").await;
    assert_eq!(text(&ended), "It is 3.");
    let calls = office.calls();
    assert_eq!(calls.len(), 4, "the join is gone through once");
    assert_eq!(
        calls[3],
        ("put".into(), json!({ "sum": 3, "said": "Add them." }))
    );
    assert_eq!(state(&ended)["left"], json!({ "n": 1 }));
}

#[tokio::test]
async fn a_join_of_any_goes_on_with_the_first() {
    let workflow = json!({
        "name": "race",
        "nodes": {
            "begin": tool("get_begin"), "slow": tool("get_slow"), "fast": tool("get_fast"),
            "done": { "type": "tool", "tool": "desk.put", "join": "any" },
        },
        "edges": [edge("begin", "slow"), edge("begin", "fast"), edge("slow", "done"), edge("fast", "done")],
        "entry_point": "begin",
        "answer": "{{ 'slow' if slow else 'not yet' }}",
    });
    let office = office(workflow).await;
    let put = Arc::new(watch::Sender::new(false));
    let seen = Arc::clone(&put);
    office.tool_server.behave("get_slow", move |_| {
        let mut put = seen.subscribe();
        async move {
            let _ = put.wait_for(|put| *put).await;
            Ok(json!("slow"))
        }
        .boxed()
    });
    office.tool("put", move |_| {
        put.send_replace(true);
        Ok(json!("put"))
    });
    let ended = office.ask("Race.").await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(
        called(&office).iter().filter(|tool| *tool == "put").count(),
        1
    );
    assert_eq!(
        text(&ended),
        "slow",
        "what is under way is waited for before the end"
    );
}

#[tokio::test]
async fn conditions_choose_and_what_no_way_leads_to_is_skipped() {
    let workflow = json!({
        "name": "choose",
        "nodes": {
            "look": tool("get_disk"),
            "full": { "type": "condition", "expression": "look.used > 90" },
            "clean": tool("clean"),
            "after": tool("get_after"),
            "rest": { "type": "compose", "prompt": "{{ 'cleaned' if clean else 'fine' }} at {{ look.used }} %" },
        },
        "edges": [
            edge("look", "full"),
            { "from": "full", "to": { "yes": "clean", "no": "rest" } },
            edge("clean", "after"),
            { "from": "after", "to": "rest", "condition": "after.ok" },
        ],
        "entry_point": "look",
    });
    for (used, said, calls) in [
        (
            95,
            "cleaned at 95 %",
            vec!["get_disk", "clean", "get_after"],
        ),
        (40, "fine at 40 %", vec!["get_disk"]),
    ] {
        let office = office(workflow.clone()).await;
        office.tool("get_disk", move |_| Ok(json!({ "used": used })));
        office.tool("get_after", |_| Ok(json!({ "ok": true })));
        let ended = office.ask("How full is it?").await;
        assert_eq!(text(&ended), said);
        assert_eq!(called(&office), calls);
    }
}

#[tokio::test]
async fn a_node_that_fails_tries_again_and_then_does_what_it_says() {
    let workflow = |on_error: Value| {
        json!({
            "name": "frail",
            "nodes": {
                "try": { "type": "tool", "tool": "desk.get_luck", "retries": 2, "retry_delay_ms": 1,
                    "on_error": on_error },
                "next": { "type": "compose", "prompt": "{{ try.error or 'lucky' }}" },
                "rescue": { "type": "compose", "prompt": "rescued" },
            },
            "edges": [edge("try", "next"), { "from": "try", "to": "rescue", "condition": "false" }],
            "entry_point": "try",
        })
    };
    let broken = |_: &Value| Err(failure("no luck"));
    for (on_error, said) in [
        (json!("continue"), "desk.broken: no luck"),
        (json!({ "goto": "rescue" }), "rescued"),
    ] {
        let office = office(workflow(on_error)).await;
        office.tool("get_luck", broken);
        let ended = office.ask("Try.").await;
        assert_eq!(text(&ended), said);
        assert_eq!(office.calls().len(), 3, "once, and twice more");
    }
    let office = office(workflow(json!("fail"))).await;
    office.tool("get_luck", broken);
    let ended = office.ask("Try.").await;
    assert_eq!(ended.status, TaskState::Failed);
    assert_eq!(
        ended.error.as_deref(),
        Some("desk.broken: no luck (at node try)")
    );
}

#[tokio::test]
async fn a_list_is_gone_over_a_few_at_a_time_and_its_results_keep_their_order() {
    let workflow = json!({
        "name": "all",
        "nodes": {
            "names": tool("get_names"),
            "each": { "type": "tool", "tool": "desk.get_one", "arguments": { "name": "{{ name }}" },
                "map": { "over": "names", "as": "name", "parallel": 2 }, "on_error": "continue" },
        },
        "edges": [edge("names", "each")],
        "entry_point": "names",
        "answer": "{{ each | join(', ') }}",
    });
    let office = office(workflow).await;
    office.tool("get_names", |_| Ok(json!(["a", "b", "c", "d", "e"])));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let peak = Arc::clone(&most);
    office.tool_server.behave("get_one", move |arguments| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(json!(arguments["name"].as_str().unwrap().to_uppercase()))
        }
        .boxed()
    });
    let ended = office.ask("All of them.").await;
    assert_eq!(text(&ended), "A, B, C, D, E");
    assert_eq!(peak.load(Ordering::SeqCst), 2);
}

fn asking() -> Value {
    json!({
        "name": "asks",
        "nodes": {
            "look": tool("get_cost"),
            "agree": { "type": "human", "prompt": "Pay {{ look.cost }}?" },
            "sign": { "type": "human", "prompt": "Sign it?" },
            "pay": { "type": "tool", "tool": "desk.pay", "arguments": { "sum": "{{ sum or look.cost }}" } },
            "stop": { "type": "compose", "prompt": "Not paid: {{ agree.message }}." },
        },
        "edges": [
            edge("look", "agree"), edge("look", "sign"),
            { "from": "agree", "to": { "approve": "pay", "modify": "pay", "reject": "stop" } },
            { "from": "sign", "to": "pay", "condition": "sign.action == 'approve'" },
        ],
        "entry_point": "look",
        "state": { "sum": "set" },
    })
}

#[tokio::test]
async fn several_questions_are_open_at_once_and_each_is_answered_by_id() {
    let office = office(asking()).await;
    office.tool("get_cost", |_| Ok(json!({ "cost": 10 })));
    let waiting = office.ask("Pay the bill.").await;
    assert_eq!(waiting.status, TaskState::InputRequired);
    let prompts: Vec<_> = waiting
        .questions
        .iter()
        .map(|asked| asked.prompt.as_str())
        .collect();
    assert_eq!(prompts, ["Pay 10?", "Sign it?"]);
    assert!(!called(&office).contains(&"pay".to_owned()));
    let ended = office
        .see_through(waiting.facts.id, |question: &Question| {
            if question.prompt.starts_with("Pay") {
                let value = json!({ "state_updates": { "sum": 7 }, "message": "less" });
                json!({ "action": "modify", "value": value })
            } else {
                json!({ "action": "approve" })
            }
        })
        .await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(
        office.calls().last().unwrap(),
        &("pay".to_owned(), json!({ "sum": 7 }))
    );
}

#[tokio::test]
async fn a_person_who_says_no_sends_the_task_another_way() {
    let office = office(asking()).await;
    office.tool("get_cost", |_| Ok(json!({ "cost": 10 })));
    let task = office.submit("Pay the bill.").await;
    let ended = office
        .see_through(task, |question: &Question| {
            if question.prompt.starts_with("Pay") {
                json!({ "action": "reject", "message": "too much" })
            } else {
                json!({ "action": "reject" })
            }
        })
        .await;
    assert_eq!(text(&ended), "Not paid: too much.");
    assert!(!called(&office).contains(&"pay".to_owned()));
}

#[tokio::test]
async fn a_checkpoint_shows_the_exact_call_and_waits() {
    let workflow = json!({
        "name": "careful",
        "nodes": { "pay": { "type": "tool", "tool": "desk.pay", "arguments": { "to": "{{ request }}" } } },
        "entry_point": "pay",
        "checkpoints": ["pay"],
    });
    let office = office(workflow).await;
    let waiting = office.ask("Ann").await;
    assert_eq!(
        waiting.questions[0].prompt,
        "May I call desk.pay with to “Ann”?"
    );
    assert!(office.calls().is_empty());
    let changed = json!({ "action": "modify", "value": { "to": "Ben" } });
    let ended = office.answer(&waiting, changed).await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(office.calls(), [("pay".to_owned(), json!({ "to": "Ben" }))]);
}

#[tokio::test]
async fn agents_and_workflows_are_nodes_with_journals_of_their_own() {
    let inner = json!({
        "name": "inner",
        "nodes": { "look": { "type": "tool", "tool": "desk.get_it", "arguments": { "what": "{{ what }}" } } },
        "entry_point": "look",
    });
    let outer = json!({
        "name": "main",
        "nodes": {
            "ask": { "type": "agent", "agent": "clerk", "prompt": "Say something about {{ request }}." },
            "walk": { "type": "workflow", "workflow": "inner", "arguments": { "what": "{{ ask.text }}" } },
        },
        "edges": [edge("ask", "walk")],
        "entry_point": "ask",
        "answer": "{{ walk.look.what }}",
    });
    let office = office_with(vec![inner, outer]).await;
    office.tool("get_it", |arguments| Ok(arguments.clone()));
    let ended = office.ask("bees").await;
    assert_eq!(text(&ended), "The clerk says so.");
    let answer = ended.answer.as_ref().unwrap();
    assert_eq!(answer.metadata["spent"]["model_calls"], 1);
    let filter = Filter {
        parent: Some(ended.facts.id),
        ..Filter::default()
    };
    let children = office
        .store
        .query(&Viewer::System, filter, Page::default())
        .await
        .unwrap();
    assert_eq!(children.tasks.len(), 2);
    let asked = &office.shown(0);
    assert_eq!(
        asked.last().unwrap()["content"],
        "Say something about bees."
    );
}

#[tokio::test]
async fn no_more_calls_are_made_than_the_workflow_allows() {
    let workflow = json!({
        "name": "long",
        "nodes": { "each": { "type": "tool", "tool": "desk.get_one",
            "map": { "over": "range(9)", "parallel": 2 } } },
        "entry_point": "each",
        "max_iterations": 5,
    });
    let office = office(workflow).await;
    let ended = office.ask("Go.").await;
    let error = ended.error.unwrap();
    assert!(error.starts_with("workflow.max_iterations"), "{error}");
    assert_eq!(office.calls().len(), 5);
}

#[tokio::test]
async fn a_list_that_cannot_even_be_begun_fails_with_its_cause() {
    let workflow = json!({
        "name": "short",
        "nodes": { "each": { "type": "tool", "tool": "desk.get_one",
            "map": { "over": "range(9)", "parallel": 2 } } },
        "entry_point": "each",
        "max_iterations": 1,
    });
    let office = office(workflow).await;
    let ended = office.ask("Go.").await;
    let error = ended.error.unwrap();
    assert!(error.starts_with("workflow.max_iterations"), "{error}");
    assert!(office.calls().is_empty());
}

/// Two facts at once, then a change that is made once, then a look at it.
fn change() -> Value {
    json!({
        "name": "change",
        "nodes": {
            "a": tool("get_a"), "b": tool("get_b"), "begin": { "type": "condition", "expression": "true" },
            "pay": { "type": "tool", "tool": "desk.pay", "arguments": { "sum": "{{ a + b }}" } },
            "verify": tool("get_paid"),
        },
        "edges": [edge("begin", "a"), edge("begin", "b"), edge("a", "pay"), edge("b", "pay"), edge("pay", "verify")],
        "entry_point": "begin",
        "answer": "Paid {{ pay.sum }}, {{ verify }}.",
    })
}

#[tokio::test]
async fn a_worker_killed_at_any_entry_ends_the_same_with_every_effect_once() {
    let mut deaths = 0;
    for side in [Side::Before, Side::After] {
        for fatal in 0.. {
            let clock = Arc::new(SimClock::new());
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
            let setting = Setting {
                workflows: vec![change()],
                store: Some(Arc::clone(&store)),
                clock: clock.clone(),
                server: json!({ "honours_idempotency_key": true }),
                ..Setting::default()
            };
            let office = Office::without_worker(setting, Reply::text("")).await;
            office.tool("get_a", |_| Ok(json!(1)));
            office.tool("get_b", |_| Ok(json!(2)));
            office.tool("pay", |arguments| Ok(arguments.clone()));
            office.tool("get_paid", |_| Ok(json!("verified")));
            let task = office.submit_alone("Pay.").await;
            let crash = Arc::new(Crash::at(Arc::clone(&store), fatal, side));
            office.start_worker(crash.clone());
            let ended = tokio::select! {
                ended = office.engine.wait(&Viewer::System, task) => Some(ended.unwrap()),
                () = crash.reached() => None,
            };
            office.kill_worker().await;
            let ended = match ended {
                Some(ended) if side == Side::Before || fatal > 6 => {
                    assert_eq!(text(&ended), "Paid 3, verified.");
                    break;
                }
                _ => {
                    deaths += 1;
                    clock.advance(Duration::from_mins(1));
                    office.start_worker(Arc::clone(&store));
                    office.engine.wait(&Viewer::System, task).await.unwrap()
                }
            };
            let place = format!("{side:?} {fatal}");
            assert_eq!(
                ended.status,
                TaskState::Completed,
                "{place}: {:?}",
                ended.error
            );
            assert_eq!(text(&ended), "Paid 3, verified.", "{place}");
            let paid: std::collections::HashSet<_> = office
                .calls()
                .into_iter()
                .zip(office.tool_server.keys())
                .filter(|((tool, _), _)| tool == "pay")
                .map(|(_, key)| key)
                .collect();
            assert_eq!(paid.len(), 1, "{place}: every attempt has the same key");
        }
    }
    assert!(deaths >= 8, "{deaths}");
}

#[tokio::test]
async fn a_node_is_not_tried_again_where_it_may_have_acted() {
    let workflow = json!({
        "name": "frail",
        "nodes": {
            "try": { "type": "tool", "tool": "desk.pay", "retries": 2, "retry_delay_ms": 1,
                "on_error": "continue" },
            "next": { "type": "compose",
                "prompt": "{{ 'nobody knows' if try.unknown is defined else 'not paid' }}: {{ try.error }}" },
        },
        "edges": [edge("try", "next")],
        "entry_point": "try",
    });
    for (fault, keys, said) in [
        (lost("no line"), 1, "nobody knows: desk.lost: no line"),
        (failure("no luck"), 3, "not paid: desk.broken: no luck"),
    ] {
        let setting = Setting {
            workflows: vec![workflow.clone()],
            // Made again under the same key, a call does nothing more.
            server: json!({ "honours_idempotency_key": true, "tools": {} }),
            worker: Options {
                repeat_pause: Duration::from_millis(1),
                ..Options::for_worker("w")
            },
            ..Setting::default()
        };
        let office = Office::set_up(setting, Reply::text("")).await;
        office.tool("pay", move |_| Err(fault.clone()));
        let ended = office.ask("Pay.").await;
        assert_eq!(text(&ended), said);
        let used: BTreeSet<String> = office.tool_server.keys().into_iter().collect();
        assert_eq!(used.len(), keys, "{said}");
    }
}

/// An office whose workflow lets an agent pay, and asks it once more where it fails.
async fn payers_office(script: Script) -> Office {
    let workflow = json!({
        "name": "errand",
        "nodes": {
            "do": { "type": "agent", "agent": "payer", "retries": 1, "retry_delay_ms": 1,
                "timeout_seconds": 1, "on_error": "continue" },
            "next": { "type": "compose", "prompt": "{{ do.text or do.error }}" },
        },
        "edges": [edge("do", "next")],
        "entry_point": "do",
    });
    let setting = Setting {
        workflows: vec![workflow],
        others: vec![json!({
            "name": "payer", "role": "Pays.", "system_prompt": "You are a payer.",
            "tools": ["desk.pay", "desk.get_time"],
        })],
        ..Setting::default()
    };
    Office::set_up(setting, script).await
}

/// A payer that calls this tool, and whose model refuses to go on the first time.
fn breaks_after(tool: &'static str) -> Script {
    let broken = AtomicUsize::new(0);
    Script::by(move |asked| {
        let messages = asked.body["messages"].as_array().unwrap();
        if messages.last().unwrap()["role"] != "tool" {
            return Reply::tool_calls([(tool, json!({}))]);
        }
        match broken.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::refusal(401, "bad key"),
            _ => Reply::text("Here it is."),
        }
    })
}

#[tokio::test]
async fn an_agent_that_may_have_done_something_is_not_asked_again() {
    let office = payers_office(breaks_after("pay")).await;
    let ended = office.ask("Pay.").await;
    assert_eq!(called(&office), ["pay"], "it was paid");
    assert!(text(&ended).contains("may have done"), "{}", text(&ended));

    // What only looked has done nothing.
    let office = payers_office(breaks_after("get_time")).await;
    let ended = office.ask("Look.").await;
    assert_eq!(called(&office), ["get_time", "get_time"]);
    assert_eq!(text(&ended), "Here it is.");
}

#[tokio::test]
async fn an_agent_whose_time_ends_within_a_call_is_not_asked_again() {
    let office = payers_office(breaks_after("pay")).await;
    office.tool_server.behave("pay", |_| pending().boxed());
    let ended = office.ask("Pay.").await;
    assert_eq!(called(&office), ["pay"]);
    assert!(text(&ended).contains("may have done"), "{}", text(&ended));
}
