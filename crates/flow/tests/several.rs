//! Several requests in one message: cut into parts, carried out at once by whom each is for, answered as one.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use convoke_engine::TaskOutcome;
use convoke_model::TaskState;
use convoke_store::{Filter, Page, Viewer};
use convoke_testkit::Reply;
use futures::FutureExt;
use office::{Office, Setting, failure, kill_everywhere};
use serde_json::{Value, json};

fn skill(
    name: &str,
    sentences: &Value,
    slot: &str,
    values: &Value,
    tool: &str,
    reply: &str,
) -> Value {
    json!({
        "name": name, "description": format!("does {name}"), "sentences": sentences,
        "slots": { slot: { "ask": "Which?", "values": values } },
        "action": { "tool": format!("desk.{tool}"), "arguments": { slot: format!("{{{{ {slot} }}}}") },
            "reply": reply },
    })
}

/// A house: lights and music, each an agent's own.
fn setting(several: &str) -> Setting {
    let light = skill(
        "light_on",
        &json!([
            "(turn|switch) on the {room} (light|lights)",
            "dim the {room} lights"
        ]),
        "room",
        &json!({ "kitchen": [], "hallway": [] }),
        "light",
        "The {{ room }} lights are on.",
    );
    let music = skill(
        "play",
        &json!(["play {what}"]),
        "what",
        &json!({}),
        "play",
        "Now playing {{ what }}",
    );
    Setting {
        agent: json!({ "tools": ["desk.light"], "skills": [light] }),
        others: vec![json!({
            "name": "music", "role": "Plays.", "system_prompt": "Play.", "tools": ["desk.play"],
            "skills": [music],
        })],
        decide: json!({ "several": several }),
        server: json!({ "honours_idempotency_key": true }),
        ..Setting::default()
    }
}

async fn house(several: &str) -> Office {
    Office::set_up(setting(several), Reply::text("The model was asked.")).await
}

fn text(ended: &TaskOutcome) -> &str {
    &ended.answer.as_ref().unwrap().text
}

fn calls(office: &Office) -> Vec<(String, Value)> {
    let mut calls = office.calls();
    calls.sort_by_key(|(tool, arguments)| (tool.clone(), arguments.to_string()));
    calls
}

#[tokio::test]
async fn each_part_goes_to_whom_it_is_for_and_the_answers_become_one() {
    let office = house("eager").await;
    let ended = office.ask("turn on the kitchen lights and play jazz").await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(text(&ended), "The kitchen lights are on. Now playing jazz.");
    let expected = [
        ("light".to_owned(), json!({ "room": "kitchen" })),
        ("play".to_owned(), json!({ "what": "jazz" })),
    ];
    assert_eq!(calls(&office), expected);
    let answer = ended.answer.unwrap();
    assert_eq!(
        answer.tool_calls.len(),
        2,
        "the answer tells what was called for it"
    );
    assert_eq!(answer.metadata["intent"], "several");
    let results = answer.metadata["agent_results"].as_array().unwrap();
    let names: Vec<_> = results.iter().map(|result| &result["agent"]).collect();
    assert_eq!(names, ["clerk", "music"]);
    for (result, content) in results
        .iter()
        .zip(["The kitchen lights are on.", "Now playing jazz"])
    {
        assert_eq!(result["content"], content);
        assert_eq!(result["success"], true);
        assert_eq!(result["error_message"], Value::Null);
        assert!(result["execution_time_ms"].is_u64(), "{result}");
    }
}

#[tokio::test]
async fn words_that_a_part_omits_are_taken_from_the_next_part() {
    for (said, rooms) in [
        (
            "turn on the kitchen lights and the hallway lights",
            ["hallway", "kitchen"],
        ),
        ("dim the kitchen and hallway lights", ["hallway", "kitchen"]),
    ] {
        let office = house("eager").await;
        office.ask(said).await;
        let lit: Vec<Value> = calls(&office)
            .into_iter()
            .map(|(_, room)| room["room"].clone())
            .collect();
        assert_eq!(lit, rooms, "{said}");
    }
}

#[tokio::test]
async fn thanks_are_no_request() {
    let office = house("eager").await;
    let said = "play jazz and turn on the kitchen lights, thanks";
    assert_eq!(
        text(&office.ask(said).await),
        "Now playing jazz. The kitchen lights are on."
    );
    assert_eq!(office.calls().len(), 2);
}

#[tokio::test]
async fn a_message_that_fits_as_a_whole_is_cut_only_where_the_app_wants_that() {
    let said = "play jazz and turn on the kitchen lights";
    let careful = house("careful").await;
    careful.ask(said).await;
    assert_eq!(
        careful.calls(),
        [(
            "play".to_owned(),
            json!({ "what": "jazz and turn on the kitchen lights" })
        )]
    );
    let eager = house("eager").await;
    eager.ask(said).await;
    assert_eq!(eager.calls().len(), 2);
    let titled = house("eager").await;
    titled.ask("play salt and pepper").await;
    assert_eq!(
        titled.calls(),
        [("play".to_owned(), json!({ "what": "salt and pepper" }))]
    );
    let never = house("never").await;
    never.ask("turn on the kitchen lights and play jazz").await;
    assert!(never.calls().len() <= 1);
}

#[tokio::test]
async fn a_message_of_which_a_part_is_not_known_is_left_whole() {
    let office = house("eager").await;
    let ended = office
        .ask("turn on the kitchen lights and sing me a song")
        .await;
    assert!(
        office.calls().is_empty(),
        "nothing is done by halves: {}",
        text(&ended)
    );
}

/// The house without a model, in which people also ask for what it cannot do.
async fn asked_in_vain(several: &str) -> Office {
    let setting = Setting {
        decide: json!({
            "several": several,
            "out_of_scope": ["call my sister", "could you book a table for two", "the oven is on"],
        }),
        ..without_model(setting(several))
    };
    Office::set_up(setting, Reply::text("")).await
}

fn without_model(mut setting: Setting) -> Setting {
    setting.agent["llm_config"] = Value::Null;
    setting.others_think = false;
    setting
}

#[tokio::test]
async fn what_people_put_in_their_own_words_swallows_no_other_request() {
    for said in [
        "play jazz and call the neighbours",
        "play jazz, and then please book me a taxi",
        "play jazz. Call the neighbours",
        "play jazz, dim the kitchen lights, whatever",
    ] {
        let office = asked_in_vain("eager").await;
        let ended = office.ask(said).await;
        assert!(office.calls().is_empty(), "{said}: {}", text(&ended));
        let answer = ended.answer.unwrap();
        assert_eq!(answer.metadata["intent"], "clarification_needed", "{said}");
    }
    // Who did mean it says so.
    let office = asked_in_vain("eager").await;
    office.ask("play jazz and call the neighbours").await;
    office.ask("yes").await;
    let whole = json!({ "what": "jazz and call the neighbours" });
    assert_eq!(office.calls(), [("play".to_owned(), whole)]);
}

#[tokio::test]
async fn names_that_sound_like_two_requests_stay_whole() {
    for what in [
        "salt and pepper",
        "Earth, Wind and Fire",
        "rock and roll",
        "Florence and the Machine",
        "Crosby, Stills, Nash and Young",
        "hello, call me maybe",
        "me and Mrs. Jones",
    ] {
        let office = asked_in_vain("eager").await;
        office.ask(&format!("play {what}")).await;
        let whole = json!({ "what": what });
        assert_eq!(office.calls(), [("play".to_owned(), whole)]);
    }
    let careful = asked_in_vain("careful").await;
    careful.ask("play jazz and call the neighbours").await;
    assert_eq!(careful.calls().len(), 1, "such an app takes it as one");
}

#[tokio::test]
async fn a_single_word_is_cut_off_no_name_but_asked_about() {
    let mut setting = setting("eager");
    let night = skill(
        "night",
        &json!(["[good] night", "good {room}"]),
        "room",
        &json!({ "kitchen": [] }),
        "light",
        "Good night.",
    );
    setting.agent["skills"].as_array_mut().unwrap().push(night);
    let office = Office::set_up(without_model(setting), Reply::text("")).await;
    let ended = office.ask("play day and night").await;
    assert!(office.calls().is_empty(), "{}", text(&ended));
    assert_eq!(
        ended.answer.unwrap().metadata["intent"],
        "clarification_needed"
    );
}

#[tokio::test]
async fn what_a_tool_reports_is_the_error_of_its_agent_and_the_answer_of_its_part() {
    let office = house("eager").await;
    let why = "There is no speaker in the attic.";
    office.tool_server.decline("play", why);
    for (said, place) in [
        ("play jazz", 0),
        ("turn on the kitchen lights and play jazz", 1),
    ] {
        let ended = office.ask(said).await;
        assert_eq!(ended.status, TaskState::Completed);
        assert!(text(&ended).contains(why), "{}", text(&ended));
        let result = &ended.answer.as_ref().unwrap().metadata["agent_results"][place];
        assert_eq!(result["agent"], "music");
        assert_eq!(result["success"], false);
        assert_eq!(result["error_message"], format!("desk.declined: {why}"));
    }
}

#[tokio::test]
async fn a_part_that_is_not_done_says_why_to_the_user_and_to_the_operator() {
    let office = house("eager").await;
    let unavailable = || convoke_engine::Failure {
        transient: true,
        code: "tool.not_reached".into(),
        ..failure("Music Assistant is unavailable (503)")
    };
    office.tool("play", move |_| Err(unavailable()));
    let ended = office.ask("turn on the kitchen lights and play jazz").await;
    let expected = "The kitchen lights are on. However, I could not do this: “play jazz” (music is not available at \
                    the moment).";
    assert_eq!(text(&ended), expected);
    let answer = ended.answer.as_ref().unwrap();
    let cause = "tool.not_reached: Music Assistant is unavailable (503)";
    let failed = &answer.metadata["agent_results"][1];
    assert_eq!(failed["agent"], "music");
    assert_eq!(failed["success"], false);
    assert_eq!(failed["content"], "");
    assert_eq!(failed["error_message"], cause);
    assert_eq!(answer.metadata["missing"][0]["reason"], cause);
    assert_eq!(
        answer.warnings,
        ["I could not do this: “play jazz” (music is not available at the moment)."]
    );

    office.tool("light", |_| Err(failure("no light")));
    let ended = office.ask("turn on the kitchen lights and play jazz").await;
    assert_eq!(ended.status, TaskState::Failed);
    let said = text(&ended);
    assert!(
        said.contains("music is not available at the moment"),
        "{said}"
    );
    assert!(said.contains("something went wrong with clerk"), "{said}");
    let error = ended.error.unwrap();
    assert!(error.contains(cause), "{error}");
    assert!(error.contains("desk.broken: no light"), "{error}");
    let results = &ended.answer.unwrap().metadata["agent_results"];
    assert_eq!(results.as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn one_failed_part_does_not_discard_the_others() {
    let office = house("eager").await;
    office
        .tool_server
        .behave("play", |_| async { Err(failure("no speaker")) }.boxed());
    let ended = office.ask("turn on the kitchen lights and play jazz").await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(
        text(&ended),
        "The kitchen lights are on. However, I could not do this: “play jazz” (something went wrong with music)."
    );
    office
        .tool_server
        .behave("light", |_| async { Err(failure("no light")) }.boxed());
    let ended = office.ask("turn on the kitchen lights and play jazz").await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(
        text(&ended).starts_with("I encountered an issue"),
        "{}",
        text(&ended)
    );
    assert!(ended.error.unwrap().starts_with("dispatch.all_failed"));
}

#[tokio::test]
async fn parts_are_carried_out_at_once() {
    let office = house("eager").await;
    let under_way = tokio::sync::watch::Sender::new(0);
    for tool in ["light", "play"] {
        let under_way = under_way.clone();
        office.tool_server.behave(tool, move |_| {
            let under_way = under_way.clone();
            async move {
                under_way.send_modify(|number| *number += 1);
                let _ = under_way.subscribe().wait_for(|number| *number == 2).await;
                Ok(json!({}))
            }
            .boxed()
        });
    }
    let ended = office.ask("turn on the kitchen lights and play jazz").await;
    assert_eq!(ended.status, TaskState::Completed);
}

/// Lights that can be turned on, dimmed and asked about, and music, each an agent's own.
fn dimming() -> Setting {
    let mut setting = setting("eager");
    let dim = skill(
        "dim",
        &json!([
            "dim [the] {room} (light|lights)",
            "dim (it|them|that) [a bit]",
            "turn (it|that) off"
        ]),
        "room",
        &json!({ "kitchen": [], "hallway": [] }),
        "dim",
        "The {{ room }} lights are dimmed.",
    );
    let stop = skill(
        "stop",
        &json!(["turn (it|that) off", "stop playing {what}"]),
        "what",
        &json!({}),
        "stop",
        "Stopped.",
    );
    setting.agent["skills"].as_array_mut().unwrap().push(dim);
    setting.agent["tools"] = json!(["desk.light", "desk.dim"]);
    setting.others[0]["skills"]
        .as_array_mut()
        .unwrap()
        .push(stop);
    setting.others[0]["tools"] = json!(["desk.play", "desk.stop"]);
    setting
}

#[tokio::test]
async fn what_was_spoken_of_is_what_it_means_for_the_next_turns() {
    let office = Office::set_up(dimming(), Reply::text("{}")).await;
    office.ask("turn on the hallway lights").await;
    assert_eq!(
        text(&office.ask("dim it a bit").await),
        "The hallway lights are dimmed."
    );
    // Two agents know these words; what was spoken of tells whose they are.
    let ended = office.ask("turn it off").await;
    assert_eq!(text(&ended), "The hallway lights are dimmed.");
    assert_eq!(ended.answer.unwrap().metadata["agent"], "clerk");
    let fresh = Office::set_up(dimming(), Reply::text("{}")).await;
    fresh.ask("dim it a bit").await;
    assert!(fresh.calls().is_empty(), "nothing was spoken of yet");
}

#[tokio::test]
async fn a_part_that_points_at_the_one_before_it_comes_after_it_and_knows_it() {
    let office = Office::set_up(dimming(), Reply::text("{}")).await;
    let ended = office
        .ask("turn on the kitchen lights and dim them a bit")
        .await;
    assert_eq!(
        text(&ended),
        "The kitchen lights are on. The kitchen lights are dimmed."
    );
    let calls = office.calls();
    assert_eq!(calls[0].0, "light");
    assert_eq!(calls[1], ("dim".to_owned(), json!({ "room": "kitchen" })));
    // And what all of it was about is known for the next turn.
    assert_eq!(
        text(&office.ask("dim it a bit").await),
        "The kitchen lights are dimmed."
    );
}

#[tokio::test]
async fn what_several_agents_know_is_meant_for_the_one_that_was_spoken_of_last() {
    // Within the message it is the music.
    let office = Office::set_up(dimming(), Reply::text("{}")).await;
    let ended = office.ask("play jazz and turn it off").await;
    assert_eq!(text(&ended), "Now playing jazz. Stopped.");
    // Before it, it was the lights.
    let office = Office::set_up(dimming(), Reply::text("{}")).await;
    office.ask("turn on the hallway lights").await;
    let ended = office.ask("turn it off and play blues").await;
    assert_eq!(
        text(&ended),
        "The hallway lights are dimmed. Now playing blues."
    );
    let office = Office::set_up(dimming(), Reply::text("{}")).await;
    let ended = office.ask("turn it off and play blues").await;
    assert!(
        office.calls().is_empty(),
        "nothing was spoken of yet: {}",
        text(&ended)
    );
}

#[tokio::test]
async fn parts_look_back_on_the_conversation() {
    let office = Office::set_up(dimming(), Reply::text("{}")).await;
    office.ask("turn on the hallway lights").await;
    let ended = office.ask("dim it a bit and play blues").await;
    assert_eq!(
        text(&ended),
        "The hallway lights are dimmed. Now playing blues."
    );
}

#[tokio::test]
async fn what_a_part_may_read_is_a_field_of_its_input() {
    let office = house("eager").await;
    let ended = office.ask("turn on the kitchen lights and play jazz").await;
    let filter = Filter {
        parent: Some(ended.facts.id),
        ..Filter::default()
    };
    let parts = office
        .store
        .query(&Viewer::System, filter, Page::default())
        .await
        .unwrap();
    assert_eq!(parts.tasks.len(), 2);
    for part in parts.tasks {
        let input = office.entries(part.id).await[0].event["input"].clone();
        assert_eq!(input["kind"], "child", "{input}");
        let excerpt = &input["earlier"];
        assert_eq!(excerpt["conversation"], json!(ended.facts.conversation));
        assert_eq!(excerpt["before"], json!(ended.facts.id));
        let loaded = office
            .store
            .load(&Viewer::System, part.id, 1)
            .await
            .unwrap()
            .unwrap();
        assert!(loaded.messages[0].message.metadata.is_empty());
    }
}

#[tokio::test]
async fn several_requests_are_no_answer_to_a_question() {
    let office = Office::set_up(dimming(), Reply::text("{}")).await;
    let ended = office.ask("play jazz and dim it a bit").await;
    // Music has no room, so that it is not known what is to be dimmed.
    assert_eq!(text(&ended), "Now playing jazz. Which?");
    let ended = office
        .ask("turn on the kitchen lights and play blues")
        .await;
    assert_eq!(
        text(&ended),
        "The kitchen lights are on. Now playing blues."
    );
    let office = Office::set_up(dimming(), Reply::text("{}")).await;
    office.ask("play jazz and dim it a bit").await;
    assert_eq!(
        text(&office.ask("kitchen").await),
        "The kitchen lights are dimmed."
    );
}

#[tokio::test]
async fn in_sequence_a_part_is_begun_once_the_one_before_it_has_ended() {
    for order in ["sequential", "parallel"] {
        let setting = Setting {
            app: json!({ "dispatch": { "order": order } }),
            ..setting("eager")
        };
        let office = Office::set_up(setting, Reply::text("")).await;
        let tool_server = Arc::clone(&office.tool_server);
        let retry_budget = Duration::from_millis(if order == "parallel" { 20_000 } else { 50 });
        office.tool_server.behave("light", move |_| {
            let tool_server = Arc::clone(&tool_server);
            async move {
                // Whoever else is under way is heard of sooner or later.
                let company = async {
                    while tool_server.calls().len() == 1 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                let alone = tokio::time::timeout(retry_budget, company).await.is_err();
                Ok(json!({ "alone": alone }))
            }
            .boxed()
        });
        let ended = office.ask("turn on the kitchen lights and play jazz").await;
        assert_eq!(text(&ended), "The kitchen lights are on. Now playing jazz.");
        let alone = &ended.answer.as_ref().unwrap().tool_calls[0];
        let alone = alone.result.as_ref().unwrap()["alone"].clone();
        assert_eq!(alone, json!(order == "sequential"), "{order}");
    }
}

#[tokio::test]
async fn a_part_that_fails_for_a_passing_reason_is_tried_again_but_not_for_ever() {
    for (failures, calls, answer) in [
        (2, 3, "The kitchen lights are on. Now playing jazz."),
        (
            9,
            3,
            "The kitchen lights are on. However, I could not do this: “play jazz” (music is not available at the moment).",
        ),
    ] {
        let mut setting = setting("eager");
        setting.others[0]["limits"] = json!({ "retry_delay_ms": 1 });
        let office = Office::set_up(setting, Reply::text("")).await;
        let left = Arc::new(std::sync::atomic::AtomicI32::new(failures));
        office.tool("play", move |_| {
            if left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) > 0 {
                return Err(convoke_engine::Failure {
                    transient: true,
                    ..failure("busy")
                });
            }
            Ok(json!({}))
        });
        let ended = office.ask("turn on the kitchen lights and play jazz").await;
        assert_eq!(text(&ended), answer);
        let tried = office
            .calls()
            .iter()
            .filter(|call| call.0 == "play")
            .count();
        assert_eq!(tried, calls, "{failures}");
        assert_eq!(ended.answer.unwrap().partial_results, failures == 9);
    }
    // One that fails for good is not tried again.
    let office = house("eager").await;
    office.tool("play", |_| Err(failure("no speaker")));
    office.ask("turn on the kitchen lights and play jazz").await;
    assert_eq!(
        office
            .calls()
            .iter()
            .filter(|call| call.0 == "play")
            .count(),
        1
    );
}

#[tokio::test]
async fn at_the_deadline_the_parts_that_were_done_are_told() {
    let setting = Setting {
        task_time: Duration::from_secs(2),
        ..setting("eager")
    };
    let office = Office::set_up(setting, Reply::text("")).await;
    office
        .tool_server
        .behave("play", |_| std::future::pending().boxed());
    let ended = office.ask("turn on the kitchen lights and play jazz").await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(
        text(&ended),
        "The kitchen lights are on. However, I could not do this: “play jazz” (music took too long)."
    );
    assert!(ended.answer.unwrap().partial_results);
}

#[tokio::test]
async fn a_worker_killed_at_any_entry_of_any_part_does_each_part_once() {
    let said = "turn on the kitchen lights and play jazz";
    let look = |office: &Office, ended: &TaskOutcome, place: &str| {
        let expected = "The kitchen lights are on. Now playing jazz.";
        assert_eq!(text(ended), expected, "{place}");
        let keys: BTreeSet<_> = office.tool_server.keys().into_iter().collect();
        assert_eq!(
            keys.len(),
            2,
            "{place}: every attempt has the key of its part"
        );
    };
    let deaths = kill_everywhere(|| setting("eager"), |_| {}, said, look).await;
    assert!(deaths >= 8, "{deaths}");
}
