//! Every diagnostic with its exact file, line, column and code.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use support::{app, app_with_environment, found};

#[test]
fn the_base_app_of_these_tests_is_clean() {
    assert_eq!(found(&[]), [""; 0]);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    assert_eq!(
        found(&[("convoke.yaml", "")]),
        ["convoke.yaml app.file_empty"]
    );
    assert_eq!(
        found(&[("convoke.yaml", "# nothing\n")]),
        ["convoke.yaml app.file_empty"]
    );
    let folder = app(&[]);
    std::fs::write(folder.path().join("agents/todo.yaml"), [0x6e, 0xff, 0xfe]).unwrap();
    let problems = support::problems_in(folder.path());
    assert_eq!(problems[0], "agents/todo.yaml:1:2 app.file_not_text");
    std::fs::remove_file(folder.path().join("convoke.yaml")).unwrap();
    std::fs::create_dir(folder.path().join("convoke.yaml")).unwrap();
    assert!(support::problems_in(folder.path()).contains(&"convoke.yaml app.file_missing".into()));
}

#[test]
fn a_folder_without_an_app_is_rejected() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(
        support::problems_in(place.path()),
        ["convoke.yaml app.file_missing"]
    );
    let gone = support::problems_in(&place.path().join("gone"));
    assert_eq!(gone, [". app.folder_unreadable"]);
}

#[test]
fn syntax_errors_and_duplicate_keys_are_reported_at_their_position() {
    let text = "name: todo\ndescription: 'unfinished\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        ["convoke.yaml:2:14 app.syntax"]
    );
    let text = "name: todo\nlimits:\n  task_seconds: 1\n  task_seconds: 2\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        ["convoke.yaml:4:3 app.duplicate_key"]
    );
    let text = "name: todo\n---\nname: other\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        ["convoke.yaml:2:1 app.several_documents"]
    );
    let text = "name: todo\ndecide:\n  clarify: {{ candidates }}\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        ["convoke.yaml:3:13 app.key_not_text"]
    );
    let text = "name: !shout todo\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        ["convoke.yaml:1:14 app.tag_unknown"]
    );
}

#[test]
fn json_is_read_like_yaml() {
    let text = "{\n  \"name\": \"todo\",\n  \"limts\": {}\n}\n";
    let folder = app(&[("convoke.json", text)]);
    std::fs::remove_file(folder.path().join("convoke.yaml")).unwrap();
    assert_eq!(
        support::problems_in(folder.path()),
        ["convoke.json:3:3 app.unknown_key"]
    );
}

#[test]
fn unknown_missing_and_mistyped_keys_are_reported_at_their_position() {
    let text =
        "name: todo\nlimts: {}\nlimits:\n  task_seconds: soon\n  tool_second: 1\ndecide: []\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        [
            "convoke.yaml:2:1 app.unknown_key",
            "convoke.yaml:4:17 app.wrong_type",
            "convoke.yaml:5:3 app.unknown_key",
            "convoke.yaml:6:1 app.wrong_type",
        ]
    );
    assert_eq!(
        found(&[("convoke.yaml", "description: x\n")]),
        ["convoke.yaml:1:1 app.missing_key"]
    );
    let text = "servers:\n  - name: todo\n    transport:\n      stdio: {args: []}\n";
    assert_eq!(
        found(&[("config/mcp_servers.yaml", text)]),
        ["config/mcp_servers.yaml:4:7 app.missing_key"]
    );
}

#[test]
fn a_misspelt_required_key_is_one_error_and_not_two() {
    assert_eq!(
        found(&[("convoke.yaml", "nme: todo\n")]),
        ["convoke.yaml:1:1 app.unknown_key"]
    );
}

#[test]
fn an_unknown_value_is_reported_at_its_position() {
    let text = "servers:\n  - name: todo\n    transport:\n      stdoi: {command: x}\n    inject:\n      \
                user_id: user\n    tools:\n      add_task: {approval: always}\n  - name: other\n    \
                transport: stdio\n  - name: third\n    transport:\n      sse: {url: http://x}\n      \
                http: {url: http://x}\n";
    assert_eq!(
        found(&[("config/mcp_servers.yaml", text)]),
        [
            "config/mcp_servers.yaml:4:7 app.unknown_key",
            "config/mcp_servers.yaml:6:16 app.unknown_value",
            "config/mcp_servers.yaml:8:28 app.unknown_value",
            "config/mcp_servers.yaml:10:16 app.unknown_value",
            "config/mcp_servers.yaml:12:5 app.one_of",
        ]
    );
}

#[test]
fn numbers_out_of_range_are_reported_at_their_position() {
    let text =
        "name: todo\nlimits: {task_seconds: -1, tool_seconds: 5000000000, agent_seconds: 1.5}\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        [
            "convoke.yaml:2:24 app.out_of_range",
            "convoke.yaml:2:42 app.out_of_range",
            "convoke.yaml:2:69 app.wrong_type",
        ]
    );
}

#[test]
fn a_bad_name_is_reported_at_its_position() {
    assert_eq!(
        found(&[("convoke.yaml", "name: My App\n")]),
        ["convoke.yaml:1:7 name.pattern"]
    );
    let agent = support::AGENT.replace("      title: {}", "      Title: {ask: Which?}");
    assert_eq!(
        found(&[("agents/todo.yaml", &agent)]),
        ["agents/todo.yaml:11:7 name.pattern"]
    );
}

#[test]
fn broken_rules_are_reported_at_their_position() {
    let text = "name: todo\ndecide:\n  threshold: 7\nlimits:\n  max_claims: 0\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        [
            "convoke.yaml:3:14 config.threshold_range",
            "convoke.yaml:5:15 config.limit_zero"
        ]
    );
    let agent = support::AGENT.replace("role: Keeps a list.", "role: ' '\ntemperature: 3");
    assert_eq!(
        found(&[("agents/todo.yaml", &agent)]),
        [
            "agents/todo.yaml:2:7 agent.role_empty",
            "agents/todo.yaml:3:14 agent.temperature_range"
        ]
    );
}

#[test]
fn rules_run_even_if_a_key_is_unknown() {
    let text = "name: todo\nlimts: {}\nlimits:\n  max_claims: 0\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        [
            "convoke.yaml:2:1 app.unknown_key",
            "convoke.yaml:4:15 config.limit_zero"
        ]
    );
}

#[test]
fn rules_run_even_if_a_key_is_missing() {
    let agent = support::AGENT.replace("role: Keeps a list.", "temperature: 3\nmax_iterations: 0");
    assert_eq!(
        found(&[("agents/todo.yaml", &agent)]),
        [
            "agents/todo.yaml:1:1 app.missing_key",
            "agents/todo.yaml:2:14 agent.temperature_range",
            "agents/todo.yaml:3:17 agent.max_iterations_zero",
        ]
    );
}

#[test]
fn one_bad_item_of_a_list_does_not_hide_the_others() {
    let text = "cases:\n  - say: 5\n    expect: {intent: create_task}\n  - say: ''\n    expect: \
                {intent: creat_task}\n";
    assert_eq!(
        found(&[("evals/a.yaml", text)]),
        [
            "evals/a.yaml:2:10 app.wrong_type",
            "evals/a.yaml:4:10 eval.say_empty",
            "evals/a.yaml:5:22 app.intent_unknown",
        ]
    );
}

#[test]
fn unknown_references_are_reported_at_their_position() {
    let agent = support::AGENT
        .replace("tools: [todo.add_task]", "tools: [tdo.add_task, 'todo.']")
        .replace("tool: todo.add_task", "tool: todo.list_tasks");
    assert_eq!(
        found(&[("agents/todo.yaml", &agent)]),
        [
            "agents/todo.yaml:4:9 app.server_unknown",
            "agents/todo.yaml:4:23 app.tool_name",
            "agents/todo.yaml:13:13 app.tool_not_listed",
        ]
    );
    let agent = support::AGENT.replace(
        "      title: {}",
        "      title:\n        refers_to: {tool: notes.list, items: a, id: b, label: c, none: d, many: e}",
    );
    assert_eq!(
        found(&[("agents/todo.yaml", &agent)]),
        ["agents/todo.yaml:12:27 app.server_unknown"]
    );
    let text = support::SERVERS.to_owned()
        + "    tools:\n      add_task: {fallback_tools: [notes.add], verify: lost.look}\n";
    assert_eq!(
        found(&[("config/mcp_servers.yaml", &text)]),
        [
            "config/mcp_servers.yaml:7:35 app.server_unknown",
            "config/mcp_servers.yaml:7:55 app.server_unknown",
        ]
    );
}

#[test]
fn a_bare_tool_needs_a_server() {
    let agent = support::AGENT.replace("todo.add_task", "add_task");
    assert_eq!(found(&[("agents/todo.yaml", &agent)]), [""; 0]);
    let folder = app(&[("agents/todo.yaml", &agent)]);
    std::fs::remove_file(folder.path().join("config/mcp_servers.yaml")).unwrap();
    assert_eq!(
        support::problems_in(folder.path()),
        [
            // The other place stands in the help.
            "agents/todo.yaml:4:9 app.no_server"
        ]
    );
}

#[test]
fn a_cycle_of_fallbacks_is_reported_once() {
    let text = support::SERVERS.to_owned()
        + "    tools:\n      a: {fallback_tools: [b]}\n      b: {fallback_tools: [todo.c]}\n      \
           c: {fallback_tools: [a]}\n      d: {fallback_tools: [a]}\n";
    assert_eq!(
        found(&[("config/mcp_servers.yaml", &text)]),
        ["config/mcp_servers.yaml:7:11 app.fallback_cycle"]
    );
}

#[test]
fn an_app_needs_an_agent() {
    let folder = app(&[]);
    std::fs::remove_dir_all(folder.path().join("agents")).unwrap();
    assert_eq!(
        support::problems_in(folder.path()),
        ["convoke.yaml:1:1 app.no_agents"]
    );
}

#[test]
fn duplicate_names_are_reported_with_both_positions() {
    let folder = app(&[
        ("agents/other.yaml", support::AGENT),
        (
            "config/mcp_servers.yaml",
            &(support::SERVERS.to_owned() + &support::SERVERS[9..]),
        ),
    ]);
    let error = convoke_app::App::load(folder.path(), &|_| None).unwrap_err();
    let shown: Vec<String> = error.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "agents/todo.yaml:1:7: error[app.duplicate_name]: another agent is named `todo`, at \
             agents/other.yaml:1:7; rename one of them",
            "config/mcp_servers.yaml:6:11: error[app.duplicate_name]: another server is named \
             `todo`, at config/mcp_servers.yaml:2:11; rename one of them",
        ]
    );
}

#[test]
fn invalid_templates_are_reported_at_their_position() {
    let agent = support::AGENT.replace("reply: Added {{ title }}.", "reply: Added {{ title }.");
    assert_eq!(
        found(&[("agents/todo.yaml", &agent)]),
        ["agents/todo.yaml:15:29 app.template"]
    );
    let agent = support::AGENT.replace(
        "reply: Added {{ title }}.",
        "reply: |\n        Added.\n        {% if title %}\n        {{ titel }} and {{ result.x }} {{ error }}\n        {% endif %}",
    );
    assert_eq!(
        found(&[("agents/todo.yaml", &agent)]),
        [
            "agents/todo.yaml:18:12 app.template_variable",
            "agents/todo.yaml:18:43 app.template_variable",
        ]
    );
    let text = "name: todo\ndecide:\n  clarify: \"{{ candidate }}\"\nmessages:\n  too_long: \"{{ limits }}\"\n";
    assert_eq!(
        found(&[("convoke.yaml", text)]),
        [
            "convoke.yaml:3:16 app.template_variable",
            "convoke.yaml:5:17 app.template_variable"
        ]
    );
}

#[test]
fn what_a_loop_or_a_set_introduces_is_known() {
    let agent = support::AGENT.replace(
        "reply: Added {{ title }}.",
        "reply: \"{% set n = 1 %}{% for task in result %}{{ loop.index }}{{ task.title }}{{ n }}{% endfor %}{{ range(2) }}\"",
    );
    assert_eq!(found(&[("agents/todo.yaml", &agent)]), [""; 0]);
}

#[test]
fn invalid_sentences_are_reported_at_their_position() {
    let agent = support::AGENT.replace(
        "      - add {title}",
        "      - add {title}\n      - put {title\n      - '[x] (a|b'",
    );
    let found = found(&[("agents/todo.yaml", &agent)]);
    assert_eq!(
        found,
        [
            "agents/todo.yaml:10:13 pattern.unclosed",
            "agents/todo.yaml:11:14 pattern.unclosed"
        ]
    );
}

#[test]
fn bad_evals_are_reported_at_their_position() {
    let text = "cases:\n  - say: x\n    expect:\n      intent: create_task\n      slots: {titel: x}\n      \
                calls: [{tool: tdo.add_task}]\n      reply: {matches: '(x'}\n  - say: y\n    expect: {}\n";
    assert_eq!(
        found(&[("evals/a.yaml", text)]),
        [
            "evals/a.yaml:5:15 app.slot_unknown",
            "evals/a.yaml:6:22 app.server_unknown",
            "evals/a.yaml:7:24 eval.bad_regex",
            "evals/a.yaml:9:5 eval.expects_nothing",
        ]
    );
    assert_eq!(
        found(&[("evals/a.yaml", "cases: []\n")]),
        ["evals/a.yaml:1:1 eval.no_cases"]
    );
}

#[test]
fn expected_targets_and_answers_of_evals_are_checked() {
    let text = "cases:\n  - say: x\n    expect:\n      intent: fallback\n      targets: [create-task, todo, \
                fallback_agent]\n      sources: []\n      partial: false\n      confidence: high\n      \
                suggestions: {at_most: 3}\n";
    assert!(found(&[("evals/a.yaml", text)]).is_empty());
    let text = "cases:\n  - say: x\n    expect:\n      targets: [creat_task, todo]\n      confidence: \
                sure\n  - say: y\n    expect:\n      suggestions: {at_least: 2, at_most: 1}\n  - say: z\n    \
                expect:\n      suggestions: {at_least: 4}\n";
    assert_eq!(
        found(&[("evals/a.yaml", text)]),
        [
            "evals/a.yaml:4:17 app.target_unknown",
            "evals/a.yaml:5:19 app.unknown_value",
            "evals/a.yaml:8:7 eval.suggestions_range",
            "evals/a.yaml:11:7 eval.suggestions_range",
        ]
    );
}

#[test]
fn a_slot_that_is_never_filled_is_a_warning() {
    let agent = support::AGENT.replace("      title: {}", "      title: {}\n      colour: {}");
    assert_eq!(
        found(&[("agents/todo.yaml", &agent)]),
        ["agents/todo.yaml:12:7 warning app.slot_unused"]
    );
}

#[test]
fn every_missing_variable_of_every_file_is_reported() {
    let text =
        "name: todo\nmodels:\n  m: {endpoint: '${URL}', model: '${MODEL}', api_key: '${KEY}'}\n";
    let servers = support::SERVERS.replace("command: convoke", "command: '${COMMAND'");
    let files = [
        ("convoke.yaml", text),
        ("config/mcp_servers.yaml", &servers),
    ];
    assert_eq!(
        app_with_environment(&files, &|name| (name == "MODEL").then(|| "m".to_owned())),
        [
            "config/mcp_servers.yaml:4:25 app.environment_syntax",
            "convoke.yaml:3:18 app.environment_missing",
            "convoke.yaml:3:56 app.environment_missing",
        ]
    );
}

#[test]
fn no_message_contains_a_secret_from_the_environment() {
    let servers = "servers:\n  - name: todo\n    transport: {http: {url: '${URL}'}}\n    inject: {a: '${URL}'}\n  - name: '${URL}'\n    transport: '${URL}'\n    honours_idempotency_key: '${URL}'\n";
    let folder = app(&[("config/mcp_servers.yaml", servers)]);
    let secret = |_: &str| Some("ftp://me:hunter2@Host".to_owned());
    let error = convoke_app::App::load(folder.path(), &secret).unwrap_err();
    assert_eq!(error.len(), 5, "{error}");
    let everything = format!(
        "{error} {error:?} {} {}",
        error.pretty(),
        serde_json::to_string(&error).unwrap()
    );
    assert!(!everything.contains("hunter2"), "{everything}");
}

#[test]
fn a_secret_written_into_a_file_is_a_warning_that_does_not_show_it() {
    let text = "name: todo\nmodels:\n  m: {endpoint: http://x, model: y, api_key: sk-plain}\n";
    let servers = support::SERVERS.replace(
        "command: convoke}",
        "command: convoke, env: {NOTES_TOKEN: abcdef}}",
    );
    let folder = app(&[
        ("convoke.yaml", text),
        ("config/mcp_servers.yaml", &servers),
    ]);
    let loaded = convoke_app::App::load(folder.path(), &|_| None).unwrap();
    let pretty = loaded.warnings.pretty();
    assert_eq!(loaded.warnings.len(), 2, "{pretty}");
    assert!(pretty.contains("app.secret_in_file"), "{pretty}");
    assert!(
        !pretty.contains("sk-plain") && !pretty.contains("abcdef"),
        "{pretty}"
    );
}

#[test]
fn files_that_do_not_belong_are_warnings_with_the_nearest_name() {
    let files = [
        ("agent/x.yaml", "a: 1"),
        ("domains.yaml", "a: 1"),
        ("config/mcp_server.yaml", "a: 1"),
        ("agents/x.yamll", "a: 1"),
        ("agents/README.md", "Agents."),
        ("agents/.draft.yaml", "Hidden."),
        ("agents/more/x.yaml", "a: 1"),
        ("data/x.csv", "1"),
    ];
    let folder = app(&files);
    let loaded = convoke_app::App::load(folder.path(), &|_| None).unwrap();
    let shown: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    let is_not = "is not part of an app and is ignored";
    assert_eq!(
        shown,
        [
            format!(
                "agent/: warning[app.unknown_file]: the folder {is_not}; did you mean `agents/`?"
            ),
            format!(
                "agents/more/: warning[app.unknown_file]: the folder {is_not}; move its files directly into `agents/`"
            ),
            format!(
                "agents/x.yamll: warning[app.unknown_file]: the file {is_not}; did you mean `x.yaml`?"
            ),
            format!(
                "config/mcp_server.yaml: warning[app.unknown_file]: the file {is_not}; did you mean `mcp_servers.yaml`?"
            ),
            format!(
                "domains.yaml: warning[app.unknown_file]: the file {is_not}; did you mean `config/domains.yaml`?"
            ),
        ]
    );
}

#[test]
fn the_same_file_in_two_formats_is_refused() {
    assert_eq!(
        found(&[
            ("convoke.json", "{name: todo}"),
            ("agents/todo.yml", "name: x"),
            ("config/mcp_servers.yml", "")
        ]),
        [
            "agents/todo.yml app.file_twice",
            "config/mcp_servers.yml app.file_twice",
            "convoke.yaml app.file_twice",
        ]
    );
}

#[test]
fn skill_names_are_unique_per_agent() {
    let other = support::AGENT.replacen("name: todo", "name: other", 1);
    assert_eq!(found(&[("agents/other.yaml", &other)]), [""; 0]);
    let at = support::AGENT.find("  - name:").unwrap();
    let twice = support::AGENT.to_owned() + &support::AGENT[at..];
    assert_eq!(
        found(&[("agents/todo.yaml", &twice)]),
        ["agents/todo.yaml:16:11 agent.skill_twice"]
    );
}

#[test]
fn phrases_are_checked_at_their_position() {
    let config = "name: todo\ndecide:\n  phrases:\n    to-list: to <lst>\n    lst2: \"[my|the] (list|tasks)\"\n    a: x <b>\n    b: y <a>\n    idle: never said\n    open: (is|are\n";
    let agent = support::AGENT.replace(
        "    sentences:",
        "    sentences:\n      - put {title} <to-lst>",
    );
    let problems = found(&[("convoke.yaml", config), ("agents/todo.yaml", &agent)]);
    assert_eq!(
        problems,
        [
            "agents/todo.yaml:9:21 pattern.phrase_unknown",
            // `to-list` and `lst2` are probably meant by the two that are unknown.
            "convoke.yaml:4:17 pattern.phrase_unknown",
            "convoke.yaml:6:5 warning app.phrase_unused",
            "convoke.yaml:7:5 warning app.phrase_unused",
            "convoke.yaml:7:10 pattern.phrase_cycle",
            "convoke.yaml:8:5 warning app.phrase_unused",
            "convoke.yaml:9:5 warning app.phrase_unused",
            "convoke.yaml:9:11 pattern.unclosed",
        ]
    );
}

#[test]
fn a_phrase_may_contain_other_phrases_and_slots() {
    let config = "name: todo\ndecide:\n  phrases:\n    list: \"[my|the] list\"\n    to-list: to <list> [by {day}]\n";
    let agent = support::AGENT
        .replace(
            "    sentences:",
            "    sentences:\n      - put {title} <to_list>",
        )
        .replace(
            "reply: Added {{ title }}.",
            "reply: Added {{ title }} by {{ day }}.",
        );
    let files = [("convoke.yaml", config), ("agents/todo.yaml", &agent)];
    assert_eq!(found(&files), [""; 0]);
}

#[test]
fn sub_agents_must_exist_have_a_model_and_not_form_a_cycle() {
    let agent = |name: &str, others: &str| {
        format!(
            "name: {name}\nrole: Thinks.\nsystem_prompt: Think.\nagents: [{others}]\n\
             llm_config: {{endpoint: 'http://127.0.0.1/v1', model: m}}\n"
        )
    };
    let (writer, reader) = (agent("writer", "reader, nobody"), agent("reader", "writer"));
    let problems = found(&[
        ("agents/writer.yaml", &writer),
        ("agents/reader.yaml", &reader),
    ]);
    assert_eq!(
        problems,
        [
            "agents/reader.yaml:4:10 app.agent_circle",
            "agents/writer.yaml:4:10 app.agent_circle",
            "agents/writer.yaml:4:18 app.agent_unknown",
        ]
    );
    let problems = found(&[("agents/writer.yaml", &agent("writer", "todo"))]);
    assert_eq!(
        problems,
        ["agents/writer.yaml:4:10 app.agent_without_model"]
    );
}
