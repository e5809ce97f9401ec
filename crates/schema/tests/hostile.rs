//! Schemas and values made to exhaust whoever checks them: each is answered or refused in bounded memory.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on ends here"
)]

use convoke_schema::{Complexity, Limits, Misfit, Schema, SchemaError};
use convoke_testkit::peak_memory;
use serde_json::{Value, json};

const MIB: u64 = 1024 * 1024;

/// What a process takes that checks ordinary values, with what a check may keep in mind.
const BOUND: u64 = 96 * MIB;

/// Runs a scenario in a process of its own, on a stack as small as a runtime's threads have.
fn bounded(test: &str, body: fn()) {
    let peak = peak_memory(test, || {
        let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
        thread.spawn(body).unwrap().join().unwrap();
    });
    assert!(peak.is_none_or(|peak| peak < BOUND), "{peak:?}");
}

/// Definitions of which each refers to the next twice.
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

/// A list in a list in a list.
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
                let misfit = schema.check(&json!("one")).unwrap_err();
                assert!(matches!(misfit, Misfit::Complaints(_)), "{misfit}");
            }
        },
    );
}

#[test]
fn alternatives_that_overlap_are_tried_once_for_each_part_of_a_value() {
    bounded(
        "alternatives_that_overlap_are_tried_once_for_each_part_of_a_value",
        || {
            let list = json!({"type": "array", "items": {"$ref": "#/$defs/n"}});
            let schema = Schema::compile(&json!({
                "$ref": "#/$defs/n",
                "$defs": {"n": {"anyOf": [list, list, {"type": "integer"}]}},
            }))
            .unwrap();
            assert!(schema.check(&nested(60, json!(1))).is_ok());
            let misfit = schema.check(&nested(60, json!("one"))).unwrap_err();
            assert!(matches!(misfit, Misfit::Complaints(_)), "{misfit}");
        },
    );
}

#[test]
fn alternatives_whose_answers_cannot_be_kept_end_with_the_budget() {
    bounded(
        "alternatives_whose_answers_cannot_be_kept_end_with_the_budget",
        || {
            // What was evaluated is found out anew at each level.
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
            let misfit = schema.check(&json!({"a": 1})).unwrap_err();
            let steps = Limits::default().steps;
            assert_eq!(misfit, Misfit::TooComplex(Complexity::Steps(steps)));
        },
    );
}

#[test]
fn references_that_lead_nowhere_are_refused() {
    bounded("references_that_lead_nowhere_are_refused", || {
        let depth = Limits::default().depth;
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
            json!({"anyOf": [{"$ref": "#"}]}),
            json!({"not": {"$ref": "#"}}),
        ] {
            let misfit = Schema::compile(&schema).unwrap().check(&json!(1));
            let deep = Misfit::TooComplex(Complexity::Depth(depth));
            assert_eq!(misfit.unwrap_err(), deep, "{schema}");
        }
    });
}

#[test]
fn a_chain_of_references_is_followed_no_deeper_than_the_stack_allows() {
    bounded(
        "a_chain_of_references_is_followed_no_deeper_than_the_stack_allows",
        || {
            let chain = |length: usize| {
                let mut definitions = serde_json::Map::new();
                for level in 0..length {
                    let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
                    let all = json!({"allOf": [{"if": next, "then": true, "else": false}]});
                    definitions.insert(format!("d{level}"), all);
                }
                let end = json!({"type": "object", "unevaluatedProperties": {"type": "integer"}});
                definitions.insert(format!("d{length}"), end);
                let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions, "unevaluatedProperties": false});
                Schema::compile(&schema).unwrap()
            };
            assert_eq!(chain(60).check(&json!({"a": 1})), Ok(()));
            let misfit = chain(60).check(&json!({"a": "1"})).unwrap_err();
            assert!(matches!(misfit, Misfit::Complaints(_)), "{misfit}");
            let misfit = chain(3_000).check(&json!({"a": 1})).unwrap_err();
            let depth = Limits::default().depth;
            assert_eq!(misfit, Misfit::TooComplex(Complexity::Depth(depth)));
        },
    );
}

#[test]
fn schemas_that_refer_to_each_other_in_every_order_are_compiled_once_each() {
    bounded(
        "schemas_that_refer_to_each_other_in_every_order_are_compiled_once_each",
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
fn a_schema_of_too_many_parts_is_refused() {
    bounded("a_schema_of_too_many_parts_is_refused", || {
        let properties: serde_json::Map<String, Value> = (0..Limits::default().schemas)
            .map(|number| (format!("p{number}"), json!({"minLength": number})))
            .collect();
        let error = Schema::compile(&json!({ "properties": properties })).unwrap_err();
        assert!(matches!(error, SchemaError::TooComplex(_)), "{error}");
    });
}

#[test]
fn patterns_take_no_more_room_than_they_may() {
    bounded("patterns_take_no_more_room_than_they_may", || {
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
fn a_pattern_that_goes_back_without_end_is_paid_for() {
    bounded("a_pattern_that_goes_back_without_end_is_paid_for", || {
        let slow = json!({"items": {"pattern": "^(?=(a+)+$)(a+)+\\1$"}});
        let schema = Schema::compile(&slow).unwrap();
        let item = format!("{}!", "a".repeat(200));
        let few: Vec<&str> = vec![&item; 3];
        assert!(matches!(
            schema.check(&json!(few)),
            Err(Misfit::Complaints(_))
        ));
        let linear = Schema::compile(&json!({"items": {"pattern": "^(a+)+$"}})).unwrap();
        let many = vec!["a".repeat(200); 10_000];
        assert_eq!(linear.check(&json!(many)), Ok(()));
    });
}

#[test]
fn complaints_are_few_and_short_however_much_is_wrong() {
    bounded("complaints_are_few_and_short_however_much_is_wrong", || {
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
        let Misfit::Complaints(complaints) = schema.check(&value).unwrap_err() else {
            panic!("the value can be checked")
        };
        assert_eq!(complaints.len(), limits.complaints);
        for complaint in &complaints {
            assert!(complaint.message.chars().count() <= limits.complaint_characters + 1);
        }
    });
}

#[test]
fn a_large_value_is_refused_once_its_check_has_taken_the_steps_it_may() {
    bounded(
        "a_large_value_is_refused_once_its_check_has_taken_the_steps_it_may",
        || {
            let schema = Schema::compile(&json!({"items": {"type": "integer"}})).unwrap();
            let steps = Limits::default().steps;
            let fits = json!(vec![1; usize::try_from(steps).unwrap() / 4]);
            assert_eq!(schema.check(&fits), Ok(()));
            let exceeds = json!(vec![1; usize::try_from(steps).unwrap()]);
            let complexity = Misfit::TooComplex(Complexity::Steps(steps));
            assert_eq!(schema.check(&exceeds), Err(complexity.clone()));
            let unique = Schema::compile(&json!({"uniqueItems": true})).unwrap();
            assert_eq!(unique.check(&exceeds), Err(complexity));
        },
    );
}

#[test]
fn a_value_is_refused_at_the_same_step_every_time() {
    let schema = json!({"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}});
    let schema = Schema::compile(&schema).unwrap();
    let value = json!([1, "two", 3]);
    let least = (0..1_000)
        .find(|steps| schema.check_within(&value, *steps).is_ok())
        .unwrap();
    for _ in 0..10 {
        assert!(schema.check_within(&value, least).is_ok());
        let misfit = schema.check_within(&value, least - 1).unwrap_err();
        assert!(matches!(misfit, Misfit::TooComplex(_)), "{misfit}");
    }
}
