//! Deciding who answers, letting them answer and making one answer of it, as nodes of a workflow.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use convoke_engine::TaskOutcome;
use convoke_model::{Reliance, TaskState};
use convoke_testkit::{Reply, Script};
use office::{Office, Setting, failure};
use serde_json::{Value, json};

fn skill(name: &str, sentence: &str, tool: &str, reply: &str) -> Value {
    json!({
        "name": name, "description": format!("does {name}"), "sentences": [sentence],
        "action": { "tool": format!("desk.{tool}"), "reply": reply },
    })
}

fn setting(over: Option<&str>, order: &str) -> Setting {
    let mut route = json!({ "type": "route" });
    if let Some(over) = over {
        route["over"] = json!(over);
    }
    let workflow = json!({
        "name": "main", "entry_point": "who",
        "nodes": {
            "who": route,
            "them": { "type": "dispatch", "of": "who", "order": order },
            "all": { "type": "aggregate", "of": "them" },
            "ask": { "type": "compose", "prompt": "Which do you mean? {{ who.candidates | map(attribute='name') | join(', ') }}" },
            "sorry": { "type": "compose", "prompt": "Nobody can: {{ who.reasoning }}" },
        },
        "edges": [
            { "from": "who", "to": { "clarify": "ask", "fallback": "sorry", "otherwise": "them" } },
            { "from": "them", "to": "all" },
        ],
    });
    Setting {
        agent: json!({ "llm_config": null, "tools": ["desk.light"],
            "skills": [skill("light_on", "lights on", "light", "The light is on.")],
            "limits": { "retry_delay_ms": 1 } }),
        others: vec![json!({
            "name": "music", "role": "Plays.", "system_prompt": "Play.", "tools": ["desk.play"],
            "skills": [skill("play", "play music", "play", "It plays."), skill("hum", "(hum|do it)", "play", "Hm."),
                skill("drum", "(drum|do it)", "play", "Bum.")],
            "limits": { "retry_delay_ms": 1 },
        })],
        others_think: false,
        decide: json!({ "several": "eager" }),
        workflows: vec![workflow],
        ..Setting::default()
    }
}

fn text(ended: &TaskOutcome) -> &str {
    &ended.answer.as_ref().unwrap().text
}

fn output<'a>(ended: &'a TaskOutcome, node: &str) -> &'a Value {
    &ended.answer.as_ref().unwrap().metadata["output"][node]
}

#[tokio::test]
async fn a_workflow_that_routes_decides_for_all_requests_of_the_app() {
    let office = Office::set_up(setting(None, "parallel"), Reply::text("")).await;
    let ended = office.ask("lights on and play music").await;
    assert_eq!(text(&ended), "The light is on. It plays.");
    let names: Vec<_> = output(&ended, "who")["targets"].as_array().unwrap().clone();
    assert_eq!(names[0]["name"], "light_on");
    assert_eq!(names[1]["agent"], "music");
    let results = output(&ended, "them");
    assert_eq!(results[0]["success"], true);
    assert_eq!(results[1]["content"], "It plays.");
    assert_eq!(ended.answer.as_ref().unwrap().confidence, Reliance::High);
}

#[tokio::test]
async fn over_agents_the_agent_of_the_skill_is_chosen_and_does_it() {
    for order in ["parallel", "sequential"] {
        let office = Office::set_up(setting(Some("agent"), order), Reply::text("")).await;
        let ended = office.ask("play music and lights on").await;
        assert_eq!(text(&ended), "It plays. The light is on.", "{order}");
        assert_eq!(output(&ended, "who")["targets"][0]["kind"], "agent");
        assert_eq!(output(&ended, "who")["targets"][0]["name"], "music");
    }
}

#[tokio::test]
async fn what_is_not_clear_and_what_nobody_can_go_their_own_ways() {
    let office = Office::set_up(setting(None, "parallel"), Reply::text("")).await;
    let ended = office.ask("do it").await;
    assert!(
        text(&ended).starts_with("Which do you mean? "),
        "{}",
        text(&ended)
    );
    assert!(text(&ended).contains("drum"), "{}", text(&ended));
    let ended = office.ask("rewrite the constitution").await;
    assert!(text(&ended).starts_with("Nobody can: "), "{}", text(&ended));
    assert!(office.calls().is_empty());
}

#[tokio::test]
async fn one_target_that_fails_makes_the_answer_partial() {
    let office = Office::set_up(setting(None, "parallel"), Reply::text("")).await;
    office.tool("play", |_| Err(failure("no speaker")));
    let ended = office.ask("lights on and play music").await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(
        text(&ended),
        "The light is on. However, music could not help (something went wrong with music)."
    );
    let answer = ended.answer.as_ref().unwrap();
    assert!(answer.partial_results);
    assert_eq!(answer.confidence, Reliance::Medium);
    let failed = &output(&ended, "them")[1];
    assert_eq!(failed["success"], false);
    assert!(
        failed["error_message"]
            .as_str()
            .unwrap()
            .contains("desk.broken: no speaker"),
        "{failed}"
    );
    assert_eq!(failed["agent"], "music");
    assert_eq!(
        answer.metadata["agent_results"][1]["error_message"],
        failed["error_message"]
    );
    office.tool("light", |_| Err(failure("no bulb")));
    let ended = office.ask("lights on and play music").await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(ended.error.unwrap().contains("dispatch.all_failed"));
}

#[tokio::test]
async fn a_target_that_fails_for_a_passing_reason_is_tried_again() {
    let office = Office::set_up(setting(None, "parallel"), Reply::text("")).await;
    let left = std::sync::atomic::AtomicI32::new(2);
    office.tool("play", move |_| {
        if left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) > 0 {
            return Err(convoke_engine::Failure {
                transient: true,
                ..failure("busy")
            });
        }
        Ok(json!({}))
    });
    let ended = office.ask("play music").await;
    assert_eq!(text(&ended), "It plays.");
    assert_eq!(office.calls().len(), 3);
}

#[tokio::test]
async fn a_model_decides_at_the_node_where_the_words_do_not_tell() {
    let written = json!({
        "targets": [{ "name": "music", "confidence": 0.9, "request": "play music" },
            { "name": "nobody", "confidence": 0.9, "request": "x" }],
        "reasoning": "sounds like it", "clarifying_question": null,
    });
    let mut tries = setting(Some("agent"), "parallel");
    tries.app = json!({ "models": { "decider": {} } });
    tries.decide["router"] = json!({ "model": "decider" });
    let replies = [Reply::text("no idea"), Reply::text(written.to_string())];
    let office = Office::set_up(tries, replies).await;
    let ended = office.ask("something for the ears, if you would").await;
    assert_eq!(text(&ended), "It plays.");
    assert_eq!(output(&ended, "who")["decided_by"], "model");
    assert_eq!(output(&ended, "who")["dropped"], json!(["nobody"]));
    assert_eq!(
        ended.answer.as_ref().unwrap().metadata["spent"]["model_calls"],
        2
    );
    let schema = &office.model.requests()[0].body["response_format"]["json_schema"]["schema"];
    let names = &schema["properties"]["targets"]["items"]["properties"]["name"]["enum"];
    assert_eq!(*names, json!(["clerk", "music"]));
}

#[tokio::test]
async fn a_model_that_never_decides_leads_to_the_fallback() {
    let mut setting = setting(None, "parallel");
    setting.app = json!({ "models": { "decider": {} } });
    setting.decide["router"] = json!({ "model": "decider", "max_attempts": 2 });
    let office = Office::set_up(setting, Script::by(|_| Reply::text("I would rather not."))).await;
    let ended = office.ask("something for the ears, if you would").await;
    assert!(text(&ended).starts_with("Nobody can: "), "{}", text(&ended));
    assert_eq!(office.model.requests().len(), 2);
}
