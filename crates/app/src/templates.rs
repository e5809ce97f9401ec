//! Checks the templates in an app's files: syntax, and names they use.

use serde_json::{Map, Value};

use crate::diagnostic::{Diagnostic, Severity};
use crate::document::Document;
use crate::template::{Form, TemplateLanguage, UNORDERED};
use crate::yaml::{Kind, Node, push};

/// Checks templates with the language that renders them.
pub(crate) struct Templates(TemplateLanguage);

impl Templates {
    pub(crate) fn new() -> Self {
        Self(TemplateLanguage::new())
    }

    /// Checks the text at a JSON pointer, which may use the `known` names. A value that is not a text is
    /// not a template.
    pub(crate) fn check(
        &self,
        document: &Document,
        pointer: &str,
        known: &[&str],
    ) -> Vec<Diagnostic> {
        self.faults(document, pointer, Form::Template, known)
    }

    fn faults(
        &self,
        document: &Document,
        pointer: &str,
        form: Form,
        known: &[&str],
    ) -> Vec<Diagnostic> {
        let Some((text, place)) = document.written_text(pointer) else {
            return Vec::new();
        };
        let source = &document.source;
        let faults = self.0.check(text, form, known).into_iter();
        faults
            .map(|fault| {
                let place = match fault.range {
                    Some(range) => source.place_within(place, text, range),
                    None => place,
                };
                let severity = Severity::Error;
                let mut error = Diagnostic::at(severity, source, place, fault.code, fault.message);
                error.help = fault.help;
                error
            })
            .collect()
    }

    /// Checks every text below a JSON pointer.
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

    /// Checks every text below a JSON pointer over a workflow's state with these fields. Other names are
    /// only warnings, because a person or a calling workflow may set them.
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
        found.map(as_state_warning).collect()
    }

    /// Checks the expression at a JSON pointer, which may use the `known` names and no others.
    pub(crate) fn check_condition(
        &self,
        document: &Document,
        pointer: &str,
        known: &[&str],
    ) -> Vec<Diagnostic> {
        self.faults(document, pointer, Form::Expression, known)
    }

    /// Why the sizes that an expression compares have no order, for these samples of values. `None` if they have one, or
    /// if the samples do not tell.
    pub(crate) fn misordered(
        &self,
        expression: &str,
        samples: &Map<String, Value>,
    ) -> Option<String> {
        let fault = self.0.value(expression, samples).err()?;
        fault.message.contains(UNORDERED).then_some(fault.message)
    }

    /// Checks the expression at a JSON pointer, such as a condition, over a workflow's state with these
    /// fields.
    pub(crate) fn check_expression(
        &self,
        document: &Document,
        pointer: &str,
        fields: &[&str],
    ) -> Vec<Diagnostic> {
        let found = self.faults(document, pointer, Form::Expression, fields);
        found.into_iter().map(as_state_warning).collect()
    }
}

/// A state field that no node sets may still be set by other means.
fn as_state_warning(mut problem: Diagnostic) -> Diagnostic {
    if problem.code != "app.template_variable" {
        return problem;
    }
    problem.severity = Severity::Warning;
    match problem.help {
        Some(_) => problem,
        None => problem.help("if a person or another workflow sets it, list it under `state`"),
    }
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
