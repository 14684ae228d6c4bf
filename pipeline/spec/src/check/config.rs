//! Checks the options of a stage, and reads the digests of the files that they name.

use super::checker::Checker;
use super::inputs::entries;
use super::stage::ConfigTemplate;
use crate::diagnostic::{Diagnostic, Span};
use crate::expand::ReferenceScope;
use crate::files::{FileSystem, SourceForm, absolute, is_model_name};
use crate::options::{ReadOptions, command, escape, message_with_name, source_pointers, unknown_option};
use crate::plan::SourceRef;
use crate::read::{Binder, BoundContent, BoundEntry, BoundNode, ValueReader, locate};
use crate::run_stage;
use crate::template::Template;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::source::Glob;
use trainyard_core::{Digest, Error, KindInfo, OptionProblem};

impl Checker<'_> {
    /// Builds the config of a stage with `uses`: reads the options, validates them against the schema and the kind, and
    /// fills in defaults.
    pub(super) fn kind_config(&mut self, draft: usize, info: &KindInfo, with: &BoundNode) -> Option<ConfigTemplate> {
        let options = self.options(info);
        let before = self.diagnostics.len();
        let mut given = Vec::new();
        for entry in entries(with) {
            if options.names.contains(&entry.key) && info.input(&entry.key).is_none() {
                given.push(entry);
            } else if info.input(&entry.key).is_none() && info.input_families(&entry.key).is_empty() {
                self.report(unknown_option(entry, info, &options.names));
            }
        }
        let (mut config, read) = options.read(&given, &mut self.diagnostics);
        let sources = self.resolve_sources(&mut config, &read);
        self.fill_in(draft, info, with, &mut config);
        let template = Template::Map(config);
        let template = template.as_literal().map_or(template, Template::Literal);
        let wrong = options.validate(&template, &read, with, &format!("`{}`", info.name));
        let typed = !wrong.iter().any(Diagnostic::is_error);
        self.diagnostics.extend(wrong);
        let references: Vec<_> = template.references().into_iter().cloned().collect();
        self.link_late(draft, &references.iter().collect::<Vec<_>>(), with.span);
        let errors = || self.diagnostics[before..].iter().filter(|d| d.is_error());
        if errors().next().is_some() {
            // An unknown option hides no contradiction between the others.
            let readable = typed && errors().all(|d| d.code == "unknown-option");
            if let (Template::Literal(value), true) = (&template, readable) {
                self.complete(draft, info, value, with);
                self.validated.remove(&draft);
            }
            return None;
        }
        let Template::Literal(value) = template else { return Some((template, sources)) };
        let complete = self.complete(draft, info, &value, with)?;
        let mut found = Vec::new();
        source_pointers(&complete, &options.view(), "", &mut found);
        let mut placed = BTreeMap::new();
        // Words of a command that name no file are not sources.
        found.retain(|found| !found.word || sources.values().any(|source| source.location == found.text));
        for found in found {
            let span = locate(with, &found.pointer).0;
            placed.insert(found.pointer, self.source(&found.text, None, span, found.form)?);
        }
        Some((Template::Literal(complete), placed))
    }

    /// Completes the config. The settled options are kept for later passes.
    fn complete(&mut self, draft: usize, info: &KindInfo, value: &Value, with: &BoundNode) -> Option<Value> {
        match self.expanded.catalogue.validate_options(info.name, value) {
            Ok(settled) => {
                let complete = settled.config().clone();
                self.validated.insert(draft, settled);
                Some(complete)
            }
            Err(problems) => {
                self.wrong_options(problems, with);
                None
            }
        }
    }

    pub(super) fn wrong_options(&mut self, problems: Vec<OptionProblem>, with: &BoundNode) {
        for problem in problems {
            let span = locate(with, &problem.pointer).0;
            self.report(Diagnostic::error("wrong-option", span, message_with_name(&problem)).help_if(problem.help));
        }
    }

    pub(super) fn unusual_options(&mut self, problems: Vec<OptionProblem>, with: &BoundNode) {
        for problem in problems {
            let span = locate(with, &problem.pointer).0;
            self.report(Diagnostic::warning("unusual-option", span, message_with_name(&problem)).help_if(problem.help));
        }
    }

    /// Makes source paths absolute in the config and looks up their content.
    fn resolve_sources(
        &mut self,
        config: &mut BTreeMap<String, Template>,
        read: &ReadOptions,
    ) -> BTreeMap<String, SourceRef> {
        let mut sources = BTreeMap::new();
        for found in &read.sources {
            let location = self.location(&found.text, found.span);
            let files = self.expanded.files;
            if found.word && !command::names_source(files, &found.pointer, &found.text, &location) {
                continue;
            }
            let name = Some(found.text.as_str()).filter(|text| found.form == SourceForm::Model && is_model_name(text));
            let Some(source) = self.source(&location, name, found.span, found.form) else { continue };
            let parts: Vec<String> =
                found.pointer.split('/').skip(1).map(|p| p.replace("~1", "/").replace("~0", "~")).collect();
            if let Some((first, rest)) = parts.split_first()
                && let Some(template) = config.get_mut(first)
            {
                set(template, rest, &source.location);
            }
            sources.insert(found.pointer.clone(), source);
        }
        sources
    }

    /// Resolves a path against the folder of the file in which it is written; returns URLs unchanged.
    fn location(&self, text: &str, span: Span) -> String {
        if text.contains("://") {
            return text.to_string();
        }
        absolute(self.expanded.sources.folder(span), text).display().to_string()
    }

    /// Returns the content of a location, or of a model on the hub called `name`; reports one that does not exist.
    fn source(&mut self, location: &str, name: Option<&str>, span: Span, form: SourceForm) -> Option<SourceRef> {
        let files = self.expanded.files;
        let find = || look_up(files, location, name, form);
        let looked_up = self.looked_up.entry((location.to_string(), form == SourceForm::Model)).or_insert_with(find);
        match looked_up {
            Ok(source) => Some(source.clone()),
            Err(e) => {
                let d = Diagnostic::error("missing-file", span, e.message.clone()).help_if(e.help.clone());
                self.report(d);
                None
            }
        }
    }

    /// Reads `files:` of a `run` stage: relative name → absolute path, and the sources under `/files/…`.
    pub(super) fn run_files(
        &mut self,
        draft: usize,
        view: &ReferenceScope<'_>,
    ) -> Option<(Map<String, Value>, BTreeMap<String, SourceRef>)> {
        let expanded = self.expanded;
        let mut files = Map::new();
        let mut sources = BTreeMap::new();
        let Some(node) = expanded.raw(draft).get("files") else { return Some((files, sources)) };
        let bound = Binder { sources: &expanded.sources, names: view, text: false, diagnostics: &mut self.diagnostics }
            .bind(node)?;
        let mut good = true;
        for (name, path, span) in self.named_files(&bound)? {
            let relative = name.as_deref().unwrap_or_else(|| run_stage::file_name(&path));
            if relative.starts_with('/') || relative.split('/').any(|part| part == "..") {
                good = false;
                let message = format!("`{relative}` is outside of the working folder");
                self.report(
                    Diagnostic::error("wrong-value", span, message)
                        .help("use a path inside the folder, as in `lib/a.py`"),
                );
                continue;
            }
            let location = self.location(&path, span);
            let Some(source) = self.source(&location, None, span, SourceForm::Exact) else {
                good = false;
                continue;
            };
            sources.insert(format!("/files/{}", escape(relative)), source);
            if files.insert(relative.to_string(), Value::String(location)).is_some() {
                good = false;
                self.report(Diagnostic::error(
                    "duplicate-name",
                    span,
                    format!("two files would be called `{relative}`"),
                ));
            }
        }
        good.then_some((files, sources))
    }

    /// Reads the entries of `files:`: the name (map form only), the path, and its position.
    fn named_files(&mut self, bound: &BoundNode) -> Option<Vec<(Option<String>, String, Span)>> {
        let mut reader = ValueReader { diagnostics: &mut self.diagnostics };
        if let BoundContent::Map(entries) = &bound.content {
            let path = |e: &BoundEntry| Some((Some(e.key.clone()), reader.string(&e.value, "a file")?, e.value.span));
            return entries.iter().map(path).collect();
        }
        let paths = reader.strings(bound, "`files`")?;
        let span = |i: usize| locate(bound, &format!("/{i}")).0;
        Some(paths.into_iter().enumerate().map(|(i, path)| (None, path, span(i))).collect())
    }
}

/// Replaces a string inside a template.
fn set(template: &mut Template, path: &[String], location: &str) {
    match (template, path.split_first()) {
        (Template::Literal(value), _) => {
            let mut at = Some(value);
            for part in path {
                at = at.and_then(|v| match v {
                    Value::Array(items) => part.parse::<usize>().ok().and_then(|i| items.get_mut(i)),
                    Value::Object(map) => map.get_mut(part),
                    _ => None,
                });
            }
            if let Some(at) = at {
                *at = Value::String(location.to_string());
            }
        }
        (Template::List(items), Some((first, rest))) => {
            if let Some(item) = first.parse::<usize>().ok().and_then(|i| items.get_mut(i)) {
                set(item, rest, location);
            }
        }
        (Template::Map(entries), Some((first, rest))) => {
            if let Some(item) = entries.get_mut(first) {
                set(item, rest, location);
            }
        }
        _ => {}
    }
}

/// Finds a file or folder with its content; where the form admits them, also a pattern, or a URL at its revision. A
/// model's `name` on the hub counts if the path does not exist.
fn look_up(files: &dyn FileSystem, location: &str, name: Option<&str>, form: SourceForm) -> Result<SourceRef, Error> {
    let pinned = |url: &str| {
        let location = files.pin(url, form)?;
        Ok(SourceRef { digest: Digest::of(location.as_bytes()), location })
    };
    if form != SourceForm::Exact && location.contains("://") {
        return pinned(location);
    }
    let path = Path::new(location);
    if let Some(name) = name.filter(|_| !files.exists(path)) {
        return pinned(&format!("hf://{name}"))
            .map_err(|e: Error| e.at(format!("there is no file or folder {location}, and of the hub")));
    }
    let pattern = form == SourceForm::Patterns && matches!(Glob::of(path), Ok(Some(_)));
    if !location.contains("://") && !pattern && !files.exists(path) {
        return Err(Error::invalid(format!("there is no file or folder {location}")).help(
            "paths are relative to the file they are written in; those given by `-p` to a param of `type: path`, to \
             the working directory",
        ));
    }
    Ok(SourceRef { location: location.to_string(), digest: files.digest(location)? })
}
