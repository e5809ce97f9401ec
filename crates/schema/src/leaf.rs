//! The keywords of one schema object that apply no other schema, carried out by the `jsonschema` crate.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::error::{SchemaError, abbreviated};
use crate::limits::Limits;

/// The keywords whose work is bounded by the value and by what stands under them.
///
/// `contentEncoding` and `contentMediaType` are left out: like the newer drafts, this reads them as
/// descriptions in all of them.
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

/// What a regular expression may take that is compiled like most are, and the most that any may take.
const PATTERN_BYTES: [usize; 2] = [64 * 1024, 1024 * 1024];

/// How often a match with look-around or back-references may go back.
const BACKTRACKS: usize = 10_000;

/// The steps of a match that may go back, and of reading a string as a regular expression.
const SLOW_STEPS: u64 = 500;

/// How many bytes of a string are looked at in one step.
const BYTES_PER_STEP: u64 = 256;

/// One group of keywords, compiled.
#[derive(Debug)]
pub(crate) struct Leaf {
    validator: Validator,
    /// What one check costs that looks at a value which is no string.
    steps: u64,
    /// What it costs more for a string.
    string_steps: u64,
    /// Whether it compares all items of an array.
    is_unique: bool,
}

impl Leaf {
    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// What is wrong with a value, in at most so many complaints of so many characters.
    pub(crate) fn complaints(&self, value: &Value, limits: &Limits) -> Vec<String> {
        let errors = self.validator.iter_errors(value).take(limits.complaints);
        errors
            .map(|error| abbreviated(&error, limits.complaint_characters))
            .collect()
    }

    /// The work of one check, in steps.
    pub(crate) fn steps(&self, value: &Value) -> u64 {
        let more = match value {
            Value::String(text) => self.string_steps + text.len() as u64 / BYTES_PER_STEP,
            Value::Array(_) if self.is_unique => 2 * values_in(value),
            _ => 0,
        };
        self.steps.saturating_add(more)
    }
}

/// How many values there are in a value, itself included. Strings count for their length.
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

/// The leaves of one schema. Equal ones are compiled once.
pub(crate) struct Leaves {
    known: HashMap<(Draft, String), Arc<Leaf>>,
    pattern_room: usize,
    pattern_bytes: usize,
}

impl Leaves {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            known: HashMap::new(),
            pattern_room: limits.pattern_bytes,
            pattern_bytes: limits.pattern_bytes,
        }
    }

    /// The leaf of a schema object, if it has any keyword of the kind.
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

    /// A leaf that says whether a name matches a pattern.
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
            SLOW_STEPS
        } else {
            0
        };
        let validator = if own.get("pattern").is_some() {
            let (validator, goes_back) = self.with_pattern(own, draft)?;
            string_steps += if goes_back { SLOW_STEPS } else { 1 };
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

    /// Linear patterns are the rule; one that looks around or refers back is the exception.
    fn with_pattern(
        &mut self,
        own: &Value,
        draft: Draft,
    ) -> Result<(Validator, bool), SchemaError> {
        for bytes in PATTERN_BYTES {
            let linear = PatternOptions::regex()
                .size_limit(bytes)
                .dfa_size_limit(bytes);
            let options = jsonschema::options().with_draft(draft);
            if let Ok(validator) = options.with_pattern_options(linear).build(own) {
                self.take_room(bytes)?;
                return Ok((validator, false));
            }
        }
        let [_, bytes] = PATTERN_BYTES;
        let fancy = PatternOptions::fancy_regex()
            .size_limit(bytes)
            .dfa_size_limit(bytes)
            .backtrack_limit(BACKTRACKS);
        let options = jsonschema::options().with_draft(draft);
        let validator = options
            .with_pattern_options(fancy)
            .build(own)
            .map_err(|error| invalid(&error))?;
        self.take_room(bytes)?;
        Ok((validator, true))
    }

    fn take_room(&mut self, bytes: usize) -> Result<(), SchemaError> {
        self.pattern_room = self.pattern_room.checked_sub(bytes).ok_or_else(|| {
            let limit = self.pattern_bytes;
            SchemaError::TooComplex(format!("its patterns may take more than {limit} bytes"))
        })?;
        Ok(())
    }
}

/// A schema that the `jsonschema` crate refuses.
pub(crate) fn invalid(error: &impl std::fmt::Display) -> SchemaError {
    SchemaError::Invalid(abbreviated(error, Limits::default().complaint_characters))
}
