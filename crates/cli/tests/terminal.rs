//! What reaches a terminal: texts of people, tools, models and files without anything that a terminal would act
//! upon, and for whoever decides by them also with what cannot be seen.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;
#[path = "program/pty.rs"]
mod pty;

use std::path::Path;

use convoke_testkit::{Reply, ScriptedModel};
use program::{Program, text};
use pty::{Session, TerminalOutput, acted_upon, watch};
use serde_json::{Value, json};

/// A title, a write to the clipboard, a cleared screen, colours and directions, the short ways to write over a line.
const HOSTILE: &str = "ev\u{1b}]0;owned\u{7}il\u{1b}]52;c;b3duZWQ=\u{7}\u{1b}[2J\u{9b}31mred\u{9d}0;owned\u{9c}\
    \u{202e}desrever\u{2066}\u{2069}\u{61c}\rback\u{8}\u{7f}end";

/// What cannot be seen, and what turns around the text behind it.
const UNSEEN: &str =
    "pay\u{200b}pal\u{200d}\u{200e}\u{200f}\u{2060}\u{feff}\u{ad}\u{e0041}\u{202e}\u{2067}now";

/// What progress is drawn with, which only goes to standard error.
const PROGRESS: &str = "\r|\u{1b}\\[2K|\u{1b}\\[[0-9]*[AB]";

/// What a line is edited with.
const EDITING: &str =
    "\r|\u{1b}\\[[KJ]|\u{1b}\\[\\?2026[hl]|\u{1b}\\[[0-9]*[A-D]|\u{1b}\\[\\?2004[hl]|\u{1b}\\[2K";

fn write(folder: &Path, files: &[(&str, Value)]) {
    for (file, value) in files {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // A byte order mark may stand in an app file as an escape only.
        let text = value.to_string().replace('\u{feff}', r"\ufeff");
        std::fs::write(path, text).unwrap();
    }
}

/// An app with a workflow of these nodes, and a tool server that refuses every call in these words.
fn app(program: &Program, nodes: &Value, answer: &str, words: &str) -> String {
    let folder = program.folder().join("app");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/faulty.py");
    let server = json!({
        "name": "faulty",
        "transport": { "stdio": { "command": "python3", "args": [script, "refusing", words] } },
    });
    let first = nodes.as_object().unwrap().keys().next().unwrap();
    let workflow =
        json!({ "name": "main", "entry_point": first, "nodes": nodes, "answer": answer });
    let agent = json!({ "name": "clerk", "role": "Helps.", "system_prompt": "Help." });
    write(
        &folder,
        &[
            ("convoke.json", json!({ "name": "app" })),
            ("agents/clerk.json", agent),
            ("config/mcp_servers.json", json!({ "servers": [server] })),
            ("workflows/main.json", workflow),
        ],
    );
    folder.to_str().unwrap().to_owned()
}

/// An app that says what it was told.
fn echo(program: &Program) -> String {
    let nodes = json!({ "say": { "type": "compose", "prompt": "It is {{ request }}." } });
    app(program, &nodes, "It is {{ request }}.", "")
}

/// An app that asks whether to do what it was told.
fn asking(program: &Program) -> String {
    let nodes = json!({ "agree": { "type": "human", "prompt": "Really {{ request }}?" } });
    app(program, &nodes, "It is {{ request }}.", "")
}

fn seen(program: &Program, arguments: &[&str]) -> TerminalOutput {
    watch(program.command(arguments))
}

/// Shown without anything that a terminal would act upon.
fn assert_plain(seen: &TerminalOutput) {
    assert_eq!(acted_upon(&seen.stdout, ""), [], "{seen:?}");
    assert_eq!(acted_upon(&seen.stderr, PROGRESS), [], "{seen:?}");
}

/// Shown with the name of every character that cannot be seen.
fn assert_revealed(text: &str) {
    let named = "pay<U+200B>pal<U+200D><U+200E><U+200F><U+2060><U+FEFF><U+00AD><U+E0041><U+202E><U+2067>now";
    assert!(text.contains(named), "{text:?}");
}

#[test]
fn nothing_of_a_message_is_acted_upon_by_the_terminal_that_shows_it() {
    let program = Program::new();
    let app = echo(&program);
    let answer = seen(&program, &["run", &app, HOSTILE]);
    assert_plain(&answer);
    assert!(
        answer.stdout.contains("It is ev<U+001B>]0;owned"),
        "{answer:?}"
    );
    seen(&program, &["run", &app, &format!("{HOSTILE}\nagain")]);
    let tasks = program.tasks();
    let [one, other] = &tasks.keys().collect::<Vec<_>>()[..] else {
        panic!("{tasks:?}");
    };
    for arguments in [
        &["tasks", "list"][..],
        &["tasks", "show", one],
        &["tasks", "show", one, "--at", "1"],
        &["tasks", "trace", one],
        &["tasks", "history", one],
        &["tasks", "diff", one, other],
        &["tasks", "record", one],
        &["tasks", "replay", one],
    ] {
        let shown = seen(&program, arguments);
        assert_plain(&shown);
        assert!(!shown.stdout.is_empty(), "{arguments:?}");
        let history = matches!(arguments[1], "history" | "replay");
        assert!(
            history || shown.stdout.contains("ev"),
            "{arguments:?} {shown:?}"
        );
    }
}

#[test]
fn what_is_printed_is_the_same_for_a_pipe() {
    let program = Program::new();
    let app = echo(&program);
    let output = program.run(&["run", &app, HOSTILE]);
    assert_eq!(acted_upon(&text(&output.stdout), ""), [], "{output:?}");
    assert!(
        text(&output.stdout).contains("<U+202E>desrever"),
        "{output:?}"
    );
}

#[test]
fn lines_and_tabs_of_an_answer_stay_as_they_are() {
    let program = Program::new();
    let app = echo(&program);
    let output = program.run(&["run", &app, "one\r\ntwo\tthree\u{200d}\u{2764}\u{fe0f}"]);
    assert_eq!(
        text(&output.stdout),
        "It is one\ntwo\tthree\u{200d}\u{2764}\u{fe0f}.\n"
    );
}

#[test]
fn json_names_what_a_terminal_would_act_upon_and_means_the_same() {
    let program = Program::new();
    let app = asking(&program);
    let request = format!("{HOSTILE}{UNSEEN}");
    let answer = seen(&program, &["--json", "run", &app, &request]);
    assert_eq!(answer.code, Some(4), "{answer:?}");
    for arguments in [
        &["--json", "tasks", "list"][..],
        &["--json", "tasks", "show", "last"],
        &["--json", "tasks", "trace", "last"],
        &["tasks", "show", "last", "--at", "1"],
        &["--json", "resume", &app],
    ] {
        let shown = seen(&program, arguments);
        assert_plain(&shown);
        assert!(
            !shown.stdout.contains(['\u{200b}', '\u{e0041}']),
            "{shown:?}"
        );
    }
    assert_plain(&answer);
    assert!(
        answer.stdout.contains(r"\u202e") && answer.stdout.contains(r"\u009b"),
        "{answer:?}"
    );
    let said: Value = serde_json::from_str(&answer.stdout).unwrap();
    let prompt = said["questions"][0]["prompt"].as_str().unwrap();
    assert_eq!(prompt, format!("Really {request}?"));
}

#[test]
fn who_decides_sees_what_cannot_be_seen() {
    let program = Program::new();
    let app = asking(&program);
    let asked = seen(&program, &["run", &app, UNSEEN]);
    assert_eq!(asked.code, Some(4), "{asked:?}");
    assert_plain(&asked);
    assert_revealed(&asked.stdout);
    let shown = seen(&program, &["tasks", "show", "last"]);
    assert_plain(&shown);
    assert_revealed(&shown.stdout);
    let listed = seen(&program, &["tasks", "list"]);
    assert_plain(&listed);
    // A row shows the beginning.
    let beginning = "pay<U+200B>pal<U+200D><U+200E><U+200F><U+2060>";
    assert!(listed.stdout.contains(beginning), "{listed:?}");
    let answered = seen(&program, &["tasks", "answer", "last", "approve"]);
    assert_plain(&answered);
    // What was agreed to is carried out as it was said.
    let resumed = seen(&program, &["resume", &app]);
    assert_plain(&resumed);
    assert_eq!(program.tasks().len(), 1);
}

#[test]
fn who_decides_about_a_call_sees_what_its_arguments_hide() {
    let program = Program::new();
    let nodes = json!({ "do": {
        "type": "tool", "tool": "faulty.change", "arguments": { "to": "{{ request }}" },
    } });
    let app = app(&program, &nodes, "Done.", "");
    let workflow = Path::new(&app).join("workflows/main.json");
    let mut written: Value = serde_json::from_slice(&std::fs::read(&workflow).unwrap()).unwrap();
    written["checkpoints"] = json!(["do"]);
    std::fs::write(&workflow, written.to_string()).unwrap();
    let asked = seen(&program, &["run", &app, UNSEEN]);
    assert_eq!(asked.code, Some(4), "{asked:?}");
    assert_plain(&asked);
    assert_revealed(&asked.stdout);
}

#[test]
fn who_decides_in_a_chat_sees_what_cannot_be_seen() {
    let program = Program::new();
    let nodes = json!({ "agree": {
        "type": "human", "prompt": format!("Really {UNSEEN}{HOSTILE}?"),
    } });
    let app = app(&program, &nodes, &format!("Told to {HOSTILE}."), "");
    let mut session = Session::start(program.command(&["chat", &app]));
    session.until("> ", 1);
    session.enter("go");
    session.until("/set FIELD=VALUE", 1);
    session.until("> ", 2);
    session.enter("/approve");
    session.until("Told to", 1);
    session.until("end.", 1);
    session.enter("/quit");
    let screen = session.end();
    assert_revealed(&screen);
    assert_eq!(acted_upon(&screen, EDITING), [], "{screen:?}");
}

#[test]
fn an_error_of_a_tool_server_is_shown_without_what_a_terminal_acts_upon() {
    let program = Program::new();
    let nodes = json!({ "do": { "type": "tool", "tool": "faulty.ask", "arguments": {} } });
    let app = app(&program, &nodes, "Done.", &format!("{HOSTILE}{UNSEEN}"));
    for arguments in [
        &["run", &app, "go"][..],
        &["-vvv", "run", &app, "go"],
        &["tasks", "list"],
        &["tasks", "show", "last"],
        &["tasks", "trace", "last"],
        &["check", &app, "--connect"],
    ] {
        let shown = seen(&program, arguments);
        assert_plain(&shown);
        let names = !matches!(arguments[..2], ["tasks", "list"]) && arguments[0] != "check";
        assert!(
            !names || shown.all().contains("ev<U+001B>]0;owned"),
            "{arguments:?} {shown:?}"
        );
    }
}

#[test]
fn a_servers_output_is_logged_without_control_characters() {
    let program = Program::new();
    let nodes = json!({ "do": { "type": "tool", "tool": "faulty.ask", "arguments": {} } });
    let words = format!("{HOSTILE}{UNSEEN}");
    let app = app(&program, &nodes, "Done.", &words);
    let logged = seen(&program, &["-vvv", "run", &app, "go"]);
    assert_plain(&logged);
    let line = |line: &&str| line.contains("DEBUG") && line.contains("<U+202E>desrever");
    let line = logged.stderr.lines().find(line);
    assert_revealed(line.unwrap_or_else(|| panic!("{logged:?}")));
}

#[test]
fn check_shows_a_hostile_folder_without_what_a_terminal_acts_upon() {
    let program = Program::new();
    let app = echo(&program);
    let folder = Path::new(&app);
    let key = json!(format!("{HOSTILE}{UNSEEN}"));
    let agent = format!(
        "name: {key}\nrole: R.\nsystem_prompt: P.\n{key}: 1\n# \u{202e} \u{2066}\ntols: []\n"
    );
    std::fs::write(
        folder.join(format!("agents/{}.yaml", HOSTILE.replace('/', ""))),
        agent,
    )
    .unwrap();
    std::fs::write(
        folder.join("agents/raw.yaml"),
        format!("name: \"\u{202e}a\" \u{2067}\nrolle: {HOSTILE}\n"),
    )
    .unwrap();
    for command in ["check", "run"] {
        let arguments = [command, &app, "go"];
        let arguments = if command == "run" {
            &arguments[..]
        } else {
            &arguments[..2]
        };
        let shown = seen(&program, arguments);
        assert_eq!(shown.code, Some(1), "{shown:?}");
        assert_plain(&shown);
        assert!(
            shown.stderr.contains("<U+202E>") && shown.stderr.contains("<U+200B>"),
            "{shown:?}"
        );
    }
    let found = seen(&program, &["--json", "check", &app]);
    assert_plain(&found);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert!(found["errors"].as_u64().unwrap() > 0, "{found}");
    let nowhere = seen(&program, &["check", &format!("no/{HOSTILE}")]);
    assert_plain(&nowhere);
}

#[test]
fn a_command_line_that_is_refused_is_shown_without_what_a_terminal_acts_upon() {
    let program = Program::new();
    let hostile = format!("--{HOSTILE}");
    for arguments in [
        &["run", "app", "go", &hostile][..],
        &["run", "app", "go", "--channel", HOSTILE],
        &["run", "app", "go", "--model", HOSTILE],
        &["tasks", "list", "--user", HOSTILE],
        &["schema", HOSTILE],
        &["tasks", "list", "--store", HOSTILE],
    ] {
        let shown = seen(&program, arguments);
        assert_plain(&shown);
        assert_ne!(shown.code, Some(0), "{shown:?}");
    }
    let mut help = program.command(&["run", "--help"]);
    help.env("CONVOKE_DATA", HOSTILE)
        .env("CONVOKE_MODEL", HOSTILE);
    let help = watch(help);
    assert_eq!(help.code, Some(0), "{help:?}");
    assert_plain(&help);
}

#[tokio::test(flavor = "multi_thread")]
async fn live_text_is_safe_wherever_it_was_cut() {
    let pieces = [
        "It is\u{1b}",
        "]0;owned\u{7} new",
        "\u{1b}[",
        "2J",
        "\u{9b}",
        "31m\u{202e}",
        " fine\r",
        "\nindeed\r",
        "back\u{8}",
    ];
    let events = pieces.iter().map(|piece| {
        let delta = json!({ "choices": [{ "index": 0, "delta": { "content": piece }, "finish_reason": null }] });
        format!("data: {delta}\n\n")
    });
    let stop = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let events = events.chain([format!("data: {stop}\n\n"), "data: [DONE]\n\n".to_owned()]);
    let model = ScriptedModel::start(vec![Reply::sse(events)])
        .await
        .unwrap();
    let program = Program::new();
    let chosen = format!("{}#scripted", model.endpoint());
    let question = "what do the stars say about luggage";
    let shown = seen(
        &program,
        &["run", &program.app(), question, "--model", &chosen],
    );
    assert_plain(&shown);
    assert_eq!(
        shown.stdout,
        "It is<U+001B>]0;owned<U+0007> new<U+001B>[2J<U+009B>31m<U+202E> fine\nindeed<U+000D>back<U+0008>\n",
        "{shown:?}"
    );
}

#[test]
fn colour_goes_only_where_it_is_looked_at_and_wanted() {
    let program = Program::new();
    let app = program.app();
    let colourful = |text: &str| text.contains("\u{1b}[");
    let arguments = ["-vv", "run", &app, "remind me to buy milk"];
    let shown = seen(&program, &arguments);
    assert!(colourful(&shown.stderr), "{shown:?}");
    let piped = program.run(&arguments);
    assert!(
        !colourful(&text(&piped.stderr)) && !piped.stderr.is_empty(),
        "{piped:?}"
    );
    for traced in [&["tasks", "trace", "last"][..], &arguments] {
        let mut command = program.command(traced);
        command.env("NO_COLOR", "1");
        let shown = watch(command).all();
        let coloured = shown.matches("\u{1b}[").count();
        let drawn = shown.matches("\u{1b}[2K").count();
        assert_eq!(coloured, drawn, "{shown:?}");
    }
    let mut forced = program.command(&arguments);
    let forced = forced.env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(colourful(&text(&forced.stderr)), "{forced:?}");
    let traced = seen(&program, &["tasks", "trace", "last"]);
    assert!(colourful(&traced.stdout), "{traced:?}");
}

#[test]
fn an_error_says_each_thing_once() {
    let program = Program::new();
    let app = program.app();
    let long = "x".repeat(2_001);
    let file = program.folder().join("file");
    std::fs::write(&file, "no store").unwrap();
    let under = file.join("store.db");
    for arguments in [
        &["run", &app, &long][..],
        &["run", &app, "hello", "--user", "42"],
        &["run", &app, "hello", "--store", file.to_str().unwrap()],
        &["run", &app, "hello", "--store", under.to_str().unwrap()],
    ] {
        for json in [false, true] {
            let arguments = [if json { &["--json"][..] } else { &[] }, arguments].concat();
            let output = program.run(&arguments);
            let said = text(if json { &output.stdout } else { &output.stderr });
            let (code, message) = if json {
                let said: Value = serde_json::from_str(&said).unwrap();
                let of = |field: &str| said["error"][field].as_str().unwrap().to_owned();
                (of("code"), of("message"))
            } else {
                // The app's words for the user may come first.
                let (_, said) = said.split_once("error[").unwrap();
                let (code, message) = said.trim_end().split_once("]: ").unwrap();
                (code.to_owned(), message.to_owned())
            };
            assert!(!message.contains(&code), "{code}: {message}");
            let parts: Vec<_> = message.split(": ").collect();
            let mut once = parts.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), parts.len(), "{message}");
        }
    }
}
