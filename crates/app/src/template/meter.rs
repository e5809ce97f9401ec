//! Measures the memory that a template allocates while it is rendered: every text, list and map is
//! counted before or when it is created, so that a short template cannot exhaust memory. Values are
//! stored as plain lists of bounded depth, because formatting, comparing and dropping them recurse once
//! per level.

use std::collections::BTreeMap;

use minijinja::machinery::{Instruction, Instructions, eval, make_string_output};
use minijinja::value::{Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value, escape_formatter};
use minijinja::{filters, functions};

use super::{MAX_TEMPLATE_MEMORY, strict};

/// Bytes counted for a value in addition to its text.
const VALUE_BYTES: usize = 32;

/// Limit of nested lists and maps. Tool results have at most 128 levels.
const MAX_VALUE_DEPTH: usize = 200;

/// Limit of `range`, in both directions.
const MAX_RANGE: i64 = 1_000_000_000;

/// Operators as filters. Templates cannot use these names.
const ADD: &str = "+";
const MULTIPLY: &str = "*";
const CONCAT: &str = "~";
const SLICE: &str = "[:]";
const LIST: &str = "[]";
const TUPLE: &str = "()";
const MAP: &str = "{}";

/// Makes the engine look up a filter by name on each call.
pub(super) const NO_CACHE_SLOT: u8 = !0;

type Outcome = Result<Value, Error>;

/// Bytes created by the current rendering.
struct RenderedBytes(usize);

/// The maximum output of a filter, estimated from its arguments.
type Estimate = fn(&[Value]) -> usize;

/// Replaces operators, filters and functions with metered ones.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.set_formatter(|output, state, value| {
        strict::defined(state, value)?;
        let bytes = match value.as_str() {
            Some(text) => text.len(),
            None => measure_size(value, MAX_TEMPLATE_MEMORY)?,
        };
        charge(state, bytes)?;
        escape_formatter(output, state, value)
    });
    operator(environment, CONCAT, concat);
    operator(environment, ADD, add);
    operator(environment, MULTIPLY, multiply);
    operator(environment, SLICE, |_, arguments| {
        evaluate(arguments, Instruction::Slice)
    });
    operator(environment, LIST, |_, arguments| {
        Ok(Value::from(plain(arguments)))
    });
    operator(environment, TUPLE, |_, arguments| {
        Ok(Value::from(Tuple::from(plain(arguments))))
    });
    operator(environment, MAP, |_, arguments| {
        let arguments = plain(arguments);
        let pairs = arguments.chunks_exact(2);
        let pairs: BTreeMap<Value, Value> = pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect();
        Ok(Value::from(pairs))
    });
    for (name, filter, estimate) in metered_filters() {
        environment.add_filter(name, metered(name, filter, estimate));
    }
    let dict = Value::from_function(functions::dict);
    environment.add_global(
        "dict",
        Value::from_function(metered("dict", dict, no_output)),
    );
    let range = Value::from_function(functions::range);
    environment.add_function(
        "range",
        move |state: &mut State<'_, '_>, arguments: Rest<i64>| -> Outcome {
            if arguments
                .iter()
                .any(|number| number.abs_diff(0) > MAX_RANGE as u64)
            {
                return Err(invalid_operation(format!(
                    "`range` counts up to {MAX_RANGE}"
                )));
            }
            let arguments: Vec<Value> = arguments.iter().copied().map(Value::from).collect();
            range.call(state, &arguments)
        },
    );
}

/// Makes a program count its output: operators become filters, and raw text is emitted like values. Each
/// instruction keeps its index, so that jumps stay valid.
pub(super) fn instrument(instructions: &mut Instructions<'_>) {
    let mut raw_texts = Vec::new();
    let mut has_loop = false;
    let mut count = 0;
    while let Some(instruction) = instructions.get_mut(count) {
        let filter =
            |name, arguments| Instruction::ApplyFilter(name, Some(arguments), NO_CACHE_SLOT);
        let several = |count: usize| u16::try_from(count).ok();
        match instruction {
            Instruction::Add => *instruction = filter(ADD, 2),
            Instruction::Mul => *instruction = filter(MULTIPLY, 2),
            Instruction::StringConcat => *instruction = filter(CONCAT, 2),
            Instruction::Slice => *instruction = filter(SLICE, 4),
            Instruction::BuildList(Some(items)) => {
                if let Some(items) = several(*items) {
                    *instruction = filter(LIST, items);
                }
            }
            Instruction::BuildTuple(Some(items)) => {
                if let Some(items) = several(*items) {
                    *instruction = filter(TUPLE, items);
                }
            }
            Instruction::BuildMap(pairs) => {
                if let Some(values) = several(*pairs * 2) {
                    *instruction = filter(MAP, values);
                }
            }
            Instruction::EmitRaw(text) => raw_texts.push((count, *text)),
            Instruction::PushLoop(_) => has_loop = true,
            _ => {}
        }
        count += 1;
    }
    // Raw text is emitted more than once only in loops.
    if !has_loop || raw_texts.is_empty() {
        return;
    }
    let end = instructions.add(Instruction::Jump(0));
    for (place, text) in raw_texts {
        let aside = instructions.add(Instruction::LoadConst(Value::from(text)));
        instructions.add(Instruction::Emit);
        let last = instructions.add(Instruction::Jump(place + 1));
        if let Some(instruction) = instructions.get_mut(place) {
            *instruction = Instruction::Jump(aside);
        }
        if let Some(instruction) = instructions.get_mut(end) {
            *instruction = Instruction::Jump(last + 1);
        }
    }
}

/// The size of a value when written out; shared parts count each time.
pub(super) fn measure_size(value: &Value, most: usize) -> Result<usize, Error> {
    let mut weight = 0_usize;
    let mut open = vec![(value.clone(), 0)];
    while let Some((value, depth)) = open.pop() {
        weight = weight.saturating_add(VALUE_BYTES + value.as_str().map_or(0, str::len));
        if depth > MAX_VALUE_DEPTH {
            let message = format!("lists and maps are more than {MAX_VALUE_DEPTH} levels deep");
            return Err(invalid_operation(message));
        }
        let is_map = value.kind() == ValueKind::Map;
        if is_map || matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            for item in value.try_iter()? {
                if weight + open.len() * VALUE_BYTES > most {
                    return Err(memory_exceeded());
                }
                if is_map && let Ok(field) = value.get_item(&item) {
                    open.push((field, depth + 1));
                }
                open.push((item, depth + 1));
            }
        }
        if weight > most {
            return Err(memory_exceeded());
        }
    }
    Ok(weight)
}

fn invalid_operation(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn memory_exceeded() -> Error {
    invalid_operation(format!(
        "the template creates more than {MAX_TEMPLATE_MEMORY} bytes"
    ))
}

fn charge(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let used = state.get_or_insert_extension_with(|| RenderedBytes(0));
    used.0 = used.0.saturating_add(bytes);
    if used.0 > MAX_TEMPLATE_MEMORY {
        return Err(memory_exceeded());
    }
    Ok(())
}

/// Rejects an operation that would exceed the remaining memory.
fn ensure_available(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let used = state.get_or_insert_extension_with(|| RenderedBytes(0)).0;
    if used.saturating_add(bytes) > MAX_TEMPLATE_MEMORY {
        return Err(memory_exceeded());
    }
    Ok(())
}

/// Counts a result and converts it to a plain list: a lazy list would repeat every operation behind it
/// on each iteration.
fn materialized(state: &mut State<'_, '_>, value: Value) -> Outcome {
    match value.kind() {
        ValueKind::String => {
            charge(state, value.as_str().map_or(0, str::len))?;
            Ok(value)
        }
        ValueKind::Seq | ValueKind::Map => {
            measure_size(&value, MAX_TEMPLATE_MEMORY)?;
            charge(state, value.len().unwrap_or(0).saturating_mul(VALUE_BYTES))?;
            Ok(value)
        }
        ValueKind::Iterable => {
            measure_size(&value, MAX_TEMPLATE_MEMORY)?;
            let items: Vec<Value> = value.try_iter()?.collect();
            charge(state, items.len().saturating_mul(VALUE_BYTES))?;
            Ok(Value::from(items))
        }
        _ => Ok(value),
    }
}

fn operator(
    environment: &mut Environment<'static>,
    name: &'static str,
    operation: fn(&mut State<'_, '_>, &[Value]) -> Outcome,
) {
    environment.add_filter(
        name,
        move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| -> Outcome {
            let arguments = arguments.into_values();
            for value in &arguments {
                strict::defined(state, value)?;
            }
            let result = operation(state, &arguments)?;
            materialized(state, result)
        },
    );
}

fn metered(
    name: &'static str,
    function: Value,
    estimate: Estimate,
) -> impl Fn(&mut State<'_, '_>, Rest<ValueOrKwargs>) -> Outcome + Send + Sync + 'static {
    move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
        let arguments = arguments.into_values();
        for value in &arguments {
            strict::defined(state, value)?;
        }
        strict::attributes_present(name, &arguments)?;
        ensure_available(state, estimate(&arguments))?;
        let result = function.call(state, &arguments)?;
        materialized(state, result)
    }
}

fn concat(state: &mut State<'_, '_>, arguments: &[Value]) -> Outcome {
    let bytes: usize = arguments.iter().map(size).fold(0, usize::saturating_add);
    ensure_available(state, bytes)?;
    Ok(Value::from(
        arguments.iter().map(Value::to_string).collect::<String>(),
    ))
}

fn add(state: &mut State<'_, '_>, arguments: &[Value]) -> Outcome {
    ensure_available(state, string_bytes(arguments))?;
    evaluate(arguments, Instruction::Add)
}

fn multiply(state: &mut State<'_, '_>, arguments: &[Value]) -> Outcome {
    let times = largest_number(arguments);
    let items = arguments.iter().filter_map(Value::len).max().unwrap_or(0);
    ensure_available(state, string_bytes(arguments).saturating_mul(times))?;
    ensure_available(state, items.saturating_mul(times))?;
    evaluate(arguments, Instruction::Mul)
}

/// The parts of a list or map, of which absent ones are none.
fn plain(arguments: &[Value]) -> Vec<Value> {
    arguments.iter().map(strict::none_if_absent).collect()
}

/// The engine's own result of an operation.
pub(super) fn evaluate(arguments: &[Value], operation: Instruction<'static>) -> Outcome {
    let environment = Environment::empty();
    let mut instructions = Instructions::new("<operator>", "");
    for value in arguments {
        instructions.add(Instruction::LoadConst(value.clone()));
    }
    instructions.add(operation);
    let (blocks, mut text) = (BTreeMap::new(), String::new());
    let root = Value::UNDEFINED;
    let mut output = make_string_output(&mut text);
    let evaluated = eval(
        &environment,
        &instructions,
        root,
        &blocks,
        &mut output,
        AutoEscape::None,
    );
    evaluated.map(|(value, _)| value.unwrap_or_default())
}

/// Bytes of a value as text, including everything in it.
fn size(value: &Value) -> usize {
    match value.as_str() {
        Some(text) => text.len(),
        None => measure_size(value, MAX_TEMPLATE_MEMORY).unwrap_or(usize::MAX),
    }
}

fn string_bytes(arguments: &[Value]) -> usize {
    let lengths = arguments.iter().filter_map(Value::as_str).map(str::len);
    lengths.fold(0, usize::saturating_add)
}

/// The largest whole number among the positional and named arguments.
fn largest_number(arguments: &[Value]) -> usize {
    let named = arguments
        .iter()
        .filter(|value| value.kind() == ValueKind::Map)
        .filter_map(|map| Some((map, map.try_iter().ok()?)))
        .flat_map(|(map, keys)| keys.filter_map(|key| map.get_item(&key).ok()));
    let numbers = arguments.iter().cloned().chain(named);
    numbers
        .filter_map(|value| value.as_usize())
        .max()
        .unwrap_or(0)
}

fn no_output(_: &[Value]) -> usize {
    0
}

/// All arguments as text.
fn text_size(arguments: &[Value]) -> usize {
    arguments.iter().map(size).fold(0, usize::saturating_add)
}

fn replace_output(arguments: &[Value]) -> usize {
    let [text, from, to, ..] = arguments else {
        return 0;
    };
    let times = match (text.as_str(), from.as_str()) {
        (Some(text), Some(from)) => text.matches(from).count(),
        _ => size(text),
    };
    size(text).saturating_add(times.saturating_mul(size(to)))
}

fn join_output(arguments: &[Value]) -> usize {
    let Some((list, with)) = arguments.split_first() else {
        return 0;
    };
    let items = list.len().unwrap_or(0);
    size(list).saturating_add(items.saturating_mul(text_size(with)))
}

/// One line prefix per line, of the largest number in the arguments.
fn indent_output(arguments: &[Value]) -> usize {
    let Some((text, with)) = arguments.split_first() else {
        return 0;
    };
    let lines = text.as_str().map_or(1, |text| text.split('\n').count());
    let signs = largest_number(with).max(4);
    size(text).saturating_add(lines.saturating_mul(signs))
}

fn json_output(arguments: &[Value]) -> usize {
    let Some((value, with)) = arguments.split_first() else {
        return 0;
    };
    // Indentation per line is limited by the depth of values.
    let indent = largest_number(with).saturating_mul(MAX_VALUE_DEPTH / VALUE_BYTES + 1);
    size(value).saturating_mul(indent.saturating_add(1))
}

fn pprint_output(arguments: &[Value]) -> usize {
    text_size(arguments).saturating_mul(4)
}

/// Numbers in the pattern are widths; a `*` takes its width from an argument.
fn format_output(arguments: &[Value]) -> usize {
    let pattern = arguments
        .first()
        .and_then(Value::as_str)
        .unwrap_or_default();
    let numbers = pattern.split(|sign: char| !sign.is_ascii_digit());
    let widths = numbers.filter(|digits| !digits.is_empty());
    let widths = widths.map(|digits| digits.parse().unwrap_or(usize::MAX));
    let stars = pattern.matches('*').count();
    let argument_widths = stars.saturating_mul(largest_number(arguments));
    widths
        .fold(text_size(arguments), usize::saturating_add)
        .saturating_add(argument_widths)
}

/// Lists that are padded to a number of items.
fn batch_output(arguments: &[Value]) -> usize {
    let Some((list, with)) = arguments.split_first() else {
        return 0;
    };
    let most = largest_number(with).saturating_add(list.len().unwrap_or(0));
    most.saturating_mul(VALUE_BYTES)
}

/// One value per item or character.
fn list_output(arguments: &[Value]) -> usize {
    let items = arguments.first().and_then(Value::len).unwrap_or(0);
    items.saturating_mul(VALUE_BYTES)
}

/// One value per part of a text.
fn split_output(arguments: &[Value]) -> usize {
    let text = arguments
        .first()
        .and_then(Value::as_str)
        .unwrap_or_default();
    let parts = match arguments.get(1).and_then(Value::as_str) {
        Some("") | None => text.matches(char::is_whitespace).count(),
        Some(between) => text.matches(between).count(),
    };
    parts.saturating_mul(VALUE_BYTES).saturating_add(text.len())
}

/// Every filter that creates values, with the estimate of its output.
fn metered_filters() -> Vec<(&'static str, Value, Estimate)> {
    let filter: fn(_, _, _) -> (&'static str, Value, Estimate) =
        |name, filter, estimate| (name, filter, estimate);
    vec![
        filter(
            "replace",
            Value::from_function(filters::replace),
            replace_output,
        ),
        filter("join", Value::from_function(filters::join), join_output),
        filter(
            "indent",
            Value::from_function(filters::indent),
            indent_output,
        ),
        filter("tojson", Value::from_function(filters::tojson), json_output),
        filter(
            "pprint",
            Value::from_function(filters::pprint),
            pprint_output,
        ),
        filter(
            "format",
            Value::from_function(filters::format),
            format_output,
        ),
        filter("batch", Value::from_function(filters::batch), batch_output),
        filter("slice", Value::from_function(filters::slice), batch_output),
        filter("string", Value::from_function(filters::string), text_size),
        filter("upper", Value::from_function(filters::upper), text_size),
        filter("lower", Value::from_function(filters::lower), text_size),
        filter("title", Value::from_function(filters::title), text_size),
        filter(
            "capitalize",
            Value::from_function(filters::capitalize),
            text_size,
        ),
        filter("trim", Value::from_function(filters::trim), text_size),
        filter("escape", Value::from_function(filters::escape), text_size),
        filter("e", Value::from_function(filters::escape), text_size),
        filter("split", Value::from_function(filters::split), split_output),
        filter("lines", Value::from_function(filters::lines), split_output),
        filter("list", Value::from_function(filters::list), list_output),
        filter("items", Value::from_function(filters::items), no_output),
        filter(
            "dictsort",
            Value::from_function(filters::dictsort),
            no_output,
        ),
        filter("reverse", Value::from_function(filters::reverse), text_size),
        filter("sort", Value::from_function(filters::sort), no_output),
        filter("unique", Value::from_function(filters::unique), no_output),
        filter("map", Value::from_function(filters::map), no_output),
        filter("select", Value::from_function(filters::select), no_output),
        filter("reject", Value::from_function(filters::reject), no_output),
        filter(
            "selectattr",
            Value::from_function(filters::selectattr),
            no_output,
        ),
        filter(
            "rejectattr",
            Value::from_function(filters::rejectattr),
            no_output,
        ),
        filter("groupby", Value::from_function(filters::groupby), no_output),
        filter("max", Value::from_function(filters::max), no_output),
        filter("min", Value::from_function(filters::min), no_output),
        filter("chain", Value::from_function(filters::chain), no_output),
        filter("zip", Value::from_function(filters::zip), no_output),
        filter("sum", Value::from_function(filters::sum), text_size),
        filter("safe", Value::from_function(filters::safe), text_size),
    ]
}
