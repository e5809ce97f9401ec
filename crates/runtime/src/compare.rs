//! Differences between two JSON values.

use serde::Serialize;
use serde_json::Value;

/// A difference between two values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Its JSON pointer.
    pub place: String,
    /// What the first has there.
    pub one: Value,
    /// What the second has there.
    pub other: Value,
}

/// Every place at which two values differ, as deep as it can be told; keys for which `skip` holds are
/// left out.
pub fn differences(one: &Value, other: &Value, skip: fn(&str) -> bool) -> Vec<Difference> {
    let mut found = Vec::new();
    collect(one, other, String::new(), skip, &mut found);
    found
}

fn collect(
    one: &Value,
    other: &Value,
    place: String,
    skip: fn(&str) -> bool,
    found: &mut Vec<Difference>,
) {
    if one == other {
        return;
    }
    match (one, other) {
        (Value::Object(before), Value::Object(after)) => {
            let mut keys: Vec<_> = before.keys().chain(after.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys.into_iter().filter(|key| !skip(key)) {
                let place = format!("{place}/{key}");
                collect(&one[key], &other[key], place, skip, found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                collect(before, after, format!("{place}/{index}"), skip, found);
            }
        }
        _ => found.push(Difference {
            place,
            one: one.clone(),
            other: other.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_that_differs_is_found_and_nothing_else() {
        let one = json!({ "a": 1, "b": { "c": [1, 2], "id": 5 }, "d": null });
        let other = json!({ "a": 1, "b": { "c": [1, 3], "id": 6 }, "e": true });
        let found = differences(&one, &other, |key| key == "id");
        let places: Vec<_> = found.iter().map(|found| found.place.as_str()).collect();
        assert_eq!(places, ["/b/c/1", "/e"]);
        assert!(differences(&one, &one, |_| false).is_empty());
    }
}
