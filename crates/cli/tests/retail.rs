//! The retail app with the real binary and its real data: several domains at once, follow-ups, polling, and what cannot be
//! asked.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use program::{Program, text};
use serde_json::{Value, json};

struct Shop {
    program: Program,
    app: String,
}

impl Shop {
    /// A copy of the app with one of its files changed.
    fn with(file: &str, change: impl Fn(String) -> String) -> Self {
        let program = Program::new();
        let app = program.copy_of("retail", &["agents", "config", "."]);
        let path = std::path::Path::new(&app).join(file);
        let written = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, change(written)).unwrap();
        Self { program, app }
    }

    fn new() -> Self {
        Self::with("convoke.yaml", |written| written)
    }

    /// What is said to a question: the answer, as data.
    fn ask(&self, arguments: &[&str]) -> Value {
        let all = [&["--json", "run", &self.app][..], arguments].concat();
        let output = self.program.run(&all);
        let line = text(&output.stdout);
        let ended: Value =
            serde_json::from_str(line.trim()).unwrap_or_else(|_| panic!("{output:?}"));
        ended["answer"].clone()
    }
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

fn names(targets: &Value) -> Vec<&str> {
    let targets = targets["metadata"]["routing"]["targets"]
        .as_array()
        .unwrap();
    targets
        .iter()
        .map(|target| target["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_question_that_needs_two_domains_is_answered_from_both_the_second_about_what_the_first_found() {
    let shop = Shop::new();
    let answer =
        shop.ask(&["Which products are abandoned most often and do we have them in stock?"]);
    assert_eq!(names(&answer), ["customer_behavior", "inventory"]);
    assert_eq!(
        answer["sources"],
        serde_json::json!(["customer_behavior.retail", "inventory.retail"])
    );
    assert_eq!(answer["confidence"], "high");
    assert_eq!(answer["partial_results"], false);
    let suggestions = answer["suggestions"].as_array().unwrap();
    assert!((1..=3).contains(&suggestions.len()), "{suggestions:?}");
    let calls = answer["tool_calls"].as_array().unwrap();
    let abandoned = calls[0]["result"]["rows"][0][0].as_str().unwrap();
    let asked = calls[1]["arguments"]["query"].as_str().unwrap();
    assert!(asked.contains(abandoned), "{asked}");
    assert_eq!(calls[1]["result"]["query_id"], "stock_of_products");
    assert!(
        calls[0]["result"]["sql_query"]
            .as_str()
            .unwrap()
            .contains("SELECT")
    );
}

#[test]
fn a_follow_up_goes_on_in_the_domains_own_conversation() {
    let shop = Shop::new();
    let first = shop.ask(&["What were our best sellers last month?"]);
    let conversation = &first["tool_calls"][0]["result"]["conversation_id"];
    let second = shop.ask(&["--continue", "and in the north?"]);
    assert_eq!(names(&second), ["sales"]);
    assert_eq!(
        second["tool_calls"][0]["arguments"]["conversation_id"],
        *conversation
    );
    let parameters = &second["tool_calls"][0]["result"]["parameters"];
    assert_eq!(parameters["region"], "north");
    assert_eq!(
        second["tool_calls"][0]["result"]["query_id"],
        "best_selling_products"
    );
    let third = shop.ask(&["--continue", "are those in stock?"]);
    assert_eq!(names(&third), ["inventory"]);
    let named = second["tool_calls"][0]["result"]["rows"][0][0]
        .as_str()
        .unwrap();
    let asked = third["tool_calls"][0]["arguments"]["query"]
        .as_str()
        .unwrap();
    assert!(asked.contains(named), "{asked}");
}

#[test]
fn long_queries_are_polled_for() {
    let shop = Shop::with("config/mcp_servers.yaml", |written| {
        let polled = written.replace("retail.db\"]", "retail.db\", --answer-within-ms, \"0\"]");
        assert_ne!(written, polled);
        polled
    });
    let answer = shop.ask(&["which products are bought together"]);
    assert_eq!(answer["partial_results"], false, "{answer}");
    let calls = answer["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "however often it was asked for");
    assert_eq!(calls[0]["result"]["status"], "completed");
    assert_eq!(calls[0]["result"]["query_id"], "bought_together");
    let trace = text(&shop.program.run(&["tasks", "trace", "last"]).stdout);
    assert!(trace.contains("retail.poll_response_sales"), "{trace}");
}

#[test]
fn questions_outside_certified_queries_are_declined_and_outside_domains_not_sent() {
    let shop = Shop::new();
    let declined = shop.ask(&["which products are cheapest in the home category"]);
    let said = declined["text"].as_str().unwrap();
    assert!(said.contains("no certified query"), "{said}");
    assert_eq!(declined["confidence"], "low");
    assert_eq!(declined["sources"], json!([]));
    let unknown = shop.ask(&["tell me a joke about penguins"]);
    assert_eq!(unknown["metadata"]["intent"], "unknown");
    for list in ["sources", "tool_calls", "suggestions", "warnings"] {
        assert_eq!(unknown[list], json!([]), "{list}");
    }
}

#[test]
fn what_an_answer_does_not_use_of_the_question_is_named_and_lowers_its_confidence() {
    let shop = Shop::new();
    let answer = shop.ask(&["best sellers in Germany this week"]);
    assert_eq!(answer["confidence"], "medium");
    assert_eq!(answer["metadata"]["unused"], json!(["Germany"]));
    assert!(
        texts(&answer["warnings"])[0].contains("“Germany”"),
        "{answer}"
    );
    assert!(
        answer["text"].as_str().unwrap().contains("“Germany”"),
        "{answer}"
    );
    let parameters = &answer["tool_calls"][0]["result"]["parameters"];
    assert_eq!(parameters["period"], "this week");

    let used = shop.ask(&["best sellers in the south this week"]);
    assert_eq!(used["confidence"], "high");
    assert_eq!(used["warnings"], json!([]));
    assert_eq!(used["metadata"].get("unused"), None);
}

#[test]
fn the_top_by_a_measure_is_its_upper_end() {
    let shop = Shop::new();
    let margins = |question: &str| {
        let answer = shop.ask(&[question]);
        assert_eq!(answer["confidence"], "high", "{answer}");
        let rows = answer["tool_calls"][0]["result"]["rows"].clone();
        let rows = rows.as_array().unwrap().clone();
        let margins = rows.iter().map(|row| row[4].as_f64().unwrap());
        margins.collect::<Vec<f64>>()
    };
    let (top, bottom) = (
        margins("top 3 products by margin"),
        margins("which products have the lowest margin"),
    );
    assert_eq!(top.len(), 3);
    assert!(top.is_sorted_by(|one, other| one >= other), "{top:?}");
    assert!(bottom.is_sorted(), "{bottom:?}");
    assert!(top[2] > bottom[0], "{top:?} {bottom:?}");
}

#[test]
fn a_month_in_the_name_of_a_campaign_is_part_of_the_name() {
    let shop = Shop::new();
    let answer = shop.ask(&["what did Golden October bring in"]);
    assert_eq!(names(&answer), ["marketing"]);
    assert_eq!(answer["confidence"], "high", "{answer}");
    let result = &answer["tool_calls"][0]["result"];
    assert_eq!(result["parameters"]["campaign"], "Golden October");
    assert_eq!(result["parameters"]["period"], "in the last 12 months");
    assert_eq!(result["rows"].as_array().unwrap().len(), 1, "{result}");
}

#[test]
fn a_question_that_names_no_domain_goes_to_those_that_it_needs() {
    let shop = Shop::new();
    let answer = shop.ask(&["Why are customers not buying our top products?"]);
    let mut chosen = names(&answer);
    chosen.sort_unstable();
    assert_eq!(chosen, ["customer_behavior", "inventory"]);
    assert_eq!(texts(&answer["sources"]).len(), 2, "{answer}");
    let routing = &answer["metadata"]["routing"];
    assert_eq!(routing["ambiguous"], false);
    assert_eq!(routing["clarification_needed"], false);
    assert_eq!(
        routing["asked"],
        "Why are customers not buying our top products?"
    );
    assert!(routing["confidence"].as_f64().unwrap() > 0.0);
}

#[test]
fn suggestions_follow_from_the_answer_and_can_be_answered() {
    let shop = Shop::new();
    let mut seen: Vec<Vec<String>> = Vec::new();
    for question in [
        "What were our best sellers last month?",
        "What were our best sellers in July?",
        "Which products are abandoned most often in carts?",
        "Which products are low in stock?",
        "how much revenue did we make last quarter",
        "Which campaign performs best?",
    ] {
        let answer = shop.ask(&[question]);
        let suggestions = texts(&answer["suggestions"]);
        assert_eq!(suggestions.len(), 3, "{question}: {answer}");
        assert!(!seen.contains(&suggestions), "{question}: {suggestions:?}");
        let rows = &answer["tool_calls"][0]["result"]["rows"];
        if answer["tool_calls"][0]["result"]["columns"][0] == "product" {
            let first = rows[0][0].as_str().unwrap();
            let named = suggestions.iter().any(|text| text.contains(first));
            assert!(named, "{first}: {suggestions:?}");
        }
        seen.push(suggestions);
    }
    let mut all: Vec<String> = seen.into_iter().flatten().collect();
    all.sort_unstable();
    all.dedup();
    for suggestion in all {
        let answer = shop.ask(&[&suggestion]);
        assert!(
            !texts(&answer["sources"]).is_empty(),
            "{suggestion}: {answer}"
        );
        assert_eq!(
            answer["metadata"].get("unused"),
            None,
            "{suggestion}: {answer}"
        );
    }
}

#[test]
fn a_conversation_names_its_user_and_its_domains_and_becomes_idle() {
    let minutes = |minutes: i64| {
        Shop::with("convoke.yaml", |written| {
            let limit = format!("limits:\n  conversation_idle_seconds: {}", minutes * 60);
            let changed = written.replace("limits:", &limit);
            assert_ne!(written, changed);
            changed
        })
    };
    for (idle_after, after_an_hour) in [(30, "idle"), (90, "active")] {
        let shop = minutes(idle_after);
        shop.ask(&["Which products are abandoned most often and do we have them in stock?"]);
        shop.ask(&["--continue", "and what do they cost?"]);
        let read = || {
            let shown = shop
                .program
                .run(&["--json", "conversations", "show", "last"]);
            serde_json::from_slice::<Value>(&shown.stdout).unwrap_or_else(|_| panic!("{shown:?}"))
        };
        let conversation = read();
        assert_eq!(conversation["state"], "active");
        assert_eq!(
            conversation["metadata"]["domains_accessed"],
            json!(["customer_behavior", "inventory", "pricing"])
        );
        assert_eq!(conversation["metadata"]["user_id"], conversation["owner"]);
        let messages = conversation["messages"].as_array().unwrap();
        let roles: Vec<_> = messages.iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
        assert_eq!(messages[3]["metadata"]["domains"], json!(["pricing"]));
        assert!(messages[3]["metadata"]["execution_time_ms"].is_u64());

        let hour = 60 * 60 * 1_000;
        shop.program
            .open_store()
            .execute(
                "UPDATE conversations SET updated_at = updated_at - ?1, created_at = created_at - ?1",
                [hour],
            )
            .unwrap();
        assert_eq!(read()["state"], after_an_hour, "{idle_after} minutes");
        let listed = shop.program.run(&["conversations", "list"]);
        let listed = text(&listed.stdout);
        assert!(listed.contains(after_an_hour), "{listed}");
    }
}

#[test]
fn a_conversation_is_not_offered_the_same_question_twice() {
    let shop = Shop::new();
    let mut made = texts(&shop.ask(&["Which products are low in stock?"])["suggestions"]);
    for question in ["and in electronics?", "and in footwear?"] {
        let next = texts(&shop.ask(&["--continue", question])["suggestions"]);
        assert!(!next.is_empty());
        assert!(
            next.iter().all(|text| !made.contains(text)),
            "{made:?} {next:?}"
        );
        made.extend(next);
    }
}

#[test]
fn a_domain_that_is_switched_off_is_neither_asked_nor_suggested() {
    let shop = Shop::with("config/domains.yaml", |written| {
        let off = written.replace(
            "  - name: inventory\n",
            "  - name: inventory\n    enabled: false\n",
        );
        assert_ne!(written, off);
        off
    });
    let answer = shop.ask(&["What were our best sellers last month?"]);
    let suggestions = answer["suggestions"].as_array().unwrap();
    let about_stock = |text: &&Value| text.as_str().unwrap().contains("stock");
    assert!(
        !suggestions.iter().any(|text| about_stock(&text)),
        "{suggestions:?}"
    );
    let answer = shop.ask(&["Which products are low in stock?"]);
    let calls = answer["tool_calls"].as_array().cloned().unwrap_or_default();
    assert!(
        calls.iter().all(|call| call["domain"] != "inventory"),
        "{calls:?}"
    );
}

#[test]
fn the_app_fits_its_tool_server() {
    let shop = Shop::new();
    let checked = shop.program.run(&["check", "--connect", &shop.app]);
    assert!(checked.status.success(), "{checked:?}");
    assert!(text(&checked.stdout).contains("5 domains"), "{checked:?}");
}
