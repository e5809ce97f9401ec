//! The keywords of one schema object that apply no other schema, evaluated by the `jsonschema` crate.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::error::{SchemaError, abbreviated};
use crate::limits::Limits;

/// Keywords whose work is bounded by the value and the keyword's own value.
///
/// `contentEncoding` and `contentMediaType` are absent: newer drafts define them as annotations, and
/// they are treated as such in all drafts.
const KEYWORDS: [&str; 19] = [
    "type",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "required",
    "dependentRequired",
];

/// Size limits of one compiled regular expression, in bytes: the one tried first, and the maximum.
const PATTERN_BYTE_LIMITS: [usize; 2] = [64 * 1024, 1024 * 1024];

/// Limit of backtracking steps in one match with look-around or back-references.
const MAX_BACKTRACKS: usize = 10_000;

/// Steps charged for a match that may backtrack, and for compiling a string as a regular expression.
const BACKTRACKING_STEPS: u64 = 500;

/// Bytes of a string charged as one step.
const BYTES_PER_STEP: u64 = 256;

/// One group of keywords, compiled.
#[derive(Debug)]
pub(crate) struct Leaf {
    validator: Validator,
    /// Steps of one check of a value that is not a string.
    steps: u64,
    /// Additional steps for a string.
    string_steps: u64,
    /// Whether it has `uniqueItems`, which compares all items.
    is_unique: bool,
}

impl Leaf {
    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Describes the violations, at most as many and as long as the limits allow.
    pub(crate) fn violations(&self, value: &Value, limits: &Limits) -> Vec<String> {
        let errors = self.validator.iter_errors(value).take(limits.violations);
        errors
            .map(|error| abbreviated(&error, limits.violation_characters))
            .collect()
    }

    /// The cost of one check, in steps.
    pub(crate) fn steps(&self, value: &Value) -> u64 {
        let more = match value {
            Value::String(text) => self.string_steps + text.len() as u64 / BYTES_PER_STEP,
            Value::Array(_) if self.is_unique => 2 * values_in(value),
            _ => 0,
        };
        self.steps.saturating_add(more)
    }
}

/// Counts the values in a value, itself included. A string counts one per `BYTES_PER_STEP`.
pub(crate) fn values_in(value: &Value) -> u64 {
    let mut count: u64 = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        count = count.saturating_add(1);
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            Value::String(text) => {
                count = count.saturating_add(text.len() as u64 / BYTES_PER_STEP);
            }
            _ => {}
        }
    }
    count
}

/// Compiles the leaves of one schema; equal ones share one instance.
pub(crate) struct Leaves {
    known: HashMap<(Draft, String), Arc<Leaf>>,
    pattern_bytes_left: usize,
    pattern_bytes: usize,
}

impl Leaves {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            known: HashMap::new(),
            pattern_bytes_left: limits.pattern_bytes,
            pattern_bytes: limits.pattern_bytes,
        }
    }

    /// The leaf of a schema object, or `None` if it has none of the [`KEYWORDS`].
    pub(crate) fn of(
        &mut self,
        schema: &Map<String, Value>,
        draft: Draft,
    ) -> Result<Option<Arc<Leaf>>, SchemaError> {
        let mut own = Map::new();
        for keyword in KEYWORDS {
            if let Some(value) = schema.get(keyword) {
                own.insert(keyword.to_owned(), value.clone());
            }
        }
        if let Some(Value::Object(dependencies)) = schema.get("dependencies") {
            let names: Map<String, Value> = dependencies
                .iter()
                .filter(|(_, needed)| needed.is_array())
                .map(|(name, needed)| (name.clone(), needed.clone()))
                .collect();
            if !names.is_empty() {
                own.insert("dependencies".to_owned(), Value::Object(names));
            }
        }
        if own.is_empty() {
            return Ok(None);
        }
        self.compiled(own, draft).map(Some)
    }

    /// A leaf that matches property names against a pattern.
    pub(crate) fn pattern(
        &mut self,
        pattern: &str,
        draft: Draft,
    ) -> Result<Arc<Leaf>, SchemaError> {
        let mut own = Map::new();
        own.insert("pattern".to_owned(), pattern.into());
        self.compiled(own, draft)
    }

    fn compiled(
        &mut self,
        own: Map<String, Value>,
        draft: Draft,
    ) -> Result<Arc<Leaf>, SchemaError> {
        let own = Value::Object(own);
        let key = (draft, own.to_string());
        if let Some(leaf) = self.known.get(&key) {
            return Ok(Arc::clone(leaf));
        }
        let leaf = Arc::new(self.compile(&own, draft)?);
        self.known.insert(key, Arc::clone(&leaf));
        Ok(leaf)
    }

    fn compile(&mut self, own: &Value, draft: Draft) -> Result<Leaf, SchemaError> {
        let mut string_steps = if own["format"] == "regex" {
            BACKTRACKING_STEPS
        } else {
            0
        };
        let validator = if own.get("pattern").is_some() {
            let (validator, goes_back) = self.with_pattern(own, draft)?;
            string_steps += if goes_back { BACKTRACKING_STEPS } else { 1 };
            validator
        } else {
            let options = jsonschema::options().with_draft(draft);
            options.build(own).map_err(|error| invalid(&error))?
        };
        Ok(Leaf {
            validator,
            steps: values_in(own) / 4,
            string_steps,
            is_unique: own["uniqueItems"] == true,
        })
    }

    /// Compiles with the linear regex engine, and with the backtracking one if the pattern needs it.
    fn with_pattern(
        &mut self,
        own: &Value,
        draft: Draft,
    ) -> Result<(Validator, bool), SchemaError> {
        for bytes in PATTERN_BYTE_LIMITS {
            let linear = PatternOptions::regex()
                .size_limit(bytes)
                .dfa_size_limit(bytes);
            let options = jsonschema::options().with_draft(draft);
            if let Ok(validator) = options.with_pattern_options(linear).build(own) {
                self.reserve_pattern_bytes(bytes)?;
                return Ok((validator, false));
            }
        }
        let [_, bytes] = PATTERN_BYTE_LIMITS;
        let fancy = PatternOptions::fancy_regex()
            .size_limit(bytes)
            .dfa_size_limit(bytes)
            .backtrack_limit(MAX_BACKTRACKS);
        let options = jsonschema::options().with_draft(draft);
        let validator = options
            .with_pattern_options(fancy)
            .build(own)
            .map_err(|error| invalid(&error))?;
        self.reserve_pattern_bytes(bytes)?;
        Ok((validator, true))
    }

    fn reserve_pattern_bytes(&mut self, bytes: usize) -> Result<(), SchemaError> {
        self.pattern_bytes_left = self.pattern_bytes_left.checked_sub(bytes).ok_or_else(|| {
            let limit = self.pattern_bytes;
            SchemaError::TooComplex(format!(
                "its regular expressions take more than {limit} bytes when compiled"
            ))
        })?;
        Ok(())
    }
}

pub(crate) fn invalid(error: &impl std::fmt::Display) -> SchemaError {
    SchemaError::Invalid(abbreviated(error, Limits::default().violation_characters))
}
