//! Reads a file with `extends: ./parent.yaml` and its parents, and merges them.
//!
//! A text is read once, however many files extend it, and its mistakes are reported once. Its tree is not cached: the
//! tree of 100,000 stages takes much memory, and files that are named several times are small. Spans keep the file that
//! they point into, and relative paths are relative to that file ([`Sources::folder`]).

use crate::diagnostic::{Diagnostic, Sources, Span};
use crate::files::{FileSystem, absolute};
use crate::merge;
use crate::tree::{YamlContent, YamlNode};
use crate::{workflow, yaml};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Name of the key, which merged files do not contain.
pub const KEY: &str = "extends";
/// Maximum number of parents above a file.
pub const MAX_EXTENDS_DEPTH: usize = 4;

/// Index in [`Sources`] of each text that was read, by path; `None` if it could not be read.
pub type TextIndex = HashMap<PathBuf, Option<u32>>;

/// Reads the files of a compilation, and adds their texts and diagnostics to its lists.
pub struct Loader<'a> {
    /// Source of the texts.
    pub files: &'a dyn FileSystem,
    /// List that texts are added to.
    pub sources: &'a mut Sources,
    /// List that mistakes are added to.
    pub diagnostics: &'a mut Vec<Diagnostic>,
    /// Folder that displayed file names are relative to.
    pub working_directory: &'a Path,
    /// Files read before.
    pub texts: &'a mut TextIndex,
}

impl Loader<'_> {
    /// Merges the file at `path` (absolute) over its parents; `from` is the span that names the file. `None` if one of
    /// them cannot be read (reported).
    pub fn merged(&mut self, path: &Path, from: Option<Span>) -> Option<YamlNode> {
        let mut chain = vec![path.to_path_buf()];
        let mut layers = vec![self.tree(path, from)?];
        while let Some((parent, span)) = self.parent(layers.last_mut()?)? {
            let known = chain.contains(&parent);
            chain.push(parent.clone());
            if known || chain.len() > MAX_EXTENDS_DEPTH + 1 {
                self.refuse(&chain, span, known);
                return None;
            }
            let tree = self.tree(&parent, Some(span))?;
            workflow::check_parent(&tree, self.diagnostics)?;
            layers.push(tree);
        }
        layers.into_iter().rev().reduce(merge::workflow)
    }

    /// Parses one file to a tree.
    fn tree(&mut self, path: &Path, from: Option<Span>) -> Option<YamlNode> {
        if let Some(known) = self.texts.get(path) {
            return known.and_then(|file| yaml::read(self.sources, file).0);
        }
        let name = self.shown(path);
        let (text, tree) = match self.files.read(path) {
            Ok(text) => {
                let file = self.sources.add(name, Some(path), text);
                let (tree, found) = yaml::read(self.sources, file);
                self.diagnostics.extend(found);
                (Some(file), tree)
            }
            Err(e) => {
                let span = from.unwrap_or_else(|| {
                    let file = self.sources.add(name, Some(path), "");
                    self.sources.span(file, 0, 0)
                });
                self.diagnostics.push(Diagnostic::error("missing-file", span, e.message).help_if(e.help));
                (None, None)
            }
        };
        self.texts.insert(path.to_path_buf(), text);
        tree
    }

    /// Removes the key from a tree and returns the parent's path and span: `Some(None)` without a parent, `None` after
    /// a mistake (reported).
    fn parent(&mut self, tree: &mut YamlNode) -> Option<Option<(PathBuf, Span)>> {
        let YamlContent::Map(entries) = &mut tree.content else { return Some(None) };
        let Some(at) = entries.iter().position(|e| e.key == KEY) else { return Some(None) };
        let value = entries.remove(at).value;
        let text = value.scalar().filter(|s| !s.text.is_empty() && !value.is_null() && !s.text.contains("${{"));
        let Some(text) = text else {
            let found = value.describe();
            let d = Diagnostic::error("wrong-type", value.span, format!("`extends` must name a file, found {found}"));
            self.diagnostics.push(d.help("a file has one parent: `extends: ./parent.yaml`"));
            return None;
        };
        Some(Some((absolute(self.sources.folder(value.span), &text.text), value.span)))
    }

    fn refuse(&mut self, chain: &[PathBuf], span: Span, cycle: bool) {
        let shown: Vec<String> = chain.iter().map(|path| self.shown(path)).collect();
        let shown = shown.join(" → ");
        self.diagnostics.push(if cycle {
            Diagnostic::error("cycle", span, format!("these files extend each other: {shown}"))
                .help("remove `extends` from one of them")
        } else {
            Diagnostic::error(
                "too-deep",
                span,
                format!("a file has at most {MAX_EXTENDS_DEPTH} parents above it: {shown}"),
            )
            .help("merge two of these files into one")
        });
    }

    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(self.working_directory).unwrap_or(path).display().to_string()
    }
}
