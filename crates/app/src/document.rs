//! One file of an app folder: read, filled in from the environment, and checked against its type.

use std::collections::BTreeSet;

use convoke_model::{Report, Rules};
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::environment::{Secrets, Variables, substitute};
use crate::origin::Origin;
use crate::shape::{ShapeError, repaired, shape_errors};
use crate::source::{Position, Source, SourceRange};
use crate::spelling::did_you_mean;
use crate::yaml::{self, Entry, Kind, MAX_PROBLEMS_PER_FILE, Node, push, segments};

/// Positions that do not have the type's shape, as JSON pointers.
#[derive(Debug, Default)]
struct Faults {
    /// Reported as errors.
    reported: Vec<String>,
    /// Accepted by the type's deserializer.
    accepted: Vec<String>,
}

/// A file with more shape errors is not deserialized again for each of them.
const MAX_RECHECKS: usize = 50;

/// A file as two trees: as written, and with environment variables filled in.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) source: Source,
    pub(crate) written: Node,
    resolved: Node,
    /// Where the values begin that variables make unknown.
    unknown: BTreeSet<Position>,
}

/// A document and its fields. After errors, `fields` contain replacement values, so that the rest can
/// still be checked; `None` if that is impossible.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    pub(crate) document: Document,
    pub(crate) fields: Option<T>,
}

/// A document that is a list under one key, with every item that could be deserialized.
#[derive(Debug)]
pub(crate) struct ParsedList<T> {
    pub(crate) document: Document,
    pub(crate) items: Vec<Item<T>>,
}

#[derive(Debug)]
pub(crate) struct Item<T> {
    /// JSON pointer to the item.
    pub(crate) pointer: String,
    pub(crate) fields: T,
}

/// The word of a `serde` error about a word that is none of a set, and the set.
fn unknown_variant(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown variant `")?;
    let (word, known) = rest.split_once('`')?;
    Some((word, known.split('`').skip(1).step_by(2).collect()))
}

impl Document {
    /// Reads a file. Reports errors of reading and of syntax.
    pub(crate) fn read(
        origin: Origin<'_>,
        file: &str,
        variables: &Variables<'_>,
        secrets: &mut Secrets,
        problems: &mut Diagnostics,
    ) -> Option<Self> {
        let text = match origin.text(file) {
            Ok(text) => text,
            Err(unreadable) => {
                let (code, message) = (unreadable.code, unreadable.message);
                let mut error = Diagnostic::of_file(Severity::Error, file, code, message);
                error.position = unreadable.position;
                problems.add(error);
                return None;
            }
        };
        let source = Source::new(file, text);
        let (node, found) = yaml::parse(&source);
        problems.extend(found);
        let written = node?;
        let mut resolved = written.clone();
        let filled = substitute(&mut resolved, &source, variables, secrets);
        problems.extend(filled.problems);
        Some(Self {
            source,
            written,
            resolved,
            unknown: filled.unknown,
        })
    }

    /// Checks the shape of the document, then its rules where the shape is right.
    pub(crate) fn parse<T>(self, secrets: &Secrets, problems: &mut Diagnostics) -> Parsed<T>
    where
        T: Rules + DeserializeOwned + JsonSchema,
    {
        let faults = self.check_shape::<T>(secrets, problems);
        let fields = self.fields_at("", &faults, secrets, problems);
        Parsed {
            document: self,
            fields,
        }
    }

    /// Like [`parse`](Self::parse), for a type whose rules need all of its parts: they run only if the
    /// shape has no error.
    pub(crate) fn parse_whole<T>(self, secrets: &Secrets, problems: &mut Diagnostics) -> Parsed<T>
    where
        T: Rules + DeserializeOwned + JsonSchema,
    {
        let faults = self.check_shape::<T>(secrets, problems);
        let is_whole = faults.reported.is_empty();
        let fields = is_whole
            .then(|| self.fields_at("", &faults, secrets, problems))
            .flatten();
        Parsed {
            document: self,
            fields,
        }
    }

    /// Checks a document of the shape `F` with items of type `T` under `key`.
    pub(crate) fn parse_list<F, T>(
        self,
        key: &str,
        secrets: &Secrets,
        problems: &mut Diagnostics,
    ) -> ParsedList<T>
    where
        F: JsonSchema + DeserializeOwned,
        T: Rules + DeserializeOwned + JsonSchema,
    {
        let faults = self.check_shape::<F>(secrets, problems);
        let count = self.resolved.get(key).map_or(0, |list| list.items().len());
        let items = (0..count).filter_map(|index| {
            let pointer = format!("/{key}/{index}");
            let fields = self.fields_at(&pointer, &faults, secrets, problems)?;
            Some(Item { pointer, fields })
        });
        let items = items.collect();
        ParsedList {
            document: self,
            items,
        }
    }

    /// Reports every shape error and returns the positions.
    fn check_shape<T: JsonSchema + DeserializeOwned>(
        &self,
        secrets: &Secrets,
        problems: &mut Diagnostics,
    ) -> Faults {
        let schema = schema_for!(T).to_value();
        let mut faults = Faults::default();
        let found = shape_errors(&self.resolved, &schema);
        if found.len() >= MAX_PROBLEMS_PER_FILE {
            let message =
                format!("there are {MAX_PROBLEMS_PER_FILE} or more problems in this file");
            let file = self.source.file();
            let error =
                Diagnostic::of_file(Severity::Error, file, "app.too_many_problems", message);
            problems.add(error.help("fix these first"));
        }
        let rechecks = (1..=MAX_RECHECKS).contains(&found.len());
        let whole = rechecks.then(|| repaired(&self.resolved.to_value(), &schema));
        for shape_error in found {
            if self.is_accepted::<T>(&shape_error, whole.as_ref()) {
                faults.accepted.push(shape_error.pointer);
                continue;
            }
            faults.reported.push(shape_error.fault());
            if self.is_unknown(&shape_error.pointer) {
                continue;
            }
            let place = if shape_error.on_key {
                self.key_place(&shape_error.pointer)
            } else {
                self.place(&shape_error.pointer)
            };
            let ShapeError {
                code,
                message,
                help,
                ..
            } = shape_error;
            let mut error = Diagnostic::at(Severity::Error, &self.source, place, code, message);
            error.help = help;
            problems.add(error.map_texts(|text| secrets.redact(text)));
        }
        faults
    }

    /// Whether the deserializer accepts the value despite a shape error: schemas do not contain aliases
    /// of keys and values, and some bounds are enforced by rules with better messages. `whole` is the
    /// document with all shape errors replaced.
    fn is_accepted<T: DeserializeOwned>(
        &self,
        shape_error: &ShapeError,
        whole: Option<&Value>,
    ) -> bool {
        let read = || {
            let original = self.resolved.find(&shape_error.pointer)?.to_value();
            let value = with(whole?.clone(), &shape_error.pointer, original)?;
            serde_json::from_value::<T>(value).ok()
        };
        shape_error.may_be_accepted() && read().is_some()
    }

    /// Deserializes the value at `pointer`, with faulty parts replaced, and runs its rules.
    fn fields_at<T: Rules + DeserializeOwned + JsonSchema>(
        &self,
        pointer: &str,
        faults: &Faults,
        secrets: &Secrets,
        problems: &mut Diagnostics,
    ) -> Option<T> {
        let mut value = self.resolved.find(pointer)?.to_value();
        let is_faulty = faults.reported.iter().any(|fault| is_under(fault, pointer));
        if is_faulty {
            value = repaired(&value, schema_for!(T).as_value());
            for accepted in faults
                .accepted
                .iter()
                .filter(|place| is_under(place, pointer))
            {
                let original = self.resolved.find(accepted)?.to_value();
                value = with(value, &accepted[pointer.len()..], original)?;
            }
        }
        let fields = match serde_json::from_value::<T>(value) {
            Ok(fields) => fields,
            Err(error) => {
                // If there were shape errors, they have already been reported with better messages.
                if !is_faulty {
                    let error = self.unreadable::<T>(pointer, &error.to_string());
                    problems.add(error.map_texts(|text| secrets.redact(text)));
                }
                return None;
            }
        };
        let mut report = Report::default();
        fields.rules(&mut report);
        for problem in report.into_problems() {
            let at = format!("{pointer}{}", problem.path);
            // A rule about a replaced value concerns an invented value.
            let is_invented = |fault: &String| {
                is_under(fault, &at) || is_under(&at, fault) || self.may_mean(fault, &at)
            };
            if !self.is_unknown(&at) && !faults.reported.iter().any(is_invented) {
                let error = self.error(&at, problem.code, problem.message);
                problems.add(error.map_texts(|text| secrets.redact(text)));
            }
        }
        Some(fields)
    }

    /// Whether the value at a JSON pointer is unknown, because it contains a variable that is not set.
    fn is_unknown(&self, pointer: &str) -> bool {
        let node = self.written.find(pointer);
        node.is_some_and(|node| self.unknown.contains(&node.place.start))
    }

    /// Whether a faulty key may be meant as the one that a rule does not find: nothing is there, and they have the same
    /// parent.
    fn may_mean(&self, fault: &str, at: &str) -> bool {
        let parent = |pointer: &str| {
            pointer
                .rsplit_once('/')
                .map(|(parent, _)| parent.to_owned())
        };
        self.written.find(at).is_none() && parent(fault) == parent(at)
    }

    /// The error of a value that has the right shape and cannot be read, at the part that is to blame.
    fn unreadable<T: DeserializeOwned>(&self, pointer: &str, message: &str) -> Diagnostic {
        let value = self.resolved.find(pointer).map(Node::to_value);
        let blamed = value.and_then(|value| culprit::<T>(&value));
        let blamed = format!("{pointer}{}", blamed.unwrap_or_default());
        let mut error = match unknown_variant(message) {
            Some((word, known)) => {
                let error = self.error(
                    &blamed,
                    "app.unknown_value",
                    format!("there is no `{word}`"),
                );
                match did_you_mean(word, known) {
                    Some(help) => error.help(help),
                    None => error,
                }
            }
            None => self.error(&blamed, "app.invalid", message),
        };
        let key = segments(&blamed).last();
        if key.is_some_and(|key| message.contains(&format!("`{key}`"))) {
            let place = self.key_place(&blamed);
            let help = error.help.take();
            error = Diagnostic::at(
                Severity::Error,
                &self.source,
                place,
                error.code,
                error.message,
            );
            error.help = help;
        }
        error
    }

    /// The position of the value at a JSON pointer, or of its nearest ancestor.
    pub(crate) fn place(&self, pointer: &str) -> SourceRange {
        if pointer.is_empty() {
            SourceRange::START
        } else {
            self.written.place_of(pointer)
        }
    }

    /// The position of the key at a JSON pointer.
    pub(crate) fn key_place(&self, pointer: &str) -> SourceRange {
        self.written.key_place_of(pointer)
    }

    /// An error at the value at a JSON pointer.
    pub(crate) fn error(
        &self,
        pointer: &str,
        code: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::at(
            Severity::Error,
            &self.source,
            self.place(pointer),
            code,
            message,
        )
    }

    /// A warning at the value at a JSON pointer.
    pub(crate) fn warning(
        &self,
        pointer: &str,
        code: &'static str,
        message: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::at(
            Severity::Warning,
            &self.source,
            self.place(pointer),
            code,
            message,
        )
    }

    /// The text at a JSON pointer as written, with its position.
    pub(crate) fn written_text(&self, pointer: &str) -> Option<(&str, SourceRange)> {
        let node = self.written.find(pointer)?;
        Some((node.as_text()?, node.place))
    }

    /// The text at a JSON pointer, with environment variables filled in.
    pub(crate) fn text(&self, pointer: &str) -> Option<&str> {
        self.resolved.find(pointer)?.as_text()
    }

    /// The document as JSON, without environment variables filled in, with sorted keys.
    pub(crate) fn normal_value(&self) -> Value {
        let mut node = self.written.clone();
        sort_keys(&mut node);
        node.to_value()
    }
}

/// JSON pointer to the smallest part without which a value can be read.
fn culprit<T: DeserializeOwned>(value: &Value) -> Option<String> {
    let mut found = String::new();
    let mut part = value;
    let mut tries = 0;
    loop {
        let children: Vec<(String, &Value)> = match part {
            Value::Object(map) => map
                .iter()
                .map(|(key, child)| (key.clone(), child))
                .collect(),
            Value::Array(items) => (0..)
                .map(|index: usize| index.to_string())
                .zip(items)
                .collect(),
            _ => break,
        };
        let to_blame = children.into_iter().find_map(|(key, child)| {
            let mut pointer = found.clone();
            push(&mut pointer, &key);
            tries += 1;
            let readable = tries <= MAX_RECHECKS
                && serde_json::from_value::<T>(without(value.clone(), &found, &key)?).is_ok();
            readable.then_some((pointer, child))
        });
        let Some((pointer, child)) = to_blame else {
            break;
        };
        found = pointer;
        part = child;
    }
    (!found.is_empty()).then_some(found)
}

/// Leaves out a part.
fn without(mut value: Value, parent: &str, key: &str) -> Option<Value> {
    match value.pointer_mut(parent)? {
        Value::Object(map) => drop(map.shift_remove(key)),
        Value::Array(items) => drop(items.remove(key.parse().ok()?)),
        _ => return None,
    }
    Some(value)
}

/// Replaces the part at a JSON pointer.
fn with(mut value: Value, pointer: &str, part: Value) -> Option<Value> {
    let (parent, _) = pointer.rsplit_once('/')?;
    let key = segments(pointer).last()?;
    match value.pointer_mut(parent)? {
        Value::Object(map) => drop(map.insert(key, part)),
        Value::Array(items) => *items.get_mut(key.parse::<usize>().ok()?)? = part,
        _ => return None,
    }
    Some(value)
}

fn is_under(pointer: &str, ancestor: &str) -> bool {
    pointer
        .strip_prefix(ancestor)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn sort_keys(node: &mut Node) {
    match &mut node.kind {
        Kind::Map(entries) => {
            entries.sort_by(|a: &Entry, b: &Entry| a.key.cmp(&b.key));
            for entry in entries {
                sort_keys(&mut entry.node);
            }
        }
        Kind::List(items) => items.iter_mut().for_each(sort_keys),
        _ => {}
    }
}
