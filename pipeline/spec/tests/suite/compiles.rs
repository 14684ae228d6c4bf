//! Tests behavior of whole compilations that a single file cannot show.

use crate::catalogue::Kinds;
use crate::samples::site;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use trainyard_core::{Digest, Error, KindInfo, OptionProblem, Result, StageKinds, ValidatedOptions};
use trainyard_spec::compile::{Compilation, CompileRequest, ancestors, compile};
use trainyard_spec::{FileSystem, schema};

/// Files in memory.
pub struct Memory(pub BTreeMap<String, String>);

impl Memory {
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect())
    }
}

impl FileSystem for Memory {
    fn read(&self, path: &Path) -> Result<String> {
        self.0
            .get(&path.display().to_string())
            .cloned()
            .ok_or_else(|| Error::invalid(format!("{}: no such file", path.display())))
    }
    fn exists(&self, path: &Path) -> bool {
        self.0.contains_key(&path.display().to_string())
    }
    fn digest(&self, location: &str) -> Result<Digest> {
        self.read(Path::new(location)).map(|text| Digest::of(text.as_bytes()))
    }
}

pub fn compile_text(files: &Memory, params: &[&str]) -> Compilation {
    compile_with(&Kinds::new(), files, params)
}

fn compile_with(catalogue: &dyn StageKinds, files: &Memory, params: &[&str]) -> Compilation {
    let params: Vec<String> = params.iter().map(ToString::to_string).collect();
    compile(&CompileRequest {
        files,
        path: Path::new("/w/f.yaml"),
        working_directory: Path::new("/cwd"),
        params: &params,
        tick: None,
        catalogue,
        site: &site(),
    })
}

fn lines(compiled: &Compilation) -> String {
    compiled.diagnostics.iter().map(|d| compiled.sources.line(d) + "\n").collect()
}

const HEAD: &str = "version: 1\nname: f\n";

/// Counts how often options are read.
struct Counted {
    kinds: Kinds,
    settled: AtomicUsize,
}

impl StageKinds for Counted {
    fn names(&self) -> Vec<&str> {
        self.kinds.names()
    }
    fn kind(&self, name: &str) -> Option<&KindInfo> {
        self.kinds.kind(name)
    }
    fn validate_options(
        &self,
        kind: &str,
        options: &Value,
    ) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>> {
        self.settled.fetch_add(1, Ordering::Relaxed);
        self.kinds.validate_options(kind, options)
    }
}

#[test]
fn options_are_validated_once() {
    let counted = Counted { kinds: Kinds::new(), settled: AtomicUsize::new(0) };
    let text = format!(
        "{HEAD}stages:\n  a: {{uses: sft}}\n  b: {{uses: sft, with: {{model: \"${{{{ stages.a.model }}}}\"}}}}\n  \
         c: {{uses: compare, with: {{reports: [\"${{{{ stages.b.report }}}}\"], names: [loss]}}}}\n"
    );
    let compiled = compile_with(&counted, &Memory::of(&[("/w/f.yaml", &text)]), &[]);
    assert!(compiled.plan.is_some(), "{}", lines(&compiled));
    assert_eq!(counted.settled.into_inner(), 3);
}

#[test]
fn ten_thousand_stages_are_planned() {
    let mut text = format!("{HEAD}stages:\n  s0: {{uses: sft}}\n");
    for i in 1..10_000 {
        let _ = writeln!(
            text,
            "  s{i}: {{uses: sft, with: {{model: \"${{{{ stages.s{}.model }}}}\", steps: {i}, \
             seed: \"${{{{ 1 + {i} }}}}\"}}}}",
            i - 1
        );
    }
    let compiled = compile_text(&Memory::of(&[("/w/f.yaml", &text)]), &[]);
    let plan = compiled.plan.unwrap();
    assert_eq!(plan.nodes.len(), 10_000);
    assert_eq!(plan.nodes[9_999].key.0, "s9999");
    assert_eq!(plan.graph.edge_count(), 9_999);
    assert_eq!(ancestors(&plan, &[5]), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_long_cycle_is_found_without_touching_the_stack() {
    let mut text = format!("{HEAD}stages:\n  s0: {{uses: noop, needs: [s9999]}}\n");
    for i in 1..10_000 {
        let _ = writeln!(text, "  s{i}: {{uses: noop, needs: [s{}]}}", i - 1);
    }
    let compiled = compile_text(&Memory::of(&[("/w/f.yaml", &text)]), &[]);
    assert_eq!(compiled.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["cycle"]);
    assert_eq!(compiled.diagnostics[0].related.len(), 10_000);
}

#[test]
fn a_matrix_of_ten_thousand_binds_instance_to_instance() {
    let seeds: Vec<String> = (0..10_000).map(|i| i.to_string()).collect();
    let text = format!(
        "{HEAD}stages:\n  a: {{uses: sft, matrix: {{seed: &s [{}]}}, with: {{seed: \"${{{{ matrix.seed }}}}\"}}}}\n  \
         b: {{uses: sft, matrix: {{seed: *s}}, with: {{model: \"${{{{ stages.a.model }}}}\"}}}}\n",
        seeds.join(",")
    );
    let compiled = compile_text(&Memory::of(&[("/w/f.yaml", &text)]), &[]);
    let plan = compiled.plan.unwrap();
    assert_eq!(plan.nodes.len(), 20_000);
    let last = plan.nodes.last().unwrap();
    assert_eq!(last.key.0, "b[seed=9999]");
    assert_eq!(last.after[0].0, "a[seed=9999]");
}

#[test]
fn paths_of_arguments_and_defaults_have_their_own_folders() {
    let text = format!(
        "{HEAD}params: {{data: {{type: path, default: d.jsonl}}}}\nstages:\n  \
         a: {{uses: data/import, with: {{source: \"${{{{ params.data }}}}\"}}}}\n"
    );
    let files = Memory::of(&[
        ("/w/f.yaml", &text),
        ("/w/d.jsonl", "1"),
        ("/cwd/d.jsonl", "2"),
        ("/p/v.yaml", "data: d.jsonl"),
        ("/p/d.jsonl", "3"),
    ]);
    let location = |params: &[&str]| {
        let compiled = compile_text(&files, params);
        let plan = compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
        plan.nodes[0].sources["/source"].location.clone()
    };
    assert_eq!(location(&[]), "/w/d.jsonl");
    assert_eq!(location(&["data=d.jsonl"]), "/cwd/d.jsonl");
    assert_eq!(location(&["@../p/v.yaml"]), "/p/d.jsonl");
    assert_eq!(location(&["@../p/v.yaml", "data=/w/d.jsonl"]), "/w/d.jsonl");
}

#[test]
fn values_of_arguments_are_read_by_declared_type() {
    let text = format!(
        "{HEAD}params: {{s: {{type: string, default: a}}, l: {{type: list, default: []}}, o: {{type: string, default: \
         null}}, f: {{type: float, default: 0}}, b: {{type: bool, default: false}}, m: {{type: map, default: {{}}}}}}\n\
         stages: {{a: {{uses: noop}}}}\n"
    );
    let files = Memory::of(&[("/w/f.yaml", &text)]);
    let compiled = compile_text(&files, &["s=007", "l=[1, x]", "f=1e-5", "b=true", "m={k: [1]}", "o=x=y"]);
    let plan = compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    let expected = serde_json::json!({"s": "007", "l": [1, "x"], "f": 1e-5, "b": true, "m": {"k": [1]}, "o": "x=y"});
    assert_eq!(serde_json::to_value(&plan.params).unwrap(), expected);
    let compiled = compile_text(&files, &["b=yes", "l=x", "zz=1"]);
    assert_eq!(
        lines(&compiled),
        "<command line>:1:6: error[wrong-type]: param `b` must be true or false, found `yes`\n\
         <command line>:1:6: error[wrong-type]: param `l` must be a list, found `x`\n\
         <command line>:1:4: error[unknown-param]: the workflow has no param `zz`; valid here: s, l, o, f, b, m\n"
    );
}

#[test]
fn plan_digest_depends_only_on_behavior() {
    let digest = |text: &str, params: &[&str]| {
        let compiled = compile_text(&Memory::of(&[("/w/f.yaml", text), ("/w/d", "1")]), params);
        compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics)).digest
    };
    let text =
        format!("{HEAD}params: {{n: {{type: int, default: 1}}}}\nstages:\n  a: {{uses: sft, with: {{steps: 3}}}}\n");
    let base = digest(&text, &[]);
    assert_eq!(base, digest(&format!("# a comment\n{text}"), &[]));
    assert_eq!(base, digest(&text.replace("steps: 3", "steps: 3, seed: 0"), &[]), "a default that is written out");
    assert_ne!(base, digest(&text.replace("steps: 3", "steps: 4"), &[]));
    assert_ne!(base, digest(&text, &["n=2"]));
}

#[test]
fn unused_defaults_are_reported() {
    let warnings = |stage: &str| {
        let text = format!("{HEAD}defaults: {{env: {{LOG: info}}, timeout: 5m}}\nstages:\n  a: {stage}\n");
        let compiled = compile_text(&Memory::of(&[("/w/f.yaml", &text)]), &[]);
        assert!(compiled.plan.is_some(), "{:?}", compiled.diagnostics);
        lines(&compiled)
    };
    assert_eq!(warnings("{run: [x]}"), "");
    assert_eq!(
        warnings("{uses: noop}"),
        "/w/f.yaml:3:12: warning[misplaced-key]: `defaults` sets `env`, but no stage has `run`; only commands use it: \
         leave it out\n"
    );
}

#[test]
fn a_missing_file_is_a_diagnostic() {
    let compiled = compile_text(&Memory::of(&[]), &[]);
    assert!(compiled.plan.is_none());
    assert_eq!(lines(&compiled), "/w/f.yaml:1:1: error[missing-file]: /w/f.yaml: no such file\n");
}

#[test]
fn the_editor_schema_accepts_the_samples_and_refuses_unknown_options() {
    let schema = schema::workflow_schema(&Kinds::new());
    let validator = jsonschema::validator_for(&schema).unwrap();
    for name in
        ["pipeline", "matrix", "embed", "run_stage", "late_list", "recipe", "extends", "parts/trial", "parts/base"]
    {
        let text = std::fs::read_to_string(crate::samples::folder("valid").join(format!("{name}.yaml"))).unwrap();
        let value = crate::properties::plain(&text);
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{} at {}", e, e.instance_path())).collect();
        assert_eq!(errors, [""; 0], "{name}");
    }
    let wrong = serde_json::json!({"version": 1, "name": "x", "stages": {"a": {"uses": "rl", "with": {"stepps": 3}}}});
    assert!(!validator.is_valid(&wrong));
    let whole = serde_json::json!({"version": 1, "name": "x", "stages": {"a": {"with": {}}}});
    assert!(!validator.is_valid(&whole), "without a parent a stage says what it is");
    let child = serde_json::json!({"extends": "./x.yaml", "stages": {"a": {"with": {}}, "b": null}});
    assert!(validator.is_valid(&child));
    assert!(!validator.is_valid(&serde_json::json!({"extends": ["./x.yaml"]})), "a file has one parent");
}

#[test]
fn options_that_name_stage_instances_and_params_are_filled_in() {
    let text = r#"
params: {steps: {type: int, default: 2}, data: {type: string, default: /private/x}}
stages:
  data: {uses: data/synthesize}
  base: {uses: sft}
  sft: {uses: sft, matrix: {lr: [1e-3, 3e-3], seed: [1, 2]}, with: {model: "${{ stages.base.model }}"}}
  all: {uses: evaluate, with: {models: "${{ stages.sft.model }}", problems: "${{ stages.data.problems }}"}}
  named:
    uses: evaluate
    with: {models: "${{ stages.sft.model }}", problems: "${{ stages.data.problems }}", names: [a, b, c, d]}
  each:
    uses: evaluate
    matrix: {lr: [1e-3, 3e-3], seed: [1, 2]}
    with:
      models: ["${{ stages.base.model }}", "${{ stages.sft.model }}"]
      problems: ${{ stages.data.problems }}
  seeds:
    uses: evaluate
    matrix: {seed: [1, 2]}
    with: {models: "${{ stages.sft.model }}", problems: "${{ stages.data.problems }}"}
  report: {uses: report, with: {reports: "${{ stages.all.report }}"}}
"#;
    let compiled =
        compile_with(&Kinds::new().filled(), &Memory::of(&[("/w/f.yaml", &format!("{HEAD}{text}"))]), &["steps=3"]);
    let told = lines(&compiled);
    let plan = compiled.plan.unwrap_or_else(|| panic!("{told}"));
    let config = |key: &str| {
        let node = plan.nodes.iter().find(|node| node.key.0 == key).unwrap();
        node.config.as_literal().unwrap()
    };
    let names = |key: &str| -> Vec<String> {
        let config = config(key);
        let instances = config["instances"].as_array().cloned().unwrap_or_default();
        instances.iter().map(|instance| instance["name"].as_str().unwrap().to_string()).collect()
    };
    let four = ["sft[lr=0.001,seed=1]", "sft[lr=0.001,seed=2]", "sft[lr=0.003,seed=1]", "sft[lr=0.003,seed=2]"];
    assert_eq!(names("all"), four);
    let axes = &config("all")["instances"][2]["axes"];
    assert_eq!(*axes, serde_json::json!([{"axis": "lr", "value": 0.003}, {"axis": "seed", "value": 1}]));
    assert_eq!(names("named"), [""; 0], "the file names them");
    assert_eq!(names("each[lr=0.001,seed=1]"), [""; 0], "the reader has the same axes");
    assert_eq!(names("seeds[seed=1]"), four, "the reader takes all seeds");
    assert_eq!(config("report")["params"], serde_json::json!({"steps": 3}), "without paths");
}

#[test]
fn a_mistake_in_a_param_hides_no_mistake_of_an_input() {
    let text = format!(
        "{HEAD}stages:\n  data: {{uses: data/synthesize}}\n  evaluate: {{uses: evaluate, with: {{models: \
         [\"${{{{ stages.nope.model }}}}\"], problems: \"${{{{ params.x }}}}\"}}}}\n  practice: {{uses: rl, with: \
         {{model: \"${{{{ stages.data.problems }}}}\", steps: \"${{{{ params.x }}}}\"}}}}\n"
    );
    let compiled = compile_text(&Memory::of(&[("/w/f.yaml", &text)]), &[]);
    let mut codes: Vec<&str> = compiled.diagnostics.iter().map(|d| d.code).collect();
    codes.sort_unstable();
    let expected = ["missing-input", "port-kind", "unknown-param", "unknown-param", "unknown-stage"];
    assert_eq!(codes, expected, "{}", lines(&compiled));
    assert!(!lines(&compiled).contains("`evaluate` gets no"), "its mistake is in the param");
}

#[test]
fn mistakes_of_a_stage_hide_neither_its_options_nor_its_resources() {
    let text = format!(
        "{HEAD}stages:\n  base: {{uses: sft, with: {{stepps: 3, loss: {{terms: [{{kind: clip, clip_low: 0.3, \
         clip_high: 0.2}}]}}}}, resources: {{gpus: 99}}}}\n  practice: {{uses: grpo, with: {{model: \
         \"${{{{ stages.base.model }}}}\", num_generations: 8}}, resources: {{gpus: 99}}, timeout: soon}}\n  \
         command: {{uses: frobnicate, resources: {{gpus: 99}}}}\n"
    );
    let compiled = compile_text(&Memory::of(&[("/w/f.yaml", &text)]), &[]);
    let told = lines(&compiled);
    let of = |code: &str| compiled.diagnostics.iter().filter(|d| d.code == code).count();
    assert_eq!((of("unknown-option"), of("wrong-option"), of("never-placed")), (2, 1, 3), "{told}");
    assert_eq!((of("unknown-kind"), of("missing-input"), of("wrong-value")), (2, 1, 1), "{told}");
    assert!(told.contains("stage `practice` gets no `problems`"), "{told}");
}

#[test]
fn main_metric_depends_on_the_wired_inputs() {
    let stage = |more: &str| {
        let problems = "\"${{ stages.data.problems }}\"";
        format!("{{uses: rl, with: {{model: \"${{{{ stages.base.model }}}}\", problems: {problems}{more}}}}}")
    };
    let text = format!(
        "{HEAD}stages:\n  data: {{uses: data/synthesize}}\n  base: {{uses: sft}}\n  alone: {}\n  held_out: {}\n",
        stage(""),
        stage(", validation: \"${{ stages.data.problems }}\"")
    );
    let compiled = compile_text(&Memory::of(&[("/w/f.yaml", &text)]), &[]);
    let nodes = compiled.plan.unwrap_or_else(|| panic!("the file has mistakes")).nodes;
    let main = |name: &str| nodes.iter().find(|n| n.key.0 == name).and_then(|n| n.main_metric.as_deref());
    assert_eq!((main("alone"), main("held_out")), (Some("reward_mean"), Some("validation_accuracy")));
    assert_eq!(main("data"), None);
}
