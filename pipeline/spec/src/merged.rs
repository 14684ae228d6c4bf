//! A workflow file merged with its parents, as YAML that means the same in another place.
//!
//! Relative paths are relative to the file in which they are written, so those of parents are rewritten. An expression
//! that computes a path is left unchanged.

use crate::diagnostic::{Diagnostic, Sources};
use crate::extends::{Loader, Texts};
use crate::files::{Files, absolute};
use crate::options::{SchemaView, source_pointers};
use crate::print;
use crate::run_stage::file_name;
use crate::tree::{Content, Entry, Node};
use crate::workflow::{FILE_KEYS, is_file};
use std::path::{Component, Path, PathBuf};
use trainyard_core::StageKinds;

pub struct Merged {
    /// `None` if a file of the chain could not be read.
    pub text: Option<String>,
    /// Diagnostics of the files of the chain.
    pub diagnostics: Vec<Diagnostic>,
    /// Texts that the diagnostics point into.
    pub sources: Sources,
}

/// Merges the file at `path` (absolute) over its parents. `place` formats an (absolute) path for the text.
pub fn merged(
    files: &dyn Files,
    catalogue: &dyn StageKinds,
    path: &Path,
    working_directory: &Path,
    place: &mut dyn FnMut(&Path) -> String,
) -> Merged {
    let (mut sources, mut diagnostics) = (Sources::default(), Vec::new());
    let mut loader = Loader {
        files,
        sources: &mut sources,
        diagnostics: &mut diagnostics,
        working_directory,
        texts: &mut Texts::new(),
    };
    let tree = loader.merged(path, None);
    let text = tree.map(|mut tree| {
        Mover { sources: &sources, catalogue, place }.file(&mut tree);
        in_order(&mut tree);
        print::yaml(&tree, &sources)
    });
    Merged { text, diagnostics, sources }
}

/// Sorts a child's own keys among its parent's, as in a file written by hand.
fn in_order(tree: &mut Node) {
    if let Content::Map(entries) = &mut tree.content {
        entries.sort_by_key(|e| FILE_KEYS.iter().position(|key| *key == e.key).unwrap_or(FILE_KEYS.len()));
    }
}

/// Formats `path` for a file in `folder`, both absolute.
pub fn relative(folder: &Path, path: &Path) -> String {
    let (here, there): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (folder.components().collect(), path.components().collect());
    let common = here.iter().zip(&there).take_while(|(a, b)| a == b).count();
    let mut written: PathBuf = std::iter::repeat_n("..", here.len() - common).collect();
    written.extend(&there[common..]);
    let text = written.display().to_string();
    if text.starts_with('.') { text } else { format!("./{text}") }
}

/// Rewrites every path of a tree.
struct Mover<'a> {
    sources: &'a Sources,
    catalogue: &'a dyn StageKinds,
    place: &'a mut dyn FnMut(&Path) -> String,
}

impl Mover<'_> {
    fn file(&mut self, tree: &mut Node) {
        for param in children(tree, "params") {
            self.param(&mut param.value);
        }
        for stage in children(tree, "stages") {
            self.stage(&mut stage.value);
        }
    }

    fn param(&mut self, param: &mut Node) {
        let says = |key: &str| param.get(key).and_then(Node::scalar).is_some_and(|s| s.text == "path");
        if !says("type") && !says("items") {
            return;
        }
        for key in ["default", "choices"] {
            if let Some(value) = param.get_mut(key) {
                self.every(value);
            }
        }
    }

    fn stage(&mut self, stage: &mut Node) {
        if let Some(files) = stage.get_mut("files") {
            self.files(files);
        }
        let Some(uses) = stage.get_mut("uses") else { return };
        let Some(name) = uses.scalar().map(|s| s.text.clone()) else { return };
        if is_file(&name) {
            return self.path(uses);
        }
        let (Some(info), Some(with)) = (self.catalogue.kind(&name), stage.get_mut("with")) else { return };
        let mut found = Vec::new();
        source_pointers(&with.value(), &SchemaView::root(&info.options), "", &mut found);
        for found in found {
            if let Some(node) = with.at_mut(&found.pointer) {
                self.path(node);
            }
        }
    }

    /// Keeps the names of moved files in the working folder, by the map form if necessary.
    fn files(&mut self, files: &mut Node) {
        let names: Option<Vec<String>> = files.list().map(|items| items.iter().map(name_of).collect());
        self.every(files);
        let Some(names) = names else { return };
        let Content::List(items) = &files.content else { return };
        let computed = |text: &String| text.contains("${{");
        if items.iter().map(name_of).eq(names.iter().cloned()) || names.iter().any(computed) {
            return;
        }
        let entries = names.into_iter().zip(items.iter().cloned());
        let entries = entries.map(|(key, value)| Entry { key, key_span: value.span, value }).collect();
        files.content = Content::Map(entries);
    }

    fn every(&mut self, node: &mut Node) {
        match &mut node.content {
            Content::Scalar(_) => self.path(node),
            Content::List(items) => items.iter_mut().for_each(|item| self.every(item)),
            Content::Map(entries) => entries.iter_mut().for_each(|e| self.every(&mut e.value)),
        }
    }

    fn path(&mut self, node: &mut Node) {
        let folder = self.sources.folder(node.span);
        let is_null = node.is_null();
        if let Content::Scalar(scalar) = &mut node.content {
            let text = &scalar.text;
            let stays = is_null || text.is_empty() || text.contains("${{") || text.contains("://");
            if !stays && !text.starts_with('/') {
                scalar.text = (self.place)(&absolute(folder, text));
            }
        }
    }
}

fn name_of(path: &Node) -> String {
    path.scalar().map(|s| file_name(&s.text).to_string()).unwrap_or_default()
}

fn children<'t>(tree: &'t mut Node, key: &str) -> impl Iterator<Item = &'t mut Entry> {
    let content = tree.get_mut(key).map(|node| &mut node.content);
    content.into_iter().filter_map(|c| if let Content::Map(entries) = c { Some(entries) } else { None }).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_from_a_folder() {
        let cases = [
            ("/a/b", "/a/b/c.yaml", "./c.yaml"),
            ("/a/b", "/a/c.yaml", "../c.yaml"),
            ("/a/b", "/x/c.yaml", "../../x/c.yaml"),
            ("/a/b", "/a/b/d/c", "./d/c"),
        ];
        for (folder, path, written) in cases {
            assert_eq!(relative(Path::new(folder), Path::new(path)), written);
            assert_eq!(absolute(Path::new(folder), written), Path::new(path));
        }
    }
}
