//! Limits the values of a chat template while it is rendered.
//!
//! minijinja's fuel counts instructions, but one instruction can double a text or print a value of any depth. Filters
//! that multiply texts are replaced by ones that know the size of their result first. Values are measured where texts
//! grow and where values are kept ([`super::source_guard`]).

use super::extent::{Extent, is_namespace, kept};
use super::limits::{ITEMS, TEXT, VOLUME, exceeded};
use minijinja::value::{Kwargs, Rest, StringInput, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, Output, State, escape_formatter, filters};
use std::sync::Arc;

/// Filter for operands of `~` and `+`.
pub const OPERAND: &str = "_operand";
/// Filter for the left operand of `*`.
pub const FACTOR: &str = "_factor";
/// Filter for assigned values.
pub const ASSIGNED: &str = "_assigned";
/// Filter for values that become an attribute of a namespace.
pub const STORED: &str = "_stored";
/// Filter for the bytes of a text between tags, which prints nothing.
pub const PRINTED: &str = "_printed";

/// Maximum digits of a width in a format.
const WIDTH_DIGITS: usize = 4;
/// Maximum whole number in front of a `*`, whose other operand may be a list.
const LARGEST_FACTOR: i64 = 1_000_000;
/// Maximum parts into which a list is divided, and items of a part.
const PARTS: usize = 100_000;

/// Replaces filters and methods of an environment by limited ones.
pub fn limit(environment: &mut Environment<'_>) {
    environment.set_formatter(print);
    environment.set_unknown_method_callback(method);
    environment.add_filter(OPERAND, measured);
    environment.add_filter(FACTOR, factor);
    environment.add_filter(ASSIGNED, measured);
    environment.add_filter(STORED, stored);
    environment.add_filter(PRINTED, printed);
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("indent", indent);
    environment.add_filter("format", format);
    environment.add_filter("slice", slice);
    environment.add_filter("batch", batch);
    environment.add_filter("pprint", pprint);
    environment.add_filter("split", split);
    environment.add_filter("lines", lines);
    for (name, filter) in [
        ("items", Value::from_function(filters::items)),
        ("reverse", Value::from_function(filters::reverse)),
        ("string", Value::from_function(filters::string)),
    ] {
        environment.add_filter(name, over_measured(filter, usize::MAX));
    }
    // These collect the characters of a text.
    for (name, filter) in [
        ("chain", Value::from_function(filters::chain)),
        ("dictsort", Value::from_function(filters::dictsort)),
        ("groupby", Value::from_function(filters::groupby)),
        ("list", Value::from_function(filters::list)),
        ("map", Value::from_function(filters::map)),
        ("max", Value::from_function(filters::max)),
        ("min", Value::from_function(filters::min)),
        ("reject", Value::from_function(filters::reject)),
        ("rejectattr", Value::from_function(filters::rejectattr)),
        ("select", Value::from_function(filters::select)),
        ("selectattr", Value::from_function(filters::selectattr)),
        ("sort", Value::from_function(filters::sort)),
        ("sum", Value::from_function(filters::sum)),
        ("unique", Value::from_function(filters::unique)),
        ("zip", Value::from_function(filters::zip)),
    ] {
        environment.add_filter(name, over_measured(filter, ITEMS));
    }
}

/// Returns a filter that measures its arguments first. Errors: a text among them of more than `characters` bytes, or a
/// namespace, since the result may be a view of it.
fn over_measured(
    filter: Value,
    characters: usize,
) -> impl Fn(&mut State<'_, '_>, Rest<ValueOrKwargs>) -> Result<Value, Error> {
    move |state: &mut State<'_, '_>, arguments: Rest<ValueOrKwargs>| {
        let arguments = arguments.into_values();
        for argument in &arguments {
            if Extent::of(argument)?.namespace {
                return Err(listed_namespace());
            }
            if argument.as_str().is_some_and(|text| text.len() > characters) {
                return Err(exceeded("a list has too many characters of a text", characters));
            }
        }
        let result = filter.call(state, &arguments)?;
        charge_list(state, result)
    }
}

/// Returns a new list after its items are taken into account, since an expression may hold many lists at once.
fn charge_list(state: &mut State<'_, '_>, list: Value) -> Result<Value, Error> {
    if list.kind() != ValueKind::String {
        add_volume(state, kept(list.len().unwrap_or(0)))?;
    }
    Ok(list)
}

/// Charges the parts of a text that is split at a text, or at white space. Errors: too many.
fn charge_pieces(state: &mut State<'_, '_>, text: &str, separator: Option<&str>) -> Result<(), Error> {
    let pieces = separator.map_or_else(|| text.split_whitespace().count(), |separator| text.matches(separator).count());
    if pieces > ITEMS {
        return Err(exceeded(&format!("a text is split into {pieces} parts"), ITEMS));
    }
    add_volume(state, kept(pieces).saturating_add(text.len()))
}

fn split(
    state: &mut State<'_, '_>,
    value: &Value,
    separator: Option<Arc<str>>,
    most: Option<i64>,
) -> Result<Value, Error> {
    charge_pieces(state, value.as_str().unwrap_or_default(), separator.as_deref())?;
    filters::split(value, separator, most)
}

fn lines(state: &mut State<'_, '_>, value: &Value) -> Result<Value, Error> {
    charge_pieces(state, value.as_str().unwrap_or_default(), Some("\n"))?;
    filters::lines(value)
}

fn listed_namespace() -> Error {
    Error::new(ErrorKind::InvalidOperation, "a namespace cannot be read as a list or text")
}

/// Bytes that the operations of a rendering took.
#[derive(Default)]
struct Volume(usize);

fn charge(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    expect_text(bytes)?;
    add_volume(state, bytes)
}

fn expect_text(bytes: usize) -> Result<(), Error> {
    if bytes > TEXT { Err(exceeded(&format!("a value has {bytes} bytes of text"), TEXT)) } else { Ok(()) }
}

fn add_volume(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let volume = state.get_or_insert_extension(Volume::default());
    volume.0 = volume.0.saturating_add(bytes);
    if volume.0 > VOLUME { Err(exceeded("its values and texts have together too many bytes", VOLUME)) } else { Ok(()) }
}

/// Charges a value that may be kept.
fn charge_value(state: &mut State<'_, '_>, extent: &Extent) -> Result<(), Error> {
    charge(state, extent.text)?;
    add_volume(state, kept(extent.items))
}

/// Returns a value after its size is taken into account.
fn measured(state: &mut State<'_, '_>, value: &Value) -> Result<Value, Error> {
    // Numbers and flags, the most frequent operands, need no measure.
    if !matches!(value.kind(), ValueKind::Number | ValueKind::Bool) {
        charge_value(state, &Extent::of(value)?)?;
    }
    Ok(value.clone())
}

/// Returns the left operand of a product. Texts are repeated up to 100 MB and lists without a copy, but tuples with
/// all their items. Errors: a tuple, or a number that would repeat one too often.
fn factor(value: &Value) -> Result<Value, Error> {
    let tuple = value.as_object().is_some_and(|object| object.type_name().ends_with("Tuple"));
    let large = value.is_integer() && !i64::try_from(value.clone()).is_ok_and(|number| number <= LARGEST_FACTOR);
    if tuple || large {
        let message = format!("a product of a tuple or of a number more than the limit of {LARGEST_FACTOR}");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(value.clone())
}

/// Returns a value as [`measured`] does. Errors: it holds a namespace, which could then hold itself.
fn stored(state: &mut State<'_, '_>, value: &Value) -> Result<Value, Error> {
    let extent = Extent::of(value)?;
    if extent.namespace {
        return Err(Error::new(ErrorKind::InvalidOperation, "a namespace cannot be kept in a namespace"));
    }
    charge_value(state, &extent)?;
    Ok(value.clone())
}

/// Charges a text between tags, which is printed next.
fn printed(state: &mut State<'_, '_>, bytes: usize) -> Result<&'static str, Error> {
    add_volume(state, bytes)?;
    Ok("")
}

/// Prints a value into the output, or into a captured text.
fn print(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let extent = Extent::of(value)?;
    expect_text(extent.text)?;
    add_volume(state, extent.output(value.kind()))?;
    escape_formatter(out, state, value)
}

/// Returns the bytes of `text` after each `from` is replaced by `to`.
fn replaced_size(text: &str, from: &str, to: &str) -> usize {
    text.len().saturating_add(text.matches(from).count().saturating_mul(to.len()))
}

fn replace(
    state: &mut State<'_, '_>,
    value: StringInput<'_>,
    from: StringInput<'_>,
    to: StringInput<'_>,
) -> Result<Value, Error> {
    charge(state, replaced_size(value.as_str(), from.as_str(), to.as_str()))?;
    filters::replace(state, value, from, to)
}

/// Returns at least the bytes of the items of `value` joined by a text.
fn joined_size(value: &Value, joiner: usize) -> Result<usize, Error> {
    let extent = Extent::of(value)?;
    let items = value.as_str().map_or(extent.items, str::len);
    Ok(extent.text.saturating_add(extent.printed).saturating_add(items.saturating_mul(joiner)))
}

fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, Error> {
    let named = options.peek::<Option<&str>>("d")?.map_or(0, str::len);
    let length = joiner.as_ref().map_or(named, |joiner| joiner.as_str().len());
    charge(state, joined_size(value, length)?)?;
    filters::join(state, value, joiner, attribute, options)
}

fn indent(state: &mut State<'_, '_>, value: &Value, options: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let options = options.into_values();
    let number = |value: Value| usize::try_from(value).ok();
    let width = |option: &Value| number(option.clone()).or_else(|| number(option.get_attr("width").ok()?));
    let spaces = options.iter().filter_map(width).max().unwrap_or(0).max(4);
    let lines = value.as_str().map_or(0, |text| text.matches(['\n', '\r']).count()).saturating_add(1);
    charge(state, Extent::of(value)?.text.saturating_add(lines.saturating_mul(spaces)))?;
    let arguments: Vec<Value> = std::iter::once(value.clone()).chain(options).collect();
    Value::from_function(filters::indent).call(state, &arguments)
}

/// Returns the specifications of a format: after `%`, without the name of a value, or in braces.
fn specifications(text: &str, start: char) -> impl Iterator<Item = &str> {
    text.split(start).skip(1).map(move |piece| {
        if start == '{' {
            return piece.split('}').next().unwrap_or_default();
        }
        let piece = piece.strip_prefix('(').and_then(|p| p.split_once(')')).map_or(piece, |(_, piece)| piece);
        piece.split(|c: char| !(c.is_ascii_digit() || "-+ #.*".contains(c))).next().unwrap_or_default()
    })
}

/// Checks the widths of a format. Errors: a width of too many digits, or one that is an argument.
fn expect_widths(text: &str, start: char) -> Result<(), Error> {
    let digits = |spec: &str| spec.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    let wide = |spec: &str| digits(spec) > WIDTH_DIGITS || (start == '%' && spec.contains('*'));
    if specifications(text, start).any(wide) {
        let message = format!("a width in a format is not a number of at most {WIDTH_DIGITS} digits");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(())
}

/// Returns at least the bytes of a formatted text.
fn formatted_size<'v>(text: &str, values: impl Iterator<Item = &'v Value>) -> Result<usize, Error> {
    let width = 10_usize.pow(WIDTH_DIGITS as u32);
    let specs = text.matches(['%', '{']).count();
    let mut size = text.len().saturating_add(specs.saturating_mul(width));
    for value in values {
        // A value may be printed by every specification.
        size = size.saturating_add(Extent::of(value)?.text.saturating_mul(specs));
    }
    Ok(size)
}

fn format(state: &mut State<'_, '_>, text: &Value, values: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let source = text.as_str().unwrap_or_default();
    expect_widths(source, '%')?;
    let values = values.into_values();
    charge(state, formatted_size(source, values.iter())?)?;
    let arguments: Vec<Value> = std::iter::once(text.clone()).chain(values).collect();
    Value::from_function(filters::format).call(state, &arguments)
}

fn pprint(state: &mut State<'_, '_>, value: &Value) -> Result<String, Error> {
    measured(state, value)?;
    Ok(filters::pprint(value))
}

fn slice(state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    expect_parts(count)?;
    filters::slice(state, value, count, fill)
}

fn batch(state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    expect_parts(count)?;
    filters::batch(state, value, count, fill)
}

fn expect_parts(count: usize) -> Result<(), Error> {
    if count > PARTS { Err(exceeded(&format!("a list is divided by {count}"), PARTS)) } else { Ok(()) }
}

/// Calls a method that Python's values have.
fn method(state: &mut State<'_, '_>, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    if is_namespace(value) {
        return Err(listed_namespace());
    }
    let text = |at: usize| arguments.get(at).and_then(Value::as_str).unwrap_or_default();
    if let Some(own) = value.as_str() {
        match name {
            "replace" => charge(state, replaced_size(own, text(0), text(1)))?,
            "split" => charge_pieces(state, own, arguments.first().and_then(Value::as_str))?,
            "splitlines" => charge_pieces(state, own, Some("\n"))?,
            "join" => charge(state, arguments.first().map_or(Ok(0), |items| joined_size(items, own.len()))?)?,
            "format" => {
                expect_widths(own, '{')?;
                charge(state, formatted_size(own, arguments.iter())?)?;
            }
            _ => {}
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments)
}
