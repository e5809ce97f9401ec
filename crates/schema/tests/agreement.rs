//! Results agree with the `jsonschema` crate for every draft, wherever that crate can decide.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use convoke_schema::{CheckError, Schema, SchemaError};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const DRAFTS: [&str; 5] = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];

/// Small values, so that a schema often constrains them.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..4).prop_map(Value::from),
        Just(json!(1.0)),
        Just(json!(0.5)),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]{1,2}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn leaf_keyword() -> impl Strategy<Value = (&'static str, Value)> {
    prop_oneof![
        prop::sample::select(vec![
            "integer", "string", "object", "array", "null", "number"
        ])
        .prop_map(|kind| ("type", json!(kind))),
        value().prop_map(|value| ("const", value)),
        prop::collection::vec(value(), 1..3).prop_filter_map("twice", |values| {
            let distinct = values.windows(2).all(|pair| pair[0] != pair[1]);
            distinct.then(|| ("enum", json!(values)))
        }),
        (-1..3).prop_map(|least| ("minimum", json!(least))),
        (0..3).prop_map(|most| ("maxLength", json!(most))),
        (0..3).prop_map(|least| ("minItems", json!(least))),
        (0..3).prop_map(|most| ("maxProperties", json!(most))),
        Just(("required", json!(["a"]))),
        Just(("uniqueItems", json!(true))),
        Just(("pattern", json!("^a"))),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let reference = prop::sample::select(vec!["#/$defs/x", "#/$defs/y"]);
    let leaf = prop_oneof![
        4 => prop::collection::vec(leaf_keyword(), 0..3).prop_map(|keywords| {
            let keywords = keywords.into_iter().map(|(name, value)| (name.to_owned(), value));
            Value::Object(keywords.collect())
        }),
        1 => reference.prop_map(|target| json!({ "$ref": target })),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let one = || inner.clone();
        let several = || prop::collection::vec(inner.clone(), 1..3).prop_map(Value::from);
        let named = || {
            prop::collection::btree_map("[abc]", inner.clone(), 1..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        };
        let keyword = prop_oneof![
            several().prop_map(|schemas| ("allOf", schemas)),
            several().prop_map(|schemas| ("anyOf", schemas)),
            several().prop_map(|schemas| ("oneOf", schemas)),
            one().prop_map(|schema| ("not", schema)),
            one().prop_map(|schema| ("if", schema)),
            one().prop_map(|schema| ("then", schema)),
            one().prop_map(|schema| ("else", schema)),
            named().prop_map(|schemas| ("properties", schemas)),
            named().prop_map(|schemas| ("patternProperties", schemas)),
            named().prop_map(|schemas| ("dependencies", schemas)),
            named().prop_map(|schemas| ("dependentSchemas", schemas)),
            one().prop_map(|schema| ("additionalProperties", schema)),
            one().prop_map(|schema| ("propertyNames", schema)),
            one().prop_map(|schema| ("items", schema)),
            several().prop_map(|schemas| ("items", schemas)),
            several().prop_map(|schemas| ("prefixItems", schemas)),
            one().prop_map(|schema| ("additionalItems", schema)),
            one().prop_map(|schema| ("contains", schema)),
            (0..3).prop_map(|least| ("minContains", json!(least))),
            (0..3).prop_map(|most| ("maxContains", json!(most))),
            Just(("unevaluatedProperties", json!(false))),
            Just(("unevaluatedItems", json!(false))),
            Just(("additionalProperties", json!({"type": "integer"}))),
            leaf_keyword(),
        ];
        prop::collection::vec(keyword, 1..5).prop_map(|keywords| {
            let keywords = keywords
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value));
            Value::Object(keywords.collect::<Map<String, Value>>())
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_agree(
        draft in prop::sample::select(DRAFTS.to_vec()),
        (whole, x, y) in (schema(), schema(), schema()),
        values in prop::collection::vec(value(), 8),
    ) {
        let schema = json!({
            "$schema": draft, "allOf": [whole], "$defs": {"x": x, "y": y},
        });
        let theirs = jsonschema::validator_for(&schema);
        let ours = Schema::compile(&schema);
        prop_assert_eq!(theirs.is_ok(), ours.is_ok(), "{} {:?} {:?}", schema, theirs, ours);
        if let (Ok(theirs), Ok(ours)) = (theirs, ours) {
            for value in values {
                match ours.check(&value) {
                    // Circular references are rejected here and unspecified there.
                    Err(CheckError::TooComplex(_)) => {}
                    answer => prop_assert_eq!(
                        theirs.is_valid(&value), answer.is_ok(), "{} {} {:?}", schema, value, answer
                    ),
                }
            }
        }
    }
}

#[track_caller]
fn agree(schema: &Value, values: &[Value]) {
    let ours = Schema::compile(schema).unwrap();
    let theirs = jsonschema::validator_for(schema).unwrap();
    for value in values {
        let answer = ours.check(value);
        assert_eq!(
            answer.is_ok(),
            theirs.is_valid(value),
            "{schema} {value} {answer:?}"
        );
    }
}

#[test]
fn a_reference_to_a_drafts_own_schema_is_followed() {
    let values = [
        json!({"type": "object"}),
        json!({"type": "nothing"}),
        json!(true),
        json!(1),
    ];
    for draft in DRAFTS {
        agree(&json!({"$schema": draft, "$ref": draft}), &values);
        // A schema of another draft may refer to it too.
        let schema = Schema::compile(&json!({ "$ref": draft })).unwrap();
        assert_eq!(schema.check(&values[0]), Ok(()), "{draft}");
        assert!(schema.check(&values[1]).is_err(), "{draft}");
    }
    let tool = json!({"properties": {"schema": {"$ref": DRAFTS[4]}}});
    agree(
        &tool,
        &[
            json!({"schema": {"items": {"type": 5}}}),
            json!({"schema": {"items": {}}}),
        ],
    );
}

#[test]
fn ids_and_anchors_are_followed() {
    let values = [json!([1]), json!(["a"]), json!([[1]]), json!([[null]])];
    agree(
        &json!({
            "$id": "https://example.com/tool", "items": {"$ref": "item"},
            "$defs": {"i": {"$id": "item", "$ref": "#here", "$defs": {"h": {"$anchor": "here", "type": "integer"}}}},
        }),
        &values,
    );
    agree(
        &json!({
            "$schema": DRAFTS[4], "$dynamicAnchor": "node",
            "type": ["array", "integer"], "items": {"$dynamicRef": "#node"},
        }),
        &values,
    );
    agree(
        &json!({
            "$schema": DRAFTS[3], "$recursiveAnchor": true,
            "type": ["array", "integer"], "items": {"$recursiveRef": "#"},
        }),
        &values,
    );
}

#[test]
fn dynamic_references_are_rejected_in_schemas_of_several_documents() {
    let schema = json!({
        "$id": "https://example.com/strings", "$ref": "list",
        "$defs": {
            "item": {"$dynamicAnchor": "item", "type": "string"},
            "list": {
                "$id": "list", "items": {"$dynamicRef": "#item"},
                "$defs": {"item": {"$dynamicAnchor": "item"}},
            },
        },
    });
    let error = Schema::compile(&schema).unwrap_err();
    assert!(matches!(error, SchemaError::Unsupported(_)), "{error}");
}

#[test]
fn nothing_is_fetched() {
    let error = Schema::compile(&json!({"$ref": "https://example.com/elsewhere"})).unwrap_err();
    assert!(matches!(error, SchemaError::Invalid(_)), "{error}");
}

#[test]
fn what_is_not_a_schema_is_rejected() {
    for schema in [
        json!({"type": "wrong"}),
        json!({"properties": {"a": 5}}),
        json!({"$ref": "#/$defs/missing"}),
        json!({"pattern": "("}),
        json!({"$schema": "https://example.com/a-draft-of-our-own"}),
        json!(5),
    ] {
        let error = Schema::compile(&schema).unwrap_err();
        assert!(
            matches!(error, SchemaError::Invalid(_)),
            "{schema}: {error}"
        );
    }
}

#[test]
fn every_mismatching_part_is_named() {
    let schema = Schema::compile(&json!({
        "type": "object",
        "properties": {
            "a/b": {"items": {"type": "integer"}},
            "choice": {"anyOf": [{"type": "integer"}, {"const": "all"}]},
            "never": false,
        },
        "propertyNames": {"maxLength": 6},
        "required": ["missing"],
        "additionalProperties": false,
    }))
    .unwrap();
    let error = schema
        .check(&json!({"a/b": [1, "2"], "choice": "none", "never": 1, "much-too-long": 1}))
        .unwrap_err();
    let CheckError::Violations(violations) = error else {
        panic!("{error}")
    };
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            r#""missing" is a required property"#,
            r#"/a~1b/1: "2" is not of type "integer""#,
            "/choice: \"none\" is not valid under any of the schemas listed in the 'anyOf' keyword",
            "/never: no value is allowed here, got 1",
            "the property name 'much-too-long' does not match 'propertyNames'",
            "Additional properties are not allowed ('much-too-long' was unexpected)",
        ]
    );
}

/// Shaped like the schemas of large public APIs: hundreds of fields with a few keywords each.
#[test]
fn a_large_ordinary_schema_is_checked_within_the_usual_limits() {
    let field = |number: usize| {
        json!({
            "description": format!("Field {number} of the request."),
            "anyOf": [
                {"type": "string", "enum": (0..30).map(|n| format!("value-{n}")).collect::<Vec<_>>()},
                {"type": "array", "items": {"$ref": "#/$defs/label"}, "maxItems": 100},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/label"}},
                {"type": "null"},
            ],
            "default": null,
        })
    };
    let properties: Map<String, Value> = (0..800)
        .map(|number| (format!("field_{number}"), field(number)))
        .collect();
    let schema = Schema::compile(&json!({
        "$schema": DRAFTS[2], "type": "object", "properties": properties, "additionalProperties": false,
        "$defs": {"label": {
            "type": "object",
            "properties": {"name": {"type": "string", "pattern": "^[\\w-]{1,50}$"}, "color": {"type": "string"}},
            "required": ["name"],
        }},
    }))
    .unwrap();
    let labels = json!([{"name": "bug", "color": "red"}, {"name": "help-wanted"}]);
    let value: Map<String, Value> = (0..800)
        .map(|number| (format!("field_{number}"), labels.clone()))
        .collect();
    assert_eq!(schema.check(&Value::Object(value)), Ok(()));
}
