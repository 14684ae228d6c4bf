//! Binds a tree: parses its expressions, resolves their names and computes all known parts.

use crate::diagnostic::{Diagnostic, Sources, Span};
use crate::expression::{ExprReference, Expression, ExpressionError, Term, parse_embedded, value_text};
use crate::template::TemplatePiece;
use crate::tree::{YamlContent, YamlNode, YamlScalar, core_value, shorten};
use serde_json::{Map, Value};
use std::ops::Range;

/// A node of the tree with its expressions resolved and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundNode {
    /// Position in its file.
    pub span: Span,
    pub content: BoundContent,
}

/// The content of a bound node.
#[derive(Debug, Clone, PartialEq)]
pub enum BoundContent {
    /// A value without expressions, read later by its declared type.
    Scalar(YamlScalar),
    /// The value of a known expression.
    Value(Value),
    /// A late expression, or a reference to an artifact or a local path.
    Expression(Expression),
    /// Text with late expressions.
    Text(Vec<TemplatePiece>),
    /// Items in file order.
    List(Vec<BoundNode>),
    /// Entries in file order; keys are unique.
    Map(Vec<BoundEntry>),
}

/// A key of a map with its bound value.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundEntry {
    /// Key as written; keys hold no expressions.
    pub key: String,
    pub key_span: Span,
    pub value: BoundNode,
}

/// Reason why a reference cannot be resolved here.
#[derive(Debug, Clone)]
pub struct ResolveError {
    /// Code of the diagnostic.
    pub code: &'static str,
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
}

impl ResolveError {
    /// Creates an error without help.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }
    /// Sets or removes the help.
    #[must_use]
    pub fn help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

/// Resolves references at a position of the file.
pub trait ReferenceResolver {
    /// Returns a value, a resolved late reference, or `None` to keep the reference.
    fn resolve(&self, reference: &ExprReference) -> Result<Option<Term>, ResolveError>;
    /// Whether a stage key refers to the rows of a late list.
    fn is_late_list(&self, _stage: &str) -> bool {
        false
    }
}

/// A position that allows no references.
pub struct NoReferences(pub &'static str);

impl ReferenceResolver for NoReferences {
    fn resolve(&self, reference: &ExprReference) -> Result<Option<Term>, ResolveError> {
        Err(ResolveError::new("no-expression", format!("`{reference}` cannot be used here"))
            .help(Some(self.0.to_string())))
    }
}

/// Turns nodes into bound trees and collects mistakes.
pub struct Binder<'a> {
    /// Texts that the nodes' spans point into.
    pub sources: &'a Sources,
    /// Names in scope at this position.
    pub names: &'a dyn ReferenceResolver,
    /// Whether expressions are allowed inside longer text (`run`, `env`, `description`).
    pub text: bool,
    /// List that mistakes are added to.
    pub diagnostics: &'a mut Vec<Diagnostic>,
}

impl Binder<'_> {
    /// Binds a node; `None` if the node contains an invalid expression (reported).
    pub fn bind(&mut self, node: &YamlNode) -> Option<BoundNode> {
        let content = match &node.content {
            YamlContent::Scalar(scalar) => self.scalar(scalar, node.span)?,
            YamlContent::List(items) => {
                let bound: Vec<Option<BoundNode>> = items.iter().map(|n| self.bind(n)).collect();
                BoundContent::List(bound.into_iter().collect::<Option<_>>()?)
            }
            YamlContent::Map(entries) => {
                let bound: Vec<Option<BoundEntry>> = entries
                    .iter()
                    .map(|e| Some(BoundEntry { key: e.key.clone(), key_span: e.key_span, value: self.bind(&e.value)? }))
                    .collect();
                BoundContent::Map(bound.into_iter().collect::<Option<_>>()?)
            }
        };
        Some(BoundNode { span: node.span, content })
    }

    fn scalar(&mut self, scalar: &YamlScalar, span: Span) -> Option<BoundContent> {
        if !scalar.text.contains("${{") {
            if let Some(inner) = foreign_expression(&scalar.text).filter(|_| !self.text) {
                let d = Diagnostic::warning("no-expression", span, format!("`{}` is plain text here", scalar.text));
                self.diagnostics.push(d.help(format!("an expression is written `${{{{ {inner} }}}}`")));
            }
            return Some(BoundContent::Scalar(scalar.clone()));
        }
        let pieces = self.pieces(&scalar.text, span)?;
        if let [TemplatePiece::Expression(e)] = pieces.as_slice() {
            return Some(match e.as_literal() {
                Some(value) => BoundContent::Value(value.clone()),
                None => BoundContent::Expression(e.clone()),
            });
        }
        if pieces.iter().all(|p| matches!(p, TemplatePiece::Literal(_))) {
            // The only special text is the escape `$${{`.
            let text = pieces.iter().map(|p| if let TemplatePiece::Literal(t) = p { t.as_str() } else { "" }).collect();
            return Some(BoundContent::Scalar(YamlScalar { text, plain: false }));
        }
        if !self.text {
            let first = pieces
                .iter()
                .find_map(|p| if let TemplatePiece::Expression(e) = p { Some(e.range.clone()) } else { None });
            let place = expression_span(self.sources, span, &scalar.text, &first.unwrap_or(0..0));
            let d = Diagnostic::error("expression-in-text", place, "an expression must be the whole value here");
            self.diagnostics.push(d.help("join texts inside one expression: `${{ \"a-\" + params.b }}`"));
            return None;
        }
        if pieces.iter().all(|p| {
            matches!(p, TemplatePiece::Literal(_))
                || matches!(p, TemplatePiece::Expression(e) if e.as_literal().is_some())
        }) {
            let text: String = pieces.iter().map(known_text).collect();
            return Some(BoundContent::Value(Value::String(text)));
        }
        Some(BoundContent::Text(pieces))
    }

    /// Splits text at its expressions and resolves each.
    pub fn pieces(&mut self, text: &str, span: Span) -> Option<Vec<TemplatePiece>> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        let mut good = true;
        while let Some(found) = text[at..].find("${{").map(|i| at + i) {
            literal.push_str(&text[at..found]);
            if literal.ends_with('$') {
                literal.push_str("{{");
                at = found + 3;
                continue;
            }
            let (parsed, end) = parse_embedded(text, found + 3);
            match parsed.map_err(|f| ("expression", f)).and_then(|e| self.resolve(&e)) {
                Ok(e) => {
                    if !literal.is_empty() {
                        pieces.push(TemplatePiece::Literal(std::mem::take(&mut literal)));
                    }
                    pieces.push(TemplatePiece::Expression(e));
                }
                Err((code, fault)) => {
                    good = false;
                    // An error without a code has its cause reported elsewhere.
                    if code.is_empty() {
                        at = end.min(text.len());
                        continue;
                    }
                    let place = expression_span(self.sources, span, text, &fault.range);
                    self.diagnostics.push(Diagnostic::error(code, place, fault.message).help_if(fault.help));
                }
            }
            at = end.min(text.len());
        }
        literal.push_str(&text[at..]);
        if !literal.is_empty() || pieces.is_empty() {
            pieces.push(TemplatePiece::Literal(literal));
        }
        good.then_some(pieces)
    }

    fn resolve(&self, e: &Expression) -> Result<Expression, (&'static str, ExpressionError)> {
        let mut code = "expression-type";
        let result = e.rewrite(&mut |reference, range| {
            self.names.resolve(reference).map_err(|t| {
                code = t.code;
                ExpressionError { help: t.help, ..ExpressionError::new(range, t.message) }
            })
        });
        let resolved = result.map_err(|f| (code, f))?;
        // Metrics of a late fan-out are lists, which the type pass cannot see; the engine checks them.
        let of_rows = |r: &&ExprReference| match r {
            ExprReference::Metric { stage, .. } | ExprReference::Status { stage } => self.names.is_late_list(stage),
            _ => false,
        };
        if !resolved.references().iter().any(of_rows) {
            resolved.check_types().map_err(|f| ("expression-type", f))?;
        }
        Ok(resolved)
    }
}

/// Translates `${x}`, `$(x)` or `{{ x }}`: expressions of shells, Argo and Jinja. A bare name becomes `params.name`.
fn foreign_expression(text: &str) -> Option<String> {
    let inside = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    let inner = inside("{{", "}}").or_else(|| inside("${", "}")).or_else(|| inside("$(", ")"))?.trim();
    let named = inner.split('.').all(crate::expression::is_name) && !inner.is_empty();
    named.then(|| if inner.contains('.') { inner.to_string() } else { format!("params.{inner}") })
}

fn known_text(piece: &TemplatePiece) -> String {
    match piece {
        TemplatePiece::Literal(text) => text.clone(),
        TemplatePiece::Expression(e) => e.as_literal().map(value_text).unwrap_or_default(),
    }
}

/// Whether any scalar of the node contains `${{`.
pub fn has_expression(node: &YamlNode) -> bool {
    match &node.content {
        YamlContent::Scalar(s) => s.text.contains("${{"),
        YamlContent::List(items) => items.iter().any(has_expression),
        YamlContent::Map(entries) => entries.iter().any(|e| has_expression(&e.value)),
    }
}

/// Returns the position of a part of a scalar's text: exact for plain and simply quoted text, and if the part's text
/// can be found again; otherwise the whole scalar.
pub fn expression_span(sources: &Sources, scalar: Span, text: &str, part: &Range<usize>) -> Span {
    let raw = sources.slice(scalar);
    let shift = raw.find(text).or_else(|| raw.find(text.trim_end()));
    let start = match shift {
        Some(shift) => Some(shift + part.start),
        None => text.get(part.clone()).filter(|t| !t.is_empty()).and_then(|t| raw.find(t)),
    };
    match start.map(|s| scalar.start as usize + s) {
        Some(start) => {
            let end = start + part.len();
            let inside = end <= scalar.end as usize
                && sources
                    .get(scalar.file)
                    .is_some_and(|f| f.text.is_char_boundary(start) && f.text.is_char_boundary(end));
            if inside { sources.span_within(scalar, start, end) } else { scalar }
        }
        None => scalar,
    }
}

impl BoundNode {
    /// Returns the value by the core schema, if all of it is known.
    pub fn value(&self) -> Option<Value> {
        match &self.content {
            BoundContent::Scalar(scalar) => Some(core_value(scalar)),
            BoundContent::Value(value) => Some(value.clone()),
            BoundContent::Expression(_) | BoundContent::Text(_) => None,
            BoundContent::List(items) => items.iter().map(Self::value).collect::<Option<_>>().map(Value::Array),
            BoundContent::Map(entries) => {
                let known = entries.iter().map(|e| Some((e.key.clone(), e.value.value()?)));
                known.collect::<Option<Map<_, _>>>().map(Value::Object)
            }
        }
    }
    /// Returns all remaining expressions.
    pub fn expressions(&self) -> Vec<&Expression> {
        match &self.content {
            BoundContent::Scalar(_) | BoundContent::Value(_) => Vec::new(),
            BoundContent::Expression(e) => vec![e],
            BoundContent::Text(pieces) => pieces
                .iter()
                .filter_map(|p| if let TemplatePiece::Expression(e) = p { Some(e) } else { None })
                .collect(),
            BoundContent::List(items) => items.iter().flat_map(Self::expressions).collect(),
            BoundContent::Map(entries) => entries.iter().flat_map(|e| e.value.expressions()).collect(),
        }
    }
    /// Whether the node is plain `null`, `~` or empty, or an expression with that value.
    pub fn is_null(&self) -> bool {
        match &self.content {
            BoundContent::Scalar(scalar) => core_value(scalar).is_null(),
            BoundContent::Value(value) => value.is_null(),
            _ => false,
        }
    }
    /// Describes the node for messages.
    pub fn describe(&self) -> String {
        match &self.content {
            _ if self.is_null() => "nothing".into(),
            BoundContent::Scalar(s) => format!("`{}`", shorten(&s.text)),
            BoundContent::Value(value) => format!("`{}`", shorten(&value.to_string())),
            BoundContent::Expression(e) => format!("`{e}`, which is not known yet"),
            BoundContent::Text(_) => "text that is not known yet".into(),
            BoundContent::List(_) => "a list".into(),
            BoundContent::Map(_) => "a map".into(),
        }
    }
}

/// Returns the position of an RFC 6901 pointer: the value's span, or that of the nearest enclosing node in the file.
/// Also returns the key's span of the last part.
pub fn locate(root: &BoundNode, pointer: &str) -> (Span, Option<Span>) {
    let mut at = root;
    let mut key = None;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let next = match &at.content {
            BoundContent::Map(entries) => entries.iter().find(|e| e.key == part).map(|e| (&e.value, Some(e.key_span))),
            BoundContent::List(items) => part.parse::<usize>().ok().and_then(|i| items.get(i)).map(|n| (n, None)),
            _ => None,
        };
        match next {
            Some((node, key_span)) => {
                at = node;
                key = key_span;
            }
            None => break,
        }
    }
    (at.span, key)
}
