//! Compiles stages with `run:`, which execute any command line, to kind `run` with a config that the attempt turns into
//! a process.
//!
//! **Ports** come from the file: every key under `with` is an input, every key under `outputs` an output.
//!
//! **Config**, exactly one of
//! - `{"argv": [word, …]}` — `run: [python, train.py, …]`: no shell, one expression = one argument;
//! - `{"shell": "script", …}` — `run: text`: goes to `sh -eu -c`. Every expression is the value of an environment
//!   variable `TRAINYARD_ARG_<n>` and appears in the script as `"${TRAINYARD_ARG_<n>}"`, so no shell ever parses a
//!   value;
//!
//! and optionally `"env": {name: word}` (those variables, and `env:` entries that name local paths) and `"files":
//! {relative name: absolute path}` (links in the working folder; each is a source, so its content enters the digest,
//! and an attempt that finds other content before or after its work fails).
//!
//! A **word** is a string, or an object that an attempt replaces by local paths: `{"$input": "port"}` (the artifact's
//! folder; for a port that holds a list, a folder with `0`, `1`, … in it), `{"$input": "port", "index": 2}`,
//! `{"$output": "port"}` (an existing empty folder), or `{"$text": [word, …]}`, the words joined. Metrics are read from
//! the JSON Lines file at `$TRAINYARD_METRICS`, one `{"name": "accuracy", "value": 0.5}` per line; the last one of a
//! name counts.
//!
//! **Resume points.** A line `{"checkpoint": "/path/of/folder", "step": 50}` in the same file says that the folder is
//! complete after step 50. The attempt stores it while the command runs, and the next attempt of the stage digest finds
//! the files of the newest one in the folder `$TRAINYARD_RESUME`; without one, the variable is absent. A line whose
//! step is not above all before it is ignored.
//!
//! Paths cannot be computed with (`inputs.a + "/x"`: write `${{ inputs.a }}/x`), and expressions are not allowed inside
//! here-documents, backquotes, `${…}` and `$((…))`, where a shell would parse them.

mod quoting;

pub use crate::workflow::{RunPorts, ports};

use crate::diagnostic::{Diagnostic, Span};
use crate::expression::{ExprReference, Expression, ExpressionError, Term, value_text};
use crate::read::{Binder, BoundContent, BoundNode, ValueReader};
use crate::template::{Template, TemplatePiece};
use crate::workflow::RawStage;
use quoting::Quoting;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Name of the kind; absent from catalogues.
pub const KIND: &str = "run";
/// Version of the kind; raised when the meaning of a config changes.
pub const VERSION: u32 = 1;
/// Prefix of the environment variables of shell scripts; a number follows.
pub const VARIABLE: &str = "TRAINYARD_ARG_";

/// Returns the name in the working folder of a path under `files:`: the path itself, or its last part if it leads
/// outside.
pub fn file_name(path: &str) -> &str {
    let inside = !path.starts_with('/') && !path.split('/').any(|part| part == "..");
    if inside { path.trim_start_matches("./") } else { path.rsplit('/').next().unwrap_or(path) }
}

/// Reads the command of a stage: `argv`, or `shell` with its variables.
pub fn command(stage: &RawStage, binder: &mut Binder<'_>) -> Option<BTreeMap<String, Template>> {
    let node = stage.get("run")?;
    match (node.list(), node.scalar()) {
        (Some([]), _) => {
            binder.diagnostics.push(
                Diagnostic::error("wrong-value", node.span, "`run` is an empty list").help("name a program first"),
            );
            None
        }
        (Some(items), _) => {
            let words: Vec<Option<Template>> = items
                .iter()
                .map(|item| {
                    let bound = binder.bind(item)?;
                    word(&bound, binder.diagnostics)
                })
                .collect();
            let words = words.into_iter().collect::<Option<Vec<_>>>()?;
            Some(BTreeMap::from([("argv".to_string(), simplify_list(words))]))
        }
        (None, Some(scalar)) if !scalar.text.trim().is_empty() => shell(&scalar.text, node.span, binder),
        _ => {
            let d = Diagnostic::error(
                "wrong-type",
                node.span,
                format!("`run` must be a list of words or a shell script, found {}", node.describe()),
            );
            binder.diagnostics.push(d);
            None
        }
    }
}

fn shell(text: &str, span: Span, binder: &mut Binder<'_>) -> Option<BTreeMap<String, Template>> {
    let pieces = binder.pieces(text, span)?;
    let mut script = String::new();
    let mut variables = BTreeMap::new();
    let mut quoting = Quoting::default();
    for piece in pieces {
        match piece {
            TemplatePiece::Literal(literal) => {
                quoting.read(&literal);
                script.push_str(&literal);
            }
            TemplatePiece::Expression(e) => {
                let place = crate::read::expression_span(binder.sources, span, text, &e.range);
                let name = format!("{VARIABLE}{}", variables.len() + 1);
                match quoting.reference(&name) {
                    Ok(reference) => script.push_str(&reference),
                    Err(reason) => {
                        let d = Diagnostic::error(
                            "shell-quoting",
                            place,
                            format!("an expression cannot be used inside {reason}"),
                        );
                        binder.diagnostics.push(d.help(
                            "put it into a variable first, on a separate line: `x=${{ … }}`, and use `\"$x\"` here",
                        ));
                        return None;
                    }
                }
                variables.insert(name, expression_word(&e, place, binder.diagnostics)?);
            }
        }
    }
    let mut config = BTreeMap::from([("shell".to_string(), Template::Literal(Value::String(script)))]);
    if !variables.is_empty() {
        config.insert("env".to_string(), simplify_map(variables));
    }
    Some(config)
}

/// Reads one argument or variable.
pub fn word(bound: &BoundNode, diagnostics: &mut Vec<Diagnostic>) -> Option<Template> {
    match &bound.content {
        BoundContent::Scalar(scalar) => Some(Template::Literal(Value::String(scalar.text.clone()))),
        BoundContent::Value(value) => Some(Template::Literal(Value::String(value_text(value)))),
        BoundContent::Expression(e) => expression_word(e, bound.span, diagnostics),
        BoundContent::Text(pieces) => text_word(pieces, bound.span, diagnostics),
        BoundContent::List(_) | BoundContent::Map(_) => {
            ValueReader { diagnostics }.wrong(bound, "a word of a command", "text");
            None
        }
    }
}

/// Whether a word names local paths, which only the attempt knows.
pub fn names_paths(word: &Template) -> bool {
    match word {
        Template::Literal(value) => value.is_object(),
        Template::Map(_) => true,
        _ => false,
    }
}

fn text_word(pieces: &[TemplatePiece], span: Span, diagnostics: &mut Vec<Diagnostic>) -> Option<Template> {
    let mut words = Vec::new();
    for piece in pieces {
        words.push(match piece {
            TemplatePiece::Literal(text) => Template::Literal(Value::String(text.clone())),
            TemplatePiece::Expression(e) => expression_word(e, span, diagnostics)?,
        });
    }
    if words.iter().any(names_paths) {
        return Some(simplify_map(BTreeMap::from([("$text".to_string(), simplify_list(words))])));
    }
    Some(Template::Text(pieces.to_vec()))
}

fn expression_word(e: &Expression, span: Span, diagnostics: &mut Vec<Diagnostic>) -> Option<Template> {
    match symbol(e) {
        Ok(Some(symbol)) => Some(Template::Literal(symbol)),
        Ok(None) => Some(match e.as_literal() {
            Some(value) => Template::Literal(Value::String(value_text(value))),
            None => Template::Text(vec![TemplatePiece::Expression(e.clone())]),
        }),
        Err(fault) => {
            diagnostics.push(Diagnostic::error("path-expression", span, fault.message).help_if(fault.help));
            None
        }
    }
}

/// Returns the symbolic form of a local path.
fn symbol(e: &Expression) -> Result<Option<Value>, ExpressionError> {
    match &e.kind {
        Term::Reference(ExprReference::Input(port)) => return Ok(Some(json!({ "$input": port }))),
        Term::Reference(ExprReference::Output(port)) => return Ok(Some(json!({ "$output": port }))),
        Term::Index(base, index) => {
            if let (Term::Reference(ExprReference::Input(port)), Some(position)) =
                (&base.kind, index.as_literal().and_then(Value::as_u64))
            {
                return Ok(Some(json!({ "$input": port, "index": position })));
            }
        }
        _ => {}
    }
    let foreign = e.references().into_iter().find(|r| {
        matches!(
            r,
            ExprReference::Input(_)
                | ExprReference::Output(_)
                | ExprReference::Artifact { .. }
                | ExprReference::Param(_)
        )
    });
    match foreign {
        None => Ok(None),
        Some(ExprReference::Artifact { stage, port }) => {
            let fault = ExpressionError::new(&e.range, format!("`stages.{stage}.{port}` is an artifact, not a path"));
            Err(fault.help(format!(
                "pass it by `with: {{{port}: \"${{{{ stages.{stage}.{port} }}}}\"}}` and use `${{{{ inputs.{port} }}}}`"
            )))
        }
        Some(path) => {
            let fault = ExpressionError::new(
                &e.range,
                format!("`{path}` is a path that only the attempt knows; expressions cannot compute with it"),
            );
            Err(fault.help(format!("put text around it: `${{{{ {path} }}}}/data.parquet`")))
        }
    }
}

/// Turns a list of literals into one literal.
fn simplify_list(items: Vec<Template>) -> Template {
    let template = Template::List(items);
    template.as_literal().map_or(template, Template::Literal)
}
fn simplify_map(entries: BTreeMap<String, Template>) -> Template {
    let template = Template::Map(entries);
    template.as_literal().map_or(template, Template::Literal)
}
