//! Compares the files of `data/select`, `data/pairs` and exports of made rows with recorded digests.

use crate::export::{ExportForm, ExportOmissions, ExportSource, FileKind, registry, write_export};
use crate::made_rows::{self, digest, expect_recorded};
use crate::stage_tests::{Done, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use trainyard_core::{ArtifactKind, Digest};
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

/// Returns a description of a stage with its metrics, and the digests of its output and its metrics.
fn recorded(done: &Done, options: &Value, port: &str) -> (String, String) {
    let metrics = format!("{:?}", done.metrics);
    let file = digest(&done.output(port).join("data.parquet"));
    (format!("{options} {metrics}"), format!("{file} {}", &Digest::of(metrics.as_bytes()).as_str()[..16]))
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
            recorded(&done, options, "problems")
        })
        .collect();
    expect_recorded(
        &found,
        &[
            "bf5ac356167c4834 b5ec4fada97d3cc2",
            "128f365da303119e 682574f88fe331a9",
            "36e57b3fb411e502 2ae9c9c301a83902",
            "eaa5ecbb83cb7fcd 9ee04033168f5088",
            "d6155f5fc44202e4 bb6c2ca603eeb77e",
            "d159ee73b09a0881 ebb7af60384724c2",
        ],
    );
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
            recorded(&done, options, "preferences")
        })
        .collect();
    expect_recorded(
        &found,
        &[
            "cf1e1834d160e69d 9f4273890d812cd2",
            "e6dbbf31edbd3439 126aaae9d4b91d6a",
            "6ed9a729c9ff4a41 049fbb62abe97767",
            "cecf46b8a5202a90 f726829c6cad825f",
            "e33a1da644ee4e2b 077749181bcc4304",
            "020605e76c591ecf fa08063c564a83bf",
        ],
    );
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
    expect_recorded(
        &found,
        &[
            "d5cb81124be0682c 2926 [74, 2926]",
            "9672d55830c48185 2926 [74, 2926]",
            "690005ab6377f588 2926 [373, 74, 2926]",
            "873ec77a1032265b 2926 [373, 266, 373, 74, 2926, 2926]",
            "434b88cff2dadba7 2926 [266, 74, 2926, 1045]",
            "e4afbf9a4a8a771f 2634 [74, 292, 239]",
            "468fa40f418e85a0 2634 [74, 292, 239]",
            "68938b5602b07281 2195 [732, 74, 731]",
            "13596cbe52bba73a 1199 [1, 300, 2398]",
            "4af73bcff818c10b 1199 [1, 300, 2398]",
            "e0d7073e0d31975a 3000 []",
            "7355b91a8f917a75 3000 []",
        ],
    );
}
