//! Sorts one file's tree into the parts of a raw workflow, before any expression is read.
//!
//! [`FILE_KEYS`] lists the keys of the top level and [`STAGE_KEYS`] those of a stage. Keys that a stage's body would
//! ignore (`env` with `uses`) are errors here, so later passes never see them.

mod keys;
mod run_ports;
mod stage;

pub use crate::names::{check_id, unknown_keys};
pub use keys::{DEFAULT_KEYS, EMBED_KEYS, FILE_KEYS, STAGE_KEYS};
pub use run_ports::{RunPorts, ports};
pub use stage::{RawStage, StageBody, is_file};

use crate::diagnostic::{Diagnostic, Span};
use crate::recipe::{self, RecipeHeader};
use crate::tree::{YamlContent, YamlEntry, YamlNode};
use crate::vocabulary::KeyContext;
use keys::map_of;
use stage::{read_stages, report_unused_defaults};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A whole file, sorted into its parts. Values are still nodes; expressions are read later.
#[derive(Debug)]
pub struct Workflow {
    /// Absolute path.
    pub path: PathBuf,
    /// Value of the key `name`.
    pub name: String,
    /// Position of the first key that the file itself writes; for diagnostics without a better position.
    pub span: Span,
    /// Published system that the workflow reproduces, if it is a recipe. Incomplete after a mistake (reported).
    pub recipe: Option<RecipeHeader>,
    /// Declarations, in file order.
    pub params: Vec<YamlEntry>,
    /// The key `schedule`, not yet read.
    pub schedule: Option<YamlEntry>,
    /// In file order.
    pub stages: Vec<RawStage>,
    /// Exports of the file, by name.
    pub outputs: Vec<YamlEntry>,
    /// Data that some stages must never see, by name.
    pub evaluation_sets: Vec<YamlEntry>,
    /// Ids of stages missing from `stages` because they could not be read (reported).
    pub unreadable: Vec<String>,
    index: HashMap<String, usize>,
}

impl Workflow {
    /// Returns the index into [`Self::stages`] of the stage with this id.
    pub fn stage(&self, id: &str) -> Option<usize> {
        self.index.get(id).copied()
    }
    /// Returns the ids of all readable stages, in file order.
    pub fn stage_ids(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().map(|s| s.id.as_str())
    }
}

/// Sorts a tree into a workflow. Reports invalid parts and keeps the rest; `None` if the tree is not a workflow.
pub fn read(mut tree: YamlNode, path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<Workflow> {
    let entries = file_keys(&tree, diagnostics)?;
    let own = entries.iter().find(|e| e.key_span.file == tree.span.file);
    let top = own.map_or(tree.span, |e| e.key_span);
    // Moved rather than copied: there may be 100,000.
    let stages = take(&mut tree, "stages");
    let entries = tree.map()?;
    unknown_keys(entries, &FILE_KEYS, "a workflow file", KeyContext::File, diagnostics);
    let find = |key: &str| entries.iter().find(|e| e.key == key);
    let name = read_name(find("name"), top, diagnostics);
    read_version(find("version"), top, diagnostics);
    let defaults = map_of(find("defaults"), diagnostics);
    unknown_keys(defaults, &DEFAULT_KEYS, "`defaults`", KeyContext::Stage, diagnostics);
    let (stages, unreadable) = read_stages(stages, top, defaults, diagnostics);
    if let Some(description) = find("description").filter(|e| e.value.scalar().is_none()) {
        diagnostics.push(Diagnostic::error("wrong-type", description.value.span, "`description` must be text"));
    }
    let index: HashMap<String, usize> = stages.iter().enumerate().map(|(i, s)| (s.id.clone(), i)).collect();
    if unreadable.is_empty() {
        report_unused_defaults(defaults, &stages, diagnostics);
    }
    Some(Workflow {
        path: path.to_path_buf(),
        name,
        span: top,
        recipe: find("recipe").map(|e| recipe::read(e, diagnostics)),
        params: map_of(find("params"), diagnostics).to_vec(),
        schedule: find("schedule").cloned(),
        stages,
        outputs: map_of(find("outputs"), diagnostics).to_vec(),
        evaluation_sets: map_of(find("evaluation_sets"), diagnostics).to_vec(),
        unreadable,
        index,
    })
}

/// Removes the entry of a key from a map.
fn take(tree: &mut YamlNode, key: &str) -> Option<YamlEntry> {
    let YamlContent::Map(entries) = &mut tree.content else { return None };
    let at = entries.iter().position(|e| e.key == key)?;
    Some(entries.remove(at))
}

/// Checks the requirements of a parent on its own, since the file that extends it may hide them. `None` if it is not a
/// map.
pub fn check_parent(tree: &YamlNode, diagnostics: &mut Vec<Diagnostic>) -> Option<()> {
    let entries = file_keys(tree, diagnostics)?;
    if let Some(version) = entries.iter().find(|e| e.key == "version") {
        read_version(Some(version), version.key_span, diagnostics);
    }
    Some(())
}

fn file_keys<'t>(tree: &'t YamlNode, diagnostics: &mut Vec<Diagnostic>) -> Option<&'t [YamlEntry]> {
    if tree.map().is_none() {
        let keys = FILE_KEYS.join(", ");
        diagnostics.push(Diagnostic::error("wrong-type", tree.span, format!("a workflow file is a map of {keys}")));
    }
    tree.map()
}

fn read_version(entry: Option<&YamlEntry>, top: Span, diagnostics: &mut Vec<Diagnostic>) {
    match entry {
        None => diagnostics.push(
            Diagnostic::error("missing-key", top, "the file has no `version`").help("start it with `version: 1`"),
        ),
        Some(e) if e.value.scalar().is_some_and(|s| s.text == "1" && s.plain) => {}
        Some(e) => {
            let d = Diagnostic::error(
                "wrong-value",
                e.value.span,
                format!("this build reads version 1, found {}", e.value.describe()),
            );
            diagnostics.push(d.help("write `version: 1`"));
        }
    }
}

fn read_name(entry: Option<&YamlEntry>, top: Span, diagnostics: &mut Vec<Diagnostic>) -> String {
    let Some(entry) = entry else {
        diagnostics
            .push(Diagnostic::error("missing-key", top, "the file has no `name`").help("add `name: my_workflow`"));
        return String::new();
    };
    let text = entry.value.scalar().map_or("", |s| s.text.as_str());
    let valid = !text.is_empty()
        && text.len() <= 100
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if !valid {
        let d = Diagnostic::error(
            "wrong-value",
            entry.value.span,
            format!("{} is not a valid workflow name", entry.value.describe()),
        );
        diagnostics.push(d.help("use letters, digits, `_`, `-` and `.`"));
    }
    text.to_string()
}
