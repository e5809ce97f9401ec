//! How much a template makes while it is rendered: every text, list and map that comes about is counted before or as
//! it is made, so that a few signs cannot fill the memory. Whatever is kept is plain and of bounded depth, because
//! values are shown, compared and dropped one call per level.

use std::collections::BTreeMap;

use minijinja::machinery::{Instruction, Instructions, eval, make_string_output};
use minijinja::value::{Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value, escape_formatter};
use minijinja::{filters, functions};

use super::MAX_TEMPLATE_MEMORY;

/// Bytes that a value counts for besides those of its text.
const OF_VALUE: usize = 32;

/// How deep lists and maps may be within each other. What a tool gives has at most 128 levels.
const MAX_VALUE_DEPTH: usize = 200;

/// The largest number, up or down, that `range` counts to.
const MAX_RANGE: i64 = 1_000_000_000;

/// An operator as a filter, which no template can name.
const ADD: &str = "+";
const MULTIPLY: &str = "*";
const CONCAT: &str = "~";
const SLICE: &str = "[:]";
const LIST: &str = "[]";
const TUPLE: &str = "()";
const MAP: &str = "{}";

/// The engine looks a filter of this place up by its name each time.
const NO_PLACE: u8 = !0;

type Outcome = Result<Value, Error>;

/// Bytes that a rendering has made so far.
struct RenderedBytes(usize);

/// What a filter makes at most, told by what it is given.
type Estimate = fn(&[Value]) -> usize;

/// Puts the counted operators, filters and functions in the place of the usual ones.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.set_formatter(|output, state, value| {
        let bytes = match value.as_str() {
            Some(text) => text.len(),
            None => weigh(value, MAX_TEMPLATE_MEMORY)?,
        };
        charge(state, bytes)?;
        escape_formatter(output, state, value)
    });
    operator(environment, CONCAT, concat);
    operator(environment, ADD, add);
    operator(environment, MULTIPLY, multiply);
    operator(environment, SLICE, |_, given| {
        plainly(given, Instruction::Slice)
    });
    operator(environment, LIST, |_, given| {
        Ok(Value::from(given.to_vec()))
    });
    operator(environment, TUPLE, |_, given| {
        Ok(Value::from(Tuple::from(given.to_vec())))
    });
    operator(environment, MAP, |_, given| {
        let pairs = given.chunks_exact(2);
        let pairs: BTreeMap<Value, Value> = pairs
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect();
        Ok(Value::from(pairs))
    });
    for (name, filter, estimate) in metered_filters() {
        environment.add_filter(name, counted(filter, estimate));
    }
    let dict = Value::from_function(functions::dict);
    environment.add_global("dict", Value::from_function(counted(dict, nothing)));
    let range = Value::from_function(functions::range);
    environment.add_function(
        "range",
        move |state: &mut State<'_, '_>, given: Rest<i64>| -> Outcome {
            if given
                .iter()
                .any(|number| number.abs_diff(0) > MAX_RANGE as u64)
            {
                return Err(refused(format!("`range` counts up to {MAX_RANGE}")));
            }
            let given: Vec<Value> = given.iter().copied().map(Value::from).collect();
            range.call(state, &given)
        },
    );
}

/// Has a program count what it makes: operators become filters, and the text between expressions is put out like
/// what they give. Each instruction keeps its place, so that jumps still lead where they led.
pub(super) fn measure(instructions: &mut Instructions<'_>) {
    let mut texts = Vec::new();
    let mut has_loop = false;
    let mut count = 0;
    while let Some(instruction) = instructions.get_mut(count) {
        let filter = |name, given| Instruction::ApplyFilter(name, Some(given), NO_PLACE);
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
            Instruction::EmitRaw(text) => texts.push((count, *text)),
            Instruction::PushLoop(_) => has_loop = true,
            _ => {}
        }
        count += 1;
    }
    // Only in a loop can the template's own text become more than it is.
    if !has_loop || texts.is_empty() {
        return;
    }
    let end = instructions.add(Instruction::Jump(0));
    for (place, text) in texts {
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

/// How large a value is if everything in it is written out, where one thing may be in it several times.
pub(super) fn weigh(value: &Value, most: usize) -> Result<usize, Error> {
    let mut weight = 0_usize;
    let mut open = vec![(value.clone(), 0)];
    while let Some((value, depth)) = open.pop() {
        weight = weight.saturating_add(OF_VALUE + value.as_str().map_or(0, str::len));
        if depth > MAX_VALUE_DEPTH {
            let message = format!("lists and maps are more than {MAX_VALUE_DEPTH} levels deep");
            return Err(refused(message));
        }
        let is_map = value.kind() == ValueKind::Map;
        if is_map || matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            for item in value.try_iter()? {
                if weight + open.len() * OF_VALUE > most {
                    return Err(too_much());
                }
                if is_map && let Ok(field) = value.get_item(&item) {
                    open.push((field, depth + 1));
                }
                open.push((item, depth + 1));
            }
        }
        if weight > most {
            return Err(too_much());
        }
    }
    Ok(weight)
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn too_much() -> Error {
    refused(format!(
        "the template makes more than {MAX_TEMPLATE_MEMORY} bytes"
    ))
}

fn charge(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let made = state.get_or_insert_extension_with(|| RenderedBytes(0));
    made.0 = made.0.saturating_add(bytes);
    if made.0 > MAX_TEMPLATE_MEMORY {
        return Err(too_much());
    }
    Ok(())
}

/// Refuses to begin what would make more than is left.
fn afford(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let made = state.get_or_insert_extension_with(|| RenderedBytes(0)).0;
    if made.saturating_add(bytes) > MAX_TEMPLATE_MEMORY {
        return Err(too_much());
    }
    Ok(())
}

/// Counts what was made, and makes it plain: a list that is worked out anew each time it is gone over would be gone
/// over once per operation behind it.
fn settled(state: &mut State<'_, '_>, value: Value) -> Outcome {
    match value.kind() {
        ValueKind::String => {
            charge(state, value.as_str().map_or(0, str::len))?;
            Ok(value)
        }
        ValueKind::Seq | ValueKind::Map => {
            weigh(&value, MAX_TEMPLATE_MEMORY)?;
            charge(state, value.len().unwrap_or(0).saturating_mul(OF_VALUE))?;
            Ok(value)
        }
        ValueKind::Iterable => {
            weigh(&value, MAX_TEMPLATE_MEMORY)?;
            let items: Vec<Value> = value.try_iter()?.collect();
            charge(state, items.len().saturating_mul(OF_VALUE))?;
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
        move |state: &mut State<'_, '_>, given: Rest<ValueOrKwargs>| -> Outcome {
            let made = operation(state, &given.into_values())?;
            settled(state, made)
        },
    );
}

fn counted(
    function: Value,
    estimate: Estimate,
) -> impl Fn(&mut State<'_, '_>, Rest<ValueOrKwargs>) -> Outcome + Send + Sync + 'static {
    move |state: &mut State<'_, '_>, given: Rest<ValueOrKwargs>| {
        let given = given.into_values();
        afford(state, estimate(&given))?;
        let made = function.call(state, &given)?;
        settled(state, made)
    }
}

fn concat(state: &mut State<'_, '_>, given: &[Value]) -> Outcome {
    let bytes: usize = given.iter().map(size).fold(0, usize::saturating_add);
    afford(state, bytes)?;
    Ok(Value::from(
        given.iter().map(Value::to_string).collect::<String>(),
    ))
}

fn add(state: &mut State<'_, '_>, given: &[Value]) -> Outcome {
    afford(state, texts(given))?;
    plainly(given, Instruction::Add)
}

fn multiply(state: &mut State<'_, '_>, given: &[Value]) -> Outcome {
    let times = largest_number(given);
    let items = given.iter().filter_map(Value::len).max().unwrap_or(0);
    afford(state, texts(given).saturating_mul(times))?;
    afford(state, items.saturating_mul(times))?;
    plainly(given, Instruction::Mul)
}

/// What the engine itself makes of some values.
fn plainly(given: &[Value], operation: Instruction<'static>) -> Outcome {
    let environment = Environment::empty();
    let mut instructions = Instructions::new("<operator>", "");
    for value in given {
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

/// Bytes of a value as text, or of everything in it.
fn size(value: &Value) -> usize {
    match value.as_str() {
        Some(text) => text.len(),
        None => weigh(value, MAX_TEMPLATE_MEMORY).unwrap_or(usize::MAX),
    }
}

fn texts(given: &[Value]) -> usize {
    let texts = given.iter().filter_map(Value::as_str).map(str::len);
    texts.fold(0, usize::saturating_add)
}

/// The largest whole number among what a filter is given, by place or by name.
fn largest_number(given: &[Value]) -> usize {
    let named = given
        .iter()
        .filter(|value| value.kind() == ValueKind::Map)
        .filter_map(|map| Some((map, map.try_iter().ok()?)))
        .flat_map(|(map, keys)| keys.filter_map(|key| map.get_item(&key).ok()));
    let numbers = given.iter().cloned().chain(named);
    numbers
        .filter_map(|value| value.as_usize())
        .max()
        .unwrap_or(0)
}

fn nothing(_: &[Value]) -> usize {
    0
}

/// Everything that is given, as text.
fn written(given: &[Value]) -> usize {
    given.iter().map(size).fold(0, usize::saturating_add)
}

fn of_replace(given: &[Value]) -> usize {
    let [text, from, to, ..] = given else {
        return 0;
    };
    let times = match (text.as_str(), from.as_str()) {
        (Some(text), Some(from)) => text.matches(from).count(),
        _ => size(text),
    };
    size(text).saturating_add(times.saturating_mul(size(to)))
}

fn of_join(given: &[Value]) -> usize {
    let Some((list, with)) = given.split_first() else {
        return 0;
    };
    let items = list.len().unwrap_or(0);
    size(list).saturating_add(items.saturating_mul(written(with)))
}

/// As many signs before each line as a number among what is given says.
fn of_indent(given: &[Value]) -> usize {
    let Some((text, with)) = given.split_first() else {
        return 0;
    };
    let lines = text.as_str().map_or(1, |text| text.split('\n').count());
    let signs = largest_number(with).max(4);
    size(text).saturating_add(lines.saturating_mul(signs))
}

fn of_json(given: &[Value]) -> usize {
    let Some((value, with)) = given.split_first() else {
        return 0;
    };
    // A line stands at most as far in as values are deep.
    let indent = largest_number(with).saturating_mul(MAX_VALUE_DEPTH / OF_VALUE + 1);
    size(value).saturating_mul(indent.saturating_add(1))
}

fn of_pprint(given: &[Value]) -> usize {
    written(given).saturating_mul(4)
}

/// The numbers in the pattern are widths, and a `*` takes one from what is given.
fn of_format(given: &[Value]) -> usize {
    let pattern = given.first().and_then(Value::as_str).unwrap_or_default();
    let numbers = pattern.split(|sign: char| !sign.is_ascii_digit());
    let widths = numbers.filter(|digits| !digits.is_empty());
    let widths = widths.map(|digits| digits.parse().unwrap_or(usize::MAX));
    let stars = pattern.matches('*').count();
    let given_widths = stars.saturating_mul(largest_number(given));
    widths
        .fold(written(given), usize::saturating_add)
        .saturating_add(given_widths)
}

/// Lists that are filled up to a number of items.
fn of_parts(given: &[Value]) -> usize {
    let Some((list, with)) = given.split_first() else {
        return 0;
    };
    let most = largest_number(with).saturating_add(list.len().unwrap_or(0));
    most.saturating_mul(OF_VALUE)
}

/// A value for each item, or each sign of a text.
fn of_list(given: &[Value]) -> usize {
    let items = given.first().and_then(Value::len).unwrap_or(0);
    items.saturating_mul(OF_VALUE)
}

/// A value for each part of a text.
fn of_split(given: &[Value]) -> usize {
    let text = given.first().and_then(Value::as_str).unwrap_or_default();
    let parts = match given.get(1).and_then(Value::as_str) {
        Some("") | None => text.matches(char::is_whitespace).count(),
        Some(between) => text.matches(between).count(),
    };
    parts.saturating_mul(OF_VALUE).saturating_add(text.len())
}

/// Every filter that makes something, with what it makes at most before that can be counted.
fn metered_filters() -> Vec<(&'static str, Value, Estimate)> {
    let filter: fn(_, _, _) -> (&'static str, Value, Estimate) =
        |name, filter, estimate| (name, filter, estimate);
    vec![
        filter(
            "replace",
            Value::from_function(filters::replace),
            of_replace,
        ),
        filter("join", Value::from_function(filters::join), of_join),
        filter("indent", Value::from_function(filters::indent), of_indent),
        filter("tojson", Value::from_function(filters::tojson), of_json),
        filter("pprint", Value::from_function(filters::pprint), of_pprint),
        filter("format", Value::from_function(filters::format), of_format),
        filter("batch", Value::from_function(filters::batch), of_parts),
        filter("slice", Value::from_function(filters::slice), of_parts),
        filter("string", Value::from_function(filters::string), written),
        filter("upper", Value::from_function(filters::upper), written),
        filter("lower", Value::from_function(filters::lower), written),
        filter("title", Value::from_function(filters::title), written),
        filter(
            "capitalize",
            Value::from_function(filters::capitalize),
            written,
        ),
        filter("trim", Value::from_function(filters::trim), written),
        filter("escape", Value::from_function(filters::escape), written),
        filter("e", Value::from_function(filters::escape), written),
        filter("split", Value::from_function(filters::split), of_split),
        filter("lines", Value::from_function(filters::lines), of_split),
        filter("list", Value::from_function(filters::list), of_list),
        filter("items", Value::from_function(filters::items), nothing),
        filter("dictsort", Value::from_function(filters::dictsort), nothing),
        filter("reverse", Value::from_function(filters::reverse), written),
        filter("sort", Value::from_function(filters::sort), nothing),
        filter("unique", Value::from_function(filters::unique), nothing),
        filter("map", Value::from_function(filters::map), nothing),
        filter("select", Value::from_function(filters::select), nothing),
        filter("reject", Value::from_function(filters::reject), nothing),
        filter(
            "selectattr",
            Value::from_function(filters::selectattr),
            nothing,
        ),
        filter(
            "rejectattr",
            Value::from_function(filters::rejectattr),
            nothing,
        ),
        filter("groupby", Value::from_function(filters::groupby), nothing),
        filter("chain", Value::from_function(filters::chain), nothing),
        filter("zip", Value::from_function(filters::zip), nothing),
        filter("sum", Value::from_function(filters::sum), written),
        filter("safe", Value::from_function(filters::safe), written),
    ]
}
