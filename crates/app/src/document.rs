//! One file of the app folder: read, filled in from the environment, and checked against its type.

use convoke_model::{Report, Rules};
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::environment::{Secrets, substitute};
use crate::origin::Origin;
use crate::shape::{Misfit, mended, misfits};
use crate::source::{Place, Source};
use crate::yaml::{self, Entry, Kind, MAX_PROBLEMS_PER_FILE, Node, segments};

/// What of a document is not of its shape, by JSON pointer.
#[derive(Debug, Default)]
struct Faults {
    /// What was reported.
    reported: Vec<String>,
    /// What the type reads all the same.
    forgiven: Vec<String>,
}

/// A file with more misfits than this is not looked at again for each of them.
const MAX_SECOND_LOOKS: usize = 50;

/// A file's text as two trees: as it is written, and with the environment filled in.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) source: Source,
    pub(crate) written: Node,
    resolved: Node,
}

/// A document with what it says, as far as it could be understood. Where errors were reported,
/// `fields` are mended, so that the rest can still be checked.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    pub(crate) document: Document,
    pub(crate) fields: Option<T>,
}

/// A document that is a list under one key, with each item that could be understood.
#[derive(Debug)]
pub(crate) struct ParsedList<T> {
    pub(crate) document: Document,
    pub(crate) items: Vec<Item<T>>,
}

/// One item of a list.
#[derive(Debug)]
pub(crate) struct Item<T> {
    /// JSON pointer to it.
    pub(crate) pointer: String,
    pub(crate) fields: T,
}

impl Document {
    /// Reads a file. What is wrong with it as a file is reported.
    pub(crate) fn read(
        origin: Origin<'_>,
        file: &str,
        environment: &dyn Fn(&str) -> Option<String>,
        secrets: &mut Secrets,
        problems: &mut Diagnostics,
    ) -> Option<Self> {
        let text = match origin.text(file) {
            Ok(text) => text,
            Err((code, message)) => {
                problems.add(Diagnostic::of_file(Severity::Error, file, code, message));
                return None;
            }
        };
        let source = Source::new(file, text);
        let (node, found) = yaml::parse(&source);
        problems.extend(found);
        let written = node?;
        let mut resolved = written.clone();
        problems.extend(substitute(&mut resolved, &source, environment, secrets));
        Some(Self {
            source,
            written,
            resolved,
        })
    }

    /// Checks the document against a type: its shape, then its rules, as far as they can be asked.
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

    /// Checks a document of a type whose rules speak of all its parts together, so that they can be
    /// asked only of one that is whole.
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

    /// Checks a document of the shape `F` whose items of type `T` stand under `key`.
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

    /// Reports everything that is not of the type's shape, and hands back where that is.
    fn check_shape<T: JsonSchema + DeserializeOwned>(
        &self,
        secrets: &Secrets,
        problems: &mut Diagnostics,
    ) -> Faults {
        let schema = schema_for!(T).to_value();
        let mut faults = Faults::default();
        let found = misfits(&self.resolved, &schema);
        if found.len() >= MAX_PROBLEMS_PER_FILE {
            let message = format!("there are {MAX_PROBLEMS_PER_FILE} problems here or more");
            let file = self.source.file();
            let error =
                Diagnostic::of_file(Severity::Error, file, "app.too_many_problems", message);
            problems.add(error.help("mend these first"));
        }
        let looks_again = (1..=MAX_SECOND_LOOKS).contains(&found.len());
        let whole = looks_again.then(|| mended(&self.resolved.to_value(), &schema));
        for misfit in found {
            if self.is_forgiven::<T>(&misfit, whole.as_ref()) {
                faults.forgiven.push(misfit.pointer);
                continue;
            }
            faults.reported.push(misfit.fault());
            let place = if misfit.on_key {
                self.key_place(&misfit.pointer)
            } else {
                self.place(&misfit.pointer)
            };
            let Misfit {
                code,
                message,
                help,
                ..
            } = misfit;
            let mut error = Diagnostic::at(Severity::Error, &self.source, place, code, message);
            error.help = help;
            problems.add(error.map_texts(|text| secrets.redact(text)));
        }
        faults
    }

    /// Whether reading the type does not mind a misfit: a schema does not tell of a key's or a
    /// value's second spelling, and where a rule says the same, it says it better. `whole` is the
    /// document with every misfit mended.
    fn is_forgiven<T: DeserializeOwned>(&self, misfit: &Misfit, whole: Option<&Value>) -> bool {
        let read = || {
            let original = self.resolved.find(&misfit.pointer)?.to_value();
            let value = with(whole?.clone(), &misfit.pointer, original)?;
            serde_json::from_value::<T>(value).ok()
        };
        misfit.is_doubtful() && read().is_some()
    }

    /// Reads the value under `pointer`, mended where it is faulty, and asks its rules.
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
            value = mended(&value, schema_for!(T).as_value());
            for forgiven in faults
                .forgiven
                .iter()
                .filter(|place| is_under(place, pointer))
            {
                let original = self.resolved.find(forgiven)?.to_value();
                value = with(value, &forgiven[pointer.len()..], original)?;
            }
        }
        let fields = match serde_json::from_value::<T>(value) {
            Ok(fields) => fields,
            Err(error) => {
                // The walk over the schema says it better, wherever it says anything.
                if !is_faulty {
                    let error = self.error(pointer, "app.invalid", error.to_string());
                    problems.add(error.map_texts(|text| secrets.redact(text)));
                }
                return None;
            }
        };
        let mut report = Report::default();
        fields.rules(&mut report);
        for problem in report.into_problems() {
            let at = format!("{pointer}{}", problem.path);
            // A rule that speaks of a part that was mended speaks of something we made up.
            let is_made_up = |fault: &String| is_under(fault, &at) || is_under(&at, fault);
            if !faults.reported.iter().any(is_made_up) {
                let error = self.error(&at, problem.code, problem.message);
                problems.add(error.map_texts(|text| secrets.redact(text)));
            }
        }
        Some(fields)
    }

    /// The place of the value under a JSON pointer, or of what is nearest to it.
    pub(crate) fn place(&self, pointer: &str) -> Place {
        if pointer.is_empty() {
            Place::START
        } else {
            self.written.place_of(pointer)
        }
    }

    /// The place of the key under a JSON pointer.
    pub(crate) fn key_place(&self, pointer: &str) -> Place {
        self.written.key_place_of(pointer)
    }

    /// An error at the value under a JSON pointer.
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

    /// A warning at the value under a JSON pointer.
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

    /// The text under a JSON pointer with its place, as the file has it.
    pub(crate) fn written_text(&self, pointer: &str) -> Option<(&str, Place)> {
        let node = self.written.find(pointer)?;
        Some((node.as_text()?, node.place))
    }

    /// The text under a JSON pointer with the environment filled in.
    pub(crate) fn text(&self, pointer: &str) -> Option<&str> {
        self.resolved.find(pointer)?.as_text()
    }

    /// The document as a plain value, before the environment is filled in, with its keys sorted.
    pub(crate) fn normal_value(&self) -> Value {
        let mut node = self.written.clone();
        sort_keys(&mut node);
        node.to_value()
    }
}

/// The value with another one put in under a JSON pointer.
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
