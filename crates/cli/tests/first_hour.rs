//! The first hour with an app of one's own: made from a starter, checked, mended while one talks with it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use program::{Program, text};
use serde_json::{Value, json};

const STARTERS: [&str; 4] = ["todo", "model", "approval", "python"];

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A new app from a starter.
fn made(program: &Program, starter: &str) -> String {
    let output = program.run(&["new", starter, "--starter", starter]);
    assert!(output.status.success(), "{output:?}");
    program.folder().join(starter).to_str().unwrap().to_owned()
}

/// The commands in backticks that the comments of an app's files name.
fn commands_in(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            commands_in(&path, found);
            continue;
        }
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        for line in fs::read_to_string(path).unwrap().lines() {
            let quoted = line.split('`').skip(1).step_by(2);
            let commands = quoted.filter(|words| words.starts_with("convoke "));
            found.extend(commands.map(str::to_owned));
        }
    }
}

#[test]
fn every_command_that_a_starter_names_works_in_its_folder() {
    for starter in STARTERS {
        let program = Program::new();
        let app = made(&program, starter);
        let mut commands = Vec::new();
        commands_in(Path::new(&app), &mut commands);
        if starter != "python" {
            assert!(commands.len() > 2, "{starter}: {commands:?}");
        }
        for command in commands {
            // What is wrong with the machine, such as a model that is not there, is no mistake of the starter.
            let may_fail = command.starts_with("convoke doctor");
            let output = std::process::Command::new("sh")
                .args(["-c", &command.replacen("convoke", "\"$CONVOKE\"", 1)])
                .env("CONVOKE", env!("CARGO_BIN_EXE_convoke"))
                .current_dir(&app)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let code = output.status.code().unwrap();
            let asks = starter == "approval" && command.starts_with("convoke run");
            let expected = if asks { 4 } else { 0 };
            assert!(
                code == expected || (may_fail && code == 1),
                "{starter}: {command}: {output:?}"
            );
        }
    }
}

#[test]
fn every_starter_is_checked_and_answers_the_request_that_it_is_shown_with() {
    let program = Program::new();
    let listed = program.run(&["--json", "new", "--list"]);
    let listed: Vec<Value> = text(&listed.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<_> = listed
        .iter()
        .map(|one| one["starter"].as_str().unwrap())
        .collect();
    assert_eq!(names, STARTERS);
    for starter in STARTERS {
        let program = Program::new();
        let output = program.run(&["new", "mine", "--starter", starter]);
        let told = text(&output.stderr);
        let request = told.split('"').nth(1).unwrap().to_owned();
        let checked = program.run(&["--json", "check", "--connect", "mine"]);
        assert!(checked.status.success(), "{starter}: {checked:?}");
        assert_eq!(json_of(&checked)["diagnostics"], json!([]));
        let evaluated = program.run(&["eval", "mine"]);
        assert!(evaluated.status.success(), "{starter}: {evaluated:?}");
        let ran = program.run(&["run", "mine", &request]);
        let code = ran.status.code().unwrap();
        assert_eq!(code, if starter == "approval" { 4 } else { 0 }, "{ran:?}");
        assert!(!ran.stdout.is_empty());
    }
}

#[test]
fn the_schemas_of_an_older_app_are_written_for_editors() {
    let program = Program::new();
    let app = program.copy_of("todo", &["agents", "config", "."]);
    let written = program.run(&["schema", "--into", &app]);
    assert!(written.status.success(), "{written:?}");
    let schema = Path::new(&app).join(".schemas/Agent.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    assert_eq!(schema["title"], "Agent");
    assert!(text(&written.stderr).contains("$schema=../.schemas/Agent.json"));
    let nowhere = program.run(&["schema", "--into", "nowhere"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(!program.folder().join("nowhere").exists());
}

/// An app whose tool server and model want secrets.
fn secretive(program: &Program) -> String {
    program.app_of(&[
        ("convoke.yaml", "name: shop\n"),
        (
            "agents/clerk.yaml",
            "name: clerk\nrole: Sells.\nsystem_prompt: Sell.\ntools: [desk.sell]\n\
             llm_config: { endpoint: '${MODEL_URL}', model: m, api_key: '${MODEL_KEY}' }\n",
        ),
        (
            "config/mcp_servers.yaml",
            "servers:\n  - name: desk\n    transport:\n      stdio:\n        command: sh\n        \
             args: [-c, 'echo key $KEY, place $PLACE >&2; exit 1']\n        \
             env: { KEY: '${DESK_KEY}', PLACE: '${DESK_PLACE:-here}' }\n",
        ),
    ])
}

#[test]
fn files_are_checked_without_secrets_and_servers_are_not() {
    let program = Program::new();
    let app = secretive(&program);
    let checked = program.run(&["--json", "check", &app]);
    assert!(checked.status.success(), "{checked:?}");
    let told = json_of(&checked);
    let codes: Vec<&Value> = (told["diagnostics"].as_array().unwrap().iter())
        .map(|one| &one["code"])
        .collect();
    assert_eq!(codes, ["app.environment_missing"; 3]);
    for command in [&["check", "--connect", &app][..], &["run", &app, "hello"]] {
        let refused = program.run(command);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let told = text(&refused.stderr);
        assert!(told.contains("error[app.environment_missing]"), "{told}");
    }
}

#[test]
fn variables_come_from_the_file_of_the_app_where_the_environment_does_not_set_them() {
    let program = Program::new();
    let app = secretive(&program);
    let file = Path::new(&app).join(".env");
    let written = "# keys\nMODEL_URL=http://127.0.0.1:9/v1\nexport MODEL_KEY='key of the model'\n\
                   DESK_KEY=hunter2hunter2\nDESK_PLACE=filed-place\n";
    fs::write(&file, written).unwrap();
    let checked = program
        .command(&["check", "--connect", &app])
        .env("DESK_PLACE", "real-place")
        .output()
        .unwrap();
    let told = text(&checked.stderr);
    assert!(
        told.contains("key ${DESK_KEY}, place ${DESK_PLACE}"),
        "{told}"
    );
    assert!(!told.contains("hunter2"), "{told}");
    let shown = program
        .command(&["check", "--connect", &app])
        .env("DESK_PLACE", "no")
        .output()
        .unwrap();
    let told = text(&shown.stderr);
    assert!(
        told.contains("place no"),
        "the environment counts first: {told}"
    );

    let exported = program.run(&["run", &app, "hello"]);
    assert!(exported.status.code().is_some());
    assert!(program.run(&["tasks", "export", "out"]).status.success());
    let found = std::process::Command::new("grep")
        .args(["-r", "hunter2", "out"])
        .current_dir(program.folder())
        .status()
        .unwrap();
    assert_eq!(found.code(), Some(1), "no secret is exported");

    fs::write(&file, "DESK_KEY=hunter2 hunter2\n").unwrap();
    let refused = program.run(&["check", &app]);
    assert_eq!(refused.status.code(), Some(1));
    let told = text(&refused.stderr);
    assert!(
        told.contains("error[app.env_file]") && told.contains(".env:1:1"),
        "{told}"
    );
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn a_change_applies_from_the_next_message_on_and_a_broken_one_does_not() {
    let program = Program::new();
    let app = made(&program, "todo");
    let agent = Path::new(&app).join("agents/assistant.yaml");
    let good = fs::read_to_string(&agent).unwrap();
    let mut child = program
        .command(&["dev", &app])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut says = |message: &str| {
        writeln!(input, "{message}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(
        says("remind me to buy milk"),
        "Done: “buy milk” is on your list.\n"
    );
    fs::write(&agent, good.replace("Done: ", "Noted at once: ")).unwrap();
    assert_eq!(
        says("remind me to buy tea"),
        "Noted at once: “buy tea” is on your list.\n"
    );
    fs::write(&agent, good.replace("sentences:", "sentencess:")).unwrap();
    assert_eq!(
        says("remind me to buy jam"),
        "Noted at once: “buy jam” is on your list.\n"
    );
    fs::write(&agent, good.replace("Done: ", "Mended: ")).unwrap();
    assert_eq!(
        says("remind me to buy ham"),
        "Mended: “buy ham” is on your list.\n"
    );
    drop(input);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let told = text(&ended.stderr);
    assert!(told.contains("unknown key `sentencess`"), "{told}");
    assert_eq!(
        told.matches("the app runs on as it was").count(),
        1,
        "{told}"
    );
    assert_eq!(told.matches("the app has changed").count(), 2, "{told}");
    assert_eq!(program.todo_titles().len(), 4);
}

#[test]
fn a_changed_tool_server_is_started_anew() {
    let program = Program::new();
    let app = made(&program, "python");
    let server = Path::new(&app).join("tools/server.py");
    let good = fs::read_to_string(&server).unwrap();
    let mut child = program
        .command(&["dev", &app])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut says = |message: &str| {
        writeln!(input, "{message}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    };
    says("put rice into the pantry");
    assert_eq!(says("put rice into the pantry"), "There is rice already.\n");
    fs::write(
        &server,
        good.replace("There is {name} already.", "No more {name}."),
    )
    .unwrap();
    assert_eq!(says("put rice into the pantry"), "No more rice.\n");
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_app_with_errors_is_waited_for() {
    let program = Program::new();
    let app = made(&program, "todo");
    let agent = Path::new(&app).join("agents/assistant.yaml");
    let good = fs::read_to_string(&agent).unwrap();
    fs::write(&agent, good.replace("sentences:", "sentencess:")).unwrap();
    let mut child = program
        .command(&["dev", &app])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut lines = told.by_ref().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("waiting for a change")));
    fs::write(&agent, good).unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "remind me to buy milk").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "Done: “buy milk” is on your list.\n");
}

#[test]
fn the_doctor_finds_nothing_where_everything_works() {
    let program = Program::new();
    let app = made(&program, "python");
    let healthy = program.run(&["--json", "doctor", &app]);
    assert!(healthy.status.success(), "{healthy:?}");
    let told = json_of(&healthy);
    assert_eq!(told["problems"], 0);
    let of = |area: &str| -> Vec<&Value> {
        let findings = told["findings"].as_array().unwrap();
        findings.iter().filter(|one| one["area"] == area).collect()
    };
    for area in ["program", "toolchain", "data", "store", "app", "server"] {
        assert!(!of(area).is_empty(), "{area}: {told}");
    }
    assert_eq!(of("server")[0]["message"], "pantry works, with 2 tools");
    assert!(program.run(&["doctor"]).status.success());
}

#[test]
fn the_doctor_says_of_each_problem_what_to_do() {
    let program = Program::new();
    let app = secretive(&program);
    let file = Path::new(&app).join(".env");
    fs::write(
        &file,
        "MODEL_URL=http://127.0.0.1:1/v1\nMODEL_KEY=k\nDESK_KEY=hunter2hunter2\n",
    )
    .unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir(program.folder().join(".convoke")).unwrap();
    fs::write(
        program.folder().join(".convoke/store.db"),
        "this is no database",
    )
    .unwrap();
    let sick = program.run(&["--json", "doctor", &app]);
    assert_eq!(sick.status.code(), Some(1), "{sick:?}");
    let told = json_of(&sick);
    for (area, says) in [
        ("store", "store.db"),
        (
            "server",
            "it exited with code 1: key ${DESK_KEY}, place here",
        ),
        ("model", "127.0.0.1:1 cannot be reached"),
        ("app", ".env can be read by others"),
    ] {
        let mut findings = told["findings"].as_array().unwrap().iter();
        let found = findings.any(|one| {
            let message = one["message"].as_str().unwrap();
            one["area"] == area && message.contains(says) && one["advice"].is_string()
        });
        assert!(found, "{area}: {told}");
    }
    let shown = program.run(&["doctor", &app]);
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("problem ") && shown.contains("-> "),
        "{shown}"
    );
    assert!(!shown.contains("hunter2"), "{shown}");

    fs::write(Path::new(&app).join("convoke.yaml"), "nam: shop\n").unwrap();
    let broken = program.run(&["doctor", &app]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(
        text(&broken.stdout).contains("convoke check --connect"),
        "{broken:?}"
    );
}

#[test]
fn shells_learn_every_command() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = program.run(&["completions", shell]);
        assert!(output.status.success(), "{output:?}");
        let script = text(&output.stdout);
        for command in ["run", "doctor", "completions", "starter"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let script = program.folder().join("convoke.bash");
    fs::write(&script, program.run(&["completions", "bash"]).stdout).unwrap();
    let sound = std::process::Command::new("bash")
        .arg("-n")
        .arg(script)
        .status();
    assert!(sound.unwrap().success());
}

#[test]
fn no_colour_goes_into_a_pipe() {
    let program = Program::new();
    let app = made(&program, "todo");
    let agent = Path::new(&app).join("agents/assistant.yaml");
    let plain = |arguments: &[&str]| {
        let output = program
            .command(arguments)
            .env("TERM", "xterm-256color")
            .env("COLORTERM", "truecolor")
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR_FORCE")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        for bytes in [&output.stdout, &output.stderr] {
            assert!(!bytes.contains(&0x1b), "{arguments:?}: {}", text(bytes));
        }
    };
    plain(&["run", &app, "remind me to buy milk", "-vvv"]);
    for arguments in [
        &["--help"][..],
        &["run", "--help"],
        &["run", "--no-such-flag"],
        &["new", "--list"],
        &["check", &app],
        &["eval", &app],
        &["doctor", &app],
        &["chat", &app],
        &["tasks", "list"],
        &["tasks", "trace", "last"],
        &["tasks", "history", "last"],
        &["completions", "zsh"],
    ] {
        plain(arguments);
    }
    let good = fs::read_to_string(&agent).unwrap();
    fs::write(&agent, good.replace("sentences:", "sentencess:")).unwrap();
    plain(&["check", &app]);
    plain(&["run", &app, "hello"]);
}
