//! Reads and validates the options of a stage kind or an executor by their JSON Schema.
//!
//! There are two steps. The schema, generated from the stage's own structs, finds all mistakes, with names and hints.
//! Then serde (through the catalogue) parses the options, which must succeed after the first step. The engine validates
//! options with late values once these are known ([`KindOptions::finalize`]).

pub mod command;
mod explain;
mod pointer;
mod problem;
mod view;

pub use pointer::{escape, readable};
pub use problem::message_with_name;
pub use view::SchemaView;

use crate::diagnostic::{Diagnostic, Span};
use crate::expand::params::whole;
use crate::files::SourceForm;
use crate::read::{BoundContent, BoundEntry, BoundNode};
use crate::template::Template;
use crate::tree::{YamlScalar, core_value};
use crate::vocabulary;
use problem::Problem;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{KindInfo, OptionProblem};

/// A kind's schema, compiled once.
pub struct KindOptions {
    schema: Value,
    validator: Option<jsonschema::Validator>,
    /// Sorted names of the options.
    pub names: Vec<String>,
}

/// A value of type `source` in a config.
#[derive(Debug, Clone)]
pub struct ConfigSource {
    /// RFC 6901 pointer into the config.
    pub pointer: String,
    /// Path or URL, as written or computed.
    pub text: String,
    /// Position in the file.
    pub span: Span,
    /// Values that the option accepts.
    pub form: SourceForm,
    /// Whether it is part of a command, where a word need not be a file.
    pub word: bool,
}

/// A position of a config that holds a source.
#[derive(Debug, Clone)]
pub struct SourcePointer {
    /// RFC 6901 pointer into the config.
    pub pointer: String,
    /// Path or URL at that position.
    pub text: String,
    /// Values that the option accepts.
    pub form: SourceForm,
    /// Whether it is part of a command, where a word need not be a file.
    pub word: bool,
}

/// Sources and late values found while reading options.
#[derive(Debug, Default)]
pub struct ReadOptions {
    /// In the order of the config.
    pub sources: Vec<ConfigSource>,
    /// Pointers of values that are not known yet.
    late: Vec<String>,
}

impl KindOptions {
    /// Compiles the options of a stage kind.
    pub fn new(info: &KindInfo) -> Self {
        Self::of(&info.options)
    }

    /// Compiles the options of a schema. A schema that does not compile is its author's mistake; tests find it, and
    /// serde still validates.
    pub fn of(schema: &Value) -> Self {
        let names = SchemaView::root(schema).names();
        Self { schema: schema.clone(), validator: jsonschema::validator_for(schema).ok(), names }
    }

    /// Returns the schema's description of the whole config.
    pub fn view(&self) -> SchemaView<'_> {
        SchemaView::root(&self.schema)
    }

    /// Reads the options as a template: scalars by declared type.
    pub fn read(
        &self,
        entries: &[&BoundEntry],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> (BTreeMap<String, Template>, ReadOptions) {
        let mut found = ReadOptions::default();
        let mut config = BTreeMap::new();
        let root = self.view();
        for entry in entries {
            let pointer = format!("/{}", escape(&entry.key));
            let template = convert(&entry.value, &root.property(&entry.key), pointer, &mut found, diagnostics);
            config.insert(entry.key.clone(), template);
        }
        (config, found)
    }

    /// Reports all mistakes in the known part of a config. `with` is its position in the file.
    pub fn validate(&self, config: &Template, read: &ReadOptions, with: &BoundNode, owner: &str) -> Vec<Diagnostic> {
        let mut problems = self.problems(&config.known_part());
        problems.retain(|p| !p.is_due_to_late(&read.late));
        problems.into_iter().map(|p| p.into_diagnostic(with, owner)).collect()
    }

    /// Completes a config once its late values are known: converts scalars to their declared types as [`Self::read`]
    /// does. Errors: all mistakes, as in [`Self::validate`].
    pub fn finalize(&self, config: Value, owner: &str) -> Result<Value, Vec<OptionProblem>> {
        let config = coerce_value(config, &self.view());
        let problems = self.problems(&config);
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(problems.into_iter().map(|p| p.into_option_problem(owner)).collect())
        }
    }

    fn problems(&self, config: &Value) -> Vec<Problem> {
        let Some(validator) = &self.validator else { return Vec::new() };
        let mut problems = Vec::new();
        for error in validator.iter_errors(config) {
            explain::collect(&error, &self.view(), &mut problems);
        }
        integer_ranges(config, &self.view(), String::new(), &mut problems);
        problems
    }
}

fn convert(
    bound: &BoundNode,
    view: &SchemaView<'_>,
    pointer: String,
    found: &mut ReadOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Template {
    match &bound.content {
        BoundContent::Scalar(scalar) => literal(coerce_scalar(scalar, view), bound, view, pointer, found),
        BoundContent::Value(value) => literal(coerce_value(value.clone(), view), bound, view, pointer, found),
        BoundContent::Expression(e) => {
            if e.references().iter().any(|r| {
                matches!(
                    r,
                    crate::expression::ExprReference::Artifact { .. } | crate::expression::ExprReference::Param(_)
                )
            }) {
                let d = Diagnostic::error(
                    "artifact-as-option",
                    bound.span,
                    format!("`{}` is an option, `{e}` is an artifact", readable(&pointer)),
                );
                diagnostics.push(d.help("artifacts go to input ports"));
            }
            if view.is_source() || view.is_command() {
                let d = Diagnostic::error(
                    "not-known",
                    bound.span,
                    format!("the source `{}` must be known before the run", readable(&pointer)),
                );
                diagnostics.push(d.help("its content is a part of the stage digest: use `params` or `matrix`"));
            }
            found.late.push(pointer);
            Template::Expression(e.clone())
        }
        BoundContent::Text(pieces) => {
            found.late.push(pointer);
            Template::Text(pieces.clone())
        }
        BoundContent::List(items) => {
            let list = items
                .iter()
                .enumerate()
                .map(|(i, b)| convert(b, &view.item(i), format!("{pointer}/{i}"), found, diagnostics));
            simplify(Template::List(list.collect()))
        }
        BoundContent::Map(entries) => {
            let map = entries.iter().map(|e| {
                let inner = format!("{pointer}/{}", escape(&e.key));
                (e.key.clone(), convert(&e.value, &view.property(&e.key), inner, found, diagnostics))
            });
            simplify(Template::Map(map.collect()))
        }
    }
}

fn literal(
    value: Value,
    bound: &BoundNode,
    view: &SchemaView<'_>,
    pointer: String,
    found: &mut ReadOptions,
) -> Template {
    if (view.is_source() || view.is_command())
        && let Some(text) = value.as_str().filter(|t| !t.is_empty())
    {
        found.sources.push(ConfigSource {
            pointer,
            text: text.to_string(),
            span: bound.span,
            form: view.source_form(),
            word: view.is_command(),
        });
    }
    Template::Literal(value)
}

fn simplify(template: Template) -> Template {
    template.as_literal().map_or(template, Template::Literal)
}

/// Converts a scalar to a type declared at its position: text stays text, `1e3` is an integer where one is expected.
fn coerce_scalar(scalar: &YamlScalar, view: &SchemaView<'_>) -> Value {
    let value = core_value(scalar);
    if view.allows("string") && !view.allows_value(&value) && scalar.plain && !value.is_null() {
        return Value::String(scalar.text.clone());
    }
    coerce_value(value, view)
}

fn coerce_value(value: Value, view: &SchemaView<'_>) -> Value {
    match value {
        Value::Number(_) if view.allows("integer") && !view.allows("number") => whole(&value).unwrap_or(value),
        Value::Array(items) => {
            Value::Array(items.into_iter().enumerate().map(|(i, v)| coerce_value(v, &view.item(i))).collect())
        }
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(k, v)| {
                    let inner = view.property(&k);
                    let v = coerce_value(v, &inner);
                    (k, v)
                })
                .collect(),
        ),
        other => other,
    }
}

/// Checks integer ranges: JSON Schema has no `uint32`, but serde does.
fn integer_ranges(value: &Value, view: &SchemaView<'_>, pointer: String, problems: &mut Vec<Problem>) {
    match value {
        Value::Number(n) if !n.is_f64() => {
            let Some((min, max)) = view.integer_range() else { return };
            let in_range = n
                .as_i64()
                .map(i128::from)
                .or_else(|| n.as_u64().map(i128::from))
                .is_some_and(|i| (min..=max).contains(&i));
            if !in_range && !problems.iter().any(|p| p.pointer == pointer) {
                problems.push(Problem {
                    code: "out-of-range",
                    pointer,
                    at_key: false,
                    by_children: false,
                    message: format!("{{}} is {n}, but must be from {min} to {max}"),
                    help: None,
                });
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                integer_ranges(item, &view.item(i), format!("{pointer}/{i}"), problems);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                integer_ranges(item, &view.property(key), format!("{pointer}/{}", escape(key)), problems);
            }
        }
        _ => {}
    }
}

/// Collects all `source` values of a complete config, and the words of commands that may be files.
pub fn source_pointers(value: &Value, view: &SchemaView<'_>, pointer: &str, found: &mut Vec<SourcePointer>) {
    let form = view.source_form();
    let place = |text: &str, word| SourcePointer { pointer: pointer.to_string(), text: text.to_string(), form, word };
    match value {
        Value::String(text) if view.is_source() && !text.is_empty() => found.push(place(text, false)),
        Value::String(text) if view.is_command() && command::may_be_source(text) => found.push(place(text, true)),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                source_pointers(item, &view.item(i), &format!("{pointer}/{i}"), found);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                source_pointers(item, &view.property(key), &format!("{pointer}/{}", escape(key)), found);
            }
        }
        _ => {}
    }
}

/// Returns the diagnostic for a key that a kind does not have.
pub fn unknown_option(entry: &BoundEntry, kind: &KindInfo, options: &[String]) -> Diagnostic {
    let ports = kind.inputs.iter().filter(|port| !port.is_family()).map(|port| port.name);
    let known: Vec<&str> = ports.chain(options.iter().map(String::as_str)).collect();
    Diagnostic::error(
        "unknown-option",
        entry.key_span,
        format!("`{}` has no option or input `{}`", kind.name, entry.key),
    )
    .help_if(vocabulary::option(&entry.key, &known))
}
