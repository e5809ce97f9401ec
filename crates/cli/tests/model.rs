//! The binary with a model: what no skill covers goes to it, and what a skill covers does not.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use convoke_testkit::{Reply, Script, ScriptedModel};
use program::{Program, text};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_model_answers_what_no_skill_covers_and_acts_through_the_same_tools() {
    let replies = vec![
        Reply::tool_calls([("add_task", json!({"title": "pack for the moon"}))]),
        Reply::text("I put packing for the moon on your list."),
    ];
    let model = ScriptedModel::start(replies).await.unwrap();
    let program = Program::new();
    let chosen = format!("{}#scripted", model.endpoint());
    let run = |message: &str| program.run(&["run", &program.app(), message, "--model", &chosen]);

    let output = run("I fly to the moon in spring and know nothing of luggage");
    assert_eq!(
        text(&output.stdout),
        "I put packing for the moon on your list.\n",
        "{output:?}"
    );
    assert_eq!(program.todo_titles(), ["pack for the moon"]);
    let asked = model.requests();
    let tools = asked[0].body["tools"].to_string();
    assert!(
        tools.contains("add_task") && !tools.contains("user_id"),
        "{tools}"
    );

    let output = run("remind me to buy milk");
    assert_eq!(
        text(&output.stdout),
        "I've added \"buy milk\" to your tasks.\n"
    );
    assert_eq!(
        model.requests().len(),
        2,
        "what a skill covers costs no model call"
    );
}

#[test]
fn a_model_that_cannot_be_read_is_refused() {
    let program = Program::new();
    for model in ["qwen", "http://127.0.0.1/v1", "http://127.0.0.1/v1#"] {
        let output = program.run(&["run", &program.app(), "hello", "--model", model]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(
            text(&output.stderr).contains("error[model.malformed]"),
            "{output:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evals_can_judge_what_a_model_does_on_its_own() {
    let script = Script::by(|asked| {
        let messages = asked.body["messages"].as_array().unwrap();
        if messages.last().unwrap()["role"] == "tool" {
            return Reply::text("Done, I think.");
        }
        // It takes everything for a task to be added, which is right for some and wrong for others.
        Reply::tool_calls([("add_task", json!({"title": "buy milk"}))])
    });
    let model = ScriptedModel::start(script).await.unwrap();
    let program = Program::new();
    let chosen = format!("{}#scripted", model.endpoint());
    let eval = |only: &str| {
        let app = program.app();
        let arguments = [
            "--json",
            "eval",
            &app,
            "--only",
            only,
            "--by-model",
            "--model",
            &chosen,
        ];
        let output = program.run(&arguments);
        let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        (output.status.code(), report)
    };
    let (code, report) = eval("remind me to buy milk");
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["measures"].as_array().unwrap().len(), 1, "{report}");
    assert!(!model.requests().is_empty(), "no skill decided");
    let (code, report) = eval("mark buy milk as done");
    assert_eq!(code, Some(1), "{report}");

    let output = program.run(&["eval", &program.app(), "--by-model"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("error[eval.no_model]"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_s_trace_goes_on_to_the_model_the_row_and_the_log() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let traceparent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let replies = vec![Reply::status(503), Reply::text("Hello.")];
    let model = ScriptedModel::start(replies).await.unwrap();
    let program = Program::new();
    let chosen = format!("{}#scripted", model.endpoint());
    let question = "I fly to the moon in spring and know nothing of luggage";
    let app = program.app();
    let output = program
        .command(&["-vv", "run", &app, question, "--model", &chosen])
        .env("TRACEPARENT", &traceparent)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = text(&output.stderr);
    let again = log.lines().find(|line| line.contains("asked again"));
    let again = again.unwrap_or_else(|| panic!("{log}"));
    assert!(again.ends_with(&format!("trace={TRACE}")), "{again}");
    let header = model.requests()[1].headers["traceparent"].clone();
    assert!(header.to_str().unwrap().contains(TRACE), "{header:?}");

    let json = |arguments: &[&str]| -> Value {
        serde_json::from_slice(&program.run(arguments).stdout).unwrap()
    };
    let shown = json(&["--json", "tasks", "show", "last"]);
    assert_eq!(shown["task"]["trace"], traceparent);
    let traced = json(&["--json", "tasks", "trace", "last"]);
    assert_eq!(traced["trace_id"], TRACE);
    let shown = text(&program.run(&["tasks", "show", "last"]).stdout);
    assert!(shown.contains(TRACE), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_shown_what_comes_with_a_message() {
    let model = ScriptedModel::start(Reply::text("Two rows."))
        .await
        .unwrap();
    let program = Program::new();
    let app = program.folder().join("clerk");
    std::fs::create_dir_all(app.join("agents")).unwrap();
    let files = ["rows.csv", "pixel.png", "letter.pdf"].map(|name| program.folder().join(name));
    std::fs::write(&files[0], "day,hours\nmon,8\ntue,7\n").unwrap();
    std::fs::write(&files[1], [0x89, b'P', b'N', b'G']).unwrap();
    std::fs::write(&files[2], vec![0_u8; 100_000]).unwrap();
    let files = files.map(|file| file.to_string_lossy().into_owned());
    let agent = app.join("agents/assistant.yaml");
    let limits = "name: clerk\nlimits: { attachment_bytes: 200000, attachment_characters: 12 }\n";
    std::fs::write(app.join("convoke.yaml"), limits).unwrap();
    let with_images = |images: bool| {
        format!(
            "name: assistant\nrole: Answers.\nsystem_prompt: Answer.\n\
             llm_config: {{ endpoint: \"{}\", model: m, images: {images} }}\n",
            model.endpoint()
        )
    };
    let app = app.to_string_lossy().into_owned();
    let ask = |key: &str| {
        let mut arguments = vec!["run", &app, "How many rows?", "--key", key];
        for file in &files {
            arguments.extend(["--attach", file]);
        }
        program.run(&arguments)
    };
    let shown = || {
        let requests = model.requests();
        let messages = &requests.last().unwrap().body["messages"];
        messages.as_array().unwrap().last().unwrap()["content"].clone()
    };
    std::fs::write(&agent, with_images(true)).unwrap();
    let answered = ask("one");
    assert_eq!(text(&answered.stdout), "Two rows.\n", "{answered:?}");
    let content = shown();
    let written = content[0]["text"].as_str().unwrap();
    assert!(
        written
            .contains("`rows.csv` (text/csv, 22 bytes):\nday,hours\nmo\n[cut after 12 characters]"),
        "{written}"
    );
    assert!(
        written.contains("`letter.pdf` (application/pdf, 100000 bytes); its content is not shown"),
        "{written}"
    );
    assert_eq!(
        content[1]["image_url"]["url"],
        "data:image/png;base64,iVBORw=="
    );

    std::fs::write(&agent, with_images(false)).unwrap();
    ask("two");
    let told = shown();
    assert!(
        told.as_str()
            .unwrap()
            .contains("Attached image (image/png, 4 bytes), which is not shown"),
        "{told}"
    );

    // The same key with other files is another request.
    std::fs::write(&files[0], "day,hours\n").unwrap();
    let second = ask("one");
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    assert!(
        text(&second.stderr).contains("store.key_reused"),
        "{second:?}"
    );
    std::fs::write(&files[2], vec![0_u8; 200_001]).unwrap();
    let before = text(&program.run(&["tasks", "list"]).stdout);
    let refused = ask("three");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(
        text(&refused.stderr).contains("request.attachment_too_large"),
        "{refused:?}"
    );
    assert_eq!(text(&program.run(&["tasks", "list"]).stdout), before);
    let shown = program.run(&["tasks", "show", "last"]);
    assert!(
        text(&shown.stdout).contains("attached: rows.csv (text/csv, 22 bytes)"),
        "{shown:?}"
    );
}
