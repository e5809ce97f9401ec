//! Hostile files: bombs, depth and size. Each is rejected with its own code.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod support;

use convoke_app::{MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES, MAX_PROBLEMS_PER_FILE};
use std::fmt::Write as _;
use support::{app, found, problems_in};

#[test]
fn a_billion_laughs_attack_is_rejected() {
    let mut text = "name: todo\na: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for (before, after) in "abcdefghi".chars().zip("bcdefghij".chars()) {
        let nine = vec![format!("*{before}"); 9].join(", ");
        writeln!(text, "{after}: &{after} [{nine}]").unwrap();
    }
    let problems = found(&[("convoke.yaml", &text)]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].ends_with("app.too_many_values"), "{problems:?}");
}

#[test]
fn an_ordinary_alias_is_expanded() {
    let agent = support::AGENT
        .replace("role: Keeps a list.", "role: &role Keeps a list.")
        .replace("system_prompt: Keep a list.", "system_prompt: *role");
    assert_eq!(found(&[("agents/todo.yaml", &agent)]), [""; 0]);
}

#[test]
fn an_alias_inside_its_own_value_is_refused() {
    let problems = found(&[("convoke.yaml", "name: todo\nlimits: &a {x: *a}\n")]);
    assert_eq!(problems, ["convoke.yaml:2:16 app.alias_unknown"]);
}

#[test]
fn nesting_is_bounded_directly_and_through_aliases() {
    let (open, close) = ("[".repeat(MAX_DEPTH + 9), "]".repeat(MAX_DEPTH + 9));
    let text = format!("name: todo\nx: {open}{close}\n");
    let problems = found(&[("convoke.yaml", &text)]);
    assert_eq!(
        problems,
        [format!("convoke.yaml:2:{} app.too_deep", MAX_DEPTH + 3)]
    );
    let endless = "[".repeat(100_000);
    assert_eq!(found(&[("convoke.yaml", &endless)]).len(), 1);
    let half = MAX_DEPTH / 2;
    let (open, close) = ("[".repeat(half), "]".repeat(half));
    let text = format!("x: &a {open}{close}\ny: {open}*a{close}\n");
    let problems = found(&[("convoke.yaml", &text)]);
    assert_eq!(
        problems,
        [format!("convoke.yaml:2:{} app.too_deep", half + 4)]
    );
}

#[test]
fn no_character_ends_a_file_before_its_end() {
    let at = |text: &str| found(&[("convoke.yaml", text)]);
    let refused = |place: &str| [format!("convoke.yaml:{place} app.control_character")];
    assert_eq!(at("name: todo\n\0limts: {}\n"), refused("2:1"));
    assert_eq!(at("name: todo\0\nlimts: {}\n"), refused("1:11"));
    assert_eq!(
        at("\u{feff}name: todo # a\0b\nlimts: {}\n"),
        refused("1:15")
    );
    assert_eq!(at("name: todo\rlimts: \0{}\r"), refused("2:8"));
    for character in [
        '\u{1}', '\u{7}', '\u{b}', '\u{1b}', '\u{7f}', '\u{9b}', '\u{fffe}', '\u{feff}',
    ] {
        assert_eq!(
            at(&format!("name: todo\ndescription: a{character}b\n")),
            refused("2:15")
        );
    }
    // UTF-16 text without a byte order mark is ASCII with a NUL after every letter.
    let wide: String = "name: todo\n"
        .chars()
        .flat_map(|letter| [letter, '\0'])
        .collect();
    assert_eq!(at(&wide), refused("1:2"));
    let json = "{\"name\": \"todo\", \"description\": \"a\u{7f}b\"}\n";
    let folder = app(&[("convoke.json", json)]);
    std::fs::remove_file(folder.path().join("convoke.yaml")).unwrap();
    assert_eq!(problems_in(folder.path()), [""; 0]);
}

#[test]
fn a_file_in_another_encoding_is_refused() {
    let folder = app(&[]);
    for (mark, bytes) in [
        (
            [0xff, 0xfe],
            "name: todo\n"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect::<Vec<_>>(),
        ),
        (
            [0xfe, 0xff],
            "name: todo\n"
                .encode_utf16()
                .flat_map(u16::to_be_bytes)
                .collect(),
        ),
    ] {
        std::fs::write(
            folder.path().join("convoke.yaml"),
            [&mark[..], &bytes].concat(),
        )
        .unwrap();
        let loaded = convoke_app::App::load(folder.path(), &|_| None).unwrap_err();
        let problem = loaded.iter().next().unwrap().to_string();
        assert!(
            problem.contains("app.file_not_text") && problem.contains("UTF-16"),
            "{problem}"
        );
    }
}

#[test]
fn text_after_the_end_of_a_document_is_not_ignored() {
    let at = |text: &str| found(&[("convoke.yaml", text)]);
    let several = |place: &str| [format!("convoke.yaml:{place} app.several_documents")];
    assert_eq!(at("name: todo\n...\nlimts: {}\n"), several("3:1"));
    assert_eq!(at("name: todo\n...\n---\n...\n"), several("3:1"));
    assert_eq!(at("---\n...\nname: todo\n"), several("3:1"));
    assert_eq!(
        at("name: todo\n... limts\n"),
        ["convoke.yaml:2:5 app.syntax"]
    );
    assert_eq!(at("{name: todo} x"), ["convoke.yaml:1:14 app.syntax"]);
    assert_eq!(
        at("{\"name\": \"todo\"}\n}\n"),
        ["convoke.yaml:2:1 app.syntax"]
    );
    assert_eq!(at("name: todo\n...\n# nothing\n"), [""; 0]);
    // The byte order mark is not part of the text.
    assert_eq!(
        at("\u{feff}name: todo\nlimts: {}\n"),
        ["convoke.yaml:2:1 app.unknown_key"]
    );
}

#[test]
fn lines_end_alike_on_every_system() {
    for end in ["\n", "\r\n", "\r"] {
        let text = [
            "# a comment",
            "name: todo",
            "decide:",
            "  unknown: |",
            "    Hm.",
            "    {{ wat }}",
            "",
        ]
        .join(end);
        assert_eq!(
            found(&[("convoke.yaml", &text)]),
            ["convoke.yaml:6:8 app.template_variable"],
            "{end:?}"
        );
    }
}

#[test]
fn every_way_to_nest_is_bounded() {
    for text in [
        (0..500).fold(String::new(), |text, depth| {
            text + &format!("{}a:\n", " ".repeat(depth))
        }),
        format!("x:\n  {}1\n", "- ".repeat(20_000)),
        "? ".repeat(20_000),
        "{".repeat(100_000),
        "{a: ".repeat(100_000),
        "[{".repeat(100_000),
        "- ".repeat(100_000),
        format!("x: {}1\n", "&a ".repeat(20_000)),
        format!("x: {}1\n", "!!str ".repeat(20_000)),
        format!("{}: 1\n", "k".repeat(100_000)),
    ] {
        let problems = found(&[("convoke.yaml", &text)]);
        let start: String = text.chars().take(20).collect();
        assert!(
            problems.len() == 1
                && (problems[0].ends_with("app.too_deep") || problems[0].ends_with("app.syntax")),
            "{start}: {problems:?}"
        );
    }
}

#[test]
fn sentences_and_phrases_are_bounded() {
    let saying = |sentence: &str| {
        let agent = support::AGENT.replace("add {title}", &format!("'add {{title}} {sentence}'"));
        found(&[("agents/todo.yaml", &agent)])
    };
    let deep = format!("{}now{}", "[".repeat(400), "]".repeat(400));
    assert_eq!(saying(&deep), ["agents/todo.yaml:9:38 pattern.too_deep"]);
    let deep = "(".repeat(900);
    assert_eq!(saying(&deep), ["agents/todo.yaml:9:38 pattern.too_deep"]);
    let long = "[please] ".repeat(20_000);
    assert!(saying(&long)[0].ends_with("pattern.too_long"));
    // Each phrase is twice as long as the one before it.
    let mut config = "name: todo\ndecide:\n  phrases:\n    p0: (now|soon)\n".to_owned();
    for number in 1..60 {
        let before = number - 1;
        writeln!(
            config,
            "    p{number}: (<p{before}> <p{before}>|<p{before}>)"
        )
        .unwrap();
    }
    let agent = support::AGENT.replace("add {title}", "'add {title} <p59>'");
    let problems = found(&[("convoke.yaml", &config), ("agents/todo.yaml", &agent)]);
    assert!(!problems.is_empty());
    for problem in problems {
        assert!(problem.contains("pattern."), "{problem}");
    }
}

#[test]
fn a_file_may_be_as_large_as_the_limit_and_no_larger() {
    let limit = usize::try_from(MAX_FILE_BYTES).unwrap();
    let text = |bytes: usize| format!("name: todo\n#{}", "x".repeat(bytes - 12));
    assert_eq!(found(&[("convoke.yaml", &text(limit))]), [""; 0]);
    let problems = found(&[("convoke.yaml", &text(limit + 1))]);
    assert_eq!(problems, ["convoke.yaml app.file_too_large"]);
}

#[test]
fn the_number_of_files_is_bounded() {
    let folder = app(&[]);
    for number in 0..=MAX_FILES {
        std::fs::write(folder.path().join(format!("agents/.{number}")), "").unwrap();
    }
    assert_eq!(problems_in(folder.path())[0], "agents app.too_many_files");
}

#[test]
fn every_truncation_of_a_valid_file_loads_or_gives_diagnostics() {
    for (length, _) in support::AGENT.char_indices().step_by(7) {
        let folder = app(&[("agents/todo.yaml", &support::AGENT[..length])]);
        for problem in problems_in(folder.path()) {
            assert!(
                !problem.contains("app.invalid") && !problem.contains("app.incomplete"),
                "{problem}"
            );
        }
    }
}

#[test]
fn problems_of_a_file_are_reported_up_to_a_limit() {
    let mut text = "name: todo\n".to_owned();
    let mut variables = "name: todo\ndescription: '".to_owned();
    for number in 0..20_000 {
        writeln!(text, "unknown{number}: 1").unwrap();
        write!(variables, "${{X{number}}} ").unwrap();
    }
    let problems = found(&[("convoke.yaml", &text)]);
    assert_eq!(problems.len(), MAX_PROBLEMS_PER_FILE + 1);
    assert_eq!(problems[0], "convoke.yaml app.too_many_problems");
    let problems = found(&[("convoke.yaml", &(variables + "'\n"))]);
    assert_eq!(problems.len(), MAX_PROBLEMS_PER_FILE);
    let duplicates = "name: todo\n".repeat(20_000);
    assert_eq!(
        found(&[("convoke.yaml", &duplicates)]).len(),
        MAX_PROBLEMS_PER_FILE
    );
}

#[test]
fn copies_of_anchors_count_too() {
    let open = (0..60).fold(String::new(), |open, number| {
        open + &format!("&a{number} [")
    });
    let close = "]".repeat(60);
    let text = format!("x: {open}{}1{close}\n", "1,".repeat(5_000));
    let problems = found(&[("convoke.yaml", &text)]);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].ends_with("app.too_many_values"), "{problems:?}");
}
