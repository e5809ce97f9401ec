//! Hostile and invalid templates: each is rejected at its position before the app runs, and valid ones
//! are rendered within the limits.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write as _;

use convoke_app::{
    MAX_RENDERED_BYTES, MAX_TEMPLATE_BYTES, MAX_TEMPLATE_DEPTH, MAX_TEMPLATE_OPERATIONS,
    TemplateContext, TemplateLanguage,
};
use serde_json::{Map, Value, json};
use support::{AGENT, SERVERS, app, found};

/// Half of a worker thread's stack, part of which is in use when a template is rendered.
const STACK: usize = 1024 * 1024;

fn on_a_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread.spawn(work).unwrap().join().unwrap()
}

fn context() -> Map<String, Value> {
    let context = json!({
        "title": "buy milk",
        "result": { "tasks": [{ "title": "a" }, { "title": "b" }], "text": "x".repeat(1_000), "n": 2 },
    });
    context.as_object().cloned().unwrap()
}

fn rendered(template: &str) -> Result<String, String> {
    let text = TemplateLanguage::new().text(template, &context());
    text.map_err(|fault| fault.to_string())
}

fn evaluated(expression: &str) -> Result<Value, String> {
    let value = TemplateLanguage::new().value(expression, &context());
    value.map_err(|fault| fault.to_string())
}

/// An agent whose skill replies with this template.
fn replying(template: &str) -> String {
    let reply = format!("reply: {}", json!(template));
    AGENT.replace("reply: Added {{ title }}.", &reply)
}

/// The diagnostics of a skill's reply.
fn found_in(template: &str) -> Vec<String> {
    found(&[("agents/todo.yaml", &replying(template))])
}

/// The codes of the diagnostics of a skill's reply.
fn codes_in(template: &str) -> Vec<String> {
    let codes = found_in(template).into_iter();
    codes
        .map(|problem| problem.rsplit(' ').next().unwrap().to_owned())
        .collect()
}

/// Every kind of nesting in the language, with this many levels.
fn ways_to_nest(levels: usize) -> Vec<(&'static str, String)> {
    let around = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    let shown = |expression: String| format!("{{{{ {expression} }}}}");
    let behind = |first: &str, more: &str| shown(format!("{first}{}", more.repeat(levels)));
    let before = |more: &str, last: &str| shown(format!("{}{last}", more.repeat(levels)));
    vec![
        ("minus", before("-", "1")),
        ("not", before("not ", "true")),
        ("brackets", shown(around("(", "1", ")"))),
        ("lists", shown(around("[", "1", "]"))),
        ("maps", shown(around("{'a': ", "1", "}"))),
        ("tuples", shown(around("(", "1", ",)"))),
        ("calls", shown(around("range(", "1", ")"))),
        ("items", shown(around("result[", "1", "]"))),
        ("slices", shown(around("title[", "1", ":]"))),
        (
            "filter arguments",
            shown(around("title | default(", "1", ")")),
        ),
        ("fields", behind("result", ".a")),
        ("items of items", behind("result", "[0]")),
        ("calls of calls", behind("range", "()")),
        ("filters", behind("title", " | trim")),
        ("tests", behind("title", " is defined")),
        ("sums", behind("1", " + 1")),
        ("powers", behind("1", " ** 1")),
        ("texts", behind("title", " ~ title")),
        ("and", behind("title", " and title")),
        ("or", behind("title", " or title")),
        ("comparisons", behind("1", " < 1")),
        ("contained", behind("1", " in [1]")),
        ("choices", behind("1", " if title else 1")),
        ("choices before", before("1 if title else ", "1")),
        ("arguments of tests", before("1 is eq ", "1")),
        ("if", around("{% if title %}", "a", "{% endif %}")),
        ("for", around("{% for a in [1] %}", "a", "{% endfor %}")),
        ("with", around("{% with a = 1 %}", "a", "{% endwith %}")),
        ("set", around("{% set a %}", "a", "{% endset %}")),
        (
            "filter blocks",
            around("{% filter upper %}", "a", "{% endfilter %}"),
        ),
        (
            "escapes",
            around("{% autoescape false %}", "a", "{% endautoescape %}"),
        ),
        (
            "elif",
            format!(
                "{{% if title %}}a{}{{% endif %}}",
                "{% elif title %}b".repeat(levels)
            ),
        ),
        (
            "targets",
            format!("{{% set {} = [1] %}}", around("(", "a", ")")),
        ),
        (
            "loops over brackets",
            format!(
                "{{% for {} in [1] %}}a{{% endfor %}}",
                around("(", "a", ")")
            ),
        ),
        (
            "else of loops",
            around("{% for a in [] %}{% else %}", "a", "{% endfor %}"),
        ),
    ]
}

#[test]
fn every_way_to_nest_is_refused_before_it_is_read() {
    on_a_small_stack(|| {
        for levels in [MAX_TEMPLATE_DEPTH + 1, 900] {
            for (way, template) in ways_to_nest(levels) {
                let codes = codes_in(&template);
                assert_eq!(codes, ["app.template_too_deep"], "{levels} {way}");
                let fault = rendered(&template).unwrap_err();
                assert!(fault.starts_with("app.template_too_deep"), "{way}: {fault}");
            }
        }
        let signs = format!("{{{{ {}1 }}}}", "-".repeat(5_000));
        assert_eq!(
            found_in(&signs),
            ["agents/todo.yaml:15:117 app.template_too_deep"]
        );
    });
}

#[test]
fn templates_within_the_depth_limit_render_on_a_small_stack() {
    for way in 0..ways_to_nest(1).len() {
        let (levels, name) = on_a_small_stack(move || {
            let mut levels = MAX_TEMPLATE_DEPTH;
            loop {
                let (name, template) = ways_to_nest(levels).swap_remove(way);
                // Whether it succeeds does not matter, only that it returns.
                let outcome = rendered(&template);
                if outcome.is_err_and(|fault| fault.starts_with("app.template_too_deep")) {
                    levels -= 1;
                    continue;
                }
                let codes = codes_in(&template);
                assert!(
                    !codes.contains(&"app.template_too_deep".to_owned()),
                    "{name}"
                );
                return (levels, name);
            }
        });
        assert!(levels >= 20, "{name}: {levels}");
    }
}

#[test]
fn expressions_are_bounded_like_templates() {
    let deep = format!("{}true", "not ".repeat(5_000));
    let fault = evaluated(&deep).unwrap_err();
    assert!(fault.starts_with("app.template_too_deep"), "{fault}");
    let workflow = |node: &str| {
        format!(
            "name: main\nentry_point: a\nnodes:\n  a: {node}\n  b: {{type: compose, prompt: x}}\nedges:\n"
        )
    };
    let places = [
        (
            workflow(&format!("{{type: condition, expression: '{deep}'}}")),
            "edge",
        ),
        (
            workflow(&format!(
                "{{type: check, criteria: [{{id: a, description: the text is short enough, expression: '{deep}'}}]}}"
            )),
            "edge",
        ),
        (
            workflow(&format!(
                "{{type: tool, tool: todo.add_task, map: {{over: '{deep}'}}}}"
            )),
            "edge",
        ),
        (
            workflow(&format!("{{type: compose, prompt: '{{{{ {deep} }}}}'}}")),
            "edge",
        ),
        (
            workflow(&format!(
                "{{type: tool, tool: todo.add_task, arguments: {{a: ['{{{{ {deep} }}}}']}}}}"
            )),
            "edge",
        ),
        (workflow("{type: compose, prompt: x}"), &deep),
    ];
    for (text, condition) in places {
        let condition = if condition == "edge" {
            "true"
        } else {
            condition
        };
        let text = format!("{text}  - {{from: a, to: b, condition: '{condition}'}}\n");
        let problems = found(&[("workflows/main.yaml", &text)]);
        assert!(
            problems.len() == 1 && problems[0].ends_with("app.template_too_deep"),
            "{problems:?}"
        );
    }
}

#[test]
fn templates_are_checked_in_every_position() {
    let deep = format!("{{{{ {}1 }}}}", "-".repeat(5_000));
    let expression = format!("{}true", "not ".repeat(5_000));
    let mut config = "name: todo\nmessages:\n".to_owned();
    for key in [
        "failure",
        "tool_failure",
        "done",
        "unfinished",
        "deadline",
        "partial",
        "unused",
        "check_failed",
        "empty",
        "too_long",
        "busy",
        "approval",
        "rejected",
        "expired",
        "canceled",
    ] {
        writeln!(config, "  {key}: '{deep}'").unwrap();
    }
    write!(
        config,
        "decide:\n  clarify: '{deep}'\n  unknown: '{deep}'\n  router:\n    user_prompt_template: '{deep}'\n    \
         clarification_prompt_template: '{deep}'\n    fallback_reason_template: '{deep}'\naggregator:\n  \
         partial_failure_template: '{{{{ success_message }}}} {{{{ failure_message }}}} {deep}'\n  default_fallback_message: '{deep}'\n"
    )
    .unwrap();
    let servers = format!(
        "{SERVERS}    tools:\n      add_task:\n        verify:\n          tool: todo.find\n          arguments: \
         {{id: '{deep}'}}\n          done: '{expression}'\n          gives: '{expression}'\n"
    );
    let agent = format!(
        "{}      failure: '{deep}'\n      confirm: '{deep}'\n",
        AGENT
            .replace("      title: {}", &format!(
                "      title:\n        ask: '{deep}'\n        refers_to:\n          tool: todo.add_task\n          \
                 arguments: {{a: '{deep}'}}\n          items: tasks\n          id: id\n          label: title\n          \
                 none: '{deep}'\n          many: '{deep}'"
            ))
            .replace("'{{ title }}'", &format!("'{deep}'"))
            .replace("Added {{ title }}.", &format!("'{deep}'"))
    );
    let domains = format!(
        "domains:\n  - name: stock\n    display_name: Stock\n    description: Stock\n    mcp_tools:\n      - tool: todo.ask\n        \
         arguments: {{q: '{deep}'}}\n        gives: '{expression}'\n        shows: '{expression}'\n        unused: '{expression}'\n        \
         conversation: '{expression}'\n        poll: {{tool: todo.again, running: '{expression}', arguments: {{q: '{deep}'}}}}\n    suggestions: ['{deep}']\n"
    );
    let workflow = format!(
        "name: main\nentry_point: a\nnodes:\n  a: {{type: compose, prompt: '{deep}'}}\nanswer: '{deep}'\n"
    );
    let problems = found(&[
        ("convoke.yaml", &config),
        ("config/mcp_servers.yaml", &servers),
        ("agents/todo.yaml", &agent),
        ("config/domains.yaml", &domains),
        ("workflows/main.yaml", &workflow),
    ]);
    let (deep, other): (Vec<_>, Vec<_>) = problems
        .into_iter()
        .partition(|problem| problem.ends_with("app.template_too_deep"));
    let other: Vec<_> = other
        .iter()
        .filter(|problem| !problem.contains("warning"))
        .collect();
    assert!(other.is_empty(), "{other:#?}");
    let of = |file: &str| {
        deep.iter()
            .filter(|problem| problem.starts_with(file))
            .count()
    };
    assert_eq!(of("convoke.yaml"), 15 + 7, "{deep:#?}");
    assert_eq!(of("config/mcp_servers.yaml"), 3, "{deep:#?}");
    assert_eq!(of("agents/todo.yaml"), 8, "{deep:#?}");
    assert_eq!(of("config/domains.yaml"), 8, "{deep:#?}");
    assert_eq!(of("workflows/main.yaml"), 2, "{deep:#?}");
}

#[test]
fn a_template_may_be_as_large_as_its_limits_and_no_larger() {
    let text = |bytes: usize| "x".repeat(bytes);
    assert_eq!(
        rendered(&text(MAX_TEMPLATE_BYTES)).unwrap().len(),
        MAX_TEMPLATE_BYTES
    );
    let fault = rendered(&text(MAX_TEMPLATE_BYTES + 1)).unwrap_err();
    assert!(fault.starts_with("app.template_too_large"), "{fault}");
    assert_eq!(
        codes_in(&text(MAX_TEMPLATE_BYTES + 1)),
        ["app.template_too_large"]
    );
    let many = "{{ -1 }}".repeat(MAX_TEMPLATE_OPERATIONS);
    assert_eq!(rendered(&many).unwrap().len(), 2 * MAX_TEMPLATE_OPERATIONS);
    let more = "{{ -1 }}".repeat(MAX_TEMPLATE_OPERATIONS + 1);
    let fault = rendered(&more).unwrap_err();
    assert!(fault.starts_with("app.template_too_large"), "{fault}");
    // Templates of real apps are far below the limits.
    let usual = "{% for task in result.tasks %}{{ loop.index }}. {{ task.title | trim | default('?') }}\n{% endfor %}";
    assert_eq!(codes_in(usual), [""; 0]);
    assert_eq!(rendered(usual).unwrap(), "1. a\n2. b\n");
}

#[test]
fn unknown_names_in_templates_are_reported_at_their_position() {
    let at = |template: &str| {
        let found = found_in(template);
        let short = |problem: String| problem.replace("agents/todo.yaml:15:", "");
        found.into_iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(at("{{ title | nosuch }}"), ["26 app.filter_unknown"]);
    assert_eq!(
        at("{{ title | upper | nosuch('a') }}"),
        ["34 app.filter_unknown"]
    );
    assert_eq!(
        at("{% if title is nosuch %}a{% endif %}"),
        ["30 app.test_unknown"]
    );
    assert_eq!(
        at("{{ title if title is not nosuch else '' }}"),
        ["40 app.test_unknown"]
    );
    assert_eq!(at("{{ nosuch(title) }}"), ["18 app.function_unknown"]);
    assert_eq!(at("{{ title() }}"), ["18 app.function_unknown"]);
    assert_eq!(at("{{ result.tasks[0]() }}"), ["30 app.function_unknown"]);
    assert_eq!(at("{{ title.upper() }}"), ["24 app.template_method"]);
    assert_eq!(at("{{ 'a'.upper() }}"), ["22 app.template_method"]);
    assert_eq!(
        at("{% for k, v in result.items() %}{{ k }}{{ v }}{% endfor %}"),
        ["37 app.template_method"]
    );
    assert_eq!(at("{{ namespace() }}"), ["18 app.function_unknown"]);
    assert_eq!(at("{{ debug() }}"), ["18 app.function_unknown"]);
    assert_eq!(
        at("{% for a in [1] %}{{ loop(a) }}{% endfor %}"),
        ["36 app.function_unknown"]
    );
    assert_eq!(
        at("{% for a in [1] recursive %}{{ a }}{% endfor %}"),
        ["30 app.template_unsupported"]
    );
    assert_eq!(
        at("{% for a in [1] %}{{ loop.cycle() }}{% endfor %}"),
        ["41 app.template_method"]
    );
    assert_eq!(at("{% set a.b = 1 %}"), ["24 app.template_unsupported"]);
    assert_eq!(
        at("{% filter nosuch %}a{% endfilter %}"),
        ["25 app.filter_unknown"]
    );
    assert_eq!(
        at("{% set a | nosuch %}a{% endset %}"),
        ["26 app.filter_unknown"]
    );
    assert_eq!(
        at("{{ result.tasks | map('nosuch') | join }}"),
        ["37 app.filter_unknown"]
    );
    assert_eq!(
        at("{{ result.tasks | select('nosuch') | join }}"),
        ["40 app.test_unknown"]
    );
    assert_eq!(
        at("{{ result.tasks | selectattr('title', 'nosuch') | join }}"),
        ["53 app.test_unknown"]
    );
    // Expressions in positions that earlier versions did not check.
    assert_eq!(at("{{ titel[1:] }}"), ["18 app.template_variable"]);
    assert_eq!(
        at("{% autoescape titel %}a{% endautoescape %}"),
        ["29 app.template_variable"]
    );
    assert_eq!(
        at("{{ titel | nosuch }}"),
        ["18 app.template_variable", "26 app.filter_unknown"]
    );
    for statement in [
        "{% include 'a' %}",
        "{% include 'a' ignore missing %}",
        "{% extends 'a' %}",
        "{% import 'a' as a %}",
        "{% from 'a' import b %}",
        "{% block a %}{% endblock %}",
        "{% macro a() %}{% endmacro %}",
        "{% call a() %}{% endcall %}",
        "{% nosuch %}",
    ] {
        let found = at(statement);
        assert!(
            found.len() == 1 && found[0].ends_with(" app.template"),
            "{statement}: {found:?}"
        );
    }
}

#[test]
fn defined_names_are_accepted() {
    for template in [
        "{{ title | upper | default('x', true) | replace('a', 'b') }}",
        "{% if title is defined and title is not none and 'a' in title %}a{% endif %}",
        "{% for t in result.tasks | selectattr('title', 'eq', 'a') %}{{ loop.cycle('a', 'b') }}{{ t.title }}{% endfor %}",
        "{% for t in result.tasks %}{% if loop.changed(t.title) %}{{ loop.index }}{% endif %}{% else %}{{ title }}{% endfor %}",
        "{% if title %}{% set name = title %}{% endif %}{{ name }}",
        "{% with a = title, b = a %}{{ a }}{{ b }}{% endwith %}",
        "{% set a, b = 1, title %}{{ a }}{{ b }}",
        "{% set a %}{{ title }}{% endset %}{{ a | trim }}",
        "{% filter upper | trim %}{{ title }}{% endfilter %}",
        "{{ range(3) | join(', ') }}{{ dict(a=1).a }}",
        "{% raw %}{{ not.read | nosuch }}{% endraw %}",
        "{# {{ titel | nosuch }} #}{{ title }}",
        "{{ '%s and %d' | format(title, 3) }}{{ result.tasks | map(attribute='title') | join(', ') }}",
    ] {
        assert_eq!(found_in(template), [""; 0], "{template}");
        rendered(template).unwrap();
    }
}

#[test]
fn a_name_near_to_a_known_one_is_offered() {
    let help_for = |template: &str| {
        let folder = app(&[("agents/todo.yaml", &replying(template))]);
        let problems = convoke_app::App::load(folder.path(), &|_| None).unwrap_err();
        problems.iter().next().unwrap().help.clone().unwrap()
    };
    assert_eq!(help_for("{{ title | uper }}"), "did you mean `upper`?");
    assert_eq!(
        help_for("{{ title is definde }}"),
        "did you mean `defined`?"
    );
    assert_eq!(help_for("{{ rnge(2) }}"), "did you mean `range`?");
    assert_eq!(
        help_for("{{ upper(title) }}"),
        "`upper` is a filter: write `value | upper`"
    );
    assert_eq!(
        help_for("{{ title.upper() }}"),
        "there is a filter of that name: write `value | upper`"
    );
    assert_eq!(help_for("{% sett a = 1 %}"), "did you mean `set`?");
    assert!(help_for("{% include 'a' %}").contains("cannot use other templates"));
}

/// The process's peak memory, in bytes.
fn most_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kibibytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes * 1024
}

/// Short templates that would create very large values.
fn bombs() -> Vec<String> {
    let doubled = |start: &str, twice: &str| {
        format!(
            "{{% set a = {start} %}}{}{{{{ a | length }}}}",
            format!("{{% set a = {twice} %}}").repeat(60)
        )
    };
    let mut nested = "{% set a = [] %}".to_owned();
    nested.push_str(&"{% set a = [a] %}".repeat(900));
    vec![
        "{{ 'x' * 10 ** 9 }}".into(),
        "{{ 'x' * 100000000 }}".into(),
        format!("{{{{ {} }}}}", vec!["'x' * 100000000"; 30].join(" ~ ")),
        "{{ title * 10000000 }}".into(),
        format!("{{{{ [{}] | length }}}}", vec!["title * 1000000"; 100].join(", ")),
        "{{ [1] * 100000000 | list | length }}".into(),
        "{{ ([1] * 100000000) | list | length }}".into(),
        "{{ range(10 ** 9) | list }}".into(),
        "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}".into(),
        format!("{{% for a in range(50000) %}}{}{{% endfor %}}", "x".repeat(60_000)),
        format!("{{% set a %}}{{% for a in range(50000) %}}{}{{% endfor %}}{{% endset %}}{{{{ a | length }}}}", "x".repeat(60_000)),
        "{% filter length %}{% for a in range(50000) %}{{ result.text }}{% endfor %}{% endfilter %}".into(),
        "{{ result.text | replace('', result.text * 1000) | length }}".into(),
        "{{ result.text | replace('x', result.text * 1000) | length }}".into(),
        "{{ range(90000) | join(result.text * 10) | length }}".into(),
        "{{ title | indent(10 ** 10) | length }}".into(),
        "{{ title | indent(width=10 ** 10, first=true) | length }}".into(),
        "{{ result | tojson(indent=10 ** 9) | length }}".into(),
        "{{ '%1000000000d' | format(1) | length }}".into(),
        "{{ '%*d' | format(1000000000, 1) | length }}".into(),
        "{{ '%.1000000000f' | format(1.5) | length }}".into(),
        "{{ [1] | batch(10 ** 10, 0) | list | length }}".into(),
        "{{ [1] | slice(10 ** 10, 0) | list | length }}".into(),
        "{{ (title * 1000000) | split('') | list | length }}".into(),
        "{{ (title * 2000000) | list | length }}".into(),
        doubled("title", "a ~ a"),
        doubled("title", "a + a"),
        doubled("title", "a * 2"),
        doubled("title", "a | replace('b', 'bb') | replace('b', 'bb')"),
        doubled("title", "[a, a] | join"),
        doubled("title", "'%s%s' | format(a, a)"),
        doubled("[1]", "a + a"),
        doubled("[1]", "a * 2"),
        doubled("[1]", "[a, a]"),
        doubled("[1]", "(a, a)"),
        doubled("[1]", "{'a': a, 'b': a}"),
        doubled("[1]", "dict(a=a, b=a)"),
        doubled("[1, 2]", "a | chain(a)"),
        doubled("[1, 2]", "a | zip(a)"),
        format!("{nested}{{{{ a }}}}"),
        format!("{nested}{{{{ a == a }}}}"),
        format!("{{% set a = [1, 2] %}}{}{{{{ a }}}}", "{% set a = a[0:] %}".repeat(600)),
        format!("{{% set a = [1, 2] %}}{}{{{{ a }}}}", "{% set a = a | reverse %}".repeat(900)),
        format!("{{% set a = [1, 2] %}}{}{{{{ a }}}}", "{% set a = a * 1 %}".repeat(900)),
        format!("{{% set a = [1, 2] %}}{}{{{{ a }}}}", "{% set a = a | zip %}".repeat(900)),
        "{{ range(9223372036854775807, -9223372036854775807, -1) | list }}".into(),
        "{{ 10 ** 100 }}".into(),
        "{{ 1.5 | round(1000000000) }}".into(),
    ]
}

#[test]
fn the_output_of_templates_is_bounded() {
    let bound = most_memory() + 300 * 1024 * 1024;
    for bomb in bombs() {
        let start: String = bomb.chars().take(120).collect();
        let template = bomb.clone();
        let text = on_a_small_stack(move || {
            codes_in(&template);
            rendered(&template)
        });
        if let Ok(text) = text {
            assert!(text.len() <= MAX_RENDERED_BYTES, "{start}");
        }
        assert!(most_memory() < bound, "{start}");
    }
}

#[test]
fn a_text_may_be_as_long_as_its_limit_and_no_longer() {
    let times = MAX_RENDERED_BYTES / 1_000;
    assert!(rendered(&format!("{{{{ result.text * {times} }}}}")).is_ok());
    let fault = rendered(&format!("{{{{ result.text * {} }}}}", times + 2)).unwrap_err();
    assert!(fault.starts_with("template.failed"), "{fault}");
    let loops = rendered("{% for a in range(2000) %}{{ result.text }}{% endfor %}").unwrap_err();
    assert!(loops.starts_with("template.failed"), "{loops}");
}

#[test]
fn metering_does_not_change_the_result_of_templates() {
    let expected = [
        (
            "{{ 1 + 2 }}{{ 1.5 * 2 }}{{ 'a' ~ 1 }}{{ 'a' + 'b' }}{{ 'ab' * 2 }}",
            "33.0a1ababab",
        ),
        (
            "{{ [1] + [2] }}{{ [1] * 2 }}{{ (1, 'a') }}{{ {'a': 1} }}",
            "[1, 2][1, 1](1, 'a'){'a': 1}",
        ),
        (
            "{{ title[4:] }}{{ [1, 2, 3][::-1] }}{{ title[:3] }}",
            "milk[3, 2, 1]buy",
        ),
        (
            "{% for a in [1, 2] %}a{% if a == 1 %}b{% else %}c{% endif %}{% endfor %}d",
            "abacd",
        ),
        ("a{% for a in [] %}b{% else %}c{% endfor %}d", "acd"),
        (
            "{% set a %}x{% for b in [1, 2] %}y{{ b }}{% endfor %}{% endset %}<{{ a }}>",
            "<xy1y2>",
        ),
        (
            "{% for a in [1, 2, 3] if a > 1 %}-{{ a }}{% endfor %}",
            "-2-3",
        ),
        (
            "{{ result.tasks | map(attribute='title') | join(', ') }}",
            "a, b",
        ),
        (
            "{{ result.tasks | length }} {{ nothing }}{{ title | title }}",
            "2 Buy Milk",
        ),
        (
            "{% for a, b in {'x': 1} | items %}{{ a }}{{ b }}{% endfor %}",
            "x1",
        ),
        (
            "{% autoescape true %}{{ '<b>' }}{% endautoescape %}",
            "&lt;b&gt;",
        ),
        ("{{ [3, 1, 2] | sort | reverse | list }}", "[3, 2, 1]"),
    ];
    for (template, text) in expected {
        assert_eq!(rendered(template).as_deref(), Ok(text), "{template}");
    }
    assert_eq!(evaluated("result.n + 1"), Ok(json!(3)));
    assert_eq!(
        evaluated("[title, {'a': result.n}]"),
        Ok(json!(["buy milk", { "a": 2 }]))
    );
    assert_eq!(
        evaluated("result.tasks | selectattr('title', 'eq', 'b') | list"),
        Ok(json!([{ "title": "b" }]))
    );
    assert_eq!(evaluated("nothing"), Ok(Value::Null));
    assert_eq!(evaluated("result.tasks[1:]"), Ok(json!([{ "title": "b" }])));
}

#[test]
fn a_reply_over_a_thousand_items_stays_within_the_limits() {
    let tasks: Vec<Value> = (0..1_000)
        .map(|number| json!({ "id": number, "title": format!("task {number}"), "done": number % 2 == 0 }))
        .collect();
    let context = json!({ "result": { "tasks": tasks } });
    let template = "{% set open = result.tasks | rejectattr('done') | list %}You have {{ open | length }}:\n\
                    {% for task in result.tasks %}{{ loop.index }}. {{ task.title }}{% if task.done %} (done){% endif %}\n{% endfor %}";
    let text = TemplateLanguage::new().text(template, context.as_object().unwrap());
    assert_eq!(text.unwrap().lines().count(), 1_001);
}

#[test]
fn the_check_accepts_every_filter_and_test_of_the_engine() {
    let listed = format!("{:?}", TemplateLanguage::new());
    for (list, before) in [("filters: ", "title | "), ("tests: ", "title is ")] {
        let names = listed.split(list).nth(1).unwrap();
        let names = names
            .split("\"]")
            .flat_map(|names| names.split("\"}"))
            .next()
            .unwrap();
        let names: Vec<&str> = names
            .split('"')
            .filter(|name| !name.is_empty() && name.chars().all(char::is_alphanumeric))
            .collect();
        assert!(names.len() > 30, "{list} {names:?}");
        for name in names {
            let template = format!("{{{{ {before}{name} }}}}");
            assert_eq!(found_in(&template), [""; 0], "{template}");
        }
    }
}

/// A context that writes down what it was asked.
#[derive(Default)]
struct RecordingContext(RefCell<Vec<String>>);

impl TemplateContext for RecordingContext {
    fn value_of(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.0.borrow_mut().push(name.to_owned());
        (name == "result").then(|| Cow::Owned(json!({ "tasks": [1, 2] })))
    }
}

#[test]
fn only_the_names_that_a_template_speaks_of_are_looked_up_and_each_once() {
    let context = RecordingContext::default();
    let template =
        "{% for task in result.tasks %}{{ task }}{% endfor %} {{ result.tasks | length }}";
    let text = TemplateLanguage::new().text(template, &context);
    assert_eq!(text.unwrap(), "12 2");
    let asked = context.0.into_inner();
    let of_result = asked.iter().filter(|name| *name == "result").count();
    assert_eq!(of_result, 1, "{asked:?}");
    assert!(
        asked.iter().all(|name| name == "result" || name == "task"),
        "{asked:?}"
    );
}
