//! Warns of scripts that a command names and `files` does not list.
//!
//! Commands run in an empty folder. Only the entries of `files` are linked into the folder and enter the stage digest.
//! Without this check a forgotten entry appears as "can't open file" in the log of a run.

use super::checker::Checker;
use crate::diagnostic::{Diagnostic, Span};
use crate::files::absolute;
use crate::options::command::SCRIPTS;
use crate::tree::YamlNode;
use serde_json::{Map, Value};

impl Checker<'_> {
    /// Warns if a command contains a file name of the workflow's folder that has no entry in `files`.
    pub(super) fn scripts(&mut self, draft: usize, files: &Map<String, Value>) {
        let expanded = self.expanded;
        let raw = expanded.raw(draft);
        let Some(run) = raw.get("run") else { return };
        for (word, span, is_argument) in words(run) {
            let folder = expanded.sources.folder(span);
            let name = word.trim_start_matches("./");
            let listed =
                files.keys().any(|f| name == f || name.strip_prefix(f.as_str()).is_some_and(|r| r.starts_with('/')));
            // A shell script may write the files that it calls; an argument is recognized by its file extension.
            let is_script = is_argument && SCRIPTS.iter().any(|ending| name.to_lowercase().ends_with(ending));
            let exists = name.contains('.') && expanded.files.exists(&absolute(folder, name));
            if is_path(name) && !listed && (exists || is_script) {
                let d = Diagnostic::warning("unlisted-file", span, format!("`{name}` is not in `files`"));
                self.report(d.help(format!("add `files: [{name}]`; a command sees no other file of this folder")));
            }
        }
    }
}

/// Whether a word is a relative path below the folder, without characters that a shell or an expression would replace.
fn is_path(word: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    !word.starts_with(['/', '-', '.']) && word.chars().all(plain) && !word.split('/').any(|part| part == "..")
}

/// Returns the words of a command with their positions, and whether each is a separate argument.
fn words(run: &YamlNode) -> Vec<(String, Span, bool)> {
    if let Some(items) = run.list() {
        return items.iter().filter_map(|n| n.scalar().map(|s| (s.text.clone(), n.span, true))).collect();
    }
    let text = run.scalar().map_or("", |s| s.text.as_str());
    let split = text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '&' | '|' | '(' | ')'));
    split.filter(|w| !w.is_empty()).map(|w| (w.to_string(), run.span, false)).collect()
}
