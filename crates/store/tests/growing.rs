//! States with growing parts: what a step costs, and that the journal says what the state is.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use convoke_store::{GrowingList, GrowingMap, StateText, StateWriter, text_of};
use proptest::prelude::*;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct State {
    step: usize,
    list: GrowingList<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inner: Option<Box<State>>,
    map: GrowingMap<String, Value>,
    numbers: GrowingMap<usize, Option<String>>,
    named: Named,
    last: Option<String>,
}

/// A map of which only a part grows.
#[derive(Debug, Clone, Default, PartialEq)]
struct Named {
    few: BTreeMap<String, GrowingList<usize>>,
    many: GrowingMap<String, Value>,
}

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, list) in &self.few {
            map.serialize_entry(name, list)?;
        }
        self.many.serialize_entries(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut named = Self::default();
        for (name, value) in BTreeMap::<String, Value>::deserialize(deserializer)? {
            if value.is_array() {
                let list = serde_json::from_value(value).unwrap();
                named.few.insert(name, list);
            } else {
                named.many.insert(name, value);
            }
        }
        Ok(named)
    }
}

/// Takes a step that changes as much at each length.
fn take(state: &mut State, step: usize) {
    state.step = step;
    state.list.push(json!({ "item": step }));
    state
        .map
        .insert(format!("field {step}"), json!([step, "a text"]));
    state
        .map
        .insert("next".into(), json!([format!("field {}", step + 1)]));
    state
        .numbers
        .insert(step, step.is_multiple_of(2).then(|| step.to_string()));
    state
        .map
        .extend_list("log".into(), vec![json!({ "step": step }), json!("then")]);
    state
        .named
        .many
        .insert(format!("ended {step}"), json!("done"));
    state.named.few.remove(&(step / 10).to_string());
    let list = state.named.few.entry((step / 10 + 1).to_string());
    list.or_default().push(step);
    state.last = Some(format!("step {step}"));
}

/// What writing so many states costs, and how many bytes are written.
fn effort(steps: usize) -> (usize, usize) {
    let mut state = State::default();
    let mut writer = StateWriter::default();
    let mut written = 0;
    for step in 0..steps {
        take(&mut state, step);
        written += writer.write(&state).len();
    }
    (writer.effort(), written)
}

#[test]
fn twice_the_steps_cost_twice_the_work_and_the_bytes() {
    let (once, twice) = (effort(1_000), effort(2_000));
    assert!(twice.0 * 10 < once.0 * 22, "{once:?}, then {twice:?}");
    assert!(twice.1 * 10 < once.1 * 22, "{once:?}, then {twice:?}");
}

/// Reads every state that was written, one after the other.
#[derive(Default)]
struct Written {
    last: String,
}

impl Written {
    /// Checks that the journal says what the state is.
    fn check(&mut self, stored: &str, state: &State) {
        self.last = match stored.strip_prefix('~') {
            None => stored.to_owned(),
            Some(delta) => applied(&self.last, delta),
        };
        assert_eq!(read(&self.last), json!(state), "{stored}");
        let again: State = serde_json::from_str(&self.last).unwrap();
        assert_eq!(again, *state);
        assert_eq!(json!(again), json!(state));
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A delta by its definition.
fn applied(before: &str, delta: &str) -> String {
    let parts: Vec<Value> = serde_json::from_str(delta).unwrap();
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let part = |part: Value| match part {
        Value::String(text) => text,
        kept => {
            let (from, length) = (number(&kept[0]), number(&kept[1]));
            before[from..from + length].to_owned()
        }
    };
    parts.into_iter().map(part).collect()
}

#[test]
fn the_journal_says_what_the_state_is_at_every_step() {
    let mut state = State::default();
    let mut writer = StateWriter::default();
    let mut written = Written::default();
    for step in 0..300 {
        take(&mut state, step);
        match step {
            // Parts come and go, and what is in one moves to another.
            100 => state.inner = Some(Box::new(state.clone())),
            150 => {
                let inner = state.inner.take().unwrap();
                state.map.insert("inner".into(), json!(inner.list));
            }
            // A worker that takes the task up knows only the text.
            200 => {
                writer = StateWriter::after(&StateText::from(written.last.clone()));
                state = serde_json::from_str(&written.last).unwrap();
                take(&mut state, step);
            }
            250 => {
                state
                    .map
                    .insert("field 3".into(), "long ".repeat(3_000).into());
            }
            120 => {
                state.map.insert("log".into(), json!("no list"));
            }
            130 => {
                state.map.insert("log".into(), json!([]));
            }
            251 => {
                state.map.insert("field 4".into(), json!("ü"));
                state
                    .map
                    .change("field 5", |value| *value = json!("changed"));
                state
                    .map
                    .change("no such field", |value| *value = json!("changed"));
            }
            _ => {}
        }
        written.check(&writer.write(&state), &state);
    }
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut state = State::default();
    (0..200).for_each(|step| take(&mut state, step));
    let mut writer = StateWriter::default();
    let mut written = Written::default();
    written.check(&writer.write(&state), &state);
    let mut other = state.clone();
    take(&mut other, 1_000);
    take(&mut state, 2_000);
    written.check(&writer.write(&other), &other);
    written.check(&writer.write(&state), &state);
    written.check(&writer.write(&other), &other);
}

#[test]
fn a_replaced_value_costs_its_segment_and_no_more() {
    let mut state = State::default();
    (0..2_000).for_each(|step| take(&mut state, step));
    let mut writer = StateWriter::default();
    writer.write(&state);
    let before = writer.effort();
    state.map.insert("field 1000".into(), json!("other"));
    let stored = writer.write(&state);
    assert!(stored.len() < 200, "{stored}");
    let effort = writer.effort() - before;
    assert!(effort < 10_000, "{effort} of {}", text_of(&state).len());
    assert!(effort > stored.len(), "{effort} to write {}", stored.len());
}

#[test]
fn maps_and_lists_are_what_they_are_in_other_formats_too() {
    let mut state = State::default();
    (0..3).for_each(|step| take(&mut state, step));
    let value = json!(state);
    assert_eq!(
        value["list"],
        json!([{ "item": 0 }, { "item": 1 }, { "item": 2 }])
    );
    assert_eq!(value["numbers"], json!({ "0": "0", "1": null, "2": "2" }));
    assert_eq!(serde_json::from_value::<State>(value).unwrap(), state);
    assert_eq!(state.numbers.get(&1), Some(&None));
    assert!(state.numbers.contains_key(&2) && !state.numbers.contains_key(&3));
    assert_eq!((state.map.len(), state.list.items().len()), (5, 3));
    let keys: Vec<_> = state.map.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["field 0", "next", "log", "field 1", "field 2"]);
    let mut numbers: GrowingMap<usize, usize> = [(2, 20), (0, 0), (1, 10)].into_iter().collect();
    assert_eq!(numbers.insert(1, 11), Some(10));
    let sorted: Vec<_> = numbers.into_sorted_values().collect();
    assert_eq!(sorted, [0, 11, 20]);
}

#[test]
fn a_growing_map_holds_what_a_plain_one_would() {
    let mut map = GrowingMap::<String, Value>::default();
    for (key, value) in [("a", json!([1])), ("b", json!(2)), ("c", json!("three"))] {
        map.insert(key.into(), value);
    }
    map.extend_list("a".into(), vec![json!(4), json!(5)]);
    map.extend_list("a".into(), vec![json!(6)]);
    map.extend_list("b".into(), vec![json!(7)]);
    map.extend_list("d".into(), Vec::new());
    map.change("c", |value| *value = json!(["changed"]));
    map.change("e", |value| *value = json!("not there"));
    let plain = json!({ "a": [1, 4, 5, 6], "b": [7], "c": ["changed"], "d": [] });
    assert_eq!(json!(map), plain);
    assert_eq!(read(&StateWriter::default().write(&map)), plain);
}

#[test]
fn growing_lists_and_maps_are_the_same_if_what_they_hold_is() {
    let list = |items: &[usize]| items.iter().copied().collect::<GrowingList<_>>();
    let mut longer = list(&[1]);
    longer.extend([2]);
    assert_eq!(longer, list(&[1, 2]));
    assert_eq!(longer.items(), [1, 2]);
    assert_ne!(longer, list(&[1, 3]));
    assert_ne!(longer, list(&[1]));
    assert!(list(&[]).is_empty() && !longer.is_empty());
    let map = |entries: &[(usize, usize)]| entries.iter().copied().collect::<GrowingMap<_, _>>();
    assert_eq!(map(&[(1, 1), (2, 2)]), map(&[(2, 2), (1, 1)]));
    for other in [&[(1, 1), (2, 3)][..], &[(1, 1), (3, 2)], &[(1, 1)], &[]] {
        assert_ne!(map(&[(1, 1), (2, 2)]), map(other));
        assert_ne!(map(other), map(&[(1, 1), (2, 2)]));
    }
}

#[test]
fn what_is_no_list_or_map_is_refused_with_what_it_should_be() {
    let error = serde_json::from_str::<GrowingList<usize>>("{}").unwrap_err();
    assert!(error.to_string().contains("expected a list"), "{error}");
    let error = serde_json::from_str::<GrowingMap<String, usize>>("[]").unwrap_err();
    assert!(error.to_string().contains("expected a map"), "{error}");
}

#[test]
fn a_value_that_is_no_json_is_written_as_why_it_is_not() {
    let no_text_as_key = BTreeMap::from([(vec![1], 1)]);
    let why = json!({ "unwritable": "key must be a string" });
    assert_eq!(read(&text_of(&no_text_as_key)), why);
    assert_eq!(read(&StateWriter::default().write(&no_text_as_key)), why);
}

proptest! {
    #[test]
    fn any_changes_are_read_back(
        changes in prop::collection::vec((0..40_usize, 0..5_u8, "[a-dü,\"{}]{0,400}"), 1..80),
    ) {
        let mut state = State::default();
        let mut writer = StateWriter::default();
        let mut written = Written::default();
        for (number, kind, text) in changes {
            match kind {
                0 => state.list.push(text.into()),
                1 => { state.map.insert(number.to_string(), text.into()); }
                2 => state.map.extend_list((number / 8).to_string(), vec![text.into(); number % 4]),
                // A name is in one of the two parts.
                3 if number % 3 == 0 => {
                    state.named.few.remove(&text);
                    state.named.many.insert(text, number.into());
                }
                3 if number % 3 == 1 && !state.named.many.contains_key(&text) => {
                    state.named.few.insert(text, [number].into_iter().collect());
                }
                3 => { state.numbers.insert(number, Some(text)); }
                _ => state.last = Some(text),
            }
            written.check(&writer.write(&state), &state);
        }
    }
}
