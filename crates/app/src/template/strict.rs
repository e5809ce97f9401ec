//! What is not there. A field that a value does not have is an error wherever it is used, so that a misspelt name leaves no
//! hole in a reply and decides no condition. A name that may stand for nothing, such as an optional slot or the output of
//! a node that did not run, is absent: it is false and is written as nothing, but it has no fields, and nothing compares
//! to it. `or`, `default` and `is defined` ask for both.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use minijinja::machinery::{Instruction, Instructions};
use minijinja::value::{Object, ObjectRepr, Rest, StringInput, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value, tests as kinds};

use super::meter::{self, NO_CACHE_SLOT};

/// Operators as filters. Templates cannot use these names.
const EQUAL: &str = "==";
const UNEQUAL: &str = "!=";
const LESS: &str = "<";
const LESS_OR_EQUAL: &str = "<=";
const GREATER: &str = ">";
const GREATER_OR_EQUAL: &str = ">=";
const IN: &str = "_in_";
const BEFORE_OR: &str = "_or_";
const RESULT: &str = "_result_";

/// A name that stands for nothing.
#[derive(Debug)]
struct Absent(Arc<str>);

impl Object for Absent {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }

    fn render(self: &Arc<Self>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// The value of a name that stands for nothing.
pub(super) fn absent(name: &str) -> Value {
    Value::from_object(Absent(name.into()))
}

/// An absent value as none, for those who take values out of templates.
pub(super) fn none_if_absent(value: &Value) -> Value {
    if is_absent(value) {
        return Value::from(());
    }
    value.clone()
}

fn is_absent(value: &Value) -> bool {
    value.downcast_object_ref::<Absent>().is_some()
}

fn is_missing(value: &Value) -> bool {
    value.is_undefined() || is_absent(value)
}

/// Whether an order of two values is the one that an operator asks for.
type OrderTest = fn(Ordering) -> bool;

/// Whether a value is the one that a test asks for.
type ValueTest = fn(&Value) -> bool;

/// Whether two values are as a test asks.
type PairTest = fn(&Value, &Value) -> bool;

/// Tests of what kind a value is.
const KIND_TESTS: [(&str, ValueTest); 15] = [
    ("boolean", kinds::is_boolean),
    ("escaped", kinds::is_safe),
    ("even", |value| kinds::is_even(value.clone())),
    ("float", kinds::is_float),
    ("int", kinds::is_integer),
    ("integer", kinds::is_integer),
    ("iterable", kinds::is_iterable),
    ("lower", kinds::is_lower),
    ("mapping", kinds::is_mapping),
    ("number", kinds::is_number),
    ("odd", |value| kinds::is_odd(value.clone())),
    ("safe", kinds::is_safe),
    ("sequence", kinds::is_sequence),
    ("string", kinds::is_string),
    ("upper", kinds::is_upper),
];

/// Further tests of two values.
const PAIR_TESTS: [(&str, PairTest); 2] = [
    ("divisibleby", kinds::is_divisibleby),
    ("sameas", kinds::is_sameas),
];

/// Replaces whatever takes a missing value for false or for nothing.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // Errors name the expression that is not there.
    environment.set_debug(true);
    let orders: [(&str, &[&str], OrderTest); 4] = [
        (LESS, &["<", "lt", "lessthan"], Ordering::is_lt),
        (LESS_OR_EQUAL, &["<=", "le"], Ordering::is_le),
        (GREATER, &[">", "gt", "greaterthan"], Ordering::is_gt),
        (GREATER_OR_EQUAL, &[">=", "ge"], Ordering::is_ge),
    ];
    for (operator, tests, holds) in orders {
        let compare =
            move |state: &State<'_, '_>, a: &Value, b: &Value| ordering(state, a, b).map(holds);
        add_comparison(environment, operator, tests, compare);
    }
    add_comparison(environment, EQUAL, &["==", "eq", "equalto"], is_equal);
    add_comparison(environment, UNEQUAL, &["!=", "ne"], |state, a, b| {
        is_equal(state, a, b).map(|equal| !equal)
    });
    add_comparison(environment, IN, &["in"], contains);
    environment.add_filter(BEFORE_OR, |value: &Value| {
        if value.is_undefined() {
            return Value::from(());
        }
        value.clone()
    });
    environment.add_filter(RESULT, |state: &State<'_, '_>, value: &Value| {
        defined(state, value)?;
        Ok::<_, Error>(none_if_absent(value))
    });
    environment.add_test("defined", |value: &Value| !is_missing(value));
    environment.add_test("undefined", |value: &Value| is_missing(value));
    let constants: [(&str, ValueTest); 3] = [
        ("none", |value| value.is_none() || is_absent(value)),
        ("true", |value| *value == Value::from(true)),
        ("false", |value| *value == Value::from(false)),
    ];
    for (name, holds) in constants {
        environment.add_test(name, move |state: &State<'_, '_>, value: &Value| {
            defined(state, value)?;
            Ok::<_, Error>(holds(value))
        });
    }
    for (name, holds) in KIND_TESTS {
        environment.add_test(name, move |state: &State<'_, '_>, value: &Value| {
            present(state, value)?;
            Ok::<_, Error>(holds(value))
        });
    }
    for (name, holds) in PAIR_TESTS {
        environment.add_test(name, move |state: &State<'_, '_>, a: &Value, b: &Value| {
            present(state, a)?;
            present(state, b)?;
            Ok::<_, Error>(holds(a, b))
        });
    }
    for name in ["default", "d"] {
        environment.add_filter(name, |value: &Value, arguments: Rest<Value>| {
            default(value, &arguments)
        });
    }
}

fn add_comparison(
    environment: &mut Environment<'static>,
    operator: &'static str,
    tests: &[&'static str],
    compare: impl Fn(&State<'_, '_>, &Value, &Value) -> Result<bool, Error>
    + Clone
    + Send
    + Sync
    + 'static,
) {
    let filter = compare.clone();
    environment.add_filter(
        operator,
        move |state: &State<'_, '_>, a: &Value, b: &Value| filter(state, a, b),
    );
    for test in tests {
        let compare = compare.clone();
        environment.add_test(*test, move |state: &State<'_, '_>, a: &Value, b: &Value| {
            compare(state, a, b)
        });
    }
}

/// Makes a program refuse what is not there. Each instruction keeps its index, so that jumps stay valid; what takes more
/// instructions is moved behind the end.
pub(super) fn instrument(instructions: &mut Instructions<'_>, is_expression: bool) {
    let mut choices = Vec::new();
    let mut count = 0;
    while let Some(instruction) = instructions.get_mut(count) {
        let operator = match instruction {
            Instruction::Eq => Some(EQUAL),
            Instruction::Ne => Some(UNEQUAL),
            Instruction::Lt => Some(LESS),
            Instruction::Lte => Some(LESS_OR_EQUAL),
            Instruction::Gt => Some(GREATER),
            Instruction::Gte => Some(GREATER_OR_EQUAL),
            Instruction::In => Some(IN),
            Instruction::JumpIfTrueOrPop(target) => {
                choices.push((count, *target));
                None
            }
            _ => None,
        };
        if let Some(operator) = operator {
            *instruction = Instruction::ApplyFilter(operator, Some(2), NO_CACHE_SLOT);
        }
        count += 1;
    }
    if !choices.is_empty() {
        let end = instructions.add(Instruction::Jump(0));
        for (place, target) in choices {
            let aside = Instruction::ApplyFilter(BEFORE_OR, Some(1), NO_CACHE_SLOT);
            let aside = instructions.add(aside);
            instructions.add(Instruction::JumpIfTrueOrPop(target));
            let last = instructions.add(Instruction::Jump(place + 1));
            if let Some(instruction) = instructions.get_mut(place) {
                *instruction = Instruction::Jump(aside);
            }
            if let Some(instruction) = instructions.get_mut(end) {
                *instruction = Instruction::Jump(last + 1);
            }
        }
    }
    if is_expression {
        instructions.add(Instruction::ApplyFilter(RESULT, Some(1), NO_CACHE_SLOT));
    }
}

/// Refuses a field that its value does not have.
pub(super) fn defined(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        // This knows where the value comes from.
        StringInput::new(state, value)?;
    }
    Ok(())
}

/// Refuses whatever cannot be compared because it is not there.
fn present(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    defined(state, value)?;
    match value.downcast_object_ref::<Absent>() {
        None => Ok(()),
        Some(Absent(name)) => Err(refused(format!("`{name}` is compared, but has no value"))),
    }
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::UndefinedError, message)
}

fn is_equal(state: &State<'_, '_>, a: &Value, b: &Value) -> Result<bool, Error> {
    present(state, a)?;
    present(state, b)?;
    Ok(a == b)
}

fn contains(state: &State<'_, '_>, item: &Value, list: &Value) -> Result<bool, Error> {
    present(state, item)?;
    present(state, list)?;
    let found = meter::evaluate(&[item.clone(), list.clone()], Instruction::In)?;
    Ok(found.is_true())
}

/// Part of the message about two values without an order.
pub(crate) const UNORDERED: &str = "cannot be compared";

/// How two numbers or two texts are ordered. Other values have no order that could be meant, and neither has what is no
/// number: `"nan" | float`.
fn ordering(state: &State<'_, '_>, a: &Value, b: &Value) -> Result<Ordering, Error> {
    present(state, a)?;
    present(state, b)?;
    let is_nan = |value: &Value| f64::try_from(value.clone()).is_ok_and(f64::is_nan);
    match (a.kind(), b.kind()) {
        (ValueKind::Number, ValueKind::Number) if !is_nan(a) && !is_nan(b) => Ok(a.cmp(b)),
        (ValueKind::String, ValueKind::String) => Ok(a.cmp(b)),
        (a, b) => {
            let message = format!("the size of a {a} and a {b} {UNORDERED}");
            Err(Error::new(ErrorKind::InvalidOperation, message))
        }
    }
}

/// `default(value, other, lax)` as in Jinja, for absent values too.
fn default(value: &Value, arguments: &[Value]) -> Value {
    let lax = arguments.get(1).is_some_and(Value::is_true);
    if is_missing(value) || (lax && !value.is_true()) {
        return arguments.first().cloned().unwrap_or_else(|| "".into());
    }
    value.clone()
}

/// Refuses a list in which an item lacks the attribute that a filter reads.
pub(super) fn attributes_present(filter: &str, arguments: &[Value]) -> Result<(), Error> {
    let Some((list, with)) = arguments.split_first() else {
        return Ok(());
    };
    let position = match filter {
        "selectattr" | "rejectattr" => {
            let test = with.get(1).and_then(Value::as_str);
            if matches!(test, Some("defined" | "undefined")) {
                return Ok(());
            }
            Some(0)
        }
        "groupby" => Some(0),
        "join" => Some(1),
        _ => None,
    };
    let options = with.last().filter(|last| last.is_kwargs());
    let option = |name: &str| {
        let value = options?.get_attr(name).ok()?;
        (!value.is_undefined()).then_some(value)
    };
    if option("default").is_some() {
        return Ok(());
    }
    let positional = position.and_then(|position| with.get(position));
    let positional = positional.filter(|value| !value.is_kwargs()).cloned();
    let Some(paths) = positional.or_else(|| option("attribute")) else {
        return Ok(());
    };
    // `sort` takes several, with commas between them.
    let paths = paths.as_str().unwrap_or_default().split(',');
    for path in paths.map(str::trim).filter(|path| !path.is_empty()) {
        if let Ok(mut items) = list.try_iter()
            && items.any(|item| !has(&item, path))
        {
            return Err(refused(format!("an item of the list has no `{path}`")));
        }
    }
    Ok(())
}

/// Whether a value has what a path such as `owner.name` leads to.
fn has(value: &Value, path: &str) -> bool {
    let mut value = value.clone();
    for part in path.split('.') {
        let found = match part.parse::<usize>() {
            Ok(index) => value.get_item_by_index(index),
            Err(_) => value.get_attr(part),
        };
        match found {
            Ok(found) if !found.is_undefined() => value = found,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use crate::template::TemplateLanguage;
    use crate::template::known::{known_filters, known_tests};

    fn context() -> Map<String, Value> {
        let context = json!({ "result": {
            "name": "milk", "count": 3, "none": null, "items": [{ "title": "a" }, { "title": "b" }],
        } });
        context.as_object().unwrap().clone()
    }

    fn text(template: &str) -> Option<String> {
        TemplateLanguage::new().text(template, &context()).ok()
    }

    fn value(expression: &str) -> Option<Value> {
        TemplateLanguage::new().value(expression, &context()).ok()
    }

    #[test]
    fn a_field_that_is_not_there_is_an_error_wherever_it_is_used() {
        for template in [
            "{{ result.nmae }}",
            "{{ result['nmae'] }}",
            "{{ result.items[5].title }}",
            "{{ 'bought ' ~ result.nmae }}",
            "{{ result.nmae.first }}",
            "{{ result.nmae | upper }}",
            "{{ result.nmae | length }}",
            "{% for item in result.items_ %}{{ item }}{% endfor %}",
            "{% if result.nmae == 'milk' %}yes{% endif %}",
            "{% if result.cuont > 2 %}yes{% endif %}",
            "{% if 'milk' in result.nmaes %}yes{% endif %}",
            "{% if result.nmae %}yes{% endif %}",
            "{{ 'yes' if not result.nmae }}",
            "{{ 'yes' if result.nmae is not none }}",
            "{{ 'yes' if result.nmae is ne('x') }}",
            "{{ 'yes' if result.nmae is not true }}",
            "{{ result.items | selectattr('ttle', 'eq', 'a') | list | length }}",
            "{{ result.items | selectattr('ttle') | list | length }}",
            "{{ result.items | map(attribute='ttle') | join }}",
            "{{ result.items | join(', ', 'ttle') }}",
            "{{ result.items | join(', ', attribute='ttle') }}",
            "{{ result.items | sort(attribute='ttle') | length }}",
            "{{ result.items | groupby('ttle') | length }}",
            "{{ (result.items | max(attribute='ttle')).title }}",
        ] {
            assert_eq!(text(template), None, "{template}");
        }
        for expression in [
            "result.nmae",
            "not result.nmae",
            "result.nmae and true",
            "true and result.nmae",
            "false or result.nmae",
            "result.cuont > 2",
            "result.nmae != 'x'",
            "[result.nmae]",
            "{'a': result.nmae}",
        ] {
            assert_eq!(value(expression), None, "{expression}");
        }
    }

    #[test]
    fn no_filter_and_no_test_takes_what_is_not_there() {
        let asks = ["default", "d", "defined", "undefined", "filter", "test"];
        for name in known_filters().iter().filter(|name| !asks.contains(name)) {
            for with in ["", "('x')", "(2)"] {
                assert_eq!(
                    value(&format!("result.nmae | {name}{with}")),
                    None,
                    "{name}"
                );
            }
        }
        for name in known_tests().iter().filter(|name| !asks.contains(name)) {
            for with in ["", "('x')", "(2)"] {
                assert_eq!(
                    value(&format!("result.nmae is {name}{with}")),
                    None,
                    "{name}"
                );
                assert_eq!(
                    value(&format!("not result.nmae is {name}{with}")),
                    None,
                    "{name}"
                );
            }
        }
        assert_eq!(
            value("result.count is number and 4 is even"),
            Some(json!(true))
        );
        assert_eq!(value("4 is divisibleby(3)"), Some(json!(false)));
        assert_eq!(value("due is number"), None);
    }

    #[test]
    fn the_error_names_what_is_not_there() {
        let fault = |expression: &str| {
            let fault = TemplateLanguage::new().value(expression, &context());
            let fault = fault.unwrap_err();
            assert_eq!(fault.code, "template.undefined", "{expression}");
            fault.message
        };
        for (expression, name) in [
            ("result.nmae", "`result.nmae`"),
            ("result.cuont > 2", "`result.cuont`"),
            ("1 if result.nmae else 2", "`result.nmae`"),
            ("due == 'today'", "`due`"),
            ("result.items | map(attribute='ttle') | list", "`ttle`"),
        ] {
            let message = fault(expression);
            assert!(message.contains(name), "{expression}: {message}");
        }
    }

    #[test]
    fn a_field_that_may_be_missing_can_be_asked_for() {
        assert_eq!(text("{{ result.nmae or 'nothing' }}").unwrap(), "nothing");
        assert_eq!(text("{{ result.name or 'nothing' }}").unwrap(), "milk");
        assert_eq!(text("{{ result.a or result.b or 'c' }}").unwrap(), "c");
        assert_eq!(text("{{ result.nmae | default('-') }}").unwrap(), "-");
        assert_eq!(text("{{ '' | default('-', true) }}").unwrap(), "-");
        assert_eq!(text("{{ 'yes' if result.nmae is defined }}").unwrap(), "");
        assert_eq!(
            text("{% for a in [1, 2] %}{{ result.nmae or a }},{% endfor %}.").unwrap(),
            "1,2,."
        );
        let titles = "result.items | map(attribute='ttle', default='-') | list";
        assert_eq!(value(titles), Some(json!(["-", "-"])));
        let named = "result.items | selectattr('ttle', 'defined') | list";
        assert_eq!(value(named), Some(json!([])));
    }

    #[test]
    fn a_name_that_stands_for_nothing_is_false_and_written_as_nothing() {
        assert_eq!(text("[{{ due }}]").unwrap(), "[]");
        assert_eq!(text("{{ (after or result).name }}").unwrap(), "milk");
        assert_eq!(text("{{ after.name or 'none' }}").unwrap(), "none");
        assert_eq!(text("{{ due | default('-') }}").unwrap(), "-");
        assert_eq!(text("{{ 'yes' if due is undefined }}").unwrap(), "yes");
        assert_eq!(
            text("{% if due %}yes{% else %}no{% endif %}").unwrap(),
            "no"
        );
        assert_eq!(value("due is none"), Some(json!(true)));
        assert_eq!(value("due"), Some(Value::Null));
        assert_eq!(value("[due, 1]"), Some(json!([null, 1])));
        for expression in [
            "after.name",
            "after.rate > 2",
            "due == 'today'",
            "due != 'today'",
            "due > 2",
            "'a' in due",
        ] {
            assert_eq!(value(expression), None, "{expression}");
        }
    }

    #[test]
    fn sizes_are_compared_between_two_numbers_or_two_texts() {
        assert_eq!(value("1 < 2 and 2 <= 2.5 and 'b' > 'a'"), Some(json!(true)));
        for expression in ["result.name > 100", "result.none > 1", "result.items >= 1"] {
            assert_eq!(value(expression), None, "{expression}");
        }
        assert_eq!(value("'250' | int > 100"), Some(json!(true)));
    }

    #[test]
    fn whatever_is_there_compares_as_before() {
        assert_eq!(value("result.none == none"), Some(json!(true)));
        assert_eq!(value("'il' in result.name"), Some(json!(true)));
        assert_eq!(value("4 not in [1, 2]"), Some(json!(true)));
        assert_eq!(value("3 is gt(2) and 2 is in([2])"), Some(json!(true)));
        assert_eq!(value("result.count if false"), Some(Value::Null));
    }
}
