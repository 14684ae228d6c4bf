//! Writes a workflow file merged with its parents as YAML that has the same meaning in another folder.
//!
//! A relative path is relative to the file in which it is written, so the paths of parents are rewritten. An expression
//! that computes a path is left unchanged.

use crate::diagnostic::{Diagnostic, Sources};
use crate::extends::{Loader, TextIndex};
use crate::files::{FileSystem, absolute};
use crate::options::{SchemaView, source_pointers};
use crate::print;
use crate::run_stage::file_name;
use crate::tree::{YamlContent, YamlEntry, YamlNode};
use crate::workflow::{FILE_KEYS, is_file};
use std::path::{Component, Path, PathBuf};
use trainyard_core::StageKinds;

pub struct MergedWorkflow {
    /// `None` if a file of the chain could not be read.
    pub text: Option<String>,
    /// Diagnostics of the files of the chain.
    pub diagnostics: Vec<Diagnostic>,
    /// Texts that the diagnostics point into.
    pub sources: Sources,
}

/// Merges the file at `path` (absolute) over its parents. `place` formats an (absolute) path for the text.
pub fn merged(
    files: &dyn FileSystem,
    catalogue: &dyn StageKinds,
    path: &Path,
    working_directory: &Path,
    place: &mut dyn FnMut(&Path) -> String,
) -> MergedWorkflow {
    let (mut sources, mut diagnostics) = (Sources::default(), Vec::new());
    let mut loader = Loader {
        files,
        sources: &mut sources,
        diagnostics: &mut diagnostics,
        working_directory,
        texts: &mut TextIndex::new(),
    };
    let tree = loader.merged(path, None);
    let text = tree.map(|mut tree| {
        PathRewriter { sources: &sources, catalogue, place }.file(&mut tree);
        in_order(&mut tree);
        print::yaml(&tree, &sources)
    });
    MergedWorkflow { text, diagnostics, sources }
}

/// Sorts a child's own keys among its parent's, as in a file written by hand.
fn in_order(tree: &mut YamlNode) {
    if let YamlContent::Map(entries) = &mut tree.content {
        entries.sort_by_key(|e| FILE_KEYS.iter().position(|key| *key == e.key).unwrap_or(FILE_KEYS.len()));
    }
}

/// Formats `path` for a file in `folder`, both absolute.
pub fn relative(folder: &Path, path: &Path) -> String {
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (folder.components().collect(), path.components().collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let mut written: PathBuf = std::iter::repeat_n("..", from.len() - common).collect();
    written.extend(&to[common..]);
    let text = written.display().to_string();
    if text.starts_with('.') { text } else { format!("./{text}") }
}

/// Rewrites every path of a tree.
struct PathRewriter<'a> {
    sources: &'a Sources,
    catalogue: &'a dyn StageKinds,
    place: &'a mut dyn FnMut(&Path) -> String,
}

impl PathRewriter<'_> {
    fn file(&mut self, tree: &mut YamlNode) {
        for param in children(tree, "params") {
            self.param(&mut param.value);
        }
        for stage in children(tree, "stages") {
            self.stage(&mut stage.value);
        }
    }

    fn param(&mut self, param: &mut YamlNode) {
        let says = |key: &str| param.get(key).and_then(YamlNode::scalar).is_some_and(|s| s.text == "path");
        if !says("type") && !says("items") {
            return;
        }
        for key in ["default", "choices"] {
            if let Some(value) = param.get_mut(key) {
                self.rewrite_items(value);
            }
        }
    }

    fn stage(&mut self, stage: &mut YamlNode) {
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
    fn files(&mut self, files: &mut YamlNode) {
        let names: Option<Vec<String>> = files.list().map(|items| items.iter().map(name_of).collect());
        self.rewrite_items(files);
        let Some(names) = names else { return };
        let YamlContent::List(items) = &files.content else { return };
        let computed = |text: &String| text.contains("${{");
        if items.iter().map(name_of).eq(names.iter().cloned()) || names.iter().any(computed) {
            return;
        }
        let entries = names.into_iter().zip(items.iter().cloned());
        let entries = entries.map(|(key, value)| YamlEntry { key, key_span: value.span, value }).collect();
        files.content = YamlContent::Map(entries);
    }

    fn rewrite_items(&mut self, node: &mut YamlNode) {
        match &mut node.content {
            YamlContent::Scalar(_) => self.path(node),
            YamlContent::List(items) => items.iter_mut().for_each(|item| self.rewrite_items(item)),
            YamlContent::Map(entries) => entries.iter_mut().for_each(|e| self.rewrite_items(&mut e.value)),
        }
    }

    fn path(&mut self, node: &mut YamlNode) {
        let folder = self.sources.folder(node.span);
        let is_null = node.is_null();
        if let YamlContent::Scalar(scalar) = &mut node.content {
            let text = &scalar.text;
            let stays = is_null || text.is_empty() || text.contains("${{") || text.contains("://");
            if !stays && !text.starts_with('/') {
                scalar.text = (self.place)(&absolute(folder, text));
            }
        }
    }
}

fn name_of(path: &YamlNode) -> String {
    path.scalar().map(|s| file_name(&s.text).to_string()).unwrap_or_default()
}

fn children<'t>(tree: &'t mut YamlNode, key: &str) -> impl Iterator<Item = &'t mut YamlEntry> {
    let content = tree.get_mut(key).map(|node| &mut node.content);
    content.into_iter().filter_map(|c| if let YamlContent::Map(entries) = c { Some(entries) } else { None }).flatten()
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
