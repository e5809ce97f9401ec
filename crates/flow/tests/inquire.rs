//! Data domains: which a question needs, how they are asked, and what becomes of those that are slow, silent or broken.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod office;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_engine::{Failure, TaskOutcome};
use convoke_model::{Reliance, TaskState, ToolCallStatus};
use convoke_testkit::{Reply, Script};
use futures::FutureExt;
use office::{Office, Setting, failure, kill_everywhere};
use serde_json::{Value, json};

fn domain(name: &str, keyword: &str, examples: &Value, related: &Value, tools: &Value) -> Value {
    json!({
        "name": name, "display_name": name.to_uppercase(), "description": format!("All about {name}."),
        "capabilities": [format!("{keyword} analysis")], "examples": examples, "keywords": [keyword],
        "mcp_tools": tools, "related_domains": related,
    })
}

/// A shop with three domains, of which one follows another and one can be polled.
fn setting() -> Setting {
    let carts = domain(
        "carts",
        "abandoned",
        &json!([
            "which products are abandoned most in carts",
            "what do people leave in their carts",
            "how many carts are abandoned",
            "cart abandonment by product",
        ]),
        &json!(["stock", "prices", "closed"]),
        &json!([{ "tool": "desk.get_carts", "shows": "result.products" }]),
    );
    let stock = domain(
        "stock",
        "stock",
        &json!([
            "how many units are in stock",
            "which products are low in stock",
            "what is the stock level of boots",
            "how full is the warehouse",
        ]),
        &json!(["carts", "prices"]),
        &json!([{
            "tool": "desk.get_stock", "follows": ["carts"],
            "arguments": { "query": "{{ question }}", "conversation_id": "{{ conversation_id }}",
                "products": "{{ pointed }}" },
        }]),
    );
    let prices = domain(
        "prices",
        "price",
        &json!([
            "what is the price of boots",
            "which prices have changed",
            "how much does a jacket cost",
            "what discounts do we give",
        ]),
        &json!([]),
        &json!([{
            "tool": "desk.get_prices", "poll": { "tool": "desk.get_prices_again", "every_ms": 1 },
        }]),
    );
    let mut closed = domain(
        "closed",
        "secret",
        &json!(["what is the secret"]),
        &json!([]),
        &json!(["desk.get_secret"]),
    );
    closed["enabled"] = json!(false);
    Setting {
        agent: json!({ "name": "clerk", "llm_config": null, "tools": [] }),
        domains: vec![carts, stock, prices, closed],
        ..Setting::default()
    }
}

fn answers(office: &Office, tool: &str, answer: &'static str) {
    let name = tool.to_owned();
    office.tool(tool, move |_| {
        Ok(json!({
            "answer": answer, "conversation_id": format!("{name} talk"), "message_id": "m1",
            "products": ["Boots", "Jacket"],
        }))
    });
}

async fn shop() -> Office {
    shop_with(setting()).await
}

async fn shop_with(setting: Setting) -> Office {
    let office = Office::set_up(setting, Reply::text("no model")).await;
    answers(&office, "get_carts", "Boots are left most often.");
    answers(&office, "get_stock", "There are 12 pairs.");
    answers(&office, "get_prices", "Boots cost 80.");
    office
}

fn text(ended: &TaskOutcome) -> &str {
    &ended.answer.as_ref().unwrap().text
}

fn targets(ended: &TaskOutcome) -> Vec<String> {
    let targets = ended.answer.as_ref().unwrap().metadata["routing"]["targets"].clone();
    let targets = targets.as_array().unwrap().clone();
    targets
        .iter()
        .map(|target| target["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_question_goes_to_its_domain_and_cites_it_and_leads_on() {
    let office = shop().await;
    let ended = office.ask("which products are abandoned most").await;
    assert_eq!(text(&ended), "Boots are left most often.");
    let answer = ended.answer.as_ref().unwrap();
    assert_eq!(answer.sources, ["carts.desk"]);
    assert_eq!(answer.confidence, Reliance::High);
    assert!(!answer.partial_results);
    assert_eq!(answer.suggestions.len(), 3);
    assert_eq!(
        answer.suggestions[0], "which products are low in stock",
        "it speaks of the same things as the question"
    );
    let closed = |text: &String| text.contains("secret");
    assert!(!answer.suggestions.iter().any(closed));
    assert!(answer.warnings.is_empty());
    assert_eq!(
        answer.tool_calls[0].domain.as_ref().unwrap().as_str(),
        "carts"
    );
    assert_eq!(
        office.calls()[0].1["query"],
        "which products are abandoned most"
    );
    assert_eq!(office.calls()[0].1.get("conversation_id"), None);
}

#[tokio::test]
async fn suggestions_are_about_what_was_shown_and_are_not_made_again() {
    let mut setting = setting();
    setting.domains[1]["suggestions"] = json!([
        "how many {{ shown[0] }} are in stock",
        "what is the stock of {{ shown | join(' and ') }} in {{ result.place }}",
        "how many units of {{ shown[1] }} are left",
    ]);
    let office = shop_with(setting).await;
    let mut made: Vec<String> = Vec::new();
    for question in ["which products are abandoned most", "and last month?"] {
        let ended = office.ask(question).await;
        let suggestions = &ended.answer.as_ref().unwrap().suggestions;
        assert!(
            suggestions.iter().all(|text| !made.contains(text)),
            "{made:?}, {suggestions:?}"
        );
        made.extend(suggestions.clone());
    }
    assert!(
        made.contains(&"how many Boots are in stock".to_owned()),
        "{made:?}"
    );
    assert!(
        made.contains(&"how many units of Jacket are left".to_owned()),
        "{made:?}"
    );
    assert!(
        !made.iter().any(|text| text.contains("Boots and Jacket")),
        "there is no place"
    );
}

#[tokio::test]
async fn what_no_domain_uses_of_a_question_is_named_and_lowers_the_confidence() {
    let office = shop().await;
    let says = |answer: &'static str, unused: Value| {
        move |_: &Value| Ok(json!({ "answer": answer, "unused": unused.clone() }))
    };
    office.tool(
        "get_carts",
        says("Boots are left most.", json!(["Germany", "price"])),
    );
    let ended = office
        .ask("which products are abandoned most in Germany")
        .await;
    assert_eq!(
        text(&ended),
        "Boots are left most. I could not take this into account: “Germany”, “price”."
    );
    let answer = ended.answer.as_ref().unwrap();
    assert_eq!(answer.confidence, Reliance::Medium);
    assert!(!answer.partial_results, "every domain answered");
    assert_eq!(answer.metadata["unused"], json!(["Germany", "price"]));
    assert_eq!(
        answer.warnings,
        ["I could not take this into account: “Germany”, “price”."]
    );

    office.tool(
        "get_prices",
        says("Boots cost 80.", json!(["abandoned", "Germany"])),
    );
    let ended = office
        .ask("how do price changes in Germany touch abandoned carts")
        .await;
    assert_eq!(targets(&ended), ["carts", "prices"]);
    let answer = ended.answer.as_ref().unwrap();
    assert_eq!(
        answer.metadata["unused"],
        json!(["Germany"]),
        "the other words are used by one"
    );
}

#[tokio::test]
async fn a_question_that_needs_several_domains_asks_all_of_them_at_once() {
    let office = shop().await;
    let under_way = tokio::sync::watch::Sender::new(0);
    for tool in ["get_carts", "get_prices"] {
        let under_way = under_way.clone();
        office.tool_server.behave(tool, move |_| {
            let under_way = under_way.clone();
            async move {
                under_way.send_modify(|number| *number += 1);
                let _ = under_way.subscribe().wait_for(|number| *number == 2).await;
                Ok(json!({ "answer": "Ready." }))
            }
            .boxed()
        });
    }
    let ended = office
        .ask("which products are abandoned most and what is the price of boots")
        .await;
    assert_eq!(targets(&ended), ["carts", "prices"]);
    assert_eq!(text(&ended), "Ready. Ready.");
    let sources = &ended.answer.as_ref().unwrap().sources;
    assert_eq!(sources[..], ["carts.desk", "prices.desk"]);
    let asked: Vec<Value> = office
        .calls()
        .iter()
        .map(|call| call.1["query"].clone())
        .collect();
    assert!(
        asked.contains(&json!("what is the price of boots")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_domain_whose_question_points_at_anothers_answer_is_asked_after_it() {
    let office = shop().await;
    let ended = office
        .ask("which products are abandoned most and how many units of those are in stock")
        .await;
    assert_eq!(targets(&ended), ["carts", "stock"]);
    let calls = office.calls();
    assert_eq!(calls[0].0, "get_carts");
    assert_eq!(calls[1].0, "get_stock");
    assert_eq!(calls[1].1["products"], json!(["Boots", "Jacket"]));
    assert_eq!(
        text(&ended),
        "Boots are left most often. There are 12 pairs."
    );
}

#[tokio::test]
async fn a_follow_up_reuses_the_domains_conversation_and_refers_to_its_items() {
    let office = shop().await;
    office.ask("which products are abandoned most").await;
    office.ask("and last month?").await;
    let calls = office.calls();
    assert_eq!(calls[1].0, "get_carts");
    assert_eq!(calls[1].1["conversation_id"], "get_carts talk");
    assert_eq!(calls[1].1["query"], "and last month?");
    office.ask("how many units of those are in stock").await;
    let calls = office.calls();
    assert_eq!(calls[2].0, "get_stock");
    assert_eq!(calls[2].1["products"], json!(["Boots", "Jacket"]));
    assert_eq!(
        calls[2].1.get("conversation_id"),
        None,
        "another domain's talk is not its own"
    );
}

#[tokio::test]
async fn the_same_question_is_asked_again_and_never_answered_from_memory() {
    let office = shop().await;
    for _ in 0..2 {
        office.ask("which products are abandoned most").await;
    }
    assert_eq!(office.calls().len(), 2);
}

#[tokio::test]
async fn an_answer_that_is_not_ready_is_polled_for_and_is_one_call_in_the_end() {
    let office = shop().await;
    office.tool("get_prices", |_| {
        Ok(json!({ "status": "running", "conversation_id": "c", "message_id": "m" }))
    });
    let polls = Arc::new(AtomicUsize::new(0));
    let polled = Arc::clone(&polls);
    office.tool("get_prices_again", move |arguments| {
        assert_eq!(
            *arguments,
            json!({ "conversation_id": "c", "message_id": "m" })
        );
        if polled.fetch_add(1, Ordering::SeqCst) < 3 {
            return Ok(json!({ "status": "running", "conversation_id": "c", "message_id": "m" }));
        }
        Ok(json!({ "status": "completed", "answer": "Boots cost 80.", "conversation_id": "c" }))
    });
    let ended = office.ask("what is the price of boots").await;
    assert_eq!(text(&ended), "Boots cost 80.");
    assert_eq!(polls.load(Ordering::SeqCst), 4);
    let calls = &ended.answer.as_ref().unwrap().tool_calls;
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].tool, "get_prices");
    assert_eq!(calls[0].status, ToolCallStatus::Completed);
    let journal = office.journal(ended.facts.id).await;
    assert!(journal.len() > 5, "every poll is journaled: {journal:?}");
}

#[tokio::test]
async fn what_fails_is_named_and_the_rest_is_answered_with_less_confidence() {
    let office = shop().await;
    office.tool("get_prices", |_| Err(failure("the warehouse is on fire")));
    let ended = office
        .ask("which products are abandoned most and what is the price of boots")
        .await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(
        text(&ended),
        "Boots are left most often. However, I got no answer from PRICES, so this is not complete."
    );
    let answer = ended.answer.as_ref().unwrap();
    assert!(answer.partial_results);
    assert_eq!(answer.confidence, Reliance::Medium);
    assert_eq!(
        answer.sources,
        ["carts.desk"],
        "what gave nothing is no source"
    );
    assert_eq!(answer.metadata["missing"][0]["name"], "prices");
    let reason = answer.metadata["missing"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("on fire"), "{reason}");
}

#[tokio::test]
async fn at_the_deadline_the_answer_is_made_of_what_has_come() {
    let setting = Setting {
        task_time: Duration::from_secs(2),
        ..setting()
    };
    let office = shop_with(setting).await;
    office
        .tool_server
        .behave("get_prices", |_| pending().boxed());
    let ended = office
        .ask("which products are abandoned most and what is the price of boots")
        .await;
    assert_eq!(ended.status, TaskState::Completed);
    assert!(
        text(&ended).starts_with("Boots are left most often."),
        "{}",
        text(&ended)
    );
    let answer = ended.answer.as_ref().unwrap();
    assert!(answer.partial_results);
    assert_eq!(answer.confidence, Reliance::Medium);
    assert_eq!(answer.tool_calls[1].status, ToolCallStatus::Timeout);
    assert_eq!(answer.metadata["missing"][0]["name"], "prices");
}

#[tokio::test]
async fn a_tools_own_time_ends_its_question_and_not_the_others() {
    let setting = Setting {
        limits: json!({ "tool_seconds": 2 }),
        ..setting()
    };
    let office = shop_with(setting).await;
    office
        .tool_server
        .behave("get_prices", |_| pending().boxed());
    let ended = office
        .ask("which products are abandoned most and what is the price of boots")
        .await;
    let answer = ended.answer.as_ref().unwrap();
    assert!(
        answer.partial_results && text(&ended).contains("PRICES"),
        "{}",
        text(&ended)
    );
}

#[tokio::test]
async fn without_results_at_the_deadline_the_task_fails_and_says_so() {
    let setting = Setting {
        task_time: Duration::from_millis(200),
        ..setting()
    };
    let office = shop_with(setting).await;
    office
        .tool_server
        .behave("get_carts", |_| pending().boxed());
    let ended = office.ask("which products are abandoned most").await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(
        text(&ended).contains("longer than it should"),
        "{}",
        text(&ended)
    );
}

#[tokio::test]
async fn a_domain_that_cannot_tell_is_heard_in_its_own_words() {
    let office = shop().await;
    office
        .tool_server
        .decline("get_carts", "I have no certified query for that.");
    let ended = office.ask("which products are abandoned most").await;
    assert_eq!(ended.status, TaskState::Completed);
    assert_eq!(text(&ended), "I have no certified query for that.");
    let answer = ended.answer.as_ref().unwrap();
    assert!(answer.partial_results);
    assert_eq!(answer.confidence, Reliance::Low);
    assert!(answer.sources.is_empty());
}

#[tokio::test]
async fn nothing_that_works_is_a_failure_with_its_causes() {
    let office = shop().await;
    office.tool("get_carts", |_| Err(failure("no connection")));
    let ended = office.ask("which products are abandoned most").await;
    assert_eq!(ended.status, TaskState::Failed);
    assert!(
        text(&ended).starts_with("I encountered an issue"),
        "{}",
        text(&ended)
    );
    assert!(ended.error.unwrap().contains("no connection"));
}

#[tokio::test]
async fn tools_of_one_domain_wait_for_what_they_need() {
    let mut setting = setting();
    setting.domains[0]["mcp_tools"] = json!([
        "desk.get_ids",
        { "tool": "desk.get_carts", "needs": ["desk.get_ids"],
          "arguments": { "ids": "{{ results['desk.get_ids'].ids }}" } },
    ]);
    let office = shop_with(setting).await;
    office.tool("get_ids", |_| {
        Ok(json!({ "answer": "Two.", "ids": [4, 5] }))
    });
    let ended = office.ask("which products are abandoned most").await;
    assert_eq!(text(&ended), "Two. Boots are left most often.");
    assert_eq!(
        office.calls()[1],
        ("get_carts".to_owned(), json!({ "ids": [4, 5] }))
    );
}

#[tokio::test]
async fn a_question_that_no_domain_covers_is_not_asked_of_any() {
    let office = shop().await;
    for said in [
        "tell me a joke about penguins",
        "who won the football yesterday",
    ] {
        let ended = office.ask(said).await;
        assert!(office.calls().is_empty(), "{said}: {}", text(&ended));
    }
}

#[tokio::test]
async fn something_to_do_is_no_question_whatever_it_speaks_of() {
    let mut setting = setting();
    setting.agent = json!({ "llm_config": null, "tools": ["desk.raise"], "skills": [{
        "name": "raise_price", "description": "Raises a price",
        "examples": ["raise the price of boots", "raise the price of the jacket", "please raise this price",
            "put the price up", "make boots dearer", "raise prices by ten percent"],
        "action": { "tool": "desk.raise", "reply": "Raised." },
    }] });
    let office = shop_with(setting).await;
    let ended = office.ask("could you raise the price of the boots").await;
    assert_eq!(text(&ended), "Raised.");
    let ended = office.ask("what is the price of boots").await;
    assert_eq!(text(&ended), "Boots cost 80.");
}

#[tokio::test]
async fn no_more_domains_are_asked_than_may_be_and_the_rest_is_recorded() {
    let setting = Setting {
        limits: json!({ "domains_per_question": 1 }),
        ..setting()
    };
    let office = shop_with(setting).await;
    let ended = office
        .ask("which products are abandoned most and what is the price of boots")
        .await;
    assert_eq!(targets(&ended), ["carts"]);
    let routing = &ended.answer.as_ref().unwrap().metadata["routing"];
    assert_eq!(routing["dropped"], json!(["prices"]));
}

#[tokio::test]
async fn a_model_may_put_the_results_together_but_not_add_to_them() {
    for (written, stands) in [
        ("Boots are left most often; a pair costs 80.", true),
        ("Boots are left most often; a pair costs 85.", false),
    ] {
        let setting = Setting {
            app: json!({ "models": { "writer": {} }, "aggregator": { "model": "writer" } }),
            ..setting()
        };
        let office = Office::set_up(setting, Reply::text(written)).await;
        answers(&office, "get_carts", "Boots are left most often.");
        answers(&office, "get_prices", "Boots cost 80.");
        let ended = office
            .ask("which products are abandoned most and what is the price of boots")
            .await;
        let answer = ended.answer.as_ref().unwrap();
        if stands {
            assert_eq!(answer.text, written);
            assert_eq!(answer.metadata["synthesised"], true);
        } else {
            assert_eq!(answer.text, "Boots are left most often. Boots cost 80.");
            let why = answer.metadata["not_synthesised"].as_str().unwrap();
            assert!(why.contains("85"), "{why}");
        }
        assert_eq!(answer.sources, ["carts.desk", "prices.desk"]);
        assert_eq!(answer.metadata["spent"]["model_calls"], 1);
    }
}

#[tokio::test]
async fn a_model_may_choose_domains_where_the_words_do_not_tell() {
    let written = json!({
        "targets": [
            { "name": "carts", "confidence": 0.9, "request": "which products are abandoned" },
            { "name": "stock", "confidence": 0.8, "request": "which products are out of stock" },
        ],
        "reasoning": "both may explain it", "clarifying_question": null,
    });
    let setting = Setting {
        app: json!({ "models": { "decider": {} } }),
        decide: json!({ "router": { "model": "decider" } }),
        ..setting()
    };
    let office = Office::set_up(
        setting,
        Script::by(move |_| Reply::text(written.to_string())),
    )
    .await;
    answers(&office, "get_carts", "Boots.");
    answers(&office, "get_stock", "None.");
    let ended = office
        .ask("why is nobody buying our best things any more, I wonder")
        .await;
    assert_eq!(targets(&ended), ["carts", "stock"]);
    assert_eq!(text(&ended), "Boots. None.");
    let asked = ended.answer.as_ref().unwrap().metadata["routing"].clone();
    assert_eq!(asked["decided_by"], "model");
    assert_eq!(
        asked["targets"][1]["request"],
        "which products are out of stock"
    );
}

#[tokio::test]
async fn a_transport_failure_is_told_as_such() {
    let office = shop().await;
    office.tool("get_carts", |_| {
        Err(Failure {
            transient: true,
            ..failure("gone")
        })
    });
    let ended = office.ask("which products are abandoned most").await;
    let calls = &ended.answer.as_ref().unwrap().tool_calls;
    assert_eq!(calls[0].status, ToolCallStatus::Failed);
    assert_eq!(calls[0].error.as_deref(), Some("gone"));
}

#[tokio::test]
async fn a_worker_killed_at_any_entry_answers_all_the_same() {
    let prepare = |office: &Office| {
        answers(office, "get_carts", "Boots are left most often.");
        answers(office, "get_stock", "There are 12 pairs.");
        office.tool("get_prices", |_| {
            Ok(json!({ "status": "running", "conversation_id": "c", "message_id": "m" }))
        });
        answers(office, "get_prices_again", "Boots cost 80.");
    };
    let said = "which products are abandoned most and how many units of those are in stock and what is \
        the price of boots";
    let deaths = kill_everywhere(setting, prepare, said, |_, ended, place| {
        let expected = "Boots are left most often. There are 12 pairs. Boots cost 80.";
        assert_eq!(text(ended), expected, "{place}");
        assert!(!ended.answer.as_ref().unwrap().partial_results, "{place}");
    })
    .await;
    assert!(deaths >= 8, "{deaths}");
}
