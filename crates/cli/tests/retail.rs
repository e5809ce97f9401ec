//! The retail app with the real binary and its real data: several domains at once, follow-ups, polling, and what cannot be
//! asked.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use program::{Program, text};
use serde_json::Value;

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
    assert_eq!(answer["partial"], false);
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
    assert_eq!(answer["partial"], false, "{answer}");
    let calls = answer["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "however often it was asked for");
    assert_eq!(calls[0]["result"]["status"], "completed");
    assert_eq!(calls[0]["result"]["query_id"], "bought_together");
    let trace = text(&shop.program.run(&["tasks", "trace", "last"]).stdout);
    assert!(trace.contains("retail.poll_response_sales"), "{trace}");
}

#[test]
fn what_no_certified_query_covers_is_declined_and_what_no_domain_covers_is_not_asked() {
    let shop = Shop::new();
    let declined = shop.ask(&["which products are cheapest in the home category"]);
    let said = declined["text"].as_str().unwrap();
    assert!(said.contains("no certified query"), "{said}");
    assert_eq!(declined["confidence"], "low");
    assert_eq!(declined.get("sources"), None);
    let unknown = shop.ask(&["tell me a joke about penguins"]);
    assert_eq!(unknown["metadata"]["intent"], "unknown");
    assert_eq!(unknown.get("tool_calls"), None);
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
