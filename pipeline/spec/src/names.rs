//! Checks the keys and names of all parts of a workflow file.

use crate::diagnostic::{Diagnostic, Span};
use crate::expression::is_name;
use crate::tree::YamlEntry;
use crate::vocabulary::{self, KeyContext};

/// Reports a name that is not valid after a dot in an expression.
pub fn check_id(id: &str, span: Span, subject: &str, diagnostics: &mut Vec<Diagnostic>) {
    if !is_name(id) || id.len() > 64 {
        let fixed: String =
            id.chars().take(64).map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        let fixed = if fixed.starts_with(|c: char| c.is_ascii_digit()) { format!("_{fixed}") } else { fixed };
        let d = Diagnostic::error("wrong-name", span, format!("`{id}` is not a valid {subject} name"));
        diagnostics.push(d.help(format!("use letters, digits and `_`, as in `{fixed}`")));
    }
}

/// Reports every key that is not allowed, with its replacement.
pub fn unknown_keys(
    entries: &[YamlEntry],
    allowed: &[&str],
    subject: &str,
    place: KeyContext,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for entry in entries.iter().filter(|e| !allowed.contains(&e.key.as_str())) {
        let mut help = vocabulary::key(place, &entry.key, allowed);
        if place == KeyContext::Stage && help.as_ref().is_some_and(|h| h.starts_with("valid here")) {
            help = Some("options of a stage kind belong under `with`".to_string());
        }
        let d = Diagnostic::error("unknown-key", entry.key_span, format!("{subject} has no key `{}`", entry.key));
        diagnostics.push(d.help_if(help));
    }
}
