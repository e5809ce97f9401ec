//! Random workflows without circles, walked in random order with failures, answers and crashes on the way,
//! beside a reference that knows no order at all: it goes through the nodes once, from the first to the last.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use convoke_app::App;
use convoke_engine::machine::Machine;
use convoke_engine::{Call, Event, Facts, Failure, Outcome, QuestionAnswer, Snapshot};
use convoke_flow::{Assistant, Progress, Reply, Request};
use convoke_model::{Agent, Channel, Message, TaskState, Workflow};
use convoke_telemetry::TraceContext;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

/// One node as it is drawn. Edges lead to later nodes only.
#[derive(Debug, Clone)]
struct NodePlan {
    human: bool,
    /// How many of its attempts fail before one works.
    failures: u32,
    retries: u32,
    /// 0 fails, 1 continues, 2 goes to a later node.
    on_error: u8,
    goto: usize,
    join: u8,
    /// What it gives: a number for conditions and a letter for routing.
    value: u8,
    /// What the person says, at a human node.
    approves: bool,
    edges: Vec<(usize, EdgeKind)>,
}

#[derive(Debug, Clone, Copy)]
enum EdgeKind {
    Always,
    /// Where the value is above this.
    Above(u8),
    /// By the letter of the value, to this node or to the one behind it.
    Routed,
}

fn drawn() -> impl Strategy<Value = NodePlan> {
    let way = prop_oneof![
        3 => Just(EdgeKind::Always),
        2 => (0..10_u8).prop_map(EdgeKind::Above),
        1 => Just(EdgeKind::Routed),
    ];
    let edges = prop::collection::vec((1..4_usize, way), 0..4);
    (
        prop::bool::weighted(0.2),
        prop_oneof![4 => Just(0_u32), 1 => 1..4_u32],
        0..3_u32,
        0..3_u8,
        1..4_usize,
        0..3_u8,
        0..10_u8,
        any::<bool>(),
        edges,
    )
        .prop_map(
            |(human, failures, retries, on_error, goto, join, value, approves, edges)| NodePlan {
                human,
                failures,
                retries,
                on_error,
                goto,
                join,
                value,
                approves,
                edges,
            },
        )
}

fn name(index: usize) -> String {
    format!("n{index:02}")
}

/// A graph as it is used: every target exists, and every node but the first is led to.
struct Graph {
    nodes: Vec<NodePlan>,
    /// From, to, the one behind it where routed, and how.
    edges: Vec<(usize, usize, usize, EdgeKind)>,
}

impl Graph {
    fn new(mut nodes: Vec<NodePlan>) -> Self {
        let count = nodes.len();
        let mut edges = Vec::new();
        for (from, node) in nodes.iter_mut().enumerate() {
            // The last node has nowhere to go.
            if from + node.goto >= count {
                node.on_error %= 2;
            }
            if node.human {
                node.failures = 0;
            }
            for (step, way) in node.edges.clone() {
                let to = from + step;
                let other = (to + 1).min(count - 1);
                if to < count {
                    edges.push((from, to, other, way));
                }
            }
        }
        for to in 1..count {
            let led = edges.iter().any(|(_, one, other, way)| {
                *one == to || (matches!(way, EdgeKind::Routed) && *other == to)
            });
            if !led {
                edges.push((to - 1, to, to, EdgeKind::Always));
            }
        }
        Self { nodes, edges }
    }

    fn workflow(&self) -> Workflow {
        let nodes: serde_json::Map<String, Value> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| {
                let on_error = match node.on_error {
                    0 => json!("fail"),
                    1 => json!("continue"),
                    _ => json!({ "goto": name(index + node.goto) }),
                };
                let join = match node.join {
                    0 => json!("all"),
                    1 => json!("any"),
                    _ => json!({ "first": 2 }),
                };
                let kind = if node.human {
                    json!({ "type": "human", "prompt": "Well?", "join": join })
                } else {
                    json!({ "type": "tool", "tool": "desk.do", "join": join, "retries": node.retries,
                        "retry_delay_ms": 0, "on_error": on_error })
                };
                (name(index), kind)
            })
            .collect();
        let edges: Vec<Value> = self
            .edges
            .iter()
            .map(|(from, to, other, way)| {
                let source = name(*from);
                let (to, other) = (name(*to), name(*other));
                match way {
                    EdgeKind::Always => json!({ "from": source, "to": to }),
                    EdgeKind::Above(bar) => {
                        let condition = format!("{source}.v is defined and {source}.v > {bar}");
                        json!({ "from": source, "to": to, "condition": condition })
                    }
                    EdgeKind::Routed => json!({ "from": source, "to": { "a": to, "b": other },
                        "condition": format!("{source}.k or none") }),
                }
            })
            .collect();
        let workflow = json!({ "name": "main", "nodes": nodes, "edges": edges, "entry_point": name(0),
            "answer": "Done.", "max_iterations": 1_000 });
        serde_json::from_value(workflow).unwrap()
    }
}

/// The value that a node gives, as conditions see it.
fn letter(value: u8) -> &'static str {
    ["a", "b", "c"][usize::from(value % 3)]
}

/// What the reference says: which nodes are gone through, and whether that fails the task.
fn reference(graph: &Graph) -> (BTreeSet<usize>, bool) {
    let mut reached: BTreeSet<usize> = [0].into();
    let mut fails = false;
    for (index, node) in graph.nodes.iter().enumerate() {
        if !reached.contains(&index) {
            continue;
        }
        let failed = node.failures > node.retries;
        if failed && node.on_error == 0 {
            fails = true;
            continue;
        }
        if failed && node.on_error == 2 {
            reached.insert(index + node.goto);
            continue;
        }
        // What failed, and what a person says, has neither a number nor a letter.
        let plain = !failed && !node.human;
        for (from, to, other, way) in &graph.edges {
            if *from != index {
                continue;
            }
            match way {
                EdgeKind::Always => drop(reached.insert(*to)),
                EdgeKind::Above(bar) if plain && node.value > *bar => drop(reached.insert(*to)),
                EdgeKind::Routed if plain && letter(node.value) == "a" => drop(reached.insert(*to)),
                EdgeKind::Routed if plain && letter(node.value) == "b" => {
                    reached.insert(*other);
                }
                EdgeKind::Above(_) | EdgeKind::Routed => {}
            }
        }
    }
    (reached, fails)
}

/// A walk whose events come in the order that the dice say.
struct RandomWalk<'a> {
    graph: &'a Graph,
    assistant: Arc<Assistant>,
    machine: Machine<Assistant>,
    at: Timestamp,
    attempts: BTreeMap<usize, u32>,
}

impl RandomWalk<'_> {
    fn tell(graph: &Graph, dice: &[u8]) -> (BTreeMap<usize, u32>, TaskState) {
        let agent = json!({ "name": "clerk", "role": "Answers.", "system_prompt": "Answer." });
        let agent: Agent = serde_json::from_value(agent).unwrap();
        let mut app = App::of_agents("office", vec![agent]).unwrap();
        app.workflows = vec![graph.workflow()];
        let assistant = Arc::new(Assistant::new(Arc::new(app)).unwrap());
        let facts = Facts {
            id: Uuid::from_u128(1),
            owner: Uuid::from_u128(2),
            conversation: None,
            channel: Channel::Terminal,
            parent: None,
            created_at: Timestamp::UNIX_EPOCH,
            deadline: Timestamp::MAX,
            trace: TraceContext::begin(Uuid::from_u128(1)),
        };
        let mut machine = Machine::new(Arc::clone(&assistant), facts);
        machine.begin_with([Message::user("Go.", Timestamp::UNIX_EPOCH).unwrap()]);
        let mut story = RandomWalk {
            graph,
            assistant,
            machine,
            at: Timestamp::UNIX_EPOCH,
            attempts: BTreeMap::new(),
        };
        story.happens(Event::Submitted { input: json!({}) });
        for roll in dice.iter().cycle().take(10_000) {
            if story.machine.snapshot().status.is_final() {
                let status = story.machine.snapshot().status;
                return (story.attempts, status);
            }
            if roll % 5 == 0 {
                story.crash();
            }
            let open = &story.machine.snapshot().open;
            let call = Arc::clone(&open[usize::from(*roll) % open.len()]);
            story.comes_back(&call);
        }
        panic!("the walk does not end");
    }

    fn happens(&mut self, event: Event<Reply>) {
        self.at += SignedDuration::from_millis(1);
        self.machine.apply(event, self.at);
    }

    /// Another worker goes on from what the journal holds.
    fn crash(&mut self) {
        let state = serde_json::to_value(self.machine.snapshot()).unwrap();
        let snapshot: Snapshot<Progress, Request> = serde_json::from_value(state).unwrap();
        let is_same = snapshot == *self.machine.snapshot();
        assert!(is_same, "what is read back is what was written");
        let facts = Facts::clone(self.machine.facts());
        let messages = self.machine.messages().as_slice().into_owned();
        let seq = self.machine.seq();
        self.machine =
            Machine::restore(Arc::clone(&self.assistant), facts, snapshot, messages, seq);
    }

    /// An open call as the journal has it.
    fn read_back(&self, call: &Call<Request>) -> serde_json::Value {
        let open = &self.machine.snapshot().open;
        let call = open.iter().find(|open| open.id == call.id).unwrap();
        let text = serde_json::to_string(&call.request).unwrap();
        let request: Request = serde_json::from_str(&text).unwrap();
        serde_json::to_value(request).unwrap()
    }

    fn comes_back(&mut self, call: &Call<Request>) {
        let request = serde_json::to_value(&call.request).unwrap();
        let index: usize = request["node"].as_str().unwrap()[1..].parse().unwrap();
        let node = &self.graph.nodes[index];
        *self.attempts.entry(index).or_insert(0) += 1;
        if node.human {
            let answer = if node.approves {
                QuestionAnswer::Approve { message: None }
            } else {
                QuestionAnswer::Reject { message: None }
            };
            self.happens(Event::Answered {
                question: call.id,
                answer,
                by: None,
            });
            // Who agrees lets the call be made, which then says so.
            let open = self
                .machine
                .snapshot()
                .open
                .iter()
                .any(|other| other.id == call.id);
            if open {
                // As the executor does, which gives back what stands in the request.
                let said = self.read_back(call)["ask"]["said"].clone();
                let given = serde_json::from_value(json!({ "person": said })).unwrap();
                self.happens(returned(call, Outcome::Done(given)));
            }
            return;
        }
        let outcome = if self.attempts[&index] <= node.failures {
            Outcome::Failed(Failure::no_effect("desk.broken", "it does not work"))
        } else {
            let content = json!({ "v": node.value, "k": letter(node.value) });
            let reply = json!({ "tool": { "server": "desk", "tool": "do", "content": content,
                "text": "", "is_error": false } });
            Outcome::Done(serde_json::from_value(reply).unwrap())
        };
        self.happens(returned(call, outcome));
    }
}

fn returned(call: &Call<Request>, outcome: Outcome<Reply>) -> Event<Reply> {
    Event::Returned {
        call: call.id,
        label: call.label.clone(),
        outcome,
        started_at: None,
        duration_ms: 1,
    }
}

fn cases() -> u32 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the long form of the tests is asked for by a variable"
    )]
    let long = std::env::var("CONVOKE_LONG_TESTS").is_ok_and(|value| value == "1");
    if long { 20_000 } else { 600 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_walk_comes_to_what_the_reference_says(
        nodes in prop::collection::vec(drawn(), 1..9),
        dice in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let graph = Graph::new(nodes);
        let (reached, fails) = reference(&graph);
        let (attempts, status) = RandomWalk::tell(&graph, &dice);
        let visited: BTreeSet<usize> = attempts.keys().copied().collect();
        if fails {
            prop_assert_eq!(status, TaskState::Failed);
            prop_assert!(visited.is_subset(&reached), "{:?} of {:?}", visited, reached);
        } else {
            prop_assert_eq!(status, TaskState::Completed);
            prop_assert_eq!(&visited, &reached);
            for (index, attempts) in attempts {
                let node = &graph.nodes[index];
                let expected = if node.human { 1 } else { node.failures.min(node.retries) + 1 };
                prop_assert_eq!(attempts, expected, "node {}", index);
            }
        }
    }
}
