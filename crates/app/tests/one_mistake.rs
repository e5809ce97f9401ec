//! One mistake is one problem, in the line of the mistake.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use convoke_app::{App, Diagnostics};

fn environment(_: &str) -> Option<String> {
    None
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The app of these files, with all its problems.
fn problems(files: &[(&str, &str)]) -> Diagnostics {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    match App::load(folder.path(), &environment) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    }
}

fn only(files: &[(&str, &str)], expected: &str) {
    let found = problems(files);
    assert_eq!(found.len(), 1, "{}", found.pretty());
    let told = found.to_string();
    assert!(told.starts_with(expected), "{told}");
}

const MAIN: (&str, &str) = ("convoke.yaml", "name: shop\n");
const CLERK: (&str, &str) = (
    "agents/clerk.yaml",
    "name: clerk\nrole: Sells.\nsystem_prompt: Sell.\ntools: [desk.sell, desk.show]\n",
);
const DESK: (&str, &str) = (
    "config/mcp_servers.yaml",
    "servers:\n  - name: desk\n    transport:\n      stdio: { command: desk }\n",
);

/// Every file of an app, with its path.
fn files_of(app: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_of(app, &path, found);
        } else if path.extension().is_some_and(|ending| ending == "yaml") {
            let name = path.strip_prefix(app).unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(path).unwrap()));
        }
    }
}

/// A line with its key misspelt, if it begins with one.
fn misspelt(line: &str) -> Option<String> {
    let start = line.find(|first: char| first != ' ' && first != '-')?;
    let (key, rest) = line[start..].split_once(':')?;
    let is_key = key
        .chars()
        .all(|next| next.is_ascii_lowercase() || next == '_');
    let is_whole = rest.is_empty() || rest.starts_with(' ');
    (is_key && is_whole).then(|| format!("{}{key}x:{rest}", &line[..start]))
}

/// Misspells the keys of an app one by one, every `step`th of them.
fn misspell_every_key(app: &str, step: usize) {
    let app = root().join(app);
    let mut files = Vec::new();
    files_of(&app, &app, &mut files);
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in &files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut count = 0;
    let mut tried = 0;
    for (path, text) in &files {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(changed) = misspelt(line) else {
                continue;
            };
            tried += 1;
            if tried % step != 0 {
                continue;
            }
            let mut lines = lines.clone();
            lines[index] = &changed;
            let file = folder.path().join(path);
            fs::write(&file, lines.join("\n")).unwrap();
            let found = App::load(folder.path(), &environment).err();
            fs::write(&file, text).unwrap();
            let place = format!("{path}:{}:", index + 1);
            // A key that is a name, such as a node's, is renamed by this: another mistake.
            let Some(found) = found.filter(|found| {
                let mut problems = found.iter();
                problems.any(|problem| problem.code == "app.unknown_key")
            }) else {
                continue;
            };
            count += 1;
            assert_eq!(found.len(), 1, "{place} {changed}\n{}", found.pretty());
            assert!(found.to_string().starts_with(&place), "{place} {found}");
        }
    }
    assert!(count > 3, "{count} keys were misspelt");
}

#[test]
fn a_misspelt_key_is_one_problem_in_every_file_of_a_small_app() {
    misspell_every_key("examples/pantry", 1);
    misspell_every_key("apps/operations", 1);
}

#[test]
fn a_misspelt_key_is_one_problem_among_many_agents() {
    misspell_every_key("apps/home", 41);
}

#[test]
fn a_misspelt_key_is_one_problem_among_many_domains_and_evals() {
    misspell_every_key("apps/retail", 37);
}

#[test]
fn a_server_that_is_not_there_is_told_once_with_the_number_of_places() {
    let found = problems(&[MAIN, CLERK]);
    assert_eq!(found.len(), 1, "{}", found.pretty());
    let renamed = DESK.1.replace("desk\n", "dask\n");
    let found = problems(&[MAIN, CLERK, (DESK.0, &renamed)]);
    assert_eq!(found.len(), 1, "{}", found.pretty());
    let told = found.to_string();
    assert!(told.contains("there is no tool server `desk`"), "{told}");
    assert!(
        told.contains("the same at agents/clerk.yaml:4:20"),
        "{told}"
    );
}

#[test]
fn a_wrong_state_in_a_retention_policy_is_told_in_its_line() {
    let policy = "default_days: 7\nby_status:\n  completed: 14\n  # typing error\n  faild: 30\n";
    let found = problems(&[MAIN, CLERK, DESK, ("config/retention_policy.yaml", policy)]);
    assert_eq!(found.len(), 1, "{}", found.pretty());
    let told = found.to_string();
    assert!(
        told.starts_with("config/retention_policy.yaml:5:3: error"),
        "{told}"
    );
    assert!(found.pretty().contains("^^^^^"), "{}", found.pretty());
}

#[test]
fn a_circle_is_told_at_the_edge_that_closes_it() {
    let workflow = "\
name: main
entry_point: a
nodes:
  a: { type: condition, expression: 'true' }
  b: { type: condition, expression: 'true' }
  c: { type: compose, prompt: Done. }
edges:
  - { from: a, to: b }
  - { from: b, to: { yes: c, no: a } }
";
    only(
        &[MAIN, CLERK, DESK, ("workflows/main.yaml", workflow)],
        "workflows/main.yaml:9:16: error[workflow.cycle]",
    );
}

#[test]
fn a_renamed_node_is_one_problem() {
    let workflow = "\
name: main
entry_point: a
nodes:
  a: { type: condition, expression: 'true' }
  bee: { type: tool, tool: desk.show }
  c: { type: compose, prompt: '{{ b.text }}' }
edges:
  - { from: a, to: b }
  - { from: b, to: c }
";
    let found = problems(&[MAIN, CLERK, DESK, ("workflows/main.yaml", workflow)]);
    assert_eq!(found.len(), 1, "{}", found.pretty());
    assert!(
        found.to_string().contains("there is no node `b`"),
        "{found}"
    );
}

#[test]
fn a_variable_that_is_not_set_is_one_problem_and_a_warning_where_only_files_are_checked() {
    let servers = "\
servers:
  - name: desk
    transport:
      http: { url: '${DESK_URL}', headers: { authorization: 'Bearer ${DESK_TOKEN}' } }
";
    let files = [MAIN, CLERK, ("config/mcp_servers.yaml", servers)];
    let found = problems(&files);
    assert_eq!(found.len(), 2, "{}", found.pretty());
    assert_eq!(
        found.to_string().matches("app.environment_missing").count(),
        2
    );

    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let loaded = App::load_to_check(folder.path(), &environment).unwrap();
    let told = loaded.warnings.to_string();
    assert_eq!(loaded.warnings.len(), 2, "{told}");
    assert!(told.contains("warning[app.environment_missing]"), "{told}");
}

#[test]
fn a_sentence_in_two_skills_is_noted_at_its_second_place() {
    let skill = |name: &str, sentence: &str| {
        format!(
            "  - name: {name}\n    description: Does it.\n    sentences: [\"{sentence}\"]\n    \
             action: {{ tool: desk.{name}, reply: Done. }}\n"
        )
    };
    let agent = format!(
        "{}skills:\n{}{}",
        CLERK.1,
        skill("sell", "sell  the lamp"),
        skill("show", "Sell the lamp")
    );
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [MAIN, DESK, (CLERK.0, &agent)] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let loaded = App::load(folder.path(), &environment).unwrap();
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings.pretty());
    let notes = loaded.app.shared_sentences();
    let [note] = &notes[..] else {
        unreachable!("{notes:?}")
    };
    let told = note.to_string();
    assert!(
        told.starts_with("agents/clerk.yaml:12:17: note[app.sentence_shared]"),
        "{told}"
    );
    assert!(
        told.contains("`sell` (agents/clerk.yaml), `show`"),
        "{told}"
    );
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_the_only_problem() {
    let main = (
        "convoke.yaml",
        "name: shop\ndecide:\n  phrases: {please: (please|kindly)}\n",
    );
    let evals = (
        "evals/cases.yaml",
        "cases:\n  - {say: sell me a hat, expect: {intent: sell}}\n",
    );
    let agent = format!(
        "{}skills:\n  - name: sell\n    description: Sell.\n    sentences: ['<please> sell {{what}}']\n    slots:\n      \
         what: {{ask: What?}}\n    action:\n      tool: desk.sell\n      reply: \"Sold.\"\n",
        CLERK.1
    );
    assert_eq!(problems(&[main, (CLERK.0, &agent), DESK, evals]).len(), 0);
    for (right, wrong, expected) in [
        (
            "      tool: desk",
            "\t  tool: desk",
            "agents/clerk.yaml:12:1: error[app.syntax]",
        ),
        (
            "\"Sold.\"",
            "\"Sold.",
            "agents/clerk.yaml:13:14: error[app.syntax]",
        ),
        (
            "role: Sells.",
            "role: Sells: all",
            "agents/clerk.yaml:2:12: error[app.syntax]",
        ),
        (
            "\"Sold.\"",
            "{{ what }}",
            "agents/clerk.yaml:13:15: error[app.key_not_text]",
        ),
        (
            "what: {ask",
            "what: *who {ask",
            "agents/clerk.yaml:10:13: error[app.alias_unknown]",
        ),
        (
            "Sell.\n    sent",
            "Se\0l.\n    sent",
            "agents/clerk.yaml:7:20: error[app.control_character]",
        ),
    ] {
        let broken = agent.replacen(right, wrong, 1);
        assert_ne!(broken, agent);
        only(&[main, (CLERK.0, &broken), DESK, evals], expected);
    }
    only(
        &[main, (CLERK.0, ""), DESK, evals],
        "agents/clerk.yaml: error[app.file_empty]",
    );
    only(
        &[
            main,
            ("convoke.json", "{\"name\": \"shop\"}"),
            (CLERK.0, &agent),
            DESK,
            evals,
        ],
        "convoke.yaml: error[app.file_twice]",
    );
}

#[test]
fn help_with_the_syntax_says_what_to_write() {
    for (text, expected) in [
        (
            "name: shop\ndecide:\n\tthreshold: 0.5\n",
            "indent with spaces",
        ),
        (
            "name: shop\ndescription: \"A shop\nversion: '1'\n",
            "close the quotation mark",
        ),
        ("name: shop\ndescription: A shop: hats\n", "into quotes"),
    ] {
        let found = problems(&[("convoke.yaml", text), CLERK, DESK]);
        assert!(found.to_string().contains("app.syntax"), "{found}");
        assert!(found.pretty().contains(expected), "{}", found.pretty());
    }
}

#[test]
fn a_value_of_the_wrong_type_takes_no_other_problem_along() {
    let limits = "name: shop\nlimits: {task_seconds: thirty, tool_seconds: 10}\n";
    only(
        &[("convoke.yaml", limits), CLERK, DESK],
        "convoke.yaml:2:24: error[app.wrong_type]",
    );
    let servers = "servers:\n  name: desk\n  transport: {stdio: {command: desk}}\n";
    only(
        &[MAIN, CLERK, (DESK.0, servers)],
        "config/mcp_servers.yaml:1:1: error[app.wrong_type]",
    );
}

#[test]
fn a_key_that_is_none_of_the_states_is_told_with_those_that_are() {
    let policy = ("config/retention_policy.yaml", "by_status: {faild: 90}\n");
    let files = [MAIN, CLERK, DESK, policy];
    only(
        &files,
        "config/retention_policy.yaml:1:13: error[app.unknown_value]: there is no `faild`",
    );
    assert!(problems(&files).pretty().contains("did you mean `failed`?"));
}

#[test]
fn what_is_not_utf8_is_told_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [MAIN, CLERK, DESK] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let path = folder.path().join("config/retention_policy.yaml");
    fs::write(path, b"default_days: 3\n# f\xfcnf Tage\n").unwrap();
    let found = App::load(folder.path(), &environment).err().unwrap();
    let told = found.to_string();
    assert!(
        told.starts_with("config/retention_policy.yaml:2:4: error[app.file_not_text]"),
        "{told}"
    );
    assert_eq!(found.len(), 1);
}

#[test]
fn a_misspelt_slot_that_is_asked_for_is_told_although_sentences_may_have_any_slot() {
    let agent = format!(
        "{}skills:\n  - name: sell\n    description: Sell.\n    sentences: ['sell {{hats}}', 'sell']\n    slots:\n      \
         hast: {{ask: Which hat?}}\n      size: {{ask: What size?}}\n    action:\n      tool: desk.sell\n      reply: Sold.\n",
        CLERK.1
    );
    let files = [MAIN, (CLERK.0, agent.as_str()), DESK];
    only(&files, "agents/clerk.yaml:10:7: warning[app.slot_unused]");
    assert!(problems(&files).pretty().contains("did you mean `hats`"));
}
