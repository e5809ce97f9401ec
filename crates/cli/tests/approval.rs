//! What happens before an effect: conditions that decide whether it is made, and people who approve it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod program;

use program::{Program, text};
use serde_json::Value;

const SERVER: &str = "servers:\n  - name: todo\n    transport:\n      stdio: {command: convoke, args: [tools, todo, \
                      --db, '${CONVOKE_DATA:-.convoke}/todo.db']}\n    inject: {user_id: user_id}\n    \
                      honours_idempotency_key: true\n";

const AGENT: &str = "name: clerk\nrole: Keeps a list.\nsystem_prompt: Help.\ntools: [todo.add_task, todo.list_tasks, \
                     todo.delete_task]\nskills:\n  - name: note\n    description: \
                     Note something.\n    examples: [note milk, note bread]\n    sentences: ['note {what} \
                     [(for|by) {who}]']\n    slots: {what: {}, who: {}}\n";

/// An app with the to-do server and this main workflow.
fn app_with(program: &Program, workflow: &str) -> String {
    program.app_of(&[
        ("convoke.yaml", "name: clerk\n"),
        ("config/mcp_servers.yaml", SERVER),
        ("agents/clerk.yaml", AGENT),
        ("workflows/main.yaml", workflow),
    ])
}

/// A workflow that adds a task where the condition does not send it to a person.
fn asking_when(condition: &str) -> String {
    format!(
        "name: main\nentry_point: who\nnodes:\n  who: {{type: route}}\n  ask: {{type: human, prompt: 'Add it?'}}\n  \
         add: {{type: tool, tool: todo.add_task, arguments: {{title: '{{{{ request }}}}'}}}}\n  \
         stop: {{type: compose, prompt: Stopped.}}\n\
         edges:\n  - {{from: who, to: ask, condition: \"{condition}\"}}\n  \
         - {{from: who, to: add, condition: \"not ({condition})\"}}\n  \
         - {{from: ask, to: {{approve: add, otherwise: stop}}}}\nanswer: '{{{{ stop or (\"Added \" ~ add.title ~ \".\") }}}}'\n"
    )
}

fn json(program: &Program, arguments: &[&str]) -> Value {
    let output = program.run(&[&["--json"][..], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn a_condition_over_what_is_not_there_stops_the_effect() {
    for condition in [
        "targets[0].parameters.who == 'Eve'",
        "who.targets[0].parametres.who == 'Eve'",
        "who.targets[0].parameters.who",
        "who.targets[0].parameters.what > 100",
    ] {
        let program = Program::new();
        let app = app_with(&program, &asking_when(condition));
        let ended = json(&program, &["run", &app, "note milk"]);
        assert_eq!(ended["state"], "failed", "{condition}: {ended}");
        let cause = ended["error"].as_str().unwrap();
        assert!(cause.starts_with("workflow.condition: "), "{cause}");
        assert!(
            !program.folder().join(".convoke/todo.db").exists() || program.todo_titles().is_empty()
        );
    }
}

#[test]
fn a_condition_sees_the_parameters_of_the_targets() {
    let program = Program::new();
    let condition = "who.targets[0].parameters.who is defined";
    let app = app_with(&program, &asking_when(condition));
    let ended = json(&program, &["run", &app, "note milk for Eve"]);
    assert_eq!(ended["state"], "input-required", "{ended}");
    assert_eq!(ended["questions"][0]["prompt"], "Add it?");
    let ended = json(&program, &["run", &app, "note bread"]);
    assert_eq!(ended["answer"]["text"], "Added note bread.", "{ended}");
    assert_eq!(program.todo_titles(), ["note bread"]);
}

#[test]
fn a_reply_with_a_misspelt_field_has_no_hole_and_what_was_done_is_said() {
    let program = Program::new();
    let skill = format!(
        "{AGENT}    action:\n      tool: todo.add_task\n      arguments: {{title: '{{{{ what }}}}'}}\n      \
         reply: 'I noted \"{{{{ result.titel }}}}\".'\n"
    );
    let app = program.app_of(&[
        ("convoke.yaml", "name: clerk\n"),
        ("config/mcp_servers.yaml", SERVER),
        ("agents/clerk.yaml", &skill),
    ]);
    let output = program.run(&["run", &app, "note milk"]);
    let reply = text(&output.stdout);
    assert!(!reply.contains("\"\""), "{reply}");
    assert!(reply.contains("todo.add_task"), "{reply}");
    assert_eq!(program.todo_titles(), ["milk"]);
    let task = json(&program, &["tasks", "show", "last"]);
    assert!(
        task.to_string().contains("`result.titel` is undefined"),
        "{task}"
    );
}

#[test]
fn conditions_stand_in_trace_and_history_with_the_value_they_had() {
    let program = Program::new();
    let condition = "who.targets[0].parameters.who is defined";
    let app = app_with(&program, &asking_when(condition));
    json(&program, &["run", &app, "note bread"]);
    let trace = json(&program, &["tasks", "trace", "last"]);
    let steps = trace["steps"].as_array().unwrap();
    let conditions: Vec<_> = steps
        .iter()
        .filter(|step| step["action"] == "condition")
        .map(|step| {
            (
                step["step_name"].as_str().unwrap(),
                &step["output_data"]["value"],
            )
        })
        .collect();
    let expected = [
        ("who → ask", &Value::Bool(false)),
        ("who → add", &Value::Bool(true)),
    ];
    assert_eq!(conditions, expected, "{trace}");
    let history = text(&program.run(&["tasks", "history", "last"]).stdout);
    assert!(history.contains("who → ask: false"), "{history}");
    assert!(history.contains("who → add: true"), "{history}");
}

#[test]
fn a_condition_that_fails_stands_in_the_trace_with_its_cause() {
    let program = Program::new();
    let app = app_with(&program, &asking_when("who.targets[0].parametres.who"));
    json(&program, &["run", &app, "note bread"]);
    let trace = json(&program, &["tasks", "trace", "last"]);
    let steps = trace["steps"].as_array().unwrap();
    let failed = steps
        .iter()
        .find(|step| step["action"] == "condition")
        .unwrap();
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("parametres"), "{error}");
}

/// Says something that the app asks a person about.
fn asks(program: &Program, app: &str, message: &str, goes_on: bool) {
    let goes_on: &[&str] = if goes_on { &["--continue"] } else { &[] };
    let ended = json(program, &[&["run", app, message], goes_on].concat());
    assert_eq!(ended["state"], "input-required", "{ended}");
}

const WHERE_SOMEBODY_IS_NAMED: &str = "who.targets[0].parameters.who is defined";

#[test]
fn a_plain_yes_or_no_answers_the_open_question_of_the_conversation() {
    let program = Program::new();
    let app = app_with(&program, &asking_when(WHERE_SOMEBODY_IS_NAMED));
    asks(&program, &app, "note milk for Eve", false);
    let ended = json(&program, &["run", &app, "--continue", "Yes!"]);
    assert_eq!(
        ended["answer"]["text"], "Added note milk for Eve.",
        "{ended}"
    );
    asks(&program, &app, "note bread for Eve", true);
    let ended = json(&program, &["run", &app, "--continue", "no"]);
    assert_eq!(ended["answer"]["text"], "Stopped.", "{ended}");
    assert_eq!(program.todo_titles(), ["note milk for Eve"]);
    assert_eq!(program.tasks().len(), 2, "an answer is no task of its own");
}

#[test]
fn what_says_more_than_yes_answers_no_question_and_neither_does_another_conversation() {
    let program = Program::new();
    let app = app_with(&program, &asking_when(WHERE_SOMEBODY_IS_NAMED));
    asks(&program, &app, "note milk for Eve", false);
    for arguments in [
        &["run", &app, "--continue", "note jam"][..],
        &["run", &app, "yes"],
        &[
            "run",
            &app,
            "--user",
            "01a1ed25-7a8f-7664-afa8-bf21bb4af5f4",
            "yes",
        ],
    ] {
        json(&program, arguments);
        assert!(
            !program
                .todo_titles()
                .contains(&"note milk for Eve".to_owned())
        );
    }
    let waiting = json(&program, &["tasks", "list", "--state", "input-required"]);
    assert!(waiting["id"].is_string(), "{waiting}");
}

#[test]
fn yes_to_several_questions_is_refused_and_answers_none() {
    let program = Program::new();
    let app = app_with(&program, &asking_when(WHERE_SOMEBODY_IS_NAMED));
    asks(&program, &app, "note milk for Eve", false);
    asks(&program, &app, "note bread for Eve", true);
    let output = program.run(&["run", &app, "--continue", "yes"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).contains("question.several"),
        "{output:?}"
    );
    let states: Vec<_> = program
        .tasks()
        .into_values()
        .map(|task| task["status"].clone())
        .collect();
    assert_eq!(states, ["input-required", "input-required"]);
}

#[test]
fn a_chat_takes_yes_for_the_answer_to_what_it_has_asked() {
    let program = Program::new();
    let app = app_with(&program, &asking_when(WHERE_SOMEBODY_IS_NAMED));
    let mut child = program.spawn(&["chat", &app]);
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"note milk for Eve\nyes\n").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stdout);
    assert!(
        said.contains("Add it?") && said.contains("Added note milk for Eve."),
        "{said}"
    );
}

#[test]
fn the_last_task_to_answer_is_the_newest_that_asks() {
    let program = Program::new();
    let app = app_with(&program, &asking_when(WHERE_SOMEBODY_IS_NAMED));
    asks(&program, &app, "note milk for Eve", false);
    json(&program, &["run", &app, "note bread"]);
    let noted = program.run(&["tasks", "answer", "last", "approve"]);
    assert!(noted.status.success(), "{noted:?}");
    program.run(&["resume", &app]);
    let mut titles = program.todo_titles();
    titles.sort();
    assert_eq!(titles, ["note bread", "note milk for Eve"]);
    let noted = program.run(&["tasks", "answer", "last", "approve"]);
    assert_eq!(noted.status.code(), Some(2), "{noted:?}");
    assert!(text(&noted.stderr).contains("question.none"), "{noted:?}");
}

/// An app whose only skill needs approval, with these settings of its tool and these messages.
fn approving(program: &Program, settings: &str, messages: &str) -> String {
    let server = format!("{SERVER}    tools: {{add_task: {{approval: required{settings}}}}}\n");
    let skill = format!(
        "{AGENT}    action:\n      tool: todo.add_task\n      arguments: {{title: '{{{{ what }}}}'}}\n      \
         reply: 'I noted \"{{{{ result.title }}}}\".'\n"
    );
    program.app_of(&[
        ("convoke.yaml", &format!("name: clerk\n{messages}")),
        ("config/mcp_servers.yaml", &server),
        ("agents/clerk.yaml", &skill),
    ])
}

#[test]
fn a_person_is_asked_in_a_sentence() {
    let of_app = "messages: {approval: 'Shall I write {{ arguments.title }} down?'}\n";
    for (settings, messages, question) in [
        ("", "", "May I call todo.add_task with title “milk”?"),
        ("", of_app, "Shall I write milk down?"),
        (
            ", approval_question: 'Add {{ arguments.title }}?'",
            of_app,
            "Add milk?",
        ),
        (
            ", approval_question: 'Add {{ arguments.titel }}?'",
            of_app,
            "Shall I write milk down?",
        ),
    ] {
        let program = Program::new();
        let app = approving(&program, settings, messages);
        let ended = json(&program, &["run", &app, "note milk"]);
        assert_eq!(ended["questions"][0]["prompt"], question, "{ended}");
    }
}

const ANN: &str = "01a1ed25-7a8f-7664-afa8-bf21bb4af5f4";
const BOB: &str = "01a1ed25-7a8f-7664-afa8-bf21bb4af5f5";

/// Tries to approve the newest question, in a role.
fn approve(program: &Program, user: &str, role: &str) -> (Option<i32>, String) {
    let answer = [
        "tasks", "answer", "last", "approve", "--user", user, "--role", role,
    ];
    let output = program.run(&answer);
    (output.status.code(), text(&output.stderr))
}

#[test]
fn only_those_may_answer_whom_the_app_names() {
    let of_app = "approvers: {roles: [operator], requester: false}\n";
    let of_tool = ", approvers: {roles: [operator], requester: false}";
    for (settings, messages) in [
        ("", of_app),
        (of_tool, ""),
        (of_tool, "approvers: {roles: [user]}\n"),
    ] {
        let program = Program::new();
        let app = approving(&program, settings, messages);
        let asked = json(&program, &["run", &app, "note milk", "--user", ANN]);
        assert_eq!(asked["state"], "input-required", "{asked}");
        for (user, role) in [(ANN, "user"), (ANN, "operator")] {
            let (code, error) = approve(&program, user, role);
            assert_eq!(code, Some(2), "{error}");
            assert!(error.contains("answer.not_allowed"), "{error}");
        }
        let said = program.run(&["run", &app, "--user", ANN, "--continue", "yes"]);
        assert!(
            text(&said.stderr).contains("answer.not_allowed"),
            "{said:?}"
        );
        let (_, error) = approve(&program, BOB, "user");
        assert!(
            error.contains("task.not_found") || error.contains("engine."),
            "{error}"
        );
        assert_eq!(approve(&program, BOB, "operator").0, Some(0));
        program.run(&["resume", &app]);
        assert_eq!(program.todo_titles(), ["milk"]);
        let trace = json(&program, &["tasks", "trace", "last"]);
        let steps = trace["steps"].as_array().unwrap();
        let answered = steps
            .iter()
            .find(|step| step["action"] == "person")
            .unwrap();
        assert_eq!(answered["input_data"]["by"]["user"], BOB);
        assert_eq!(answered["input_data"]["by"]["role"], "operator");
    }
}

#[test]
fn a_node_names_its_own_approvers() {
    let program = Program::new();
    let workflow = asking_when(WHERE_SOMEBODY_IS_NAMED);
    let workflow = workflow.replace(
        "prompt: 'Add it?'",
        "prompt: 'Add it?', approvers: {roles: [admin]}",
    );
    let app = app_with(&program, &workflow);
    json(&program, &["run", &app, "note milk for Eve", "--user", ANN]);
    assert!(
        approve(&program, BOB, "operator")
            .1
            .contains("answer.not_allowed")
    );
    assert_eq!(approve(&program, BOB, "admin").0, Some(0));
}

#[test]
fn an_app_in_which_nobody_may_answer_is_refused() {
    let program = Program::new();
    let app = approving(
        &program,
        "",
        "approvers: {roles: [user], requester: false}\n",
    );
    let output = program.run(&["check", &app]);
    assert!(
        text(&output.stdout).contains("approvers.nobody")
            || text(&output.stderr).contains("approvers.nobody"),
        "{output:?}"
    );
}

#[test]
fn a_field_that_no_result_has_is_found_where_the_tool_says_so() {
    let listing = |shows: &str, refers: &str| {
        format!(
            "name: clerk\nrole: Keeps a list.\nsystem_prompt: Help.\ntools: [todo.add_task, todo.list_tasks, \
                     todo.delete_task]\nskills:\n  - name: show\n    description: Show it.\n    \
             sentences: [show it]\n    action: {{tool: todo.list_tasks, reply: Here., shows: {shows}}}\n  - name: drop\n    \
             description: Drop one.\n    sentences: ['drop {{it}}']\n    slots: {{it: {{refers_to: {refers}}}}}\n    action: \
             {{tool: todo.delete_task, arguments: {{task_id: '{{{{ it.id }}}}'}}, reply: Gone.}}\n"
        )
    };
    let good = "{items: tasks, id: id, label: title}";
    let found =
        "{tool: todo.list_tasks, items: tasks, id: id, label: title, none: None., many: Which?}";
    let check = |shows: &str, refers: &str| {
        let program = Program::new();
        let app = program.app_of(&[
            ("convoke.yaml", "name: clerk\n"),
            ("config/mcp_servers.yaml", SERVER),
            ("agents/clerk.yaml", &listing(shows, refers)),
        ]);
        json(&program, &["check", &app, "--connect"])
    };
    let codes = |report: &Value| -> Vec<String> {
        let found = report["diagnostics"].as_array().unwrap().iter();
        found
            .filter(|problem| problem["severity"] == "error")
            .map(|problem| problem["code"].as_str().unwrap().to_owned())
            .collect()
    };
    let report = check(good, found);
    assert_eq!(codes(&report), [""; 0], "{report}");
    for (shows, refers) in [
        ("{items: taks, id: id, label: title}", found.to_owned()),
        ("{items: tasks, id: di, label: title}", found.to_owned()),
        (good, found.replace("label: title", "label: titel")),
        (good, found.replace("items: tasks", "items: task")),
    ] {
        let report = check(shows, &refers);
        assert_eq!(codes(&report), ["connect.result_unknown"], "{report}");
    }
}

#[test]
fn every_part_of_a_message_is_a_target_with_its_parameters() {
    let program = Program::new();
    let named = "who.targets | selectattr('parameters.who', 'defined') | list | length > 0";
    let workflow = format!(
        "name: main\nentry_point: who\nnodes:\n  who: {{type: route}}\n  ask: {{type: human, prompt: 'Do it?'}}\n  \
         them: {{type: dispatch, of: who}}\n  all: {{type: aggregate, of: them}}\nedges:\n  \
         - {{from: who, to: ask, condition: \"{named}\"}}\n  - {{from: who, to: them, condition: \"not ({named})\"}}\n  \
         - {{from: ask, to: {{approve: them}}}}\n  - {{from: them, to: all}}\nanswer: '{{{{ all.text }}}}'\n"
    );
    let skill = format!(
        "{AGENT}    action:\n      tool: todo.add_task\n      arguments: {{title: '{{{{ what }}}}'}}\n      \
         reply: 'I noted {{{{ result.title }}}}.'\n"
    );
    let app = app_with(&program, &workflow);
    std::fs::write(std::path::Path::new(&app).join("agents/clerk.yaml"), skill).unwrap();
    let config = std::path::Path::new(&app).join("convoke.yaml");
    std::fs::write(config, "name: clerk\ndecide: {several: eager}\n").unwrap();
    let ended = json(&program, &["run", &app, "note milk and note bread for Eve"]);
    assert_eq!(ended["state"], "input-required", "{ended}");
    let ended = json(&program, &["run", &app, "note tea and note jam"]);
    assert_eq!(
        ended["answer"]["text"], "I noted tea. I noted jam.",
        "{ended}"
    );
    let mut titles = program.todo_titles();
    titles.sort();
    assert_eq!(titles, ["jam", "tea"]);
}

#[test]
fn a_condition_over_a_node_that_did_not_run_decides_nothing() {
    for condition in [
        "extra",
        "not extra",
        "extra.tasks",
        "extra and true",
        "extra is mapping",
    ] {
        let program = Program::new();
        let workflow = asking_when(condition)
            .replace(
                "  stop:",
                "  extra: {type: tool, tool: todo.list_tasks}\n  stop:",
            )
            .replace(
                "edges:\n",
                "edges:\n  - {from: who, to: extra, condition: '1 == 2'}\n",
            );
        let app = app_with(&program, &workflow);
        let ended = json(&program, &["run", &app, "note milk"]);
        assert_eq!(ended["state"], "failed", "{condition}: {ended}");
        assert!(
            ended["error"]
                .as_str()
                .unwrap()
                .starts_with("workflow.condition: "),
            "{ended}"
        );
    }
    let program = Program::new();
    let workflow = asking_when("extra is defined")
        .replace(
            "  stop:",
            "  extra: {type: tool, tool: todo.list_tasks}\n  stop:",
        )
        .replace(
            "edges:\n",
            "edges:\n  - {from: who, to: extra, condition: '1 == 2'}\n",
        );
    let app = app_with(&program, &workflow);
    let ended = json(&program, &["run", &app, "note milk"]);
    assert_eq!(
        ended["answer"]["text"], "Added note milk.",
        "what is asked for may be missing: {ended}"
    );
}

#[test]
fn a_condition_node_stands_in_trace_and_history_with_its_value() {
    let program = Program::new();
    let workflow = "name: main\nentry_point: look\nnodes:\n  look: {type: tool, tool: todo.list_tasks}\n  \
        many: {type: condition, expression: 'look.tasks | length > 3'}\n  \
        add: {type: tool, tool: todo.add_task, arguments: {title: '{{ request }}'}}\n  stop: {type: compose, prompt: Full.}\n\
        edges:\n  - {from: look, to: many}\n  - {from: many, to: {yes: stop, no: add}}\nanswer: \"{{ stop or 'Added.' }}\"\n";
    let app = app_with(&program, workflow);
    std::fs::write(
        std::path::Path::new(&app).join("agents/clerk.yaml"),
        "name: clerk\nrole: Keeps a list.\nsystem_prompt: Help.\ntools: [todo.add_task]\n",
    )
    .unwrap();
    let ended = json(&program, &["run", &app, "buy milk"]);
    assert_eq!(ended["answer"]["text"], "Added.", "{ended}");
    let trace = json(&program, &["tasks", "trace", "last"]);
    let steps = trace["steps"].as_array().unwrap();
    let many = steps
        .iter()
        .find(|step| step["step_name"] == "many")
        .unwrap();
    assert_eq!(
        (&many["action"], &many["output_data"]["value"]),
        (&"condition".into(), &false.into()),
        "{trace}"
    );
    let history = text(&program.run(&["tasks", "history", "last"]).stdout);
    assert!(history.contains("many: false"), "{history}");
}

#[test]
fn short_words_answer_a_question_too() {
    for (word, added) in [
        ("y", true),
        ("OK", true),
        ("approve", true),
        ("n", false),
        ("No, thanks.", false),
        ("nope", false),
        ("don’t", false),
    ] {
        let program = Program::new();
        let app = app_with(&program, &asking_when(WHERE_SOMEBODY_IS_NAMED));
        asks(&program, &app, "note milk for Eve", false);
        json(&program, &["run", &app, "--continue", word]);
        let database = program.folder().join(".convoke/todo.db");
        let titles = if database.exists() {
            program.todo_titles()
        } else {
            Vec::new()
        };
        assert_eq!(!titles.is_empty(), added, "{word}");
        assert_eq!(program.tasks().len(), 1, "{word} is an answer, no request");
    }
}

#[test]
fn a_confirmation_is_no_approval_of_who_may_not_approve() {
    for (approvers, done) in [
        ("", true),
        (", approvers: {roles: [operator], requester: false}", false),
        (", approvers: {roles: [operator]}", false),
    ] {
        let program = Program::new();
        let app = approving(&program, approvers, "");
        let agent = std::path::Path::new(&app).join("agents/clerk.yaml");
        let written = std::fs::read_to_string(&agent).unwrap();
        let confirming = written.replace(
            "      reply:",
            "      confirm: 'Note {{ what }}?'\n      reply:",
        );
        assert_ne!(written, confirming);
        std::fs::write(&agent, confirming).unwrap();
        let asked = json(&program, &["run", &app, "note milk"]);
        assert_eq!(asked["answer"]["text"], "Note milk?", "{asked}");
        let ended = json(&program, &["run", &app, "--continue", "yes"]);
        let state = if done { "completed" } else { "input-required" };
        assert_eq!(ended["state"], state, "{approvers}: {ended}");
    }
}

/// What a refused answer says, and that nothing was changed by it.
fn refused(program: &Program, answer: &[&str]) -> String {
    let noted = program.run(&[&["tasks", "answer", "last"][..], answer].concat());
    assert_eq!(noted.status.code(), Some(2), "{answer:?}: {noted:?}");
    let waiting = json(program, &["tasks", "show", "last"]);
    assert_eq!(waiting["task"]["status"], "input-required", "{answer:?}");
    text(&noted.stderr)
}

#[test]
fn a_change_with_an_unknown_or_ill_typed_field_is_refused_and_approves_nothing() {
    let program = Program::new();
    let workflow = "name: main\nentry_point: ask\nstate:\n  title: {schema: {type: string, maxLength: 10}}\n  note: set\n\
                    nodes:\n  ask: {type: human, prompt: 'Add it?'}\n  \
                    add: {type: tool, tool: todo.add_task, arguments: {title: '{{ title or request }}'}}\n\
                    edges:\n  - {from: ask, to: {approve: add, modify: add}}\nanswer: '{{ add.title }}'\n";
    let server = program.app_of(&[
        ("convoke.yaml", "name: clerk\n"),
        ("config/mcp_servers.yaml", SERVER),
        (
            "agents/clerk.yaml",
            "name: clerk\nrole: Notes.\nsystem_prompt: Note.\n",
        ),
        ("workflows/main.yaml", workflow),
    ]);
    json(&program, &["run", &server, "milk"]);
    for (set, code) in [
        ("titel=jam", "answer.field_unknown"),
        ("request=jam", "answer.field_unknown"),
        ("routing_key=approve", "answer.field_unknown"),
        ("title=7", "answer.field_type"),
        ("title=a title that is too long", "answer.field_type"),
    ] {
        let error = refused(&program, &["modify", "--set", set]);
        assert!(error.contains(code), "{set}: {error}");
        program.run(&["resume", &server]);
        assert!(
            !program.folder().join(".convoke/todo.db").exists() || program.todo_titles().is_empty(),
            "{set}"
        );
    }
    let both = ["modify", "--set", "title=jam", "--set", "nope=1"];
    assert!(refused(&program, &both).contains("answer.field_unknown"));
    let noted = program.run(&["tasks", "answer", "last", "modify", "--set", "title=jam"]);
    assert!(noted.status.success(), "{noted:?}");
    program.run(&["resume", &server]);
    assert_eq!(program.todo_titles(), ["jam"]);
}

#[test]
fn changed_arguments_are_checked_against_the_schema_of_the_tool() {
    let program = Program::new();
    let app = approving(&program, "", "");
    json(&program, &["run", &app, "note milk"]);
    for (answer, code) in [
        (["--set", "titel=jam"], "answer.argument_unknown"),
        (["--set", "user_id=me"], "answer.argument_unknown"),
        (["--set", "title=7"], "answer.argument_type"),
        (
            ["--message", r#"{"titel": "jam"}"#],
            "answer.argument_unknown",
        ),
        (["--message", r#"{"title": 7}"#], "answer.argument_type"),
        (["--message", "{}"], "answer.argument_type"),
    ] {
        let answer = [&["modify"][..], &answer].concat();
        let error = refused(&program, &answer);
        assert!(error.contains(code), "{answer:?}: {error}");
    }
    let noted = program.run(&["tasks", "answer", "last", "modify", "--set", "title=jam"]);
    assert!(noted.status.success(), "{noted:?}");
    program.run(&["resume", &app]);
    assert_eq!(program.todo_titles(), ["jam"]);
}

#[test]
fn a_fork_with_an_unknown_field_is_refused() {
    let program = Program::new();
    let app = app_with(&program, &asking_when(WHERE_SOMEBODY_IS_NAMED));
    let asked = json(&program, &["run", &app, "note milk for Eve"]);
    let task = asked["task"].as_str().unwrap();
    let show = json(&program, &["tasks", "show", task]);
    let at = show["task"]["seq"].to_string();
    let forked = program.run(&["tasks", "fork", task, "--at", &at, "--set", "whoo=Ann"]);
    assert!(!forked.status.success(), "{forked:?}");
    assert!(text(&forked.stderr).contains("whoo"), "{forked:?}");
}
