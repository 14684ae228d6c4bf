//! Reads the arguments `-p k=v` and `-p @file`. Later arguments override earlier ones. A mistake is reported at its
//! position in the argument or in the file.

use super::params::GivenParam;
use crate::diagnostic::{Diagnostic, Sources, Span};
use crate::files::{FileSystem, absolute};
use crate::read::{Binder, BoundContent, BoundNode, NoReferences};
use crate::tree::{YamlContent, YamlNode, YamlScalar};
use crate::yaml;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name → value, not yet typed.
#[derive(Debug, Default)]
pub struct Overrides {
    values: BTreeMap<String, Override>,
}

#[derive(Debug)]
struct Override {
    name_span: Span,
    bound: BoundNode,
    folder: PathBuf,
}

impl Overrides {
    /// Reads arguments (without `-p`). Paths in `k=v` are relative to `working_directory`, those of an `@file` to its
    /// folder.
    pub fn read(
        arguments: &[String],
        working_directory: &Path,
        files: &dyn FileSystem,
        sources: &mut Sources,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut overrides = Self::default();
        for argument in arguments {
            match argument.strip_prefix('@') {
                Some(path) => overrides.read_file(path, working_directory, files, sources, diagnostics),
                None => overrides.read_pair(argument, working_directory, sources, diagnostics),
            }
        }
        overrides
    }
    /// Returns the value that the arguments set for a parameter, if any.
    pub fn given(&self, name: &str) -> Option<GivenParam<'_>> {
        self.values.get(name).map(|o| GivenParam { bound: o.bound.clone(), folder: &o.folder })
    }
    /// Returns the names that the arguments set, each with the position of its last setting; sorted.
    pub fn names(&self) -> impl Iterator<Item = (&str, Span)> {
        self.values.iter().map(|(name, o)| (name.as_str(), o.name_span))
    }
    /// Sets a parameter to a text unless an argument sets it.
    pub fn set_if_missing(&mut self, name: &str, text: &str, sources: &mut Sources) {
        let file = sources.add("<tick>", None, text.to_string());
        let span = sources.span(file, 0, text.len());
        let content = BoundContent::Scalar(YamlScalar { text: text.to_string(), plain: false });
        let given = Override { name_span: span, bound: BoundNode { span, content }, folder: PathBuf::from("/") };
        self.values.entry(name.to_string()).or_insert(given);
    }

    fn read_pair(&mut self, argument: &str, folder: &Path, sources: &mut Sources, diagnostics: &mut Vec<Diagnostic>) {
        const LEAD: usize = "-p ".len();
        let file = sources.add("<command line>", None, format!("-p {argument}"));
        let Some((name, text)) = argument.split_once('=') else {
            let d = Diagnostic::error(
                "argument",
                sources.span(file, LEAD, LEAD + argument.len()),
                format!("`{argument}` is not a parameter"),
            );
            diagnostics.push(d.help("write `-p name=value`, or `-p @file`"));
            return;
        };
        let span = sources.span(file, LEAD + name.len() + 1, LEAD + argument.len());
        let bound = flow_value(text, sources).unwrap_or_else(|| BoundNode {
            span,
            content: BoundContent::Scalar(YamlScalar { text: text.to_string(), plain: true }),
        });
        let name_span = sources.span(file, LEAD, LEAD + name.len());
        self.values
            .insert(name.to_string(), Override { name_span, bound: respan(bound, span), folder: folder.to_path_buf() });
    }

    fn read_file(
        &mut self,
        path: &str,
        folder: &Path,
        files: &dyn FileSystem,
        sources: &mut Sources,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let path = absolute(folder, path);
        let text = match files.read(&path) {
            Ok(text) => text,
            Err(e) => {
                let file = sources.add("<command line>", None, format!("-p @{}", path.display()));
                diagnostics
                    .push(Diagnostic::error("missing-file", sources.span(file, 3, 3), e.message).help_if(e.help));
                return;
            }
        };
        let file = sources.add(path.display().to_string(), Some(&path), text);
        let (tree, found) = yaml::read(sources, file);
        diagnostics.extend(found);
        let Some(YamlNode { content: YamlContent::Map(entries), .. }) = &tree else {
            if let Some(tree) = tree {
                diagnostics.push(Diagnostic::error(
                    "wrong-type",
                    tree.span,
                    "a file of parameters is a map from names to values",
                ));
            }
            return;
        };
        let names = NoReferences("parameter files have no expressions");
        for entry in entries {
            let bound = Binder { sources, names: &names, text: false, diagnostics }.bind(&entry.value);
            if let Some(bound) = bound {
                let folder = path.parent().unwrap_or(Path::new("/")).to_path_buf();
                self.values.insert(entry.key.clone(), Override { name_span: entry.key_span, bound, folder });
            }
        }
    }
}

/// Parses `[1, 2]` or `{a: 1}` on the command line; anything else is a scalar.
fn flow_value(text: &str, sources: &Sources) -> Option<BoundNode> {
    if !matches!(text.trim_start().as_bytes().first(), Some(b'[' | b'{')) {
        return None;
    }
    let mut aside = Sources::default();
    let file = aside.add("value", None, text);
    let (tree, diagnostics) = yaml::read(&aside, file);
    if !diagnostics.is_empty() {
        return None;
    }
    let names = NoReferences("arguments have no expressions");
    let mut ignored = Vec::new();
    Binder { sources, names: &names, text: false, diagnostics: &mut ignored }.bind(&tree?)
}

/// Sets the span of all parts of an argument's value to the whole value.
fn respan(bound: BoundNode, span: Span) -> BoundNode {
    let content = match bound.content {
        BoundContent::List(items) => BoundContent::List(items.into_iter().map(|b| respan(b, span)).collect()),
        BoundContent::Map(entries) => BoundContent::Map(
            entries
                .into_iter()
                .map(|e| crate::read::BoundEntry { key: e.key, key_span: span, value: respan(e.value, span) })
                .collect(),
        ),
        other => other,
    };
    BoundNode { span, content }
}
