//! One mistake, one problem: leaves out what only follows from another problem, and tells what is the same once.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};

/// References, and the beginnings of the files that define what they refer to.
const REFERENCES: [(&str, &[&str]); 9] = [
    ("app.server_unknown", &["config/mcp_servers."]),
    ("app.no_server", &["config/mcp_servers."]),
    ("app.agent_unknown", &["agents/"]),
    ("app.domain_unknown", &["config/domains."]),
    ("app.workflow_unknown", &["workflows/"]),
    ("app.target_unknown", &["agents/", "config/domains."]),
    ("app.intent_unknown", &["agents/", "workflows/"]),
    ("app.model_unknown", &["convoke."]),
    ("pattern.phrase_unknown", &["convoke."]),
];

/// References to nodes of the same workflow.
const NODE_REFERENCES: [&str; 4] = [
    "workflow.entry_point_unknown",
    "workflow.edge_unknown",
    "workflow.of_unknown",
    "workflow.checkpoint_unknown",
];

/// Files with one of these are not read at all, or not to their end.
const UNREAD: [&str; 12] = [
    "app.syntax",
    "app.several_documents",
    "app.key_not_text",
    "app.alias_unknown",
    "app.control_character",
    "app.file_twice",
    "app.file_unreadable",
    "app.file_empty",
    "app.file_too_large",
    "app.file_not_text",
    "app.too_deep",
    "app.duplicate_key",
];

/// Keys without which definitions have no name, or are not found.
const DEFINING_KEYS: [&str; 8] = [
    "name", "servers", "domains", "skills", "phrases", "decide", "models", "nodes",
];

/// Keys that bring the names that templates use.
const NAMING_KEYS: [&str; 5] = ["slots", "state", "nodes", "output", "map"];

const UNKNOWN_VARIABLE: &str = "app.template_variable";

/// Reduces problems to their causes.
pub(crate) fn reduced(problems: Diagnostics) -> Diagnostics {
    let problems = problems.sorted();
    let facts = Facts::of(&problems);
    let mut kept: Vec<Diagnostic> = Vec::new();
    let mut same: BTreeMap<(&'static str, String), Vec<usize>> = BTreeMap::new();
    let mut counts: BTreeMap<usize, (usize, String)> = BTreeMap::new();
    for problem in problems {
        if facts.follows(&problem) {
            continue;
        }
        let Some(group) = group_of(&problem) else {
            kept.push(problem);
            continue;
        };
        let first = same.entry(group).or_default();
        if let [first, ..] = first[..] {
            let place = place_of(&problem);
            counts.entry(first).or_insert((0, place)).0 += 1;
        } else {
            first.push(kept.len());
            kept.push(problem);
        }
    }
    for (index, (number, place)) in counts {
        let more = match number {
            1 => format!("the same at {place}"),
            _ => format!("the same at {number} more places, the next one at {place}"),
        };
        let problem = &mut kept[index];
        problem.help = Some(match problem.help.take() {
            Some(help) => format!("{help}; {more}"),
            None => more,
        });
    }
    kept.into_iter().collect()
}

fn place_of(problem: &Diagnostic) -> String {
    match problem.position {
        Some(position) => format!("{}:{position}", problem.file),
        None => problem.file.clone(),
    }
}

/// Problems of one group are told once: references to one name that is not there.
fn group_of(problem: &Diagnostic) -> Option<(&'static str, String)> {
    let name = quoted(&problem.message)?;
    if NODE_REFERENCES.contains(&problem.code) || problem.code == UNKNOWN_VARIABLE {
        return Some((problem.code, format!("{} {name}", problem.file)));
    }
    let mut references = REFERENCES.iter();
    let (code, _) = references.find(|(code, _)| *code == problem.code)?;
    Some((code, problem.message.clone()))
}

fn has_suggestion(problem: &Diagnostic) -> bool {
    const SUGGESTION: &str = "did you mean";
    let help = problem.help.as_deref().unwrap_or_default();
    help.contains(SUGGESTION) || problem.message.contains(SUGGESTION)
}

/// The name that a message is about: the first one in backticks.
fn quoted(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once('`')?;
    rest.split_once('`').map(|(name, _)| name)
}

/// What other problems may follow from.
#[derive(Default)]
struct Facts {
    /// Files whose definitions are not all known.
    undefined: BTreeSet<String>,
    /// Keys that a misspelt one may be meant as, by file.
    meant: BTreeSet<(String, String)>,
    /// Lines with an unknown key.
    unknown_keys: BTreeSet<(String, usize)>,
    /// Names of nodes that are not there, by file.
    nodes: BTreeSet<(String, String)>,
    phrase_unknown: bool,
    /// Phrases that may be meant by those that are not there.
    phrases: BTreeSet<String>,
}

impl Facts {
    fn of(problems: &Diagnostics) -> Self {
        let mut facts = Self::default();
        let errors = problems.iter();
        for error in errors.filter(|problem| problem.severity == Severity::Error) {
            let file = error.file.clone();
            let key = match error.code {
                "app.unknown_key" => {
                    let line = error.position.map_or(0, |position| position.line);
                    facts.unknown_keys.insert((file.clone(), line));
                    error.help.as_deref().and_then(quoted)
                }
                "app.missing_key" | "app.wrong_type" => quoted(&error.message),
                _ => None,
            };
            if UNREAD.contains(&error.code) || key.is_some_and(|key| DEFINING_KEYS.contains(&key)) {
                facts.undefined.insert(file.clone());
            }
            if NODE_REFERENCES.contains(&error.code) {
                let name = quoted(&error.message).unwrap_or_default();
                facts.nodes.insert((file.clone(), name.to_owned()));
            }
            if let Some(key) = key {
                facts.meant.insert((file, key.to_owned()));
            }
            if error.code == "pattern.phrase_unknown" {
                facts.phrase_unknown = true;
                let suggestion = error.message.rsplit_once("`<");
                let suggestion = suggestion.and_then(|(_, rest)| rest.split_once(">`"));
                let suggestion = suggestion.map(|(name, _)| name.replace('-', "_"));
                facts.phrases.extend(suggestion);
            }
        }
        facts
    }

    /// Whether a problem only follows from another one.
    fn follows(&self, problem: &Diagnostic) -> bool {
        let file = &problem.file;
        let line = problem.position.map_or(0, |position| position.line);
        match problem.code {
            UNKNOWN_VARIABLE => {
                let name = quoted(&problem.message).unwrap_or_default();
                self.may_mean(file, &NAMING_KEYS)
                    || self.unknown_keys.contains(&(file.clone(), line))
                    || self.nodes.contains(&(file.clone(), name.to_owned()))
            }
            "app.slot_unknown" | "app.slot_unused" => {
                self.may_mean(file, &["slots", "sentences", "action", "arguments"])
            }
            "action.target" | "action.reply_missing" => {
                self.may_mean(file, &["tool", "workflow", "reply"])
            }
            "app.input_missing" => self.may_mean(file, &["arguments", "inputs"]),
            "app.tool_not_listed" => {
                !has_suggestion(problem) && self.may_mean(file, &["tools", "tool"])
            }
            "workflow.unreachable" | "workflow.unchecked" => {
                self.nodes.iter().any(|(torn, _)| torn == file)
            }
            "pattern.no_literal" | "pattern.slots_adjacent" => self.phrase_unknown,
            "app.phrase_unused" => {
                let name = quoted(&problem.message).unwrap_or_default();
                let mut files = self.meant.iter().map(|(file, _)| file);
                let mut undefined = self.undefined.iter();
                undefined.any(|file| file.starts_with("agents/"))
                    || self.phrases.contains(name.trim_matches(['<', '>']))
                    || files.any(|file| self.may_mean(file, &["sentences", "skills"]))
            }
            code => {
                let mut references = REFERENCES.iter();
                let defined_in = references.find(|(reference, _)| *reference == code);
                // What is written like a name that is there is probably a mistake of its own.
                defined_in.is_some_and(|(_, files)| {
                    if has_suggestion(problem) {
                        return false;
                    }
                    let begins =
                        |known: &String| files.iter().any(|begin| known.starts_with(begin));
                    self.undefined.iter().any(begins)
                })
            }
        }
    }

    /// Whether a misspelt or missing key of a file may be one of these.
    fn may_mean(&self, file: &str, keys: &[&str]) -> bool {
        let meant = |key: &&str| self.meant.contains(&(file.to_owned(), (*key).to_owned()));
        keys.iter().any(meant)
    }
}
