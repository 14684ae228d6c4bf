//! The raw workflow: one file's tree sorted into its parts, before any expression is read.
//!
//! [`FILE_KEYS`] lists the top level and [`STAGE_KEYS`] what a stage may say. Keys that a stage's body would ignore
//! (`env` beside `uses`) are errors here, so later passes never see them.

mod stage;

use crate::diagnostic::{Diagnostic, Span};
use crate::expression::is_name;
use crate::recipe::{self, Recipe};
use crate::run_stage::RunPorts;
use crate::tree::{Entry, Node};
use crate::vocabulary::{self, Place};
use stage::{idle_defaults, read_stages};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

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
/// Keys of a stage, whatever its body; which of them a body heeds is judged where it is read.
pub const STAGE_KEYS: [&str; 17] = [
    "uses",
    "run",
    "with",
    "needs",
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
/// What `defaults` may set for every stage; `env` and `secrets` reach those with `run`.
pub const DEFAULT_KEYS: [&str; 6] = ["cache", "env", "resources", "retry", "secrets", "timeout"];
/// What an embedding stage may say.
pub const EMBED_KEYS: [&str; 7] = ["uses", "with", "needs", "matrix", "for_each", "when", "description"];
/// Keys for commands only; a kind gets everything through its options and inputs.
const ONLY_RUN: [&str; 4] = ["env", "files", "outputs", "secrets"];

/// A whole file, sorted into its parts. Values are still nodes; expressions are read later.
#[derive(Debug)]
pub struct Workflow {
    /// Absolute.
    pub path: PathBuf,
    /// What the key `name` says.
    pub name: String,
    /// Of the first key that the file itself writes; a place for what has no better one.
    pub span: Span,
    /// What published system it shows, if it is a recipe. Incomplete after a mistake (reported).
    pub recipe: Option<Recipe>,
    /// Declarations, in file order.
    pub params: Vec<Entry>,
    /// The key `schedule`, not yet read.
    pub schedule: Option<Entry>,
    /// In file order.
    pub stages: Vec<RawStage>,
    /// What the file exports, by name.
    pub outputs: Vec<Entry>,
    /// Data that some stages must never see, by name.
    pub evaluation_sets: Vec<Entry>,
    /// Ids of stages that are not in `stages` because they could not be read (reported).
    pub unreadable: Vec<String>,
    index: HashMap<String, usize>,
}

/// One stage of a file, before it is repeated or bound.
#[derive(Debug)]
pub struct RawStage {
    /// Its key under `stages`.
    pub id: String,
    /// Place of that key.
    pub id_span: Span,
    /// Whether it names a kind, embeds a file or runs a command.
    pub body: Body,
    /// The envelope, with the file's `defaults` laid under it.
    entries: Vec<Entry>,
    /// Ports of a command; read when the stage is expanded.
    pub(crate) run_ports: OnceCell<RunPorts>,
}

/// What a stage does.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// `uses` with the name of a stage kind.
    Kind {
        /// As written.
        name: String,
        /// Place of the name.
        span: Span,
    },
    /// A path as written.
    Embed {
        /// Relative to the folder of the file that it stands in.
        path: String,
        /// Place of the path.
        span: Span,
    },
    /// A command under `run`.
    Run,
}

impl RawStage {
    /// Value of one of [`STAGE_KEYS`], from the stage or the file's `defaults`.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|e| &e.value)
    }
    /// The same with its key and place.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }
}

impl Workflow {
    /// Index into [`Self::stages`] of the stage with this id.
    pub fn stage(&self, id: &str) -> Option<usize> {
        self.index.get(id).copied()
    }
    /// Ids of all readable stages, in file order.
    pub fn stage_ids(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().map(|s| s.id.as_str())
    }
}

/// Sorts a tree into a workflow. Reports what does not fit and keeps the rest.
pub fn read(tree: &Node, path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<Workflow> {
    let entries = file_keys(tree, diagnostics)?;
    unknown_keys(entries, &FILE_KEYS, "a workflow file", Place::File, diagnostics);
    let find = |key: &str| entries.iter().find(|e| e.key == key);
    let own = entries.iter().find(|e| e.key_span.file == tree.span.file);
    let top = own.map_or(tree.span, |e| e.key_span);
    let name = read_name(find("name"), top, diagnostics);
    read_version(find("version"), top, diagnostics);
    let defaults = map_of(find("defaults"), diagnostics);
    unknown_keys(defaults, &DEFAULT_KEYS, "`defaults`", Place::Stage, diagnostics);
    let stages = read_stages(find("stages"), top, defaults, diagnostics);
    if let Some(description) = find("description").filter(|e| e.value.scalar().is_none()) {
        diagnostics.push(Diagnostic::error("wrong-type", description.value.span, "`description` must be text"));
    }
    let index: HashMap<String, usize> = stages.iter().enumerate().map(|(i, s)| (s.id.clone(), i)).collect();
    let written = find("stages").and_then(|e| e.value.map()).unwrap_or_default();
    let unreadable: Vec<String> = written.iter().map(|e| e.key.clone()).filter(|id| !index.contains_key(id)).collect();
    if unreadable.is_empty() {
        idle_defaults(defaults, &stages, diagnostics);
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

/// What must hold of a parent by itself, since the file that extends it may hide it. `None` if it is no map.
pub fn check_parent(tree: &Node, diagnostics: &mut Vec<Diagnostic>) -> Option<()> {
    let entries = file_keys(tree, diagnostics)?;
    if let Some(version) = entries.iter().find(|e| e.key == "version") {
        read_version(Some(version), version.key_span, diagnostics);
    }
    Some(())
}

fn file_keys<'t>(tree: &'t Node, diagnostics: &mut Vec<Diagnostic>) -> Option<&'t [Entry]> {
    if tree.map().is_none() {
        let keys = FILE_KEYS.join(", ");
        diagnostics.push(Diagnostic::error("wrong-type", tree.span, format!("a workflow file is a map of {keys}")));
    }
    tree.map()
}

fn read_version(entry: Option<&Entry>, top: Span, diagnostics: &mut Vec<Diagnostic>) {
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

fn read_name(entry: Option<&Entry>, top: Span, diagnostics: &mut Vec<Diagnostic>) -> String {
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

/// Whether a `uses` names a file and not a kind.
pub fn is_file(uses: &str) -> bool {
    uses.starts_with(['.', '/']) || uses.ends_with(".yaml") || uses.ends_with(".yml")
}

/// Reports a name that could not follow a dot in an expression.
pub fn check_id(id: &str, span: Span, what: &str, diagnostics: &mut Vec<Diagnostic>) {
    if !is_name(id) || id.len() > 64 {
        let fixed: String =
            id.chars().take(64).map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        let fixed = if fixed.starts_with(|c: char| c.is_ascii_digit()) { format!("_{fixed}") } else { fixed };
        let d = Diagnostic::error("wrong-name", span, format!("`{id}` is not a valid {what} name"));
        diagnostics.push(d.help(format!("use letters, digits and `_`, as in `{fixed}`")));
    }
}

/// Reports every key that is not allowed, with what to write instead.
pub fn unknown_keys(entries: &[Entry], allowed: &[&str], what: &str, place: Place, diagnostics: &mut Vec<Diagnostic>) {
    for entry in entries.iter().filter(|e| !allowed.contains(&e.key.as_str())) {
        let mut help = vocabulary::key(place, &entry.key, allowed);
        if place == Place::Stage && help.as_ref().is_some_and(|h| h.starts_with("valid here")) {
            help = Some("options of a stage kind stand under `with`".to_string());
        }
        let d = Diagnostic::error("unknown-key", entry.key_span, format!("{what} has no key `{}`", entry.key));
        diagnostics.push(d.help_if(help));
    }
}

fn map_of<'t>(entry: Option<&'t Entry>, diagnostics: &mut Vec<Diagnostic>) -> &'t [Entry] {
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
