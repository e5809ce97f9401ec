//! `${NAME}` in an app's files: filled in from the environment and hidden from all output.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{Position, Source};
use crate::yaml::{MAX_PROBLEMS_PER_FILE, Node};

/// Shorter values are not hidden: hiding them would make every text unreadable.
pub const MIN_SECRET_LENGTH: usize = 4;

/// The variable that stands for the app folder, as an absolute path. It is no secret, and the environment cannot set it.
pub(crate) const APP_FOLDER_VARIABLE: &str = "APP_DIR";

/// The app folder as an absolute path; the current folder for an app without one.
pub(crate) fn app_folder(folder: &Path) -> String {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    absolute.to_string_lossy().into_owned()
}

/// Values from the environment, by name. The `Debug` form shows only the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, String>);

impl Secrets {
    /// Replaces every value from the environment by its `${NAME}`.
    pub fn redact(&self, text: &str) -> String {
        let mut values: Vec<_> = self
            .0
            .iter()
            .filter(|(_, value)| value.len() >= MIN_SECRET_LENGTH)
            .collect();
        // Longer values first, because a value may contain another one.
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        values
            .into_iter()
            .fold(text.to_owned(), |text, (name, value)| {
                text.replace(value.as_str(), &format!("${{{name}}}"))
            })
    }

    /// The variables that the app's files use.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Where variables come from, and what one is that is not set.
pub(crate) struct Variables<'a> {
    pub(crate) environment: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) missing: Severity,
}

impl Variables<'_> {
    /// For files that were read before: every variable is set, to nothing.
    pub(crate) const EMPTY: Variables<'static> = Variables {
        environment: &|_| Some(String::new()),
        missing: Severity::Error,
    };

    /// What a variable stands for that is not set: a text that fits wherever a text, a URL or a path does.
    fn stand_in(name: &str) -> String {
        format!("http://{name}.unset")
    }
}

/// What came of filling in a file.
#[derive(Debug, Default)]
pub(crate) struct Substituted {
    pub(crate) problems: Vec<Diagnostic>,
    /// Where the values begin that are not known.
    pub(crate) unknown: BTreeSet<Position>,
}

/// Fills in every `${NAME}` of a file. Missing variables are reported. Where that is a warning, a text that fits takes
/// their place.
pub(crate) fn substitute(
    node: &mut Node,
    source: &Source,
    variables_of: &Variables<'_>,
    secrets: &mut Secrets,
) -> Substituted {
    let environment = variables_of.environment;
    let mut unknown = BTreeSet::new();
    let mut problems = Vec::new();
    node.replace_texts(&mut |text, place| {
        if problems.len() >= MAX_PROBLEMS_PER_FILE {
            return None;
        }
        let mut filled = String::with_capacity(text.len());
        let mut end = 0;
        for variable in variables(text) {
            if problems.len() >= MAX_PROBLEMS_PER_FILE {
                break;
            }
            filled.push_str(&text[end..variable.start]);
            end = variable.end;
            let error = |code, message: String| {
                let part = source.place_within(place, text, variable.start..variable.end);
                Diagnostic::at(Severity::Error, source, part, code, message)
            };
            match variable.kind {
                VariableKind::Escape => filled.push_str("${"),
                VariableKind::Malformed => problems.push(
                    error(
                        "app.environment_syntax",
                        "`${` is not followed by a variable".to_owned(),
                    )
                    .help("write `${NAME}` or `${NAME:-default}`, or `$${` for a literal `${`"),
                ),
                VariableKind::Named {
                    name: APP_FOLDER_VARIABLE,
                    ..
                } => filled.push_str(&environment(APP_FOLDER_VARIABLE).unwrap_or_default()),
                VariableKind::Named { name, default } => match (environment(name), default) {
                    (Some(value), None) => {
                        filled.push_str(&value);
                        secrets.0.insert(name.to_owned(), value);
                    }
                    (Some(value), Some(_)) if !value.is_empty() => {
                        filled.push_str(&value);
                        secrets.0.insert(name.to_owned(), value);
                    }
                    (_, Some(default)) => filled.push_str(default),
                    (None, None) => {
                        let message = format!("the environment variable `{name}` is not set");
                        let mut problem = error("app.environment_missing", message);
                        problem.severity = variables_of.missing;
                        let help = format!("set it, or write `${{{name}:-default}}`");
                        problems.push(problem.help(help));
                        unknown.insert(place.start);
                        if variables_of.missing == Severity::Warning {
                            filled.push_str(&Variables::stand_in(name));
                        }
                    }
                },
            }
        }
        filled.push_str(&text[end..]);
        (filled != text).then_some(filled)
    });
    Substituted { problems, unknown }
}

/// Whether a text contains a variable.
pub(crate) fn has_variable(text: &str) -> bool {
    names(text).next().is_some()
}

/// The variables in a text.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    let names = variables(text).into_iter();
    names.filter_map(|variable| match variable.kind {
        VariableKind::Named { name, .. } => Some(name),
        VariableKind::Escape | VariableKind::Malformed => None,
    })
}

struct Variable<'a> {
    start: usize,
    end: usize,
    kind: VariableKind<'a>,
}

enum VariableKind<'a> {
    /// `$${`, the escape of `${`.
    Escape,
    /// `${` with no name after it.
    Malformed,
    Named {
        name: &'a str,
        default: Option<&'a str>,
    },
}

fn variables(text: &str) -> Vec<Variable<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find("${") {
        let start = at + offset;
        let inner = start + 2;
        if text[..start].ends_with('$') && start > at {
            found.push(Variable {
                start: start - 1,
                end: inner,
                kind: VariableKind::Escape,
            });
            at = inner;
            continue;
        }
        // `${{ price }}` is a dollar sign followed by a template expression.
        if text[inner..].starts_with('{') {
            at = inner;
            continue;
        }
        let body = text[inner..]
            .find('}')
            .map(|length| &text[inner..inner + length]);
        let (name, default) = match body.and_then(|body| body.split_once(":-")) {
            Some((name, default)) => (name, Some(default)),
            None => (body.unwrap_or_default(), None),
        };
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name
                .chars()
                .all(|next| next.is_ascii_alphanumeric() || next == '_');
        let (end, kind) = match body {
            Some(body) if is_name => (
                inner + body.len() + 1,
                VariableKind::Named { name, default },
            ),
            _ => (inner, VariableKind::Malformed),
        };
        found.push(Variable { start, end, kind });
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn environment(name: &str) -> Option<String> {
        match name {
            "KEY" => Some("sk-very-secret".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn filled(text: &str) -> (String, Vec<String>, Secrets) {
        let source = Source::new("x.yaml", format!("a: '{text}'\n"));
        let mut node = yaml::parse(&source).0.unwrap();
        let mut secrets = Secrets::default();
        let variables = Variables {
            environment: &environment,
            missing: Severity::Error,
        };
        let filled = substitute(&mut node, &source, &variables, &mut secrets);
        let problems = filled
            .problems
            .iter()
            .map(|p| format!("{} {}", p.position.unwrap(), p.code))
            .collect();
        (
            node.get("a").unwrap().as_text().unwrap().to_owned(),
            problems,
            secrets,
        )
    }

    #[test]
    fn variables_defaults_and_escapes_are_filled_in() {
        for (text, expected) in [
            ("Bearer ${KEY}!", "Bearer sk-very-secret!"),
            ("${GONE:-here}", "here"),
            ("${EMPTY:-here}", "here"),
            ("${EMPTY}", ""),
            ("${KEY:-here}", "sk-very-secret"),
            ("$${KEY} ${GONE:-}", "${KEY} "),
            ("costs ${{ price }}", "costs ${{ price }}"),
            ("5 $ and 6$", "5 $ and 6$"),
        ] {
            let (text, problems, _) = filled(text);
            assert_eq!((text.as_str(), problems.len()), (expected, 0));
        }
    }

    #[test]
    fn every_missing_or_malformed_variable_is_reported_at_its_position() {
        let (_, problems, _) = filled("${ONE} and ${TWO} and ${3} and ${FOUR");
        assert_eq!(
            problems,
            [
                "1:5 app.environment_missing",
                "1:16 app.environment_missing",
                "1:27 app.environment_syntax",
                "1:36 app.environment_syntax",
            ]
        );
    }

    #[test]
    fn a_secret_is_neither_printed_nor_left_in_a_text() {
        let (_, _, secrets) = filled("${KEY}");
        assert_eq!(format!("{secrets:?}"), "{\"KEY\"}");
        assert_eq!(secrets.redact("refused: sk-very-secret"), "refused: ${KEY}");
    }
}
