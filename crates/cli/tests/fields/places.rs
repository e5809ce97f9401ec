//! Places: a kind of document, a path in it, and what stands there.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// Everything that was emitted, by the kind of the document.
#[derive(Default)]
pub(crate) struct Documents(BTreeMap<String, Vec<Value>>);

impl Documents {
    pub(crate) fn add(&mut self, kind: &str, document: Value) {
        self.0.entry(kind.to_owned()).or_default().push(document);
    }

    pub(crate) fn extend(&mut self, others: Self) {
        for (kind, documents) in others.0 {
            self.0.entry(kind).or_default().extend(documents);
        }
    }

    pub(crate) fn of(&self, kind: &str) -> &[Value] {
        self.0.get(kind).map_or(&[], Vec::as_slice)
    }
}

/// A place, written `document: path`, `document: path=value` or `document: path~part of the value`. In a path, `[]`
/// stands for any item of a list and `*` for any key.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    document: String,
    path: Vec<String>,
    wanted: Wanted,
}

#[derive(Debug, Clone)]
enum Wanted {
    Filled,
    Exactly(String),
    Containing(String),
}

impl Place {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (document, rest) = text.split_once(": ")?;
        let end = rest.find(['=', '~']).unwrap_or(rest.len());
        let (path, value) = rest.split_at(end);
        let wanted = match value.split_at_checked(1) {
            None => Wanted::Filled,
            Some(("=", value)) => Wanted::Exactly(value.to_owned()),
            Some((_, value)) => Wanted::Containing(value.to_owned()),
        };
        let path: Vec<_> = path.split('.').map(str::to_owned).collect();
        let is_word = |word: &str| !word.is_empty() && !word.contains(' ');
        (is_word(document) && path.iter().all(|key| is_word(key))).then(|| Self {
            document: document.to_owned(),
            path,
            wanted,
        })
    }

    /// Whether any document has it.
    pub(crate) fn is_in(&self, documents: &Documents) -> bool {
        !self.found(documents).is_empty()
    }

    /// All values that are there.
    fn found<'d>(&self, documents: &'d Documents) -> Vec<&'d Value> {
        let mut found = Vec::new();
        for document in documents.of(&self.document) {
            self.find(&self.path, document, &mut found);
        }
        found
    }

    /// Whether the path leads to an item of a list.
    fn is_item(&self) -> bool {
        self.path.iter().any(|key| key.ends_with("[]"))
    }

    fn find<'d>(&self, path: &[String], value: &'d Value, found: &mut Vec<&'d Value>) {
        let Some((key, rest)) = path.split_first() else {
            if self.fits(value) {
                found.push(value);
            }
            return;
        };
        if key == "*" {
            for (_, value) in value.as_object().into_iter().flatten() {
                self.find(rest, value, found);
            }
            return;
        }
        match key.strip_suffix("[]") {
            None => {
                if let Some(value) = value.get(key) {
                    self.find(rest, value, found);
                }
            }
            Some(key) => {
                let items = value.get(key).and_then(Value::as_array);
                for item in items.into_iter().flatten() {
                    self.find(rest, item, found);
                }
            }
        }
    }

    fn fits(&self, value: &Value) -> bool {
        let text = || match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match &self.wanted {
            Wanted::Exactly(wanted) => text() == *wanted,
            Wanted::Containing(wanted) => text().contains(wanted.as_str()),
            Wanted::Filled => match value {
                Value::Null => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Object(fields) => !fields.is_empty(),
                Value::Bool(_) | Value::Number(_) => true,
            },
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) field: String,
    /// Whether it is computed, and so may have another type.
    is_derived: bool,
    seen: String,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (`{}`)", self.field, self.seen)
    }
}

/// The rows of every field, in the order of the page.
pub(crate) fn rows(page: &str) -> Vec<Row> {
    page.lines()
        .filter_map(|line| {
            let cells: Vec<_> = line
                .strip_prefix("| ")?
                .split(" |")
                .map(str::trim)
                .collect();
            let field = cells.first()?;
            let of_document = field.strip_prefix('S')?;
            let is_field = of_document.starts_with(|first: char| first.is_ascii_digit())
                && of_document.get(1..)?.starts_with(' ');
            is_field.then(|| Row {
                field: (*field).to_owned(),
                is_derived: cells
                    .get(1)
                    .is_some_and(|ours| ours.starts_with("derived: ")),
                seen: cells
                    .get(2)
                    .copied()
                    .unwrap_or_default()
                    .trim_matches('`')
                    .to_owned(),
            })
        })
        .collect()
}

/// Between the title of work to come and the place where the field will be seen.
const THEN: &str = "; then ";

impl Row {
    /// The title of the work that it comes with, if it is still to come.
    pub(crate) fn to_come(&self) -> Option<&str> {
        let rest = self.seen.strip_prefix("to come: ")?;
        Some(rest.split(THEN).next().unwrap_or(rest))
    }

    /// What is wrong with the row, held against everything that was emitted.
    pub(crate) fn problem(&self, documents: &Documents) -> Option<String> {
        if self.to_come().is_some() {
            let place = self.seen.split_once(THEN)?.1;
            let Some(place) = Place::parse(place) else {
                return Some(format!("{self} names no place"));
            };
            let emitted = place.is_in(documents);
            return emitted.then(|| format!("{self} is emitted: it is not to come any more"));
        }
        let places: Option<Vec<_>> = self.seen.split(" or ").map(Place::parse).collect();
        let Some(places) = places else {
            return Some(format!("{self} has neither a place nor a mark"));
        };
        let is_seen = places.iter().any(|place| place.is_in(documents));
        (!is_seen).then(|| format!("{self} never came out"))
    }

    /// What is wrong with a value that a document gives as an example of the field.
    pub(crate) fn misfit(&self, example: &Value, documents: &Documents) -> Option<String> {
        if example.is_null() || self.is_derived || self.to_come().is_some() {
            return None;
        }
        let mut places = self.seen.split(" or ").filter_map(Place::parse);
        let fits = |place: Place| {
            let found = place.found(documents);
            found.iter().any(|value| kind(value) == kind(example))
                || (example.is_array() && place.is_item() && !found.is_empty())
        };
        let fits = places.any(fits);
        (!fits).then(|| format!("{self} is no {}, as in {example}", kind(example)))
    }
}

/// The JSON type of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
