//! Tool servers that are slow, silent or broken, as real processes: the answer comes when the time is over, made of what
//! is there, and says what is missing.
//!
//! Every question is asked twice, each time with one limit that ends the waiting and all others far beyond the patience
//! of the test: the tool's, and the task's. So whatever waits for something else fails the test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use convoke_testkit::{Reply, ScriptedModel};
use futures::future::join_all;
use program::{Program, text};
use serde_json::{Value, json};

/// How long a test waits for an answer that should come within seconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// Seconds that no test waits.
const NEVER: u32 = 100_000;

const QUESTION: &str = "which products are abandoned most and how many units are in stock and \
    what is the price of boots";

/// The ways to end the waiting: by the tool's time, and by the task's. Long enough for sound servers to start on a
/// machine that has much else to do.
fn limits() -> [Value; 2] {
    [
        json!({ "tool_seconds": 3, "task_seconds": NEVER, "agent_seconds": 3 }),
        json!({ "tool_seconds": NEVER, "task_seconds": 3, "agent_seconds": NEVER }),
    ]
}

/// A server with a fault, and what it answers if that is not in the way.
fn server(name: &str, fault: &str, words: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/faulty.py");
    let transport = if fault.starts_with("http") {
        json!({ "http": { "url": fault } })
    } else {
        json!({ "stdio": { "command": "python3", "args": [script, fault, words] } })
    };
    json!({ "name": name, "transport": transport, "connect_seconds": NEVER })
}

fn domain(name: &str, keyword: &str, examples: [&str; 3], tool: &str) -> Value {
    json!({
        "name": name, "display_name": name.to_uppercase(), "description": format!("All about {name}."),
        "examples": examples, "keywords": [keyword], "mcp_tools": [format!("{name}_server.{tool}")],
    })
}

/// A shop of which each domain has a server of its own, with these faults.
struct Shop {
    carts: String,
    stock: String,
    prices: String,
    /// The tool that each domain is asked by.
    tool: &'static str,
}

impl Shop {
    /// A shop where the prices' server has a fault.
    fn without_prices(fault: impl Into<String>) -> Self {
        Self {
            carts: "none".into(),
            stock: "none".into(),
            prices: fault.into(),
            tool: "ask",
        }
    }

    fn write(&self, app: &Path, limits: &Value) {
        let carts = [
            "which products are abandoned most in carts",
            "how many carts are abandoned",
            "cart abandonment by product",
        ];
        let stock = [
            "how many units are in stock",
            "which products are low in stock",
            "how full is the warehouse",
        ];
        let prices = [
            "what is the price of boots",
            "which prices have changed",
            "how much does a jacket cost",
        ];
        let domains = json!({ "domains": [
            domain("carts", "abandoned", carts, self.tool),
            domain("stock", "stock", stock, self.tool),
            domain("prices", "price", prices, self.tool),
        ] });
        let servers = json!({ "servers": [
            server("carts_server", &self.carts, "Boots are left most often."),
            server("stock_server", &self.stock, "There are 12 pairs."),
            server("prices_server", &self.prices, "Boots cost 80."),
        ] });
        let agent = json!({ "name": "clerk", "role": "Helps.", "system_prompt": "Help." });
        write(
            app,
            &[
                ("convoke.json", &json!({ "name": "shop", "limits": limits })),
                ("agents/clerk.json", &agent),
                ("config/domains.json", &domains),
                ("config/mcp_servers.json", &servers),
            ],
        );
    }

    /// What the binary says to the question, under these limits.
    async fn asked(&self, limits: &Value) -> (Output, Value) {
        let program = Program::new();
        self.write(&program.folder().join("app"), limits);
        ask(&program, QUESTION).await
    }
}

fn write(app: &Path, files: &[(&str, &Value)]) {
    for (file, content) in files {
        let path = app.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    }
}

/// Asks the app of a program's folder, and waits until the process has ended.
async fn ask(program: &Program, said: &str) -> (Output, Value) {
    let mut command =
        tokio::process::Command::from(program.command(&["run", "app", said, "--json"]));
    command
        .kill_on_drop(true)
        .stdin(std::process::Stdio::null());
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output
        .expect("the answer does not come, or the process does not end")
        .unwrap();
    let told = serde_json::from_str(&text(&output.stdout));
    let told = told.unwrap_or_else(|_| panic!("{output:?}"));
    (output, told)
}

/// With this fault, the answer has what the other domains say, and names the one that is missing.
async fn is_answered_without_prices(shop: Shop) {
    let [by_tool, by_task] = limits();
    let told = tokio::join!(shop.asked(&by_tool), shop.asked(&by_task));
    for (output, told) in [told.0, told.1] {
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert_eq!(told["state"], "completed", "{told}");
        let answer = &told["answer"];
        assert_eq!(
            answer["text"],
            "Boots are left most often. There are 12 pairs. However, I got no answer from PRICES, \
             so this is not complete.",
        );
        assert_eq!(answer["partial_results"], true, "{answer}");
        assert_eq!(answer["confidence"], "medium", "{answer}");
        assert_eq!(
            answer["sources"],
            json!(["carts.carts_server", "stock.stock_server"])
        );
        let missing = answer["metadata"]["missing"].as_array().unwrap();
        assert_eq!(missing.len(), 1, "{answer}");
        assert_eq!(missing[0]["name"], "prices");
        assert!(!missing[0]["reason"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn sound_servers_give_a_whole_answer_also_where_one_takes_a_moment() {
    let shop = Shop::without_prices("slow:300");
    let (output, told) = shop.asked(&json!({})).await;
    assert_eq!(output.status.code(), Some(0), "{told}");
    let answer = &told["answer"];
    assert_eq!(
        answer["text"],
        "Boots are left most often. There are 12 pairs. Boots cost 80."
    );
    assert_eq!(answer["partial_results"], false);
    assert_eq!(answer["confidence"], "high");
    assert_eq!(answer["sources"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_server_that_answers_too_late_is_not_waited_for() {
    is_answered_without_prices(Shop::without_prices("slow:1000000")).await;
}

#[tokio::test]
async fn a_server_that_is_stuck_in_the_call_is_not_waited_for() {
    is_answered_without_prices(Shop::without_prices("hanging")).await;
}

#[tokio::test]
async fn a_server_that_forgets_the_call_is_not_waited_for() {
    is_answered_without_prices(Shop::without_prices("forgetful")).await;
}

#[tokio::test]
async fn a_server_that_never_greets_is_not_waited_for() {
    is_answered_without_prices(Shop::without_prices("mute")).await;
}

#[tokio::test]
async fn a_server_that_never_lists_its_tools_is_not_waited_for() {
    is_answered_without_prices(Shop::without_prices("listless")).await;
}

#[tokio::test]
async fn a_server_that_dies_in_the_call_costs_only_its_own_answer() {
    is_answered_without_prices(Shop::without_prices("dying")).await;
}

#[tokio::test]
async fn a_server_that_dies_at_its_start_costs_only_its_own_answer() {
    is_answered_without_prices(Shop::without_prices("crashing")).await;
}

#[tokio::test]
async fn a_server_that_answers_with_what_is_no_message_costs_only_its_own_answer() {
    is_answered_without_prices(Shop::without_prices("babbling")).await;
}

#[tokio::test]
async fn a_server_that_writes_without_end_costs_only_its_own_answer() {
    is_answered_without_prices(Shop::without_prices("flooding")).await;
}

#[tokio::test]
async fn a_server_over_http_that_accepts_and_says_nothing_is_not_waited_for() {
    // The kernel accepts for whoever listens, and nobody ever reads.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    is_answered_without_prices(Shop::without_prices(format!("http://{address}/mcp"))).await;
}

#[tokio::test]
async fn an_address_where_nobody_listens_costs_only_its_own_answer() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    is_answered_without_prices(Shop::without_prices(format!("http://{address}/mcp"))).await;
}

#[tokio::test]
async fn a_lost_query_needs_no_decision_of_a_person() {
    // The tool does not say that it only reads.
    let shop = |fault: &str| Shop {
        tool: "change",
        ..Shop::without_prices(fault)
    };
    join_all(["hanging", "dying"].map(|fault| is_answered_without_prices(shop(fault)))).await;
}

#[tokio::test]
async fn more_missing_than_there_is_little_to_rely_on() {
    let [by_tool, by_task] = limits();
    let shop = Shop {
        stock: "mute".into(),
        ..Shop::without_prices("hanging")
    };
    let told = tokio::join!(shop.asked(&by_tool), shop.asked(&by_task));
    for (output, told) in [told.0, told.1] {
        assert_eq!(output.status.code(), Some(0), "{told}");
        let answer = &told["answer"];
        assert_eq!(
            answer["text"],
            "Boots are left most often. However, I got no answer from STOCK and PRICES, so this is \
             not complete.",
        );
        assert_eq!(answer["partial_results"], true);
        assert_eq!(answer["confidence"], "low");
        assert_eq!(answer["sources"], json!(["carts.carts_server"]));
        assert_eq!(answer["metadata"]["missing"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn where_nothing_comes_at_all_that_is_said() {
    let [by_tool, by_task] = limits();
    for faults in [
        ["hanging", "mute", "crashing"],
        ["dying", "dying", "dying"],
        ["listless", "babbling", "flooding"],
    ] {
        let [carts, stock, prices] = faults.map(str::to_owned);
        let shop = Shop {
            carts,
            stock,
            prices,
            tool: "ask",
        };
        let told = tokio::join!(shop.asked(&by_tool), shop.asked(&by_task));
        let (by_tool, by_task) = (told.0, told.1);
        assert_eq!(by_tool.0.status.code(), Some(1), "{}", by_tool.1);
        assert_eq!(by_tool.1["state"], "failed");
        let said = by_tool.1["answer"]["text"].as_str().unwrap();
        assert!(said.starts_with("I encountered an issue"), "{said}");
        let cause = by_tool.1["error"].as_str().unwrap();
        for domain in ["carts", "stock", "prices"] {
            assert!(cause.contains(domain), "{cause}");
        }
        assert_eq!(by_task.0.status.code(), Some(1), "{}", by_task.1);
        assert_eq!(by_task.1["state"], "failed");
        for (_, told) in [by_tool, by_task] {
            assert!(!told["answer"]["text"].as_str().unwrap().is_empty());
            assert_eq!(told["questions"], json!([]), "nobody is asked anything");
            assert_eq!(told["answer"]["sources"], json!([]), "{told}");
        }
    }
}

/// A house with two agents, each with a server of its own; that of the music has a fault.
fn house(app: &Path, limits: &Value, fault: &str, tool: &str) {
    let agent = |name: &str, sentence: &str, slot: &str, values: &Value, reply: &str| {
        json!({
            "name": name, "role": "Helps.", "system_prompt": "Help.",
            "tools": [format!("{name}_server.{tool}")],
            "skills": [{
                "name": format!("{name}_on"), "description": name, "sentences": [sentence],
                "slots": { slot: { "ask": "Which?", "values": values } },
                "action": { "tool": format!("{name}_server.{tool}"), "reply": reply },
            }],
        })
    };
    let light = agent(
        "light",
        "turn on the {room} lights",
        "room",
        &json!({ "kitchen": [] }),
        "The {{ room }} lights are on.",
    );
    let music = agent(
        "music",
        "play {what}",
        "what",
        &json!({}),
        "Now playing {{ what }}.",
    );
    let servers = json!({ "servers": [
        server("light_server", "none", "Done."),
        server("music_server", fault, "Done."),
    ] });
    let config = json!({ "name": "house", "limits": limits, "decide": { "several": "eager" } });
    write(
        app,
        &[
            ("convoke.json", &config),
            ("agents/light.json", &light),
            ("agents/music.json", &music),
            ("config/mcp_servers.json", &servers),
        ],
    );
}

/// Of two requests, the one whose server is sound is carried out and told of.
async fn the_other_part_is_done(limits: &Value, fault: &str, tool: &str) {
    let program = Program::new();
    house(&program.folder().join("app"), limits, fault, tool);
    let (output, told) = ask(&program, "turn on the kitchen lights and play jazz").await;
    assert_eq!(output.status.code(), Some(0), "{fault}: {told}");
    let answer = &told["answer"];
    let text = answer["text"].as_str().unwrap();
    let undone = "The kitchen lights are on. However, I could not do this: “play jazz” (music ";
    let why = text.strip_prefix(undone).unwrap_or(text);
    // A server that ends may be given up before the time is over.
    let is_told = why == "took too long)."
        || ["dying", "crashing"].contains(&fault) && why == "is not available at the moment).";
    assert!(is_told, "{fault}: {text}");
    assert_eq!(answer["partial_results"], true, "{fault}: {answer}");
    assert_eq!(answer["confidence"], "medium", "{fault}: {answer}");
    let missing = answer["metadata"]["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 1, "{fault}: {answer}");
    assert_eq!(missing[0]["name"], "music_on");
}

#[tokio::test]
async fn a_part_of_a_message_whose_server_hangs_does_not_hold_up_the_other() {
    let [by_agent, by_task] = limits();
    for faults in [["hanging", "mute"], ["dying", "crashing"]] {
        join_all(faults.map(async |fault| {
            tokio::join!(
                the_other_part_is_done(&by_agent, fault, "ask"),
                the_other_part_is_done(&by_task, fault, "ask"),
            )
        }))
        .await;
    }
}

#[tokio::test]
async fn a_part_of_which_nobody_knows_whether_it_was_done_does_not_hold_up_the_other() {
    // A person is asked about the part, and the rest does not wait for them.
    let [_, by_task] = limits();
    the_other_part_is_done(&by_task, "hanging", "change").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_thinks_with_the_tools_that_are_there() {
    let model = ScriptedModel::start(Reply::text("Here I am."))
        .await
        .unwrap();
    for limits in limits() {
        let program = Program::new();
        let agent = json!({
            "name": "clerk", "role": "Helps.", "system_prompt": "Help.",
            "tools": ["sound_server.ask", "silent_server.change"],
            "llm_config": { "endpoint": model.endpoint(), "model": "scripted" },
        });
        let servers = json!({ "servers": [
            server("sound_server", "none", "Done."),
            server("silent_server", "mute", "Done."),
        ] });
        write(
            &program.folder().join("app"),
            &[
                ("convoke.json", &json!({ "name": "desk", "limits": limits })),
                ("agents/clerk.json", &agent),
                ("config/mcp_servers.json", &servers),
            ],
        );
        let (output, told) = ask(&program, "are you there").await;
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert_eq!(told["answer"]["text"], "Here I am.");
    }
    let offered = model.requests();
    assert_eq!(offered.len(), 2);
    for asked in offered {
        let tools = asked.body["tools"].to_string();
        assert!(
            tools.contains("ask") && !tools.contains("change"),
            "{tools}"
        );
    }
}
