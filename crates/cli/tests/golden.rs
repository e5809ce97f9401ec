//! What people read, word for word: every view of the command line over the tasks of `golden/archive`, which never
//! change. `cargo insta review` takes a change over.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use program::{Program, text};

/// A request that went through a workflow: two tools at once, a person, an agent with a model.
const WHOLE: &str = "01a1ed46-1a22-75cc-89c8-6829749650f8";

/// One that failed.
const FAILED: &str = "01a1ed46-1af6-7052-9161-99d147f1dde1";

/// One that a person said no to.
const REJECTED: &str = "01a1ed46-1b32-7065-9383-e8a195cf56c3";

/// One that was begun at a point of the first, and waits for a person.
const FORKED: &str = "01a1ed46-1c13-7293-a847-dea0d3218777";

/// A store that holds the tasks.
fn archived() -> Program {
    let program = Program::new();
    let imported = program.run(&["tasks", "import", &archive(), "--take-over"]);
    assert!(imported.status.success(), "{imported:?}");
    program
}

fn archive() -> String {
    format!("{}/tests/golden/archive", env!("CARGO_MANIFEST_DIR"))
}

/// What a command prints, where, and how it ends.
fn view(program: &Program, arguments: &[&str]) -> String {
    let output = program.run(arguments);
    let shown = |bytes: &[u8]| {
        let folder = program.folder().to_str().unwrap();
        let text = text(bytes).replace(folder, "FOLDER");
        text.replace(&archive(), "ARCHIVE")
    };
    let command = arguments.join(" ").replace(&archive(), "ARCHIVE");
    let mut view = format!("$ convoke {command}\n{}", shown(&output.stdout));
    if !output.stderr.is_empty() {
        view.push_str("--- to standard error\n");
        view.push_str(&shown(&output.stderr));
    }
    let code = output.status.code().unwrap();
    format!("{view}--- exit code {code}")
}

macro_rules! views {
    ($($name:ident: $arguments:expr;)*) => {
        $(
            #[test]
            fn $name() {
                insta::assert_snapshot!(view(&archived(), &$arguments));
            }
        )*
    };
}

views! {
    tasks_are_listed: ["tasks", "list"];
    tasks_are_listed_as_json: ["--json", "tasks", "list", "--limit", "2"];
    tasks_of_a_state_are_listed: ["tasks", "list", "--state", "failed"];
    a_task_is_shown: ["tasks", "show", WHOLE];
    a_failed_task_is_shown: ["tasks", "show", FAILED];
    a_waiting_task_is_shown: ["tasks", "show", FORKED];
    a_task_is_shown_as_json: ["--json", "tasks", "show", REJECTED];
    a_point_of_a_task_is_shown: ["tasks", "show", WHOLE, "--at", "3"];
    a_point_that_is_not_there_is_refused: ["tasks", "show", WHOLE, "--at", "99"];
    the_history_of_a_task: ["tasks", "history", WHOLE];
    the_history_of_a_task_as_json: ["--json", "tasks", "history", WHOLE];
    the_trace_of_a_task: ["tasks", "trace", WHOLE];
    the_trace_of_a_task_as_json: ["--json", "tasks", "trace", WHOLE];
    the_trace_of_a_failed_task: ["tasks", "trace", FAILED];
    the_trace_of_a_fork: ["tasks", "trace", FORKED];
    a_replay: ["tasks", "replay", WHOLE];
    a_replay_as_json: ["--json", "tasks", "replay", WHOLE];
    a_difference: ["tasks", "diff", WHOLE, FORKED];
    a_difference_as_json: ["--json", "tasks", "diff", WHOLE, REJECTED];
    two_points_of_one_task: ["tasks", "diff", "01a1ed46-1a22@2", "01a1ed46-1a22@3"];
    no_difference: ["tasks", "diff", WHOLE, WHOLE];
    an_answer_to_a_task_that_asks_nothing: ["tasks", "answer", REJECTED, "approve"];
    a_second_answer: ["tasks", "answer", WHOLE, "approve", "--question", "01a1ed46-1a22-85cc-8aaa-a36cbf35972c"];
    an_answer_that_changes_nothing: ["tasks", "answer", FORKED, "modify"];
    a_fork_of_an_ended_task: ["tasks", "fork", WHOLE, "--at", "6"];
    a_fork_that_sets_nothing: ["tasks", "fork", WHOLE, "--at", "3", "--set", "limit"];
    a_cancellation_that_comes_too_late: ["tasks", "cancel", WHOLE];
    a_task_that_is_not_there: ["tasks", "trace", "ffffffff"];
    a_task_that_is_not_named_enough: ["tasks", "show", "01a1"];
    tasks_are_imported_once: ["tasks", "import", &archive(), "--take-over"];
    tasks_are_exported: ["tasks", "export", "again"];
    an_archive_that_is_not_there: ["tasks", "import", "nowhere"];
}

#[test]
fn unfinished_tasks_are_not_imported_without_the_flag() {
    let program = Program::new();
    insta::assert_snapshot!(view(&program, &["tasks", "import", &archive()]));
}

/// The archive was written by an older version, in whose form nothing is written any more.
#[test]
fn an_archive_of_an_older_version_comes_out_in_the_form_of_today_and_then_stays_the_same() {
    let program = archived();
    let moved = [
        &["tasks", "export", "first"][..],
        &["tasks", "import", "first", "--take-over", "--data", "other"],
        &["tasks", "export", "second", "--data", "other"],
    ];
    for arguments in moved {
        let output = program.run(arguments);
        assert!(output.status.success(), "{output:?}");
    }
    let same = std::process::Command::new("diff")
        .args(["-r", "first", "second"])
        .current_dir(program.folder())
        .output()
        .unwrap();
    assert!(same.status.success(), "{}", text(&same.stdout));
    for id in [WHOLE, FAILED, REJECTED, FORKED] {
        let here = program.run(&["--json", "tasks", "show", id]);
        let there = program.run(&["--json", "tasks", "show", id, "--data", "other"]);
        assert_eq!(text(&here.stdout), text(&there.stdout));
    }
}

#[test]
fn help_for_every_command() {
    let program = Program::new();
    let commands: [&[&str]; 30] = [
        &[],
        &["run"],
        &["chat"],
        &["resume"],
        &["serve"],
        &["check"],
        &["eval"],
        &["schema"],
        &["new"],
        &["dev"],
        &["doctor"],
        &["completions"],
        &["tools"],
        &["tools", "todo"],
        &["tools", "operations"],
        &["tasks"],
        &["tasks", "list"],
        &["tasks", "show"],
        &["tasks", "history"],
        &["tasks", "trace"],
        &["tasks", "fork"],
        &["tasks", "diff"],
        &["tasks", "replay"],
        &["tasks", "answer"],
        &["tasks", "cancel"],
        &["tasks", "prune"],
        &["tasks", "export"],
        &["tasks", "import"],
        &["tasks", "trust"],
        &["no-such-command"],
    ];
    let views = commands.map(|command| view(&program, &[command, &["--help"]].concat()));
    insta::assert_snapshot!(views.join("\n\n"));
}

#[test]
fn a_workflow_is_checked() {
    let program = Program::new();
    let app = program.folder().join("app");
    std::fs::create_dir_all(app.join("agents")).unwrap();
    std::fs::create_dir_all(app.join("workflows")).unwrap();
    let write = |file: &str, content: &str| std::fs::write(app.join(file), content).unwrap();
    write("convoke.yaml", "name: careful\n");
    let agent = "name: clerk\nrole: Writes.\nsystem_prompt: Write.\ntools: [builtin.calculate]\n";
    write("agents/clerk.yaml", agent);
    let workflow = "\
name: main
entry_point: write
nodes:
  write: { type: agent, agent: clerk }
  look:
    type: check
    criteria: [{ id: short, description: The text is short, expression: write.text | length < 99 }]
  send: { type: deliver, prompt: '{{ write.text }}' }
edges:
  - { from: write, to: look }
  - { from: look, to: { passed: send } }
";
    write("workflows/main.yaml", workflow);
    let sound = view(&program, &["check", "app"]);
    let around = workflow.replace("{ passed: send }", "{ passed: send, failed: send }");
    write("workflows/main.yaml", &around);
    let unchecked = view(&program, &["check", "app"]);
    let circle = format!("{workflow}  - {{ from: look, to: write, condition: writ.text }}\n");
    write("workflows/main.yaml", &circle);
    let circle = view(&program, &["check", "app"]);
    let unchecked_json = {
        write("workflows/main.yaml", &around);
        view(&program, &["--json", "check", "app"])
    };
    insta::assert_snapshot!([sound, unchecked, circle, unchecked_json].join("\n\n"));
}

#[test]
fn an_app_is_made_and_run() {
    let program = Program::new();
    let made = view(&program, &["new", "my-assistant"]);
    let again = view(&program, &["new", "my-assistant"]);
    let checked = view(&program, &["check", "my-assistant"]);
    let answered = view(&program, &["run", "my-assistant", "remind me to buy milk"]);
    let nothing = view(&program, &["resume", "my-assistant"]);
    let pruned = view(
        &program,
        &["tasks", "prune", "--app", "my-assistant", "--dry-run"],
    );
    let too_long = view(&program, &["run", "my-assistant", "", "--json"]);
    let tags = view(
        &program,
        &["run", "my-assistant", "hello", "--keep-days", "0"],
    );
    let nowhere = view(&program, &["run", "nowhere", "hello"]);
    insta::assert_snapshot!(
        [
            made, again, checked, answered, nothing, pruned, too_long, tags, nowhere
        ]
        .join("\n\n")
    );
}

#[test]
fn the_types_are_listed() {
    insta::assert_snapshot!(view(&Program::new(), &["schema"]));
}
