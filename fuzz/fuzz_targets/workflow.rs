//! Any text as a workflow file, with a second text that it may embed or extend, and as a site file: no panic, and every
//! diagnostic points into its text. A line of `####` separates the two texts.
#![no_main]

#[path = "../../pipeline/spec/tests/suite/catalogue.rs"]
#[allow(dead_code)]
mod catalogue;

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use std::path::Path;
use trainyard_core::{Digest, Error, Result};
use trainyard_spec::compile::{CompileRequest, compile};
use trainyard_spec::site::{self, ExecutorOptions, Site, SiteContext, SitePool};
use trainyard_spec::{Diagnostic, FileSystem, Sources, draw};

/// Two files in memory; every other name is missing.
struct Two<'a>(&'a str, &'a str);

impl FileSystem for Two<'_> {
    fn read(&self, path: &Path) -> Result<String> {
        match path.to_str() {
            Some("/w/f.yaml") => Ok(self.0.to_string()),
            Some("/w/part.yaml" | "/w/parent.yaml") => Ok(self.1.to_string()),
            _ => Err(Error::invalid(format!("{}: no such file", path.display()))),
        }
    }
    fn exists(&self, path: &Path) -> bool {
        path.parent().is_some_and(|folder| folder == Path::new("/w"))
    }
    fn digest(&self, location: &str) -> Result<Digest> {
        Ok(Digest::of(location.as_bytes()))
    }
}

fn places(diagnostics: &[Diagnostic], sources: &Sources) {
    for found in diagnostics {
        for span in found.related.iter().map(|related| related.span).chain([found.span]) {
            let text = &sources.get(span.file).expect("its file was read").text;
            assert!(text.get(span.start as usize..span.end as usize).is_some(), "{found:?}");
            assert!(span.line >= 1 && span.line as usize <= text.lines().count() + 1, "{found:?}");
        }
        assert!(!sources.line(found).is_empty());
    }
}

fuzz_target!(|text: &str| {
    let (first, second) = text.split_once("\n####\n").unwrap_or((text, ""));
    let files = Two(first, second);
    let machine = SitePool::local(2, 8 << 30, Vec::new());
    let kinds = catalogue::Kinds::new();
    let compiled = compile(&CompileRequest {
        files: &files,
        path: Path::new("/w/f.yaml"),
        working_directory: Path::new("/w"),
        params: &[],
        tick: Some("2026-01-01T00:00:00Z"),
        catalogue: &kinds,
        site: &Site::of_this_machine(machine.clone()),
    });
    assert_eq!(compiled.plan.is_some(), compiled.errors() == 0);
    places(&compiled.diagnostics, &compiled.sources);
    if let Some(plan) = &compiled.plan {
        assert!(!draw::mermaid(plan).is_empty());
    }
    let local = json!({
        "type": "object",
        "properties": {"orphans": {"enum": ["stop", "keep"]}},
        "additionalProperties": false,
    });
    let cluster = json!({
        "type": "object",
        "properties": {"partition": {"type": "string"}, "retries": {"type": "integer"}},
        "required": ["partition"],
    });
    let executors = [
        ExecutorOptions { name: "local", schema: &local, several_nodes: false },
        ExecutorOptions { name: "slurm", schema: &cluster, several_nodes: true },
    ];
    let tracker = json!({
        "oneOf": [{"type": "string", "enum": ["board"]}, {
            "type": "object",
            "properties": {"kind": {"const": "board"}, "folder": {"type": "string"}},
            "required": ["kind"],
            "additionalProperties": false,
        }],
    });
    let check_store = trainyard_store::Store::check_url;
    let surroundings = SiteContext { this_machine: &machine, executors: &executors, tracker: &tracker, check_store };
    let (_, diagnostics, sources) = site::read(&files, Path::new("/w/f.yaml"), surroundings);
    places(&diagnostics, &sources);
});
