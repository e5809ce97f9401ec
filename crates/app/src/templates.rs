//! Whether the templates in an app's files can be understood, and know what they speak of.

use std::collections::HashSet;

use minijinja::Environment;

use crate::diagnostic::{Diagnostic, Severity};
use crate::document::Document;
use crate::source::Place;
use crate::spelling::{did_you_mean, nearest};
use crate::yaml::{Kind, Node, push};

/// Checks templates. It holds one environment for all of them.
pub(crate) struct Templates {
    environment: Environment<'static>,
}

impl Templates {
    pub(crate) fn new() -> Self {
        let mut environment = Environment::new();
        // Only with this do errors carry the range at fault.
        environment.set_debug(true);
        Self { environment }
    }

    /// Checks the text under a JSON pointer, which may speak of the `known` names. A value that is
    /// no text, or is not given, is no template.
    pub(crate) fn check(
        &self,
        document: &Document,
        pointer: &str,
        known: &[&str],
    ) -> Vec<Diagnostic> {
        let Some((text, place)) = document.written_text(pointer) else {
            return Vec::new();
        };
        let template = match self.environment.template_from_str(text) {
            Ok(template) => template,
            Err(error) => return vec![misunderstood(document, place, text, &error)],
        };
        let unknown = self.unknown(template.undeclared_variables(false), known);
        unknown
            .into_iter()
            .map(|name| {
                let at = position_of_variable(text, &name);
                let place = document
                    .source
                    .place_within(place, text, at..at + name.len());
                let message = format!("the template speaks of `{name}`, which it does not know");
                let code = "app.template_variable";
                let source = &document.source;
                let mut error = Diagnostic::at(Severity::Error, source, place, code, message);
                error.help = did_you_mean(&name, known.iter().copied());
                error
            })
            .collect()
    }

    /// The names that nobody knows, each once.
    fn unknown(&self, names: HashSet<String>, known: &[&str]) -> Vec<String> {
        let is_unknown = |name: &String| {
            !known.contains(&name.as_str())
                && !self.environment.globals().any(|(global, _)| global == name)
        };
        let mut unknown: Vec<String> = names.into_iter().filter(is_unknown).collect();
        unknown.sort();
        unknown
    }

    /// Checks every text of the tree under a JSON pointer.
    pub(crate) fn check_all(
        &self,
        document: &Document,
        pointer: &str,
        known: &[&str],
    ) -> Vec<Diagnostic> {
        let pointers = texts_under(document, pointer);
        pointers
            .iter()
            .flat_map(|pointer| self.check(document, pointer, known))
            .collect()
    }

    /// Checks every text of the tree under a JSON pointer, over a state of which `fields` are known. Others
    /// may be set by a person or by whoever calls the workflow, so that they only make one wonder.
    pub(crate) fn check_over_state(
        &self,
        document: &Document,
        pointer: &str,
        fields: &[&str],
    ) -> Vec<Diagnostic> {
        let pointers = texts_under(document, pointer);
        let found = pointers
            .iter()
            .flat_map(|pointer| self.check(document, pointer, fields));
        found
            .map(|problem| {
                if problem.code == "app.template_variable" {
                    wondered(problem)
                } else {
                    problem
                }
            })
            .collect()
    }

    /// Checks the expression under a JSON pointer, such as a condition, over a state of which `fields` are
    /// known.
    pub(crate) fn check_expression(
        &self,
        document: &Document,
        pointer: &str,
        fields: &[&str],
    ) -> Vec<Diagnostic> {
        let Some((text, place)) = document.written_text(pointer) else {
            return Vec::new();
        };
        let source = &document.source;
        let error = match self.environment.compile_expression(text) {
            Err(error) => error,
            Ok(expression) => {
                let unknown = self.unknown(expression.undeclared_variables(false), fields);
                let problem = |name: String| {
                    let at = text.find(&name).unwrap_or(0);
                    let place = source.place_within(place, text, at..at + name.len());
                    let message = format!("the expression speaks of `{name}`, which no node gives");
                    let code = "app.template_variable";
                    let mut problem = Diagnostic::at(Severity::Error, source, place, code, message);
                    problem.help = nearest(&name, fields.iter().copied())
                        .map(|near| format!("did you mean `{near}`?"));
                    wondered(problem)
                };
                return unknown.into_iter().map(problem).collect();
            }
        };
        let why = reason(&error);
        let place = match error.range() {
            Some(range) => document.source.place_within(place, text, range),
            None => place,
        };
        let message = format!("the expression cannot be understood: {why}");
        let error = Diagnostic::at(
            Severity::Error,
            &document.source,
            place,
            "app.expression",
            message,
        );
        vec![error.help("write a condition without braces, such as `routing_key == \"yes\"`")]
    }
}

/// A field of a workflow's state that no node gives may still be set otherwise.
fn wondered(mut problem: Diagnostic) -> Diagnostic {
    problem.severity = Severity::Warning;
    match problem.help {
        Some(_) => problem,
        None => problem.help("if a person or another workflow sets it, list it under `state`"),
    }
}

fn misunderstood(
    document: &Document,
    place: Place,
    text: &str,
    error: &minijinja::Error,
) -> Diagnostic {
    let line_start = error.line().map_or(0, |line| offset_of_line(text, line));
    let range = error.range().unwrap_or(line_start..line_start);
    let place = document.source.place_within(place, text, range);
    let message = format!("the template cannot be understood: {}", reason(error));
    Diagnostic::at(
        Severity::Error,
        &document.source,
        place,
        "app.template",
        message,
    )
    .help("write expressions as `{{ name }}` and blocks as `{% if … %}…{% endif %}`")
}

fn reason(error: &minijinja::Error) -> String {
    error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned)
}

fn texts_under(document: &Document, pointer: &str) -> Vec<String> {
    let mut pointers = Vec::new();
    if let Some(node) = document.written.find(pointer) {
        collect_texts(node, &mut pointer.to_owned(), &mut pointers);
    }
    pointers
}

fn collect_texts(node: &Node, pointer: &mut String, found: &mut Vec<String>) {
    let length = pointer.len();
    match &node.kind {
        Kind::Text(_) => found.push(pointer.clone()),
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                push(pointer, &index.to_string());
                collect_texts(item, pointer, found);
                pointer.truncate(length);
            }
        }
        Kind::Map(entries) => {
            for entry in entries {
                push(pointer, &entry.key);
                collect_texts(&entry.node, pointer, found);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

fn offset_of_line(text: &str, line: usize) -> usize {
    text.split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum()
}

/// Where a variable is first spoken of: as a whole word inside `{{ }}` or `{% %}`, not as an
/// attribute of another one.
fn position_of_variable(text: &str, name: &str) -> usize {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(name)
        .map(|(at, _)| at)
        .find(|&at| {
            let before = &text[..at];
            let after = &text[at + name.len()..];
            let open = before.rfind("{{").max(before.rfind("{%"));
            let closed = before.rfind("}}").max(before.rfind("%}"));
            open.is_some()
                && open > closed
                && !before.ends_with(|last| is_word(last) || last == '.')
                && !after.starts_with(is_word)
        })
        .unwrap_or(0)
}
