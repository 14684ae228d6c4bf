//! Compares the files of `data/select`, `data/pairs` and exports of made rows with recorded digests.

use crate::export::{ExportForm, ExportOmissions, ExportSource, FileKind, registry, write_export};
use crate::made_rows::{self, digest, expect_recorded};
use crate::stage_tests::run;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use trainyard_core::ArtifactKind;
use trainyard_tables::{Problem, Trajectory};

/// More than a row group.
const PROBLEMS: u64 = 17_000;
const TRAJECTORIES: u64 = 17_000;

/// Returns the inputs of `data/select`: two files of problems, and a file of evaluation problems.
fn problem_inputs(root: &Path) -> [(&'static str, PathBuf); 3] {
    let rows: Vec<Problem> = (0..PROBLEMS).map(made_rows::problem).collect();
    let evaluation: Vec<Problem> = rows.iter().step_by(97).cloned().collect();
    [
        ("problems", made_rows::problems_artifact(root, "many", &rows[..16_500])),
        ("problems", made_rows::problems_artifact(root, "few", &rows[16_500..])),
        ("evaluation", made_rows::problems_artifact(root, "evaluation", &evaluation)),
    ]
}

#[test]
fn selected_problems_equal_the_recorded_ones() {
    let root = tempfile::tempdir().unwrap();
    let inputs = problem_inputs(root.path());
    let cases = [
        json!({}),
        json!({"splits": ["test", "rl"], "levels": [1, 2, 5]}),
        json!({"half": "a", "per_level": 700}),
        json!({"where": "level < 4 and source like '%1' or meta_score = 0.5", "limit": 900}),
        json!({"where": "level >= avg(level)", "splits": ["train"]}),
        json!({"half": "b", "decontaminate": {"methods": ["canonical", "ngram_13"]}, "per_level": 100, "limit": 450}),
    ];
    let found: Vec<(String, String)> = cases
        .iter()
        .enumerate()
        .map(|(i, options)| {
            // `evaluation` must not be wired without `decontaminate`.
            let wired = if options.get("decontaminate").is_some() { &inputs[..] } else { &inputs[..2] };
            let done = run(root.path(), &format!("select-{i}"), "data/select", options.clone(), wired).unwrap();
            let file = digest(&done.output("problems").join("data.parquet"));
            (options.to_string(), format!("{file} {:?}", done.metrics))
        })
        .collect();
    expect_recorded(&found, &["", "", "", "", "", ""]);
}

#[test]
fn pairs_equal_the_recorded_ones() {
    let root = tempfile::tempdir().unwrap();
    let rows: Vec<Trajectory> = (0..TRAJECTORIES).map(|i| made_rows::trajectory(i, 2500)).collect();
    let inputs = [
        ("trajectories", made_rows::trajectories_artifact(root.path(), "many", &rows[..16_500])),
        ("trajectories", made_rows::trajectories_artifact(root.path(), "few", &rows[16_500..])),
    ];
    let cases = [
        json!({}),
        json!({"component": "answer", "per_problem": 1, "seed": 4, "where": "level < 3 and tool_errors = 0"}),
        json!({"by": "process_min", "min_gap": 0.3, "flip": 0.25}),
        json!({"by": "process_product", "where": "reward >= avg(reward)"}),
        json!({"cut": "step", "where": "prompt_tokens > 0", "min_gap": 0.2}),
        json!({"cut": "step", "by": "process_last", "where": "prompt_tokens > 0", "flip": 0.5, "per_problem": 9}),
    ];
    let found: Vec<(String, String)> = cases
        .iter()
        .enumerate()
        .map(|(i, options)| {
            let done = run(root.path(), &format!("pairs-{i}"), "data/pairs", options.clone(), &inputs).unwrap();
            let file = digest(&done.output("preferences").join("data.parquet"));
            (options.to_string(), format!("{file} {:?}", done.metrics))
        })
        .collect();
    expect_recorded(&found, &["", "", "", "", "", ""]);
}

/// Exports a table and returns the digest of the file, the number of rows and the omissions.
fn exported(table: &Path, kind: ArtifactKind, form: ExportForm, name: &str, file_kind: FileKind) -> String {
    let format = *registry::family().read(&Value::from(name)).unwrap().build(&()).unwrap();
    let mut omissions = ExportOmissions::default();
    let file = table.with_extension(file_kind.extension());
    let source = ExportSource { table, kind };
    let rows = write_export(source, (form, format), (&file, file_kind), &mut omissions).unwrap();
    let counts: Vec<u64> = omissions.counts().map(|(_, n)| n).collect();
    format!("{} {rows} {counts:?}", digest(&file))
}

#[test]
fn exports_equal_the_recorded_ones() {
    use ExportForm::{Preference, Prompts, Sft, Steps, Tokens};
    use FileKind::{JsonLines, Parquet};
    let root = tempfile::tempdir().unwrap();
    let problems: Vec<Problem> = (0..3000).map(made_rows::problem).collect();
    let rows: Vec<Trajectory> = (0..3000).map(|i| made_rows::trajectory(i, 40)).collect();
    let pairs: Vec<Trajectory> = (0..1500).flat_map(made_rows::pair).collect();
    let problems = made_rows::problems_artifact(root.path(), "problems", &problems).join("table");
    let rows = made_rows::trajectories_artifact(root.path(), "rows", &rows).join("table");
    let pairs = made_rows::trajectories_artifact(root.path(), "pairs", &pairs).join("table");
    for table in [&problems, &rows, &pairs] {
        std::fs::rename(table.with_file_name("data.parquet"), table).unwrap();
    }
    let cases = [
        (&rows, Sft, "trl", JsonLines),
        (&rows, Sft, "trl", Parquet),
        (&rows, Sft, "openai", JsonLines),
        (&rows, Sft, "sharegpt", JsonLines),
        (&rows, Sft, "verl", Parquet),
        (&rows, Tokens, "trl", JsonLines),
        (&rows, Tokens, "trl", Parquet),
        (&rows, Steps, "trl", JsonLines),
        (&pairs, Preference, "trl", JsonLines),
        (&pairs, Preference, "trl", Parquet),
        (&problems, Prompts, "trl", JsonLines),
        (&problems, Prompts, "verl", Parquet),
    ];
    let found = cases.map(|(table, form, name, file_kind)| {
        let kind = if form == Prompts { ArtifactKind::Problems } else { ArtifactKind::Trajectories };
        (format!("{} {name} {file_kind:?}", form.name()), exported(table, kind, form, name, file_kind))
    });
    expect_recorded(&found, &["", "", "", "", "", "", "", "", "", "", "", ""]);
}
