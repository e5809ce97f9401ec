//! Tests of the calculator: values, errors, and random expression trees.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn code(expression: &str) -> &'static str {
    calculate(expression).unwrap_err().code()
}

#[test]
fn what_people_write_is_calculated() {
    for (expression, value) in [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -2", 0.25),
        ("10 - 4 - 3", 3.0),
        ("100 / 10 / 5", 2.0),
        ("7 % 4 * 2", 6.0),
        ("--3", 3.0),
        ("+3 - -3", 6.0),
        (".5 + 1.", 1.5),
        ("1e3 + 2.5E-1", 1000.25),
        (
            "sqrt(16) + abs(-2) + round(2.5) + floor(2.9) + ceil(2.1)",
            14.0,
        ),
        ("min(3, 1, 2) + max(4)", 5.0),
        (" max( 1 ,\t(2) ) ", 2.0),
    ] {
        assert_eq!(calculate(expression), Ok(value), "{expression}");
    }
}

#[test]
fn results_are_rounded_to_hide_binary_fractions() {
    let json_of = |expression| as_json(calculate(expression).unwrap());
    assert_eq!(json_of("0.1 + 0.2"), json!(0.3));
    assert_eq!(json_of("19.99 * 3"), json!(59.97));
    assert_eq!(json_of("2 ^ 40"), json!(1_099_511_627_776_i64));
    assert_eq!(json_of("6 / 2"), json!(3));
    assert_eq!(json_of("0 * -1"), json!(0));
    assert_eq!(json_of("1 / 3"), json!(0.333_333_333_333_333));
    assert_eq!(json_of("10 ^ 300"), json!(1e300));
    assert_eq!(json_of("2 ^ 53 - 1"), json!(9_007_199_254_740_991_i64));
    assert_eq!(json_of("-(2 ^ 53)"), json!(-9_007_199_254_740_992_i64));
    assert_eq!(
        json_of("123456789 * 987654321"),
        json!(1.219_326_311_126_35e17)
    );
    assert_eq!(json_of("1.1 * 3 - 0.3"), json!(3));
}

#[test]
fn an_error_says_where_and_what() {
    for (expression, message) in [
        ("1 / 0", "at 3: division by zero"),
        ("1 % (2 - 2)", "at 3: division by zero"),
        ("0 ^ -1", "at 3: division by zero"),
        (
            "2 +",
            "at 4: expected a number, `(` or a function, found the end",
        ),
        ("2 3", "at 3: expected an operator or the end, found `3`"),
        ("(2", "at 3: expected `)` or an operator, found the end"),
        ("2)", "at 2: expected an operator or the end, found `)`"),
        (".", "at 1: expected a number, found `.`"),
        ("1..2", "at 3: expected an operator or the end, found `.`"),
        (
            "min 3",
            "at 5: expected `(` after the function's name, found `3`",
        ),
        ("sqrt(1, 2)", "at 1: `sqrt` takes one argument, not 2"),
        ("max()", "at 1: `max` takes one argument or more, not 0"),
        (
            "1 + system(1)",
            "at 5: there is no function `system`; there are sqrt, abs, round, floor, ceil, min \
             and max",
        ),
        (
            "sqrt(-1)",
            "at 1: the square root of a negative number has no value among the real numbers",
        ),
        (
            "(-8) ^ 0.5",
            "at 6: a fractional power of a negative number has no value among the real numbers",
        ),
        ("10 ^ 308 * 10", "at 10: the number is too large"),
        ("1e999", "at 1: the number is too large"),
    ] {
        assert_eq!(
            calculate(expression).unwrap_err().to_string(),
            message,
            "{expression}"
        );
    }
    assert_eq!(code(""), "calculate.syntax");
}

#[test]
fn hostile_expressions_are_refused_and_harm_nothing() {
    let nested = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
    assert_eq!(calculate(&nested(MAX_EXPRESSION_DEPTH)), Ok(1.0));
    assert_eq!(
        code(&nested(MAX_EXPRESSION_DEPTH + 1)),
        "calculate.too_deep"
    );
    assert_eq!(code(&"-".repeat(900)), "calculate.too_deep");
    assert_eq!(code(&"2^".repeat(450)), "calculate.too_deep");
    assert_eq!(code(&"abs(".repeat(200)), "calculate.too_deep");
    assert_eq!(code(&"9".repeat(10_240)), "calculate.too_long");
    assert_eq!(code(&"(".repeat(10_240)), "calculate.too_long");
    assert_eq!(code("9^9^9^9"), "calculate.too_large");
    assert_eq!(code(&"9".repeat(400)), "calculate.too_large");
    assert_eq!(code("1 + \u{0}"), "calculate.syntax");
    assert_eq!(code("１+１"), "calculate.syntax");
    let long_in_bytes_only = "1".to_owned() + &"\u{2003}".repeat(MAX_EXPRESSION_CHARACTERS - 1);
    assert_eq!(calculate(&long_in_bytes_only), Ok(1.0));
}

/// An expression as a tree, which knows its value without any parsing.
#[derive(Debug, Clone)]
enum Tree {
    Number(f64),
    Minus(Box<Tree>),
    Binary(Box<Tree>, char, Box<Tree>),
    Call(&'static str, Vec<Tree>),
}

impl Tree {
    /// Written with parentheses around everything, so that no precedence is at play.
    fn written(&self) -> String {
        match self {
            Self::Number(value) => format!("{value}"),
            Self::Minus(inner) => format!("(-{})", inner.written()),
            Self::Binary(left, operator, right) => {
                format!("({} {operator} {})", left.written(), right.written())
            }
            Self::Call(name, inner) => {
                let inner: Vec<_> = inner.iter().map(Self::written).collect();
                format!("{name}({})", inner.join(", "))
            }
        }
    }

    fn value(&self) -> f64 {
        match self {
            Self::Number(value) => *value,
            Self::Minus(inner) => -inner.value(),
            Self::Binary(left, operator, right) => {
                let (left, right) = (left.value(), right.value());
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '/' if right != 0.0 => left / right,
                    '%' if right != 0.0 => left % right,
                    '^' if left != 0.0 || right >= 0.0 => left.powf(right),
                    _ => f64::NAN,
                }
            }
            Self::Call(name, inner) => {
                let values: Vec<f64> = inner.iter().map(Self::value).collect();
                // The functions that ignore what is no number must not hide it here.
                if values.iter().any(|value| !value.is_finite()) {
                    return f64::NAN;
                }
                match *name {
                    "sqrt" => values[0].sqrt(),
                    "abs" => values[0].abs(),
                    "min" => values.into_iter().reduce(f64::min).unwrap(),
                    _ => values.into_iter().reduce(f64::max).unwrap(),
                }
            }
        }
    }

    /// Whether every part of it has a value.
    fn is_real(&self) -> bool {
        self.value().is_finite()
            && match self {
                Self::Number(_) => true,
                Self::Minus(inner) => inner.is_real(),
                Self::Binary(left, _, right) => left.is_real() && right.is_real(),
                Self::Call(_, inner) => inner.iter().all(Self::is_real),
            }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let number = prop_oneof![
        (0_u32..1000).prop_map(f64::from),
        (0_u32..100_000).prop_map(|value| f64::from(value) / 128.0),
    ];
    number
        .prop_map(Tree::Number)
        .prop_recursive(6, 40, 3, |inner| {
            let operators = prop::sample::select(vec!['+', '-', '*', '/', '%', '^']);
            prop_oneof![
                1 => inner.clone().prop_map(|inner| Tree::Minus(Box::new(inner))),
                4 => (inner.clone(), operators, inner.clone()).prop_map(|(left, operator, right)| {
                    Tree::Binary(Box::new(left), operator, Box::new(right))
                }),
                1 => (prop::sample::select(vec!["sqrt", "abs"]), inner.clone())
                    .prop_map(|(name, inner)| Tree::Call(name, vec![inner])),
                1 => (
                    prop::sample::select(vec!["min", "max"]),
                    prop::collection::vec(inner, 1..4)
                )
                    .prop_map(|(name, inner)| Tree::Call(name, inner)),
            ]
        })
}

proptest! {
    #[test]
    fn every_expression_has_the_value_of_its_tree(tree in trees()) {
        let written = tree.written();
        prop_assume!(written.chars().count() <= MAX_EXPRESSION_CHARACTERS);
        match calculate(&written) {
            Ok(value) => prop_assert_eq!(value.to_bits(), tree.value().to_bits(), "{}", written),
            Err(error) => prop_assert!(!tree.is_real(), "{}: {}", written, error),
        }
    }

    #[test]
    fn a_chain_without_parentheses_follows_precedence(
        first in 1_u32..50,
        rest in prop::collection::vec((prop::sample::select(vec!['+', '-', '*', '/']), 1_u32..50), 0..12),
    ) {
        let mut written = first.to_string();
        let mut terms = vec![f64::from(first)];
        for (operator, number) in &rest {
            let _ = write!(written, " {operator} {number}");
            let number = f64::from(*number);
            match (operator, terms.last_mut()) {
                ('*', Some(last)) => *last *= number,
                ('/', Some(last)) => *last /= number,
                ('-', _) => terms.push(-number),
                _ => terms.push(number),
            }
        }
        let expected = terms.into_iter().reduce(|sum, term| sum + term).unwrap();
        prop_assert_eq!(calculate(&written), Ok(expected), "{}", written);
    }

    #[test]
    fn no_text_at_all_breaks_it(text in "[-+*/%^()., 0-9a-z]{0,80}|\\PC{0,80}") {
        if let Ok(value) = calculate(&text) {
            prop_assert!(value.is_finite());
            prop_assert!(as_json(value).is_number());
        }
    }
}
