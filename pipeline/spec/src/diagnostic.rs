//! Defines diagnostics: a mistake in a file, its position, and how to fix it.
//!
//! Every pass returns a list of diagnostics, so `check` can show all mistakes at once, in file order, as text or JSON.

use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
pub use trainyard_core::suggest::{nearest, suggest};

/// A stretch of a source text. Small and `Copy`, so that every node and key can carry one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Index into [`Sources`].
    pub file: u32,
    /// Byte offset of the first byte.
    pub start: u32,
    /// Byte offset after the last byte.
    pub end: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column from 1, in characters.
    pub column: u32,
}

/// Severity; only an error prevents a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Must be fixed; no plan is made.
    Error,
    /// Probably a mistake; a plan is still made.
    Warning,
    /// Information only.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// Another position that belongs to a diagnostic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RelatedSpan {
    /// Position, possibly in another file.
    pub span: Span,
    /// Relation to the diagnostic.
    pub message: String,
}

/// A mistake, or information, with its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Stable code in kebab-case: `unknown-key`, `cycle`, …
    pub code: &'static str,
    /// Severity, which determines whether the diagnostic prevents a plan.
    pub severity: Severity,
    /// Position of the mistake.
    pub span: Span,
    /// Message in lower case; names the subject.
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
    /// Related positions, in display order.
    pub related: Vec<RelatedSpan>,
}

impl Diagnostic {
    /// Creates an error without related positions.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, span, message: message.into(), help: None, related: Vec::new() }
    }
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }
    pub fn note(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(code, span, message) }
    }
    /// Sets the help, replacing an earlier one.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// Sets the help; `None` keeps an earlier one.
    #[must_use]
    pub fn help_if(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }
    /// Adds a related position.
    #[must_use]
    pub fn related(mut self, span: Span, message: impl Into<String>) -> Self {
        self.related.push(RelatedSpan { span, message: message.into() });
        self
    }
    /// Whether the diagnostic prevents a plan.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Sorts in file order and removes duplicates (each instance of a matrix finds the same mistake).
pub fn sort_and_dedup(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by(|a, b| {
        let key = |d: &Diagnostic| (d.span.file, d.span.start, d.severity, d.code);
        key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
    });
    diagnostics.dedup_by(|a, b| a.span == b.span && a.code == b.code && a.message == b.message);
}

/// One text that diagnostics point into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceText {
    /// Display name: a path, or `-p steps=x`.
    pub name: String,
    /// `None` for a text that is not a file.
    pub path: Option<PathBuf>,
    /// Full text, as read.
    #[serde(skip)]
    pub text: String,
}

/// All texts of one compilation; the first is the requested file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sources(pub Vec<SourceText>);

impl Sources {
    /// Stores a text and returns its index for spans.
    pub fn add(&mut self, name: impl Into<String>, path: Option<&Path>, text: impl Into<String>) -> u32 {
        self.0.push(SourceText { name: name.into(), path: path.map(Path::to_path_buf), text: text.into() });
        (self.0.len() - 1) as u32
    }
    /// Returns the text with this index ([`Span::file`]).
    pub fn get(&self, file: u32) -> Option<&SourceText> {
        self.0.get(file as usize)
    }
    /// Returns the folder of a span's file; relative paths written there are relative to it.
    pub fn folder(&self, span: Span) -> &Path {
        self.get(span.file).and_then(|s| s.path.as_deref()).and_then(Path::parent).unwrap_or(Path::new("/"))
    }
    /// Returns the text of a span; empty if the span is out of range.
    pub fn slice(&self, span: Span) -> &str {
        self.get(span.file).and_then(|s| s.text.get(span.start as usize..span.end as usize)).unwrap_or("")
    }
    /// Formats a position: `file:line:column`.
    pub fn place(&self, span: Span) -> String {
        let name = self.get(span.file).map_or("?", |s| s.name.as_str());
        format!("{name}:{}:{}", span.line, span.column)
    }
    /// Formats a diagnostic in one line: `file:line:column: severity[code]: message; help`.
    pub fn line(&self, d: &Diagnostic) -> String {
        let help = d.help.as_ref().map(|h| format!("; {h}")).unwrap_or_default();
        format!("{}: {}[{}]: {}{help}", self.place(d.span), d.severity, d.code, d.message)
    }
    /// Creates a span of bytes in a file; line and column are computed.
    pub fn span(&self, file: u32, start: usize, end: usize) -> Span {
        let before = self.get(file).and_then(|s| s.text.get(..start)).unwrap_or("");
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        Span {
            file,
            start: start as u32,
            end: end.max(start) as u32,
            line: before.bytes().filter(|b| *b == b'\n').count() as u32 + 1,
            column: before[line_start..].chars().count() as u32 + 1,
        }
    }
    /// Creates a span of bytes within another span, from whose line and column the position is counted: its time does
    /// not grow with the file.
    pub fn span_within(&self, outer: Span, start: usize, end: usize) -> Span {
        let before = self.get(outer.file).and_then(|s| s.text.get(outer.start as usize..start)).unwrap_or("");
        let (line, column) = match before.rfind('\n') {
            Some(at) => (before.matches('\n').count(), before[at..].chars().count()),
            None => (0, outer.column as usize + before.chars().count()),
        };
        let end = end.max(start) as u32;
        Span { file: outer.file, start: start as u32, end, line: outer.line + line as u32, column: column as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let mut sources = Sources::default();
        let file = sources.add("a.yaml", None, "é: 1\nüü: x\n");
        let span = sources.span(file, 12, 13);
        assert_eq!((span.line, span.column), (2, 5));
        assert_eq!(sources.slice(span), "x");
    }

    #[test]
    fn spans_within_others_have_the_same_positions() {
        let mut sources = Sources::default();
        let text = "é: 1\nüü: |\n  one é two\n  three\n";
        let file = sources.add("a.yaml", None, text);
        for outer in [0, 6, 12] {
            let outer = sources.span(file, outer, text.len());
            for start in (outer.start as usize..text.len()).filter(|at| text.is_char_boundary(*at)) {
                assert_eq!(sources.span_within(outer, start, text.len()), sources.span(file, start, text.len()));
            }
        }
    }
}
