//! Schemas and values made to exhaust the checker: each is answered or rejected in bounded memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use convoke_schema::{CheckError, Complexity, Limits, Schema, SchemaError};
use convoke_testkit::peak_memory;
use serde_json::{Value, json};

const MIB: u64 = 1024 * 1024;

/// The memory of a process that checks ordinary values, plus the cached results of one check.
const BOUND: u64 = 96 * MIB;

/// Runs a scenario in its own process, on a stack as small as that of a runtime's threads.
fn bounded(test: &str, body: fn()) {
    let peak = peak_memory(test, || {
        let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
        thread.spawn(body).unwrap().join().unwrap();
    });
    assert!(peak.is_none_or(|peak| peak < BOUND), "{peak:?}");
}

/// Definitions that each reference the next one twice.
fn doubling(keyword: &str, depth: usize, end: &Value) -> Value {
    let mut definitions = serde_json::Map::new();
    for level in 0..depth {
        let next = format!("#/$defs/d{}", level + 1);
        let pair = json!([{"$ref": next}, {"$ref": next, "title": "again"}]);
        definitions.insert(format!("d{level}"), json!({ keyword: pair }));
    }
    definitions.insert(format!("d{depth}"), end.clone());
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

/// Nested lists.
fn nested(depth: usize, innermost: Value) -> Value {
    (0..depth).fold(innermost, |value, _| json!([value]))
}

#[test]
fn definitions_that_double_at_every_level_are_compiled_and_checked() {
    bounded(
        "definitions_that_double_at_every_level_are_compiled_and_checked",
        || {
            for keyword in ["anyOf", "allOf", "oneOf"] {
                let schema = Schema::compile(&doubling(keyword, 60, &json!({"type": "integer"})));
                let schema = schema.unwrap();
                assert_eq!(schema.check(&json!(1)).is_ok(), keyword != "oneOf");
                let error = schema.check(&json!("one")).unwrap_err();
                assert!(matches!(error, CheckError::Violations(_)), "{error}");
            }
        },
    );
}

#[test]
fn overlapping_alternatives_are_tried_once_per_part_of_a_value() {
    bounded(
        "overlapping_alternatives_are_tried_once_per_part_of_a_value",
        || {
            let list = json!({"type": "array", "items": {"$ref": "#/$defs/n"}});
            let schema = Schema::compile(&json!({
                "$ref": "#/$defs/n",
                "$defs": {"n": {"anyOf": [list, list, {"type": "integer"}]}},
            }))
            .unwrap();
            assert!(schema.check(&nested(60, json!(1))).is_ok());
            let error = schema.check(&nested(60, json!("one"))).unwrap_err();
            assert!(matches!(error, CheckError::Violations(_)), "{error}");
        },
    );
}

#[test]
fn alternatives_that_cannot_be_cached_end_with_the_budget() {
    bounded(
        "alternatives_that_cannot_be_cached_end_with_the_budget",
        || {
            // Unevaluated items cannot be cached and are computed again at every level.
            let pair = json!([{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n", "title": "again"}]);
            let mut definitions = serde_json::Map::new();
            for level in 0..60 {
                let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
                definitions.insert(format!("d{level}"), json!({"anyOf": [next, next, pair[0]]}));
            }
            definitions.insert("d60".into(), json!({"properties": {"a": {}}}));
            definitions.insert("n".into(), json!({"properties": {"b": {}}}));
            let schema = Schema::compile(&json!({
                "$ref": "#/$defs/d0", "$defs": definitions, "unevaluatedProperties": false,
            }))
            .unwrap();
            let error = schema.check(&json!({"a": 1})).unwrap_err();
            let steps = Limits::default().steps;
            assert_eq!(error, CheckError::TooComplex(Complexity::Steps(steps)));
        },
    );
}

#[test]
fn references_that_do_not_resolve_are_rejected() {
    bounded("references_that_do_not_resolve_are_rejected", || {
        let depth = Limits::default().depth;
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
            json!({"anyOf": [{"$ref": "#"}]}),
            json!({"not": {"$ref": "#"}}),
        ] {
            let error = Schema::compile(&schema).unwrap().check(&json!(1));
            let deep = CheckError::TooComplex(Complexity::Depth(depth));
            assert_eq!(error.unwrap_err(), deep, "{schema}");
        }
    });
}

#[test]
fn a_chain_of_references_stops_at_the_depth_limit() {
    bounded("a_chain_of_references_stops_at_the_depth_limit", || {
        let chain = |length: usize| {
            let mut definitions = serde_json::Map::new();
            for level in 0..length {
                let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
                let all = json!({"allOf": [{"if": next, "then": true, "else": false}]});
                definitions.insert(format!("d{level}"), all);
            }
            let end = json!({"type": "object", "unevaluatedProperties": {"type": "integer"}});
            definitions.insert(format!("d{length}"), end);
            let schema =
                json!({"$ref": "#/$defs/d0", "$defs": definitions, "unevaluatedProperties": false});
            Schema::compile(&schema).unwrap()
        };
        assert_eq!(chain(60).check(&json!({"a": 1})), Ok(()));
        let error = chain(60).check(&json!({"a": "1"})).unwrap_err();
        assert!(matches!(error, CheckError::Violations(_)), "{error}");
        let error = chain(3_000).check(&json!({"a": 1})).unwrap_err();
        let depth = Limits::default().depth;
        assert_eq!(error, CheckError::TooComplex(Complexity::Depth(depth)));
    });
}

#[test]
fn schemas_that_reference_each_other_are_compiled_once_each() {
    bounded(
        "schemas_that_reference_each_other_are_compiled_once_each",
        || {
            let count = 40;
            let all: Vec<Value> = (0..count)
                .map(|other| json!({"$ref": format!("#/$defs/d{other}")}))
                .collect();
            let definitions: serde_json::Map<String, Value> = (0..count)
                .map(|own| {
                    (
                        format!("d{own}"),
                        json!({"properties": {"a": {"anyOf": all}}}),
                    )
                })
                .collect();
            let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
            let schema = Schema::compile(&schema).unwrap();
            let value = (0..30).fold(json!(1), |value, _| json!({ "a": value }));
            assert_eq!(schema.check(&value), Ok(()));
        },
    );
}

#[test]
fn a_schema_with_too_many_parts_is_rejected() {
    bounded("a_schema_with_too_many_parts_is_rejected", || {
        let properties: serde_json::Map<String, Value> = (0..Limits::default().schemas)
            .map(|number| (format!("p{number}"), json!({"minLength": number})))
            .collect();
        let error = Schema::compile(&json!({ "properties": properties })).unwrap_err();
        assert!(matches!(error, SchemaError::TooComplex(_)), "{error}");
    });
}

#[test]
fn compiled_patterns_stay_within_their_byte_limit() {
    bounded("compiled_patterns_stay_within_their_byte_limit", || {
        let properties: serde_json::Map<String, Value> = (0..2_000)
            .map(|number| {
                let pattern = format!("^({}){{200}}$", "[a-z]".repeat(number % 40 + 20));
                (format!("p{number}"), json!({ "pattern": pattern }))
            })
            .collect();
        let error = Schema::compile(&json!({ "properties": properties })).unwrap_err();
        assert!(matches!(error, SchemaError::TooComplex(_)), "{error}");
        let one = json!({"pattern": "((a{1000}){1000}){1000}"});
        assert!(Schema::compile(&one).is_err());
    });
}

#[test]
fn a_backtracking_pattern_is_charged_to_the_budget() {
    bounded("a_backtracking_pattern_is_charged_to_the_budget", || {
        let slow = json!({"items": {"pattern": "^(?=(a+)+$)(a+)+\\1$"}});
        let schema = Schema::compile(&slow).unwrap();
        let item = format!("{}!", "a".repeat(200));
        let few: Vec<&str> = vec![&item; 3];
        assert!(matches!(
            schema.check(&json!(few)),
            Err(CheckError::Violations(_))
        ));
        let linear = Schema::compile(&json!({"items": {"pattern": "^(a+)+$"}})).unwrap();
        let many = vec!["a".repeat(200); 10_000];
        assert_eq!(linear.check(&json!(many)), Ok(()));
    });
}

#[test]
fn violations_are_limited_in_number_and_length() {
    bounded("violations_are_limited_in_number_and_length", || {
        let limits = Limits::default();
        let schema = Schema::compile(&json!({
            "properties": {"list": {"items": {"type": "integer"}}, "text": {"maxLength": 5}},
            "additionalProperties": false,
        }))
        .unwrap();
        let text = "x".repeat(256 * 1024);
        let unexpected: serde_json::Map<String, Value> = (0..1_000)
            .map(|number| (format!("u{number}"), json!(1)))
            .collect();
        let mut value =
            json!({"list": vec![text.as_str(); 30], "text": "x".repeat(8 * 1024 * 1024)});
        value.as_object_mut().unwrap().extend(unexpected);
        let CheckError::Violations(violations) = schema.check(&value).unwrap_err() else {
            panic!("the value can be checked")
        };
        assert_eq!(violations.len(), limits.violations);
        for violation in &violations {
            assert!(violation.message.chars().count() <= limits.violation_characters + 1);
        }
    });
}

#[test]
fn a_large_value_is_rejected_when_the_step_budget_is_used_up() {
    bounded(
        "a_large_value_is_rejected_when_the_step_budget_is_used_up",
        || {
            let schema = Schema::compile(&json!({"items": {"type": "integer"}})).unwrap();
            let steps = Limits::default().steps;
            let matches = json!(vec![1; usize::try_from(steps).unwrap() / 4]);
            assert_eq!(schema.check(&matches), Ok(()));
            let exceeds = json!(vec![1; usize::try_from(steps).unwrap()]);
            let complexity = CheckError::TooComplex(Complexity::Steps(steps));
            assert_eq!(schema.check(&exceeds), Err(complexity.clone()));
            let unique = Schema::compile(&json!({"uniqueItems": true})).unwrap();
            assert_eq!(unique.check(&exceeds), Err(complexity));
        },
    );
}

#[test]
fn a_value_is_rejected_at_the_same_step_every_time() {
    let schema = json!({"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}});
    let schema = Schema::compile(&schema).unwrap();
    let value = json!([1, "two", 3]);
    let least = (0..1_000)
        .find(|steps| schema.check_within(&value, *steps).is_ok())
        .unwrap();
    for _ in 0..10 {
        assert!(schema.check_within(&value, least).is_ok());
        let error = schema.check_within(&value, least - 1).unwrap_err();
        assert!(matches!(error, CheckError::TooComplex(_)), "{error}");
    }
}
