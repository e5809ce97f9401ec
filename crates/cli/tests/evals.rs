//! `convoke eval` of the real binary: what cases expect of answers, and two configurations side by side.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use convoke_testkit::{Reply, ScriptedModel};
use program::{Program, text};
use serde_json::{Value, json};

const CASES: &str = "\
cases:
  - say: what time is it
    expect: {intent: tell_time, calls: [{tool: current_time}]}
  - say: sing me a song of the sea
    expect: {reply: {contains: [sea]}}
  - say: who painted the ceiling
    expect: {intent: unknown}
";

/// An app that tells the time without a tool server of its own.
fn write_app(program: &Program, folder: &str, sentence: &str) {
    let app = program.folder().join(folder);
    std::fs::create_dir_all(app.join("agents")).unwrap();
    std::fs::create_dir_all(app.join("evals")).unwrap();
    let write = |file: &str, content: &str| std::fs::write(app.join(file), content).unwrap();
    write("convoke.yaml", "name: clock\n");
    let agent = format!(
        "name: clerk
role: Tells the time.
system_prompt: Tell the time.
tools: [builtin.current_time]
skills:
  - name: tell_time
    description: Tell the time
    examples: [{sentence}]
    sentences: [{sentence}]
    action: {{tool: builtin.current_time, reply: So late.}}
"
    );
    write("agents/clerk.yaml", &agent);
    write("evals/cases.yaml", CASES);
}

fn json(output: &std::process::Output) -> Value {
    serde_json::from_str(&text(&output.stdout)).unwrap_or_else(|_| panic!("{output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_compared_with_none_and_the_first_decides_how_it_ends() {
    let model = ScriptedModel::start(Reply::text("The sea, the sea."))
        .await
        .unwrap();
    let chosen = format!("{}#scripted", model.endpoint());
    let program = Program::new();
    write_app(&program, "clock", "what time is it");

    let output = program.run(&["eval", "clock", "--against", &chosen, "--confusion"]);
    let said = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(1),
        "replies are wrong: {output:?}"
    );
    assert!(
        said.contains("first   clock, no model but those that it names itself\nsecond  clock, with scripted at 127.0.0.1:"),
        "{said}"
    );
    let table: Vec<_> = said
        .lines()
        .skip_while(|line| !line.starts_with("MEASURE"))
        .collect();
    assert_eq!(
        table[..4],
        [
            "MEASURE  CASES    FIRST   SECOND  DIFFERENCE",
            "intents      2  100.0 %   50.0 %       -50.0",
            "calls        1  100.0 %  100.0 %         0.0",
            "replies      1    0.0 %  100.0 %      +100.0",
        ],
        "{said}"
    );
    let only_first = "only the first is right: evals/cases.yaml \"who painted the ceiling\"\n      \
                      the second said \"The sea, the sea.\"\n      intent: wanted unknown, got ";
    assert!(said.contains(only_first), "{said}");
    assert!(
        said.contains("only the second is right: evals/cases.yaml \"sing me a song of the sea\"\n      the first said "),
        "{said}"
    );
    assert!(
        !said.contains("right: evals/cases.yaml \"what time"),
        "{said}"
    );
    assert!(
        said.contains("the first is below its bar in replies: 0.0 % of 95.0 %"),
        "{said}"
    );
    assert!(
        said.contains("2 of 3 cases are right in everything with the first, 2 with the second"),
        "{said}"
    );
    assert_eq!(said.matches("INTENT ").count(), 2, "two tables: {said}");
    assert_eq!(model.requests().len(), 2, "only the second thinks");

    // The other way round the model comes first, and `none` takes it away again.
    let arguments = [
        "--json",
        "eval",
        "clock",
        "--model",
        &chosen,
        "--against",
        "none",
        "--only",
        "sea",
        "--junit",
        "junit.xml",
    ];
    let output = program.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = json(&output);
    assert_eq!(told["passed"], true, "{told}");
    let replies = &told["measures"][4];
    assert_eq!(
        *replies,
        json!({ "name": "replies", "cases": 1, "first": 1.0, "second": 0.0, "difference": -1.0 })
    );
    let parted = &told["only_one_right"];
    assert_eq!(parted.as_array().unwrap().len(), 1, "{told}");
    assert_eq!(parted[0]["right"], "first", "{told}");
    assert_eq!(parted[0]["said"], "sing me a song of the sea", "{told}");
    assert!(
        parted[0]["reply"].is_string() && parted[0]["wrong"][0].is_string(),
        "{told}"
    );
    assert_eq!(
        told["first"]["cases"][0]["reply"], "The sea, the sea.",
        "{told}"
    );
    assert_eq!(told["second"]["passed"], false, "{told}");
    let junit = std::fs::read_to_string(program.folder().join("junit.xml")).unwrap();
    assert!(junit.contains("tests=\"1\" failures=\"0\""), "{junit}");
}

#[test]
fn two_apps_are_compared_over_the_cases_of_the_first() {
    let program = Program::new();
    write_app(&program, "clock", "what time is it");
    write_app(&program, "broken", "wat thyme izzit");
    std::fs::remove_file(program.folder().join("broken/evals/cases.yaml")).unwrap();
    let output = program.run(&[
        "--json",
        "eval",
        "clock",
        "--against",
        "broken",
        "--only",
        "what time",
    ]);
    let told = json(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(told["measures"][0]["difference"], -1.0, "{told}");
    assert_eq!(told["only_one_right"][0]["right"], "first", "{told}");
    assert_eq!(
        told["first"]["configuration"],
        "clock, no model but those that it names itself"
    );
    assert_eq!(
        told["second"]["configuration"],
        "broken, no model but those that it names itself"
    );

    let output = program.run(&["eval", "broken", "--against", "clock"]);
    assert_eq!(
        output.status.code(),
        Some(2),
        "the first has no cases: {output:?}"
    );
    assert!(
        text(&output.stderr).contains("error[eval.no_cases]"),
        "{output:?}"
    );
}

#[test]
fn what_cannot_be_compared_with_is_refused_before_anything_is_run() {
    let program = Program::new();
    write_app(&program, "clock", "what time is it");
    for other in ["nowhere", "http://127.0.0.1/v1", "http://127.0.0.1/v1#", ""] {
        let output = program.run(&["eval", "clock", "--against", other]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("error[eval.against_malformed]"), "{said}");
        assert!(
            said.contains(&format!("`{other}`")) && output.stdout.is_empty(),
            "{said}"
        );
    }
    // A folder that is no app is told as `check` tells it.
    std::fs::create_dir(program.folder().join("empty")).unwrap();
    let output = program.run(&["eval", "clock", "--against", "empty"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("app.file_missing"),
        "{output:?}"
    );
    // Nobody can decide by a model that is not there.
    let output = program.run(&["eval", "clock", "--by-model", "--against", "none"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).contains("error[eval.no_model]"),
        "{output:?}"
    );
}

#[test]
fn cases_may_say_what_an_answer_is_like_and_measures_that_none_speaks_of_are_not_shown() {
    let program = Program::new();
    write_app(&program, "clock", "what time is it");
    let write = |cases: &str| {
        let file = program.folder().join("clock/evals/cases.yaml");
        std::fs::write(
            file,
            format!("cases:\n  - say: what time is it\n    expect: {cases}\n"),
        )
        .unwrap();
    };
    write("{partial: false, confidence: high, suggestions: {at_most: 3}}");
    let output = program.run(&["eval", "clock"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        text(&output.stdout),
        "MEASURE  CASES  RIGHT    SHARE     BAR\n\
         answers      1      1  100.0 %  95.0 %  passed\n\
         1 of 1 cases are right in everything\n"
    );
    write("{partial: true, sources: [the sun]}");
    let output = program.run(&["eval", "clock"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("partial: wanted true, got false"), "{said}");
    assert!(
        said.contains("sources: wanted [\"the sun\"], got ["),
        "{said}"
    );
    write("{targets: [tell_thyme]}");
    let output = program.run(&["eval", "clock"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(
        said.contains("app.target_unknown") && said.contains("did you mean `tell_time`?"),
        "{said}"
    );
}
