//! The names of filters and tests. The template engine has them but does not list them.

/// The filters available after `|`.
const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];

/// The tests available after `is`.
const TESTS: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

pub(crate) fn known_filters() -> &'static [&'static str] {
    FILTERS
}

pub(crate) fn known_tests() -> &'static [&'static str] {
    TESTS
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::template::TemplateLanguage;

    #[test]
    fn every_known_filter_and_test_is_there_when_a_template_is_rendered() {
        let language = TemplateLanguage::new();
        let filters = known_filters()
            .iter()
            .map(|name| format!("{{{{ 'a' | {name} }}}}"));
        let tests = known_tests()
            .iter()
            .map(|name| format!("{{{{ 'a' is {name} }}}}"));
        for template in filters.chain(tests) {
            if let Err(fault) = language.text(&template, &Map::new()) {
                let unknown = ["unknown filter", "unknown test"];
                let is_unknown = unknown.iter().any(|words| fault.message.contains(words));
                assert!(!is_unknown, "{template}: {fault}");
            }
        }
        let fault = language
            .text("{{ 'a' | nosuch }}", &Map::new())
            .unwrap_err();
        assert!(fault.message.contains("unknown filter"), "{fault}");
    }
}
