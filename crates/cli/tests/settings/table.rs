//! The rows of the tables.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use crate::keys::key_at;
use crate::yaml;

/// One table.
#[derive(Debug)]
pub(crate) struct Table {
    /// The small apps, by name, and what is done with each; with those of the table in `probes_of`.
    pub(crate) probes: BTreeMap<String, Probe>,
    /// Keys that two runs show.
    pub(crate) rows: Vec<Row>,
    /// Keys that a test of its own shows.
    pub(crate) elsewhere: Vec<ShownElsewhere>,
    /// Files that are to get their effect with other work.
    pub(crate) to_come: Vec<ToCome>,
}

/// A small app, and what is done with it.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    /// The files, by path.
    pub(crate) app: Value,
    /// The replies of the model, in order.
    pub(crate) model: Vec<Value>,
    /// The commands, in order.
    pub(crate) steps: Vec<Value>,
}

/// A key, changed in one of two runs that are otherwise the same.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Where the key is in the app: a path and a JSON pointer.
    pub(crate) place: String,
    pub(crate) probe: String,
    /// What is set in both runs, by place.
    with: Map<String, Value>,
    /// The value in the first run; as in the app if it is left out.
    from: Option<Value>,
    /// The value in the second run; none if it is left out.
    to: Option<Value>,
    /// What only the first run tells, and what only the second.
    pub(crate) was: Option<String>,
    pub(crate) now: Option<String>,
    model: Option<Vec<Value>>,
    steps: Option<Vec<Value>>,
}

/// A key that a test of its own shows.
#[derive(Debug)]
pub(crate) struct ShownElsewhere {
    pub(crate) place: String,
    /// `FILE::TEST`.
    pub(crate) test: String,
    /// How the file of the test sets the key.
    pub(crate) sets: String,
    values: Vec<Value>,
}

/// A file that is to get its effect with other work.
#[derive(Debug)]
pub(crate) struct ToCome {
    pub(crate) file: String,
    /// The title of the work.
    pub(crate) title: String,
    pub(crate) app: Value,
    /// A content of the file.
    pub(crate) sets: Value,
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn word(row: &Value, key: &str) -> String {
    let word = row[key].as_str();
    word.unwrap_or_else(|| panic!("`{key}` is missing in {row}"))
        .to_owned()
}

impl Table {
    pub(crate) fn read(folder: &Path, name: &str) -> Self {
        let written = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
        let table = yaml::read(&written);
        let others = table["probes_of"].as_str();
        let mut probes =
            others.map_or_else(BTreeMap::new, |other| Self::read(folder, other).probes);
        for (name, probe) in table["probes"].as_object().into_iter().flatten() {
            let mut made = Probe {
                app: Value::Object(Map::new()),
                model: Vec::new(),
                steps: Vec::new(),
            };
            if let Some(like) = probe["like"].as_str() {
                made = probes[like].clone();
            }
            merge(&mut made.app, &probe["app"]);
            if probe["model"].is_array() {
                made.model = list(&probe["model"]);
            }
            if probe["do"].is_array() {
                made.steps = list(&probe["do"]);
            }
            probes.insert(name.clone(), made);
        }
        let rows = list(&table["rows"]);
        let elsewhere = list(&table["elsewhere"]);
        let to_come = list(&table["to_come"]);
        Self {
            probes,
            rows: rows.iter().map(Row::read).collect(),
            elsewhere: elsewhere
                .iter()
                .map(|row| ShownElsewhere {
                    place: word(row, "at"),
                    test: word(row, "test"),
                    sets: word(row, "sets"),
                    values: list(&row["values"]),
                })
                .collect(),
            to_come: to_come
                .iter()
                .map(|row| ToCome {
                    file: word(row, "file"),
                    title: word(row, "title"),
                    app: row["app"].clone(),
                    sets: row["sets"].clone(),
                })
                .collect(),
        }
    }
}

/// Puts what is in `more` into `whole`, key by key. A key that is null there is removed.
fn merge(whole: &mut Value, more: &Value) {
    match (whole, more) {
        (_, Value::Null) => {}
        (Value::Object(whole), Value::Object(more)) => {
            for (key, value) in more {
                if value.is_null() {
                    whole.remove(key);
                } else {
                    merge(whole.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (whole, more) => *whole = more.clone(),
    }
}

/// The file and the JSON pointer of a place.
fn split(place: &str) -> (&str, &str) {
    let split = place.split_once('#');
    split.unwrap_or_else(|| panic!("{place} is no place; write FILE#/POINTER"))
}

/// Sets or removes what is at a place of an app.
fn put(app: &mut Value, place: &str, value: Option<&Value>) {
    let (file, pointer) = split(place);
    let mut here = &mut app[file];
    let segments: Vec<String> = pointer
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect();
    let Some((last, before)) = segments.split_last() else {
        *here = value.cloned().unwrap_or_default();
        return;
    };
    for segment in before {
        here = if here.is_array() {
            &mut here[segment.parse::<usize>().unwrap()]
        } else {
            &mut here[segment.as_str()]
        };
    }
    match (here, value) {
        (Value::Array(items), Some(value)) => {
            let index: usize = last.parse().unwrap();
            if index == items.len() {
                items.push(value.clone());
            } else {
                items[index] = value.clone();
            }
        }
        (Value::Array(items), None) => _ = items.remove(last.parse().unwrap()),
        (here, Some(value)) => here[last.as_str()] = value.clone(),
        (Value::Object(fields), None) => _ = fields.remove(last),
        (here, None) => panic!("{place}: nothing to remove from {here}"),
    }
}

impl Row {
    fn read(row: &Value) -> Self {
        let read = Self {
            place: word(row, "at"),
            probe: word(row, "probe"),
            with: row["with"].as_object().cloned().unwrap_or_default(),
            from: row.get("from").cloned(),
            to: row.get("to").cloned(),
            was: row["was"].as_str().map(str::to_owned),
            now: row["now"].as_str().map(str::to_owned),
            model: row.get("model").map(list),
            steps: row.get("do").map(list),
        };
        assert!(
            read.was.is_some() || read.now.is_some(),
            "{row} says nothing"
        );
        read
    }

    /// The keys and values that it shows.
    pub(crate) fn shows(&self) -> Vec<String> {
        let set: Vec<&Value> = self.from.iter().chain(&self.to).collect();
        key_at(&self.place, &set)
    }

    /// What is done in the first run and in the second.
    pub(crate) fn runs(&self, table: &Table) -> [Probe; 2] {
        let probe = table.probes.get(&self.probe);
        let mut before = probe
            .unwrap_or_else(|| panic!("there is no probe {}", self.probe))
            .clone();
        for (place, value) in &self.with {
            put(&mut before.app, place, Some(value));
        }
        if let Some(from) = &self.from {
            put(&mut before.app, &self.place, Some(from));
        }
        if let Some(model) = &self.model {
            before.model.clone_from(model);
        }
        if let Some(steps) = &self.steps {
            before.steps.clone_from(steps);
        }
        let mut after = before.clone();
        put(&mut after.app, &self.place, self.to.as_ref());
        assert_ne!(before.app, after.app, "{} changes nothing", self.place);
        [before, after]
    }
}

impl ShownElsewhere {
    /// The keys and values that it shows.
    pub(crate) fn shows(&self) -> Vec<String> {
        let set: Vec<&Value> = self.values.iter().collect();
        key_at(&self.place, &set)
    }
}
