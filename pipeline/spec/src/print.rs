//! Prints a tree as YAML that parses back to the same tree. Comments above keys and items are found through the spans
//! of their nodes.
//!
//! Small lists and maps are written in one line; long prose is folded.

use crate::diagnostic::{Sources, Span};
use crate::tree::{YamlContent, YamlEntry, YamlNode, YamlScalar, core_value};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Maximum number of columns of a line.
const WIDTH: usize = 110;
const INDENT: usize = 2;

/// Prints a tree whose spans point into `sources`.
pub fn yaml(tree: &YamlNode, sources: &Sources) -> String {
    let mut printer = Printer { sources, printed: HashSet::new(), out: String::new() };
    match &tree.content {
        YamlContent::Map(entries) if !entries.is_empty() => printer.map(entries, 0, true),
        _ => {
            printer.value(tree, 0, false);
            printer.out.push('\n');
        }
    }
    printer.out
}

/// Prints a JSON value in one line of YAML: `kind` comes first, null entries of maps are left out.
pub fn inline_value(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(inline_value).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let (kind, rest): (Vec<_>, Vec<_>) =
                map.iter().filter(|(_, v)| !v.is_null()).partition(|(k, _)| *k == "kind");
            let entry = |(k, v): (&String, &Value)| format!("{}: {}", key_text(k, true), inline_value(v));
            format!("{{{}}}", kind.into_iter().chain(rest).map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) if is_plain(text, true) && core_value(&plain(text)).is_string() => text.clone(),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

fn plain(text: &str) -> YamlScalar {
    YamlScalar { text: text.to_string(), plain: true }
}

struct Printer<'a> {
    sources: &'a Sources,
    /// Comments already printed, by file and start.
    printed: HashSet<(u32, usize)>,
    out: String,
}

impl Printer<'_> {
    /// Prints the entries of a map, each on separate lines; `spread` keeps the maps under them in block style.
    fn map(&mut self, entries: &[YamlEntry], indent: usize, spread: bool) {
        for entry in entries {
            self.comments(entry.key_span, indent);
            let _ = write!(self.out, "{:indent$}{}:", "", key_text(&entry.key, false));
            self.value(&entry.value, indent, spread);
        }
    }

    fn list(&mut self, items: &[YamlNode], indent: usize) {
        for item in items {
            self.comments(item.span, indent);
            let start = self.out.len();
            match &item.content {
                YamlContent::Map(entries) if !entries.is_empty() && !self.fits(item, indent + INDENT) => {
                    self.map(entries, indent + INDENT, false);
                    self.out.replace_range(start + indent..start + indent + 1, "-");
                }
                _ => {
                    let _ = write!(self.out, "{:indent$}-", "");
                    self.value(item, indent, false);
                }
            }
        }
    }

    /// Prints the value after `key:` or `-`, including the end of the line.
    fn value(&mut self, node: &YamlNode, indent: usize, spread: bool) {
        let column = self.out.len() - self.out.rfind('\n').map_or(0, |i| i + 1);
        match &node.content {
            YamlContent::Scalar(scalar) => self.scalar(scalar, indent + INDENT, column),
            YamlContent::Map(entries) if !entries.is_empty() && (spread || !self.fits(node, column + 1)) => {
                self.out.push('\n');
                self.map(entries, indent + INDENT, false);
            }
            YamlContent::List(items) if !items.is_empty() && !self.fits(node, column + 1) => {
                self.out.push('\n');
                self.list(items, indent + INDENT);
            }
            _ => {
                let _ = writeln!(self.out, " {}", inline(node));
            }
        }
    }

    fn scalar(&mut self, scalar: &YamlScalar, indent: usize, column: usize) {
        let text = &scalar.text;
        if let Some(block) = literal(scalar, indent) {
            self.out.push_str(&block);
        } else if column + text.len() > WIDTH && is_prose(scalar) {
            self.out.push_str(" >-\n");
            for line in wrap(text, WIDTH.saturating_sub(indent)) {
                let _ = writeln!(self.out, "{:indent$}{line}", "");
            }
        } else {
            let text = word(scalar, false);
            let _ = writeln!(self.out, "{}{text}", if text.is_empty() { "" } else { " " });
        }
    }

    /// Whether a list or map fits in one line from `column` on.
    fn fits(&self, node: &YamlNode, column: usize) -> bool {
        !self.is_commented(node) && !has_lines(node) && column + inline(node).chars().count() <= WIDTH
    }

    fn is_commented(&self, node: &YamlNode) -> bool {
        let above = |span: Span| !self.above(span).is_empty();
        match &node.content {
            YamlContent::Scalar(_) => false,
            YamlContent::List(items) => items.iter().any(|n| above(n.span) || self.is_commented(n)),
            YamlContent::Map(entries) => entries.iter().any(|e| above(e.key_span) || self.is_commented(&e.value)),
        }
    }

    fn comments(&mut self, span: Span, indent: usize) {
        for (line, text) in self.above(span) {
            if self.printed.insert((span.file, line)) {
                let _ = writeln!(self.out, "{:indent$}{text}", "");
            }
        }
    }

    /// Returns the comment lines directly above a node that begins its line at `span`, with their start bytes. The line
    /// that names a schema for editors is excluded.
    fn above(&self, span: Span) -> Vec<(usize, String)> {
        let text = self.sources.get(span.file).map_or("", |s| s.text.as_str());
        let start_of = |end: usize| text[..end].rfind('\n').map_or(0, |i| i + 1);
        let mut start = start_of(span.start as usize);
        if !text[start..span.start as usize].chars().all(|c| matches!(c, ' ' | '-')) {
            return Vec::new();
        }
        let mut found = Vec::new();
        while start > 0 {
            let end = start - 1;
            start = start_of(end);
            let line = text[start..end].trim();
            if !line.starts_with('#') {
                break;
            }
            if !line.contains("yaml-language-server") {
                found.push((start, line.to_string()));
            }
        }
        found.reverse();
        found
    }
}

fn has_lines(node: &YamlNode) -> bool {
    match &node.content {
        YamlContent::Scalar(s) => s.text.contains('\n'),
        YamlContent::List(items) => items.iter().any(has_lines),
        YamlContent::Map(entries) => entries.iter().any(|e| has_lines(&e.value)),
    }
}

fn inline(node: &YamlNode) -> String {
    match &node.content {
        YamlContent::Scalar(scalar) => word(scalar, true),
        YamlContent::List(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        YamlContent::Map(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|e| format!("{}: {}", key_text(&e.key, true), inline(&e.value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn key_text(key: &str, flow: bool) -> String {
    let safe = is_plain(key, flow) && !key.contains(':') && key != "<<";
    if safe { key.to_string() } else { quoted(key) }
}

/// Prints a scalar in one line.
fn word(scalar: &YamlScalar, flow: bool) -> String {
    let text = &scalar.text;
    if scalar.plain && text.is_empty() {
        return if flow { "null".into() } else { String::new() };
    }
    // Text that contains a space and is a string to YAML needs no quotes; other text keeps its quotes.
    let looks_like_text = text.contains(' ') && core_value(&plain(text)).is_string();
    if (scalar.plain || looks_like_text) && is_plain(text, flow) { text.clone() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// Whether text is valid without quotes.
fn is_plain(text: &str, flow: bool) -> bool {
    let mut chars = text.chars();
    let first = chars.next();
    let second = chars.next();
    let starts_well = match first {
        Some('-' | '?' | ':') => second.is_some_and(|c| !c.is_whitespace()) && !text.starts_with("---") && !flow,
        Some(c) => !c.is_whitespace() && !"#&*!|>'\"%@`,[]{}".contains(c) && !text.starts_with("..."),
        None => false,
    };
    let negative = first == Some('-') && second.is_some_and(|c| c.is_ascii_digit() || c == '.');
    (starts_well || (negative && flow))
        && !text.ends_with(|c: char| c.is_whitespace() || c == ':')
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.chars().any(|c| c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{85}'))
        && !(flow && text.contains([',', '[', ']', '{', '}']))
}

/// Prints text of several lines as a literal block; `None` if the block would not parse back to the same text.
fn literal(scalar: &YamlScalar, indent: usize) -> Option<String> {
    let text = &scalar.text;
    let odd = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{85}');
    if !text.contains('\n') || text.starts_with([' ', '\n']) || text.contains(odd) || text.trim().is_empty() {
        return None;
    }
    let body = text.strip_suffix('\n').unwrap_or(text);
    if body.ends_with('\n') || body.lines().any(|l| l.ends_with(' ')) {
        return None;
    }
    let mut out = String::from(if text.ends_with('\n') { " |\n" } else { " |-\n" });
    for line in body.split('\n') {
        let _ = writeln!(out, "{:width$}{line}", "", width = if line.is_empty() { 0 } else { indent });
    }
    Some(out)
}

/// Whether folding keeps every character: words with one space between them, and no expression.
fn is_prose(scalar: &YamlScalar) -> bool {
    let text = &scalar.text;
    core_value(scalar).is_string()
        && text.split(' ').all(|w| !w.is_empty() && !w.contains(char::is_control) && !w.contains('\u{feff}'))
        && !text.contains("${{")
        && !text.contains(['\u{2028}', '\u{2029}', '\u{85}', '\n'])
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_string());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}
