//! Two hundred tasks at once against a model and tools that fail in every way they are known to:
//! every task ends, within its time and its budget, and no request is one that an endpoint refuses.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use convoke_engine::{Failure, Options, Question, TaskOutcome};
use convoke_model::TaskState;
use convoke_store::{Filter, Page, Viewer};
use convoke_testkit::{RecordedRequest, Reply, Script};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use jiff::{SignedDuration, Timestamp};
use office::{Office, Setting, assert_valid, failure, lost};
use serde_json::{Value, json};

const SEED: u64 = 2_026;
const BUDGET: u32 = 4;

/// Tasks that are under way at once.
const AT_ONCE: usize = 200;

/// How long after its deadline a task may still be ending, on a machine that has much else to do.
const MARGIN: SignedDuration = SignedDuration::from_secs(20);

/// How long all of it may take before something hangs.
const OUTER: Duration = Duration::from_mins(2);

#[expect(
    clippy::disallowed_methods,
    reason = "whoever runs the tests says how long they may take"
)]
fn waves() -> usize {
    match std::env::var("CONVOKE_LONG_TESTS") {
        Ok(_) => 15,
        Err(_) => 1,
    }
}

/// A number below 100 that is the same whenever the same thing is asked for the same time.
struct StableDice(Mutex<HashMap<String, u64>>);

impl StableDice {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn of(&self, what: String) -> u64 {
        let mut hash = SEED;
        for byte in what.bytes() {
            hash = mixed(hash ^ u64::from(byte));
        }
        let mut seen = self.0.lock().unwrap();
        let times = seen.entry(what).or_insert(0);
        *times += 1;
        mixed(hash ^ *times) % 100
    }
}

fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn raw_calls(calls: &Value) -> Reply {
    let message = json!({ "role": "assistant", "content": "", "tool_calls": calls });
    Reply::raw(&json!({ "choices": [{ "message": message }] }))
}

fn raw_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "id": id, "function": { "name": name, "arguments": arguments } })
}

fn flaky_model() -> Script {
    let fate = StableDice::new();
    Script::by(move |asked: &RecordedRequest| {
        let messages = asked.body["messages"].as_array().unwrap();
        let task = messages[1]["content"].as_str().unwrap();
        let note = json!({ "note": format!("{task}/{}", messages.len()) });
        match fate.of(format!("{task}/{}", messages.len())) {
            0..30 => Reply::status(503),
            30..32 => Reply::hang(),
            32..35 => Reply::text("Here it is, as far as it goes.").stall(40),
            35..39 => Reply::text("Here it is, as far as it goes.").cut(40),
            39..42 => Reply::text("Here it is, as far as it goes.").cut(0),
            42..46 => Reply::bytes("{\"choices\": [{\"message\""),
            46..48 => Reply::bytes("<html>Bad gateway</html>"),
            48..50 => Reply::raw(&json!({ "choices": [] })),
            50..52 => Reply::text(""),
            52..53 => Reply::refusal(400, "no"),
            _ if asked.body.get("tools").is_none() => Reply::text("That is all."),
            53..57 => Reply::tool_calls([("open the door!", note.clone()), ("Web.Search", note)]),
            57..61 => raw_calls(&json!([
                raw_call("c", "pay", "{oops"),
                raw_call("c", "get_time", "[1]"),
                raw_call("", "get_time", "")
            ])),
            61..64 => Reply::text(format!(r#"{{"name": "get_time", "arguments": {note}}}"#)),
            64..70 => Reply::tool_calls([("pay", note)]),
            70..74 => Reply::tool_calls([("sign", note.clone()), ("get_time", note)]),
            74..84 => {
                let tools = ["get_time", "pay", "get_news", "bank__get_time"];
                Reply::tool_calls(tools.map(|tool| (tool, note.clone())))
            }
            _ => Reply::text("Here it is."),
        }
    })
}

type Outcome = BoxFuture<'static, Result<Value, Failure>>;

fn flaky_tool(name: &'static str) -> impl Fn(Value) -> Outcome + Send + Sync + 'static {
    let fate = StableDice::new();
    move |arguments| {
        let fate = fate.of(format!("{name} {arguments}"));
        async move {
            match fate {
                0..12 => Err(failure("it does not work today")),
                12..20 => Err(lost("the answer was lost")),
                20..21 => pending().await,
                21..50 => {
                    tokio::time::sleep(Duration::from_millis(fate)).await;
                    Ok(json!({ "slow": arguments }))
                }
                50..55 => Ok(json!(" ")),
                _ => Ok(json!({ "did": arguments })),
            }
        }
        .boxed()
    }
}

fn setting() -> Setting {
    Setting {
        agent: json!({
            "tools": ["desk.get_time", "desk.get_news", "desk.pay", "desk.sign"],
            "budget": { "model_calls": BUDGET },
            "limits": { "timeout_ms": 2_000, "retry_delay_ms": 1, "max_retries": 1 },
        }),
        limits: json!({ "tool_seconds": 1 }),
        task_time: Duration::from_secs(5),
        models: convoke_llm::Options {
            attempt_timeout: Duration::from_millis(400),
            backoff_first: Duration::from_millis(1),
            backoff_longest: Duration::from_millis(20),
            max_attempts: 3,
            ..convoke_llm::Options::default()
        },
        worker: Options {
            concurrent_tasks: 256,
            repeat_pause: Duration::from_millis(1),
            ..Options::for_worker("w")
        },
        ..Setting::default()
    }
}

/// A person who agrees, objects or knows better, as it happens.
fn person(question: &Question) -> Value {
    match question.id.as_u128() % 3 {
        0 => json!({ "action": "approve" }),
        1 => json!({ "action": "reject" }),
        _ => json!({ "action": "modify", "value": { "by": "a person" } }),
    }
}

/// The word before the colon, by which an operator finds out what went wrong.
fn code(ended: &TaskOutcome) -> String {
    let error = ended.error.clone().unwrap_or_default();
    if error == "the task's time was over" {
        return error;
    }
    let code = error.split_once(": ").map(|(code, _)| code.to_owned());
    let code = code.unwrap_or_else(|| panic!("no code: {error}"));
    let is_code = |letter: char| letter.is_ascii_lowercase() || matches!(letter, '.' | '_');
    assert!(code.contains('.') && code.chars().all(is_code), "{error}");
    code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_ends_in_time_and_within_its_budget_whatever_fails() {
    let office = Office::set_up(setting(), flaky_model()).await;
    for tool in ["get_time", "get_news", "pay", "pay_later", "sign"] {
        office.tool_server.behave(tool, flaky_tool(tool));
    }
    let run = |number: usize| {
        let office = &office;
        async move {
            let conversation = u128::try_from(number).unwrap() + 1;
            let text = format!("Task {number}.");
            let task = office
                .submit_for(7, Some(conversation), &text)
                .await
                .unwrap();
            office.see_through(task, person).await
        }
    };
    let all = async {
        let mut ended = Vec::new();
        for wave in 0..waves() {
            let numbers = (0..AT_ONCE).map(|number| wave * AT_ONCE + number);
            ended.extend(join_all(numbers.map(run)).await);
        }
        ended
    };
    let ended = tokio::time::timeout(OUTER * u32::try_from(waves()).unwrap(), all).await;
    let Ok(ended) = ended else {
        let filter = Filter {
            states: vec![
                TaskState::Working,
                TaskState::Submitted,
                TaskState::InputRequired,
            ],
            ..Filter::default()
        };
        let found = office
            .store
            .query(&Viewer::System, filter, Page::default())
            .await
            .unwrap();
        panic!("these hang: {:#?}", found.tasks);
    };

    let count = ended.len();
    let mut endings: BTreeMap<String, usize> = BTreeMap::new();
    for ended in &ended {
        let ending = match ended.status {
            TaskState::Completed => "completed".to_owned(),
            TaskState::Failed => code(ended),
            other => panic!("{other:?}"),
        };
        *endings.entry(ending).or_insert(0) += 1;
        let journal = office.entries(ended.facts.id).await;
        let last = journal.last().unwrap();
        let anew: Option<Timestamp> =
            serde_json::from_value(last.state.value()["deadline"].clone()).unwrap();
        let deadline = anew.unwrap_or(ended.facts.deadline);
        assert!(last.at <= deadline + MARGIN, "ended {} too late", last.at);
        let replies = journal.iter();
        let replies =
            replies.filter(|entry| entry.event["outcome"]["done"]["thought"]["usage"].is_object());
        let replies = u32::try_from(replies.count()).unwrap();
        assert!(replies <= BUDGET, "{replies} replies");
        let answer = ended.answer.as_ref().unwrap();
        assert_eq!(answer.metadata["spent"]["model_calls"], replies);
    }
    let requests = office.model.requests();
    for request in &requests {
        assert_valid(request.body["messages"].as_array().unwrap());
    }
    println!("{count} tasks, {} requests, {endings:?}", requests.len());
    // It was chaos indeed, and most of it was weathered.
    let completed = endings.get("completed").copied().unwrap_or_default();
    assert!(completed * 10 > count, "{endings:?}");
    assert!(endings.len() > 2, "{endings:?}");
    assert!(requests.len() > count * 2, "{}", requests.len());
}

#[tokio::test]
async fn a_task_whose_model_or_tool_never_answers_ends_at_its_deadline() {
    let scripts: [Script; 2] = [
        Reply::hang().into(),
        Reply::tool_calls([("get_time", json!({}))]).into(),
    ];
    for script in scripts {
        let setting = Setting {
            task_time: Duration::from_millis(200),
            ..Setting::default()
        };
        let office = Office::set_up(setting, script).await;
        office.tool_server.behave("get_time", |_| pending().boxed());
        let asked = tokio::time::timeout(OUTER, office.ask("Wait.")).await;
        let ended = asked.unwrap_or_else(|_| panic!("the task hangs"));
        assert_eq!(ended.status, TaskState::Failed);
        assert!(ended.answer.unwrap().partial_results);
    }
}
