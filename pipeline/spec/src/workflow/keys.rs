//! Lists the keys of a workflow file, and reads the maps under them.

use crate::diagnostic::Diagnostic;
use crate::tree::YamlEntry;

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
