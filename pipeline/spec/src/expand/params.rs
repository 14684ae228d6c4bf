//! Declares parameters (types, ranges, choices) and reads their values from defaults, `-p k=v`, `-p @file`, or the
//! `with` of an embedding stage.
//!
//! A value is read by its declared type: `-p name=7` sets a string parameter to the text `7`. The default of a `path`
//! is relative to the workflow file's folder, and a path from `-p` to the working directory. Both become absolute, so a
//! run does not depend on the folder in which it starts.

use crate::diagnostic::{Diagnostic, Sources, Span, suggest};
use crate::expression::Expression;
use crate::files::absolute;
use crate::read::{BoundContent, BoundNode, MapFields, ValueReader};
use crate::tree::{YamlScalar, core_value};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use trainyard_core::ArtifactKind;
use trainyard_core::units::{format_duration, format_size, parse_duration, parse_size};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    /// Text, even if it looks like another type.
    String,
    Int,
    /// Any number.
    Float,
    Bool,
    /// A file, folder or URL; made absolute.
    Path,
    /// A list; its items may have a declared type.
    List,
    /// A map with any values.
    Map,
    /// Text such as `90s`.
    Duration,
    /// Text such as `40GiB`.
    Size,
    /// An artifact of this kind, passed in by the embedding stage.
    Artifact(ArtifactKind),
}

/// Values of `type`: plain types, then the kinds of artifacts.
pub const TYPE_NAMES: [&str; 15] = [
    "string",
    "int",
    "float",
    "bool",
    "path",
    "list",
    "map",
    "duration",
    "size",
    "problems",
    "trajectories",
    "model",
    "report",
    "table",
    "files",
];

impl ParamType {
    /// Parses one of [`TYPE_NAMES`].
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "int" => Self::Int,
            "float" => Self::Float,
            "bool" => Self::Bool,
            "path" => Self::Path,
            "list" => Self::List,
            "map" => Self::Map,
            "duration" => Self::Duration,
            "size" => Self::Size,
            _ => Self::Artifact(ArtifactKind::ALL.into_iter().find(|k| k.name() == name)?),
        })
    }
    /// Returns the name in [`TYPE_NAMES`].
    pub fn name(self) -> &'static str {
        TYPE_NAMES.into_iter().find(|name| Self::from_name(name) == Some(self)).unwrap_or("string")
    }
    fn wanted(self) -> &'static str {
        match self {
            Self::String => "text",
            Self::Int => "a whole number",
            Self::Float => "a number",
            Self::Bool => "true or false",
            Self::Path => "a path",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Duration => "a duration such as `90s`",
            Self::Size => "a size such as `40GiB`",
            Self::Artifact(_) => "an artifact: `${{ stages.<id>.<port> }}`",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Param {
    /// Name in `params.<name>` and `-p`.
    pub name: String,
    /// Position of the name in the file.
    pub span: Span,
    /// Declared type.
    pub kind: ParamType,
    /// Declared type of a list's items.
    pub items: Option<ParamType>,
    /// Default; `None` if the caller must set a value.
    pub default: Option<BoundNode>,
    /// Least value, inclusive.
    pub min: Option<f64>,
    /// Greatest value, inclusive.
    pub max: Option<f64>,
    /// Allowed values; empty if all are.
    pub choices: Vec<Value>,
    /// Text for readers of the file.
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ParamValue {
    /// A plain value of the declared type.
    Known(Value),
    /// References of the embedding file: one artifact, or a list of them.
    Artifacts {
        /// The references, bound in the embedding file.
        bound: BoundNode,
        /// Declared kind.
        kind: ArtifactKind,
    },
}

/// A value from a caller, and the folder that its paths are relative to.
#[derive(Debug, Clone)]
pub struct GivenParam<'a> {
    /// Value as written, before it is parsed as the parameter's type.
    pub bound: BoundNode,
    /// Absolute path.
    pub folder: &'a Path,
}

const KEYS: [&str; 7] = ["type", "default", "min", "max", "choices", "items", "description"];

/// Reads the declaration of a parameter.
pub fn declare(
    name: &str,
    span: Span,
    bound: &BoundNode,
    sources: &Sources,
    reader: &mut ValueReader<'_>,
) -> Option<Param> {
    if !matches!(bound.content, BoundContent::Map(_)) {
        let d = Diagnostic::error(
            "wrong-type",
            bound.span,
            format!("param `{name}` must be declared by a map, found {}", bound.describe()),
        );
        reader.report(d.help("as in `{type: int, default: 200}`"));
        return None;
    }
    let subject = format!("param `{name}`");
    let fields = reader.map(bound, &subject, &KEYS)?;
    let Some(kind) = fields.get("type") else {
        reader.report(
            Diagnostic::error("missing-key", span, format!("{subject} has no `type`"))
                .help(format!("one of {}", TYPE_NAMES.join(", "))),
        );
        return None;
    };
    let kind = reader.word(kind, "`type`", &TYPE_NAMES).and_then(ParamType::from_name)?;
    let items = fields.get("items").and_then(|b| reader.word(b, "`items`", &TYPE_NAMES)).and_then(ParamType::from_name);
    let mut param = Param {
        name: name.to_string(),
        span,
        kind,
        items,
        default: fields.get("default").cloned(),
        min: None,
        max: None,
        choices: Vec::new(),
        description: fields.get("description").and_then(|b| b.value()?.as_str().map(str::to_string)),
    };
    read_range(&mut param, &fields, reader);
    if let Some(choices) = fields.get("choices").and_then(|b| reader.list(b, "`choices`")) {
        param.choices =
            choices.iter().filter_map(|b| typed(kind, b, sources.folder(b.span), &subject, reader)).collect();
    }
    Some(param)
}

fn read_range(param: &mut Param, fields: &MapFields<'_>, reader: &mut ValueReader<'_>) {
    for key in ["min", "max"] {
        let Some(bound) = fields.get(key) else { continue };
        let limit = match param.kind {
            ParamType::Int | ParamType::Float => reader.float(bound, key),
            ParamType::Duration => reader.duration(bound, key).map(|d| d.as_secs_f64()),
            ParamType::Size => reader.size(bound, key).map(|s| s as f64),
            _ => {
                let span = fields.key_span(key).unwrap_or(bound.span);
                reader.report(Diagnostic::error(
                    "misplaced-key",
                    span,
                    format!("`{key}` has no meaning for {}", param.kind.wanted()),
                ));
                None
            }
        };
        if key == "min" { param.min = limit } else { param.max = limit }
    }
}

/// Returns the value of a parameter: the caller's, or else the default.
pub fn value(
    param: &Param,
    given: Option<&GivenParam<'_>>,
    sources: &Sources,
    reader: &mut ValueReader<'_>,
) -> Option<ParamValue> {
    let subject = format!("param `{}`", param.name);
    let optional = param.default.as_ref().is_some_and(BoundNode::is_null);
    let (bound, folder) = match (given, &param.default) {
        (Some(given), _) => (&given.bound, given.folder),
        (None, Some(default)) => (default, sources.folder(default.span)),
        (None, None) => {
            let d = Diagnostic::error("missing-param", param.span, format!("{subject} has no value"));
            reader.report(match param.kind {
                ParamType::Artifact(_) => {
                    d.help("the param takes an artifact: embed this file with `uses:` and set the param under `with`")
                }
                _ => d.help(format!("give `-p {}=…`, or a `default`", param.name)),
            });
            return None;
        }
    };
    if optional && bound.is_null() {
        return Some(ParamValue::Known(Value::Null));
    }
    if let ParamType::Artifact(kind) = param.kind {
        return artifacts(bound, kind, &subject, reader);
    }
    let found = typed(param.kind, bound, folder, &subject, reader)?;
    let found = typed_items(param, found, bound, folder, reader)?;
    in_range(param, &found, bound.span, &subject, reader).then_some(ParamValue::Known(found))
}

fn artifacts(bound: &BoundNode, kind: ArtifactKind, subject: &str, reader: &mut ValueReader<'_>) -> Option<ParamValue> {
    let reference = |b: &BoundNode| matches!(b.content, BoundContent::Expression(Expression { .. }));
    let fits = match &bound.content {
        BoundContent::List(items) => items.iter().all(reference),
        _ => reference(bound),
    };
    if fits {
        return Some(ParamValue::Artifacts { bound: bound.clone(), kind });
    }
    reader.wrong(bound, subject, &format!("an artifact of kind {kind}"));
    None
}

/// Parses a bound value as a declared type.
fn typed(
    kind: ParamType,
    bound: &BoundNode,
    folder: &Path,
    subject: &str,
    reader: &mut ValueReader<'_>,
) -> Option<Value> {
    let value = match &bound.content {
        BoundContent::Scalar(scalar) => scalar_as(kind, scalar),
        _ => bound.value().and_then(|v| value_as(kind, v)),
    };
    let Some(value) = value else {
        reader.wrong(bound, subject, kind.wanted());
        return None;
    };
    match (kind, value.as_str()) {
        (ParamType::Path, Some(path)) if !path.is_empty() && !path.contains("://") => {
            Some(absolute(folder, path).display().to_string().into())
        }
        (ParamType::Duration, Some(text)) => reader.parsed(bound, subject, parse_duration(text)).map(|_| value),
        (ParamType::Size, Some(text)) => reader.parsed(bound, subject, parse_size(text)).map(|_| value),
        _ => Some(value),
    }
}

fn scalar_as(kind: ParamType, scalar: &YamlScalar) -> Option<Value> {
    match kind {
        ParamType::String | ParamType::Path | ParamType::Duration | ParamType::Size => {
            let nothing = scalar.plain && core_value(scalar).is_null() && !scalar.text.is_empty();
            (!nothing).then(|| Value::String(scalar.text.clone()))
        }
        _ => value_as(kind, core_value(scalar)),
    }
}

fn value_as(kind: ParamType, value: Value) -> Option<Value> {
    let fits = match kind {
        ParamType::String | ParamType::Path | ParamType::Duration | ParamType::Size => value.is_string(),
        ParamType::Int => return whole(&value),
        ParamType::Float => return value.as_f64().map(Value::from),
        ParamType::Bool => value.is_boolean(),
        ParamType::List => value.is_array(),
        ParamType::Map => value.is_object(),
        ParamType::Artifact(_) => false,
    };
    fits.then_some(value)
}

/// Parses a whole number: `3`, and also `3.0` or `1e3`.
pub fn whole(value: &Value) -> Option<Value> {
    if value.is_i64() || value.is_u64() {
        return Some(value.clone());
    }
    value.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0).map(|f| Value::from(f as i64))
}

/// Parses the items of a list as their declared type.
fn typed_items(
    param: &Param,
    value: Value,
    bound: &BoundNode,
    folder: &Path,
    reader: &mut ValueReader<'_>,
) -> Option<Value> {
    let (Some(kind), Value::Array(items)) = (param.items, &value) else { return Some(value) };
    let mut read = Vec::new();
    for item in items {
        let item = match item {
            Value::Number(n) if kind == ParamType::String => Value::String(n.to_string()),
            other => other.clone(),
        };
        let one = BoundNode { span: bound.span, content: BoundContent::Value(item) };
        read.push(typed(kind, &one, folder, &format!("every item of param `{}`", param.name), reader)?);
    }
    Some(Value::Array(read))
}

fn in_range(param: &Param, value: &Value, span: Span, subject: &str, reader: &mut ValueReader<'_>) -> bool {
    let number = match (param.kind, value.as_str()) {
        (ParamType::Duration, Some(text)) => parse_duration(text).ok().map(|d| d.as_secs_f64()),
        (ParamType::Size, Some(text)) => parse_size(text).ok().map(|s| s as f64),
        _ => value.as_f64(),
    };
    let below = number.zip(param.min).is_some_and(|(n, min)| n < min);
    let above = number.zip(param.max).is_some_and(|(n, max)| n > max);
    if below || above {
        let limit = |l: f64| match param.kind {
            ParamType::Size => format_size(l as u64),
            ParamType::Duration => format_duration(Duration::from_secs_f64(l)),
            _ => l.to_string(),
        };
        let range = match (param.min, param.max) {
            (Some(min), Some(max)) => format!("from {} to {}", limit(min), limit(max)),
            (Some(min), None) => format!("at least {}", limit(min)),
            (None, max) => format!("at most {}", limit(max.unwrap_or_default())),
        };
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        reader.report(
            Diagnostic::error("out-of-range", span, format!("{subject} is {shown}, but must be {range}"))
                .related(param.span, "declared here"),
        );
    }
    if !param.choices.is_empty() && !param.choices.contains(value) {
        let shown = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_string);
        let choices: Vec<String> = param.choices.iter().map(shown).collect();
        let d = Diagnostic::error("wrong-value", span, format!("{subject} cannot be `{}`", shown(value)));
        reader.report(
            d.help_if(suggest(&shown(value), choices.iter().map(String::as_str))).related(param.span, "declared here"),
        );
        return false;
    }
    !below && !above
}
