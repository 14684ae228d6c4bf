//! Reads typed values from bound nodes. Every method reports a mistake at its position and then returns `None`.

use super::bound::{BoundContent, BoundEntry, BoundNode};
use crate::diagnostic::{Diagnostic, Span, suggest};
use crate::tree::number_help;
use crate::vocabulary::{self, KeyContext};
use serde_json::Value;
use std::time::Duration;
use trainyard_core::units::{parse_duration, parse_size};

/// Reads bound values by type and collects mistakes.
pub struct ValueReader<'a> {
    /// List that mistakes are added to.
    pub diagnostics: &'a mut Vec<Diagnostic>,
}

/// A map whose keys are all valid.
pub struct MapFields<'b> {
    /// Position of the whole map.
    pub span: Span,
    entries: &'b [BoundEntry],
}

impl<'b> MapFields<'b> {
    /// Returns the value of a key, if present.
    pub fn get(&self, key: &str) -> Option<&'b BoundNode> {
        self.entries.iter().find(|e| e.key == key).map(|e| &e.value)
    }
    /// Returns the position of a key, if present.
    pub fn key_span(&self, key: &str) -> Option<Span> {
        self.entries.iter().find(|e| e.key == key).map(|e| e.key_span)
    }
}

impl ValueReader<'_> {
    /// Adds a diagnostic.
    pub fn report(&mut self, d: Diagnostic) {
        self.diagnostics.push(d);
    }
    /// Reports that `subject` must be `expected`.
    pub fn wrong(&mut self, bound: &BoundNode, subject: &str, expected: &str) {
        let late = matches!(bound.content, BoundContent::Expression(_) | BoundContent::Text(_));
        let d = Diagnostic::error(
            "wrong-type",
            bound.span,
            format!("{subject} must be {expected}, found {}", bound.describe()),
        );
        let text = if let BoundContent::Scalar(scalar) = &bound.content { scalar.text.as_str() } else { "" };
        self.report(match late {
            true => d.help("this must be known before the run: use `params` or `matrix`"),
            false => d.help_if(number_help(expected, text)),
        });
    }
    /// Reads an optional key: `Some(None)` if it is absent, `None` after a mistake. Callers read all keys before they
    /// check the results, so that one mistake does not hide another.
    pub fn optional<T>(
        &mut self,
        bound: Option<&BoundNode>,
        read: impl FnOnce(&mut Self, &BoundNode) -> Option<T>,
    ) -> Option<Option<T>> {
        match bound {
            None => Some(None),
            Some(bound) => read(self, bound).map(Some),
        }
    }
    /// Reads a map that allows only these keys.
    pub fn map<'b>(&mut self, bound: &'b BoundNode, subject: &str, allowed: &[&str]) -> Option<MapFields<'b>> {
        self.map_at(KeyContext::Other, bound, subject, allowed)
    }
    /// Reads a map like [`ValueReader::map`], and recognizes keys of other tools at this position.
    pub fn map_at<'b>(
        &mut self,
        place: KeyContext,
        bound: &'b BoundNode,
        subject: &str,
        allowed: &[&str],
    ) -> Option<MapFields<'b>> {
        let BoundContent::Map(entries) = &bound.content else {
            self.wrong(bound, subject, &format!("a map of {}", allowed.join(", ")));
            return None;
        };
        for entry in entries {
            if !allowed.contains(&entry.key.as_str()) {
                let d =
                    Diagnostic::error("unknown-key", entry.key_span, format!("{subject} has no key `{}`", entry.key));
                self.report(d.help_if(vocabulary::key(place, &entry.key, allowed)));
            }
        }
        Some(MapFields { span: bound.span, entries })
    }
    /// Reads a list written out in the file.
    pub fn list<'b>(&mut self, bound: &'b BoundNode, subject: &str) -> Option<&'b [BoundNode]> {
        match &bound.content {
            BoundContent::List(items) => Some(items),
            _ => {
                self.wrong(bound, subject, "a list");
                None
            }
        }
    }
    /// Reads text, quoted or not, even if it looks like another type.
    pub fn string(&mut self, bound: &BoundNode, subject: &str) -> Option<String> {
        match &bound.content {
            BoundContent::Scalar(s) if !bound.is_null() => Some(s.text.clone()),
            BoundContent::Value(Value::String(text)) => Some(text.clone()),
            _ => {
                self.wrong(bound, subject, "text");
                None
            }
        }
    }
    /// Reads one of these words.
    pub fn word<'w>(&mut self, bound: &BoundNode, subject: &str, words: &[&'w str]) -> Option<&'w str> {
        let text = self.string(bound, subject)?;
        let found = words.iter().find(|w| **w == text).copied();
        if found.is_none() {
            let d = Diagnostic::error("wrong-value", bound.span, format!("{subject} cannot be `{text}`"));
            self.report(d.help_if(suggest(&text, words.iter().copied())));
        }
        found
    }
    /// Reads a list of texts, written out or computed.
    pub fn strings(&mut self, bound: &BoundNode, subject: &str) -> Option<Vec<String>> {
        if let Some(Value::Array(items)) = bound.value()
            && matches!(bound.content, BoundContent::Value(_))
        {
            let texts: Option<Vec<String>> = items.iter().map(|i| i.as_str().map(str::to_string)).collect();
            if texts.is_none() {
                self.wrong(bound, subject, "a list of texts");
            }
            return texts;
        }
        let items = self.list(bound, subject)?;
        let texts: Vec<Option<String>> =
            items.iter().map(|i| self.string(i, &format!("an item of {subject}"))).collect();
        texts.into_iter().collect()
    }
    pub fn bool(&mut self, bound: &BoundNode, subject: &str) -> Option<bool> {
        match bound.value() {
            Some(Value::Bool(b)) => Some(b),
            _ => {
                self.wrong(bound, subject, "true or false");
                None
            }
        }
    }
    /// Reads any number.
    pub fn float(&mut self, bound: &BoundNode, subject: &str) -> Option<f64> {
        match bound.value().as_ref().and_then(Value::as_f64) {
            Some(f) => Some(f),
            None => {
                self.wrong(bound, subject, "a number");
                None
            }
        }
    }
    /// Reads a whole number within the bounds, both inclusive; `2.0` and `1e3` are whole.
    pub fn integer(&mut self, bound: &BoundNode, subject: &str, min: i64, max: i64) -> Option<i64> {
        let value = bound.value();
        let integer = value.as_ref().and_then(|v| {
            v.as_i64().or_else(|| v.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9e15).map(|f| f as i64))
        });
        match integer {
            Some(i) if (min..=max).contains(&i) => Some(i),
            Some(i) => {
                let range = if max == i64::MAX || max == i64::from(u32::MAX) {
                    format!("at least {min}")
                } else {
                    format!("from {min} to {max}")
                };
                self.report(Diagnostic::error(
                    "out-of-range",
                    bound.span,
                    format!("{subject} is {i}, but must be {range}"),
                ));
                None
            }
            None => {
                self.wrong(bound, subject, "a whole number");
                None
            }
        }
    }
    /// Reads a whole number of at least `min`.
    pub fn count(&mut self, bound: &BoundNode, subject: &str, min: u32) -> Option<u32> {
        self.integer(bound, subject, i64::from(min), i64::from(u32::MAX)).and_then(|i| u32::try_from(i).ok())
    }
    /// Reads text such as `90s`.
    pub fn duration(&mut self, bound: &BoundNode, subject: &str) -> Option<Duration> {
        let text = self.string(bound, subject)?;
        self.parsed(bound, subject, parse_duration(&text))
    }
    /// Reads a size in bytes: `40GiB`, or a number.
    pub fn size(&mut self, bound: &BoundNode, subject: &str) -> Option<u64> {
        let text = match bound.value() {
            Some(Value::Number(n)) => n.to_string(),
            _ => self.string(bound, subject)?,
        };
        self.parsed(bound, subject, parse_size(&text))
    }
    /// Returns a parser's result; reports its error at the value's position.
    pub fn parsed<T>(&mut self, bound: &BoundNode, subject: &str, result: Result<T, String>) -> Option<T> {
        result
            .map_err(|message| {
                self.report(Diagnostic::error("wrong-value", bound.span, format!("{subject}: {message}")))
            })
            .ok()
    }
}
