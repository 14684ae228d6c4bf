//! Compares the result of every file under `tests/valid` and `tests/invalid` with its `.expected` file. Set
//! `TRAINYARD_UPDATE_EXPECTED=1` to rewrite those files, then review the difference. A line `# -p name=value` in a
//! sample is an argument.

use crate::catalogue::Kinds;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use trainyard_spec::compile::{Compilation, CompileRequest, compile};
use trainyard_spec::plan::{CacheMode, Plan, PlanNode, RunCondition};
use trainyard_spec::site::{Site, SiteGpu, SitePool};
use trainyard_spec::{LocalFileSystem, draw};

pub fn folder(name: &str) -> PathBuf {
    std::env::current_dir().unwrap().join("tests").join(name)
}

/// Returns two pools: a small machine, and one with two tagged GPUs.
pub fn site() -> Site {
    let gpus = (0..2).map(|index| SiteGpu { index, memory: 80 << 30 }).collect();
    let large = SitePool {
        name: "large".into(),
        tags: vec!["h100".into(), "nvlink".into()],
        ..SitePool::local(32, 256 << 30, gpus)
    };
    let mut site = Site::of_this_machine(SitePool::local(2, 8 << 30, Vec::new()));
    site.pools.push(large);
    site.secrets.insert("HF_TOKEN".into(), "env:HF_TOKEN".into());
    site
}

fn compile_sample(path: &Path) -> Compilation {
    let text = std::fs::read_to_string(path).unwrap();
    let params: Vec<String> = text.lines().filter_map(|l| l.strip_prefix("# -p ")).map(str::to_string).collect();
    let folder = path.parent().unwrap();
    let kinds = Kinds::new();
    compile(&CompileRequest {
        files: &LocalFileSystem,
        path: Path::new(path.file_name().unwrap()),
        working_directory: folder,
        params: &params,
        tick: None,
        catalogue: &kinds,
        site: &site(),
    })
}

fn show_diagnostics(compiled: &Compilation) -> String {
    let mut text = String::new();
    for d in &compiled.diagnostics {
        let _ = writeln!(text, "{}: {}[{}]: {}", compiled.sources.place(d.span), d.severity, d.code, d.message);
        let under = compiled.sources.slice(d.span).lines().next().unwrap_or("");
        let _ = writeln!(text, "  at `{under}`");
        if let Some(help) = &d.help {
            let _ = writeln!(text, "  help: {help}");
        }
        for r in &d.related {
            let _ = writeln!(text, "  see {}: {}", compiled.sources.place(r.span), r.message);
        }
    }
    text
}

fn show_node(node: &PlanNode, text: &mut String) {
    let _ = writeln!(text, "{} = {} v{}", node.key, node.kind, node.kind_version);
    let _ = writeln!(text, "  config {}", serde_json::to_string(&node.config).unwrap());
    for (pointer, source) in &node.sources {
        let _ = writeln!(text, "  source {pointer} = {} {}", source.location, source.digest.short());
    }
    for input in &node.inputs {
        let from: Vec<String> = input.from.iter().map(|o| format!("{}.{}", o.stage, o.output)).collect();
        let _ = writeln!(text, "  in {} ({} {:?}) <- {}", input.port, input.kind, input.cardinality, from.join(", "));
    }
    if !node.after.is_empty() {
        let after: Vec<&str> = node.after.iter().map(|k| k.0.as_str()).collect();
        let _ = writeln!(text, "  after {}", after.join(", "));
    }
    match &node.when {
        RunCondition::Always => {}
        RunCondition::Never(why) => _ = writeln!(text, "  never: {why}"),
        RunCondition::Late(e) => _ = writeln!(text, "  when {e}"),
    }
    if let Some(f) = &node.fan_out {
        let _ = writeln!(text, "  for each row of {}.{} (at most {})", f.rows_of.stage, f.rows_of.output, f.cap);
    }
    show_envelope(node, text);
}

fn show_envelope(node: &PlanNode, text: &mut String) {
    for c in &node.checks {
        let _ = writeln!(text, "  check {} {:?}..{:?} {:?} {:?}", c.metric, c.min, c.max, c.severity, c.role);
    }
    if node.retry.attempts != 3 {
        let _ = writeln!(text, "  retry {:?}", node.retry);
    }
    if let Some(timeout) = node.timeout {
        let _ = writeln!(text, "  timeout {timeout:?}");
    }
    let plain = trainyard_spec::plan::ResourceRequest { nodes: 1, ..Default::default() };
    if node.resources != [plain] {
        for r in &node.resources {
            let _ = writeln!(text, "  resources {}", serde_json::to_string(r).unwrap());
        }
    }
    if node.cache != CacheMode::Enabled {
        let _ = writeln!(text, "  cache {:?}", node.cache);
    }
    for (name, value) in &node.env {
        let _ = writeln!(text, "  env {name}={}", serde_json::to_string(value).unwrap());
    }
    if !node.secrets.is_empty() {
        let _ = writeln!(text, "  secrets {}", node.secrets.join(", "));
    }
    if !node.description.is_empty() {
        let _ = writeln!(text, "  description {}", node.description);
    }
}

fn show_plan(plan: &Plan) -> String {
    let mut text = format!("workflow {}\n", plan.workflow);
    if let Some(recipe) = &plan.recipe {
        let _ = writeln!(text, "recipe {}", serde_json::to_string(recipe).unwrap());
    }
    for (name, value) in &plan.params {
        let _ = writeln!(text, "param {name} = {value}");
    }
    for node in &plan.nodes {
        show_node(node, &mut text);
    }
    for (name, (stage, output)) in &plan.outputs {
        let _ = writeln!(text, "output {name} = {stage}.{output}");
    }
    if let Some(schedule) = &plan.schedule {
        let _ = writeln!(text, "schedule {}", serde_json::to_string(schedule).unwrap());
    }
    text + &draw::mermaid(plan)
}

fn samples(name: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder(name))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn compare(path: &Path, found: &str, failures: &mut Vec<String>) {
    let found = found.replace(&folder("").display().to_string(), "<tests>/").replace("<tests>//", "<tests>/");
    let expected_path = path.with_extension("expected");
    if std::env::var_os("TRAINYARD_UPDATE_EXPECTED").is_some() {
        std::fs::write(&expected_path, &found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&expected_path).unwrap_or_default();
    if expected != found {
        failures.push(format!("{}:\n--- expected\n{expected}\n--- found\n{found}", path.display()));
    }
}

#[test]
fn valid_files_give_their_plans() {
    let mut failures = Vec::new();
    for path in samples("valid") {
        let compiled = compile_sample(&path);
        let Some(plan) = &compiled.plan else {
            failures.push(format!("{}:\n{}", path.display(), show_diagnostics(&compiled)));
            continue;
        };
        compare(&path, &(show_diagnostics(&compiled) + &show_plan(plan)), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn invalid_files_give_all_their_mistakes() {
    let mut failures = Vec::new();
    for path in samples("invalid") {
        let compiled = compile_sample(&path);
        assert!(compiled.plan.is_none(), "{} has a plan", path.display());
        assert!(compiled.errors() > 0, "{} has no error", path.display());
        compare(&path, &show_diagnostics(&compiled), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
