//! Arithmetic: a small recursive-descent parser that calculates as it reads.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = signed  { ("*" | "/" | "%") signed }
//! signed  = ("-" | "+") signed | power
//! power   = atom [ "^" signed ]
//! atom    = number | "(" sum ")" | name "(" sum { "," sum } ")"
//! ```

use serde_json::Value;

/// The longest expression.
pub const MAX_EXPRESSION_CHARACTERS: usize = 1_000;

/// Limit of nested parentheses, signs and powers.
pub const MAX_EXPRESSION_DEPTH: usize = 64;

/// Significant digits of a result, so that `0.1 + 0.2` is `0.3`.
const SIGNIFICANT_DIGITS: usize = 15;

/// Above this, an `f64` does not represent every integer.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Why an expression has no value. Positions count characters from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CalculateError {
    #[error(
        "the expression is longer than {MAX_EXPRESSION_CHARACTERS} characters; calculate it in parts"
    )]
    TooLong,
    #[error("at {position}: more than {MAX_EXPRESSION_DEPTH} levels; calculate it in parts")]
    TooDeep { position: usize },
    #[error("at {position}: expected {expected}, found {found}")]
    Unexpected {
        position: usize,
        expected: &'static str,
        found: String,
    },
    #[error("at {position}: there is no function `{name}`; there are {FUNCTIONS}")]
    UnknownFunction { position: usize, name: String },
    #[error("at {position}: `{name}` takes {takes}, not {given}")]
    ArgumentCount {
        position: usize,
        name: &'static str,
        takes: &'static str,
        given: usize,
    },
    #[error("at {position}: division by zero")]
    DivisionByZero { position: usize },
    #[error("at {position}: the number is too large")]
    TooLarge { position: usize },
    #[error("at {position}: {what} has no value among the real numbers")]
    NoValue { position: usize, what: &'static str },
}

impl CalculateError {
    /// Stable and greppable.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::TooLong => "calculate.too_long",
            Self::TooDeep { .. } => "calculate.too_deep",
            Self::Unexpected { .. } => "calculate.syntax",
            Self::UnknownFunction { .. } => "calculate.unknown_function",
            Self::ArgumentCount { .. } => "calculate.argument_count",
            Self::DivisionByZero { .. } => "calculate.division_by_zero",
            Self::TooLarge { .. } => "calculate.too_large",
            Self::NoValue { .. } => "calculate.no_value",
        }
    }
}

const FUNCTIONS: &str = "sqrt, abs, round, floor, ceil, min and max";

#[derive(Debug, Clone, Copy)]
enum Function {
    One(&'static str, fn(f64) -> f64),
    Any(&'static str, fn(f64, f64) -> f64),
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sqrt" => Self::One("sqrt", f64::sqrt),
            "abs" => Self::One("abs", f64::abs),
            "round" => Self::One("round", f64::round),
            "floor" => Self::One("floor", f64::floor),
            "ceil" => Self::One("ceil", f64::ceil),
            "min" => Self::Any("min", f64::min),
            "max" => Self::Any("max", f64::max),
            _ => return None,
        })
    }
}

/// The value of an expression.
pub(crate) fn calculate(expression: &str) -> Result<f64, CalculateError> {
    if expression.len() > MAX_EXPRESSION_CHARACTERS
        && expression.chars().count() > MAX_EXPRESSION_CHARACTERS
    {
        return Err(CalculateError::TooLong);
    }
    let mut reader = Reader {
        characters: expression.chars().collect(),
        next: 0,
        depth: 0,
    };
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.unexpected("an operator or the end")),
    }
}

/// A result as JSON: integers without a decimal point, others rounded to [`SIGNIFICANT_DIGITS`].
pub(crate) fn as_json(value: f64) -> Value {
    if let Some(whole) = whole(value) {
        return whole.into();
    }
    let rounded = format!("{value:.*e}", SIGNIFICANT_DIGITS - 1)
        .parse()
        .unwrap_or(value);
    whole(rounded).map_or_else(|| rounded.into(), Value::from)
}

fn whole(value: f64) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number of at most 2^53 is one exactly"
    )]
    (value.fract() == 0.0 && value.abs() <= MAX_EXACT_INTEGER).then_some(value as i64)
}

struct Reader {
    characters: Vec<char>,
    next: usize,
    depth: usize,
}

impl Reader {
    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        while self
            .characters
            .get(self.next)
            .is_some_and(|next| next.is_whitespace())
        {
            self.next += 1;
        }
        self.characters.get(self.next).copied()
    }

    /// Consumes the next character if it is one of these; returns it and its position.
    fn take(&mut self, expected: &[char]) -> Option<(char, usize)> {
        let next = self.peek().filter(|next| expected.contains(next))?;
        self.next += 1;
        Some((next, self.next))
    }

    fn position(&mut self) -> usize {
        self.peek();
        self.next + 1
    }

    fn unexpected(&mut self, expected: &'static str) -> CalculateError {
        let found = self
            .peek()
            .map_or_else(|| "the end".to_owned(), |next| format!("`{next}`"));
        CalculateError::Unexpected {
            position: self.position(),
            expected,
            found,
        }
    }

    /// Runs `read` one level deeper, if the limit allows it.
    fn deeper(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<f64, CalculateError>,
    ) -> Result<f64, CalculateError> {
        if self.depth == MAX_EXPRESSION_DEPTH {
            let position = self.position();
            return Err(CalculateError::TooDeep { position });
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn sum(&mut self) -> Result<f64, CalculateError> {
        let mut value = self.product()?;
        while let Some((operator, position)) = self.take(&['+', '-']) {
            let right = self.product()?;
            let result = if operator == '+' {
                value + right
            } else {
                value - right
            };
            value = real(result, position)?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, CalculateError> {
        let mut value = self.signed()?;
        while let Some((operator, position)) = self.take(&['*', '/', '%']) {
            let right = self.signed()?;
            if right == 0.0 && operator != '*' {
                return Err(CalculateError::DivisionByZero { position });
            }
            let result = match operator {
                '*' => value * right,
                '/' => value / right,
                _ => value % right,
            };
            value = real(result, position)?;
        }
        Ok(value)
    }

    fn signed(&mut self) -> Result<f64, CalculateError> {
        match self.take(&['-', '+']) {
            Some(('-', _)) => Ok(-self.deeper(Self::signed)?),
            Some(_) => self.deeper(Self::signed),
            None => self.power(),
        }
    }

    fn power(&mut self) -> Result<f64, CalculateError> {
        let base = self.atom()?;
        let Some((_, position)) = self.take(&['^']) else {
            return Ok(base);
        };
        let exponent = self.deeper(Self::signed)?;
        if base == 0.0 && exponent < 0.0 {
            return Err(CalculateError::DivisionByZero { position });
        }
        let value = base.powf(exponent);
        if value.is_nan() {
            let what = "a fractional power of a negative number";
            return Err(CalculateError::NoValue { position, what });
        }
        real(value, position)
    }

    fn atom(&mut self) -> Result<f64, CalculateError> {
        match self.peek() {
            Some('(') => {
                self.next += 1;
                let value = self.deeper(Self::sum)?;
                self.close("`)` or an operator")?;
                Ok(value)
            }
            Some(next) if next.is_ascii_digit() || next == '.' => self.number(),
            Some(next) if next.is_ascii_alphabetic() => self.function(),
            _ => Err(self.unexpected("a number, `(` or a function")),
        }
    }

    fn close(&mut self, expected: &'static str) -> Result<(), CalculateError> {
        match self.take(&[')']) {
            Some(_) => Ok(()),
            None => Err(self.unexpected(expected)),
        }
    }

    fn number(&mut self) -> Result<f64, CalculateError> {
        let position = self.position();
        let start = self.next;
        self.digits();
        if self.characters.get(self.next) == Some(&'.') {
            self.next += 1;
            self.digits();
        }
        if let Some('e' | 'E') = self.characters.get(self.next) {
            let signed = matches!(self.characters.get(self.next + 1), Some('+' | '-'));
            let first = self.next + 1 + usize::from(signed);
            if self.characters.get(first).is_some_and(char::is_ascii_digit) {
                self.next = first;
                self.digits();
            }
        }
        let text: String = self.characters[start..self.next].iter().collect();
        match text.parse::<f64>() {
            Ok(value) => real(value, position),
            Err(_) => Err(CalculateError::Unexpected {
                position,
                expected: "a number",
                found: format!("`{text}`"),
            }),
        }
    }

    fn digits(&mut self) {
        while self
            .characters
            .get(self.next)
            .is_some_and(char::is_ascii_digit)
        {
            self.next += 1;
        }
    }

    fn function(&mut self) -> Result<f64, CalculateError> {
        let position = self.position();
        let start = self.next;
        while self
            .characters
            .get(self.next)
            .is_some_and(|next| next.is_ascii_alphanumeric() || *next == '_')
        {
            self.next += 1;
        }
        let name: String = self.characters[start..self.next].iter().collect();
        let Some(function) = Function::named(&name) else {
            return Err(CalculateError::UnknownFunction { position, name });
        };
        if self.take(&['(']).is_none() {
            return Err(self.unexpected("`(` after the function's name"));
        }
        let mut arguments = Vec::new();
        if self.peek() != Some(')') {
            arguments.push(self.deeper(Self::sum)?);
            while self.take(&[',']).is_some() {
                arguments.push(self.deeper(Self::sum)?);
            }
        }
        self.close("`,`, `)` or an operator")?;
        let count = |name, takes| CalculateError::ArgumentCount {
            position,
            name,
            takes,
            given: arguments.len(),
        };
        match (function, arguments.as_slice()) {
            (Function::One("sqrt", _), [value]) if *value < 0.0 => {
                let what = "the square root of a negative number";
                Err(CalculateError::NoValue { position, what })
            }
            (Function::One(_, apply), [value]) => Ok(apply(*value)),
            (Function::One(name, _), _) => Err(count(name, "one argument")),
            (Function::Any(name, _), []) => Err(count(name, "one argument or more")),
            (Function::Any(_, apply), [first, rest @ ..]) => Ok(rest
                .iter()
                .fold(*first, |so_far, next| apply(so_far, *next))),
        }
    }
}

fn real(value: f64, position: usize) -> Result<f64, CalculateError> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(CalculateError::TooLarge { position })
    }
}

#[cfg(test)]
mod tests;
