//! The keys of a workflow file: valid keys, names that the file chooses, and diagnostics for any other.

use crate::diagnostic::{Diagnostic, Span};
use crate::expression::is_name;
use crate::tree::YamlEntry;
use crate::vocabulary::{self, KeyContext};

/// Keys of a workflow file.
pub const FILE_KEYS: [&str; 11] = [
    "extends",
    "version",
    "name",
    "description",
    "recipe",
    "params",
    "defaults",
    "schedule",
    "stages",
    "outputs",
    "evaluation_sets",
];
/// Keys of a stage with any body; whether a body uses a key is checked where it is read.
pub const STAGE_KEYS: [&str; 18] = [
    "uses",
    "run",
    "with",
    "needs",
    "beside",
    "matrix",
    "for_each",
    "when",
    "resources",
    "retry",
    "timeout",
    "checks",
    "cache",
    "env",
    "secrets",
    "files",
    "outputs",
    "description",
];
/// Keys that `defaults` may set for every stage; `env` and `secrets` apply to stages with `run`.
pub const DEFAULT_KEYS: [&str; 6] = ["cache", "env", "resources", "retry", "secrets", "timeout"];
/// Keys of an embedding stage.
pub const EMBED_KEYS: [&str; 7] = ["uses", "with", "needs", "matrix", "for_each", "when", "description"];
/// Keys for commands only; a kind receives everything through its options and inputs.
pub(super) const ONLY_RUN: [&str; 5] = ["beside", "env", "files", "outputs", "secrets"];

/// Reports a name that is not valid after a dot in an expression.
pub fn check_id(id: &str, span: Span, what: &str, diagnostics: &mut Vec<Diagnostic>) {
    if !is_name(id) || id.len() > 64 {
        let fixed: String =
            id.chars().take(64).map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        let fixed = if fixed.starts_with(|c: char| c.is_ascii_digit()) { format!("_{fixed}") } else { fixed };
        let d = Diagnostic::error("wrong-name", span, format!("`{id}` is not a valid {what} name"));
        diagnostics.push(d.help(format!("use letters, digits and `_`, as in `{fixed}`")));
    }
}

/// Reports every key that is not allowed, with its replacement.
pub fn unknown_keys(
    entries: &[YamlEntry],
    allowed: &[&str],
    what: &str,
    place: KeyContext,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for entry in entries.iter().filter(|e| !allowed.contains(&e.key.as_str())) {
        let mut help = vocabulary::key(place, &entry.key, allowed);
        if place == KeyContext::Stage && help.as_ref().is_some_and(|h| h.starts_with("valid here")) {
            help = Some("options of a stage kind stand under `with`".to_string());
        }
        let d = Diagnostic::error("unknown-key", entry.key_span, format!("{what} has no key `{}`", entry.key));
        diagnostics.push(d.help_if(help));
    }
}

/// Returns the entries of the map under a key; empty if the key is absent or holds another value (reported).
pub(super) fn map_of<'t>(entry: Option<&'t YamlEntry>, diagnostics: &mut Vec<Diagnostic>) -> &'t [YamlEntry] {
    match entry {
        None => &[],
        Some(e) => e.value.map().unwrap_or_else(|| {
            let d = Diagnostic::error(
                "wrong-type",
                e.value.span,
                format!("`{}` must be a map, found {}", e.key, e.value.describe()),
            );
            diagnostics.push(d);
            &[]
        }),
    }
}
