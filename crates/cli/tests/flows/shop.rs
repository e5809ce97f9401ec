//! A shop whose people and orders are numbered from 1 each, with skills over tools and workflows.

use std::path::Path;

use serde_json::{Value, json};

use crate::program::{Program, text};

/// An app with the shop's tool server, and what it changed.
pub(crate) struct Shop {
    pub(crate) program: Program,
    pub(crate) app: String,
}

pub(crate) fn skill(name: &str, sentence: &str, slots: &Value, action: &Value) -> Value {
    json!({ "name": name, "description": format!("Does {name}."), "sentences": [sentence], "slots": slots,
        "action": action })
}

/// The skill that writes a note about a refund. Its amount may be left out.
pub(crate) fn refund(approval: &str) -> Value {
    skill(
        "refund",
        "refund {what} [for {amount} euros]",
        &json!({ "what": {}, "amount": {} }),
        &json!({
            "tool": "shop.add_note", "arguments": { "text": "{{ what }}" },
            "approval": { "when": approval }, "reply": "Refunded {{ result.text }}."
        }),
    )
}

/// Skills that list people and orders, each as a numbered list, and one that cancels an order.
pub(crate) fn listing(confirm: Option<&str>) -> Vec<Value> {
    let shown = |items: &str, label: &str| {
        let reply = format!(
            "{{% for one in result.{items} %}}{{{{ loop.index }}}}. {{{{ one.{label} }}}}. {{% endfor %}}"
        );
        let shows = json!({ "items": items, "id": "id", "label": label });
        skill(
            items,
            &format!("list {items}"),
            &json!({}),
            &json!({ "tool": format!("shop.list_{items}"), "reply": reply, "shows": shows }),
        )
    };
    let order = json!({ "ask": "Which order?", "refers_to": { "tool": "shop.list_orders", "items": "orders", "id": "id",
        "label": "what", "nouns": ["order"], "none": "There is no order {{ words }}.", "many": "Which order?" } });
    let mut cancel = json!({ "tool": "shop.cancel_order", "arguments": { "id": "{{ order.id }}" },
        "reply": "Cancelled {{ result.what }}." });
    if let Some(confirm) = confirm {
        cancel["confirm"] = json!(confirm);
    }
    vec![
        shown("people", "name"),
        shown("orders", "what"),
        skill(
            "cancel",
            "cancel [{order}]",
            &json!({ "order": order }),
            &cancel,
        ),
    ]
}

impl Shop {
    /// The shop with these skills and workflows, and further keys of `convoke.yaml`.
    pub(crate) fn new(skills: &[Value], workflows: &[Value], config: &Value) -> Self {
        Self::with_server(skills, workflows, config, &json!({}))
    }

    /// The same, with these settings of the server's tools.
    pub(crate) fn with_server(
        skills: &[Value],
        workflows: &[Value],
        config: &Value,
        tools: &Value,
    ) -> Self {
        let program = Program::new();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requests/shop.py");
        let arguments = [
            script.to_str().unwrap(),
            program.folder().join("changes").to_str().unwrap(),
        ]
        .map(str::to_owned);
        let server = json!({ "name": "shop", "transport": { "stdio": { "command": "python3",
            "args": arguments } }, "tools": tools });
        let agent = json!({ "name": "clerk", "role": "Sells.", "system_prompt": "Sell.",
            "tools": ["shop.find_person", "shop.list_people", "shop.list_orders", "shop.cancel_order",
                "shop.add_note", "shop.refuse"],
            "skills": skills });
        let mut settings = json!({ "name": "shop" });
        for (key, value) in config.as_object().unwrap() {
            settings[key] = value.clone();
        }
        let mut files = vec![
            ("convoke.json".to_owned(), settings.to_string()),
            (
                "config/mcp_servers.json".to_owned(),
                json!({ "servers": [server] }).to_string(),
            ),
            ("agents/clerk.json".to_owned(), agent.to_string()),
        ];
        for workflow in workflows {
            let name = workflow["name"].as_str().unwrap();
            files.push((format!("workflows/{name}.json"), workflow.to_string()));
        }
        let files: Vec<_> = files
            .iter()
            .map(|(path, content)| (path.as_str(), content.as_str()))
            .collect();
        let app = program.app_of(&files);
        Self { program, app }
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.program.run(&[&["--json"][..], arguments].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// Says something in a new conversation.
    pub(crate) fn say(&self, message: &str) -> Value {
        self.json(&["run", &self.app, message])
    }

    /// Says something in the last conversation.
    pub(crate) fn go_on(&self, message: &str) -> Value {
        self.json(&["run", &self.app, "--continue", message])
    }

    /// What was changed in the shop.
    pub(crate) fn changes(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.program.folder().join("changes"));
        let log = log.unwrap_or_default();
        log.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// What `check` reports, with its exit code.
    pub(crate) fn check(&self) -> (String, Option<i32>) {
        let output = self.program.run(&["check", &self.app]);
        let said = text(&output.stdout) + &text(&output.stderr);
        (said, output.status.code())
    }
}

/// A workflow that routes, dispatches and aggregates, with this text as its answer if it is not the aggregate's.
pub(crate) fn routed(answer: Option<&str>) -> Value {
    let mut workflow = json!({
        "name": "main", "entry_point": "who",
        "nodes": {
            "who": { "type": "route" },
            "them": { "type": "dispatch", "of": "who" },
            "all": { "type": "aggregate", "of": "them" },
            "ask": { "type": "compose",
                "prompt": "Which do you mean? {{ who.candidates | map(attribute='description') | join(' ') }}" },
            "sorry": { "type": "compose", "prompt": "I cannot help with that." },
        },
        "edges": [
            { "from": "who", "to": { "clarify": "ask", "fallback": "sorry", "otherwise": "them" } },
            { "from": "them", "to": "all" },
        ],
    });
    if let Some(answer) = answer {
        workflow["nodes"]["told"] = json!({ "type": "compose", "prompt": answer });
        let edges = workflow["edges"].as_array_mut().unwrap();
        edges.push(json!({ "from": "all", "to": "told" }));
    }
    workflow
}
