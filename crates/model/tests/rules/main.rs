//! Every rule rejects a value that breaks it, with its code.
//!
//! A case is a valid value, a change (a JSON merge patch, in which `null` removes a key) and the code of
//! the broken rule. `coverage` fails if a code has no case.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod checks;
mod config;
mod coverage;
mod runtime;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) const NIL: &str = "00000000-0000-0000-0000-000000000000";
pub(crate) const ONE: &str = "00000000-0000-0000-0000-000000000001";
pub(crate) const EARLY: &str = "2026-01-01T00:00:00Z";
pub(crate) const LATE: &str = "2026-01-01T00:00:07Z";

/// Reads a valid value.
pub(crate) fn read<T: DeserializeOwned>(valid: &Value) -> T {
    serde_json::from_value(valid.clone()).unwrap_or_else(|error| panic!("{error} in {valid}"))
}

/// Checks that `valid` is accepted and that each change is rejected with its code.
pub(crate) fn rejects<T: DeserializeOwned>(valid: &Value, cases: &[(Value, &str)]) {
    read::<T>(valid);
    for (change, code) in cases {
        let mut changed = valid.clone();
        merge(&mut changed, change);
        match serde_json::from_value::<T>(changed) {
            Ok(_) => panic!("{change} is accepted, against {code}"),
            Err(error) => {
                let message = error.to_string();
                assert!(
                    message.contains(&format!("[{code}]")),
                    "{change} is refused with {message}"
                );
            }
        }
    }
}

/// RFC 7386.
fn merge(into: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *into = change.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(serde_json::Map::new());
    }
    let fields = into.as_object_mut().unwrap();
    for (key, value) in change {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
