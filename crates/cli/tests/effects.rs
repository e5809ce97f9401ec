//! What becomes of a call whose tool server dies in the middle of it, before or after it took effect: each way
//! that the app and the tool can declare, with the real binary and a real server process that really dies.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use program::{Program, text};
use serde_json::{Value, json};

/// When the server dies.
const MOMENTS: [&str; 2] = ["before", "after"];

/// A payment whose server dies once.
struct Payment {
    program: Program,
    first: Output,
}

impl Payment {
    /// Asks for it, through a tool of which the app says this.
    fn ask(when: &str, tool: &str, server: &Value) -> Self {
        let program = Program::new();
        let app = program.folder().join("app");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/effects/ledger.py");
        let mut config = json!({
            "name": "ledger",
            "transport": { "stdio": {
                "command": "python3",
                "args": [script.to_str().unwrap(), program.folder().to_str().unwrap(), when],
            } },
        });
        let fields = config.as_object_mut().unwrap();
        fields.extend(server.as_object().unwrap().clone());
        let files = [
            ("convoke.json", json!({ "name": "payments" })),
            (
                "agents/clerk.json",
                json!({ "name": "clerk", "role": "Pays.", "system_prompt": "Pay.", "tools": ["ledger.find"] }),
            ),
            ("config/mcp_servers.json", json!({ "servers": [config] })),
            (
                "workflows/main.json",
                json!({
                    "name": "main", "entry_point": "pay",
                    "nodes": { "pay": {
                        "type": "tool", "tool": format!("ledger.{tool}"), "on_error": "continue",
                    } },
                    "answer": "{{ 'Paid.' if pay.receipt is defined else 'Not paid: ' ~ pay.error }}",
                }),
            ),
        ];
        for (file, content) in files {
            let path = app.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content.to_string()).unwrap();
        }
        let first = program.run(&["run", app.to_str().unwrap(), "Pay."]);
        assert!(program.folder().join("died").exists(), "{first:?}");
        Self { program, first }
    }

    fn answer(&self, arguments: &[&str]) -> String {
        let answer = [&["tasks", "answer", "last"][..], arguments].concat();
        let noted = self.program.run(&answer);
        assert!(noted.status.success(), "{noted:?}");
        let app = self.program.folder().join("app");
        let resumed = self.program.run(&["resume", app.to_str().unwrap()]);
        text(&resumed.stdout)
    }

    fn asks(&self) -> bool {
        self.first.status.code() == Some(4)
    }

    /// The payments that were made, by the key of each.
    fn ledger(&self) -> Vec<String> {
        let ledger = std::fs::read_to_string(self.program.folder().join("ledger"));
        let ledger = ledger.unwrap_or_default();
        ledger.lines().map(str::to_owned).collect()
    }

    fn kinds(&self) -> Vec<String> {
        let history = self.program.run(&["--json", "tasks", "history", "last"]);
        text(&history.stdout)
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["kind"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    }
}

#[test]
fn a_tool_that_says_it_is_idempotent_is_called_again_under_the_same_key() {
    for when in MOMENTS {
        let payment = Payment::ask(when, "pay_again", &json!({}));
        assert_eq!(text(&payment.first.stdout), "Paid.\n", "{when}");
        let keys: BTreeSet<_> = payment.ledger().into_iter().collect();
        assert_eq!(keys.len(), 1, "{when}");
    }
}

#[test]
fn a_server_that_honours_keys_is_called_again_and_pays_once() {
    for when in MOMENTS {
        let honours = json!({ "honours_idempotency_key": true });
        let payment = Payment::ask(when, "pay_once", &honours);
        assert_eq!(text(&payment.first.stdout), "Paid.\n", "{when}");
        assert_eq!(payment.ledger().len(), 1, "{when}");
    }
}

#[test]
fn a_verifying_tool_decides_whether_a_call_is_repeated() {
    let verify = json!({ "tools": { "pay": { "verify": {
        "tool": "ledger.find", "arguments": { "key": "{{ call_id }}" },
        "done": "result.found", "gives": "result.payment",
    } } } });
    for when in MOMENTS {
        let payment = Payment::ask(when, "pay", &verify);
        assert_eq!(text(&payment.first.stdout), "Paid.\n", "{when}");
        assert_eq!(payment.ledger().len(), 1, "{when}");
        assert!(payment.kinds().contains(&"verified".to_owned()));
    }
}

#[test]
fn without_any_of_these_a_person_decides_about_a_repetition() {
    for (when, made) in MOMENTS.into_iter().zip([0, 1]) {
        let payment = Payment::ask(when, "pay", &json!({}));
        assert!(payment.asks(), "{:?}", payment.first);
        assert_eq!(payment.ledger().len(), made, "{when}");
        assert!(payment.kinds().contains(&"outcome_unknown".to_owned()));
    }
}

#[test]
fn a_person_who_looked_says_whether_to_call_again() {
    // It had not been paid: pay.
    let payment = Payment::ask("before", "pay", &json!({}));
    assert!(payment.answer(&["approve"]).contains("Paid."));
    assert_eq!(payment.ledger().len(), 1);
    // It had been paid: go on with the receipt.
    let payment = Payment::ask("after", "pay", &json!({}));
    let receipt = ["modify", "--message", r#"{"receipt": "R-1"}"#];
    assert!(payment.answer(&receipt).contains("Paid."));
    assert_eq!(payment.ledger().len(), 1);
    // Nobody wants it any more.
    let payment = Payment::ask("before", "pay", &json!({}));
    let declined = payment.answer(&["reject", "--message", "settled otherwise"]);
    assert!(
        declined.contains("Not paid: call.rejected: settled otherwise"),
        "{declined}"
    );
    assert!(payment.ledger().is_empty());
}
